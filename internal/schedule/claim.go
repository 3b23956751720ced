package schedule

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// claims is the state of claiming. One claim is under way at a time, for up to
// maxWants endpoints and lanes: the next one asks for what became due meanwhile. So
// the store sees one statement at a time from each node, and larger ones the busier it
// is, instead of one for each endpoint.
//
// A claim asks for a number of deliveries of each lane and takes credit for them.
// When it comes back, the credit of what it did not bring is returned. An error
// returns all of it, though the store may have leased deliveries whose reply was
// lost: those leases end, and a later claim takes them over.
type claims struct {
	waiting    queue // endpoints with something due and free credit
	underWay   bool
	batchUntil time.Time // a claim waits until then, so that it asks for more at once
	retryAt    time.Time // no claim before: the last ones failed; zero: the last one did not
	errors     int       // claims in a row that failed
}

// maxWants is how many endpoints and lanes one claim asks for.
const maxWants = 256

// maxAsked is how many deliveries one claim asks for of one endpoint, so that a
// claim stays short.
const maxAsked = 160

// BatchDelay returns how long to wait after a claim or a group of settlements that
// took so long, before the next: the cost for the store is about the same whatever
// the size, so a store that is busy gets fewer and larger ones.
func BatchDelay(took time.Duration) time.Duration { return min(3*took, MaxBatchDelay) }

// MaxBatchDelay is the most that [BatchDelay] returns.
const MaxBatchDelay = 25 * time.Millisecond

// nextAt returns the earliest time of the next claim. A claim that would be large
// at once does not wait for more.
func (cl *claims) nextAt() time.Time {
	if cl.waiting.len() < maxWants/2 {
		return later(cl.batchUntil, cl.retryAt)
	}
	return cl.retryAt
}

// backOff waits 0.1 s after a claim that failed, and twice as long after each
// further one, up to 5 s.
func (cl *claims) backOff(now time.Time, err error) {
	if err == nil {
		cl.errors, cl.retryAt = 0, time.Time{}
		return
	}
	cl.retryAt = now.Add(min(100*time.Millisecond<<min(cl.errors, 10), 5*time.Second))
	cl.errors++
}

// claim asks for what is due at the endpoints that wait for a claim, in turn.
func (c *Core) claim(now time.Time) {
	cl := &c.claims
	if cl.underWay || c.draining || c.commits.late(now, c.opts.LeaseMargin/3) || c.shards.lapsed(now) || now.Before(cl.nextAt()) || cl.waiting.len() == 0 {
		return
	}
	claim := &store.Claim{Token: c.admissions.nextToken()}
	for len(claim.Wants)+laneCount <= maxWants && c.slots.prefetchFree() > 0 {
		ep := cl.waiting.pop()
		if ep == nil {
			break
		}
		if c.wantsClaim(now, ep) {
			claim.Wants = append(claim.Wants, c.wants(now, ep)...)
		}
		c.review(now, ep)
	}
	if len(claim.Wants) > 0 {
		cl.underWay = true
		c.actions.Claim = claim
	}
}

// wantsClaim reports whether a claim for the endpoint is worth its cost: a lane is
// due, and half of its credit is free or it has nothing prefetched. If the only
// thing that is missing is capacity of the node, the endpoint begins to wait for that.
func (c *Core) wantsClaim(now time.Time, ep *endpoint) bool {
	if c.shards.gated(now, ep) || ep.rateBlocks(now) || ep.asked != [laneCount]int{} {
		return false
	}
	if c.suspects.claimable(now, ep) > 0 {
		return true
	}
	if ep.lanes[suspectLane].isDue(now) {
		c.suspects.waiting.push(ep)
	}
	limit := ep.creditLimit(c.opts.Prefetch)
	free := limit - ep.credit
	if free <= 0 || (2*free < limit && ep.prefetchedCount() > 0) {
		return false
	}
	if c.bulk.laneDue(now, ep, firstLane) || c.bulk.laneDue(now, ep, retryLane) || c.bulk.laneDue(now, ep, bulkLane) {
		if !c.slots.mayLease(ep.class) {
			c.degraded[ep.class].push(ep)
			return false
		}
		if !c.prefetch.allows(now, ep) {
			c.prefetch.waiting.push(ep)
			return false
		}
		return true
	}
	if ep.lanes[bulkLane].isDue(now) {
		c.bulk.waiting.push(ep)
	}
	return false
}

// laneDue reports whether the lane has something to claim. Bulk is claimed only as
// far ahead as its rate is sure to start it.
func (b *bulkLimiter) laneDue(now time.Time, ep *endpoint, l int) bool {
	return ep.lanes[l].isDue(now) && (l != bulkLane || ep.probing() || b.mayPrefetch(ep))
}

// wants divides the endpoint's free credit among its lanes that are due, as
// laneTurns divides the starts, and takes it. Suspects go before all others.
func (c *Core) wants(now time.Time, ep *endpoint) []store.Want {
	suspects := c.suspects.claimable(now, ep)
	ep.asked[suspectLane] = suspects
	c.slots.leased[suspectLane] += suspects
	c.suspects.left -= suspects
	free := min(
		ep.creditLimit(c.opts.Prefetch)-ep.credit-suspects, maxAsked,
		c.prefetch.share(ep, c.claims.waiting.len())-suspects,
	)
	for turn := ep.turn + 1; free > 0; turn++ {
		for _, l := range laneTurns[turn%len(laneTurns)] {
			if c.bulk.laneDue(now, ep, l) {
				ep.asked[l]++
				c.slots.leased[l]++
				break
			}
		}
		free--
	}
	var wants []store.Want
	for l, n := range ep.asked {
		if n == 0 {
			continue
		}
		wants = append(wants, store.Want{
			Endpoint: ep.id, Lane: postrider.Lanes[l], N: n, Lease: ep.nextLease(c.opts.LeaseMargin), After: ep.lanes[l].low,
		})
		c.addCredit(ep, n)
		c.prefetch.add(now, ep, n)
		if l == bulkLane {
			c.bulk.asked += n
		}
		ep.lanes[l].waiting = false // work that is found while the claim is under way sets it again
	}
	return wants
}

// apply keeps what a claim brought, and returns the credit of what it did not.
func (in ClaimReturned) apply(c *Core, now time.Time) {
	c.claims.underWay, c.bulk.asked = false, 0
	c.claims.batchUntil = now.Add(BatchDelay(now.Sub(in.AskedAt)))
	for i, w := range in.Claim.Wants {
		ep, l := c.endpoints[w.Endpoint], laneIndex(w.Lane)
		var state store.LaneState
		if in.Err == nil {
			state = in.Got.Lanes[i]
		}
		ep.asked[l] = 0
		missing := w.N - state.Claimed
		c.addCredit(ep, -missing)
		c.prefetch.remove(ep, missing)
		c.slots.leased[l] -= missing
		if l == suspectLane {
			c.suspects.notClaimed(missing)
		}
		if in.Err != nil {
			c.expect(ep, l, now)
			continue
		}
		if state.Suspects > 0 {
			c.suspects.restart()
			c.expect(ep, suspectLane, now)
		}
		if ep.lanes[l].low.Equal(w.After) { // otherwise a scan asked for all of the lane meanwhile
			ep.lanes[l].low = state.Low
		}
		ep.reduceBacklog(l, state)
		if state.Waiting {
			c.expect(ep, l, now.Add(state.In))
		}
	}
	for _, cl := range in.Got.Items {
		ep := c.endpoints[cl.Endpoint]
		c.keep(now, ep, &Delivery{Claimed: cl, leasedUntil: in.AskedAt.Add(ep.lease)})
	}
	for _, w := range in.Claim.Wants {
		c.review(now, c.endpoints[w.Endpoint])
	}
	c.claims.backOff(now, in.Err)
}

// reduceBacklog subtracts the first attempts that a claim took. Where the claim
// found that no more of them are due, the backlog is empty, unless some were
// published while the claim was under way.
func (ep *endpoint) reduceBacklog(l int, state store.LaneState) {
	switch {
	case l != firstLane:
	case (!state.Waiting || state.In > 0) && !ep.lanes[l].waiting:
		ep.backlog = 0
	default:
		ep.backlog = max(0, ep.backlog-state.Claimed)
	}
}
