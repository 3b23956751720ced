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
	pause     time.Duration // the last one, less what was accepted since
}

// The bounds of the pause that an endpoint gets which throttled with one slot
// left, and does not say for how long.
const (
	minPause = time.Second
	maxPause = time.Minute
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
	w.pause /= 2
	if w.pause < minPause {
		w.pause = 0
	}
	switch {
	case w.size == 0:
		return
	case w.size < w.threshold:
		w.size++
	default:
		w.size += 1 / w.size
	}
	if w.size >= float64(limit) {
		*w = Window{pause: w.pause, cutAt: w.cutAt}
	}
}

// Throttled halves the room, once a second at most, since attempts that were
// in flight together are throttled together. It returns how long the endpoint
// is to be left alone: not at all while it has more than one slot; else for a
// second at least, twice as long each time, and for a minute at most.
func (w *Window) Throttled(limit int, now time.Time) time.Duration {
	slots := w.Slots(limit)
	if now.Sub(w.cutAt) >= time.Second {
		w.cutAt = now
		if slots == 1 {
			w.pause = min(2*w.pause, maxPause)
		}
		w.size = max(1, float64(slots)/2)
		w.threshold = w.size
	}
	if w.Slots(limit) > 1 {
		return 0
	}
	w.pause = max(w.pause, minPause)
	return w.pause
}

// Patience is how long an adaptive timeout is at the moment. An endpoint that
// keeps timing out gets less and less, down to a second, so that it holds
// fewer slots; one answer in time gives it all back. Now and then it has the
// whole timeout, or one that became slow would never answer in time again. The
// zero Patience is the whole timeout.
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
