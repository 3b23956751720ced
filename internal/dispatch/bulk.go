package dispatch

import "time"

// pace is how fast the node starts what is in the bulk lanes, so that a large
// fan-out or replay stays below the events of the moment.
type pace struct {
	rate   float64 // deliveries a second
	tokens float64
	at     time.Time
	short  bool      // it was asked for more than it had
	urgent time.Time // when something of another lane started last
	asked  int       // deliveries that the claim under way asks for
}

// The bounds of the pace, in deliveries; how long endpoints that wait for it
// are left alone when nothing else happens, which keeps bursts short; and for
// how long what is leased ahead lasts.
const (
	leastBulk = 300
	firstBulk = 1500
	mostBulk  = 20_000
	bulkStep  = 2 * time.Millisecond
	bulkAhead = 100 * time.Millisecond
)

func (p *pace) refill(now time.Time) {
	if p.at.IsZero() {
		p.rate = firstBulk
	} else {
		p.tokens = min(p.tokens+p.rate*now.Sub(p.at).Seconds(), p.rate/20)
	}
	p.at = now
}

// allows reports whether a delivery of a bulk lane may start.
func (p *pace) allows(now time.Time) bool {
	p.refill(now)
	p.short = p.short || p.tokens < 1
	return p.tokens >= 1
}

// adjust is called four times a second. The pace speeds up while the processors
// keep up; it slows down at once when they do not, and already when whatever is
// urgent would have to wait for one. What it reached is forgotten when it is not
// used: the next burst must not begin with it.
func (p *pace) adjust(now time.Time, l load) {
	switch {
	case l.saturated:
		p.rate *= 0.6
	case l.crowded && now.Sub(p.urgent) < time.Second:
		p.rate *= 0.85
	case p.short:
		p.rate *= 1.1
	default:
		p.rate = min(max(p.rate*0.85, firstBulk), p.rate*1.1)
	}
	p.short = false
	p.rate = min(max(p.rate, leastBulk), mostBulk)
}

// roomForBulk reports whether one more of a bulk lane may be leased before it
// starts: of an endpoint half of its credit, so that first attempts find some,
// and no more than it leaves for others.
func (c *core) roomForBulk(ep *endpoint) bool {
	room, has := c.roomOfBulk(), len(ep.held[bulkLane])+ep.asked[bulkLane]
	return room > 0 && has < max(1, min(room, ep.room(c.opts.Prefetch)/2))
}

// roomOfBulk returns how many more of the bulk lanes may be leased: as many as
// start soon at the present pace, and at most half of the stock.
func (c *core) roomOfBulk() int {
	soon := max(c.bulk.rate, leastBulk) * bulkAhead.Seconds()
	return min(int(soon), max(1, c.opts.Concurrency/2)) - c.leased[bulkLane]
}

// wait lines an endpoint up whose bulk is due, until the pace allows it.
func (c *core) wait(ep *endpoint) {
	if !ep.patient {
		ep.patient = true
		c.patient.push(ep)
	}
}

// feedBulk looks again at as many endpoints as the pace allows deliveries.
func (c *core) feedBulk(now time.Time) {
	if c.patient.len() == 0 || !c.bulk.allows(now) {
		return
	}
	for n := min(int(c.bulk.tokens), c.patient.len()); n > 0; n-- {
		ep := c.patient.pop()
		ep.patient = false
		c.review(now, ep)
	}
}
