package schedule

import (
	"time"

	"github.com/postrider/postrider"
)

// suspects bounds how many suspected deliveries this node leases. A suspect is a
// delivery whose nodes died with it several times in a row: its payload may kill
// the node that sends it. So suspects go in rounds: the round after a death has
// one, and each round has twice as many as the round before, once the node has
// survived that one. A delivery that kills its node dies alone and takes no other
// with it.
//
//	death → 1 → 2 → 4 → … → all of the node's slots
//
// A suspect is leased only when it can start at once, or as soon as a response is read (see
// claimable): one that was leased and waited would be blamed for a death that another
// caused. One that was leased and not attempted proves nothing, and its place in the round is
// free again.
//
// Example: one payload kills every node that sends it, and 99 deliveries were lost three
// times beside it. A node starts one of the hundred when it has been up for 2 s. It is
// harmless, so 2 follow, then 4, 8 and so on. A round lasts a second at most, however long
// its attempts take: all are attempted within seven rounds. The round that has the killer ends with the node, and the
// next node begins with one again. Each time the killer is the only suspect that its
// node had leased, that counts against it; after five in a row it is parked.
type suspects struct {
	slots     *slots
	startedAt time.Time // of the node; set by the first Decide

	round       int                                // suspects of this round; 0: the next round has one
	unclaimed   int                                // of the round, not asked for by a claim yet
	recent      map[postrider.DeliveryID]time.Time // started less than harmlessAfter ago and not settled
	recentSince time.Time                          // none of recent started earlier
	waiting     queue                              // endpoints whose suspects wait for a round
}

const (
	// suspectsAfter is how long a node is up before it tries a suspect: a node that is
	// killed again and again, for whatever reason, should not blame the suspects.
	suspectsAfter = 2 * time.Second
	// harmlessAfter is how long a suspect is in flight before others may start.
	harmlessAfter = time.Second
)

// restart begins again with a round of one suspect: a node died with new ones.
func (s *suspects) restart() { s.round, s.unclaimed = 0, 0 }

// started notes a suspect that starts. It is recent until it has been in flight for
// harmlessAfter, or is settled.
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

// nextRound begins a round when the one before is survived, and returns how many
// endpoints to review because of it.
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

// nextRoundAt returns when time alone lets a waiting suspect go; zero: never.
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

// claimable returns how many suspects of the endpoint may be claimed now: as many as have
// a slot. Where the endpoint has none, it may be one, if a response is to be expected
// soon, which frees a slot: otherwise suspects would starve behind a backlog that uses all
// slots of its endpoint. An endpoint that never responded, or did not respond last,
// gives no such hope.
func (s *suspects) claimable(now time.Time, ep *endpoint) int {
	const soon = 200 * time.Millisecond
	leasable := min(s.slots.leasable(ep.class), s.slots.prefetchFree())
	switch free := ep.maxInFlight() - ep.inFlight; {
	case !ep.lanes[suspectLane].isDue(now), !s.mayClaim(now):
		return 0
	case leasable <= 0, !s.slots.hasSlot(ep.class), ep.host.inFlight >= s.slots.hostLimit, now.Before(ep.rateBlockedUntil), s.slots.unanswered(now, ep):
		return 0
	case free <= 0 && (ep.class > unproven || ep.latency == 0 || ep.latency > soon):
		return 0
	default:
		return min(max(1, free), s.unclaimed, leasable)
	}
}

// notAttempted returns n deliveries to the round: a claim asked for them and did not get
// them, or their leases were given back, or they were too late to be attempted. Without that
// a round of which nothing was attempted would count as survived.
func (s *suspects) notAttempted(n int) { s.unclaimed = min(s.unclaimed+n, s.round) }
