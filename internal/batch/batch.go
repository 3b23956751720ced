// Package batch collects items for a goroutine that works on many at once.
//
// Some work, such as a commit, costs about the same for any number of items. It is cheapest in
// batches. No timer is needed for that: the goroutine works on all items that wait, and items that
// are added in the meantime are its next batch. So a single item does not wait, and slower work
// gets larger batches:
//
//	for open := true; open; {
//		_, open = <-queue.Ready()
//		commit(queue.Take(0))
//	}
//
// A [Queue] keeps the items. A [Signal] only says that there is something to do. [Sleep] and
// [SleepOr] wait for a time that may be cut short.
//
// These promises always hold:
//
//   - Add and Set never block. So a goroutine may call them even if the goroutine
//     that takes the items waits for it.
//   - Items are taken in the order in which they were added, each once.
//   - A Queue refuses nothing until it is closed. Its caller must limit its length.
package batch

import (
	"context"
	"sync"
	"time"
)

// Queue collects items of many goroutines for one that takes them. Make one with [NewQueue].
type Queue[T any] struct {
	ready chan struct{} // holds one element while there may be items; closed by Close

	mu     sync.Mutex
	items  []T
	usual  int // number of items that the last Take returned; used as the capacity of the next slice
	closed bool
}

// NewQueue returns an empty queue.
func NewQueue[T any]() *Queue[T] { return &Queue[T]{ready: make(chan struct{}, 1)} }

// Add appends copies of the items; false: the queue is closed, and none was added.
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
	Signal(q.ready).Set() // under the lock, because Close closes the channel
	return true
}

// Take removes and returns the oldest items, at most limit of them; 0: all. The slice belongs to
// the caller. A caller with a limit must take until nothing is returned, because Ready does not
// report the items that were left.
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

// Ready returns a channel. The goroutine that takes items must receive from it before each Take. It
// holds one element after an Add, and may hold one when all items are taken already. Close closes
// it; items may be left then.
func (q *Queue[T]) Ready() <-chan struct{} { return q.ready }

// Close makes the queue refuse items from now on, and lets Each return. It is called once.
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

// Signal wakes a goroutine that receives from it. It holds one element. So a signal that is set
// while nobody receives is not lost, and several count as one.
type Signal chan struct{}

// NewSignal returns a signal that is not set.
func NewSignal() Signal { return make(Signal, 1) }

// Set wakes the receiving goroutine, now or when it receives next. It never blocks.
func (s Signal) Set() {
	select {
	case s <- struct{}{}:
	default: // it is set already
	}
}

// Sleep waits for d. It returns false if ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool { return SleepOr(ctx, d, nil) }

// SleepOr does what Sleep does, but returns true early if wake has an element or is closed. A nil
// wake never wakes it. For a d of 0 or less it makes no timer, and must not: if several goroutines
// of one synctest bubble wait for timers that are already due, the race detector crashes
// (golang/go#78156).
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
