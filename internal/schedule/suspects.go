package schedule

import (
	"time"

	"github.com/postrider/postrider"
)

// suspects limits how many suspected deliveries this node leases. A suspect is a delivery that
// several nodes in a row leased when they died: its payload may kill the node that sends it. So
// suspects are attempted in rounds. The first round after a death has one suspect. Each later round
// has twice as many as the round before, which the node must have survived. So
// sooner or later a delivery that kills its node is the only suspect in flight, and the death counts
// only against that delivery.
//
//	death → 1 → 2 → 4 → … → all of the node's slots
//
// A suspect is leased only if it can start at once, or as soon as a response is read (see
// claimable). A suspect that was leased and waited would be blamed for a death that another one
// caused. A suspect that was leased and not attempted proves nothing, so its place in the round is
// free again.
//
// Example: one payload kills every node that sends it. 99 other deliveries were lost three times
// together with it. A node starts one of the hundred when it has been up for 2 s. That one is
// harmless, so 2 follow, then 4, 8 and so on. A round lasts a second at most, even if its attempts
// take longer, so all are attempted within seven rounds. The node dies in the round that has the
// killer, and the next node begins with one again. Each time the killer is the only suspect that
// its node had leased, the death counts against it; after five in a row it is parked.
type suspects struct {
	slots     *slots
	startedAt time.Time // when the node started; set by the first Decide

	round     int // number of suspects in this round; 0: the next round has one
	unclaimed int // places of the round for which no claim has asked yet
	// Suspects that started less than harmlessAfter ago and are not settled, with their starts.
	recent      map[postrider.DeliveryID]time.Time
	recentSince time.Time // no start in recent is earlier
	waiting     queue     // endpoints whose suspects wait for a round
}

const (
	// suspectsAfter is how long a node must be up before it attempts a suspect. A node that is
	// killed again and again for another reason must not blame the suspects.
	suspectsAfter = 2 * time.Second
	// harmlessAfter is how long a suspect must be in flight before the next round may start.
	harmlessAfter = time.Second
)

// restart begins again with a round of one suspect, because a node died with new suspects.
func (s *suspects) restart() { s.round, s.unclaimed = 0, 0 }

// started records that a suspect has started. It is recent until it has been in flight for
// harmlessAfter or is settled.
func (s *suspects) started(id postrider.DeliveryID, now time.Time) {
	if s.recent == nil {
		s.recent = map[postrider.DeliveryID]time.Time{}
	}
	if len(s.recent) == 0 {
		s.recentSince = now
	}
	s.recent[id] = now
}

// forgetRecent removes the suspects that have been in flight for harmlessAfter.
func (s *suspects) forgetRecent(now time.Time) {
	if len(s.recent) == 0 || now.Sub(s.recentSince) < harmlessAfter {
		return
	}
	s.recentSince = now
	for id, at := range s.recent {
		if now.Sub(at) >= harmlessAfter {
			delete(s.recent, id)
		} else if at.Before(s.recentSince) {
			s.recentSince = at
		}
	}
}

// mayClaim reports whether one more suspect may be claimed.
func (s *suspects) mayClaim(now time.Time) bool {
	return s.unclaimed > 0 && !now.Before(s.startedAt.Add(suspectsAfter))
}

// nextRound begins a round if the node has survived the one before. It returns how many waiting
// endpoints to review.
func (s *suspects) nextRound(now time.Time) int {
	s.forgetRecent(now)
	if used := s.round == 0 || s.unclaimed < s.round; used && s.slots.leased[suspectLane]+len(s.recent) == 0 {
		s.round = min(max(1, 2*s.round), s.slots.limit)
		s.unclaimed = s.round
	}
	if !s.mayClaim(now) {
		return 0
	}
	return min(s.unclaimed, s.waiting.len())
}

// nextRoundAt returns the time from which a waiting suspect may be claimed without any input; zero:
// there is none.
func (s *suspects) nextRoundAt(now time.Time) time.Time {
	up := s.startedAt.Add(suspectsAfter)
	switch {
	case s.waiting.len() == 0:
	case up.After(now):
		return up
	case len(s.recent) > 0:
		return s.recentSince.Add(harmlessAfter)
	}
	return time.Time{}
}

// claimable returns how many suspects of the endpoint may be claimed now: as many as have a slot.
// If the endpoint has no free slot, one may be claimed if a response is expected soon, because the
// response frees a slot. Without that, suspects would starve behind a backlog that uses all slots
// of their endpoint. No response is expected soon from an endpoint that never responded or did not
// respond to its last attempt.
func (s *suspects) claimable(now time.Time, ep *endpoint) int {
	const soon = 200 * time.Millisecond
	leasable := min(s.slots.leasable(ep.class), s.slots.prefetchFree())
	switch free := ep.maxInFlight() - ep.inFlight; {
	case !ep.lanes[suspectLane].isDue(now), !s.mayClaim(now):
		return 0
	case leasable <= 0, !s.slots.hasSlot(ep.class), ep.host.inFlight >= s.slots.hostLimit, now.Before(ep.rateBlockedUntil),
		s.slots.unanswered(now, ep):
		return 0
	case free <= 0 && (ep.class > unproven || ep.latency == 0 || ep.latency > soon):
		return 0
	default:
		return min(max(1, free), s.unclaimed, leasable)
	}
}

// notAttempted returns n places to the round. A claim asked for n suspects and did not get them,
// their leases were given back, or they were too late to be attempted. Without this, a round in
// which no suspect was attempted would count as survived.
func (s *suspects) notAttempted(n int) { s.unclaimed = min(s.unclaimed+n, s.round) }
