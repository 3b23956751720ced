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
	waiting bool      // rows may wait; set by found work, cleared by the claim that asks for them
	dueAt   time.Time // the earliest of them is due then; valid while waiting
	low     time.Time // the next claim begins at rows that are due from here on; zero: at the oldest
}

func (l *lane) isDue(now time.Time) bool { return l.waiting && !l.dueAt.After(now) }

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

// laneTurns says which lane a start prefers, unless there is a suspect: of five
// starts, three prefer the first lane and one each the retry and the bulk lane. An
// empty lane leaves its turn to the next in order.
var laneTurns = [5][3]int{
	{firstLane, retryLane, bulkLane},
	{retryLane, firstLane, bulkLane},
	{firstLane, retryLane, bulkLane},
	{bulkLane, firstLane, retryLane},
	{firstLane, retryLane, bulkLane},
}

// nextLane returns the lane whose first delivery starts next; -1: none may now. A
// retry that is due is not limited beside first attempts: its own endpoint's circuit,
// window and class limit it.
func (b *bulkLimiter) nextLane(now time.Time, ep *endpoint) int {
	if len(ep.prefetched[suspectLane]) > 0 {
		return suspectLane
	}
	for _, l := range laneTurns[(ep.turn+1)%len(laneTurns)] {
		if len(ep.prefetched[l]) > 0 && (l != bulkLane || ep.probing() || b.allows(now)) {
			return l
		}
	}
	return -1
}

// laneDue reports whether the lane has something to claim. Bulk is claimed only as
// far ahead as its rate is sure to start it.
func (b *bulkLimiter) laneDue(now time.Time, ep *endpoint, l int) bool {
	return ep.lanes[l].isDue(now) && (l != bulkLane || ep.probing() || b.mayPrefetch(ep))
}
