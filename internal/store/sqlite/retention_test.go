package sqlite_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
)

func TestTheFileShrinksWhenMostOfItIsFree(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids := store.NewIDs(s.Clock().Wall, nil)
	account := store.NewID[postrider.AccountID](ids)
	for range 20 {
		var batch store.Batch
		for range 100 {
			batch = append(batch, store.NewEvent{Event: postrider.Event{
				ID: store.NewID[postrider.EventID](ids), Account: account, Type: "order.created", Data: make([]byte, 2000),
			}})
		}
		if _, err := s.Publish(t.Context(), store.Publish{Batches: []store.Batch{batch}}); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.Shrink(t.Context(), 100); n != 0 || err != nil {
		t.Errorf("Shrink = %d (%v) with nothing free, want 0", n, err)
	}
	now, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n, err := s.DeleteOld(t.Context(), store.DeleteOld{Kind: store.OldEvents, Before: now.AddDate(0, 0, 1), Limit: 5000})
	if n != 2000 || err != nil {
		t.Fatalf("DeleteOld = %d (%v), want 2000", n, err)
	}
	freed := 0
	for n := 1; n > 0; {
		if n, err = s.Shrink(t.Context(), 100); err != nil || n > 100 {
			t.Fatalf("Shrink = %d (%v), want at most 100", n, err)
		}
		freed += n
	}
	if freed < 800 {
		t.Errorf("%d pages were given back, want nearly all of 2,000 rows of half a page", freed)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var bytes int64
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if found, err := os.Stat(file); err == nil {
			bytes += found.Size()
		}
	}
	if bytes > 1<<20 {
		t.Errorf("the folder has %d bytes, want less than 1 MiB of what was 5 MB", bytes)
	}
	open(t, dir, sqlite.Options{})
}
