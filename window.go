package postrider

import "time"

// ConcurrencyWindow says how many attempts an endpoint may have in flight while it may not use its
// whole limit. That is so after it throttled and while it recovers from a failure. The window grows
// and shrinks like the congestion window of TCP (RFC 5681). It starts at one slot and doubles with
// each round of accepted attempts, up to half of the size that was too much the last time. From
// there it grows by one slot a round. The zero window allows the whole limit.
type ConcurrencyWindow struct {
	size      float64   // number of slots; 0: the whole limit
	threshold float64   // size at which doubling ends
	cutAt     time.Time // when the window was last halved
	// The pause after the last throttling response with one slot left; 0: an attempt was accepted
	// since.
	pause time.Duration
}

// The bounds of the pause of an endpoint that throttles its only slot and sends no Retry-After.
// maxPauseOfSome is the longest pause if the endpoint accepts some of its attempts, maxPause the
// longest if it accepts none. An endpoint that accepts a quarter still gets 30 attempts a second.
const (
	minPause       = 5 * time.Millisecond
	maxPauseOfSome = 100 * time.Millisecond
	maxPause       = time.Second
)

// Pace says how many attempts one node allows to be in flight to an endpoint.
type Pace struct {
	Slots    int // attempts that may be in flight now; while the circuit is open: 0, or 1 for a probe
	Limit    int // attempts that may be in flight while the endpoint accepts all of them
	InFlight int
	// Reason says why fewer attempts than Limit are allowed; empty: nothing limits them.
	Reason PaceReason
	// ResumesAt is when the next attempt may start, by the store's clock. Zero: now.
	ResumesAt time.Time
}

// PaceReason is why an endpoint gets less than its limit.
type PaceReason string

// The reasons. If several apply, the first counts.
const (
	// PacePostponed means that the server could not make the last attempt, because it lacks
	// descriptors, ports, memory or the key of a secret.
	PacePostponed PaceReason = "postponed"
	// PaceRetryAfter means that the endpoint's Retry-After has not passed.
	PaceRetryAfter PaceReason = "retry_after"
	// PaceNoResponse means that the last attempt got no response, so only one attempt may be in
	// flight.
	PaceNoResponse PaceReason = "no_response"
	// PaceWindow means that the concurrency window is smaller than the limit, because the endpoint
	// throttled or has failed until recently.
	PaceWindow PaceReason = "window"
	// PaceRate means that the rate of the policy is used up.
	PaceRate PaceReason = "rate"
)

// Slots returns how many attempts may be in flight if the endpoint's limit is limit.
func (w ConcurrencyWindow) Slots(limit int) int {
	if w.size == 0 {
		return limit
	}
	return max(1, min(int(w.size), limit))
}

// Open reports whether the endpoint may use its whole limit.
func (w ConcurrencyWindow) Open() bool { return w.size == 0 }

// Restart sets the window to one slot. It doubles from there, up to limit.
func (w *ConcurrencyWindow) Restart(limit int) {
	w.size, w.threshold = 1, float64(limit)
}

// Accepted widens the window, up to limit, after an attempt was accepted.
func (w *ConcurrencyWindow) Accepted(limit int) {
	w.pause = 0
	switch {
	case w.size == 0:
		return
	case w.size < w.threshold:
		w.size++
	default:
		w.size += 1 / w.size
	}
	if w.size >= float64(limit) {
		*w = ConcurrencyWindow{cutAt: w.cutAt}
	}
}

// Throttled halves the window, at most once a second, because attempts that were in flight together
// are throttled together. It returns for how long no attempt may start. That is 0 if more than one
// slot is left. Otherwise it is 5 ms, and doubles with each throttling response in a row: up to 100
// ms if the endpoint accepts some of its attempts, and up to a second if it accepts none.
func (w *ConcurrencyWindow) Throttled(limit int, some bool, now time.Time) time.Duration {
	if now.Sub(w.cutAt) >= time.Second {
		w.cutAt = now
		w.size = max(1, float64(w.Slots(limit))/2)
		w.threshold = w.size
	}
	if w.Slots(limit) > 1 {
		return 0
	}
	most := maxPause
	if some {
		most = maxPauseOfSome
	}
	w.pause = min(max(2*w.pause, minPause), most)
	return w.pause
}

// AdaptiveTimeout says how much of the timeout an endpoint gets. If attempts keep timing out, it
// gets less and less, down to a second, so that it holds fewer slots. One response in time restores
// the whole timeout. An endpoint that responds, even slowly, keeps the whole timeout, because a
// shorter one would fail attempts that would succeed. Every tenth attempt gets the whole timeout;
// without that, an endpoint that became slow would never respond in time again. The zero
// AdaptiveTimeout is the whole timeout.
type AdaptiveTimeout struct {
	timeouts int // timeouts in a row; attempts that did not reach the endpoint do not count
}

const (
	halveAfter = 3  // timeouts in a row after which the rest of the timeout is halved
	probeEvery = 10 // one of so many attempts in a row gets the whole timeout
)

// Timeout returns how much of the policy's timeout the next attempt gets.
func (p AdaptiveTimeout) Timeout(policy time.Duration) time.Duration {
	if p.timeouts%probeEvery == probeEvery-1 {
		return policy
	}
	return max(policy>>min(p.timeouts/halveAfter, 5), min(policy, time.Second))
}

// Record applies the outcome of an attempt.
func (p *AdaptiveTimeout) Record(o Outcome) {
	switch o {
	case OutcomeTimedOut:
		p.timeouts++
	case OutcomeAccepted, OutcomeRejected, OutcomeGone, OutcomeThrottled:
		p.timeouts = 0
	case OutcomeUnreachable, OutcomeBroken, OutcomeBlocked, OutcomeLost, OutcomeNone, OutcomePostponed:
	}
}
