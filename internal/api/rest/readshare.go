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
)

const (
	// readsOfAccount is how many reads of one account run at a time, over all of its keys
	// and sessions.
	readsOfAccount = 4
	// readWait is how long a read waits for its turn. The wait is also what slows down a
	// client that repeats a refused read at once.
	readWait = 2 * time.Second
	// maxReadsWaiting is how many reads of one account wait at most.
	maxReadsWaiting = 1000
	// readAgain is the Retry-After of a read that was refused.
	readAgain = 2 * time.Second
)

// readShares bounds the reads of callers that are bound to an account: those of one account,
// and those of all accounts together. Accounts whose reads wait take turns. Reads of operators
// are not counted.
//
// The bound of all accounts is what protects the publishes and deliveries of others. A read
// has the connections for readers, but it shares the processors with everybody, of which
// accounts so get half at most.
type readShares struct {
	// refused is called for each read that was refused.
	refused observe.Hook[postrider.AccountID]

	// mu guards the fields below, and all shares.
	mu sync.Mutex
	// free is how many more reads of accounts may run.
	free int
	// of has the accounts with reads that run or wait.
	of map[postrider.AccountID]*readShare
	// turns has the accounts with reads that wait. The first one is next.
	turns []*readShare
}

// readShare is the share of one account.
type readShare struct {
	running int
	waiting []*readSlot // the longest wait first
}

// readSlot is the right to make one read. The context of a read has it, so that the calls of
// the API that a page makes need no slot of their own.
type readSlot struct {
	shares  *readShares
	account postrider.AccountID
	granted chan struct{} // closed when the read may run

	// shares.mu guards held: the slot is granted, and not given back.
	held bool
}

// readSlotKey is the context key of a readSlot.
type readSlotKey struct{}

// newReadShares returns shares of which most may run.
func newReadShares(most int, refused observe.Hook[postrider.AccountID]) *readShares {
	return &readShares{refused: refused, free: most, of: map[postrider.AccountID]*readShare{}}
}

// strangers is in the place of the account of those who read without a key.
var strangers = postrider.AccountID{0xff}

// enter waits for a slot for a read of the account. The returned function gives it back; it
// may be called repeatedly. A caller that is not bound to an account needs no slot. Nor does
// a context that has one.
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

// has reports whether the context has a slot that was not given back.
func (s *readShares) has(ctx context.Context) bool {
	slot, ok := ctx.Value(readSlotKey{}).(*readSlot)
	if !ok {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return slot.held
}

// queue adds a slot to those that wait, and grants it if that is possible. It reports false if
// too many wait.
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
	if len(share.waiting) == 0 { // before the accounts with more reads that run
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

// grant lets reads run while there is room, of each account one in turn. It needs s.mu.
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

// withdraw ends the wait of a slot. It reports whether the slot was granted meanwhile.
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

// giveBack ends the read of a slot, if it runs.
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

// drop forgets an account without reads. It needs s.mu.
func (s *readShares) drop(account postrider.AccountID) {
	if share := s.of[account]; share.running == 0 && len(share.waiting) == 0 {
		delete(s.of, account)
	}
}

// Share waits for the turn of a page of the caller, which reads and renders. The returned
// function gives the turn back; call it before anything is written to the browser. The calls
// of the API with the returned context have the page's turn. The error matches
// postrider.ErrTooManyReads if the turn did not come in time.
func (h *Handler) Share(ctx context.Context, caller postrider.Caller) (context.Context, func(), error) {
	return h.routes.reads.enter(ctx, caller.Account)
}

// onlyReads reports whether the route changes nothing.
func (r Route) onlyReads() bool {
	return strings.HasPrefix(r.Path, http.MethodGet) || r.Reads
}
