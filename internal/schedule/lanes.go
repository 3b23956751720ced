package schedule

import (
	"time"

	"github.com/postrider/postrider"
)

// The indexes of the lanes in [postrider.Lanes].
const (
	firstLane   = 0
	retryLane   = 1
	bulkLane    = 2
	suspectLane = 3
	laneCount   = 4
)

// lane is the core's knowledge of the waiting rows in an endpoint's lane.
type lane struct {
	occupied bool      // there may be rows; set by noteDue, cleared by the claim that asks for them
	dueAt    time.Time // earliest known time at which a row is due; valid while occupied
	low      time.Time // the next claim begins at rows that are due from this time on; zero: at the oldest row
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

// laneOrder is the order in which a start looks for a delivery in the lanes. The row is the number
// of the start modulo 5. So of five starts, three prefer the first lane, one the retry lane and one
// the bulk lane. An empty lane leaves its share to the next lane of the row. Suspects are not in
// the table: they go before all others.
var laneOrder = [5][3]int{
	{firstLane, retryLane, bulkLane},
	{retryLane, firstLane, bulkLane},
	{firstLane, retryLane, bulkLane},
	{bulkLane, firstLane, retryLane},
	{firstLane, retryLane, bulkLane},
}

// nextLane returns the lane whose first delivery starts next; -1: none may start now. Only bulk is
// limited by a rate of the node. A due retry is limited only by its own endpoint.
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

// laneDue reports whether the lane has something to claim. Bulk is claimed only as far ahead as its
// rate will certainly start it.
func (ep *endpoint) laneDue(now time.Time, l int, bulk *bulkLimiter) bool {
	return ep.lanes[l].isDue(now) && (l != bulkLane || ep.probing() || bulk.mayPrefetch(now, ep))
}
