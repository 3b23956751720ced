package dispatch

import (
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// maxWants is how many endpoints and lanes one claim asks for.
const maxWants = 256

// maxAsked is how many deliveries one claim asks for of one endpoint, so that a
// claim stays short.
const maxAsked = 160

// claim asks for what is due at the claimable endpoints, in their turn. One
// claim is under way at a time: the next one asks for what came up meanwhile,
// and while that one rested.
func (c *core) claim(now time.Time) {
	if c.claiming || c.draining || c.late(now) || c.shards.lapsed(now) || now.Before(c.claimsAt()) || c.claimable.len() == 0 {
		return
	}
	claim := &store.Claim{Token: c.nextToken()}
	for len(claim.Wants)+len(postrider.Lanes) <= maxWants && c.roomInStock() > 0 {
		ep := c.claimable.pop()
		if ep == nil {
			break
		}
		ep.claimable = false
		if c.wantsClaim(now, ep) {
			claim.Wants = append(claim.Wants, c.wants(now, ep)...)
		}
		c.review(now, ep)
	}
	if len(claim.Wants) > 0 {
		c.claiming = true
		c.do.claim = claim
	}
}

// claimsAt returns when the next claim may be made: after one that brought much
// of what there is, when it has rested.
func (c *core) claimsAt() time.Time {
	if c.claimable.len() < maxWants/2 {
		return later(c.claimRest, c.claimAfter)
	}
	return c.claimAfter
}

// wantsClaim reports whether a claim for the endpoint is worth its cost: a
// lane is due, and half of its credit is free or it holds nothing.
func (c *core) wantsClaim(now time.Time, ep *endpoint) bool {
	if c.gated(now, ep) || ep.resting(now) || ep.asked != [laneCount]int{} {
		return false
	}
	if c.suspectsNow(now, ep) > 0 {
		return true
	}
	if ep.lanes[suspectLane].isDue(now) {
		c.isolate(ep)
	}
	room := ep.room(c.opts.Prefetch)
	free := room - ep.credit
	if free <= 0 || (2*free < room && ep.holds() > 0) {
		return false
	}
	if c.laneDue(now, ep, 0) || c.laneDue(now, ep, 1) || c.laneDue(now, ep, 2) {
		if !c.mayLease(ep) {
			c.waitToLease(ep)
			return false
		}
		if !c.mayStock(now, ep) {
			c.setAside(ep)
			return false
		}
		return true
	}
	if ep.lanes[bulkLane].isDue(now) {
		c.wait(ep)
	}
	return false
}

// laneDue reports whether the lane has something to claim. Bulk is claimed as
// far ahead as its pace is sure to start it.
func (c *core) laneDue(now time.Time, ep *endpoint, l int) bool {
	if !ep.lanes[l].isDue(now) {
		return false
	}
	return postrider.Lanes[l] != postrider.LaneBulk || ep.probing() || c.roomForBulk(ep)
}

func (l *lane) isDue(now time.Time) bool { return l.waiting && !l.due.After(now) }

// isDue reports whether something of the endpoint is due.
func (ep *endpoint) isDue(now time.Time) bool {
	return slices.ContainsFunc(ep.lanes[:], func(l lane) bool { return l.isDue(now) })
}

// wants shares the endpoint's free credit among its lanes that are due, as
// laneTurns shares the starts, and spends it. Suspects go before all others.
func (c *core) wants(now time.Time, ep *endpoint) []store.Want {
	suspects := c.suspectsNow(now, ep)
	ep.asked[suspectLane] = suspects
	c.leased[suspectLane] += suspects
	c.isolation.left -= suspects
	free := min(ep.room(c.opts.Prefetch)-ep.credit-suspects, maxAsked, c.shareOfStock(ep)-suspects)
	for turn := ep.turn + 1; free > 0; turn++ {
		for _, l := range laneTurns[turn%len(laneTurns)] {
			if c.laneDue(now, ep, l) {
				ep.asked[l]++
				c.leased[l]++
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
			Endpoint: ep.id, Lane: postrider.Lanes[l], N: n, Lease: c.grant(ep), After: ep.lanes[l].low,
		})
		c.credit(ep, n)
		c.stocked(now, ep, n)
		if l == bulkLane {
			c.bulk.asked += n
		}
		// Whatever is found while the claim is under way sets it again.
		ep.lanes[l].waiting = false
	}
	return wants
}

// claimed takes up what a claim brought.
func (c *core) claimed(now time.Time, in claimed) {
	c.claiming, c.bulk.asked = false, 0
	c.claimRest = now.Add(rest(now.Sub(in.asked)))
	for i, w := range in.claim.Wants {
		ep, l := c.endpoint(w.Endpoint), laneIndex(w.Lane)
		ep.asked[l] = 0
		if in.err != nil {
			c.credit(ep, -w.N)
			c.unstocked(ep, w.N)
			c.leased[l] -= w.N
			c.expect(ep, l, now)
			c.unused(l, w.N)
			continue
		}
		state := in.got.Lanes[i]
		c.credit(ep, state.Claimed-w.N)
		c.unstocked(ep, w.N-state.Claimed)
		c.leased[l] += state.Claimed - w.N
		c.unused(l, w.N-state.Claimed)
		if state.Suspects > 0 {
			c.isolation.restart()
			c.expect(ep, suspectLane, now)
		}
		if ep.lanes[l].low.Equal(w.After) { // else a scan says to look at all meanwhile
			ep.lanes[l].low = state.Low
		}
		ep.recount(w.Lane, state)
		if state.Waiting {
			c.expect(ep, l, now.Add(state.In))
		}
	}
	for _, cl := range in.got.Items {
		ep := c.endpoint(cl.Endpoint)
		// The store's lease began after the claim was asked for.
		c.hold(now, ep, &item{Claimed: cl, leasedUntil: in.asked.Add(ep.granted)})
	}
	for _, w := range in.claim.Wants {
		c.review(now, c.endpoint(w.Endpoint))
	}
	c.backOff(now, in.err)
}

// recount lowers the backlog by the first attempts that a claim took. Where the
// claim found that no more of them are due, nothing is left of it, unless some
// were published while the claim was under way.
func (ep *endpoint) recount(lane postrider.Lane, state store.LaneState) {
	switch {
	case lane != postrider.LaneFirst:
	case (!state.Waiting || state.In > 0) && !ep.lanes[laneIndex(lane)].waiting:
		ep.backlog = 0
	default:
		ep.backlog = max(0, ep.backlog-state.Claimed)
	}
}

// backOff waits 0.1 s after a claim that failed, and twice as long after each
// further one, up to 5 s (RELIABILITY.md 3.4).
func (c *core) backOff(now time.Time, err error) {
	if err == nil {
		c.claimErrors, c.claimAfter = 0, time.Time{}
		return
	}
	c.claimAfter = now.Add(min(100*time.Millisecond<<min(c.claimErrors, 10), 5*time.Second))
	c.claimErrors++
}
