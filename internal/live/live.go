// Package live shows attempts to people while they are made.
//
// A [Hub] observes the attempts that are settled and hands each to the subscriptions
// whose [Filter] it matches:
//
//	hub := live.New()
//	observer := observe.New(hub.Hooks(), log)
//	…
//	s := hub.Subscribe(ctx, live.Filter{Account: account})
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
//   - A filter with an account gets nothing of another account, not even a count.
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

	"github.com/postrider/postrider"
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

// Item is an attempt that was settled.
type Item struct {
	Delivery     postrider.DeliveryID
	Event        postrider.EventID
	Endpoint     postrider.EndpointID
	Account      postrider.AccountID
	EventType    string
	Attempt      int // number, from 1
	Outcome      postrider.Outcome
	StatusCode   int // 0: no response
	Duration     time.Duration
	Status       postrider.Status     // of the delivery, after the attempt
	At           time.Time            // start of the attempt
	ReplayedFrom postrider.DeliveryID // zero: the delivery is no replay
}

// Filter selects items; a zero field does not filter.
type Filter struct {
	Account   postrider.AccountID
	Endpoint  postrider.EndpointID
	EventType postrider.Pattern
	Status    postrider.Status
	Outcome   postrider.Outcome
}

// matches reports whether the filter selects the item.
func (f *Filter) matches(i *Item) bool {
	return (f.Account.IsZero() || f.Account == i.Account) &&
		(f.Endpoint.IsZero() || f.Endpoint == i.Endpoint) &&
		(f.Status == "" || f.Status == i.Status) &&
		(f.Outcome == "" || f.Outcome == i.Outcome) &&
		(f.EventType == "" || f.EventType.Matches(i.EventType))
}

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
	status := s.Transition.To
	if s.Stale { // it has not changed the delivery
		status = postrider.Pending
	}
	i := &Item{
		Delivery: s.Delivery.ID, Event: s.Delivery.Event.ID, Endpoint: s.Delivery.Endpoint, Account: s.Delivery.Event.Account,
		EventType: s.Delivery.Event.Type, Attempt: s.Delivery.Attempt, Outcome: s.Attempt.Outcome, StatusCode: s.Attempt.StatusCode,
		Duration: s.Attempt.Duration, Status: status, At: s.Attempt.StartedAt, ReplayedFrom: s.Delivery.ReplayedFrom,
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.publishLocked(i)
	h.offerLocked(i)
}

// publishLocked hands the item to the subscriptions of this node.
func (h *Hub) publishLocked(i *Item) {
	for s := range h.subs {
		if s.filter.matches(i) {
			s.addLocked(i)
		}
	}
}

// Subscribe returns a subscription that ends with ctx.
func (h *Hub) Subscribe(ctx context.Context, f Filter) *Subscription {
	s := &Subscription{hub: h, filter: f, ready: batch.NewSignal(), ended: make(chan struct{})}
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

// Subscription gets the items that its filter selects. One goroutine reads it.
type Subscription struct {
	hub    *Hub
	filter Filter
	ready  batch.Signal  // there are items, or some are lost
	ended  chan struct{} // closed when the hub has forgotten the subscription
	read   time.Time     // when Next last returned items; only the reader uses it

	// Guarded by hub.mu.
	items []Item // at most bufferSize
	first int    // index of the oldest item: a full buffer is a ring
	lost  int    // since the last call of Next
}

// addLocked appends the item. If the buffer is full, the oldest item is lost.
func (s *Subscription) addLocked(i *Item) {
	if len(s.items) < bufferSize {
		s.items = append(s.items, *i)
	} else {
		s.items[s.first] = *i
		s.first = (s.first + 1) % bufferSize
		s.lost++
	}
	s.ready.Set()
}

// Next waits for items and returns them, the oldest first. lost is the number of items
// that are missing, because the buffer was full or another node could not send them; other
// nodes know the account of the filter alone, so lost may count items that the filter does
// not select. Next returns at most once a second. Its error is ctx's or [ErrEnded];
// after an error there are no more items.
func (s *Subscription) Next(ctx context.Context) (items []Item, lost int, err error) {
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
