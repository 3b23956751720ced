package dispatch

import (
	"time"

	"github.com/postrider/postrider"
)

// trouble is what the core remembers of how an endpoint takes what it is sent,
// and how much it may be sent because of that.
type trouble struct {
	breaker postrider.Breaker
	storing bool // a change of the circuit is being stored,
	again   bool // and there was another one since
	told    told // what the log last said of the circuit
	stage   stage

	window   postrider.Window
	patience postrider.Patience
	bucket   postrider.Bucket // of its rate
	metered  bool             // bucket is known: an attempt was to start since the endpoint or its rate is

	restUntil  time.Time // nothing starts before: its rate is spent, or it throttled its only slot
	answeredAt time.Time // its last answer
	silent     bool      // a failure of the current streak was no answer
	class      class
}

// stage is how far the probe of a circuit that is not closed has come.
type stage int

const (
	noProbe      stage = iota
	probeAsked         // the store decides which node probes
	probeGranted       // the next attempt is the probe
	probeFlying        // it is under way
)

// broken reports whether the circuit lets nothing through but a probe.
func (t *trouble) broken() bool { return !t.breaker.Closed() }

func (t *trouble) probing() bool { return t.stage == probeGranted || t.stage == probeFlying }

// calm reports whether there is nothing to remember. A rate that another node
// has spent counts from the start, before the first attempt fills the bucket.
func (t *trouble) calm(now time.Time) bool {
	return t.breaker.Quiet() && !t.storing && t.window.Open() && t.patience == postrider.Patience{} &&
		!t.breaker.PacedUntil.After(now) && !t.breaker.RateFullAt.After(now) &&
		!t.restUntil.After(now) && !t.bucket.FullAt.After(now)
}

// slots returns how many attempts may be in flight: one for a probe, one to
// find out about an endpoint that did not answer, and else as many as it has
// shown to take.
func (ep *endpoint) slots() int {
	switch {
	case ep.stage == probeGranted:
		return ep.inFlight + 1 // those in flight left before the circuit opened
	case ep.broken():
		return 0
	case ep.silent:
		return 1
	}
	return ep.window.Slots(ep.limit)
}

// room returns how much credit the endpoint may have taken: more than it has
// slots, so that none waits for a claim, but no more than it can use before
// the leases end: prefetch times its slots, and where it answers fast, what it
// takes in half a second. Once it is spent, what is published has to be
// claimed, at twice the cost, until nothing older waits.
func (ep *endpoint) room(prefetch int) int {
	if ep.class != healthy {
		return ep.slots()
	}
	if ep.latency > 0 {
		prefetch = max(prefetch, int(min(maxPrefetch, time.Second/2/ep.latency)))
	}
	n := ep.slots() * prefetch
	if ep.latency > time.Second { // there is time to claim the next before an answer
		n = min(n, ep.slots()+1)
	}
	if ep.host != nil && ep.host.full {
		n = min(n, ep.inFlight+1)
	}
	if r := ep.policy.Rate; r.Attempts > 0 {
		n = min(n, ep.inFlight+1+int(time.Second/10/r.Interval()))
	}
	return n
}

// maxPrefetch is how many times its slots an endpoint may have in hand at most.
const maxPrefetch = 16

// gateOpens returns when an endpoint that is gated now may be served again;
// zero: time alone does not open it.
func (ep *endpoint) gateOpens() time.Time {
	if !ep.broken() || ep.stage != noProbe {
		return ep.breaker.PacedUntil
	}
	var first time.Time
	for _, l := range ep.lanes {
		if l.waiting && (first.IsZero() || l.due.Before(first)) {
			first = l.due
		}
	}
	if first.IsZero() {
		return time.Time{} // nothing to probe with
	}
	return later(later(first, ep.breaker.ProbeAt), ep.breaker.PacedUntil)
}

// learn takes up what an attempt showed of its endpoint, and how long the
// endpoint asked to be left alone. While this node is about to end, silence
// says nothing: it may have cut the attempt itself.
func (c *core) learn(now time.Time, ep *endpoint, it *item, pace time.Duration) {
	a := &it.attempt
	if it.probe && ep.stage == probeFlying {
		c.setStage(ep, noProbe)
	}
	silent := isSilence(a.Outcome)
	if silent && c.draining {
		return
	}
	if isAnswer(a.Outcome) {
		ep.answeredAt = now
	}
	if ep.policy.AdaptiveTimeout {
		ep.patience.Record(a.Outcome)
	}
	was := ep.broken()
	changed := ep.breaker.Record(a, it.probe, now, ep.policy.Circuit)
	ep.silent = ep.breaker.Failures > 0 && (silent || ep.silent)
	switch a.Outcome {
	case postrider.OutcomeAccepted:
		ep.window.Accepted(ep.limit)
	case postrider.OutcomeThrottled:
		if pause := ep.window.Throttled(ep.limit, ep.breaker.Accepts(), now); a.RetryAfter == 0 {
			ep.restUntil = later(ep.restUntil, now.Add(pause))
		}
	default: // the others say nothing of how many attempts it takes
	}
	if was && !ep.broken() {
		ep.window.Restart(ep.limit)
	}
	if until := now.Add(pace); pace > 0 && until.After(ep.breaker.PacedUntil) {
		changed = changed || until.Sub(ep.breaker.PacedUntil) >= time.Second
		ep.breaker.PacedUntil = until
	}
	if changed {
		c.storeCircuit(ep)
	}
	c.judge(ep)
}

// isSilence reports whether an attempt ended without an answer.
func isSilence(o postrider.Outcome) bool {
	return o == postrider.OutcomeUnreachable || o == postrider.OutcomeTimedOut || o == postrider.OutcomeBroken
}

// isAnswer reports whether an attempt brought an answer of the receiver.
func isAnswer(o postrider.Outcome) bool {
	return o == postrider.OutcomeAccepted || o == postrider.OutcomeRejected ||
		o == postrider.OutcomeThrottled || o == postrider.OutcomeGone
}

// slowRate is from which interval between two attempts on the state of a rate
// is stored after each of them, and outlives the node. A faster rate is spent
// where another node may have spent it, which costs an interval.
const slowRate = time.Second

// rested reports whether the endpoint's rate allows an attempt now, and counts
// it. If not, nothing starts until it does.
func (c *core) rested(now time.Time, ep *endpoint) bool {
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
		case c.shards.isNew(ep.shard, now.Add(now.Sub(empty.FullAt))):
			ep.bucket = empty
		}
	}
	if ready := ep.bucket.ReadyAt(r); ready.After(now) {
		ep.restUntil = ready
		return false
	}
	ep.bucket.Take(r, now)
	if r.Interval() >= slowRate {
		ep.breaker.RateFullAt = ep.bucket.FullAt
		c.storeCircuit(ep)
	}
	return true
}

// resting reports whether nothing may start for the endpoint for so long that
// leases are not taken ahead.
func (ep *endpoint) resting(now time.Time) bool { return ep.restUntil.Sub(now) > time.Second }
