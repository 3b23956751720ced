package schedule

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestAnEndpointThatIsGoneAndCouldNotBeDisabledIsSentTo(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	gone := postrider.Attempt{Outcome: postrider.OutcomeGone, StatusCode: 410, Duration: time.Millisecond}
	found := LanesDue{Lanes: []store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}}
	for range 2 {
		do := decide(c, now, stored{started: admitted(c, now, id)})
		if len(do.Send) != 1 {
			t.Fatalf("%d sent, want 1", len(do.Send))
		}
		it := do.Send[0]
		do = decide(c, now, over(it, gone), found)
		if len(do.Disable) != 1 || do.Disable[0] != (Disable{id, postrider.ReasonGone}) || do.Claim != nil {
			t.Fatalf("%v to be disabled and claimed %v, want the endpoint that answered 410, and nothing", do.Disable, do.Claim)
		}
		do = decide(c, now, DisableEnded{id})
		if do.Claim == nil {
			t.Fatal("an endpoint that could not be disabled is left alone")
		}
		nothing := ClaimReturned{Claim: do.Claim, Got: store.Claims{Lanes: make([]store.LaneState, len(do.Claim.Wants))}, AskedAt: now}
		decide(c, now, nothing)
	}
}

// A pause does not enable an endpoint that responded 410, and a 410 has no effect after its disable
// has ended.
func TestAnEndpointThatSaid410WhilePausedIsSentToOnceItIsResumed(t *testing.T) {
	t.Parallel()
	for _, status := range []postrider.EndpointStatus{postrider.EndpointPaused, postrider.EndpointDisabled} {
		h := newHarness(t, Options{})
		id := h.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 2 })
		set := func(status postrider.EndpointStatus) {
			h.alter(id, func(to *store.EndpointSnapshot) { to.Endpoint.Status = status })
		}
		h.publish(id, 3)
		set(status)
		for range 2 {
			h.c.step(h.now, over(h.underWay[0].Delivery, a410))
			h.underWay = h.underWay[1:]
		}
		if do := h.c.Decide(h.now); len(do.Disable) != 1 {
			t.Fatalf("%s: %d asked to be disabled after two 410s, want it once", status, len(do.Disable))
		}
		set(postrider.EndpointEnabled)
		h.wait(time.Second)
		h.expect(id, 0, "resumed while it is being disabled")
		h.step(DisableEnded{id})
		h.wait(time.Second)
		h.expect(id, 1, "resumed, and the disable is over")
	}
}
