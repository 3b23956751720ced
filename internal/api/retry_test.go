package api_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider"
)

func TestAWaitingDeliveryIsRetriedNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, other := w.tenant("acme"), w.tenant("other")
	retry := "POST /deliveries/" + acme.delivery + "/retry"
	refused := func(want string) {
		t.Helper()
		if got := w.want(409, retry, ""); !strings.Contains(got.text, want) {
			t.Errorf("the retry is refused with %s, want %q", got.text, want)
		}
	}
	refused("the delivery does not wait for its retry. It is due")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 500})
	if got := w.do(w.bound(other), retry, ""); got.status != 404 {
		t.Errorf("another account's key retries it: %d %s", got.status, got.text)
	}
	w.want(200, "POST /endpoints/"+acme.endpoint+"/pause", "")
	refused("Its endpoint is paused")
	w.want(200, "POST /endpoints/"+acme.endpoint+"/resume", "")
	retried := w.want(200, retry, "")
	waiting, _ := retried.body["waiting"].(map[string]any)
	if retried.body["status"] != "pending" || waiting["reason"] != "due" || retried.body["attempts"] != 1.0 {
		t.Errorf("retried, it is %s; want it to be due after one attempt", retried.text)
	}
	refused("It is due")
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 200})
	has(t, "delivered", w.want(200, "GET /deliveries/"+acme.delivery, "").body, map[string]any{"status": "delivered", "attempts": 2.0})
	refused("the delivery is delivered")
	w.want(404, "POST /deliveries/x/retry", "")
}

func TestEndpointsAreListedByTheirIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme, other := w.tenant("acme"), w.tenant("other")
	both := "GET /endpoints?ids=" + acme.endpoint + "," + other.endpoint
	if got := w.want(200, both, "").data(); len(got) != 2 {
		t.Errorf("%d endpoints, want 2", len(got))
	}
	if got := w.do(w.bound(other), both, "").data(); len(got) != 1 || got[0]["id"] != other.endpoint {
		t.Errorf("the key of one account lists %v", got)
	}
	w.want(422, "GET /endpoints?ids=x", "")
	w.want(422, "GET /endpoints?ids="+strings.Repeat(acme.endpoint+",", 100)+acme.endpoint, "")
}
