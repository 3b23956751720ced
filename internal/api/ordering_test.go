package api_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
)

func TestWhatWaitsByOrderingKeyIsListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	path := "/endpoints/" + acme.endpoint
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 200})
	if got := w.want(200, "GET "+path+"/ordering-keys", "").data(); len(got) != 0 {
		t.Errorf("without order: %v", got)
	}
	w.want(200, "PATCH "+path, `{"order": "by_key", "on_dead": "pause"}`)
	const order = `{"account": "acme", "type": "order.created", "data": 1, "ordering_key": `
	var events []string
	for _, key := range []string{`"b"`, `"a"`, `"a"`} {
		events = append(events, w.want(202, "POST /events", order+key+`}`).id("id"))
	}
	has(t, "event", w.want(200, "GET /events/"+events[2], "").body, map[string]any{"ordering_key": "a", "sequence": 2.0})
	head := w.want(200, "GET /events/"+events[1]+"/deliveries", "").data()[0]["id"]
	keys := w.want(200, "GET "+path+"/ordering-keys", "").data()
	if len(keys) != 2 || keys[1]["key"] != "b" {
		t.Fatalf("ordering keys = %v, want a and b", keys)
	}
	has(t, "key", keys[0], map[string]any{"key": "a", "waiting": 2.0, "head": head, "sequence": 1.0, "paused_by": nil})
	if lag, ok := keys[0]["lag_ms"].(float64); !ok || lag < 0 || lag > 60_000 {
		t.Errorf("lag_ms = %v", keys[0]["lag_ms"])
	}
	first := w.want(200, "GET "+path+"/ordering-keys?limit=1", "")
	if next := w.want(200, "GET "+path+"/ordering-keys?limit=1&cursor="+first.id("next_cursor"), "").data(); len(next) != 1 ||
		next[0]["key"] != "b" {
		t.Errorf("second page = %v", next)
	}

	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410}) // the heads of both
	keys = w.want(200, "GET "+path+"/ordering-keys", "").data()
	if len(keys) != 2 {
		t.Fatalf("ordering keys = %v, want a and b, paused", keys)
	}
	has(t, "paused", keys[0], map[string]any{"key": "a", "waiting": 1.0, "paused_by": head})
	w.want(200, "POST /dead-letters/"+head.(string)+"/discard", "")
	has(t, "going on", w.want(200, "GET "+path+"/ordering-keys", "").data()[0], map[string]any{"paused_by": nil, "sequence": 2.0})

	w.want(422, "GET "+path+"/ordering-keys?limit=0", "")
	w.want(404, "GET /endpoints/ep_x/ordering-keys", "")
	w.want(204, "DELETE "+path, "")
	w.want(404, "GET "+path+"/ordering-keys", "")
}

func TestHealthIsListedNewestFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	path := "/endpoints/" + acme.endpoint
	if got := w.want(200, "GET "+path+"/health", "").data(); len(got) != 0 {
		t.Errorf("of a new endpoint: %v", got)
	}
	endpoint, err := postrider.ParseID[postrider.EndpointID](acme.endpoint)
	if err != nil {
		t.Fatal(err)
	}
	account, err := postrider.ParseID[postrider.AccountID](acme.account)
	if err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 11, 21, 5, 0, 0, 0, time.UTC)
	for _, s := range []postrider.EndpointHealth{
		{Number: 1, Status: postrider.HealthWarned, Reason: postrider.ReasonFailing, Warnings: 1, Since: since},
		{Number: 2, Status: postrider.HealthDisabled, Reason: postrider.ReasonFailing, Warnings: 1, Since: since.Add(time.Hour)},
	} {
		s.Endpoint, s.Account = endpoint, account
		if err := w.store.PutHealth(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	history := w.want(200, "GET "+path+"/health", "").data()
	if len(history) != 2 {
		t.Fatalf("history = %v", history)
	}
	has(t, "disabled", history[0], map[string]any{
		"number": 2.0, "status": "disabled", "reason": "failing",
		"since": "2026-11-21T06:00:00.000000Z",
	})
	has(t, "warned", history[1], map[string]any{"number": 1.0, "status": "warned", "reason": "failing", "warnings": 1.0})
	has(t, "endpoint", w.want(200, "GET "+path, "").body, map[string]any{"status": "disabled", "status_reason": "failing"})
	w.want(204, "DELETE "+path, "")
	if got := w.want(200, "GET "+path+"/health", "").data(); len(got) != 2 {
		t.Errorf("of a deleted endpoint: %v", got)
	}
}
