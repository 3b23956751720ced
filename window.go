package postrider

import "time"

// Window is how many attempts an endpoint may have in flight while it is not
// trusted with its whole limit, because it asked for less or comes back from a
// failure. It grows and shrinks as the congestion window of TCP does (RFC
// 5681): from one slot it doubles with each round of accepted attempts, up to
// where it last was too much, and from there on grows by one a round. The zero
// Window is wide open.
type Window struct {
	size      float64 // 0: wide open
	threshold float64 // where doubling ends
	cutAt     time.Time
	pause     time.Duration // after the last throttling answer with one slot left; 0: an accepted one came since
}

// The bounds of the pause after a throttling answer with one slot left that
// does not say how long to wait: the greatest one of an endpoint that accepts
// some of its attempts, and of one that accepts none. One that accepts a quarter
// still gets 30 attempts a second.
const (
	minPause       = 5 * time.Millisecond
	maxPauseOfSome = 100 * time.Millisecond
	maxPause       = time.Second
)

// Slots returns how many attempts may be in flight, of limit.
func (w Window) Slots(limit int) int {
	if w.size == 0 {
		return limit
	}
	return max(1, min(int(w.size), limit))
}

// Open reports whether the endpoint is trusted with its whole limit.
func (w Window) Open() bool { return w.size == 0 }

// Restart goes back to one slot, to be doubled from there.
func (w *Window) Restart(limit int) {
	w.size, w.threshold = 1, float64(limit)
}

// Accepted makes room, up to limit, after an attempt was accepted.
func (w *Window) Accepted(limit int) {
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
		*w = Window{cutAt: w.cutAt}
	}
}

// Throttled halves the room, once a second at most, since attempts that were
// in flight together are throttled together. It returns how long nothing may
// start: 0 while more than one slot is left; else 5 ms, doubled by each
// throttling answer in a row, up to 100 ms where the endpoint accepts some of
// its attempts, and up to a second where it accepts none.
func (w *Window) Throttled(limit int, some bool, now time.Time) time.Duration {
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

// Patience is how long an adaptive timeout is at the moment. An endpoint that
// keeps timing out gets less and less, down to a second, so that it holds
// fewer slots; one answer in time gives it all back. An endpoint that answers,
// however slowly, keeps the whole timeout: a shorter one would make failures of
// attempts that succeed. Every tenth attempt has the whole timeout, or an
// endpoint that became slow would never answer in time again. The zero Patience
// is the whole timeout.
type Patience struct {
	timeouts int // in a row, but for what never got through
}

// impatient timeouts in a row halve a timeout; every patient-th attempt has
// all of it.
const (
	impatient = 3
	patient   = 10
)

// Timeout returns what is left of the policy's timeout.
func (p Patience) Timeout(policy time.Duration) time.Duration {
	if p.timeouts%patient == patient-1 {
		return policy
	}
	return max(policy>>min(p.timeouts/impatient, 5), min(policy, time.Second))
}

// Record takes up what an attempt showed.
func (p *Patience) Record(o Outcome) {
	switch o {
	case OutcomeTimedOut:
		p.timeouts++
	case OutcomeAccepted, OutcomeRejected, OutcomeGone, OutcomeThrottled:
		p.timeouts = 0
	case OutcomeUnreachable, OutcomeBroken, OutcomeBlocked, OutcomeLost, OutcomeNone:
	}
}
