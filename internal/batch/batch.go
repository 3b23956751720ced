// Package batch collects items for a goroutine that works on many at once.
//
// Work that costs about the same whatever its size, such as a commit, is cheapest
// in batches. No timer is needed for that: the goroutine works on what there is,
// and what is added meanwhile is its next batch. So a lone item waits for nothing,
// and the slower the work is, the larger its batches are:
//
//	for open := true; open; {
//		_, open = <-queue.Ready()
//		commit(queue.Take(0))
//	}
//
// A [Queue] keeps the items, a [Signal] only says that there is something to do, and
// [Sleep] and [SleepOr] wait for a time that may be cut short.
//
// Whatever happens, this holds:
//
//   - Add and Set never block, so they may be called by a goroutine for which the
//     one that takes waits.
//   - Items are taken in the order in which they were added, each once.
//   - A Queue refuses nothing until it is closed. What bounds it is the caller's.
package batch

import (
	"context"
	"sync"
	"time"
)

// Queue collects items of many goroutines for one that takes them. Make it with
// [NewQueue].
type Queue[T any] struct {
	ready chan struct{} // holds one while there may be items; closed by Close

	mu     sync.Mutex
	items  []T
	usual  int // items that the last Take returned: the first capacity of the next slice
	closed bool
}

// NewQueue returns an empty queue.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{ready: make(chan struct{}, 1)} }

// Add appends copies of the items; false: the queue is closed, and has none of
// them.
func (q *Queue[T]) Add(items ...T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || len(items) == 0 {
		return !q.closed
	}
	if q.items == nil {
		q.items = make([]T, 0, max(len(items), q.usual))
	}
	q.items = append(q.items, items...)
	Signal(q.ready).Set() // under the lock: Close closes the channel
	return true
}

// Take removes and returns the oldest items, at most limit of them; 0: all. The
// slice is the caller's. A caller with a limit takes until nothing is returned:
// Ready does not report items that were left.
func (q *Queue[T]) Take(limit int) []T {
	q.mu.Lock()
	defer q.mu.Unlock()
	taken := q.items
	q.items = nil
	if limit > 0 && len(taken) > limit {
		taken, q.items = taken[:limit:limit], taken[limit:]
	}
	q.usual = len(taken)
	return taken
}

// Len returns how many items wait.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Ready returns a channel from which the goroutine that takes receives before it
// does. It holds one element after an Add, and may hold one when all items are taken
// already. Close closes it; items may be left then.
func (q *Queue[T]) Ready() <-chan struct{} { return q.ready }

// Close refuses items from now on and lets Each return. It is called once.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	close(q.ready)
}

// Each calls do for every item, one after the other, until the queue is closed and
// empty.
func (q *Queue[T]) Each(do func(T)) {
	for open := true; open; {
		_, open = <-q.ready
		for _, item := range q.Take(0) {
			do(item)
		}
	}
}

// Signal wakes a goroutine that receives from it. It holds one element, so that a
// signal which is set while nobody receives is not lost, and several count as one.
type Signal chan struct{}

// NewSignal returns a signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set wakes the goroutine, now or when it receives next. It never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default: // it is set already
	}
}

// Sleep waits for d, and returns false if ctx ended before.
func Sleep(ctx context.Context, d time.Duration) bool { return SleepOr(ctx, d, nil) }

// SleepOr is Sleep, but returns true early when it receives from wake or wake is
// closed. A nil wake never wakes. A d of 0 or less needs no timer, and must not make one:
// goroutines of one synctest bubble that wait for timers that are due make the race detector
// crash (golang/go#78156).
func SleepOr(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-wake:
		return true
	case <-ctx.Done():
		return false
	}
}
