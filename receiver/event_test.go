package receiver_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/postrider/postrider/receiver"
	"github.com/postrider/postrider/signature"
)

// For every scheme: whether changing an unsigned id makes another event of a request, and whether
// two events with the same body are one.
func TestEventIdentity(t *testing.T) {
	t.Parallel()
	for scheme, want := range map[signature.Scheme]struct {
		header string // header of the unsigned id
		id     string // id of the event
		kind   string // header of the event's type; empty: no header has it
	}{
		signature.Standard:    {id: "evt_1"},
		signature.Svix:        {id: "evt_1"},
		signature.Timestamped: {header: "Webhook-Id", id: "evt_1"},
		signature.GitHub:      {header: "X-GitHub-Delivery", id: "dlv_evt_1", kind: "order.created"},
		signature.GitHubSHA1:  {header: "X-GitHub-Delivery", id: "dlv_evt_1", kind: "order.created"},
		signature.Shopify:     {header: "X-Shopify-Event-Id", id: "evt_1", kind: "order.created"},
		signature.Plain:       {header: "X-Event-ID", id: "evt_1", kind: "order.created"},
		signature.Stripe:      {},
		signature.Slack:       {},
	} {
		t.Run(string(scheme), func(t *testing.T) {
			t.Parallel()
			var got []receiver.Event
			h := newHooksOf(t, newMemory(), func(e receiver.Event) error {
				got = append(got, e)
				return nil
			}, by(scheme))
			for range 2 {
				h.wantStatus(t, h.request(t, "evt_1", `{"type":"paid"}`), 204)
			}
			if len(got) != 1 || got[0].Scheme != scheme || want.id != "" && got[0].ID != want.id || got[0].ID == "" {
				t.Fatalf("the events are %+v, want one that is %s", got, want.id)
			}
			if timed := want.kind == ""; got[0].Timestamp.IsZero() == timed {
				t.Errorf("the timestamp is %v", got[0].Timestamp)
			}
			if kind := got[0].Type; kind != want.kind && (want.kind != "" || kind != "paid") {
				t.Errorf("the type is %q", kind)
			}
			h.wantStatus(t, h.request(t, "evt_2", `{"type":"paid"}`), 204)
			named := want.id != ""
			if len(got) == 2 != named {
				t.Errorf("two events with the same bytes are %d", len(got))
			}
			if want.header == "" {
				return
			}
			// A person who recorded a request gives it the id of a later event.
			recorded := h.request(t, "evt_1", `{"type":"paid"}`)
			recorded.Header.Set(want.header, strings.Replace(want.id, "1", "3", 1))
			h.wantStatus(t, recorded, 204)
			got = nil
			h.wantStatus(t, h.request(t, "evt_3", `{"type":"paid","order":3}`), 204)
			if len(got) != 1 {
				t.Error("the event was taken for the forged one")
			}
		})
	}
}

// If Identify finds an id in the body, which is signed, the headers do not matter.
func TestEventIdentified(t *testing.T) {
	t.Parallel()
	var ids []string
	h := newHooksOf(t, newMemory(), func(e receiver.Event) error {
		ids = append(ids, e.ID)
		return nil
	}, setup{receiver.Options{Identify: func(e receiver.Event) string {
		var body struct{ ID string }
		if err := json.Unmarshal(e.Body, &body); err != nil {
			return ""
		}
		return body.ID
	}}, by(signature.GitHub).schemes})
	h.wantStatus(t, h.request(t, "evt_1", `{"id":"a"}`), 204)
	h.wantStatus(t, h.request(t, "evt_2", `{"id":"a"}`), 204)
	h.wantStatus(t, h.request(t, "evt_2", `{"id":"a","attempt":2}`), 204)
	h.wantStatus(t, h.request(t, "evt_3", `{"id":"b"}`), 204)
	h.wantStatus(t, h.request(t, "evt_4", `no id`), 204)
	if want := []string{"a", "b", "dlv_evt_4"}; !slices.Equal(ids, want) {
		t.Errorf("the events are %q, want %q", ids, want)
	}
}

// A receiver that changes from one scheme to another gets requests in both for a time.
func TestReceiverAcceptsAnyOfItsVerifiers(t *testing.T) {
	t.Parallel()
	var schemes []signature.Scheme
	h := newHooksOf(t, newMemory(), func(e receiver.Event) error {
		schemes = append(schemes, e.Scheme)
		return nil
	}, by(signature.Standard, signature.Svix, signature.Stripe))
	both := h.request(t, "evt_1", `{}`)
	h.format.Scheme = signature.Stripe
	maps.Copy(both.Header, h.request(t, "evt_1", `{}`).Header)
	h.wantStatus(t, both, 204)
	h.format.Scheme = signature.Svix
	h.wantStatus(t, h.request(t, "evt_1", `{}`), 204) // the same event, from before the change of scheme
	h.wantStatus(t, h.request(t, "evt_2", `{}`), 204)
	h.format.Scheme = signature.Slack
	h.wantStatus(t, h.request(t, "evt_3", `{}`), 401)
	if want := []signature.Scheme{signature.Standard, signature.Svix}; !slices.Equal(schemes, want) {
		t.Errorf("the events were verified by %q, want %q", schemes, want)
	}
}

// An id that is too long for an index, and an id that looks like a hash, are valid ids.
func TestEventWithALongID(t *testing.T) {
	t.Parallel()
	for name, open := range openStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			h := newHooks(t, open(t), func(receiver.Event) error {
				calls++
				return nil
			})
			long := strings.Repeat("x", 20_000)
			for _, id := range []string{long + "1", long + "2", long + "1"} {
				h.wantStatus(t, h.request(t, id, `{}`), 204)
			}
			if calls != 2 {
				t.Errorf("the handler was called %d times for two events", calls)
			}
		})
	}
}
