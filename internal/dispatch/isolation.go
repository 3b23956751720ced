package dispatch

import (
	"time"

	"github.com/postrider/postrider"
)

// isolation bounds how many suspected deliveries this node leases, so that one
// that kills its node dies alone and takes no other with it. They go in rounds:
// of one after a death, and of twice as many after each round that the node
// survived. Only what starts at once is claimed.
type isolation struct {
	window int                                // how many a round may have; 0: a death is to be followed by a round of one
	left   int                                // of them, not asked for yet
	young  map[postrider.DeliveryID]time.Time // those that started less than harmless ago and are not settled
	oldest time.Time                          // none of the young started before
	wait   ring                               // endpoints whose suspects wait for the window
}

const (
	// upBefore is how long a node is up before it tries a suspect: one that is
	// killed again and again, by whatever, should not blame the suspects.
	upBefore = 2 * time.Second
	// harmless is how long a suspect is in flight before it holds up no other.
	harmless = time.Second
	// suspectLane and bulkLane are places in [postrider.Lanes].
	bulkLane    = 2
	suspectLane = 3
	laneCount   = 4
)

// restart lets the next round have one suspect: new ones were found.
func (s *isolation) restart() { s.window, s.left = 0, 0 }

// started notes a suspect that starts.
func (s *isolation) started(id postrider.DeliveryID, now time.Time) {
	if s.young == nil {
		s.young = map[postrider.DeliveryID]time.Time{}
	}
	if len(s.young) == 0 {
		s.oldest = now
	}
	s.young[id] = now
}

// age forgets the young suspects that have been in flight for long enough.
func (s *isolation) age(now time.Time) {
	if len(s.young) == 0 || now.Sub(s.oldest) < harmless {
		return
	}
	s.oldest = now
	for id, at := range s.young {
		if now.Sub(at) >= harmless {
			delete(s.young, id)
		} else if at.Before(s.oldest) {
			s.oldest = at
		}
	}
}

// mayIsolate reports whether one more suspect may be claimed.
func (c *core) mayIsolate(now time.Time) bool {
	return c.isolation.left > 0 && !now.Before(c.shards.startedAt.Add(upBefore))
}

// nextRound begins a round of suspects when the one before is survived, and
// looks again at endpoints that waited for it.
func (c *core) nextRound(now time.Time) {
	s := &c.isolation
	s.age(now)
	if used := s.window == 0 || s.left < s.window; used && c.leased[suspectLane]+len(s.young) == 0 {
		s.window = min(max(1, 2*s.window), c.opts.Concurrency)
		s.left = s.window
	}
	if !c.mayIsolate(now) {
		return
	}
	for n := min(s.left, s.wait.len()); n > 0; n-- {
		ep := s.wait.pop()
		ep.isolated = false
		c.review(now, ep)
	}
}

// nextRoundAt returns when time alone lets a suspect go that waits; zero: never.
func (c *core) nextRoundAt(now time.Time) time.Time {
	s := &c.isolation
	up := c.shards.startedAt.Add(upBefore)
	switch {
	case s.wait.len() == 0:
	case up.After(now):
		return up
	case len(s.young) > 0:
		return s.oldest.Add(harmless)
	}
	return time.Time{}
}

// isolate lines an endpoint up whose suspects are due, until a round has room.
func (c *core) isolate(ep *endpoint) {
	if !ep.isolated {
		ep.isolated = true
		c.isolation.wait.push(ep)
	}
}

// suspectsNow returns how many suspects of the endpoint may be claimed: they
// have slots, or will have one as soon as an answer is read.
func (c *core) suspectsNow(now time.Time, ep *endpoint) int {
	const soon = 200 * time.Millisecond
	switch free := ep.slots() - ep.inFlight; {
	case !ep.lanes[suspectLane].isDue(now), !c.mayIsolate(now), c.inFlight >= c.opts.Concurrency:
		return 0
	case c.roomInStock() <= 0, ep.host.inFlight >= c.opts.HostConcurrency, now.Before(ep.restUntil):
		return 0
	case free <= 0 && ep.latency > soon:
		return 0
	default:
		return min(max(1, free), c.isolation.left, c.roomInStock())
	}
}

// unused notes how many of the deliveries that a claim asked for of a lane it
// did not get.
func (c *core) unused(l, n int) {
	if l == suspectLane {
		c.isolation.left = min(c.isolation.left+n, c.isolation.window)
	}
}

// foundSuspects notes that the suspect lane of an endpoint has something due of
// which nothing was known: its node died with it.
func (c *core) foundSuspects(now time.Time, ep *endpoint) {
	if l := &ep.lanes[suspectLane]; ep.known && !l.waiting && ep.asked[suspectLane] == 0 {
		c.isolation.restart()
		c.expect(ep, suspectLane, now)
	}
}
