package postrider

import "time"

// ConcurrencyWindow says how many attempts an endpoint may have in flight while it
// is not trusted with its whole limit, because it throttled or recovers from a
// failure. It grows and shrinks like the congestion window of TCP (RFC 5681): from
// one slot it doubles with each round of accepted attempts, up to half of what was
// too much last, and from there on grows by one a round. The zero window allows the
// whole limit.
type ConcurrencyWindow struct {
	size      float64       // slots; 0: the whole limit
	threshold float64       // the size at which doubling ends
	cutAt     time.Time     // when it was halved last
	pause     time.Duration // after the last throttling response with one slot left; 0: an attempt was accepted since
}

// The bounds of the pause after a throttling response with one slot left that does
// not say how long to wait: the longest for an endpoint that accepts some of its
// attempts, and for one that accepts none. An endpoint that accepts a quarter still
// gets 30 attempts a second.
const (
	minPause       = 5 * time.Millisecond
	maxPauseOfSome = 100 * time.Millisecond
	maxPause       = time.Second
)

// Pace says how much one node lets be in flight to an endpoint.
type Pace struct {
	Slots    int // attempts that may be in flight now; 0: none, or one probe, while the circuit is open
	Limit    int // attempts that may be in flight while the endpoint accepts everything
	InFlight int
	// Reason says why less than the limit is sent; empty: nothing holds it back.
	Reason PaceReason
	// ResumesAt is when the next attempt may start, by the store's clock. Zero: now.
	ResumesAt time.Time
}

// PaceReason says why an endpoint gets less than its limit.
type PaceReason string

// The reasons. The first that applies is named.
const (
	// PacePostponed means that the server could not make the last attempt, because it lacks
	// descriptors, ports, memory or the key of a secret.
	PacePostponed PaceReason = "postponed"
	// PaceRetryAfter means that the receiver asked for time with Retry-After.
	PaceRetryAfter PaceReason = "retry_after"
	// PaceNoResponse means that the last attempt got no response, so that one is in flight at a time.
	PaceNoResponse PaceReason = "no_response"
	// PaceWindow means that the endpoint throttled, or failed until lately, and its
	// concurrency window is not its whole limit.
	PaceWindow PaceReason = "window"
	// PaceRate means that the rate of its policy is used up.
	PaceRate PaceReason = "rate"
)

// Slots returns how many attempts may be in flight, of limit.
func (w ConcurrencyWindow) Slots(limit int) int {
	if w.size == 0 {
		return limit
	}
	return max(1, min(int(w.size), limit))
}

// Open reports whether the endpoint is trusted with its whole limit.
func (w ConcurrencyWindow) Open() bool { return w.size == 0 }

// Restart goes back to one slot, to be doubled from there.
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

// Throttled halves the window, at most once a second, since attempts that were in
// flight together are throttled together. It returns for how long nothing may start: 0 while more
// than one slot is left; otherwise 5 ms, doubled by each throttling response in a row,
// up to 100 ms if the endpoint accepts some of its attempts, and up to a second if
// it accepts none.
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

// AdaptiveTimeout says how much of the timeout an endpoint gets. An endpoint that
// keeps timing out gets less and less, down to a second, so that it holds fewer
// slots. One response in time restores all of it. An endpoint that responds,
// however slowly, keeps the whole timeout: a shorter one would make failures of
// attempts that would succeed. Every tenth attempt has the whole timeout; otherwise an
// endpoint that became slow would never respond in time again. The zero
// AdaptiveTimeout is the whole timeout.
type AdaptiveTimeout struct {
	timeouts int // in a row; attempts that did not reach the endpoint are not counted
}

const (
	halveAfter = 3  // timeouts in a row halve what is left of the timeout
	probeEvery = 10 // so many attempts in a row, one has the whole timeout
)

// Timeout returns what is left of the policy's timeout.
func (p AdaptiveTimeout) Timeout(policy time.Duration) time.Duration {
	if p.timeouts%probeEvery == probeEvery-1 {
		return policy
	}
	return max(policy>>min(p.timeouts/halveAfter, 5), min(policy, time.Second))
}

// Record takes up what an attempt showed.
func (p *AdaptiveTimeout) Record(o Outcome) {
	switch o {
	case OutcomeTimedOut:
		p.timeouts++
	case OutcomeAccepted, OutcomeRejected, OutcomeGone, OutcomeThrottled:
		p.timeouts = 0
	case OutcomeUnreachable, OutcomeBroken, OutcomeBlocked, OutcomeLost, OutcomeNone, OutcomePostponed:
	}
}
