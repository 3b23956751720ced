package page

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// overdueAfterMS is from which age on the oldest due delivery counts against the success.
const overdueAfterMS = 60_000

// share is how many deliveries were delivered, of those that have ended or are late.
type share struct {
	Rate  *float64 // nil: there are none
	Waits int64    // pending deliveries among them; 0: none is late
	More  bool     // there may be more
}

// success returns the share of delivered deliveries. What has ended says nothing of an
// endpoint that accepts nothing: its deliveries wait. So while the oldest one is overdue, what
// is pending counts as not delivered.
func success(delivered, dead int64, s share) share {
	if all := delivered + dead + s.Waits; all > 0 {
		s.Rate = new(float64(delivered) / float64(all))
	}
	return s
}

// successOf returns the success of an endpoint of a list.
func successOf(e *apitypes.EndpointState) share {
	late := share{}
	if Known(e.OldestDueMS) >= overdueAfterMS {
		late = share{Waits: int64(e.Pending), More: e.PendingMore}
	}
	return success(e.Delivered, e.Dead, late)
}

// successIn returns the success of stats.
func successIn(s apitypes.Stats) share {
	late := share{}
	if Known(s.Now.OldestDueMS) >= overdueAfterMS {
		late = share{Waits: int64(s.Now.Pending), More: s.Now.Pending >= CountEnd}
	}
	return success(s.Total.Deliveries.Delivered, s.Total.Deliveries.Dead, late)
}

// normal reports whether an endpoint of a list is sent to as it should be, so that its state
// needs no word.
func normal(e apitypes.Endpoint) bool {
	s := e.State
	return e.Status == postrider.EndpointEnabled && len(e.Warnings) == 0 &&
		(s == nil || s.FailingSince == nil && s.Health == postrider.Healthy && s.Circuit == postrider.CircuitClosed)
}

// CountEnd is where counting dead letters and pending deliveries stops.
const CountEnd = 10000

// Plus returns the sign after a number at which counting stopped.
func Plus(more bool) string {
	if more {
		return "+"
	}
	return ""
}

// Known returns a number that may be unknown; then 0.
func Known(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
