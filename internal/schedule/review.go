package schedule

import (
	"time"

	"github.com/postrider/postrider/internal/store"
)

// review puts an endpoint into the queues in which it belongs. It is called after anything about
// the endpoint changed, and when a capacity that it waited for is free again. It is idempotent, so
// callers need not know what changed. A caller that knew would have to repeat half of this
// function, and would be wrong when a rule changes.
//
// The invariant: if something is due or prefetched for an endpoint, then after a review one of
// three is true. The endpoint is in the queue of what it waits for, or it has a timer, or it waits
// for an input that names it (a response, a commit, a change of its settings). Otherwise its
// deliveries would wait for the next scan, up to 30 s. The simulation asserts the invariant after
// each Decide (checkReviewed in sim_test.go).
//
// Four questions, in this order:
//
//  1. Is its circuit open or half open? Then the right to probe is asked for, if its
//     time has come.
//  2. Is it gated, so that nothing may start? It is gated if it is paused, disabled or owned by
//     another node, its Retry-After has not passed, its circuit is open, or the store is
//     held. Then its leases are given back, since others can use the credit, and only a
//     timer is left.
//  3. Can a prefetched delivery start? The endpoint needs a free slot, its rate must allow it,
//     and while the node's slots are scarce, it must have responded within the last second.
//     Then it is enqueued as ready; otherwise it waits in the queue of what it lacks.
//  4. Is a lane due, and worth a claim? Then it waits for the next claim. An endpoint can
//     be ready and wait for a claim at the same time.
//
// Example: an endpoint with a limit of 2 has 2 attempts in flight and 3 prefetched deliveries. A
// response arrives: review finds a free slot and enqueues the endpoint as ready. Then the endpoint
// is paused: review gives the 3 leases back, and records that their lane is due, so that a claim
// finds them when the endpoint is resumed.
func (c *Core) review(now time.Time, ep *endpoint) {
	c.timers.remove(ep)
	c.updateClass(now, ep)
	if ep.stuck > 0 && !ep.isStuck(now) {
		c.prefetch.clear(&ep.stuck)
	}
	if ep.isOpen() && c.shards.mayServe(ep) {
		c.circuits.probe(now, ep)
	}
	if c.shards.gated(now, ep) {
		c.giveBack(now, ep)
		if ep.probe == probeGranted {
			c.circuits.setProbe(ep, noProbe) // other endpoints may use its slot for probes meanwhile
		}
		if at := ep.gateOpens(); c.shards.mayServe(ep) && at.After(now) {
			c.timers.put(ep, at)
		}
		return
	}
	c.dropUncovered(now, ep)
	switch {
	case ep.queued&inReady != 0 || ep.inFlight >= ep.maxInFlight() || ep.prefetchedCount() == 0 || now.Before(ep.rateBlockedUntil):
	case c.slots.unanswered(now, ep):
		c.unanswered.push(ep)
	case ep.nextLane(now, &c.bulk) < 0:
		c.bulk.waiting.push(ep) // only bulk is prefetched, and the bulk rate is used up
	default:
		c.ready.enqueue(ep)
	}
	if c.draining {
		return
	}
	c.claims.enqueue(now, ep)
	if next, ok := ep.nextDue(now); ok {
		c.timers.put(ep, next)
	}
}

// mayServe reports whether the endpoint is enabled, this node owns its shard and keeps it, and the
// store is not held.
func (s *shards) mayServe(ep *endpoint) bool { return ep.enabled && s.serves(ep.shard) && !s.held }

// gated reports whether nothing may be started or claimed for the endpoint. Each condition ends in
// its own way: mayServe by a person or the membership, PacedUntil and postponedUntil by time, and
// an open circuit by a probe. postponedUntil is set after an attempt that this node could not make.
func (s *shards) gated(now time.Time, ep *endpoint) bool {
	return !s.mayServe(ep) || now.Before(ep.breaker.PacedUntil) || now.Before(ep.postponedUntil) || ep.isOpen() && !ep.probing()
}

// gateOpens returns when a gated endpoint must be reviewed. That is when its Retry-After and its
// postponement have passed. If its circuit is open, a probe must also be allowed and something must
// be due for the probe. Zero: the gate opens at no set time.
func (ep *endpoint) gateOpens() time.Time {
	if !ep.isOpen() || ep.probe != noProbe {
		return later(ep.breaker.PacedUntil, ep.postponedUntil)
	}
	var first time.Time
	for _, l := range ep.lanes {
		if l.occupied && (first.IsZero() || l.dueAt.Before(first)) {
			first = l.dueAt
		}
	}
	if first.IsZero() {
		return time.Time{} // no row waits, so there is nothing to probe with
	}
	return later(later(later(first, ep.breaker.ProbeAt), ep.breaker.PacedUntil), ep.postponedUntil)
}

// nextDue returns the first time after now at which the endpoint must be reviewed even if no input
// names it: a lane becomes due, the rate allows an attempt, the right to probe ends, or the oldest
// prefetched lease no longer covers an attempt. false: there is no such time.
func (ep *endpoint) nextDue(now time.Time) (next time.Time, ok bool) {
	consider := func(at time.Time) {
		if at.After(now) && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	if ep.probe == probeGranted {
		consider(ep.breaker.ProbeAt)
	}
	for l, lane := range ep.lanes {
		if lane.occupied {
			consider(lane.dueAt)
			consider(ep.rateBlockedUntil)
		}
		if len(ep.prefetched[l]) > 0 {
			consider(ep.prefetched[l][0].leasedUntil.Add(-ep.policy.Timeout + 1))
			consider(ep.rateBlockedUntil)
		}
	}
	return next, ok
}

// giveBack releases all prefetched deliveries of an endpoint. Their lanes are due again, so that
// they are claimed when the endpoint may continue, here or at the next owner of its shard.
func (c *Core) giveBack(now time.Time, ep *endpoint) {
	for l, deliveries := range ep.prefetched {
		for _, d := range deliveries {
			c.release(ep, d)
			c.noteDue(ep, l, now)
		}
		ep.prefetched[l] = nil
	}
}

// dropUncovered releases prefetched deliveries whose lease would end before an attempt that starts
// now. Otherwise another node could claim the delivery while that attempt still runs.
func (c *Core) dropUncovered(now time.Time, ep *endpoint) {
	for l, deliveries := range ep.prefetched {
		for len(deliveries) > 0 && deliveries[0].leasedUntil.Before(now.Add(ep.policy.Timeout)) {
			c.release(ep, deliveries[0])
			c.noteDue(ep, l, now)
			deliveries = deliveries[1:]
		}
		ep.prefetched[l] = deliveries
	}
}

// release gives back the lease of a delivery that has not started. The shard stays busy until the
// release is committed, because its next owner must not find the row leased.
func (c *Core) release(ep *endpoint, d *Delivery) {
	l := laneIndex(d.Lane)
	c.actions.Release = append(c.actions.Release, Release{store.Lease{Delivery: d.ID, Token: d.Token}, ep.id, l, ep.shard})
	c.prefetch.free(ep, l, 1)
	if l == suspectLane {
		c.suspects.notAttempted(1)
	}
	c.shards.busy[ep.shard]++ // until the release is committed
}

// nextLease returns the length of the endpoint's next lease: its timeout plus the margin. The
// timeout may change while leases run. So until all of the endpoint's credit is free again, all of
// its leases are assumed to be as short as the shortest.
func (ep *endpoint) nextLease(margin time.Duration) time.Duration {
	lease := ep.policy.Timeout + margin
	if ep.credit == 0 {
		ep.lease = lease
	}
	ep.lease = min(ep.lease, lease)
	return lease
}

// keep prefetches a leased delivery until its endpoint has a slot for it. If the endpoint was
// paused, or the node began to drain, while the claim or the commit was under way, keep gives the
// lease back at once.
func (c *Core) keep(now time.Time, ep *endpoint, d *Delivery) {
	l := laneIndex(d.Lane)
	if c.draining || !ep.enabled {
		c.release(ep, d)
		c.noteDue(ep, l, now)
		return
	}
	ep.prefetched[l] = append(ep.prefetched[l], d)
	if ep.queued&inReady == 0 {
		c.review(now, ep)
	}
}
