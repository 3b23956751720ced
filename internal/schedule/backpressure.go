package schedule

import "time"

// inspectEvery is how often the core looks at all of its endpoints.
const inspectEvery = 250 * time.Millisecond

// backpressure measures how far the node lags behind what is published. It slows the
// publishers of this node, not those of other nodes, and no endpoint:
//
//	lag up to 50 ms   nothing
//	above             each group commit waits for a twentieth of the rest, at most 100 ms
//	above 10 s        publishes are refused, with a Retry-After of the lag
//
// (Ingest.waitForDeliveries and Ingest.enqueue have these numbers.) It ends by itself: the
// lag is computed anew every 250 ms, and is zero as soon as goroutines stop waiting
// for a processor or the backlog is claimed.
//
// The lag is the backlog divided by the rate of settlements. The backlog counts first
// attempts that were due at once and could not be admitted. Retries, bulk and the
// deliveries of endpoints that fail or are at their own limit do not count: a
// publisher must not be slowed because somebody's endpoint is slow. And while the
// processors keep up there is no lag, however long a queue is for the moment.
//
// Example: 3,000 deliveries wait at endpoints that could have more in flight, and the
// node settles 1,500 a second. The lag is 2 s, so that each commit waits for 97 ms,
// and the node catches up instead of accepting what it would have to claim later.
type backpressure struct {
	inspectedAt time.Time     // when inspectAll ran last; zero: never
	settled     int           // settlements committed since then
	rate        float64       // settlements a second; each measurement counts a quarter
	lag         time.Duration // how long the node needs for the backlog that is its own fault
}

func (b *backpressure) isDue(now time.Time) bool { return now.Sub(b.inspectedAt) >= inspectEvery }

// update computes the lag of a backlog. The rate is smoothed, since groups of
// settlements come at once, and assumed to be at least 100 a second.
func (b *backpressure) update(now time.Time, backlog int) {
	rate := float64(b.settled) / now.Sub(b.inspectedAt).Seconds()
	b.rate += (rate - b.rate) / 4
	b.lag = time.Duration(float64(backlog) / max(rate, b.rate, 100) * float64(time.Second))
	b.inspectedAt, b.settled = now, 0
}

// inspectAll looks at every endpoint in memory, four times a second: it forgets those of
// which there is nothing to know, counts stuck leases anew, adjusts the bulk rate to
// the load, and measures the lag.
func (c *Core) inspectAll(now time.Time) {
	if !c.pressure.isDue(now) {
		return
	}
	backlog := 0
	for _, ep := range c.endpoints {
		if c.load.Saturated && c.slots.couldUse(now, ep) {
			backlog += ep.backlog
		}
		if ep.class < slow && ep.isSlow(now) {
			c.updateClass(now, ep)
		}
		c.forget(now, ep)
	}
	c.recount(now)
	c.bulk.adjust(now, c.load)
	c.pressure.update(now, backlog)
}

// couldUse reports whether one more slot would be used by the endpoint if something is
// due for it: its last attempt succeeded, and neither it nor its host is at a limit of
// its own. The backlog of an endpoint that fails is the endpoint's fault.
func (s *slots) couldUse(now time.Time, ep *endpoint) bool {
	return !s.shards.gated(now, ep) && (ep.class == prompt || ep.class < slow && s.hasSlot(ep.class)) && ep.breaker.Failures == 0 &&
		ep.inFlight < ep.maxInFlight() && !now.Before(ep.rateBlockedUntil) &&
		ep.host.inFlight < s.hostLimit && !s.unanswered(now, ep)
}
