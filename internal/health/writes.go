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
	// writeFresh is the time for which a successful write proves that writes succeed.
	writeFresh = 2 * time.Second
	// writeFailed is the time for which a failed write proves that writes fail, unless another
	// write succeeds. After that time a probe decides.
	writeFailed = 5 * time.Second
	// writeHangs is the longest time for which writes may be in flight while none of them ends.
	writeHangs = 3 * time.Second
	// probeEvery is the shortest interval between two probes, however often /readyz is requested.
	probeEvery = time.Second
	// probeTime is the time limit of a probe.
	probeTime = 4 * time.Second
	// probeSpace is the space that a probe needs after a write found the disk full, in bytes.
	probeSpace = 1 << 20
)

// Writes observes whether the writes to a store succeed. Begin and End are called around each
// publish and each group of settlements. If there are no such writes and /readyz is requested,
// Writes makes a probe, which is a small write. Without a request there is no probe.
//
// On a full disk some writes still succeed, because they find room in existing pages. So after a
// write has found the disk full, successful writes prove nothing. Only a probe that needs space
// proves that writes succeed again. Thus /readyz gives a load balancer the same answer until there
// is space.
type Writes struct {
	probe func(ctx context.Context, space int) error

	// asked tells Run to make a probe. It holds one element. known sends, and Run receives.
	asked chan struct{}

	mu sync.Mutex
	// underWay is the number of publishes and settlements in flight.
	underWay int
	// moved is the time when the last write ended. If a write began while none was in flight, it is
	// the time when that write began.
	moved time.Time
	// at is the time of the last successful write or probe. Zero: there was none.
	at time.Time
	// failedAt is the time when a publish or a settlement last failed, and failed is its error.
	// failed becomes nil when a write succeeds.
	failedAt time.Time
	failed   error
	// full is true from a write that found the disk full until a probe finds space.
	full bool
	// probed is the time when the last probe ended, and refused is its error; nil: it succeeded.
	probed  time.Time
	refused error
	// probing is closed when the probe in progress ends. Nil: no probe is in progress. known makes
	// it, and finishProbe closes it.
	probing chan struct{}
}

// NewWrites returns a Writes that has seen no writes. probe is the method ProbeWrite of
// [store.Upkeep].
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

// End notes the result of a write. An error that only refuses the request proves neither that
// writes succeed nor that they fail.
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

// unwritable reports whether err shows that the store cannot write. The listed errors only refuse
// the request, or mean that the caller gave up.
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

// Check returns an error if the store cannot write. If the last writes prove nothing, it waits for
// a probe, at most until ctx ends. All callers share one probe.
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

// known returns whether writes work, if the last writes are recent enough to show it. Then probe is
// nil, and reason is the error of the writes, or nil if they succeed. Otherwise probe is a channel
// that is closed when a probe ends, and reason is nil. If no probe is in progress, known asks Run
// for one.
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

// cannot wraps the error of a write for /readyz. For nil it returns nil.
func cannot(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the store cannot be written: %w", err)
}

// Run makes the probes that Check asks for, until ctx ends. A probe has its own time limit. It
// continues when the request to /readyz has ended, so that the next request finds its result.
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

// space returns the space that the next probe needs, in bytes.
func (w *Writes) space() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full {
		return probeSpace
	}
	return 0
}

// finishProbe records the result of a probe, and wakes the requests that wait for the probe. room
// is true if the probe needed space.
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
