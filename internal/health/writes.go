package health

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

const (
	// writeFresh is how long a successful write proves that writes succeed.
	writeFresh = 2 * time.Second
	// writeFailed is how long a failed write proves that writes fail, unless
	// another one succeeds. After that a probe decides.
	writeFailed = 5 * time.Second
	// writeHangs is how long writes may be in flight without any of them ending.
	writeHangs = 3 * time.Second
	// probeEvery is the least interval between two probes, however often /readyz is
	// asked.
	probeEvery = time.Second
	// probeTime is the time-out of a probe.
	probeTime = 4 * time.Second
	// probeSpace is the room that a probe needs after a write found the disk full, in bytes.
	probeSpace = 1 << 20
)

// Writes observes whether the writes to a store succeed. It learns that from Begin and End,
// between which each publish and each group of settlements is. While there are none and
// /readyz is asked, it learns it from a probe: a small write. If nobody asks, there
// is no probe.
//
// On a full disk some writes still find room in pages that exist, so a success proves
// nothing there. From the first write that found the disk full on, only a probe that
// needs room proves that writes succeed. A load balancer that follows /readyz so gets
// one answer until there is room.
type Writes struct {
	probe func(ctx context.Context, space int) error

	// Tells Run to make a probe. It holds one element; known sends, Run receives.
	asked chan struct{}

	mu sync.Mutex
	// Publishes and settlements in flight.
	underWay int
	// When the last write ended, or when the oldest of the current ones began if
	// none was in flight before.
	moved time.Time
	// When a write last succeeded, probes included. Zero: none did.
	at time.Time
	// When a publish or settlement last failed, and its error. The error is nil
	// after a write has succeeded.
	failedAt time.Time
	failed   error
	// A write found the disk full, and no probe since then has found room.
	full bool
	// When the last probe ended, and its error; nil: it succeeded.
	probed  time.Time
	refused error
	// Closed when the probe in progress ends. Nil: none is in progress. known makes
	// it, finishProbe closes it.
	probing chan struct{}
}

// NewWrites returns what observes the writes to a store. probe is its ProbeWrite of [store.Upkeep].
func NewWrites(probe func(ctx context.Context, space int) error) *Writes {
	return &Writes{probe: probe, asked: make(chan struct{}, 1)}
}

// Begin notes that a write has started.
func (w *Writes) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.underWay++; w.underWay == 1 {
		w.moved = time.Now()
	}
}

// End notes the result of a write. An error that only refuses the request proves
// neither success nor failure.
func (w *Writes) End(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.underWay--
	w.moved = time.Now()
	switch {
	case err == nil && !w.full:
		w.at, w.failed = w.moved, nil
	case unwritable(err):
		w.failedAt, w.failed = w.moved, err
		w.full = w.full || errors.Is(err, store.ErrFull)
	}
}

// unwritable reports whether err shows that the store cannot write. The listed
// errors refuse the request, or mean that the caller has given up.
func unwritable(err error) bool {
	for _, other := range []error{
		nil, store.ErrMoved, postrider.ErrInvalid, postrider.ErrConflict, postrider.ErrNotFound,
		postrider.ErrFenced, postrider.ErrGone, context.Canceled,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// Check returns an error if the store cannot write. If the last writes prove
// nothing, it waits for a probe until ctx ends. All callers share one probe.
func (w *Writes) Check(ctx context.Context) error {
	probe, reason := w.known(time.Now())
	if probe == nil {
		return reason
	}
	select {
	case <-probe:
	case <-ctx.Done():
		return errors.New("the store cannot be written: a write has not ended within a second")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return cannot(w.refused)
}

// known returns what the last writes prove. If they prove nothing, it returns a
// channel that is closed when the probe ends, and asks for that probe if none is in
// progress. If probe is nil, reason says why writes fail; nil: they succeed.
func (w *Writes) known(now time.Time) (probe <-chan struct{}, reason error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.failed != nil && now.Sub(w.failedAt) < writeFailed:
		return nil, cannot(w.failed)
	case w.underWay > 0 && now.Sub(w.moved) > writeHangs:
		return nil, fmt.Errorf("the store cannot be written: no write has ended for %v", now.Sub(w.moved).Round(time.Second))
	case w.failed == nil && now.Sub(w.at) < writeFresh:
		return nil, nil
	case w.probing == nil && now.Sub(w.probed) < probeEvery:
		return nil, cannot(w.refused)
	case w.probing == nil:
		w.probing = make(chan struct{})
		w.asked <- struct{}{} // never blocks: only one probe is asked for at a time
	}
	return w.probing, nil
}

// cannot wraps the error of a write for /readyz. It returns nil for nil.
func cannot(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the store cannot be written: %w", err)
}

// Run makes the probes that Check asks for, until ctx ends. The probe has a
// time limit of its own: it continues when the request to /readyz has ended, so that
// the next one finds its result.
func (w *Writes) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.asked:
		}
		bounded, cancel := context.WithTimeout(ctx, probeTime)
		space := w.space()
		err := w.probe(bounded, space)
		cancel()
		w.finishProbe(err, space > 0)
	}
}

// space returns how many bytes of room the next probe needs.
func (w *Writes) space() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		return probeSpace
	}
	return 0
}

// finishProbe records the result of a probe, which may have needed room, and wakes the requests
// that wait for it.
func (w *Writes) finishProbe(err error, room bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probed, w.refused = time.Now(), err
	if err == nil && w.full && !room { // the disk became full while the probe was under way
		w.refused = w.failed
	}
	if w.full = w.full && !(err == nil && room) || errors.Is(err, store.ErrFull); err == nil && !w.full {
		w.at, w.failed = w.probed, nil
	}
	close(w.probing)
	w.probing = nil
}
