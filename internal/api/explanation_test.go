package api_test

import (
	"strings"
	"testing"

	"github.com/postrider/postrider"
)

func TestOneDeliveryIsExplained(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	acme := w.tenant("acme")
	explained := func(why, next, action, text string) {
		t.Helper()
		got, _ := w.want(200, "GET /deliveries/"+acme.delivery, "").body["explanation"].(map[string]any)
		if got["why"] != why || got["next"] != next || got["action"] != action || !strings.Contains(got["text"].(string), text) {
			t.Errorf("explanation %v, want %s, %s, %q and %q", got, why, next, action, text)
		}
	}
	w.settle(acme.endpoint, postrider.Attempt{StatusCode: 503})
	explained("pending.retry", "attempt", "", "Attempt 1 failed (HTTP 503). Attempt 2 follows at ")
	w.want(200, "POST /endpoints/"+acme.endpoint+"/pause", `{"reason": "maintenance"}`)
	explained("pending.endpoint_paused", "nothing", "resume", "paused (maintenance)")
	w.want(200, "POST /deliveries/"+acme.delivery+"/cancel", "")
	explained("cancelled.cancelled", "nothing", "replay", "A person cancelled it.")
	w.want(204, "DELETE /endpoints/"+acme.endpoint, "")
	explained("cancelled.cancelled", "nothing", "", "A person cancelled it.")
	if list := w.want(200, "GET /deliveries", "").data(); list[0]["explanation"] != nil {
		t.Errorf("a list explains: %v", list[0])
	}
}
