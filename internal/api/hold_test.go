package api_test

import (
	"testing"

	"github.com/postrider/postrider"
)

// TestAHoldIsSeenByEveryCaller checks that every caller that may see deliveries also sees the hold.
// The number of deliveries that may repeat in all accounts is not shown to a caller of one account.
func TestAHoldIsSeenByEveryCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	reader := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeWebhooksRead}})
	publisher := w.key(postrider.APIKey{Scopes: []postrider.Scope{postrider.ScopeEventsWrite}})
	see := func(key string, want map[string]any) {
		t.Helper()
		got := w.do(key, "GET /hold", "")
		if got.status != 200 {
			t.Fatalf("GET /hold = %d %s", got.status, got.text)
		}
		has(t, "the hold", got.body, want)
	}
	see(reader, map[string]any{"held": false, "since": nil, "deliveries": 0.0, "fan_outs": 0.0})
	see(w.bound(acme), map[string]any{"held": false, "since": nil, "deliveries": nil, "fan_outs": nil})
	if _, err := w.store.PutHold(t.Context(), postrider.HoldRestored); err != nil {
		t.Fatal(err)
	}
	see(reader, map[string]any{"held": true, "reason": "restored", "deliveries": 1.0})
	see(w.bound(acme), map[string]any{"held": true, "reason": "restored", "deliveries": nil, "fan_outs": nil})
	for key, routes := range map[string][]string{
		publisher: {"GET /hold"}, reader: {"POST /hold/resume"},
		w.bound(acme): {"POST /hold/resume"},
	} {
		for _, route := range routes {
			if got := w.do(key, route, ""); got.status != 403 {
				t.Errorf("%s = %d, want 403", route, got.status)
			}
		}
	}
}
