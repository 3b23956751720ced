package archive_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// The events come back as they were published, each once, although a step ends after 5 s, and those of
// others do not.
func TestArchivedEventsAreReadInSteps(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.deliver(0, 40)
		w.deliver(1, 5)
		stored, err := w.Events(t.Context(), store.EventQuery{
			Account: w.accounts[0].Account, Whole: true, Paging: store.Paging{Limit: store.MaxLimit, OldestFirst: true},
		})
		w.ok(err)
		slow := &slowTarget{Target: archive.Folder(t.TempDir())}
		a := w.open(slow, archive.Options{PartBytes: 4 << 10})
		w.archiveAll(a)
		slow.takes = time.Second
		var got []postrider.Event
		steps, parts := 0, 0
		for q := (archive.Query{Account: w.accounts[0].Account, Type: "order.created"}); ; steps++ {
			found, err := a.Events(t.Context(), q, func(e *postrider.Event) { got = append(got, *e) })
			w.ok(err)
			if parts += found.Parts; len(found.Records) > 0 {
				t.Errorf("a step has %d records", len(found.Records))
			}
			if q.Cursor = found.Next; q.Cursor == "" {
				break
			}
		}
		if diff := cmp.Diff(stored.Items, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
		if steps < 2 || parts != len(w.partsOf(store.OldEvents)) {
			t.Errorf("%d steps have read %d parts, want many, and each part once", steps+1, parts)
		}
	})
}

// partsOf returns the parts of a kind.
func (w *world) partsOf(kind store.Kind) []store.ArchivePart {
	w.Helper()
	parts, err := w.ArchiveParts(w.Context(), store.ArchiveParts{Kind: kind, Limit: 1000})
	w.ok(err)
	return parts
}

// slowTarget is an archive that takes its time to read.
type slowTarget struct {
	archive.Target
	takes time.Duration
}

// Read reads an object.
func (s *slowTarget) Read(ctx context.Context, name string) ([]byte, error) {
	select {
	case <-time.After(s.takes):
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	return s.Target.Read(ctx, name)
}

func TestArchivedEventsThatCannotBeRead(t *testing.T) {
	t.Parallel()
	w := newWorldOver(t, memory.New(memory.Options{}))
	w.deliver(0, 3)
	folder := t.TempDir()
	a := w.open(archive.Folder(folder), archive.Options{})
	w.archiveAll(a)
	read := func(ctx context.Context) (n int, expunged int64, err error) {
		found, err := a.Events(ctx, archive.Query{Account: w.accounts[0].Account}, func(*postrider.Event) { n++ })
		return n, found.Expunged, err
	}
	late := errors.New("too late")
	ended, end := context.WithCancelCause(t.Context())
	end(late)
	if n, _, err := read(ended); n > 1 || !errors.Is(err, late) && !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %d events, %v", n, err)
	}
	object := filepath.Join(folder, w.partsOf(store.OldEvents)[0].Object)
	whole, err := os.ReadFile(object)
	w.ok(err)
	w.ok(os.Truncate(object, 10))
	if _, _, err := read(t.Context()); !errors.Is(err, archive.ErrDamaged) {
		t.Errorf("a damaged part: %v", err)
	}
	if _, err := a.Events(t.Context(), archive.Query{Cursor: "x"}, nil); !errors.Is(err, postrider.ErrInvalid) {
		t.Errorf("a cursor that no step gave: %v", err)
	}
	w.ok(os.WriteFile(object, whole, 0o600))
	_, err = w.DeleteArchiveKey(t.Context(), w.accounts[0].Account)
	w.ok(err)
	if n, expunged, err := read(t.Context()); n != 0 || expunged != 3 || err != nil {
		t.Errorf("without the key of the account: %d events, %d expunged, %v, want 0 and 3", n, expunged, err)
	}
}
