package sqlite_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
)

func anyValue([]byte) error { return nil }

// TestABackupIsOneStateOfAStoreInUse backs up a store several times, while events with two
// deliveries each are published and some of the deliveries end. Each copy must have everything
// that was acknowledged before it began, and no part of an unfinished commit.
func TestABackupIsOneStateOfAStoreInUse(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	r := newRig(t, dir, sqlite.Options{})
	t.Cleanup(func() { r.ok(r.Close()) })
	r.publish(200, 60_000) // more than one step of the copy
	ctx, stop := context.WithCancel(t.Context())
	var publishing sync.WaitGroup
	var failed error
	publishing.Go(func() {
		for ctx.Err() == nil {
			p, settlements := r.batch(10, 20_000)
			_, err := r.Publish(t.Context(), p)
			if err == nil {
				_, err = r.Settle(t.Context(), settlements[:5])
			}
			failed = errors.Join(failed, err)
		}
	})
	acknowledged := 200
	for _, name := range []string{"a.db", "b.db", "c.db"} {
		b, err := sqlite.Copy(t.Context(), dir, filepath.Join(out, name), anyValue)
		if err != nil {
			t.Fatal(err)
		}
		if b.Events < acknowledged || (b.Events-200)%10 != 0 {
			t.Errorf("%s has %d events, want whole publishes and at least %d", name, b.Events, acknowledged)
		}
		if ended := b.Events - b.Pending; ended > (b.Events-200)/2 || ended%5 != 0 {
			t.Errorf("%s has %d events and %d pending deliveries: %d have ended", name, b.Events, b.Pending, ended)
		}
		if !b.Hold.Held() || b.Hold.Reason != postrider.HoldRestored {
			t.Errorf("%s has the hold %+v, want that it is held", name, b.Hold)
		}
		acknowledged = b.Events
	}
	stop()
	publishing.Wait()
	if failed != nil {
		t.Error(failed)
	}
	entries, err := os.ReadDir(out)
	if err != nil || len(entries) != 6 { // each backup has its checksum beside it
		t.Errorf("%d files are left of three backups: %v, %v", len(entries), entries, err)
	}
	if h, err := r.Held(t.Context()); err != nil || h.Held() {
		t.Errorf("the store itself has the hold %+v, %v", h, err)
	}
}

// publish stores n events, each with one delivery that stays pending.
func (r *rig) publish(n, size int) {
	r.Helper()
	p, _ := r.batch(n, size)
	_, err := r.Publish(r.Context(), p)
	r.ok(err)
}

// backedUp returns a backup of a store with 20 pending deliveries.
func backedUp(t *testing.T) sqlite.Backup {
	t.Helper()
	dir := t.TempDir()
	r := newRig(t, dir, sqlite.Options{})
	t.Cleanup(func() { r.ok(r.Close()) })
	r.publish(20, 1000)
	b, err := sqlite.Copy(t.Context(), dir, filepath.Join(t.TempDir(), "backup.db"), anyValue)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestARestoredStoreIsHeld restores a backup, and opens the store.
func TestARestoredStoreIsHeld(t *testing.T) {
	t.Parallel()
	from, dir := backedUp(t), filepath.Join(t.TempDir(), "new")
	restored, err := sqlite.Restore(t.Context(), from, dir)
	if err != nil {
		t.Fatal(err)
	}
	if restored.Events != 20 || restored.Pending != 20 || !restored.Hold.Since.Equal(from.Hold.Since) {
		t.Errorf("restored = %+v, want what the backup has: %+v", restored, from)
	}
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if h, err := s.Held(t.Context()); err != nil || h.Reason != postrider.HoldRestored {
		t.Errorf("Held = %+v, %v, want restored", h, err)
	}
	if work, err := s.HeldWork(t.Context()); err != nil || work != (store.HeldWork{Deliveries: 20}) {
		t.Errorf("HeldWork = %+v, %v, want 20 deliveries", work, err)
	}
}

// TestABackupThatIsPutIntoPlaceByHandIsHeld copies the backup's file into a data directory.
func TestABackupThatIsPutIntoPlaceByHandIsHeld(t *testing.T) {
	t.Parallel()
	from, dir := backedUp(t), t.TempDir()
	text, err := os.ReadFile(from.File)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "postrider.db"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if h, err := s.Held(t.Context()); err != nil || !h.Held() {
		t.Errorf("Held = %+v, %v, want held", h, err)
	}
}

// TestBadBackupsAreRefused damages a backup in several ways.
func TestBadBackupsAreRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		bend func(t *testing.T, file string)
		says string
	}{
		"cut": {func(t *testing.T, file string) {
			t.Helper()
			if err := os.Truncate(file, 40_000); err != nil {
				t.Fatal(err)
			}
		}, "malformed"},
		"damaged": {func(t *testing.T, file string) {
			t.Helper()
			f, err := os.OpenFile(file, os.O_RDWR, 0)
			if err == nil {
				_, err = f.WriteAt([]byte(strings.Repeat("x", 4096)), 4096*int64(rootOf(t, file, "events")-1))
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
		}, "damaged"},
		"newer": {func(t *testing.T, file string) {
			t.Helper()
			change(t, file, `insert into postrider_migrations (version_id, is_applied) values (9999, 1)`)
		}, "version 9999, and this program knows"},
		"another program's": {func(t *testing.T, file string) {
			t.Helper()
			change(t, file, `drop table postrider_migrations`)
		}, "is not a backup of Postrider"},
		"no database": {func(t *testing.T, file string) {
			t.Helper()
			if err := os.WriteFile(file, []byte("This is a text, and longer than a header of SQLite would be. "), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is not a backup of Postrider"},
		"gone": {func(t *testing.T, file string) {
			t.Helper()
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := backedUp(t)
			tt.bend(t, b.File)
			if _, err := sqlite.Verify(t.Context(), b.File, anyValue); err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Verify = %v, want an error that says %q", err, tt.says)
			}
			dir := filepath.Join(t.TempDir(), "new")
			if _, err := sqlite.Restore(t.Context(), b, dir); err == nil {
				t.Error("it was restored")
			}
			if _, err := os.Stat(filepath.Join(dir, "postrider.db")); err == nil {
				t.Error("a store was left")
			}
		})
	}
}

// TestADatabaseWithItsLogIsNoBackup verifies the file of a server. A backup of that file alone
// would lack the log beside it.
func TestADatabaseWithItsLogIsNoBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	r := newRig(t, dir, sqlite.Options{})
	t.Cleanup(func() { r.ok(r.Close()) })
	_, err := sqlite.Verify(t.Context(), filepath.Join(dir, "postrider.db"), anyValue)
	if err == nil || !strings.Contains(err.Error(), "is the database of a server and not a backup") {
		t.Errorf("Verify = %v, want that it is no backup", err)
	}
}

// change changes a database file.
func change(t *testing.T, file, statement string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Rename(file, filepath.Join(dir, "postrider.db")); err != nil {
		t.Fatal(err)
	}
	if _, err := raw(t, dir).ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "postrider.db"), file); err != nil {
		t.Fatal(err)
	}
}

// rootOf returns the number of the first page of a table.
func rootOf(t *testing.T, file, table string) (page int) {
	t.Helper()
	dir := t.TempDir()
	if err := os.Symlink(file, filepath.Join(dir, "postrider.db")); err != nil {
		t.Fatal(err)
	}
	if err := raw(t, dir).QueryRowContext(t.Context(), `select rootpage from sqlite_schema where name = ?`, table).Scan(&page); err != nil {
		t.Fatal(err)
	}
	return page
}

// TestAFolderInUseOrWithFilesIsLeftAlone restores into folders that are in use or have files.
func TestAFolderInUseOrWithFilesIsLeftAlone(t *testing.T) {
	t.Parallel()
	from := backedUp(t)
	used := t.TempDir()
	r := newRig(t, used, sqlite.Options{})
	t.Cleanup(func() { r.ok(r.Close()) })
	if _, err := sqlite.Restore(t.Context(), from, used); !errors.Is(err, sqlite.ErrInUse) {
		t.Errorf("Restore into a folder with a server = %v, want ErrInUse", err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "notes.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Restore(t.Context(), from, other); err == nil || !strings.Contains(err.Error(), "is not empty, it has notes.txt") {
		t.Errorf("Restore into a folder with a file = %v", err)
	}
	entries, err := os.ReadDir(other)
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v, want its one file", entries, err)
	}
}

// TestABackupThatIsInterruptedLeavesNothing cancels the context of a copy.
func TestABackupThatIsInterruptedLeavesNothing(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	r := newRig(t, dir, sqlite.Options{})
	t.Cleanup(func() { r.ok(r.Close()) })
	r.publish(500, 60_000)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlite.Copy(ctx, dir, filepath.Join(out, "backup.db"), anyValue); !errors.Is(err, context.Canceled) {
		t.Errorf("Copy = %v, want that it was cancelled", err)
	}
	if entries, err := os.ReadDir(out); err != nil || len(entries) != 0 {
		t.Errorf("%v is left, %v", entries, err)
	}
}

func TestAByteThatChangedIsFound(t *testing.T) {
	t.Parallel()
	b := backedUp(t)
	if with, err := b.CheckSum(""); err != nil || with != b.File+".sha256" {
		t.Errorf("the backup as it was made: compared with %q, %v", with, err)
	}
	if _, err := b.CheckSum(strings.ToUpper(b.SHA256)); err != nil {
		t.Errorf("with its own checksum: %v", err)
	}
	content, err := os.ReadFile(b.File)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.LastIndex(content, make([]byte, 500)) // inside a payload of 1,000 zeros
	content[at] = 1
	if err := os.WriteFile(b.File, content, 0o600); err != nil {
		t.Fatal(err)
	}
	changed, err := sqlite.Verify(t.Context(), b.File, anyValue)
	if err != nil {
		t.Fatalf("SQLite finds the byte by itself: %v", err)
	}
	for _, given := range []string{"", b.SHA256} {
		if _, err := changed.CheckSum(given); err == nil || !strings.Contains(err.Error(), "bytes have changed") {
			t.Errorf("with a changed byte, given %q: %v", given, err)
		}
	}
	if err := os.Remove(b.File + ".sha256"); err != nil {
		t.Fatal(err)
	}
	if with, err := changed.CheckSum(""); with != "" || err != nil {
		t.Errorf("without a checksum: compared with %q, %v", with, err)
	}
}
