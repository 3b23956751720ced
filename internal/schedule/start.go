package schedule

import (
	"time"

	"github.com/postrider/postrider"
)

// start gives slots to ready endpoints, one to each in turn, while slots are free. So an endpoint
// with 10,000 deliveries and one with a single delivery get the same share. The conditions of
// review may have changed while the endpoint waited, so start checks them again. It reviews an
// endpoint that cannot start, which puts the endpoint into the queue where it belongs now.
//
// If the host has no slot, the endpoint waits in the host's queue, first come, first served. It
// returns to the ready queues when the host has a slot. Otherwise 1,000 endpoints of a slow host
// would be checked for each start of another endpoint.
func (c *Core) start(now time.Time) {
	if c.shards.lapsed(now) {
		return
	}
	for c.Unfinished()-c.slots.inFlightOf[slow] < c.opts.MaxUnsettled {
		ep := c.ready.next()
		if ep == nil {
			return
		}
		c.updateClass(now, ep)
		switch {
		case c.shards.gated(now, ep), ep.inFlight >= ep.maxInFlight(), ep.prefetchedCount() == 0, now.Before(ep.rateBlockedUntil),
			c.slots.unanswered(now, ep):
		case !c.slots.hasSlot(ep.class):
			c.ready.enqueue(ep)
			continue
		case ep.host.inFlight >= c.slots.hostLimit:
			ep.host.full = true
			ep.host.waiting.push(ep)
			continue
		default:
			c.startOne(now, ep)
		}
		c.review(now, ep)
		c.reviewHost(now, ep.host)
	}
}

// reviewHost makes the endpoint ready that has waited longest for a slot of the host, if the host
// has one. It removes endpoints that cannot use the slot any more from the queue.
func (c *Core) reviewHost(now time.Time, h *host) {
	for h != nil && h.inFlight < c.slots.hostLimit {
		next := h.waiting.pop()
		if next == nil {
			return
		}
		c.review(now, next)
		if next.queued&inReady != 0 && c.slots.hasSlot(next.class) {
			return
		}
	}
}

// startOne starts the endpoint's next delivery, if its lane and its rate allow that. A delivery
// that must not be attempted any more (postrider.Refuse) is settled without an attempt.
func (c *Core) startOne(now time.Time, ep *endpoint) {
	c.dropUncovered(now, ep)
	l := ep.nextLane(now, &c.bulk)
	if l < 0 || !c.reserveRate(now, ep) {
		return
	}
	d := ep.pop(l)
	c.prefetch.started(ep, l, 1)
	if l == bulkLane {
		c.bulk.tokens--
	} else {
		c.bulk.urgentAt = now
	}
	if t, refused := postrider.Refuse(d.Claimed, now.Add(c.ahead)); refused {
		c.slots.addCredit(ep, -1)
		if l == suspectLane {
			c.suspects.notAttempted(1)
		}
		d.Result = postrider.Attempt{Outcome: postrider.OutcomeNone, StartedAt: now.Add(c.wall), Error: t.Reason}
		c.settle(now, ep, d, t)
		return
	}
	d.To, d.Timeout = ep.settings, ep.policy.Timeout
	if ep.probe == probeGranted {
		d.Probe = true
		c.circuits.setProbe(ep, probeInFlight)
	} else {
		d.Timeout = ep.timeout.Timeout(d.Timeout)
	}
	if l == suspectLane {
		c.suspects.started(d.ID, now)
	}
	if ep.inFlight == 0 {
		ep.waitsSince = now
	}
	c.slots.addInFlight(ep, 1)
	c.hosts.notFull(ep.host)
	c.actions.Send = append(c.actions.Send, d)
}
