package api_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// parsed returns the id of a text.
func parsed[I postrider.EndpointID | postrider.AccountID](t testing.TB, text string, parse func(string) (I, error)) I {
	t.Helper()
	id, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// publishTo stores n deliveries of the tenant's endpoint.
func (w *world) publishTo(of tenant, n int, expiry time.Duration) {
	w.Helper()
	ids := store.NewIDs(time.Now, nil)
	endpoint := parsed(w, of.endpoint, postrider.ParseID[postrider.EndpointID])
	changes, err := w.store.Changes(w.Context(), 0, 1000)
	if err != nil {
		w.Fatal(err)
	}
	var batch store.Batch
	for range n {
		batch = append(batch, store.NewEvent{
			Event: postrider.Event{
				ID: store.NewID[postrider.EventID](ids), Type: "order.created", Data: []byte(`{}`),
				Account: parsed(w, of.account, postrider.ParseID[postrider.AccountID]),
			},
			Deliveries: []store.NewDelivery{{
				ID: store.NewID[postrider.DeliveryID](ids), Endpoint: endpoint, Lane: postrider.LaneFirst,
				Expiry: expiry,
			}},
		})
	}
	if _, err := w.store.Publish(w.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{batch}}); err != nil {
		w.Fatal(err)
	}
}

// fold adds the ended deliveries to the statistics.
func (w *world) fold() {
	w.Helper()
	if _, err := w.store.FoldRollups(w.Context(), store.Fold{Deltas: 1000}); err != nil {
		w.Fatal(err)
	}
}

func TestListedEndpointsSayHowTheyFare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fine, failing, warned := w.tenant("fine"), w.tenant("failing"), w.tenant("warned")
	w.settle(fine.endpoint, postrider.Attempt{StatusCode: 200})
	w.publishTo(fine, 1, time.Hour)
	w.settle(warned.endpoint, postrider.Attempt{StatusCode: 410})
	w.want(200, "POST /endpoints/"+warned.endpoint+"/enable", "")
	w.publishTo(warned, 3, time.Hour)
	w.settle(warned.endpoint, postrider.Attempt{StatusCode: 204})
	w.publishTo(failing, store.MaxPending, time.Hour) // besides the one of the tenant
	w.fold()
	since := time.Now().UTC().Add(-time.Minute).Truncate(time.Millisecond)
	_, err := w.store.PutCircuit(t.Context(), store.PutCircuit{Circuit: postrider.Circuit{
		Endpoint: parsed(t, failing.endpoint, postrider.ParseID[postrider.EndpointID]), Status: postrider.CircuitOpen, FailingSince: since,
		ProbeAt: time.Now().Add(time.Hour),
	}})
	if err != nil {
		t.Fatal(err)
	}
	health := func(of tenant, h postrider.EndpointHealth) {
		h.Endpoint, h.Account = parsed(t, of.endpoint, postrider.ParseID[postrider.EndpointID]),
			parsed(t, of.account, postrider.ParseID[postrider.AccountID])
		if err := w.store.PutHealth(t.Context(), h); err != nil {
			t.Fatal(err)
		}
	}
	health(warned, postrider.EndpointHealth{
		Number: 1, Status: postrider.HealthWarned, Reason: postrider.ReasonDeadLetters, Warnings: 1,
		Since: since,
	})

	state := func(of tenant) map[string]any {
		listed := w.want(200, "GET /endpoints?account="+of.account, "").data()
		return listed[0]["state"].(map[string]any)
	}
	has(t, "one that is fine", state(fine), map[string]any{
		"health": "healthy", "health_reason": nil, "circuit": "closed", "failing_since": nil,
		"pending": 1.0, "pending_more": false, "delivered": 1.0, "dead": 0.0, "success_rate": 1.0,
	})
	has(t, "one that fails", state(failing), map[string]any{
		"health": "healthy", "circuit": "open", "failing_since": since.Format("2006-01-02T15:04:05.000000Z"),
		"pending": 1000.0, "pending_more": true, "delivered": 0.0, "dead": 0.0, "success_rate": nil,
	})
	has(t, "one that is warned", state(warned), map[string]any{
		"health": "warned", "health_reason": "dead_letters", "delivered": 3.0, "dead": 1.0, "success_rate": 0.75,
	})
	if got := w.want(200, "GET /endpoints/"+fine.endpoint, ""); got.body["state"] != nil {
		t.Errorf("one endpoint has a state: %v", got.body["state"])
	}
	for query, want := range map[string]string{
		"failing=true": failing.endpoint, "circuit=open": failing.endpoint, "health=warned": warned.endpoint,
		"circuit=closed&health=healthy": fine.endpoint, "failing=true&health=healthy": failing.endpoint,
		"failing=false&health=healthy": fine.endpoint,
	} {
		if got := w.want(200, "GET /endpoints?"+query, "").data(); len(got) != 1 || got[0]["id"] != want {
			t.Errorf("%s lists %v, want %s", query, got, want)
		}
	}
	w.want(422, "GET /endpoints?health=ill", "")
	w.want(422, "GET /endpoints?failing=perhaps", "")
}

func TestCountsOfDeadLettersSayWhetherTheyStopped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	few, many := w.tenant("few"), w.tenant("many")
	w.publishTo(few, store.MaxGroupCount-1, 0)
	w.publishTo(many, store.MaxGroupCount, 0)
	if n, _, err := w.store.Expire(t.Context(), 10_000); err != nil || n != 2*store.MaxGroupCount-1 {
		t.Fatalf("%d deliveries are dead letters, %v", n, err)
	}
	got := w.want(200, "GET /troubled-endpoints", "").data()
	if len(got) != 2 {
		t.Fatalf("%d endpoints need a person, want 2", len(got))
	}
	has(t, "many", got[0], map[string]any{"endpoint": many.endpoint, "dead_letters": 1000.0, "dead_letters_more": true})
	has(t, "few", got[1], map[string]any{"endpoint": few.endpoint, "dead_letters": 999.0, "dead_letters_more": false})
}
