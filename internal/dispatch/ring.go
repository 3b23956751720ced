package dispatch

import (
	"container/heap"
	"slices"
	"time"
)

// ring is a queue of endpoints that reuses its memory.
type ring struct {
	eps  []*endpoint
	head int
}

func (r *ring) len() int { return len(r.eps) - r.head }

func (r *ring) push(ep *endpoint) {
	if r.head > 0 && len(r.eps) == cap(r.eps) {
		r.eps = r.eps[:copy(r.eps, r.eps[r.head:])]
		r.head = 0
	}
	r.eps = append(r.eps, ep)
}

// pop returns the endpoint that waited longest; nil: none waits.
func (r *ring) pop() *endpoint {
	if r.len() == 0 {
		return nil
	}
	ep := r.eps[r.head]
	r.eps[r.head] = nil
	r.head++
	return ep
}

// pushFront lets the endpoint be the next.
func (r *ring) pushFront(ep *endpoint) {
	if r.head == 0 {
		r.eps = slices.Insert(r.eps, 0, nil)
		r.head = 1
	}
	r.head--
	r.eps[r.head] = ep
}

// remove takes the endpoint out and reports whether it was in.
func (r *ring) remove(ep *endpoint) bool {
	i := slices.Index(r.eps[r.head:], ep)
	if i >= 0 {
		r.eps = slices.Delete(r.eps, r.head+i, r.head+i+1)
	}
	return i >= 0
}

// timeHeap orders endpoints by the instant at which something of theirs is due.
type timeHeap []*endpoint

// put sets the endpoint's timer; it has none yet.
func (h *timeHeap) put(ep *endpoint, at time.Time) {
	ep.wakeAt = at
	heap.Push(h, ep)
}

func (h *timeHeap) remove(ep *endpoint) {
	if ep.timer > 0 {
		heap.Remove(h, ep.timer-1)
	}
}

// popDue removes and returns an endpoint whose instant has come; nil: none.
func (h *timeHeap) popDue(now time.Time) *endpoint {
	if len(*h) == 0 || (*h)[0].wakeAt.After(now) {
		return nil
	}
	ep := (*h)[0]
	heap.Pop(h)
	return ep
}

// next returns the first instant in the heap; zero: it is empty.
func (h timeHeap) next() time.Time {
	if len(h) == 0 {
		return time.Time{}
	}
	return h[0].wakeAt
}

// Len, Less, Swap, Push and Pop are heap.Interface.
func (h timeHeap) Len() int           { return len(h) }
func (h timeHeap) Less(i, j int) bool { return h[i].wakeAt.Before(h[j].wakeAt) }
func (h timeHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].timer, h[j].timer = i+1, j+1
}

func (h *timeHeap) Push(x any) {
	ep := x.(*endpoint) //nolint:errcheck // only put pushes
	ep.timer = len(*h) + 1
	*h = append(*h, ep)
}

func (h *timeHeap) Pop() any {
	ep := (*h)[len(*h)-1]
	ep.timer = 0
	(*h)[len(*h)-1] = nil
	*h = (*h)[:len(*h)-1]
	return ep
}
