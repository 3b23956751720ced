package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
)

// The node that sends to an endpoint returns its pace, and the reason if it is less than the limit.
// Another node does not know it.
func TestThePaceOfAnEndpointIsKnown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		throttle := false
		r.respond = func(postrider.Claimed) postrider.Attempt {
			if throttle {
				return postrider.Attempt{Outcome: postrider.OutcomeThrottled, StatusCode: 503, Duration: time.Millisecond}
			}
			return accepted(time.Millisecond)
		}
		nodes := r.nodes(2, dispatch.Options{})
		id := r.endpoint(func(p *postrider.Policy) { p.Concurrency = 8 })
		time.Sleep(10 * time.Second)
		pace := func() (paces []postrider.Pace) {
			for _, n := range nodes {
				if p, ok := n.d.Pace(t.Context(), id); ok {
					paces = append(paces, p)
				}
			}
			return paces
		}
		if got := pace(); len(got) != 1 || got[0] != (postrider.Pace{Slots: 8, Limit: 8}) {
			t.Errorf("the nodes say %+v of an endpoint that got nothing yet, want one that it may get 8", got)
		}
		throttle = true
		r.publish(id, 20, true)
		time.Sleep(time.Second)
		if got := pace(); len(got) != 1 || got[0].Slots >= 8 || got[0].Limit != 8 || got[0].Reason != postrider.PaceWindow {
			t.Errorf("the nodes say %+v of an endpoint that throttles, want fewer than 8 slots because of its window", got)
		}
		end(t, nodes...)
		if _, ok := nodes[0].d.Pace(t.Context(), id); ok {
			t.Error("a node that has ended knows a pace")
		}
	})
}
