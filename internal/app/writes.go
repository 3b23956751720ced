package app

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
	// writeFresh is how long a write that succeeded shows that writes succeed.
	writeFresh = 2 * time.Second
	// writeFailed is how long a write that failed shows that writes fail, unless
	// one succeeds; then a probe decides.
	writeFailed = 5 * time.Second
	// writeHangs is how long writes may be under way without one that ends.
	writeHangs = 3 * time.Second
	// probeEvery is the least time between two probes.
	probeEvery = time.Second
	// probeTime is what a probe may take.
	probeTime = 4 * time.Second
)

// writes is a store that knows whether its writes succeed: from the publishes
// and the settlements that pass through it, and, while there are none and
// somebody asks, from a probe.
type writes struct {
	store.Store

	asked chan struct{} // somebody waits for a probe

	mu       sync.Mutex
	underWay int           // publishes and settlements that have not ended
	moved    time.Time     // when the last of them ended, or the first of those under way began
	at       time.Time     // when a write succeeded last, a probe included
	failedAt time.Time     // when a publish or a settlement failed last
	failed   error         // why; nil: a write succeeded since
	probed   time.Time     // when the last probe ended
	refused  error         // why it failed; nil: it did not
	probing  chan struct{} // closed when the probe that was asked for ends; nil: none was
}

func newWrites(to store.Store) *writes {
	return &writes{Store: to, asked: make(chan struct{}, 1)}
}

// Publish implements [store.Inbox].
func (w *writes) Publish(ctx context.Context, p store.Publish) ([]store.Published, error) {
	w.begin()
	published, err := w.Store.Publish(ctx, p)
	w.end(err)
	return published, err
}

// Settle implements [store.Queue].
func (w *writes) Settle(ctx context.Context, settlements []store.Settlement) ([]store.Settled, error) {
	w.begin()
	settled, err := w.Store.Settle(ctx, settlements)
	w.end(err)
	return settled, err
}

func (w *writes) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.underWay++; w.underWay == 1 {
		w.moved = time.Now()
	}
}

func (w *writes) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.underWay--
	w.moved = time.Now()
	switch {
	case err == nil:
		w.at, w.failed = w.moved, nil
	case unwritable(err):
		w.failedAt, w.failed = w.moved, err
	}
}

// unwritable reports whether err says that the store cannot be written, and not
// that it refused what it was given.
func unwritable(err error) bool {
	for _, other := range []error{
		store.ErrMoved, postrider.ErrInvalid, postrider.ErrConflict, postrider.ErrNotFound,
		postrider.ErrFenced, postrider.ErrGone, context.Canceled,
	} {
		if errors.Is(err, other) {
			return false
		}
	}
	return true
}

// check returns why the store cannot be written; nil: it can.
func (w *writes) check(ctx context.Context) error {
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

// known returns the end of the probe that must be waited for, or, where probe is
// nil, why writes fail; nil: they succeed.
func (w *writes) known(now time.Time) (probe <-chan struct{}, reason error) {
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
		w.asked <- struct{}{} // has room: no other probe is asked for
	}
	return w.probing, nil
}

func cannot(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the store cannot be written: %w", err)
}

// Run makes the probes that are asked for, until ctx ends.
func (w *writes) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-w.asked:
		}
		bounded, cancel := context.WithTimeout(ctx, probeTime)
		err := w.ProbeWrite(bounded)
		cancel()
		w.answer(err)
	}
}

func (w *writes) answer(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.probed, w.refused = time.Now(), err
	if err == nil {
		w.at, w.failed = w.probed, nil
	}
	close(w.probing)
	w.probing = nil
}
