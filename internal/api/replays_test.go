package api_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// wide publishes an event to n endpoints, of which each answered 410.
func (w *world) wide(n int) (event string) {
	w.Helper()
	acme := w.tenant("acme")
	account, err := postrider.ParseID[postrider.AccountID](acme.account)
	if err != nil {
		w.Fatal(err)
	}
	e := store.NewEvent{Event: postrider.Event{ID: store.NewID[postrider.EventID](w.ids), Account: account, Type: "order.created", Data: []byte(`1`)}}
	for range n {
		to := postrider.Endpoint{
			ID: store.NewID[postrider.EndpointID](w.ids), Account: account, URL: "https://acme.example/hooks",
			Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
		}
		if _, err := w.store.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: to}); err != nil {
			w.Fatal(err)
		}
		e.Deliveries = append(e.Deliveries, store.NewDelivery{
			ID: store.NewID[postrider.DeliveryID](w.ids), Endpoint: to.ID, Skipped: postrider.ReasonEndpointDisabled,
		})
	}
	changes, err := w.store.Changes(w.Context(), 0, 1_000_000)
	if err != nil {
		w.Fatal(err)
	}
	if _, err := w.store.Publish(w.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{{e}}}); err != nil {
		w.Fatal(err)
	}
	return e.Event.ID.String()
}

// TestAnEventIsReplayedToEveryEndpoint replays more than one request replays,
// and repeats a request whose answer was lost.
func TestAnEventIsReplayedToEveryEndpoint(t *testing.T) {
	t.Parallel()
	const endpoints = 5300
	w := newWorld(t)
	route := "POST /events/" + w.wide(endpoints) + "/replay"
	made := map[any]bool{}
	body := ""
	for range 100 { // a slow machine needs several
		got := w.want(202, route, body)
		if n := len(got.data()); n > 5000 {
			t.Fatalf("one request replayed %d deliveries", n)
		}
		for _, d := range got.data() {
			if made[d["endpoint"]] {
				t.Fatalf("endpoint %v is replayed to twice", d["endpoint"])
			}
			made[d["endpoint"]] = true
		}
		before, _ := got.body["made_before"].(string)
		if before == "" {
			break
		}
		body = fmt.Sprintf(`{"made_before": %q}`, before)
	}
	if len(made) != endpoints {
		t.Errorf("the event was replayed to %d of %d endpoints", len(made), endpoints)
	}
}

func TestAReplayOfAnEventCanBeRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410})
	route := "POST /events/" + acme.event + "/replay"
	first := store.NewID[postrider.DeliveryID](w.ids).Time() // of the ids of this millisecond, or later
	before := first
	for !before.After(first) {
		before = store.NewID[postrider.DeliveryID](w.ids).Time()
	}
	once := `{"made_before": "` + before.UTC().Format(time.RFC3339Nano) + `"}`
	if got := w.want(202, route, once).data(); len(got) != 1 {
		t.Fatalf("the first request replayed %v", got)
	}
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 200})
	if got := w.want(202, route, once).data(); len(got) != 0 {
		t.Errorf("repeated, the request replayed %v", got)
	}
	if got := w.want(202, route, "").data(); len(got) != 1 {
		t.Errorf("another request replayed %v", got)
	}
	if got := w.want(422, route, `{"made_before": "yesterday"}`); len(got.fields()) != 1 || got.fields()[0] != "made_before" {
		t.Errorf("what is no time = %s", got.text)
	}
}
