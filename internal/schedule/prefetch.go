package schedule

import "time"

// prefetch counts leases that have not started, including leases that a claim under way asks for.
// It limits the leases that cannot start. An endpoint is stuck if it cannot start its leased
// deliveries because it is degraded or slow, its host is full or its rate is used up. All stuck
// endpoints share a quarter of the leases that the node may prefetch ([slots.prefetchFree]).
// Without that limit they would take all of these leases, and healthy endpoints would have to wait.
//
// The count of stuck leases changes with each lease, so that waiting endpoints continue within
// milliseconds after a host has a slot again. Between two recounts, of which there are four a
// second, the count is an approximation: an endpoint can become stuck or free as time passes, after
// its leases were counted.
type prefetch struct {
	slots   *slots
	stuck   int   // sum of the stuck counts of all endpoints and hosts
	waiting queue // endpoints that have something due but would be stuck
}

// maxStuck is how many leases all stuck endpoints may have together.
func (p *prefetch) maxStuck() int { return max(1, p.slots.limit/4) }

// isStuck reports whether the endpoint's leases cannot start for another reason than its place in a
// queue.
func (ep *endpoint) isStuck(now time.Time) bool {
	return ep.class.degraded() || ep.class == slow && ep.inFlight > 0 || ep.host != nil && ep.host.full || now.Before(ep.rateBlockedUntil)
}

// allows reports whether the endpoint may lease more than it can start now. A degraded endpoint is
// not limited here, but by the share of its class (slots.leasable).
func (p *prefetch) allows(now time.Time, ep *endpoint) bool {
	return p.stuck < p.maxStuck() || !ep.isStuck(now) || ep.class.degraded()
}

// claimLimit returns how many deliveries a claim may ask for at the endpoint. The remaining
// capacity to prefetch is divided equally among this endpoint and the others that wait for a claim.
// One endpoint gets at most half, so that new deliveries can still be admitted.
func (p *prefetch) claimLimit(ep *endpoint, others int) int {
	free := p.slots.prefetchFree()
	half := (free - (ep.credit - ep.inFlight) + 1) / 2
	return min(free, max(1, min(half, free/(1+others))))
}

// reserve takes credit for n deliveries of a lane, because a claim asks for them, they are
// admitted, or they were committed under a lease.
func (p *prefetch) reserve(now time.Time, ep *endpoint, l, n int) {
	p.slots.addCredit(ep, n)
	p.slots.leased[l] += n
	p.addStuck(now, ep, n)
}

// free returns the credit of n deliveries that will not start: a claim did not return them, their
// commit failed, or their leases are given back.
func (p *prefetch) free(ep *endpoint, l, n int) {
	p.slots.addCredit(ep, -n)
	p.started(ep, l, n)
}

// started records that n deliveries of a lane have started. They keep their credit until their
// attempts end.
func (p *prefetch) started(ep *endpoint, l, n int) {
	p.slots.leased[l] -= n
	p.removeStuck(ep, n)
}

// addStuck counts n more leases of an endpoint if it is stuck. If they wait for a full host, they
// are counted at the host, because all of them can start when the host has slots again.
func (p *prefetch) addStuck(now time.Time, ep *endpoint, n int) {
	if !ep.isStuck(now) {
		return
	}
	count := &ep.stuck
	if ep.host != nil && ep.host.full {
		count = &ep.host.stuck
	}
	*count += n
	p.stuck += n
}

// removeStuck subtracts n from the stuck count of the endpoint, or of its host if they were
// counted there.
func (p *prefetch) removeStuck(ep *endpoint, n int) {
	count := &ep.stuck
	if ep.stuck == 0 && ep.host != nil {
		count = &ep.host.stuck
	}
	n = min(n, *count)
	*count -= n
	p.stuck -= n
}

// clear sets the stuck count of an endpoint or a host to zero, and subtracts it from the sum.
func (p *prefetch) clear(count *int) {
	p.stuck -= *count
	*count = 0
}

// recount counts all stuck leases again, four times a second, and releases those above the limit.
// It reviews all endpoints in waiting, because some may no longer be stuck.
func (c *Core) recount(now time.Time) {
	p := &c.prefetch
	for _, h := range c.hosts.byName {
		p.clear(&h.stuck)
	}
	for _, ep := range c.endpoints {
		p.clear(&ep.stuck)
		p.addStuck(now, ep, ep.credit-ep.inFlight)
	}
	if p.stuck > p.maxStuck() {
		for _, ep := range sortedByID(c.endpoints) {
			if p.stuck > p.maxStuck() && ep.isStuck(now) {
				c.giveBack(now, ep)
				c.review(now, ep)
			}
		}
	}
	c.reviewNext(now, &p.waiting, p.waiting.len())
}
