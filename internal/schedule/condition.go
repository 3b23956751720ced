package schedule

import (
	"time"

	"github.com/postrider/postrider"
)

// condition is how an endpoint has responded, and how much may be sent to it because of that. It is
// only in memory, except for the circuit (breaker). It is not the same as the endpoint's health,
// which the janitor assesses from stored data and reports to the endpoint's owner.
type condition struct {
	breaker    postrider.Breaker // its times are on this node's clock
	storedOpen bool              // the stored circuit is open or half open; see CircuitStored
	storing    bool              // a change of the circuit is being stored
	// The circuit has changed again, so it must be stored once more; valid while storing.
	again  bool
	logged logged     // the state of the circuit that was logged last
	probe  probeStage // set by circuits.setProbe

	window  postrider.ConcurrencyWindow // number of attempts at once that the endpoint has shown to handle
	timeout postrider.AdaptiveTimeout   // shortens the policy's timeout; zero: it does not shorten it
	bucket  postrider.Bucket            // token bucket of the rate; valid while metered
	// Bucket is valid; false until the first attempt after the endpoint came into memory or its
	// rate changed.
	metered bool

	// Nothing starts before, because the rate is used up or the endpoint throttled its only slot;
	// zero: attempts may start.
	rateBlockedUntil time.Time
	respondedAt      time.Time // when its last response was read; zero: no response yet
	// Since when attempts in flight got no response: time of the last response, or of the start of
	// the first of them.
	waitsSince time.Time
	postponed  time.Duration // the wait after the last postponed attempt; 0: an attempt was made since then
	// Nothing starts before, because this node could not make the last attempt; zero: attempts may
	// start.
	postponedUntil time.Time
	unresponsive   bool  // an attempt of the current streak of failures got no response
	class          class // decides which slots it may use; set by updateClass
}

// isOpen reports whether the circuit is open or half open, so that only a probe is sent.
func (cd *condition) isOpen() bool { return !cd.breaker.Closed() }

// probing reports whether the next attempt, or the one in flight, is the probe.
func (cd *condition) probing() bool { return cd.probe == probeGranted || cd.probe == probeInFlight }

// isQuiet reports whether the condition equals the condition of a new endpoint. The core may forget
// a quiet condition. If another node has used up the rate (RateFullAt), the condition is not quiet, even
// before the first attempt here sets the bucket.
func (cd *condition) isQuiet(now time.Time) bool {
	return cd.breaker.Quiet() && !cd.storing && cd.window.Open() && cd.timeout == postrider.AdaptiveTimeout{} &&
		!cd.breaker.PacedUntil.After(now) && !cd.breaker.RateFullAt.After(now) &&
		!cd.rateBlockedUntil.After(now) && !cd.postponedUntil.After(now) && !cd.bucket.FullAt.After(now)
}

// rateBlocks reports whether the rate blocks the endpoint for more than a second. If so, nothing is
// leased ahead: the lease would block capacity that others can use.
func (cd *condition) rateBlocks(now time.Time) bool {
	return cd.rateBlockedUntil.Sub(now) > time.Second
}

// maxInFlight returns how many attempts may be in flight: one for a probe, one if the last attempts
// got no response, and otherwise as many as the concurrency window allows.
func (ep *endpoint) maxInFlight() int {
	switch {
	case ep.probe == probeGranted:
		return ep.inFlight + 1 // the attempts in flight started before the circuit opened
	case ep.isOpen():
		return 0
	case ep.unresponsive:
		return 1
	}
	return ep.window.Slots(ep.limit)
}

// Pace returns how much may be sent to an endpoint now, for people to see; false: another node owns
// the endpoint, or the core does not know it.
func (c *Core) Pace(now time.Time, id postrider.EndpointID) (postrider.Pace, bool) {
	ep := c.endpoints[id]
	if ep == nil || !c.shards.owns(ep.shard) {
		return postrider.Pace{}, false
	}
	p := postrider.Pace{Slots: ep.maxInFlight(), Limit: ep.limit, InFlight: ep.inFlight}
	if at := later(later(ep.breaker.PacedUntil, ep.rateBlockedUntil), ep.postponedUntil); at.After(now) {
		p.ResumesAt = at.Add(c.wall).UTC()
	}
	switch {
	case ep.postponedUntil.After(now):
		p.Reason = postrider.PacePostponed
	case ep.breaker.PacedUntil.After(now):
		p.Reason = postrider.PaceRetryAfter
	case ep.unresponsive:
		p.Reason = postrider.PaceNoResponse
	case !ep.window.Open():
		p.Reason = postrider.PaceWindow
	case ep.rateBlockedUntil.After(now):
		p.Reason = postrider.PaceRate
	}
	return p, true
}

// creditLimit returns how much credit the endpoint may use. It is creditFactor times maxInFlight,
// or as much as the endpoint uses up in half a second if it responds fast. That is more than it can
// have in flight, so that none of its slots waits for a claim. It is also little enough to be used
// before the leases end. It is less if more would only keep leases from other endpoints: for an
// endpoint that must respond first, a degraded or slow one, one at a full host, and one with a
// rate.
//
// When the credit is used up, new deliveries must be claimed, at twice the cost, until no older one
// waits. Example: with a limit of 10 and a latency of 50 ms, the credit limit is 100; with 300 ms,
// it is 20.
func (s *slots) creditLimit(now time.Time, ep *endpoint) int {
	if s.mustRespond(now, ep) {
		return 1
	}
	factor := s.creditFactor
	if ep.class > slow {
		return ep.maxInFlight()
	}
	if ep.latency > 0 {
		factor = max(factor, int(min(maxCreditFactor, time.Second/2/ep.latency)))
	}
	n := ep.maxInFlight() * factor
	if ep.latency > time.Second { // the next can be claimed before a response comes
		n = min(n, ep.maxInFlight()+1)
	}
	if ep.host != nil && ep.host.full {
		n = min(n, ep.inFlight+1)
	}
	if r := ep.policy.Rate; r.Attempts > 0 {
		n = min(n, ep.inFlight+1+int(time.Second/10/r.Interval()))
	}
	return n
}

// maxCreditFactor is the greatest credit of an endpoint that responds fast, in multiples of
// maxInFlight.
const maxCreditFactor = 16

// noteLatency smooths the time from the start of an attempt to its response or time-out. The first
// attempt counts fully. If the average started at zero, a slow endpoint would look fast during its
// first attempts, and too much would be prefetched for it.
func (ep *endpoint) noteLatency(took time.Duration) {
	if ep.latency == 0 {
		ep.latency = took
		return
	}
	ep.latency += (took - ep.latency) / 8
}

// recordAttempt applies the result of an attempt to the endpoint's condition. pace is its
// Retry-After; zero: none.
//
//   - The circuit counts successes and failures, and opens or closes.
//   - The concurrency window grows with accepted attempts and shrinks with throttled ones. A
//     circuit that closes restarts it at one attempt.
//   - The adaptive timeout is halved by time-outs in a row.
//   - An endpoint that did not respond is unresponsive until an attempt succeeds, and has one
//     attempt in flight.
//   - A Retry-After blocks the endpoint until it has passed. If it ends at least a second later
//     than the stored one, it is stored, so that the next owner honours it.
//
// An excused attempt says nothing about the endpoint, because this node lacked something.
//
// While this node drains, an attempt without a response says nothing about the endpoint either: the
// node may have ended the attempt itself.
func (c *Core) recordAttempt(now time.Time, ep *endpoint, d *Delivery, pace time.Duration) {
	a := &d.Result
	if d.Probe && ep.probe == probeInFlight {
		c.circuits.setProbe(ep, noProbe)
	}
	if a.Excused {
		ep.postpone(now)
		return
	}
	ep.postponed = 0
	noResponse := a.Outcome == postrider.OutcomeUnreachable || a.Outcome == postrider.OutcomeTimedOut || a.Outcome == postrider.OutcomeBroken
	if noResponse && c.draining {
		return
	}
	if isResponse(a.Outcome) {
		ep.respondedAt = now
	}
	if ep.policy.AdaptiveTimeout {
		ep.timeout.Record(a.Outcome)
	}
	wasOpen := ep.isOpen()
	changed := ep.breaker.Record(a, d.Probe, now, ep.policy.Circuit)
	ep.unresponsive = ep.breaker.Failures > 0 && (noResponse || ep.unresponsive)
	ep.adjustWindow(now, a)
	if wasOpen && !ep.isOpen() {
		ep.window.Restart(ep.limit)
	}
	if until := now.Add(pace); pace > 0 && until.After(ep.breaker.PacedUntil) {
		changed = changed || until.Sub(ep.breaker.PacedUntil) >= time.Second
		ep.breaker.PacedUntil = until
	}
	if changed {
		c.circuits.store(ep)
	}
	c.updateClass(now, ep)
}

// adjustWindow changes how many attempts the endpoint may have in flight. Only accepted and
// throttled attempts change it, because a 500 may have any cause. An endpoint that throttles its
// only slot and sends no Retry-After is paused instead.
func (ep *endpoint) adjustWindow(now time.Time, a *postrider.Attempt) {
	switch a.Outcome {
	case postrider.OutcomeAccepted:
		ep.window.Accepted(ep.limit)
	case postrider.OutcomeThrottled:
		if pause := ep.window.Throttled(ep.limit, ep.breaker.Accepts(), now); a.RetryAfter == 0 {
			ep.rateBlockedUntil = later(ep.rateBlockedUntil, now.Add(pause))
		}
	default:
	}
}

// isResponse reports whether the receiver responded to an attempt.
func isResponse(o postrider.Outcome) bool {
	return o == postrider.OutcomeAccepted || o == postrider.OutcomeRejected ||
		o == postrider.OutcomeThrottled || o == postrider.OutcomeGone
}

// isSlow reports whether attempts in flight have had no response for slowAfter, or attempts usually
// take that long. For an attempt that timed out, the time until its time-out counts.
func (ep *endpoint) isSlow(now time.Time) bool {
	return ep.latency > slowAfter || ep.inFlight > 0 && now.Sub(ep.waitsSince) >= slowAfter
}

// updateClass sets the class of an endpoint. It is called whenever the endpoint is used. inspectAll
// also calls it, for endpoints that have become slow since. An endpoint whose class improves moves
// to the queue of the better class at once. An endpoint whose class gets worse stays in its queue;
// when start takes it out, start calls updateClass again.
//
// Example: a new endpoint is unproven. After a quarter of a second without a response it is slow.
// It times out and is failedOnce. It times out again and is unreliable. After the fifth failure its
// circuit opens. The probe succeeds. The endpoint stays unreliable while the circuit is on
// probation (Cooldown), and is prompt afterwards.
func (c *Core) updateClass(now time.Time, ep *endpoint) {
	is := prompt
	switch {
	case ep.isOpen():
		is = circuitOpen
	case ep.breaker.Cooldown > 0, ep.unresponsive && ep.breaker.Failures > 1:
		is = unreliable
	case ep.unresponsive:
		is = failedOnce
	case ep.isSlow(now):
		is = slow
	case ep.respondedAt.IsZero(), now.Sub(ep.respondedAt) > c.slots.promptWithin():
		is = unproven
		if ep.breaker.Vouched() {
			is = proven
		}
	}
	was := ep.class
	if is == was {
		return
	}
	c.slots.reclass(ep, is)
	if is > was {
		return
	}
	if c.ready.queues[was].remove(ep) {
		c.ready.enqueue(ep) // it must not wait behind endpoints of the worse class
	}
	if c.claims.waiting[was].remove(ep) {
		c.claims.waiting[is].push(ep)
	}
}

// slowRate is an interval between two attempts. For rates with this interval or a longer one, the
// state of the rate is stored with the circuit after each attempt, so that it outlives the node. A
// faster rate is assumed to be used up if another node may have used it, which costs one interval.
const slowRate = time.Second

// reserveRate reports whether the endpoint's rate allows an attempt now, and counts it. If not, it
// sets rateBlockedUntil to the time when the rate does.
func (c *Core) reserveRate(now time.Time, ep *endpoint) bool {
	r := ep.policy.Rate
	if r.Attempts == 0 {
		return true
	}
	if !ep.metered {
		ep.metered = true
		empty := r.Empty(now)
		switch {
		case r.Interval() >= slowRate:
			ep.bucket = r.Restore(ep.breaker.RateFullAt, now)
		case c.shards.isNew(ep.shard, c.suspects.startedAt, now.Add(now.Sub(empty.FullAt))):
			ep.bucket = empty
		}
	}
	if at := ep.bucket.ReadyAt(r); at.After(now) {
		ep.rateBlockedUntil = at
		return false
	}
	ep.bucket.Take(r, now)
	if r.Interval() >= slowRate {
		ep.breaker.RateFullAt = ep.bucket.FullAt
		c.circuits.store(ep)
	}
	return true
}
