package schedule

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// giveBackUnmade gives back the lease of an attempt that was started but not made: no byte of a
// request left. The attempt uses up nothing: no attempt of the delivery, no failure of the circuit,
// no token of the rate and no place in a round of suspects. If this node lacks something
// (OutcomePostponed), the endpoint gets nothing more until a back-off has passed, because its next
// delivery would fail in the same way. That includes prefetched deliveries. If the endpoint changed
// or the delivery was cancelled (OutcomeNone), the endpoint may start again at once, with its
// current settings.
func (c *Core) giveBackUnmade(now time.Time, ep *endpoint, d *Delivery) {
	if d.Probe && ep.probe == probeInFlight {
		c.circuits.setProbe(ep, noProbe)
	}
	if r := ep.policy.Rate; r.Attempts > 0 && ep.metered {
		ep.bucket.FullAt = ep.bucket.FullAt.Add(-r.Interval())
		ep.rateBlockedUntil = time.Time{}
		if r.Interval() >= slowRate {
			ep.breaker.RateFullAt = ep.bucket.FullAt
		}
	}
	l := laneIndex(d.Lane)
	if l == suspectLane {
		delete(c.suspects.recent, d.ID)
		c.suspects.notAttempted(1)
	}
	if d.Result.Outcome == postrider.OutcomePostponed {
		ep.postpone(now)
	}
	c.actions.Release = append(c.actions.Release, Release{store.Lease{Delivery: d.ID, Token: d.Token}, ep.id, l, ep.shard})
	c.shards.busy[ep.shard]++ // until the release is committed
	c.noteDue(ep, l, now)
}

// postpone makes the endpoint wait: 1 s, and twice as long each time, up to 30 s. Attempts that
// were in flight together count once.
func (ep *endpoint) postpone(now time.Time) {
	if now.Before(ep.postponedUntil) {
		return
	}
	ep.postponed = min(max(2*ep.postponed, postrider.PostponedAtFirst), postrider.PostponedAtMost)
	ep.postponedUntil = now.Add(ep.postponed)
}
