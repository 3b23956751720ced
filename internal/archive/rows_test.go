package archive_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/store"
)

// old returns the rows of a kind of an account, however young, in their order.
func (w *world) old(of int, kind store.Kind) []store.OldRow {
	w.Helper()
	rows, _, err := w.OldRows(w.Context(), store.OldRows{Kind: kind, Account: w.accounts[of].Account, Before: later(), Limit: 1000})
	w.ok(err)
	slices.SortFunc(rows, store.CompareRows)
	return rows
}

// keepLess archives and deletes all rows of an account as those of one that keeps less.
func (w *world) keepLess(a *archive.Archive, of int) {
	w.Helper()
	for _, kind := range kinds {
		for left := w.old(of, kind); len(left) > 0; {
			var going []store.OldRow
			var err error
			going, left, err = a.ArchiveRows(w.Context(), kind, left)
			w.ok(err)
			n, err := w.DeleteRows(w.Context(), kind, going)
			w.ok(err)
			if n != len(going) || n == 0 {
				w.Errorf("%s: %d of %d archived rows were deleted", kind, n, len(going))
			}
		}
	}
}

func TestRowsAreArchivedApartFromTheirDay(t *testing.T) {
	t.Parallel()
	targets(t, func(t *testing.T, target archive.Target) {
		w := newWorld(t)
		w.deliver(0, 10)
		w.deliver(1, 10)
		w.deliver(0, 10)
		a := w.open(target, archive.Options{PartBytes: 4 << 10})
		w.keepLess(a, 0)
		if n := len(w.parts()); n < 6 {
			t.Errorf("%d parts, want several small ones of each kind", n)
		}
		w.archiveAll(a) // the day as a whole
		for _, kind := range kinds {
			if n := w.forget(kind); n != 10 {
				t.Errorf("%s: %d rows were deleted, want those of the other account's 10 deliveries", kind, n)
			}
			if left := w.rows(kind); left != 0 {
				t.Errorf("%s: %d rows are left", kind, left)
			}
		}
		for _, p := range w.parts() {
			if v, err := a.Verify(t.Context(), p); err != nil || v.Rows != p.Rows {
				t.Errorf("verify %s: %+v, %v, want %d rows", p.Object, v, err, p.Rows)
			}
			if p.Left != 0 {
				t.Errorf("of the part %s %d of %d rows are left", p.Object, p.Left, p.Rows)
			}
		}
		for i, want := range []int{20 * 5, 10 * 5} {
			if found, _ := w.search(a, archive.Query{Account: w.accounts[i].Account}); len(found) != want {
				t.Errorf("account %d: %d records are archived, want %d, each once", i, len(found), want)
			}
		}
		for _, id := range []int{0, 7, 19} {
			if found, _ := w.search(a, archive.Query{Event: w.events[0][id]}); len(found) != 5 {
				t.Errorf("event %d: %d records, want the event, two attempts, two bodies", id, len(found))
			}
		}
	})
}

func TestAPartOfSomeRowsThatADyingNodeLeftIsNoneOfTheDay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deliver(1, 5)
	w.deliver(0, 5)
	target := archive.Folder(t.TempDir())
	a := archive.New(target, of(&forgetful{w.Store, 1}), w.vault, archive.Options{})
	rows := w.old(0, store.OldEvents)
	if going, _, err := a.ArchiveRows(t.Context(), store.OldEvents, rows); !errors.Is(err, errDied) || len(going) > 0 {
		t.Fatalf("archive rows = %d rows, %v, want none, and that the node died", len(going), err)
	}
	_, err := w.DeleteRows(t.Context(), store.OldEvents, rows) // an expunge; as many rows are left, of another account
	w.ok(err)
	w.archiveAll(a)
	if n := w.forget(store.OldEvents); n != 5 {
		t.Errorf("%d events were deleted, want 5", n)
	}
	if found, _ := w.search(a, archive.Query{Account: w.accounts[1].Account}); len(found) != 5*5 {
		t.Errorf("%d records of the other account are archived, want all 25", len(found))
	}
	w.verifyAll(a, target)
}

func TestRowsOfADayThatIsArchivedStayWithIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deliver(0, 5)
	a := w.open(archive.Folder(t.TempDir()), archive.Options{})
	w.archiveAll(a)
	parts := len(w.parts())
	going, left, err := a.ArchiveRows(t.Context(), store.OldEvents, w.old(0, store.OldEvents))
	if err != nil || len(going) != 0 || len(left) != 0 || len(w.parts()) != parts {
		t.Errorf("archive rows = %d to delete, %d left, %v, with %d more parts; want that nothing is to be done",
			len(going), len(left), err, len(w.parts())-parts)
	}
}

func TestWhileAnotherNodeArchivesAllRowsAreLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deliver(0, 5)
	leased, err := w.LeaseArchive(t.Context(), 1, time.Hour)
	w.ok(err)
	rows := w.old(0, store.OldEvents)
	going, left, err := w.open(archive.Folder(t.TempDir()), archive.Options{}).ArchiveRows(t.Context(), store.OldEvents, rows)
	if err != nil || !leased || len(going) != 0 || len(left) != len(rows) {
		t.Errorf("archive rows = %d to delete, %d left, %v; want all %d left", len(going), len(left), err, len(rows))
	}
}
