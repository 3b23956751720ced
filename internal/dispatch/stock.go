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
	stuck int  // of it, held by endpoints that cannot start it, about
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

// shareOfStock returns how many deliveries a claim may ask for at the endpoint:
// as many as for each of those that want to claim, and no more than it leaves
// for those that publish.
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

// stocked notes that an endpoint leases n more, or starts -n.
func (c *core) stocked(now time.Time, ep *endpoint, n int) {
	if ep.isStuck(now) {
		c.stock.stuck = max(0, c.stock.stuck+n)
	}
}

// takeStock counts what is stuck, and gives back what is too much of it.
func (c *core) takeStock(now time.Time) {
	s := &c.stock
	s.stuck = 0
	for _, ep := range c.endpoints {
		if ep.isStuck(now) {
			s.stuck += ep.credit - ep.inFlight
		}
	}
	if s.stuck > c.mostStuck() {
		for _, ep := range c.sorted() {
			if s.stuck > c.mostStuck() && ep.isStuck(now) {
				s.stuck -= ep.holds()
				c.giveBack(now, ep)
				c.review(now, ep)
			}
		}
	}
}

// restock looks again at endpoints that wait for room for what they cannot
// start, where there is some.
func (c *core) restock(now time.Time) {
	for n := min(c.mostStuck()-c.stock.stuck, c.stock.aside.len()); n > 0; n-- {
		ep := c.stock.aside.pop()
		ep.aside = false
		c.review(now, ep)
	}
}
