package schedule

import (
	"time"

	"github.com/postrider/postrider"
)

// condition is what the core remembers of how an endpoint responds, and how much it
// may be sent because of that.
type condition struct {
	breaker postrider.Breaker // by this node's clock
	storing bool              // a change of the circuit is being stored
	again   bool              // the circuit changed again meanwhile, and is stored once more; valid while storing
	logged  logged            // what the log last said of the circuit
	probe   probeStage

	window  postrider.ConcurrencyWindow // how many attempts at once it has shown to take
	timeout postrider.AdaptiveTimeout   // zero: all of the policy's timeout
	bucket  postrider.Bucket            // of its rate
	metered bool                        // bucket is known; false until the first attempt after the endpoint came into memory or its rate changed

	rateBlockedUntil time.Time // nothing starts before: its rate is used up, or it throttled its only slot
	respondedAt      time.Time // when its last response was read
	unresponsive     bool      // an attempt of the current streak of failures got no response
	class            class     // which slots it may use; set by updateDegraded
}

// isOpen reports whether the circuit lets nothing through but a probe.
func (h *condition) isOpen() bool { return !h.breaker.Closed() }

func (h *condition) probing() bool { return h.probe == probeGranted || h.probe == probeInFlight }

// isQuiet reports whether the endpoint is in the condition of one that the core does not
// know, so that it may be forgotten. A rate that another node
// has used up counts from the start, before the first attempt fills the bucket.
func (h *condition) isQuiet(now time.Time) bool {
	return h.breaker.Quiet() && !h.storing && h.window.Open() && h.timeout == postrider.AdaptiveTimeout{} &&
		!h.breaker.PacedUntil.After(now) && !h.breaker.RateFullAt.After(now) &&
		!h.rateBlockedUntil.After(now) && !h.bucket.FullAt.After(now)
}

// rateBlocks reports whether nothing may start for the endpoint for so long that
// leases are not taken ahead.
func (h *condition) rateBlocks(now time.Time) bool { return h.rateBlockedUntil.Sub(now) > time.Second }

// maxInFlight returns how many attempts may be in flight: one for a probe, one to find
// out about an endpoint that did not respond, and otherwise as many as it has shown
// to take.
func (ep *endpoint) maxInFlight() int {
	switch {
	case ep.probe == probeGranted:
		return ep.inFlight + 1 // those in flight started before the circuit opened
	case ep.isOpen():
		return 0
	case ep.unresponsive:
		return 1
	}
	return ep.window.Slots(ep.limit)
}

// creditLimit returns how much credit the endpoint may have taken: factor times
// its slots, and where it responds fast, what it takes in half a second. That is
// more than it has slots, so that none waits for a claim, and no more than it can
// use before the leases end. Once it is used up, new deliveries have to be
// claimed, at twice the cost, until nothing older waits.
func (ep *endpoint) creditLimit(factor int) int {
	if ep.class != healthy {
		return ep.maxInFlight()
	}
	if ep.latency > 0 {
		factor = max(factor, int(min(maxCreditFactor, time.Second/2/ep.latency)))
	}
	n := ep.maxInFlight() * factor
	if ep.latency > time.Second { // there is time to claim the next before a response
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

// maxCreditFactor is the most that an endpoint's credit may be, in multiples of its slots.
const maxCreditFactor = 16

// noteLatency smooths the latency of responses. The first one counts fully: an average
// that started at zero would call a slow endpoint fast for its first attempts, and
// prefetch too much for it.
func (ep *endpoint) noteLatency(took time.Duration) {
	if ep.latency == 0 {
		ep.latency = took
		return
	}
	ep.latency += (took - ep.latency) / 8
}

// recordAttempt applies the result of an attempt to the endpoint's condition, and its
// Retry-After (pace; zero: none):
//
//   - the circuit counts successes and failures, and opens or closes;
//   - the concurrency window widens by acceptance and narrows by throttling; a circuit
//     that closes restarts it at one attempt;
//   - the adaptive timeout is halved by time-outs in a row;
//   - an endpoint without a response is unresponsive until an attempt succeeds, and
//     gets one slot;
//   - a Retry-After blocks the endpoint until its time; it is stored if it is at
//     least a second later than the stored one, so that the next owner honours
//     it.
//
// While this node drains, an attempt without a response says nothing: the node may
// have cut it itself.
func (c *Core) recordAttempt(now time.Time, ep *endpoint, d *Delivery, pace time.Duration) {
	a := &d.Result
	if d.Probe && ep.probe == probeInFlight {
		c.circuits.setProbe(ep, noProbe)
	}
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
	c.updateDegraded(ep)
}

// adjustWindow widens or narrows how many attempts the endpoint gets at once. Only
// acceptance and throttling say something about that.
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

// isResponse reports whether an attempt got a response of the receiver.
func isResponse(o postrider.Outcome) bool {
	return o == postrider.OutcomeAccepted || o == postrider.OutcomeRejected ||
		o == postrider.OutcomeThrottled || o == postrider.OutcomeGone
}

// updateDegraded puts an endpoint into its class. It is called after each attempt
// and each change of the circuit. An endpoint whose class improves moves to the
// queue of the better class at once; one that gets worse stays where it waits
// until its turn, since start checks the class again.
func (c *Core) updateDegraded(ep *endpoint) {
	is := healthy
	switch {
	case ep.isOpen():
		is = circuitOpen
	case ep.breaker.Cooldown > 0, ep.unresponsive && ep.breaker.Failures > 1:
		is = unreliable
	case ep.unresponsive:
		is = failedOnce
	}
	was := ep.class
	if is == was {
		return
	}
	c.slots.reclass(ep, is)
	if is < was && c.ready.queues[was].remove(ep) {
		c.ready.enqueue(ep) // it does not wait behind those that are worse
	}
}

// slowRate is the interval between two attempts from which on the state of a rate
// is stored after each of them, and outlives the node. A faster rate is assumed
// to be used up where another node may have used it, which costs one interval.
const slowRate = time.Second

// reserveRate reports whether the endpoint's rate allows an attempt now, and
// counts it. If not, nothing starts until it does.
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
