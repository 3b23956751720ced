package dispatch

import "time"

// budget is what retries cost the whole node: first attempts earn it, retries
// spend it, and those that are accepted earn it back and more. So an outage of
// everything costs a fifth more than the first attempts, and the end of an
// outage lets retries through as fast as they succeed.
type budget struct {
	tokens float64
	at     time.Time
}

// The prices, in retries.
const (
	maxBudget   = 500
	perFirst    = 0.2      // a first attempt earns it
	perAccepted = 2        // a retry that is accepted earns it: what it cost, and one more
	atLeast     = 10. / 60 // a second earns it: what there is at least
)

func (b *budget) refill(now time.Time) {
	if !b.at.IsZero() {
		b.earn(atLeast * now.Sub(b.at).Seconds())
	}
	b.at = now
}

func (b *budget) earn(n float64) { b.tokens = min(b.tokens+n, maxBudget) }

// allows reports whether a retry may start.
func (b *budget) allows(now time.Time) bool {
	b.refill(now)
	return b.tokens >= 1
}

// started notes an attempt at a step of its schedule.
func (b *budget) started(step int) {
	if step == 0 {
		b.earn(perFirst)
	} else {
		b.tokens = max(0, b.tokens-1)
	}
}

// accepted notes that an attempt at a step of its schedule was accepted.
func (b *budget) accepted(step int) {
	if step > 0 {
		b.earn(perAccepted)
	}
}

// hungry is how long endpoints whose retries wait for the budget are left
// alone when nothing else happens.
const hungry = 100 * time.Millisecond

// starve lines an endpoint up for the time when the budget allows a retry.
func (c *core) starve(ep *endpoint) {
	if !ep.starved {
		ep.starved = true
		c.starved.push(ep)
	}
}

// feed looks again at as many endpoints as the budget may have retries for.
func (c *core) feed(now time.Time) {
	if c.starved.len() == 0 || !c.budget.allows(now) {
		return
	}
	for n := min(int(c.budget.tokens), c.starved.len()); n > 0; n-- {
		ep := c.starved.pop()
		ep.starved = false
		c.review(now, ep)
	}
}
