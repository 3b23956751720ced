package schedule

import (
	"container/heap"
	"slices"
	"time"
)

// queueKinds is the set of the kinds of queues that an endpoint is in, one bit for each.
type queueKinds uint16

// The kinds of queues. An endpoint is in at most one queue of a kind.
const (
	inReady      queueKinds = 1 << iota // it has something to start; a queue of ready, or of its host
	inClaims                            // it has something to claim
	inBulk                              // it waits for the bulk rate
	inProbes                            // it waits for a slot for a probe
	inUnanswered                        // it has to respond before it gets another slot
	inSuspects                          // it waits for a round of suspects
	inStuck                             // it is stuck and waits until stuck endpoints may lease more
)

// queue is a FIFO queue of endpoints that reuses its memory.
type queue struct {
	kind queueKinds
	eps  []*endpoint
	head int
}

func (q *queue) len() int { return len(q.eps) - q.head }

// push appends the endpoint, unless it is in a queue of this kind already. When the memory is full
// and at least half of its places were popped, push moves the rest to the front instead of
// allocating. So a move copies at most as many endpoints as were popped since the last one, and the
// average cost of a push is constant, however long the queue is.
func (q *queue) push(ep *endpoint) {
	if ep.queued&q.kind != 0 {
		return
	}
	ep.queued |= q.kind
	if len(q.eps) == cap(q.eps) && q.head > 0 && q.head >= len(q.eps)/2 {
		q.eps = slices.Delete(q.eps, 0, q.head) // slices.Delete also clears the places at the end
		q.head = 0
	}
	q.eps = append(q.eps, ep)
}

// pushFront does what push does, but puts the endpoint at the front.
func (q *queue) pushFront(ep *endpoint) {
	if ep.queued&q.kind != 0 {
		return
	}
	ep.queued |= q.kind
	if q.head == 0 {
		q.eps = slices.Insert(q.eps, 0, nil)
		q.head = 1
	}
	q.head--
	q.eps[q.head] = ep
}

// pop removes and returns the first endpoint; nil: the queue is empty.
func (q *queue) pop() *endpoint {
	if q.len() == 0 {
		return nil
	}
	ep := q.eps[q.head]
	q.eps[q.head] = nil
	q.head++
	ep.queued &^= q.kind
	return ep
}

// remove removes the endpoint and reports whether it was in this queue.
func (q *queue) remove(ep *endpoint) bool {
	if ep.queued&q.kind == 0 {
		return false
	}
	i := slices.Index(q.eps[q.head:], ep)
	if i < 0 {
		return false // it is in another queue of the kind
	}
	q.eps = slices.Delete(q.eps, q.head+i, q.head+i+1)
	ep.queued &^= q.kind
	return true
}

// timeHeap orders endpoints by the time at which they must be reviewed even if no input names them.
type timeHeap []*endpoint

// put sets the endpoint's timer. The endpoint must have none.
func (h *timeHeap) put(ep *endpoint, at time.Time) {
	ep.wakeAt = at
	heap.Push(h, ep)
}

func (h *timeHeap) remove(ep *endpoint) {
	if ep.timer > 0 {
		heap.Remove(h, ep.timer-1)
	}
}

// popDue removes and returns an endpoint whose time has come; nil: there is none.
func (h *timeHeap) popDue(now time.Time) *endpoint {
	if len(*h) == 0 || (*h)[0].wakeAt.After(now) {
		return nil
	}
	ep := (*h)[0]
	heap.Pop(h)
	return ep
}

// next returns the first time in the heap; zero: the heap is empty.
func (h timeHeap) next() time.Time {
	if len(h) == 0 {
		return time.Time{}
	}
	return h[0].wakeAt
}

// Len, Less, Swap, Push and Pop implement heap.Interface.
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

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// sooner returns the earlier of two times; a zero a counts as never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}
