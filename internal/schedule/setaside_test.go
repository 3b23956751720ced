package schedule

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// TestAnEndpointWithAnUnreadablePolicyIsHeld sets an endpoint aside while five of its attempts are
// in flight and other deliveries are leased.
func TestAnEndpointWithAnUnreadablePolicyIsHeld(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id, other := h.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 5 }), h.endpoint("b.example", nil)
	h.publish(id, 30)
	h.expect(id, 5, "at first")
	policy := h.routed[id].Endpoint.Policy
	h.alter(id, func(to *store.EndpointSnapshot) {
		to.Endpoint.PolicyError, to.Endpoint.Policy = "concurency is not a field", postrider.Policy{}
	})
	for range 5 {
		h.over(id, a500)
	}
	if len(h.leased) != 0 || len(h.rows[id]) != 30 {
		t.Errorf("%d deliveries are leased and %d wait, want that all 30 wait", len(h.leased), len(h.rows[id]))
	}
	if !h.c.endpoints[id].isOpen() {
		t.Error("the attempts that were in flight did not end by the policy that they started with: the circuit is closed")
	}
	h.publish(id, 1)
	h.publish(other, 1)
	h.wait(time.Hour)
	h.expect(id, 0, "an hour later")
	h.over(other, a200)

	h.respond = func(*Delivery) postrider.Attempt { return a200 }
	h.alter(id, func(to *store.EndpointSnapshot) { to.Endpoint.PolicyError, to.Endpoint.Policy = "", policy })
	h.wait(time.Hour)
	if len(h.rows[id]) != 0 || len(h.settled) != 5+1+31 {
		t.Errorf("after the mend %d deliveries wait, and %d attempts were made, want 0 and 37", len(h.rows[id]), len(h.settled))
	}
}
