package page

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// overdueAfterMS is the age in ms of the oldest due delivery from which pending deliveries count
// as not delivered.
const overdueAfterMS = 60_000

// share is the share of delivered deliveries among those that have ended or are late.
type share struct {
	Rate  *float64 // 0 to 1; nil: no delivery has ended or is late
	Waits int64    // pending deliveries that count as late
	More  bool     // counting stopped, so there may be more
}

// success returns the share of delivered deliveries. If an endpoint accepts nothing, its
// deliveries wait and do not end, so the ended ones do not show the failure. So while the oldest
// delivery is overdue, pending deliveries count as not delivered.
func success(delivered, dead int64, s share) share {
	if all := delivered + dead + s.Waits; all > 0 {
		s.Rate = new(float64(delivered) / float64(all))
	}
	return s
}

// successOf returns the success of an endpoint in a list.
func successOf(e *apitypes.EndpointState) share {
	late := share{}
	if Known(e.OldestDueMS) >= overdueAfterMS {
		late = share{Waits: int64(e.Pending), More: e.PendingMore}
	}
	return success(e.Delivered, e.Dead, late)
}

// successIn returns the success in the numbers of stats.
func successIn(s apitypes.Stats) share {
	late := share{}
	if Known(s.Now.OldestDueMS) >= overdueAfterMS {
		late = share{Waits: int64(s.Now.Pending), More: s.Now.Pending >= CountEnd}
	}
	return success(s.Total.Deliveries.Delivered, s.Total.Deliveries.Dead, late)
}

// normal reports whether an endpoint of a list is enabled and healthy, without warnings, failures
// or an open circuit. The list then shows no word for its state.
func normal(e apitypes.Endpoint) bool {
	s := e.State
	return e.Status == postrider.EndpointEnabled && len(e.Warnings) == 0 &&
		(s == nil || s.FailingSince == nil && s.Health == postrider.Healthy && s.Circuit == postrider.CircuitClosed)
}

// CountEnd is the number at which the API stops counting dead letters and pending deliveries.
const CountEnd = 10000

// Plus returns "+" for a number at which counting stopped.
func Plus(more bool) string {
	if more {
		return "+"
	}
	return ""
}

// Known returns the number; 0 if it is unknown (nil).
func Known(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
