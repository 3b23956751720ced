package app_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/postrider/postrider/internal/testkit"
)

// handed returns how many deliveries the servers have handed to each other.
func (c *changes) handed(result string) (n float64) {
	for _, node := range c.nodes {
		n += sample(node.metrics(c.T), `postrider_deliveries_handed_total{result="`+result+`"}`)
	}
	return n
}

// TestADeliveryIsHandedToTheServerOfItsEndpoint publishes through two servers, for endpoints of both.
func TestADeliveryIsHandedToTheServerOfItsEndpoint(t *testing.T) {
	t.Parallel()
	c := newChanges(t, 2)
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	const endpoints = 16
	for i := range endpoints {
		c.endpoint(receiver.URL, fmt.Sprint("of.", i))
	}
	sent := 0
	testkit.Eventually(t, "deliveries are handed over", func() bool {
		for i := range endpoints {
			c.publish(c.apis[i%2], fmt.Sprint("of.", i), 1)
			sent++
		}
		return c.handed("ok") >= endpoints
	})
	testkit.Eventually(t, "all events arrive", func() bool { return len(receiver.Requests()) >= sent })
	if n := len(receiver.Requests()); n != sent {
		t.Errorf("%d requests arrived for %d deliveries", n, sent)
	}
}

// TestAServerWithoutPeersSendsWhatOthersPublished has servers to which nothing can be handed.
func TestAServerWithoutPeersSendsWhatOthersPublished(t *testing.T) {
	t.Parallel()
	c := newChangesWith(t, 2, map[string]string{"POSTRIDER_PEER_LISTEN": "none"})
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	const endpoints = 8
	for i := range endpoints {
		c.endpoint(receiver.URL, fmt.Sprint("of.", i))
		c.publish(c.apis[i%2], fmt.Sprint("of.", i), 1)
	}
	testkit.Eventually(t, "all events arrive", func() bool { return len(receiver.Requests()) == endpoints })
	if n := c.handed("ok"); n > 0 {
		t.Errorf("%v deliveries were handed over", n)
	}
}
