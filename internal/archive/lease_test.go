package archive_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/store"
)

func TestOneNodeArchivesAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deliver(0, 10)
		target := archive.Folder(t.TempDir())
		first, second := w.open(target, archive.Options{PartBytes: 1}), w.open(target, archive.Options{PartBytes: 1})
		if more, err := first.Archive(t.Context(), store.OldEvents, later()); !more || err != nil {
			t.Fatalf("the first node: more %v, %v", more, err)
		}
		if more, err := second.Archive(t.Context(), store.OldEvents, later()); !more || err != nil {
			t.Errorf("the second node: more %v, %v, want that it asks again", more, err)
		}
		if n := len(w.parts()); n != 1 {
			t.Errorf("there are %d parts, want 1", n)
		}
	})
}

// hung hangs at the n-th object until its node is dead.
type hung struct {
	archive.Target

	dead   chan struct{}
	writes int
}

func (h *hung) Write(ctx context.Context, name string, content []byte) error {
	if h.writes--; h.writes < 0 {
		<-h.dead
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return h.Target.Write(ctx, name, content)
}

func TestTheArchiveOfADeadNodeIsTakenOverWithinTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deliver(0, 10)
		folder := archive.Folder(t.TempDir())
		dying := &hung{folder, make(chan struct{}), 0}
		first, second := w.open(dying, archive.Options{}), w.open(folder, archive.Options{})
		ctx, die := context.WithCancel(t.Context())
		var working sync.WaitGroup
		working.Go(func() { _ = all(ctx, first, store.OldEvents) })
		time.Sleep(time.Minute) // it renews its lease
		if more, err := second.Archive(t.Context(), store.OldEvents, later()); !more || err != nil || len(w.parts()) > 0 {
			t.Errorf("while the first node works: more %v, %v, %d parts", more, err, len(w.parts()))
		}
		die()
		died := time.Now()
		w.ok(all(t.Context(), second, store.OldEvents))
		if took := time.Since(died); len(w.parts()) != 1 || took > 10*time.Second {
			t.Errorf("%d parts %v after the death, want 1 within 10 s", len(w.parts()), took)
		}
		close(dying.dead)
		working.Wait()
	})
}

// still is the store of a node that stands still: its renewals do not arrive.
type still struct {
	store.Store

	away atomic.Bool
}

func (s *still) LeaseArchive(ctx context.Context, node uint64, d time.Duration) (bool, error) {
	if s.away.Load() {
		return false, postrider.ErrBusy
	}
	return s.Store.LeaseArchive(ctx, node, d)
}

// A node that stood still before it recorded its part must not record it: another one has
// archived meanwhile, and may have deleted the object that had no manifest yet.
func TestANodeThatStoodStillRecordsNoPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deliver(0, 10)
		folder := archive.Folder(t.TempDir())
		frozen, over := &hung{folder, make(chan struct{}), 1}, &still{Store: w.Store} // its object is written, its manifest is not
		first, second := archive.New(frozen, of(over), w.vault, archive.Options{}), w.open(folder, archive.Options{})
		var working sync.WaitGroup
		var err error
		working.Go(func() { err = all(t.Context(), first, store.OldEvents) })
		time.Sleep(time.Second)
		over.away.Store(true)
		w.ok(all(t.Context(), second, store.OldEvents))
		over.away.Store(false)
		close(frozen.dead)
		working.Wait()
		if err == nil || len(w.parts()) != 1 {
			t.Errorf("the node that stood still: %v; there are %d parts, want 1 by the other", err, len(w.parts()))
		}
		for _, p := range w.parts() {
			if _, err := second.Verify(t.Context(), p); err != nil {
				t.Errorf("verify %s: %v", p.Object, err)
			}
		}
	})
}
