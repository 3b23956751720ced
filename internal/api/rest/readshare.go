package rest

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

const (
	// readsOfAccount is the number of reads of one account that run at a time, over all of its keys
	// and sessions.
	readsOfAccount = 4
	// readWait is the longest time for which a read waits for its turn. The wait also slows down a
	// client that repeats a refused read at once.
	readWait = 2 * time.Second
	// maxReadsWaiting is the largest number of waiting reads of one account.
	maxReadsWaiting = 1000
	// readAgain is the Retry-After of a refused read.
	readAgain = 2 * time.Second
)

// readShares limits the reads of callers that are bound to an account: the reads of each account,
// and the reads of all accounts together. Accounts with waiting reads take turns. Reads of
// operators are not counted.
//
// The limit for all accounts protects publishes and deliveries. Reads have their own database
// connections, but they share the processors with publishes and deliveries. The limit leaves
// accounts at most half of the processors.
type readShares struct {
	// refused is called for each refused read.
	refused observe.Hook[postrider.AccountID]

	// mu guards the fields below, and all shares.
	mu sync.Mutex
	// free is the number of further reads of accounts that may start now.
	free int
	// of has the accounts that have running or waiting reads.
	of map[postrider.AccountID]*readShare
	// turns has the accounts with waiting reads. The first account is next.
	turns []*readShare
}

// readShare is the share of one account.
type readShare struct {
	running int
	waiting []*readSlot // the read that has waited longest is first
}

// readSlot is the right to make one read. It is stored in the context of the read. So the API calls
// that a page makes use the slot of the page and need no further slots.
type readSlot struct {
	shares  *readShares
	account postrider.AccountID
	granted chan struct{} // closed when the read may run

	// held is true from the grant of the slot until giveBack. shares.mu guards it.
	held bool
}

// readSlotKey is the context key of a readSlot.
type readSlotKey struct{}

// newReadShares returns shares under which at most `most` reads run.
func newReadShares(most int, refused observe.Hook[postrider.AccountID]) *readShares {
	return &readShares{refused: refused, free: most, of: map[postrider.AccountID]*readShare{}}
}

// strangers is the account that stands for callers without a key.
var strangers = postrider.AccountID{0xff}

// enter waits for a slot for a read of the account. The returned function gives the slot back; it
// may be called repeatedly. No slot is needed if the caller is bound to no account, or if the
// context already has a slot.
func (s *readShares) enter(ctx context.Context, account postrider.AccountID) (context.Context, func(), error) {
	if account.IsZero() || s.has(ctx) {
		return ctx, func() {}, nil
	}
	slot := &readSlot{shares: s, account: account, granted: make(chan struct{})}
	if !s.queue(slot) {
		s.refused.Call(account)
		return ctx, nil, errReadShare
	}
	timer := time.NewTimer(readWait)
	defer timer.Stop()
	select {
	case <-slot.granted:
	case <-timer.C:
		if !s.withdraw(slot) {
			s.refused.Call(account)
			return ctx, nil, errReadShare
		}
	case <-ctx.Done():
		s.withdraw(slot)
		slot.giveBack()
		return ctx, nil, context.Cause(ctx)
	}
	return context.WithValue(ctx, readSlotKey{}, slot), slot.giveBack, nil
}

// errReadShare is the response to a read beyond the share of its account.
var errReadShare = &Error{Class: postrider.ErrTooManyReads, after: readAgain}

// has reports whether the context has a slot that is still held.
func (s *readShares) has(ctx context.Context) bool {
	slot, ok := ctx.Value(readSlotKey{}).(*readSlot)
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slot.held
}

// queue adds a slot to the waiting slots of its account, and grants it at once if possible. It
// returns false if too many slots wait.
func (s *readShares) queue(slot *readSlot) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := s.of[slot.account]
	if share == nil {
		share = &readShare{}
		s.of[slot.account] = share
	}
	if len(share.waiting) >= maxReadsWaiting {
		return false
	}
	if len(share.waiting) == 0 { // put the account before those with more running reads
		place := slices.IndexFunc(s.turns, func(other *readShare) bool { return other.running > share.running })
		if place < 0 {
			place = len(s.turns)
		}
		s.turns = slices.Insert(s.turns, place, share)
	}
	share.waiting = append(share.waiting, slot)
	s.grant()
	return true
}

// grant starts waiting reads while the limits allow it, one of each account in turn. The caller
// must hold s.mu.
func (s *readShares) grant() {
	for s.free > 0 {
		next := slices.IndexFunc(s.turns, func(share *readShare) bool { return share.running < readsOfAccount })
		if next < 0 {
			return
		}
		share := s.turns[next]
		slot := share.waiting[0]
		share.waiting = slices.Delete(share.waiting, 0, 1)
		s.turns = slices.Delete(s.turns, next, next+1)
		if len(share.waiting) > 0 {
			s.turns = append(s.turns, share)
		}
		share.running++
		s.free--
		slot.held = true
		close(slot.granted)
	}
}

// withdraw ends the wait of a slot. It reports whether the slot has been granted in the meantime.
func (s *readShares) withdraw(slot *readSlot) (granted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slot.held {
		return true
	}
	share := s.of[slot.account]
	share.waiting = slices.DeleteFunc(share.waiting, func(other *readSlot) bool { return other == slot })
	if len(share.waiting) == 0 {
		s.turns = slices.DeleteFunc(s.turns, func(other *readShare) bool { return other == share })
		s.drop(slot.account)
	}
	return false
}

// giveBack ends the read of a slot. If the slot is not held, it does nothing.
func (slot *readSlot) giveBack() {
	s := slot.shares
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slot.held {
		return
	}
	slot.held = false
	s.of[slot.account].running--
	s.free++
	s.grant()
	s.drop(slot.account)
}

// drop removes an account that has no reads. The caller must hold s.mu.
func (s *readShares) drop(account postrider.AccountID) {
	if share := s.of[account]; share.running == 0 && len(share.waiting) == 0 {
		delete(s.of, account)
	}
}

// Share waits for a turn to read, for a page that the caller requested. The returned function ends
// the turn; call it before anything is written to the browser. API calls with the returned context
// use the turn of the page. The error matches postrider.ErrTooManyReads if the wait took too long.
func (h *Handler) Share(ctx context.Context, caller postrider.Caller) (context.Context, func(), error) {
	return h.routes.reads.enter(ctx, caller.Account)
}

// Read runs a part of the handler of a route with Pages, as a read of the caller: it waits for a turn of
// the account, and the store uses the connections of readers. Between the parts others have their turns.
func (rt *Router) Read(ctx context.Context, part func(ctx context.Context) error) error {
	ctx, giveBack, err := rt.reads.enter(ctx, InfoOf(ctx).Caller.Account)
	if err != nil {
		return err
	}
	defer giveBack()
	return part(store.ForReader(ctx))
}

// TooManyReads returns the refusal of a read that others of its kind are in the way of.
func TooManyReads(detail string) error {
	return &Error{Class: postrider.ErrTooManyReads, Detail: detail, after: readAgain}
}

// onlyReads reports whether the route changes nothing.
func (r Route) onlyReads() bool {
	return strings.HasPrefix(r.Path, http.MethodGet) || r.Reads
}
