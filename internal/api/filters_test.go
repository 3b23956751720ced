package api_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

// names returns the named member of every item of a list.
func names(r response, member string) (all []any) {
	for _, item := range r.data() {
		all = append(all, item[member])
	}
	return all
}

func TestAnEventIsFoundByItsIdempotencyKey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.tenant("acme")
	evil := w.tenant("evil")
	keyed := w.want(202, "POST /events", `{"account": "acme", "type": "order.paid", "data": 1, "idempotency_key": "order-42"}`)
	has(t, "the event", w.want(200, "GET /events/"+keyed.id("id"), "").body, map[string]any{"idempotency_key": "order-42"})
	got := w.want(200, "GET /events?account=acme&idempotency_key=order-42", "")
	if diff := cmp.Diff([]any{keyed.body["id"]}, names(got, "id")); diff != "" {
		t.Errorf("by its key (-want +got):\n%s", diff)
	}
	has(t, "an event without a key", w.want(200, "GET /events?account=evil", "").data()[0], map[string]any{"idempotency_key": nil})
	for _, other := range []response{
		w.want(200, "GET /events?account=acme&idempotency_key=order-43", ""),
		w.want(200, "GET /events?account=evil&idempotency_key=order-42", ""),
		w.do(w.bound(evil), "GET /events?idempotency_key=order-42", ""),
	} {
		if other.status != 200 || len(other.data()) != 0 {
			t.Errorf("another key, or another account's = %d %s", other.status, other.text)
		}
	}
}

// TestAPendingDeliverySaysWhyItWaits pauses and disables an endpoint, and opens its circuit. In
// none of these states may the next attempt be in the past.
func TestAPendingDeliverySaysWhyItWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	endpoint, delivery := "/endpoints/"+acme.endpoint, "/deliveries/"+acme.delivery
	waits := func(got response, reason string, known bool) {
		t.Helper()
		waiting, _ := got.body["waiting"].(map[string]any)
		if waiting["reason"] != reason || (waiting["until"] != nil) != known {
			t.Errorf("it waits for %v, want %s, known until when: %t", waiting, reason, known)
		}
		if reason != "due" && waiting["until"] != got.body["next_attempt_at"] {
			t.Errorf("it waits until %v and is attempted next at %v", waiting["until"], got.body["next_attempt_at"])
		}
	}
	due := w.want(200, "GET "+delivery, "")
	waits(due, "due", false)
	if due.body["next_attempt_at"] == nil {
		t.Error("what is due has no next attempt")
	}
	w.want(200, "POST "+endpoint+"/pause", "")
	waits(w.want(200, "GET "+delivery, ""), "endpoint_paused", false)
	w.want(200, "POST "+endpoint+"/resume", "")
	w.want(200, "POST "+endpoint+"/circuit", `{"status": "open"}`)
	waits(w.want(200, "GET "+delivery, ""), "circuit_open", true)
	w.want(200, "POST "+endpoint+"/circuit", `{"status": "closed"}`)
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 500})
	waits(w.want(200, "GET "+delivery, ""), "scheduled", true)

	cancelled := w.want(200, "POST "+delivery+"/cancel", "")
	has(t, "what is cancelled", cancelled.body, map[string]any{"waiting": nil, "next_attempt_at": nil})
	w.want(200, "POST "+endpoint+"/disable", "")
	waits(w.want(202, "POST "+delivery+"/replay", ""), "endpoint_disabled", false)
}

func TestHistoryIsFilteredAndOrdered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	w.want(200, "PATCH /endpoints/"+acme.endpoint, `{"uid": "main"}`)
	second := w.want(202, "POST /events", `{"account": "acme", "type": "order.paid", "data": 1}`).id("id")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410})
	first := acme.event
	for query, want := range map[string][]any{
		"/events?account=acme":                                                      {second, first},
		"/events?account=acme&order=desc":                                           {second, first},
		"/events?account=acme&order=asc":                                            {first, second},
		"/deliveries?order=asc":                                                     {first, second},
		"/deliveries?event=" + second:                                               {second},
		"/deliveries?account=acme&endpoint=main&order=asc":                          {first, second},
		"/deliveries?event=" + second + "&status=delivered":                         {},
		"/dead-letters?order=asc":                                                   {first, second},
		"/dead-letters?reason=gone":                                                 {second, first},
		"/dead-letters?account=acme&reason=exhausted":                               {},
		"/events/" + second + "/deliveries?order=asc":                               {second},
		"/endpoints/" + acme.endpoint + "/deliveries?order=asc":                     {first, second},
		"/endpoints/" + acme.endpoint + "/deliveries?event_type=order.paid":         {second},
		"/endpoints/" + acme.endpoint + "/deliveries?event=" + first:                {first},
		"/endpoints/" + acme.endpoint + "/deliveries?from=2001-01-01T00:00:00Z":     {second, first},
		"/endpoints/" + acme.endpoint + "/deliveries?to=2001-01-01T00:00:00Z":       {},
		"/endpoints/" + acme.endpoint + "/deliveries?status=dead&order=asc&limit=1": {first},
	} {
		member := "event"
		if strings.HasPrefix(query, "/events?") {
			member = "id"
		}
		got := names(w.want(200, "GET "+query, ""), member)
		if diff := cmp.Diff(want, append([]any{}, got...)); diff != "" {
			t.Errorf("GET %s (-want +got):\n%s", query, diff)
		}
	}
	w.want(422, "GET /deliveries?endpoint=main", "")
	bound := w.bound(acme)
	if got := w.do(bound, "GET /endpoints/main", ""); got.status != 200 || got.id("id") != acme.endpoint {
		t.Errorf("an endpoint by its uid = %d %s", got.status, got.text)
	}
	if got := w.do(w.bound(w.tenant("evil")), "GET /endpoints/main", ""); got.status != 404 {
		t.Errorf("another account's endpoint by its uid = %d %s", got.status, got.text)
	}
	for name, status := range map[string]int{
		"acme:main": 200, acme.account + ":main": 200, "acme:other": 404, "nobody:main": 404, "main": 404, "acme:": 404, ":main": 404,
	} {
		if got := w.do(w.admin, "GET /endpoints/"+name, ""); got.status != status || name == "acme:main" && got.id("id") != acme.endpoint {
			t.Errorf("an admin reads %s = %d %s, want %d", name, got.status, got.text, status)
		}
	}
	if got := w.do(w.bound(w.tenant("evil2")), "GET /endpoints/acme:main", ""); got.status != 404 {
		t.Errorf("another account's endpoint by its account and uid = %d %s", got.status, got.text)
	}
	w.want(200, "POST /endpoints/acme:main/pause", "")
	w.want(200, "GET /endpoints/acme:main/secrets", "")
}
