package sqlite_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// contents returns digests of the files of a directory, by name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		digest := sha256.Sum256(text)
		files[e.Name()] = string(digest[:])
	}
	return files
}

// copied copies the directory of an open store: the same files that a power cut leaves.
func copied(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "postrider.db", "postrider.db-wal", "postrider.db-shm", "postrider.lock"} {
		mode := os.FileMode(0o600)
		if name == "" {
			mode = 0o700
		}
		if err := os.Chmod(filepath.Join(to, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	return to
}

// Examine describes a closed store, a store whose process died, and an open store, and changes no
// file.
func TestExamineChangesNoFile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	s := open(t, dir, sqlite.Options{})
	if _, err := s.SwapKeyring(t.Context(), nil, []byte("a key")); err != nil {
		t.Fatal(err)
	}
	killed, halfKilled := copied(t, dir), copied(t, dir)
	if err := os.Remove(filepath.Join(halfKilled, "postrider.db-shm")); err != nil {
		t.Fatal(err)
	}
	writeBack(t, dir)
	type state struct{ InUse, Unclean, Read bool }
	for _, tt := range []struct {
		name, dir string
		close     bool
		want      state
	}{
		{"open", dir, false, state{InUse: true, Read: true}},
		{"killed", killed, false, state{Unclean: true, Read: true}},
		{"killed, without its shared memory", halfKilled, false, state{Unclean: true}},
		{"closed", dir, true, state{Read: true}},
	} {
		if tt.close {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		before := contents(t, tt.dir)
		found := sqlite.Examine(t.Context(), tt.dir)
		if got := (state{found.InUse, found.Unclean, found.Unread == nil}); got != tt.want {
			t.Errorf("%s: %+v (%v), want %+v", tt.name, got, found.Unread, tt.want)
		}
		if tt.want.Read && (found.Tables.Has != found.Tables.Knows || found.Tables.Knows == 0 || found.Endpoints != 0 || !found.Checked ||
			found.Damage != "") {
			t.Errorf("%s: %+v", tt.name, found)
		}
		if found.Journal != "wal" || found.Sync.Longest <= 0 || !found.HasStore || found.Bytes == 0 || len(found.Open) > 0 ||
			found.Mode.Perm() != 0o700 {
			t.Errorf("%s: %+v", tt.name, found)
		}
		if tt.want.Read {
			readKeyring(t, tt.name, tt.dir)
		}
		after := contents(t, tt.dir)
		delete(before, "postrider.db-shm") // a reader beside a server writes into the shared memory
		delete(after, "postrider.db-shm")
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("%s: the files changed:\n%s", tt.name, diff)
		}
	}
}

// writeBack writes the log into the database file. Otherwise the open store does that by itself half a
// second after its last commit, and the file changes while a test looks at it.
func writeBack(t *testing.T, dir string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "postrider.db"))
	if err != nil {
		t.Fatal(err)
	}
	var busy, frames, written int
	err = db.QueryRowContext(t.Context(), "pragma wal_checkpoint(passive)").Scan(&busy, &frames, &written)
	if err != nil || written != frames {
		t.Fatalf("%d of %d pages of the log were written back: %v", written, frames, err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// readKeyring reads the keyring of the store of TestExamineChangesNoFile, which is in the log or
// in the file.
func readKeyring(t *testing.T, name, dir string) {
	t.Helper()
	sealed, err := sqlite.OpenSealed(dir)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sealed.Keyring(t.Context())
	if err != nil || string(key) != "a key" {
		t.Errorf("%s: Keyring = %q, %v", name, key, err)
	}
	values, err := sealed.EncryptedValues(t.Context(), store.EncryptedID{}, 1)
	if err != nil || len(values) != 0 {
		t.Errorf("%s: EncryptedValues = %v, %v", name, values, err)
	}
	if err := sealed.Close(); err != nil {
		t.Error(err)
	}
}

func TestExamineOfAFolderThatDoesNotExistMakesNone(t *testing.T) {
	t.Parallel()
	above := t.TempDir()
	dir := filepath.Join(above, "a", "b")
	found := sqlite.Examine(t.Context(), dir)
	if found.Exists || found.HasStore || found.Disk != above || found.Unusable != nil || found.Sync.Longest <= 0 {
		t.Errorf("Examine = %+v", found)
	}
	if left := contents(t, above); len(left) > 0 {
		t.Errorf("it left %v", left)
	}
	file := filepath.Join(above, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if found := sqlite.Examine(t.Context(), filepath.Join(file, "data")); found.Unusable == nil {
		t.Errorf("Examine below a file = %+v", found)
	}
}

func TestExamineNamesDamageAndOpenFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := open(t, dir, sqlite.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "postrider.db")
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	stat, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	// This damages the second half of the file. Some of its pages have tables, and none has the
	// schema.
	if _, err := file.WriteAt([]byte(strings.Repeat("damaged ", int(stat.Size()/16))), stat.Size()/2/4096*4096); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	found := sqlite.Examine(t.Context(), dir)
	if found.Damage == "" && found.Unread == nil {
		t.Errorf("Examine = %+v, want damage", found)
	}
	if len(found.Open) != 1 || found.Open[0] != path {
		t.Errorf("Open = %v", found.Open)
	}
}

// The id of an event has the time of the machine's clock, which may have been ahead.
func TestExamineSeesThatTheClockWasAhead(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	at := time.Now().Add(time.Hour)
	s := open(t, dir, sqlite.Options{Now: func() time.Time { return at }})
	account := postrider.Account{ID: postrider.AccountID{1}, UID: "acme", CreatedAt: at}
	if err := s.PutAccount(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	event := postrider.Event{
		ID: store.NewID[postrider.EventID](store.NewIDs(func() time.Time { return at }, nil)), Account: account.ID, Type: "a", Data: []byte("{}"),
		CreatedAt: at,
	}
	changes, err := s.Changes(t.Context(), 0, 10)
	if err != nil {
		t.Fatal(err)
	}
	done, err := s.Publish(t.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{{{Event: event}}}})
	if err != nil || len(done) != 1 || len(done[0].Events) != 1 {
		t.Fatalf("Publish = %+v, %v", done, err)
	}
	if ahead := sqlite.Examine(t.Context(), dir).Ahead; ahead < 59*time.Minute || ahead > time.Hour {
		t.Errorf("the newest event is %s in the future, want an hour", ahead)
	}
}

// A check that has no time left stops, and reports that.
func TestTheIntegrityCheckIsBounded(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	if err := open(t, dir, sqlite.Options{}).Close(); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "postrider.db"))
	if err != nil {
		t.Fatal(err)
	}
	const fill = `
		create table filling (bytes blob);
		with recursive n (i) as (select 1 union all select i + 1 from n where i < 60000)
		insert into filling select zeroblob(2000) from n;`
	if _, err := db.ExecContext(t.Context(), fill); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if found := sqlite.Examine(ctx, dir); found.Checked || found.Damage != "" {
		t.Errorf("Examine = %+v, want a check that did not end", found)
	}
}

func TestTheDayOfAQuotaNeverGoesBack(t *testing.T) {
	t.Parallel()
	at := time.Now()
	s := open(t, t.TempDir(), sqlite.Options{Now: func() time.Time { return at }})
	spend := func(bytes int64) int64 {
		states, err := s.SpendQuotas(t.Context(), []store.QuotaSpend{{Account: postrider.AccountID{1}, Burst: 1, Bytes: bytes}})
		if err != nil {
			t.Fatal(err)
		}
		return states[0].Bytes
	}
	at = at.Add(24 * time.Hour)
	spend(100)
	at = at.Add(-24 * time.Hour)
	if n := spend(10); n != 110 {
		t.Errorf("after the clock was set back the day has %d bytes, want 110", n)
	}
	if use, err := s.QuotaUse(t.Context(), postrider.AccountID{1}); err != nil || use.Bytes != 110 {
		t.Errorf("use = %+v, %v, want 110 bytes", use, err)
	}
	at = at.Add(48 * time.Hour)
	if n := spend(1); n != 1 {
		t.Errorf("the next day has %d bytes, want 1", n)
	}
}
