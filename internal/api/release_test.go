package api_test

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// park lets nodes die with the only due delivery of the endpoint, until the delivery is parked.
func (w *world) park(endpoint string) {
	w.Helper()
	id, err := postrider.ParseID[postrider.EndpointID](endpoint)
	if err != nil {
		w.Fatal(err)
	}
	nodes := w.store.(store.Nodes) //nolint:forcetypeassert // the memory store has the role
	for range postrider.SuspectedAfter + postrider.ParkedAfter {
		claim := store.Claim{Token: 7<<32 | 1}
		for _, lane := range postrider.Lanes {
			claim.Wants = append(claim.Wants, store.Want{Endpoint: id, Lane: lane, N: 10, Lease: time.Minute})
		}
		if claims, err := w.store.Claim(w.Context(), claim); err != nil || len(claims.Items) != 1 {
			w.Fatalf("claimed %+v, %v; want the one delivery", claims.Items, err)
		}
		if _, err := nodes.Heartbeat(w.Context(), store.Heartbeat{Incarnation: 7, TTL: 1}); err != nil {
			w.Fatal(err)
		}
		for reclaimed := 0; reclaimed == 0; { // until the beat is over
			if reclaimed, err = nodes.Reclaim(w.Context(), 7, 10); err != nil {
				w.Fatal(err)
			}
		}
	}
}

func TestAParkedDeliveryIsReleased(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, other := w.tenant("acme"), w.tenant("other")
	release := "POST /deliveries/" + acme.delivery + "/release"
	if got := w.want(409, release, ""); got.body["detail"] != "the delivery is not parked" {
		t.Errorf("the release of what is not parked says %s", got.text)
	}
	w.park(acme.endpoint)
	parked := w.want(200, "GET /deliveries/"+acme.delivery, "")
	has(t, "parked", parked.body, map[string]any{"status": "pending", "next_attempt_at": nil, "attempts": 8.0})
	if got := w.do(w.bound(other), release, ""); got.status != 404 {
		t.Errorf("another account's key releases it: %d %s", got.status, got.text)
	}
	released := w.want(200, release, "")
	waiting, _ := released.body["waiting"].(map[string]any)
	if released.body["status"] != "pending" || waiting["reason"] != "suspected" {
		t.Errorf("released, it is %s; want it to wait for its turn", released.text)
	}
	w.want(409, release, "")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 200})
	has(t, "delivered", w.want(200, "GET /deliveries/"+acme.delivery, "").body, map[string]any{"status": "delivered"})
}
