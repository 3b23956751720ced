package api_test

import (
	"fmt"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
)

func TestAnAccountIsDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, evil := w.tenant("acme"), w.tenant("evil")
	bound := w.bound(acme)
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 410})
	w.want(202, "POST /events", `{"account": "acme", "type": "order.paid", "data": 1}`)
	w.want(204, "DELETE /accounts/acme", "")
	w.want(404, "DELETE /accounts/acme", "")
	w.want(404, "DELETE /accounts/"+acme.account, "")

	if got := w.do(bound, "GET /events", ""); got.status != 401 {
		t.Errorf("a key of the deleted account = %d %s, want 401", got.status, got.text)
	}
	for _, name := range []string{"acme", acme.account} {
		if got := w.do(w.admin, "POST /events", `{"account": "`+name+`", "type": "a", "data": 1}`); got.status != 422 {
			t.Errorf("a publish to %s = %d %s, want 422", name, got.status, got.text)
		}
		w.want(422, "POST /endpoints", `{"account": "`+name+`", "url": "https://x", "event_types": ["*"]}`)
		w.want(422, "POST /api-keys", `{"account": "`+name+`", "name": "x", "scopes": ["webhooks:read"]}`)
		w.want(404, "PATCH /accounts/"+name, `{"name": "x"}`)
	}
	w.want(404, "GET /accounts/acme", "")
	if got := w.want(200, "GET /accounts/"+acme.account, ""); got.body["deleted_at"] == nil {
		t.Errorf("the deleted account = %s", got.text)
	}
	has(t, "another account", w.want(200, "GET /accounts/evil", "").body, map[string]any{"id": evil.account, "deleted_at": nil})

	if n, err := w.store.DeleteEndpoints(t.Context(), 10); err != nil || n != 1 {
		t.Errorf("deleted %d endpoints, %v", n, err)
	}
	if n, _, err := w.store.CancelDeleted(t.Context(), 10); err != nil || n != 1 {
		t.Errorf("cancelled %d deliveries, %v", n, err)
	}
	has(t, "its endpoint", w.want(200, "GET /endpoints/"+acme.endpoint, "").body, map[string]any{"status": "deleted"})
	for list, want := range map[string]int{
		"/events": 2, "/deliveries": 2, "/dead-letters": 1, "/deliveries?status=cancelled": 1,
		"/endpoints": 0,
	} {
		sign := "?"
		if list == "/deliveries?status=cancelled" {
			sign = "&"
		}
		if got := w.want(200, "GET "+list+sign+"account="+acme.account, "").data(); len(got) != want {
			t.Errorf("%s of the deleted account = %v, want %d", list, got, want)
		}
	}
	again := w.want(201, "POST /accounts", `{"uid": "acme"}`)
	if again.id("id") == acme.account {
		t.Error("the deleted account is back")
	}
}

func TestAnAccountKeepsLess(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, api.Options{Retention: postrider.AccountRetention{Events: 30, Attempts: 90, IdempotencyKeys: 40}})
	made := w.want(201, "POST /accounts", `{"uid": "acme", "keep_events_days": 7, "keep_idempotency_keys_days": 7}`)
	has(t, "the account", made.body, map[string]any{
		"keep_events_days": 7.0, "keep_attempts_days": nil, "keep_bodies_days": nil, "keep_idempotency_keys_days": 7.0,
	})
	changed := w.want(200, "PATCH /accounts/acme", `{"keep_events_days": null, "keep_attempts_days": 90}`)
	has(t, "the changed account", changed.body, map[string]any{
		"keep_events_days": nil, "keep_attempts_days": 90.0, "keep_bodies_days": nil, "keep_idempotency_keys_days": 7.0,
	})
	for body, want := range map[string]string{
		`{"keep_events_days": 0}`:              "keep_events_days out_of_range",
		`{"keep_events_days": 31}`:             "keep_events_days out_of_range",
		`{"keep_attempts_days": -1}`:           "keep_attempts_days out_of_range",
		`{"keep_bodies_days": 1}`:              "keep_bodies_days not_allowed", // the server keeps them for hours
		`{"keep_events_days": 6}`:              "keep_idempotency_keys_days contradictory",
		`{"keep_idempotency_keys_days": 31}`:   "keep_idempotency_keys_days contradictory",
		`{"keep_idempotency_keys_days": "7"}`:  "keep_idempotency_keys_days malformed",
		`{"keep_events_days": 5, "name": "x"}`: "keep_idempotency_keys_days contradictory",
	} {
		faults, _ := w.want(422, "PATCH /accounts/acme", body).body["errors"].([]any)
		if len(faults) != 1 {
			t.Errorf("%s: the faults are %v, want one: %s", body, faults, want)
			continue
		}
		fault, _ := faults[0].(map[string]any)
		if got := fmt.Sprint(fault["field"], " ", fault["code"]); got != want {
			t.Errorf("%s: the fault is %s, want %s", body, got, want)
		}
	}
	has(t, "the account afterwards", w.want(200, "GET /accounts/acme", "").body, map[string]any{"keep_attempts_days": 90.0, "name": ""})
}
