package dispatch

import "time"

// pace is how fast the node claims from the bulk lanes, so that a large fan-out
// or replay stays below the events of the moment: it speeds up while the
// processors keep up, and slows down at once when they do not.
type pace struct {
	rate   float64 // deliveries a second
	tokens float64
	at     time.Time
}

// The bounds of the pace, and how long endpoints that wait for it are left
// alone when nothing else happens.
const (
	leastBulk = 300
	mostBulk  = 20_000
	bulkStep  = 5 * time.Millisecond
)

func (p *pace) refill(now time.Time) {
	if p.at.IsZero() {
		p.rate = 5 * leastBulk
	} else {
		p.tokens = min(p.tokens+p.rate*now.Sub(p.at).Seconds(), p.rate/20)
	}
	p.at = now
}

// allows reports whether a delivery may be claimed from a bulk lane.
func (p *pace) allows(now time.Time) bool {
	p.refill(now)
	return p.tokens >= 1
}

func (p *pace) spend(n int) { p.tokens -= float64(n) }

// adjust is called four times a second.
func (p *pace) adjust(saturated bool) {
	if saturated {
		p.rate = max(p.rate*0.6, leastBulk)
	} else {
		p.rate = min(p.rate*1.1, mostBulk)
	}
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
