package storetest

import (
	"context"
	"slices"
	"sync"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// lock takes the member's lock, so that it has the lock at its next Heartbeat. The member keeps
// the lock until the test ends or the returned function is called. That function waits until the
// lock is free.
func (m *member) lock() (free func()) {
	m.Helper()
	ctx, stop := context.WithCancel(m.Context())
	var holding sync.WaitGroup
	var l listener
	holding.Go(func() {
		if err := m.Hold(ctx, m.Incarnation, l.hear); err != nil && ctx.Err() == nil {
			m.Errorf("Hold: %v", err)
		}
	})
	m.Cleanup(func() {
		stop()
		holding.Wait()
	})
	m.eventually("it holds its lock", func() bool { return l.heard("") })
	return func() {
		stop()
		holding.Wait()
	}
}

// sees sends heartbeats of the member until the membership satisfies the predicate. That can take
// a moment, because a store notices the end of a connection late.
func (m *member) sees(what string, is func(store.Membership) bool) store.Membership {
	m.Helper()
	var membership store.Membership
	m.eventually(what, func() bool {
		membership = m.heartbeats()
		return is(membership)
	})
	return membership
}

func ownsAll(r store.Membership) bool { return slices.Equal(r.Shards, everyShard()) }

func lockFreed(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	w.same("the membership of one that has its lock", a.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
	w.same("the membership of one that joins", b.heartbeats(), store.Membership{Nodes: 2})
	free()
	membership := b.sees("it owns what was the dead one's", ownsAll)
	w.same("the membership", membership, store.Membership{Nodes: 1, Shards: everyShard()})
}

func lockGone(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	a.heartbeats()
	free()
	b.sees("it owns what was the dead one's", ownsAll)
	w.passed(store.LockGrace)
	w.same("the membership after LockGrace", b.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard(), Gone: []uint32{1}})
	w.same("Reclaim", w.reclaim(1, 10), 0)
	w.same("the membership after Reclaim", b.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
}

func lockLost(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	a.heartbeats()
	free()
	a.sees("it is unlocked", func(r store.Membership) bool { return r.Unlocked })
	b.sees("the other owns its shards", ownsAll)
	for range 3 {
		w.passed(store.LockGrace / 2)
		if r := a.heartbeats(); !r.Unlocked || len(r.Shards) > 0 {
			w.Errorf("unlocked %t with %d shards, want unlocked and none", r.Unlocked, len(r.Shards))
		}
		w.same("those that are gone", len(b.heartbeats().Gone), 0)
	}
	w.same("Reclaim of one that heartbeats", w.reclaim(1, 10), 0)
	b.heartbeats(everyShard()...)
	w.same("the shards of one that is unlocked", a.heartbeats().Shards, []uint8{})
}

func lockBack(w *world) {
	a := w.member(1)
	free := a.lock()
	a.heartbeats()
	free()
	a.sees("it is unlocked", func(r store.Membership) bool { return r.Unlocked })
	a.lock()
	w.same("the membership of one that has its lock again", a.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
}

func lockGivenUp(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	a.heartbeats()
	free()
	a.sees("it is unlocked", func(r store.Membership) bool { return r.Unlocked })
	a.Unlocked = true
	w.same("the membership of one without a lock", a.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
	w.same("the membership of another", b.heartbeats(), store.Membership{Nodes: 2})
	a.TTL = brief
	a.heartbeats()
	w.passed(brief)
	w.same("the silent", b.heartbeats().Silent, []uint32{1})
}

func reclaimLocked(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	a.heartbeats()
	free()
	b.sees("it owns what was the other's", ownsAll)
	w.same("Reclaim before LockGrace", w.reclaim(1, 10), 0)
	a.lock()
	w.passed(store.LockGrace)
	w.same("Reclaim of one that has its lock again", w.reclaim(1, 10), 0)
	w.same("the membership of the other", b.heartbeats(), store.Membership{Nodes: 2, Shards: everyShard(), Surplus: store.Shards / 2})
}

func reclaimGone(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	a.heartbeats()
	e := w.endpoint()
	ids := w.pending(e, 2)
	w.claim(e, postrider.LaneFirst, 2)
	free()
	b.sees("it owns what was the dead one's", ownsAll)
	w.passed(store.LockGrace)
	w.same("the gone", b.heartbeats().Gone, []uint32{1})
	w.same("Reclaim", w.reclaim(1, 10), 2)
	w.claimExactly(e, ids...)
}
