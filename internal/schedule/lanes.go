package schedule

import (
	"time"

	"github.com/postrider/postrider"
)

// The places of lanes in [postrider.Lanes].
const (
	firstLane   = 0
	retryLane   = 1
	bulkLane    = 2
	suspectLane = 3
	laneCount   = 4
)

// lane is what the core knows of the rows that wait in an endpoint's lane.
type lane struct {
	occupied bool      // rows may wait; set by noteDue, cleared by the claim that asks for them
	dueAt    time.Time // no row that is known is due earlier; valid while occupied
	low      time.Time // the next claim begins at rows that are due from here on; zero: at the oldest
}

func (l *lane) isDue(now time.Time) bool { return l.occupied && !l.dueAt.After(now) }

func laneIndex(l postrider.Lane) int {
	switch l {
	case postrider.LaneFirst:
		return firstLane
	case postrider.LaneRetry:
		return retryLane
	case postrider.LaneSuspect:
		return suspectLane
	case postrider.LaneBulk:
	}
	return bulkLane
}

// laneOrder says in which order a start looks for a delivery in the lanes; the number
// of the start, modulo 5, is the row. So of five starts three prefer the first lane, one
// the retry lane and one the bulk lane, and a lane that is empty leaves its share to
// the next lane of the row. Suspects are not in it: they go before all.
var laneOrder = [5][3]int{
	{firstLane, retryLane, bulkLane},
	{retryLane, firstLane, bulkLane},
	{firstLane, retryLane, bulkLane},
	{bulkLane, firstLane, retryLane},
	{firstLane, retryLane, bulkLane},
}

// nextLane returns the lane whose first delivery starts next; -1: none may now. Only
// bulk has a rate of the node. A retry that is due is limited only by its own endpoint.
func (ep *endpoint) nextLane(now time.Time, bulk *bulkLimiter) int {
	if len(ep.prefetched[suspectLane]) > 0 {
		return suspectLane
	}
	for _, l := range laneOrder[(ep.starts+1)%len(laneOrder)] {
		if len(ep.prefetched[l]) > 0 && (l != bulkLane || ep.probing() || bulk.allows(now)) {
			return l
		}
	}
	return -1
}

// laneDue reports whether the lane has something to claim. Bulk is claimed only as
// far ahead as its rate is sure to start it.
func (ep *endpoint) laneDue(now time.Time, l int, bulk *bulkLimiter) bool {
	return ep.lanes[l].isDue(now) && (l != bulkLane || ep.probing() || bulk.mayPrefetch(now, ep))
}
