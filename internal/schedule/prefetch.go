package schedule

import "time"

// prefetch counts the deliveries that are leased, or asked for, and have not started, and
// bounds those that cannot start. Endpoints that cannot start what they lease, because they
// are degraded or slow, their host is full or their rate is used up, are stuck. They share a
// quarter of what the node may prefetch ([slots.prefetchFree]). Without that bound they
// would take all of it, and healthy endpoints would wait for them.
//
// The count of stuck leases changes with each lease, so that waiting endpoints can go
// on within milliseconds after a host has a slot again. It is an approximation until
// recount, four times a second, makes it exact: an endpoint becomes stuck or free as time
// passes, after its leases were counted.
type prefetch struct {
	slots   *slots
	stuck   int   // the sum of the counts of all endpoints and hosts
	waiting queue // endpoints with something due that would be stuck
}

// maxStuck is how many leases stuck endpoints may have together.
func (p *prefetch) maxStuck() int { return max(1, p.slots.limit/4) }

// isStuck reports whether the endpoint's leases wait for something else than its
// position in a queue.
func (ep *endpoint) isStuck(now time.Time) bool {
	return ep.class.degraded() || ep.class == slow && ep.inFlight > 0 || ep.host != nil && ep.host.full || now.Before(ep.rateBlockedUntil)
}

// allows reports whether the endpoint may lease more than it can start now. A degraded one
// is not bounded here, but by the share of its class (slots.leasable).
func (p *prefetch) allows(now time.Time, ep *endpoint) bool {
	return p.stuck < p.maxStuck() || !ep.isStuck(now) || ep.class.degraded()
}

// claimLimit returns how many deliveries a claim may ask for at the endpoint. The capacity
// that is left to prefetch is divided equally among it and the others that wait for a
// claim. One endpoint gets at most half, so that new deliveries can still be admitted.
func (p *prefetch) claimLimit(ep *endpoint, others int) int {
	free := p.slots.prefetchFree()
	half := (free - (ep.credit - ep.inFlight) + 1) / 2
	return min(free, max(1, min(half, free/(1+others))))
}

// reserve uses credit for n deliveries of a lane: a claim asks for them, they are
// admitted, or they were committed under a lease.
func (p *prefetch) reserve(now time.Time, ep *endpoint, l, n int) {
	p.slots.addCredit(ep, n)
	p.slots.leased[l] += n
	p.addStuck(now, ep, n)
}

// free makes the credit of n deliveries free that will not start: a claim did not bring
// them, their commit failed, or their leases are given back.
func (p *prefetch) free(ep *endpoint, l, n int) {
	p.slots.addCredit(ep, -n)
	p.started(ep, l, n)
}

// started notes that n deliveries of a lane have started. They keep their credit until
// their attempts are over.
func (p *prefetch) started(ep *endpoint, l, n int) {
	p.slots.leased[l] -= n
	p.removeStuck(ep, n)
}

// addStuck counts n more leases of an endpoint, if it is stuck. Leases that wait for a
// full host are counted at the host: all of them can start when it has slots again.
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

// clear takes the count of an endpoint or a host out of the sum.
func (p *prefetch) clear(count *int) {
	p.stuck -= *count
	*count = 0
}

// recount counts all stuck leases anew, four times a second, and releases those above
// their limit. It reviews all endpoints in waiting: some may not be
// stuck any more.
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
