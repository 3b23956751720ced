package api_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// wide publishes an event to n endpoints, each of which responds with 410.
func (w *world) wide(n int) (event string) {
	w.Helper()
	acme := w.tenant("acme")
	account, err := postrider.ParseID[postrider.AccountID](acme.account)
	if err != nil {
		w.Fatal(err)
	}
	e := store.NewEvent{Event: postrider.Event{
		ID: store.NewID[postrider.EventID](w.ids), Account: account, Type: "order.created",
		Data: []byte(`1`),
	}}
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

// TestAnEventIsReplayedToEveryEndpoint checks only the job, which package replay runs.
func TestAnEventIsReplayedToEveryEndpoint(t *testing.T) {
	t.Parallel()
	const endpoints = 5300
	w := newWorld(t)
	event := w.wide(endpoints)
	job := w.want(202, "POST /events/"+event+"/replay", "")
	has(t, "the job", job.body, map[string]any{
		"status": "running", "event": event, "per_second": 500.0, "expected": map[string]any{"matches": float64(endpoints), "exact": true},
	})
	if got := w.do(w.admin, "GET /replays/"+job.id("id"), ""); got.status != 200 {
		t.Errorf("GET of the job = %d %s", got.status, got.text)
	}
	for body, field := range map[string]string{
		`{"status": "pending"}`: "status", `{"per_second": 5001}`: "per_second", `{"per_second": 0}`: "per_second",
		`{"endpoint": "ep_x"}`: "endpoint", `{"made_before": null}`: "made_before",
	} {
		if got := w.want(422, "POST /events/"+event+"/replay", body); len(got.fields()) != 1 || got.fields()[0] != field {
			t.Errorf("replay with %s names %v", body, got.fields())
		}
	}
}

// TestAReplayOfAnEventThatRetentionDeletedIsGone checks that the event has no data after retention
// deleted it, and that every replay of it is refused with a 410.
func TestAReplayOfAnEventThatRetentionDeletedIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 200})
	old := store.DeleteOld{Kind: store.OldEvents, Before: time.Now().Add(time.Hour), Limit: 10}
	if n, err := w.store.DeleteOld(t.Context(), old); n != 1 || err != nil {
		t.Fatalf("deleted %d events (%v), want the delivered one", n, err)
	}
	event := w.want(200, "GET /events/"+acme.event, "")
	has(t, "the event", event.body, map[string]any{"id": acme.event, "account": acme.account, "type": "order.created"})
	if data, any := event.body["data"]; any {
		t.Errorf("the event has the data %v", data)
	}
	if d := w.want(200, "GET /events/"+acme.event+"/deliveries", "").data(); len(d) != 1 {
		t.Errorf("%d deliveries of the event are listed, want 1", len(d))
	}
	for _, route := range []string{"POST /events/" + acme.event + "/replay", "POST /deliveries/" + acme.delivery + "/replay"} {
		if got := w.want(410, route, ""); got.body["code"] != "gone" {
			t.Errorf("%s = %s, want the code gone", route, got.text)
		}
	}
	if got := w.do(w.bound(evil), "GET /events/"+acme.event, ""); got.status != 404 {
		t.Errorf("the event by a foreign key = %d, want 404", got.status)
	}
}
