package dispatch

import "sync"

// batch collects items from the loop for a goroutine that takes all of them at
// once. Adding never blocks and drops nothing. What bounds a batch is the core: it
// starts nothing while schedule.Options.MaxUnsettled attempts are not settled.
type batch[T any] struct {
	signal chan struct{} // holds one when there are items

	mu    sync.Mutex
	items []T
	usual int // how many the last take returned
}

func newBatch[T any](signal chan struct{}) *batch[T] { return &batch[T]{signal: signal} }

func (b *batch[T]) add(more []T) {
	if len(more) == 0 {
		return
	}
	b.mu.Lock()
	if b.items == nil {
		b.items = make([]T, 0, max(len(more), b.usual))
	}
	b.items = append(b.items, more...)
	b.mu.Unlock()
	signal(b.signal)
}

// size returns how many items wait.
func (b *batch[T]) size() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.items)
}

// take removes and returns all items.
func (b *batch[T]) take() []T {
	b.mu.Lock()
	defer b.mu.Unlock()
	items := b.items
	b.items, b.usual = nil, len(items)
	return items
}

// each calls do for every item, one after the other, until done is closed and
// none is left.
func (b *batch[T]) each(done <-chan struct{}, do func(T)) {
	for open := true; open; {
		select {
		case <-b.signal:
		case <-done:
			open = false
		}
		for _, item := range b.take() {
			do(item)
		}
	}
}

// newSignal returns a channel for [signal].
func newSignal() chan struct{} { return make(chan struct{}, 1) }

// signal wakes the goroutine that waits for the channel, now or when it waits next.
// It never blocks.
func signal(to chan<- struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
