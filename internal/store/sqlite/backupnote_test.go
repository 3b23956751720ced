package sqlite_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/store/sqlite"
)

// last returns the note about the last backups of a store.
func last(t *testing.T, dir string) sqlite.LastBackup {
	t.Helper()
	l, err := sqlite.ReadLastBackup(dir)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestTheEndOfEachBackupIsNoted(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	r := newRig(t, dir, sqlite.Options{})
	t.Cleanup(func() { r.ok(r.Close()) })
	if l := last(t, dir); l != (sqlite.LastBackup{}) || l.Failing() {
		t.Errorf("before the first backup: %+v", l)
	}
	begun := time.Now()
	b, err := sqlite.Copy(t.Context(), dir, filepath.Join(out, "a.db"), anyValue)
	if err != nil || b.Unnoted != nil {
		t.Fatal(err, b.Unnoted)
	}
	made := last(t, dir)
	if made.SucceededAt.Before(begun) || made.SucceededAt.After(time.Now()) || made.Bytes != b.Bytes || made.SHA256 != b.SHA256 ||
		made.Failing() {
		t.Errorf("after the backup %+v: %+v", b, made)
	}
	if info, err := os.Stat(filepath.Join(dir, "postrider.backup")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}

	if _, err := sqlite.Copy(t.Context(), dir, filepath.Join(out, "a.db"), anyValue); err == nil {
		t.Fatal("a backup has replaced another one")
	}
	failed := last(t, dir)
	if !failed.Failing() || !strings.Contains(failed.Error, "a.db exists already") || !failed.SucceededAt.Equal(made.SucceededAt) ||
		failed.SHA256 != made.SHA256 {
		t.Errorf("after one that failed: %+v", failed)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := sqlite.Copy(ended, dir, filepath.Join(out, "b.db"), anyValue); err == nil {
		t.Fatal("a backup was made after its context had ended")
	}
	if l := last(t, dir); !l.Failing() || !strings.Contains(l.Error, "canceled") {
		t.Errorf("after one that was cut: %+v", l)
	}
	if _, err := sqlite.Copy(t.Context(), dir, filepath.Join(out, "c.db"), anyValue); err != nil {
		t.Fatal(err)
	}
	if l := last(t, dir); l.Failing() || !l.SucceededAt.After(made.SucceededAt) {
		t.Errorf("after another backup: %+v", l)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".postrider-*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}

func TestABackupThatCannotBeNotedIsMade(t *testing.T) {
	t.Parallel()
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "a.db")
	r := newRig(t, dir, sqlite.Options{})
	t.Cleanup(func() { r.ok(r.Close()) })
	note := filepath.Join(dir, "postrider.backup")
	if err := os.MkdirAll(filepath.Join(note, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	b, err := sqlite.Copy(t.Context(), dir, file, anyValue)
	if err != nil || b.Unnoted == nil {
		t.Errorf("Copy = %+v, %v, want a backup that is not noted", b, err)
	}
	if _, err := sqlite.Verify(t.Context(), file, anyValue); err != nil {
		t.Error(err)
	}
	if _, err := sqlite.ReadLastBackup(dir); err == nil {
		t.Error("a folder is read as a file")
	}
	if err := os.RemoveAll(note); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(note, []byte("{half of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.ReadLastBackup(dir); err == nil {
		t.Error("half of a file is read")
	}
	if b, err = sqlite.Copy(t.Context(), dir, file+".2", anyValue); err != nil || b.Unnoted != nil || last(t, dir).SHA256 != b.SHA256 {
		t.Errorf("Copy = %+v, %v, want that it replaces the damaged file", b, err)
	}
}
