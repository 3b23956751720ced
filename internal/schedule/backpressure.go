package schedule

import "time"

// inspectEvery is how often the core inspects all of its endpoints.
const inspectEvery = 250 * time.Millisecond

// backpressure measures how far the node lags behind the publishes. The lag slows the publishers of
// this node. It slows no publisher of another node and no endpoint:
//
//	lag up to 50 ms   nothing
//	above             each group commit waits for a twentieth of the rest, at most 100 ms
//	above 10 s        publishes are refused, with the lag as Retry-After
//
// (Ingest.waitForDeliveries and Ingest.enqueue have these numbers. [Core.HasRoom] slows large commits
// before there is any lag.) Back-pressure ends by itself:
// the lag is computed again every 250 ms. It is zero as soon as goroutines stop waiting for a
// processor or the backlog is claimed.
//
// The lag is the backlog divided by the rate of settlements. The backlog counts first attempts that
// were due at once and could not be admitted. It does not count retries, bulk, or deliveries of
// endpoints that fail or are at their own limit, because one customer's slow endpoint must not slow
// a publisher. While the processors keep up there is no lag, even if a queue is long for a moment.
//
// Example: 3,000 deliveries wait at endpoints that could have more in flight, and the node settles
// 1,500 a second. The lag is 2 s, so each commit waits for 97 ms. The node catches up instead of
// accepting deliveries that it would have to claim later.
type backpressure struct {
	inspectedAt time.Time     // when inspectAll last ran; zero: never
	settled     int           // settlements committed since inspectedAt
	rate        float64       // smoothed settlements a second; each measurement has a weight of a quarter
	lag         time.Duration // how long the node needs for the backlog that it causes itself
}

func (b *backpressure) isDue(now time.Time) bool { return now.Sub(b.inspectedAt) >= inspectEvery }

// update computes the lag of a backlog. The rate is smoothed because settlements come in groups. It
// is assumed to be at least 100 a second.
func (b *backpressure) update(now time.Time, backlog int) {
	rate := float64(b.settled) / now.Sub(b.inspectedAt).Seconds()
	b.rate += (rate - b.rate) / 4
	b.lag = time.Duration(float64(backlog) / max(rate, b.rate, 100) * float64(time.Second))
	b.inspectedAt, b.settled = now, 0
}

// inspectAll inspects every endpoint in memory, four times a second. It forgets endpoints that have
// nothing to remember, counts stuck leases again, adjusts the bulk rate to the load, and measures
// the lag.
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

// couldUse reports whether the endpoint would use one more slot if something is due for it: its
// last attempt succeeded, and neither the endpoint nor its host is at its own limit. The node does
// not cause the backlog of a failing endpoint, so couldUse is false for it.
func (s *slots) couldUse(now time.Time, ep *endpoint) bool {
	return !s.shards.gated(now, ep) && (ep.class == prompt || ep.class < slow && s.hasSlot(ep.class)) && ep.breaker.Failures == 0 &&
		ep.inFlight < ep.maxInFlight() && !now.Before(ep.rateBlockedUntil) &&
		ep.host.inFlight < s.hostLimit && !s.unanswered(now, ep)
}
