package dispatch

import "time"

// stock is what the node leases and has not started. It is bounded by the
// number of slots: when a node dies, all that it leased counts as an attempt
// that may have been made, and at most one for each slot was not.
//
// Endpoints that cannot start what they lease, because they are degraded,
// their host has no slot or their rate is spent, share a quarter of it. Without
// that bound they would take all of it, and healthy endpoints would wait for
// them.
type stock struct {
	stuck int  // of it, held by endpoints that cannot start it: the sum of their counts and their hosts'
	aside ring // endpoints that are due and wait for room in that quarter
}

// roomInStock returns how many more deliveries the node may lease before they start.
func (c *core) roomInStock() int { return c.opts.Concurrency - (c.inHand - c.inFlight) }

// mostStuck is the share of the stock for endpoints that cannot start.
func (c *core) mostStuck() int { return max(1, c.opts.Concurrency/4) }

// isStuck reports whether what the endpoint holds waits for something else than
// its turn.
func (ep *endpoint) isStuck(now time.Time) bool {
	return ep.class.degraded() || ep.host != nil && ep.host.full || now.Before(ep.restUntil)
}

// mayStock reports whether the endpoint may lease more than it starts.
func (c *core) mayStock(now time.Time, ep *endpoint) bool {
	return c.stock.stuck < c.mostStuck() || !ep.isStuck(now) || ep.class.degraded()
}

// shareOfStock returns how many deliveries a claim may ask for at the endpoint.
// The free room is divided equally among the endpoints that want to claim. One
// endpoint takes at most half of it, so that new deliveries can still be admitted.
func (c *core) shareOfStock(ep *endpoint) int {
	room := c.roomInStock()
	leaves := (room - (ep.credit - ep.inFlight) + 1) / 2
	return min(room, max(1, min(leaves, room/(1+c.claimable.len()))))
}

// setAside lines an endpoint up until there is room for what it cannot start.
func (c *core) setAside(ep *endpoint) {
	if !ep.aside {
		ep.aside = true
		c.stock.aside.push(ep)
	}
}

// stocked notes that an endpoint leases n more. What a full host keeps from
// starting is counted at the host: all of it can start when the host has slots
// again.
func (c *core) stocked(now time.Time, ep *endpoint, n int) {
	if !ep.isStuck(now) {
		return
	}
	of := &ep.stuck
	if ep.host != nil && ep.host.full {
		of = &ep.host.stuck
	}
	*of += n
	c.stock.stuck += n
}

// unstocked notes that an endpoint starts n, or does not have their leases any
// more.
func (c *core) unstocked(ep *endpoint, n int) {
	of := &ep.stuck
	if ep.stuck == 0 && ep.host != nil {
		of = &ep.host.stuck
	}
	n = min(n, *of)
	*of -= n
	c.stock.stuck -= n
}

// unstick takes a count of an endpoint or a host out of the sum: nothing keeps
// it from starting any more.
func (c *core) unstick(of *int) {
	c.stock.stuck -= *of
	*of = 0
}

// takeStock counts what is stuck, and gives back what is too much of it. It
// looks again at all endpoints that were set aside: some may not be stuck any
// more.
func (c *core) takeStock(now time.Time) {
	s := &c.stock
	for _, h := range c.hosts {
		c.unstick(&h.stuck)
	}
	for _, ep := range c.endpoints {
		c.unstick(&ep.stuck)
		c.stocked(now, ep, ep.credit-ep.inFlight)
	}
	if s.stuck > c.mostStuck() {
		for _, ep := range c.sorted() {
			if s.stuck > c.mostStuck() && ep.isStuck(now) {
				c.giveBack(now, ep)
				c.review(now, ep)
			}
		}
	}
	c.lookAside(now, s.aside.len())
}

// restock looks again at endpoints that wait for room for what they cannot
// start, where there is some.
func (c *core) restock(now time.Time) {
	c.lookAside(now, min(c.mostStuck()-c.stock.stuck, c.stock.aside.len()))
}

// lookAside looks again at n of the endpoints that were set aside.
func (c *core) lookAside(now time.Time, n int) {
	for ; n > 0; n-- {
		ep := c.stock.aside.pop()
		ep.aside = false
		c.review(now, ep)
	}
}
