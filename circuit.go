package postrider

import (
	"math/bits"
	"time"
)

// Circuit is an endpoint's circuit breaker, together with the other facts about the endpoint that
// must outlive the node that serves it. While the circuit is open or half open, only probes are
// sent. Waiting deliveries keep waiting and use up no attempt.
//
// All its times are on the clock that decides what is due (store.Clock.Now). That clock does not
// jump when the database's time of day is stepped. A caller that shows such a time to people first
// converts it to the time of day (store.Clock.ShownCircuit).
//
// The node that serves the endpoint stores the circuit when its status changes, when the endpoint
// sends a Retry-After, once a minute while every attempt fails, and after each attempt of an
// endpoint with a rate of one a second or slower. The stored Failures, LastAttemptAt and
// LastOutcome are only as recent as the last of these writes.
type Circuit struct {
	Endpoint EndpointID
	Status   CircuitStatus
	Reason   string    // why the circuit opened the last time; empty: it never opened
	OpenedAt time.Time // when the circuit left the status closed; zero: it is closed
	ProbeAt  time.Time // open: time of the next probe; half open: the probe's deadline
	// Time from the failed attempt that opened the circuit, or from its last probe, to the next
	// probe; 0: the endpoint has recovered.
	Cooldown time.Duration
	// Time of the first failure since the last accepted attempt; set when that was a minute ago or
	// the circuit opens; zero: not failing.
	FailingSince time.Time
	// End of the receiver's Retry-After: nothing is sent before; zero: the receiver never sent one.
	PacedUntil time.Time
	RateFullAt time.Time // when the endpoint's [Bucket] is full again; zero: unknown
	Generation int64     // number of times that the circuit was stored with a change

	Failures      int       // failed attempts in a row
	LastAttemptAt time.Time // end of the last attempt; zero: none is known
	LastOutcome   Outcome   // outcome of the last attempt
}

// Shift returns the circuit with all its times moved by the given duration, from one clock to a
// clock that is ahead by that much.
func (c Circuit) Shift(by time.Duration) Circuit {
	for _, at := range []*time.Time{&c.OpenedAt, &c.ProbeAt, &c.FailingSince, &c.PacedUntil, &c.RateFullAt, &c.LastAttemptAt} {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
	return c
}

// At returns the circuit as people see it at the time now: an open circuit is half open from its
// ProbeAt on, because the next delivery that is due is its probe. Until a delivery is due, it stays
// so. Nothing is stored for that.
func (c Circuit) At(now time.Time) Circuit {
	if c.Status == CircuitOpen && !now.Before(c.ProbeAt) {
		c.Status = CircuitHalfOpen
	}
	return c
}

// FailedFor returns for how long the endpoint has been seen to fail: from the first failed attempt
// in a row to the last one. The time since then does not count, because nothing was sent in it.
func (c Circuit) FailedFor() time.Duration {
	if c.FailingSince.IsZero() {
		return 0
	}
	return max(0, c.LastAttemptAt.Sub(c.FailingSince))
}

// Closed reports whether the circuit lets attempts through. A circuit that never changed does.
func (c Circuit) Closed() bool { return c.Status == CircuitClosed || c.Status == "" }

// ClosedByHand returns the circuit after a person has closed it, and whether closing changes it.
func (c Circuit) ClosedByHand() (Circuit, bool) {
	b := Breaker{Circuit: c}
	b.Set(CircuitClosed, time.Time{}, CircuitPolicy{})
	return b.Circuit, b.Circuit != c
}

// CircuitStatus says whether a circuit lets attempts through.
type CircuitStatus string

// The statuses of a circuit.
const (
	CircuitClosed   CircuitStatus = "closed"
	CircuitOpen     CircuitStatus = "open"
	CircuitHalfOpen CircuitStatus = "half_open" // the next attempt is the probe, or the probe is under way
)

// The reasons for which a circuit opens.
const (
	ReasonFailuresInRow = "failures_in_row"
	ReasonFailureRatio  = "failure_ratio"
	ReasonProbeFailed   = "probe_failed"
	ReasonManual        = "manual" // a person opened it
)

// Breaker is a circuit, together with what the node that owns the endpoint remembers of recent
// attempts. The zero Breaker is closed.
type Breaker struct {
	Circuit

	accepted int       // accepted attempts in a row
	failing  time.Time // first failure since the last accepted attempt
	noted    time.Time // when Record last asked to store a failing endpoint
	// 20 less the responses since the last accepted attempt; 0: none of the last 20 responses was
	// accepted.
	vouched int
	recent  failureWindow
}

const (
	// recovery is how many attempts in a row must be accepted until a circuit that was open is
	// trusted again. Before that, one failure opens it.
	recovery = 3

	// noteEvery is how often a failing endpoint is stored while its circuit does not change.
	// [HealthInput.Assess] and the API read the stored circuit.
	noteEvery = time.Minute

	// steady is for how long an endpoint must have failed before its cooldown doubles.
	steady = 15 * time.Minute

	// vouchedAnswers is a number of responses. If at least one of the last vouchedAnswers responses
	// was accepted, throttling responses do not count as failures.
	vouchedAnswers = 20
)

// Record applies the result of an attempt to the circuit, and reports whether the caller must store
// the circuit. probe is true for the attempt that [Breaker.Probe] allowed, and false for attempts
// that left before the circuit opened.
//
// A throttling response counts as a failure, with two exceptions. One with a Retry-After never
// counts as a failure. One without counts as neither failure nor success if at least one of the
// endpoint's last 20 responses, this one included, was 2xx.
func (b *Breaker) Record(a *Attempt, probe bool, now time.Time, p CircuitPolicy) bool {
	// Otherwise a person has set the circuit meanwhile, or an earlier probe has ended.
	probe = probe && b.Status == CircuitHalfOpen
	switch a.Outcome {
	case OutcomeLost, OutcomeNone, OutcomePostponed:
		return false // these outcomes say nothing about the endpoint
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
		return probe && b.close() // the endpoint responds, but wants fewer requests
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
		return false // the attempt left before the circuit opened; only the probe closes the circuit
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
			b.failing = b.FailingSince // another node saw the first failure
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
		return b.close() // a person opened the circuit, or the policy has changed since
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

// Probe makes an open circuit half open if its cooldown is over, for one attempt that ends within
// d. It reports whether the circuit changed. The caller makes the attempt only after the change is
// stored, so that only one node probes. If a probe has not ended by its deadline, Probe allows
// another one.
func (b *Breaker) Probe(now time.Time, d time.Duration) bool {
	if b.Closed() || now.Before(b.ProbeAt) {
		return false
	}
	b.Status = CircuitHalfOpen
	b.ProbeAt = now.Add(d)
	return true
}

// Set applies a status that a person chose. CircuitOpen opens the circuit for the longest cooldown.
// CircuitClosed closes it as if the endpoint had recovered and had sent no Retry-After.
// CircuitHalfOpen makes the next delivery a probe, without waiting.
func (b *Breaker) Set(s CircuitStatus, now time.Time, p CircuitPolicy) {
	switch s {
	case CircuitClosed:
		b.close()
		b.Cooldown, b.Failures = 0, 0
		b.FailingSince, b.PacedUntil = time.Time{}, time.Time{}
		b.failing, b.noted = time.Time{}, time.Time{}
	case CircuitHalfOpen:
		if b.Status == CircuitHalfOpen {
			return // a probe is under way already
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

// Quiet reports whether the breaker has nothing to remember: the circuit is closed and trusted, and
// the last attempt succeeded.
func (b *Breaker) Quiet() bool {
	return b.Closed() && b.Failures == 0 && b.Cooldown == 0 && b.FailingSince.IsZero()
}

// Accepts reports whether one of the last 20 responses was accepted.
func (b *Breaker) Accepts() bool { return b.vouched > 0 }

// Vouched reports whether the last response was accepted.
func (b *Breaker) Vouched() bool { return b.vouched == vouchedAnswers }

// Vouch tells a new breaker that the endpoint's last response was accepted.
func (b *Breaker) Vouch() { b.vouched = vouchedAnswers }

func (b *Breaker) close() bool {
	if b.Closed() {
		return false
	}
	b.Status, b.OpenedAt, b.ProbeAt = CircuitClosed, time.Time{}, time.Time{}
	b.Failures, b.accepted, b.recent = 0, 0, failureWindow{}
	return true
}

// open opens the circuit after a failed attempt. The cooldown doubles only after the endpoint has
// failed for 15 minutes (steady): most outages are short, and an endpoint that has recovered should
// not wait. The cooldown counts from the start of the attempt, so that probes that time out are as
// frequent as other probes. At least half of the cooldown remains after the end of the attempt.
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

// hold opens the circuit. The caller sets Cooldown and ProbeAt.
func (b *Breaker) hold(reason string, now time.Time) {
	if b.Closed() {
		b.OpenedAt = now
	}
	b.Status, b.Reason = CircuitOpen, reason
}

// CircuitPolicy says when a circuit opens, and for how long.
type CircuitPolicy struct {
	Failures int // failures in a row that open the circuit; 0: no number does
	Percent  int // percentage of failures in the window that opens the circuit; 0: none does
	Attempts int // length of the window in attempts, 10 to 60; 0: Window gives its length
	// Length of the window in time, 10 s to a day, with at least 20 attempts; 0: Attempts gives its
	// length.
	Window      time.Duration
	Cooldown    time.Duration // time from opening to the first probe; 1 s to a day
	MaxCooldown time.Duration // limit of the cooldown: after 15 minutes of failing, each failed probe doubles it
}

// CircuitPresets are the named policies.
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
	faults.add(p.Percent > 0 && (p.Attempts == 0) == (p.Window == 0), "circuit.percent", FaultContradictory,
		"needs either attempts or window_ms")
	faults.add(p.Percent == 0 && p.Attempts != 0, "circuit.attempts", FaultContradictory, "needs percent")
	faults.add(p.Percent == 0 && p.Window != 0, "circuit.window_ms", FaultContradictory, "needs percent")
	if p.Attempts != 0 {
		faults.within("circuit.attempts", int64(p.Attempts), 10, 60)
	}
	if p.Window != 0 {
		faults.lasts("circuit.window_ms", p.Window, 10*time.Second, day)
	}
	faults.lasts("circuit.cooldown_ms", p.Cooldown, time.Second, day)
	faults.add(p.MaxCooldown < p.Cooldown || p.MaxCooldown > day, "circuit.max_cooldown_ms", FaultContradictory,
		"must be cooldown_ms to 86400000")
	return faults.joined()
}

const day = 24 * time.Hour

func (p CircuitPolicy) never() bool { return p.Failures == 0 && p.Percent == 0 }

// minSamples is how many attempts a window of time must have before it can open the circuit.
const minSamples = 20

// failureWindow counts attempts and failures in a window. The window is either the last 64
// attempts, as bits, or a time, in ten slices.
type failureWindow struct {
	bits   uint64 // one bit for each attempt, the lowest for the last one; 1: failed
	n      int    // number of bits in use
	slices [slicesOfWindow]struct{ attempts, failures uint32 }
	width  time.Duration // duration of a slice
	slice  int64         // number of the youngest slice, counted from the epoch
}

// slicesOfWindow is the number of slices of a window of time. The window forgets one slice at a
// time.
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
		*t = failureWindow{width: width} // the stored counts have another slice width
	}
	slice := max(now.UnixNano()/int64(t.width), t.slice) // a clock that was set back must not bring back old slices
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

// failing reports whether the window has enough attempts, and enough of them failed.
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
