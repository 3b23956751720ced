package postrider

import (
	"math/bits"
	"time"
)

// Circuit is an endpoint's circuit breaker, with what else about the endpoint
// must outlive the node that serves it. While the circuit is not closed,
// nothing is sent but a probe now and then. Waiting deliveries keep waiting and
// lose no attempt.
//
// Its times are by the clock that decides what is due (store.Clock.Now), which goes on
// when the database's time of day is stepped. A caller that shows one to people
// shifts it to the time of day first (store.Clock.ShownCircuit).
//
// The node that serves the endpoint stores it when the circuit changes, when
// the endpoint asks for time, once a minute while every attempt fails, and
// after each attempt of an endpoint with a rate of one a second or slower. A
// stored Failures, LastAttemptAt and LastOutcome are as old as that.
type Circuit struct {
	Endpoint     EndpointID
	Status       CircuitStatus
	Reason       string        // why it opened the last time; empty: it never did
	OpenedAt     time.Time     // since when it is not closed; zero: it is closed
	ProbeAt      time.Time     // open: time of the next probe; half open: the probe's deadline
	Cooldown     time.Duration // between the failed attempt that opened it, or its last probe, and the next probe; 0: the endpoint has recovered
	FailingSince time.Time     // first failure since the last accepted attempt, once that is a minute ago or the circuit opened; zero: not failing
	PacedUntil   time.Time     // nothing is sent before, by the receiver's Retry-After; zero: it never asked
	RateFullAt   time.Time     // when the endpoint's [Bucket] is full again; zero: unknown
	Generation   int64         // counts its stored changes

	Failures      int       // attempts in a row that failed
	LastAttemptAt time.Time // end of the last attempt; zero: none is known
	LastOutcome   Outcome   // of that attempt
}

// Shift returns the circuit with its times moved from one clock to another, which is
// ahead of it by so much.
func (c Circuit) Shift(by time.Duration) Circuit {
	for _, at := range []*time.Time{&c.OpenedAt, &c.ProbeAt, &c.FailingSince, &c.PacedUntil, &c.RateFullAt, &c.LastAttemptAt} {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
	return c
}

// Closed reports whether the circuit lets attempts through; one that never
// changed does.
func (c Circuit) Closed() bool { return c.Status == CircuitClosed || c.Status == "" }

// ClosedByHand returns the circuit as a person leaves it who closes it, and
// whether that changes it.
func (c Circuit) ClosedByHand() (Circuit, bool) {
	b := Breaker{Circuit: c}
	b.Set(CircuitClosed, time.Time{}, CircuitPolicy{})
	return b.Circuit, b.Circuit != c
}

// CircuitStatus is whether a circuit lets attempts through.
type CircuitStatus string

// The statuses of a circuit.
const (
	CircuitClosed   CircuitStatus = "closed"
	CircuitOpen     CircuitStatus = "open"
	CircuitHalfOpen CircuitStatus = "half_open" // one attempt, the probe, is under way
)

// Why a circuit opened.
const (
	ReasonFailuresInRow = "failures_in_row"
	ReasonFailureRatio  = "failure_ratio"
	ReasonProbeFailed   = "probe_failed"
	ReasonManual        = "manual" // a person opened it
)

// Breaker is a circuit with what the node that owns its endpoint remembers of
// the last attempts. The zero Breaker is closed.
type Breaker struct {
	Circuit

	accepted int       // attempts in a row
	failing  time.Time // first failure since the last accepted attempt
	noted    time.Time // when Record last asked to store a failing endpoint
	vouched  int       // of the next answers, how many still have an accepted one among the last 20
	recent   failureWindow
}

const (
	// recovery is how many attempts in a row must be accepted before a circuit
	// that was open is trusted again. Until then one failure opens it.
	recovery = 3

	// noteEvery is how often a failing endpoint is stored although its circuit
	// does not change, so that [HealthInput.Assess] and the API know of it.
	noteEvery = time.Minute

	// steady is how long an endpoint fails before its cooldown doubles.
	steady = 15 * time.Minute

	// vouchedAnswers is among how many answers one must be accepted for
	// throttling answers not to count as failures.
	vouchedAnswers = 20
)

// Record takes up what an attempt showed, and reports whether the circuit is to
// be stored. probe tells the attempt that [Breaker.Probe] allowed from those
// that left before the circuit opened.
//
// A throttling answer is neither a failure nor a success while the endpoint
// accepts something: one of its last 20 answers, this one included, was 2xx;
// and never where it asks for time with Retry-After. Else it is a failure.
func (b *Breaker) Record(a *Attempt, probe bool, now time.Time, p CircuitPolicy) bool {
	probe = probe && b.Status == CircuitHalfOpen // else a person set it meanwhile, or an earlier probe came back
	switch a.Outcome {
	case OutcomeLost, OutcomeNone, OutcomePostponed:
		return false // it says nothing of the endpoint
	case OutcomeAccepted:
		b.vouched = vouchedAnswers
	case OutcomeRejected, OutcomeGone, OutcomeThrottled:
		b.vouched = max(0, b.vouched-1)
	case OutcomeUnreachable, OutcomeTimedOut, OutcomeBroken, OutcomeBlocked:
	}
	b.LastAttemptAt, b.LastOutcome = now, a.Outcome
	switch {
	case a.Outcome == OutcomeAccepted:
		return b.recordAccepted(probe, now, p)
	case a.Outcome == OutcomeThrottled && (a.RetryAfter > 0 || b.vouched > 0):
		return probe && b.close() // it answers, and wants less
	}
	return b.recordFailure(a, probe, now, p)
}

func (b *Breaker) recordAccepted(probe bool, now time.Time, p CircuitPolicy) bool {
	changed := probe && b.close() || !b.FailingSince.IsZero() && b.Closed()
	b.FailingSince, b.failing, b.noted = time.Time{}, time.Time{}, time.Time{}
	b.Failures = 0
	b.accepted++
	b.recent.add(false, now, p)
	if !b.Closed() {
		return false // the attempt left before the circuit opened: the probe decides
	}
	if b.accepted >= recovery && b.Cooldown > 0 {
		b.Cooldown, changed = 0, true
	}
	return changed
}

func (b *Breaker) recordFailure(a *Attempt, probe bool, now time.Time, p CircuitPolicy) bool {
	if b.failing.IsZero() {
		b.failing = now
		if !b.FailingSince.IsZero() {
			b.failing = b.FailingSince // another node saw it first
		}
	}
	if b.noted.IsZero() {
		b.noted = b.failing
	}
	b.Failures++
	b.accepted = 0
	b.recent.add(true, now, p)
	switch {
	case probe && p.never():
		return b.close() // a person opened it, or the policy was another then
	case probe, b.Closed() && b.Cooldown > 0 && !p.never():
		return b.open(ReasonProbeFailed, a, now, p)
	case !b.Closed():
		return false
	case p.Failures > 0 && b.Failures >= p.Failures:
		return b.open(ReasonFailuresInRow, a, now, p)
	case p.Percent > 0 && b.recent.failing(p):
		return b.open(ReasonFailureRatio, a, now, p)
	case now.Sub(b.noted) >= noteEvery:
		b.Status, b.FailingSince, b.noted = CircuitClosed, b.failing, now
		return true
	}
	return false
}

// Probe turns an open circuit whose cooldown is over half open, for one
// attempt that is over within d. A probe that never came back is followed by
// another. It reports whether the attempt may be made: once the change is
// stored, so that of all nodes one probes.
func (b *Breaker) Probe(now time.Time, d time.Duration) bool {
	if b.Closed() || now.Before(b.ProbeAt) {
		return false
	}
	b.Status = CircuitHalfOpen
	b.ProbeAt = now.Add(d)
	return true
}

// Set carries out what a person asks for: open, for the longest cooldown;
// closed, as if the endpoint had recovered and had not asked for time; or half
// open, which is a probe as soon as there is something to send.
func (b *Breaker) Set(s CircuitStatus, now time.Time, p CircuitPolicy) {
	switch s {
	case CircuitClosed:
		b.close()
		b.Cooldown, b.Failures = 0, 0
		b.FailingSince, b.PacedUntil = time.Time{}, time.Time{}
		b.failing, b.noted = time.Time{}, time.Time{}
	case CircuitHalfOpen:
		if b.Status == CircuitHalfOpen {
			return // that probe is under way
		}
		if b.Closed() {
			b.hold(ReasonManual, now)
		}
		b.Cooldown = min(max(b.Cooldown, p.Cooldown), p.MaxCooldown)
		b.ProbeAt = now
	case CircuitOpen:
		b.hold(ReasonManual, now)
		b.Cooldown = p.MaxCooldown
		b.ProbeAt = now.Add(b.Cooldown)
	}
}

// Quiet reports whether there is nothing to remember: the circuit is closed
// and trusted, and the last attempt succeeded.
func (b *Breaker) Quiet() bool {
	return b.Closed() && b.Failures == 0 && b.Cooldown == 0 && b.FailingSince.IsZero()
}

// Accepts reports whether one of the last 20 answers was accepted.
func (b *Breaker) Accepts() bool { return b.vouched > 0 }

// Vouched reports whether the last answer was accepted.
func (b *Breaker) Vouched() bool { return b.vouched == vouchedAnswers }

// Vouch says of a new breaker that the endpoint's last answer was accepted.
func (b *Breaker) Vouch() { b.vouched = vouchedAnswers }

func (b *Breaker) close() bool {
	if b.Closed() {
		return false
	}
	b.Status, b.OpenedAt, b.ProbeAt = CircuitClosed, time.Time{}, time.Time{}
	b.Failures, b.accepted, b.recent = 0, 0, failureWindow{}
	return true
}

// open opens the circuit after a failed attempt. The cooldown doubles only once
// the endpoint has been failing for long: most outages are short, and an
// endpoint that is back should not wait. It runs from the start of the attempt,
// so that probes that time out are as frequent as others, but for half of it at
// least the endpoint is left alone.
func (b *Breaker) open(reason string, a *Attempt, now time.Time, p CircuitPolicy) bool {
	b.hold(reason, now)
	b.FailingSince, b.noted = b.failing, now
	if now.Sub(b.failing) < steady {
		b.Cooldown = p.Cooldown
	} else {
		b.Cooldown = min(max(2*b.Cooldown, p.Cooldown), p.MaxCooldown)
	}
	b.ProbeAt = now.Add(max(b.Cooldown-a.Duration, b.Cooldown/2))
	return true
}

// hold opens the circuit, without saying for how long.
func (b *Breaker) hold(reason string, now time.Time) {
	if b.Closed() {
		b.OpenedAt = now
	}
	b.Status, b.Reason = CircuitOpen, reason
}

// CircuitPolicy says when a circuit opens, and for how long.
type CircuitPolicy struct {
	Failures    int           // in a row that open it; 0: they do not
	Percent     int           // of the window that open it when they failed; 0: they do not
	Attempts    int           // the window: so many attempts, 10 to 60; 0: Window
	Window      time.Duration // the window: the attempts of so long, 20 at least; 10 s to a day
	Cooldown    time.Duration // from opening to the probe; 1 s to a day
	MaxCooldown time.Duration // after 15 minutes of failing each failed probe doubles the cooldown, up to this
}

// CircuitPresets are the policies that have a name.
var CircuitPresets = map[string]CircuitPolicy{
	"default":  {Failures: 5, Percent: 50, Attempts: 20, Cooldown: time.Minute, MaxCooldown: 30 * time.Minute},
	"strict":   {Failures: 5, Cooldown: 30 * time.Minute, MaxCooldown: 30 * time.Minute},
	"windowed": {Percent: 50, Window: 10 * time.Minute, Cooldown: 5 * time.Minute, MaxCooldown: 30 * time.Minute},
	"never":    {Cooldown: time.Minute, MaxCooldown: 30 * time.Minute},
}

// Check returns every fault of the policy, joined, each an [InvalidError] that
// names its field as the API does.
func (p CircuitPolicy) Check() error {
	var faults faults
	faults.within("circuit.failures", int64(p.Failures), 0, 1000)
	faults.within("circuit.percent", int64(p.Percent), 0, 100)
	faults.add(p.Percent > 0 && (p.Attempts == 0) == (p.Window == 0), "circuit.percent", FaultContradictory, "needs either attempts or window_ms")
	faults.add(p.Percent == 0 && p.Attempts != 0, "circuit.attempts", FaultContradictory, "needs percent")
	faults.add(p.Percent == 0 && p.Window != 0, "circuit.window_ms", FaultContradictory, "needs percent")
	if p.Attempts != 0 {
		faults.within("circuit.attempts", int64(p.Attempts), 10, 60)
	}
	if p.Window != 0 {
		faults.lasts("circuit.window_ms", p.Window, 10*time.Second, day)
	}
	faults.lasts("circuit.cooldown_ms", p.Cooldown, time.Second, day)
	faults.add(p.MaxCooldown < p.Cooldown || p.MaxCooldown > day, "circuit.max_cooldown_ms", FaultContradictory, "must be cooldown_ms to 86400000")
	return faults.joined()
}

const day = 24 * time.Hour

func (p CircuitPolicy) never() bool { return p.Failures == 0 && p.Percent == 0 }

// minSamples is how many attempts a window of time must have to say anything.
const minSamples = 20

// failureWindow counts attempts and failures in a window: the last 64 attempts as
// bits, or ten slices of a window of time.
type failureWindow struct {
	bits   uint64 // 1: failed; the youngest is the lowest
	n      int    // of bits
	slices [slicesOfWindow]struct{ attempts, failures uint32 }
	width  time.Duration // of a slice
	slice  int64         // the youngest slice's number since the epoch
}

// slicesOfWindow is in how many parts a window of time is forgotten.
const slicesOfWindow = 10

func (t *failureWindow) add(failed bool, now time.Time, p CircuitPolicy) {
	if p.Attempts > 0 {
		t.bits <<= 1
		if failed {
			t.bits |= 1
		}
		t.n = min(t.n+1, 64)
		return
	}
	if p.Window <= 0 {
		return
	}
	if width := p.Window / slicesOfWindow; width != t.width {
		*t = failureWindow{width: width} // its numbers are of other slices
	}
	slice := max(now.UnixNano()/int64(t.width), t.slice) // a clock that was set back does not wake old ones
	for gone := min(slice-t.slice, slicesOfWindow); gone > 0; gone-- {
		t.slices[(slice-gone+1)%slicesOfWindow] = struct{ attempts, failures uint32 }{}
	}
	t.slice = slice
	at := &t.slices[slice%slicesOfWindow]
	at.attempts++
	if failed {
		at.failures++
	}
}

// failing reports whether the window is full enough and failed too often.
func (t *failureWindow) failing(p CircuitPolicy) bool {
	attempts, failures := 0, 0
	if p.Attempts > 0 {
		attempts = t.n
		if attempts < p.Attempts {
			return false
		}
		attempts = p.Attempts
		failures = bits.OnesCount64(t.bits & (1<<p.Attempts - 1))
	} else {
		for _, s := range t.slices {
			attempts += int(s.attempts)
			failures += int(s.failures)
		}
		if attempts < minSamples {
			return false
		}
	}
	return failures*100 >= attempts*p.Percent
}
