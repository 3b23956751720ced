package archive_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/store"
)

// newLateWorld returns a world whose first account has three delivered events, and whose second
// account has two deliveries that are pending after an attempt.
func newLateWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.deliver(0, 3)
	for range 2 {
		w.publish(w.accounts[1], []byte(`{}`))
		w.attempt(w.accounts[1], postrider.LaneFirst, postrider.Transition{To: postrider.Pending, Step: 1})
	}
	return w
}

// addLate adds a row of bodies for each pending delivery: as many as an expunge of an event removes.
func (w *world) addLate() {
	w.Helper()
	for range 2 {
		w.attempt(w.accounts[1], postrider.LaneRetry, postrider.Transition{To: postrider.Delivered})
	}
}

// names returns the names of the stored rows of a kind.
func (w *world) names(kind store.Kind) map[string]bool {
	w.Helper()
	names := map[string]bool{}
	w.ok(w.ArchiveRows(w.Context(), store.ArchiveRows{Kind: kind, Day: store.DayOf(time.Now())}, func(r store.ArchivedRow) bool {
		names[nameOf(r.ID(), r.Name().Number)] = true
		return true
	}))
	return names
}

func nameOf(id store.RowID, number int) string {
	return string(binary.BigEndian.AppendUint32(id[:], uint32(number)))
}

// losesNothing deletes all that retention may delete of a kind, before and after the kind is archived.
// It fails the test if a deleted row has no copy.
func (w *world) losesNothing(a *archive.Archive, kind store.Kind) {
	w.Helper()
	stored := w.names(kind)
	w.forget(kind)
	w.ok(all(w.Context(), a, kind))
	w.forget(kind)
	left, copied := w.names(kind), map[string]bool{}
	found, _ := w.search(a, archive.Query{Kind: kind})
	for _, r := range found {
		copied[nameOf(r.ID, r.Number)] = true
	}
	for name := range stored {
		if !left[name] && !copied[name] {
			w.Errorf("the row %x was deleted, and has no copy", name)
		}
	}
	if len(left) > 0 {
		w.Errorf("%d rows are left, want that all are archived and deleted", len(left))
	}
}

// A row that was added after a node has read a part must not stand in for a row that was expunged.
func TestPromise2ALateRowIsNotTakenForAnExpungedOne(t *testing.T) {
	t.Parallel()
	for name, expunge := range map[string]func(*world, archive.Target) *archive.Archive{
		"after the death of the node that wrote the part": func(w *world, target archive.Target) *archive.Archive {
			dying := archive.New(target, of(&forgetful{w.Store, 1}), w.vault, archive.Options{})
			if err := all(w.Context(), dying, store.OldBodies); !errors.Is(err, errDied) {
				w.Fatalf("archive = %v, want that the node died", err)
			}
			w.expunge(w.newExpunge(w.events[0][1], postrider.EndpointID{}))
			w.addLate()
			return dying
		},
		"while the part is written": func(w *world, target archive.Target) *archive.Archive {
			a := w.open(&interrupted{Target: target, do: func() {
				w.expunge(w.newExpunge(w.events[0][1], postrider.EndpointID{}))
				w.addLate()
			}}, archive.Options{})
			_ = all(w.Context(), a, store.OldBodies) // may have to begin again
			return a
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newLateWorld(t)
			a := expunge(w, archive.Folder(t.TempDir()))
			w.losesNothing(a, store.OldBodies)
		})
	}
}

// interrupted calls do while it writes its first object.
type interrupted struct {
	archive.Target

	do func()
}

func (i *interrupted) Write(ctx context.Context, name string, content []byte) error {
	if do := i.do; do != nil {
		i.do = nil
		do()
	}
	return i.Target.Write(ctx, name, content)
}

// Two nodes can disagree on which days are archived as a whole: they have other options during a
// rolling restart, or one of them stood still. A late row must not stand in for a single row then.
func TestPromise2ALateRowIsNotTakenForASingleOne(t *testing.T) {
	t.Parallel()
	w := newLateWorld(t)
	a := w.open(archive.Folder(t.TempDir()), archive.Options{})
	going, _, err := a.ArchiveRows(t.Context(), store.OldBodies, w.old(0, store.OldBodies))
	w.ok(err)
	w.ok(all(t.Context(), a, store.OldBodies)) // the day as a whole
	_, err = w.DeleteRows(t.Context(), store.OldBodies, going[:2])
	w.ok(err)
	w.addLate()
	w.losesNothing(a, store.OldBodies)
}

// tardy is the target of a node that stands still at its first deletion. The deletions are carried
// out when the node goes on, even if its lease has ended.
type tardy struct {
	archive.Target

	over *still
	on   chan struct{} // closed when the node goes on
}

func (d *tardy) Delete(ctx context.Context, name string) error {
	d.over.away.Store(true)
	<-d.on
	return d.Target.Delete(context.WithoutCancel(ctx), name)
}

// A node that stood still deletes objects that the store has forgotten. Another node must not have
// made them parts again.
func TestPromise2AForgottenObjectIsNoPartAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newLateWorld(t)
		target := archive.Folder(t.TempDir())
		over := &still{Store: w.Store}
		frozen := &tardy{target, over, make(chan struct{})}
		first := archive.New(frozen, of(over), w.vault, archive.Options{PartBytes: 1})
		second := w.open(target, archive.Options{PartBytes: 1})
		w.ok(all(t.Context(), first, store.OldBodies))
		w.addLate()
		var working sync.WaitGroup
		working.Go(func() { _ = all(t.Context(), first, store.OldBodies) })
		time.Sleep(time.Second)
		w.ok(all(t.Context(), second, store.OldBodies))
		close(frozen.on)
		working.Wait()
		w.losesNothing(second, store.OldBodies)
	})
}
