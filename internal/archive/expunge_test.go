package archive_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// newExpunge returns one of the first account's event or endpoint.
func (w *world) newExpunge(event postrider.EventID, endpoint postrider.EndpointID) postrider.Expunge {
	id := store.NewID[postrider.ExpungeID](w.ids)
	return postrider.Expunge{ID: id, Event: event, Endpoint: endpoint, Account: w.accounts[0].Account, By: "Olga", CreatedAt: id.Time()}
}

// expunge removes what is stored, as if nothing had been under way for long, and returns the
// expunge when it has come to the archive.
func (w *world) expunge(e postrider.Expunge) postrider.Expunge {
	w.Helper()
	if !e.Endpoint.IsZero() {
		endpoint := w.accounts[0]
		endpoint.Status = postrider.EndpointDeleted
		_, err := w.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: endpoint})
		w.ok(err)
	}
	w.ok(w.PutExpunge(w.Context(), e))
	for !e.InArchive() {
		var err error
		e, err = w.ExpungeRows(w.Context(), store.ExpungeRows{ID: e.ID, Limit: 100})
		w.ok(err)
	}
	return e
}

// inArchive removes what is archived, and returns what is stored of the expunge then.
func (w *world) inArchive(a *archive.Archive, e postrider.Expunge) postrider.Expunge {
	w.Helper()
	for e.InArchive() {
		did, err := a.Expunge(w.Context(), e)
		w.ok(err)
		if did == e {
			w.Fatalf("nothing was done for %+v", e)
		}
		e = did
	}
	return w.stored(e.ID)
}

func (w *world) stored(id postrider.ExpungeID) postrider.Expunge {
	w.Helper()
	page, err := w.Expunges(w.Context(), store.ExpungeQuery{ID: id})
	w.ok(err)
	return page.Items[0]
}

// verifyAll verifies every part, and that the archive has nothing else. It returns the number of
// records.
func (w *world) verifyAll(a *archive.Archive, target archive.Target) (records int64) {
	w.Helper()
	parts := w.parts()
	objects := 0
	for _, kind := range kinds {
		names, err := target.List(w.Context(), fmt.Sprintf("v1/%s/%s/", kind, time.Now().UTC().Format(time.DateOnly)))
		w.ok(err)
		objects += len(names)
	}
	if objects != 2*len(parts) {
		w.Errorf("there are %d objects and manifests for %d parts", objects, len(parts))
	}
	return w.verifyParts(a)
}

// verifyParts verifies every part, and returns the number of records.
func (w *world) verifyParts(a *archive.Archive) (records int64) {
	w.Helper()
	for _, p := range w.parts() {
		v, err := a.Verify(w.Context(), p)
		if err != nil || v.Rows != p.Rows {
			w.Errorf("verify %s: %+v, %v, want %d rows", p.Object, v, err, p.Rows)
		}
		records += v.Rows
	}
	return records
}

func TestExpungeRemovesWhatIsArchived(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		endpoint bool
		deleted  bool // from the store, before
	}{
		{"an event", false, false},
		{"an event that the store has deleted", false, true},
		{"an endpoint", true, false},
		{"an endpoint whose attempts were deleted", true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			stores(t, func(t *testing.T, open func(*testing.T) store.Store) {
				targets(t, func(t *testing.T, target archive.Target) {
					w := newWorldOver(t, open(t))
					w.deliver(0, 20)
					w.deliver(1, 5)
					a := w.open(target, archive.Options{PartBytes: 4 << 10})
					w.archiveAll(a)
					if test.deleted {
						w.forgetAll()
					}
					e := w.newExpunge(w.events[0][7], postrider.EndpointID{})
					if test.endpoint {
						e = w.newExpunge(postrider.EventID{}, w.accounts[0].ID)
					}
					w.expungesAll(a, target, e)
				})
			})
		})
	}
}

// expungesAll expunges, and fails the test unless all records of the expunge are removed and no
// others, and the rest of the store can be deleted.
func (w *world) expungesAll(a *archive.Archive, target archive.Target, e postrider.Expunge) {
	w.Helper()
	before, _ := w.search(a, archive.Query{})
	selected, _ := w.search(a, archive.Query{Event: e.Event, Endpoint: e.Endpoint})
	removed := len(selected)
	e = w.inArchive(a, w.expunge(e))
	if removed < 4 || e.Removed.Archived != removed || !e.Archive.Done || e.Archive.Held {
		w.Errorf("%d records were removed, want %d: %+v", e.Removed.Archived, removed, e.Archive)
	}
	if found, _ := w.search(a, archive.Query{Event: e.Event, Endpoint: e.Endpoint}); len(found) != 0 {
		w.Errorf("%d records are found", len(found))
	}
	found, _ := w.search(a, archive.Query{})
	if n := w.verifyAll(a, target); n != int64(len(before)-removed) || len(found) != int(n) {
		w.Errorf("%d records are left, and %d found, want %d", n, len(found), len(before)-removed)
	}
	w.forgetAll()
	for _, kind := range kinds {
		day, err := w.ArchiveDay(w.Context(), kind, later())
		w.ok(err)
		if !day.Day.IsZero() || w.rows(kind) != 0 {
			w.Errorf("%s: %+v is to archive, and %d rows are stored; want none", kind, day, w.rows(kind))
		}
	}
}

// stores are those that one process uses; storetest has the sentences for all.
func stores(t *testing.T, run func(*testing.T, func(*testing.T) store.Store)) {
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		run(t, func(*testing.T) store.Store { return memory.New(memory.Options{}) })
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		run(t, func(t *testing.T) store.Store {
			t.Helper()
			s, err := sqlite.Open(t.Context(), t.TempDir(), sqlite.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			})
			return s
		})
	})
}

// forgetAll deletes from the store all that is archived.
func (w *world) forgetAll() {
	w.Helper()
	for _, kind := range kinds {
		for w.forget(kind) > 0 {
		}
	}
}

// mortal is a node that dies at an operation: a target and a store that fail from then on.
type mortal struct {
	archive.Target
	store.Store

	left int // operations until it dies
}

func (m *mortal) lives() error {
	if m.left--; m.left < 0 {
		return errDied
	}
	return nil
}

func (m *mortal) Write(ctx context.Context, name string, content []byte) error {
	if err := m.lives(); err != nil {
		return err
	}
	return errors.Join(m.Target.Write(ctx, name, content), m.lives())
}

func (m *mortal) Delete(ctx context.Context, name string) error {
	if err := m.lives(); err != nil {
		return err
	}
	return m.Target.Delete(ctx, name)
}

// ReplaceArchivePart dies before it, or when it is done and nobody has heard of it.
func (m *mortal) ReplaceArchivePart(ctx context.Context, r store.ReplaceArchivePart) error {
	if err := m.lives(); err != nil {
		return err
	}
	return errors.Join(m.Store.ReplaceArchivePart(ctx, r), m.lives())
}

func (m *mortal) NoteExpunge(ctx context.Context, e postrider.Expunge) error {
	if err := m.lives(); err != nil {
		return err
	}
	return m.Store.NoteExpunge(ctx, e)
}

func TestAnExpungeGoesOnWhereANodeDied(t *testing.T) {
	t.Parallel()
	targets(t, func(t *testing.T, _ archive.Target) {
		isFolder := strings.HasSuffix(t.Name(), "folder")
		for died, n := true, 0; died; n++ {
			target := archive.Target(archive.Folder(t.TempDir()))
			if !isFolder {
				target = bucket(t, plain)
			}
			w := newWorld(t)
			w.deliver(0, 3)
			w.deliver(1, 3)
			m := &mortal{target, w.Store, 1000}
			dying := archive.New(m, of(m), w.vault, archive.Options{})
			w.archiveAll(dying)
			e := w.expunge(w.newExpunge(w.events[0][1], postrider.EndpointID{}))
			m.left = n
			_, err := dying.Expunge(t.Context(), e)
			if died = errors.Is(err, errDied); !died {
				w.ok(err)
			}
			m.left = 1000
			w.verifyParts(dying) // the old or the new object is recorded, and whole
			e = w.inArchive(dying, w.stored(e.ID))
			if records := w.verifyAll(dying, target); records != 25 || e.Removed.Archived != 5 {
				t.Errorf("died at operation %d: %d records are left, and %d were removed, want 25 and 5", n, records, e.Removed.Archived)
			}
			if found, _ := w.search(dying, archive.Query{Event: e.Event}); len(found) != 0 {
				t.Errorf("died at operation %d: %d records are found", n, len(found))
			}
			if n > 100 || !died && n < 20 { // three parts, each with two objects, a record and two deletions
				t.Fatalf("the last death was at operation %d", n-1)
			}
		}
	})
}

func TestAnExpungeGoesOnWhenTheArchiveIsBack(t *testing.T) {
	t.Parallel()
	refuses := func(methods ...string) func(http.Handler, http.ResponseWriter, *http.Request) {
		return func(next http.Handler, w http.ResponseWriter, r *http.Request) {
			if slices.Contains(methods, r.Method) {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			next.ServeHTTP(w, r)
		}
	}
	for name, with := range map[string]func(http.Handler, http.ResponseWriter, *http.Request){
		"is away":               refuses(http.MethodGet, http.MethodPut, http.MethodDelete),
		"refuses writes":        refuses(http.MethodPut),
		"refuses to delete":     refuses(http.MethodDelete),
		"hangs":                 func(_ http.Handler, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"cuts what it sends":    change(func(b []byte) []byte { return b[:len(b)/2] }),
		"changes what it keeps": change(func(b []byte) []byte { b[len(b)/2] ^= 1; return b }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.deliver(0, 3)
			w.deliver(1, 3)
			var f front
			target := bucket(t, f.wrap)
			a := w.open(target, archive.Options{PartTime: 500 * time.Millisecond})
			w.archiveAll(a)
			e := w.expunge(w.newExpunge(w.events[0][1], postrider.EndpointID{}))
			f.set(with)
			begun := time.Now()
			if _, err := a.Expunge(t.Context(), e); err == nil {
				t.Error("there was no error")
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it took %s, want about 500 ms at most", took)
			}
			f.set(nil)
			w.verifyParts(a)
			e = w.inArchive(a, w.stored(e.ID))
			if records := w.verifyAll(a, target); records != 25 || e.Removed.Archived != 5 {
				t.Errorf("%d records are left, and %d were removed, want 25 and 5", records, e.Removed.Archived)
			}
		})
	}
}

// TestARestoredStoreExpungesTheArchiveAgain has a store that knows the objects from before an
// expunge, as a backup does.
func TestARestoredStoreExpungesTheArchiveAgain(t *testing.T) {
	t.Parallel()
	targets(t, func(t *testing.T, target archive.Target) {
		w := newWorld(t)
		w.deliver(0, 3)
		w.deliver(1, 3)
		a := w.open(target, archive.Options{})
		w.archiveAll(a)
		backup := w.parts()
		e := w.expunge(w.newExpunge(w.events[0][1], postrider.EndpointID{}))
		again := e
		w.inArchive(a, e)

		old := w.Store
		w.Store = memory.New(memory.Options{})
		for _, p := range backup {
			w.record(p)
		}
		for _, e := range w.accounts {
			key, err := old.ArchiveKey(t.Context(), e.Account)
			w.ok(err)
			_, err = w.PutArchiveKey(t.Context(), e.Account, key)
			w.ok(err)
		}
		restored := w.open(target, archive.Options{})
		again.Archive = postrider.ExpungeArchive{}
		again = w.inArchive(restored, w.expunge(again))
		if records := w.verifyAll(restored, target); records != 25 || again.Archive.Held {
			t.Errorf("%d records are left, want 25: %+v", records, again.Archive)
		}
		if found, _ := w.search(restored, archive.Query{Event: e.Event}); len(found) != 0 {
			t.Errorf("%d records are found", len(found))
		}
	})
}

func TestAPartThatADyingNodeLeftIsExpungedToo(t *testing.T) {
	t.Parallel()
	targets(t, func(t *testing.T, target archive.Target) {
		w := newWorld(t)
		w.deliver(0, 10)
		dying := archive.New(target, of(&forgetful{w.Store, 1}), w.vault, archive.Options{})
		if err := all(t.Context(), dying, store.OldEvents); !errors.Is(err, errDied) {
			t.Fatalf("archive = %v, want that the node died", err)
		}
		folder := "v1/events/" + time.Now().UTC().Format(time.DateOnly) + "/"
		w.ok(target.Write(t.Context(), folder+"0001-00000000.bin", []byte("it died in the middle")))
		w.inArchive(dying, w.expunge(w.newExpunge(w.events[0][3], postrider.EndpointID{})))
		if left, err := target.List(t.Context(), folder); err != nil || len(left) > 0 {
			t.Errorf("the objects are %v (%v), want that they are deleted, because nothing is recorded", left, err)
		}
		w.ok(all(t.Context(), dying, store.OldEvents))
		if n := w.verifyAll(dying, target); n != 9 || len(w.parts()) != 1 {
			t.Errorf("there are %d records in %d parts, want 9 in one", n, len(w.parts()))
		}
	})
}

func TestObjectsThatAreNotThereAreSaidToBeHeld(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deliver(0, 3)
	folder := t.TempDir()
	a := w.open(archive.Folder(folder), archive.Options{})
	w.archiveAll(a)
	part := w.parts()[0]
	w.ok(os.Rename(filepath.Join(folder, part.Object), filepath.Join(folder, "moved")))
	e := w.inArchive(a, w.expunge(w.newExpunge(w.events[0][1], postrider.EndpointID{})))
	if !e.Archive.Done || !e.Archive.Held || e.Removed.Archived != 3 {
		t.Errorf("the expunge is %+v, want that it is done, with %s held", e, part.Object)
	}
	w.ok(os.Rename(filepath.Join(folder, "moved"), filepath.Join(folder, part.Object)))
	again := w.inArchive(a, w.expunge(w.newExpunge(e.Event, postrider.EndpointID{})))
	if again.Archive.Held || again.Removed.Archived != 2 {
		t.Errorf("when the object is back, the expunge is %+v, want 2 records removed", again)
	}
}

func TestAnExpungeWaitsWhileAnotherNodeArchives(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deliver(0, 10)
	target := archive.Folder(t.TempDir())
	archiver, other := w.open(target, archive.Options{}), w.open(target, archive.Options{})
	w.archiveAll(archiver)
	e := w.expunge(w.newExpunge(w.events[0][1], postrider.EndpointID{}))
	if did, err := other.Expunge(t.Context(), e); err != nil || did != e {
		t.Errorf("expunge = %+v, %v, want that nothing is done", did, err)
	}
	if e = w.inArchive(archiver, e); e.Removed.Archived != 5 {
		t.Errorf("%d records were removed, want 5", e.Removed.Archived)
	}
}

func TestTheAccountOfAnArchivedEventIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.deliver(0, 3)
	w.deliver(1, 3)
	a := w.open(archive.Folder(t.TempDir()), archive.Options{})
	w.archiveAll(a)
	for i, e := range w.accounts {
		if account, err := a.AccountOf(t.Context(), w.events[i][2]); err != nil || account != e.Account {
			t.Errorf("the account is %s, %v, want %s", account, err, e.Account)
		}
	}
	if _, err := a.AccountOf(t.Context(), store.NewID[postrider.EventID](w.ids)); !errors.Is(err, postrider.ErrNotFound) {
		t.Errorf("the account of an unknown event: %v", err)
	}
}
