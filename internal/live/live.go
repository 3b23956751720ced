// Package live shows attempts to people while they are made.
//
// A [Hub] observes the settled attempts and gives each to the subscriptions whose [observe.Watch]
// selects it:
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
// It promises:
//
//   - Nothing waits for a subscriber. A subscriber that reads slowly loses items, and the
//     next call of [Subscription.Next] says how many. A program that needs every attempt
//     reads the API.
//   - While nobody watches, an attempt costs one atomic load.
//   - The buffer of a subscription is bounded, and Next returns at most once a second. So a
//     thousand subscriptions cannot slow the deliveries down.
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

// ErrEnded says that a subscription has ended, because its context ended or by [Hub.End].
var ErrEnded = errors.New("the subscription has ended")

const (
	// bufferSize is how many items wait for a subscriber; the newest are kept. Together with pace,
	// it limits a subscription to 25 items a second, more than anybody reads.
	bufferSize = 25
	// pace is the shortest time between two results of Next.
	pace = time.Second
)

// Hub gives attempts to subscriptions. Its methods may be called from any goroutine.
type Hub struct {
	watched atomic.Bool // this node has a subscription, or another node watches

	mu    sync.Mutex
	subs  map[*Subscription]struct{}
	ended bool
	peers map[string]peer // other nodes with subscriptions, by their names
	out   outgoing        // attempts for the peers; Run sends them
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

// publishLocked gives the attempt to the subscriptions of this node.
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

// End ends all subscriptions; later ones end at once. The server calls it when it shuts down, so
// that the shutdown does not wait for streams.
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
	ready batch.Signal  // set when there are items, or when items were lost
	ended chan struct{} // closed when the hub has removed the subscription
	read  time.Time     // when Next last returned items; used only by the reader

	// Guarded by hub.mu.
	items []observe.Attempted // at most bufferSize
	first int                 // index of the oldest item: a full buffer is a ring
	lost  int                 // items lost since the last call of Next
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

// Next waits for items and returns them, the oldest first. lost is how many items are missing,
// because the buffer was full or because another node could not send them. Other nodes know only
// the account of the watch, so lost may count items that the watch does not select. Next returns at
// most once a second. The error is the error of ctx or [ErrEnded]; after it there are no more
// items.
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
