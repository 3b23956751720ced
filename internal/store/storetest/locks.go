package storetest

import (
	"context"
	"slices"
	"sync"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// lock holds the member's lock, from its next Beat on, until the test ends or
// the returned function is called; that waits until the lock is free.
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

// sees lets the member beat until the roster is as the predicate says: a store
// may take a moment to see that a connection has ended.
func (m *member) sees(what string, is func(store.Roster) bool) store.Roster {
	m.Helper()
	var roster store.Roster
	m.eventually(what, func() bool {
		roster = m.beats()
		return is(roster)
	})
	return roster
}

func ownsAll(r store.Roster) bool { return slices.Equal(r.Shards, everyShard()) }

func lockFreed(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	w.same("the roster of one that has its lock", a.beats(), store.Roster{Nodes: 1, Shards: everyShard()})
	w.same("the roster of one that joins", b.beats(), store.Roster{Nodes: 2})
	free()
	roster := b.sees("it owns what was the dead one's", ownsAll)
	w.same("the roster", roster, store.Roster{Nodes: 1, Shards: everyShard()})
}

func lockGone(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	a.beats()
	free()
	b.sees("it owns what was the dead one's", ownsAll)
	w.passed(store.LockGrace)
	w.same("the roster after LockGrace", b.beats(), store.Roster{Nodes: 1, Shards: everyShard(), Gone: []uint32{1}})
	w.same("Reclaim", w.reclaim(1, 10), 0)
	w.same("the roster after Reclaim", b.beats(), store.Roster{Nodes: 1, Shards: everyShard()})
}

func lockLost(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	a.beats()
	free()
	a.sees("it is unlocked", func(r store.Roster) bool { return r.Unlocked })
	b.sees("the other owns its shards", ownsAll)
	for range 3 {
		w.passed(store.LockGrace / 2)
		if r := a.beats(); !r.Unlocked || len(r.Shards) > 0 {
			w.Errorf("unlocked %t with %d shards, want unlocked and none", r.Unlocked, len(r.Shards))
		}
		w.same("those that are gone", len(b.beats().Gone), 0)
	}
	w.same("Reclaim of one that beats", w.reclaim(1, 10), 0)
	b.beats(everyShard()...)
	w.same("the shards of one that is unlocked", a.beats().Shards, []uint8{})
}

func lockBack(w *world) {
	a := w.member(1)
	free := a.lock()
	a.beats()
	free()
	a.sees("it is unlocked", func(r store.Roster) bool { return r.Unlocked })
	a.lock()
	w.same("the roster of one that has its lock again", a.beats(), store.Roster{Nodes: 1, Shards: everyShard()})
}

func lockGivenUp(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	a.beats()
	free()
	a.sees("it is unlocked", func(r store.Roster) bool { return r.Unlocked })
	a.Unlocked = true
	w.same("the roster of one without a lock", a.beats(), store.Roster{Nodes: 1, Shards: everyShard()})
	w.same("the roster of another", b.beats(), store.Roster{Nodes: 2})
	a.TTL = brief
	a.beats()
	w.passed(brief)
	w.same("the silent", b.beats().Silent, []uint32{1})
}

func reclaimLocked(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	a.beats()
	free()
	b.sees("it owns what was the other's", ownsAll)
	w.same("Reclaim before LockGrace", w.reclaim(1, 10), 0)
	a.lock()
	w.passed(store.LockGrace)
	w.same("Reclaim of one that has its lock again", w.reclaim(1, 10), 0)
	w.same("the roster of the other", b.beats(), store.Roster{Nodes: 2, Shards: everyShard(), Excess: store.Shards / 2})
}

func reclaimGone(w *world) {
	a, b := w.member(1), w.member(2)
	free := a.lock()
	a.beats()
	e := w.endpoint()
	ids := w.pending(e, 2)
	w.claim(e, postrider.LaneFirst, 2)
	free()
	b.sees("it owns what was the dead one's", ownsAll)
	w.passed(store.LockGrace)
	w.same("the gone", b.beats().Gone, []uint32{1})
	w.same("Reclaim", w.reclaim(1, 10), 2)
	w.turn(e, ids...)
}
