package ingest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/store"
)

// ordered makes an endpoint with order by_key.
func (r *harness) ordered(onDead postrider.OnDead, pattern postrider.Pattern) postrider.EndpointID {
	r.Helper()
	e := postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](r.ids), Account: r.account, URL: "https://a.example",
		EventTypes: []postrider.Pattern{pattern}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}
	e.Policy.Order, e.Policy.OnDead = postrider.OrderByKey, onDead
	if _, err := r.store.PutEndpoint(r.Context(), store.PutEndpoint{Endpoint: e}); err != nil {
		r.Fatal(err)
	}
	return e.ID
}

func (r *harness) keyed(key string) postrider.Event {
	e := r.event("", `1`)
	e.OrderingKey = key
	return e
}

// recordingInbox is an inbox that keeps the deliveries that it was given.
type recordingInbox struct {
	store.Inbox

	mu         sync.Mutex
	deliveries []store.NewDelivery
}

func (i *recordingInbox) Publish(ctx context.Context, p store.Publish) ([]store.Published, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, batch := range p.Batches {
		for _, e := range batch {
			i.deliveries = append(i.deliveries, e.Deliveries...)
		}
	}
	return i.Inbox.Publish(ctx, p)
}

func TestOrderedDeliveriesWaitForThePreviousOne(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	inbox := &recordingInbox{Inbox: r.store}
	r.inbox = inbox
	r.endpoints(1, postrider.EndpointEnabled)
	skip, pause := r.ordered(postrider.SkipDead, "order.*"), r.ordered(postrider.PauseOnDead, "order.*")
	defer r.run()()
	r.publish(r.keyed("k"), r.keyed(""))
	if len(r.started) != 4 { // one delivery of the first event, three of the second
		t.Errorf("%d deliveries were admitted, want 4", len(r.started))
	}
	want := map[postrider.EndpointID]postrider.OnDead{skip: postrider.SkipDead, pause: postrider.PauseOnDead}
	for i, d := range inbox.deliveries {
		if onDead := want[d.Endpoint]; i < 3 && (d.Ordered != onDead || (onDead != "" && d.Token != 0)) {
			t.Errorf("with a key: %+v, want Ordered %q", d, onDead)
		}
		if i >= 3 && d.Ordered != "" {
			t.Errorf("without a key: %+v", d)
		}
	}
}

func TestAnEventInOrderGetsNoJob(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{FanOutAbove: 10})
	defer r.run()()
	r.endpoints(20, postrider.EndpointEnabled)
	r.ordered(postrider.SkipDead, "user.*")
	if got := r.publish(r.keyed("k"))[0]; !got.FanOut {
		t.Errorf("nobody who gets it wants order: %+v, want a job", got)
	}
	r.ordered(postrider.SkipDead, "order.*")
	if got := r.publish(r.keyed("k"))[0]; got.FanOut || got.Deliveries != 21 {
		t.Errorf("in order: %+v, want 21 deliveries", got)
	}
	if got := r.publish(r.keyed(""))[0]; !got.FanOut {
		t.Errorf("without a key: %+v, want a job", got)
	}
}

func TestTooManyInOrderAreRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{})
		r.ordered(postrider.SkipDead, "*")
		r.endpoints(1999, postrider.EndpointEnabled)
		defer r.run()()
		if got := r.publish(r.keyed("k"))[0]; got.FanOut || got.Deliveries != 2000 {
			t.Errorf("2,000 in order: %+v", got)
		}
		events := make([]postrider.Event, 11)
		for i := range events {
			events[i] = r.keyed("k")
		}
		r.refused("events[10].ordering_key", events...)
		r.endpoints(1, postrider.EndpointEnabled)

		// Publishes in the same group must not be refused.
		var others sync.WaitGroup
		for range 10 {
			others.Go(func() {
				if got := r.publish(r.keyed(""))[0]; !got.FanOut {
					t.Errorf("without a key: %+v, want a job", got)
				}
			})
			others.Go(func() { r.refused("ordering_key", r.keyed("k")) })
		}
		others.Wait()
	})
}

func (r *harness) refused(field string, events ...postrider.Event) {
	r.Helper()
	_, err := r.in.Publish(r.Context(), events)
	if faults := postrider.Faults(err); !errors.Is(err, postrider.ErrInvalid) || len(faults) != 1 || faults[0].Field != field {
		r.Errorf("Publish = %v, want a fault of %s", err, field)
	}
}

// TestAnOrderThatCannotBeReadIsKept publishes for an endpoint whose stored policy is of a newer
// version. A few such endpoints get the event in order. If there are too many for that, the event
// is still not refused.
func TestAnOrderThatCannotBeReadIsKept(t *testing.T) {
	t.Parallel()
	h := newHarness(t, ingest.Options{})
	inbox := &recordingInbox{Inbox: h.store}
	h.inbox = inbox
	id := h.ordered(postrider.SkipDead, "order.*")
	if err := h.store.SetPolicyDocument(h.Context(), id, `{"version":2}`); err != nil {
		t.Fatal(err)
	}
	defer h.run()()
	h.publish(h.keyed("k"), h.keyed(""))
	if len(inbox.deliveries) != 2 || inbox.deliveries[0].Ordered != postrider.PauseOnDead || inbox.deliveries[1].Ordered != "" {
		t.Errorf("deliveries %+v, want the first in order, and the key paused after a dead letter", inbox.deliveries)
	}
	if d := inbox.deliveries[0]; d.Expiry != postrider.MaxExpiry || d.Wait != 0 {
		t.Errorf("the delivery waits %v and expires after %v, want no delay and the longest expiry", d.Wait, d.Expiry)
	}
	h.endpoints(1000, postrider.EndpointEnabled)
	if err := h.table.Refresh(h.Context()); err != nil {
		t.Fatal(err)
	}
	h.publish(h.keyed("k"))
}
