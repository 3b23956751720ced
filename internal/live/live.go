// Package live shows attempts to people while they are made.
//
// A [Hub] observes the attempts that are settled and hands each to the subscriptions
// whose [observe.Watch] selects it:
//
//	hub := live.New()
//	observer := observe.New(hub.Hooks(), log)
//	…
//	s := hub.Subscribe(ctx, observe.Watch{Account: account})
//	for {
//		items, lost, err := s.Next(ctx)
//		…
//	}
//
// Whatever happens, this holds:
//
//   - Nothing waits for a subscriber. A subscriber that reads slowly loses items, and the
//     next call of [Subscription.Next] says how many. A program that needs every attempt
//     reads the API.
//   - While nobody watches, an attempt costs one atomic load.
//   - A subscription costs its buffer, which is bounded, and reads at most once a second,
//     so that a thousand of them cannot slow the deliveries down.
//   - A watch of an account gets nothing of another account, not even a count.
//   - With [Hub.Run], a subscription gets the attempts of all nodes; see nodes.go.
//   - The items of one node are in the order in which they were settled.
package live

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
)

// ErrEnded says that a subscription has ended, with its context or by [Hub.End].
var ErrEnded = errors.New("the subscription has ended")

const (
	// bufferSize is how many items wait for a subscriber: the newest. With pace, it bounds
	// a subscription to 25 items a second, which is more than anybody reads.
	bufferSize = 25
	// pace is the shortest time between two results of Next.
	pace = time.Second
)

// Hub hands attempts to subscriptions. Its methods may be called from any goroutine.
type Hub struct {
	watched atomic.Bool // there is a subscription, or another node watches

	mu    sync.Mutex
	subs  map[*Subscription]struct{}
	ended bool
	peers map[string]peer // other nodes on which somebody watches, by their names
	out   outgoing        // for the peers; Run sends it
}

// New returns a hub without subscriptions.
func New() *Hub { return &Hub{subs: map[*Subscription]struct{}{}, peers: map[string]peer{}} }

// Hooks returns the hooks by which the hub gets the attempts of this node.
func (h *Hub) Hooks() observe.Hooks { return observe.Hooks{Settled: h.settled} }

func (h *Hub) settled(s observe.Settled) {
	if !h.watched.Load() {
		return
	}
	a := s.Attempted()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.publishLocked(&a)
	h.offerLocked(&a)
}

// publishLocked hands the attempt to the subscriptions of this node.
func (h *Hub) publishLocked(a *observe.Attempted) {
	for s := range h.subs {
		if s.watch.Selects(a) {
			s.addLocked(a)
		}
	}
}

// Subscribe returns a subscription that ends with ctx.
func (h *Hub) Subscribe(ctx context.Context, w observe.Watch) *Subscription {
	s := &Subscription{hub: h, watch: w, ready: batch.NewSignal(), ended: make(chan struct{})}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended {
		close(s.ended)
		return s
	}
	h.subs[s] = struct{}{}
	h.noteWatchedLocked()
	context.AfterFunc(ctx, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.endLocked(s)
	})
	return s
}

// End ends all subscriptions; later ones end at once. The server calls it when it shuts
// down, so that it does not wait for streams.
func (h *Hub) End() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = true
	for s := range h.subs {
		h.endLocked(s)
	}
}

func (h *Hub) endLocked(s *Subscription) {
	if _, open := h.subs[s]; !open {
		return
	}
	close(s.ended)
	delete(h.subs, s)
	h.noteWatchedLocked()
}

// Subscription gets the attempts that its watch selects. One goroutine reads it.
type Subscription struct {
	hub   *Hub
	watch observe.Watch
	ready batch.Signal  // there are items, or some are lost
	ended chan struct{} // closed when the hub has forgotten the subscription
	read  time.Time     // when Next last returned items; only the reader uses it

	// Guarded by hub.mu.
	items []observe.Attempted // at most bufferSize
	first int                 // index of the oldest item: a full buffer is a ring
	lost  int                 // since the last call of Next
}

// addLocked appends the attempt. If the buffer is full, the oldest item is lost.
func (s *Subscription) addLocked(a *observe.Attempted) {
	if len(s.items) < bufferSize {
		s.items = append(s.items, *a)
	} else {
		s.items[s.first] = *a
		s.first = (s.first + 1) % bufferSize
		s.lost++
	}
	s.ready.Set()
}

// Next waits for items and returns them, the oldest first. lost is the number of items
// that are missing, because the buffer was full or another node could not send them; other
// nodes know the account of the watch alone, so lost may count items that the watch does
// not select. Next returns at most once a second. Its error is ctx's or [ErrEnded];
// after an error there are no more items.
func (s *Subscription) Next(ctx context.Context) (items []observe.Attempted, lost int, err error) {
	if !batch.SleepOr(ctx, time.Until(s.read.Add(pace)), s.ended) {
		return nil, 0, ctx.Err()
	}
	select {
	case <-s.ready:
	case <-s.ended:
		return nil, 0, ErrEnded
	case <-ctx.Done():
		return nil, 0, ctx.Err()
	}
	s.read = time.Now()
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	items, lost = slices.Concat(s.items[s.first:], s.items[:s.first]), s.lost
	s.items, s.first, s.lost = s.items[:0], 0, 0
	return items, lost, nil
}
