package postrider_test

import (
	"testing"

	"github.com/postrider/postrider"
)

func TestSubscribes(t *testing.T) {
	t.Parallel()
	e := postrider.Endpoint{EventTypes: []postrider.Pattern{"order.*", "invoice.paid"}}
	for eventType, want := range map[string]bool{"order.created": true, "invoice.paid": true, "invoice.sent": false} {
		if got := e.Subscribes(eventType); got != want {
			t.Errorf("Subscribes(%s) = %t, want %t", eventType, got, want)
		}
	}
	if (postrider.Endpoint{}).Subscribes("order.created") {
		t.Error("an endpoint without patterns subscribes to order.created")
	}
}
