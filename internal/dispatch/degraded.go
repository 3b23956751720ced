package dispatch

import "time"

// class says with which others an endpoint shares slots. An endpoint that does
// not answer holds a slot for its whole timeout, so those that may be dead
// share few of the node's slots, and those that may have failed by chance do
// not wait behind them.
type class int

const (
	healthy    class = iota // any slot
	failedOnce              // one failure in a row, and it was no answer: a tenth of the slots
	chronic                 // more of them, or a circuit that is not trusted yet: another tenth
	broken                  // its circuit is not closed: nothing but its probe
	classes
)

// degraded reports whether the class has a share of its own.
func (of class) degraded() bool { return of == failedOnce || of == chronic }

// judge sorts an endpoint into its class.
func (c *core) judge(ep *endpoint) {
	is := healthy
	switch {
	case ep.broken():
		is = broken
	case ep.breaker.Cooldown > 0, ep.silent && ep.breaker.Failures > 1:
		is = chronic
	case ep.silent:
		is = failedOnce
	}
	was := ep.class
	if is == was {
		return
	}
	c.reclass(ep, is)
	if is < was && c.lines[was].remove(ep) {
		c.line(ep) // it does not wait behind those that are worse
	}
}

// reclass moves an endpoint to another class.
func (c *core) reclass(ep *endpoint, is class) {
	c.flying[ep.class] -= ep.inFlight
	c.inClass[ep.class] -= ep.credit
	c.flying[is] += ep.inFlight
	c.inClass[is] += ep.credit
	ep.class = is
}

func (c *core) shareOfSlots() int { return max(1, c.opts.Concurrency/10) }

// hasRoom reports whether the class has less than its share of the slots in
// flight.
func (c *core) hasRoom(of class) bool { return !of.degraded() || c.flying[of] < c.shareOfSlots() }

// mayLease reports whether something may be leased for the endpoint. For
// degraded ones no more is leased than their class can start: else they would
// take and give back leases all the time, and those of others.
func (c *core) mayLease(ep *endpoint) bool {
	return !ep.class.degraded() || c.inClass[ep.class] < c.shareOfSlots()
}

func (c *core) waitToLease(ep *endpoint) {
	if !ep.leaseWaits {
		ep.leaseWaits = true
		c.leaseLines[ep.class].push(ep)
	}
}

// letLease looks again at degraded endpoints that wait for a slot, in their
// turn.
func (c *core) letLease(now time.Time) {
	for of := range c.leaseLines {
		for n := min(c.shareOfSlots()-c.inClass[of], c.leaseLines[of].len()); n > 0; n-- {
			ep := c.leaseLines[of].pop()
			ep.leaseWaits = false
			c.review(now, ep)
		}
	}
}

// next takes the endpoint whose turn it is out of line. The degraded come first
// while they have less than their share: it is small.
func (c *core) next() *endpoint {
	for _, of := range [...]class{failedOnce, chronic, broken, healthy} {
		if !c.hasRoom(of) {
			continue
		}
		if ep := c.lines[of].pop(); ep != nil {
			return ep
		}
	}
	return nil
}

// line lets an endpoint wait for its turn, among those of its class.
func (c *core) line(ep *endpoint) {
	ep.startable = true
	switch {
	case ep.class == healthy && len(ep.held[suspectLane]) > 0:
		c.lines[healthy].pushFront(ep) // it was claimed to start at once
	default:
		c.lines[ep.class].push(ep)
	}
}

// letGoOn looks again, four times a second, at endpoints that had to answer
// before they got another slot: slots may be free again.
func (c *core) letGoOn(now time.Time) {
	if now.Sub(c.looked) < lookEvery || c.inFlight > c.opts.Concurrency/2 {
		return
	}
	for range c.silentLine.len() {
		ep := c.silentLine.pop()
		ep.silentWaits = false
		c.review(now, ep)
	}
}

// unproven reports whether an endpoint has to answer before it gets another
// slot: more than half of the slots, the node's or its host's, are in use, it
// has some of them, and has not answered for a second. It bounds what endpoints
// that begin to hang take before their first timeout says so.
func (c *core) unproven(now time.Time, ep *endpoint) bool {
	scarce := c.inFlight > c.opts.Concurrency/2 || ep.host.inFlight > c.opts.HostConcurrency/2
	return scarce && ep.inFlight > 0 && now.Sub(ep.answeredAt) > time.Second
}
