package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
)

func TestBulkJobsWaitForOthersButNotForever(t *testing.T) {
	t.Parallel()
	w := &writer{waiting: batch.NewQueue[*job]()}
	names := map[*job]string{}
	add := func(all string) {
		for name := range strings.FieldsSeq(all) {
			j := &job{bulk: strings.HasPrefix(name, "bulk")}
			names[j] = name
			w.waiting.Add(j)
		}
	}
	next := func(want string) {
		t.Helper()
		var got []string
		for _, j := range w.next() {
			got = append(got, names[j])
		}
		if got := strings.Join(got, " "); got != want {
			t.Fatalf("the next transaction has %q, want %q", got, want)
		}
	}
	add("bulk1 a bulk2 b")
	next("a b")
	next("bulk1")
	add("c")
	next("c")
	next("bulk2")
	next("")

	add("bulk3 bulk4")
	for range maxPassed {
		add("d")
		next("d")
	}
	add("e bulk5")
	next("bulk3")
	for range maxPassed {
		next("e")
		add("e")
	}
	next("bulk4")
	next("e")
	next("bulk5")
	next("")
}

// TestTheLogIsWrittenBackBesideTheWriter measures the size of the file. Until a checkpoint,
// committed changes are only in the log.
func TestTheLogIsWrittenBackBesideTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, err := Open(t.Context(), dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		size := func() int64 {
			file, err := os.Stat(filepath.Join(dir, "postrider.db"))
			if err != nil {
				t.Fatal(err)
			}
			return file.Size()
		}
		time.Sleep(2 * checkpointEvery) // until what Open wrote has been written back
		before := size()
		name := strings.Repeat("x", 100*pageSize)
		if err := s.PutAccount(t.Context(), postrider.Account{ID: postrider.AccountID{1}, Name: name}); err != nil {
			t.Fatal(err)
		}
		if got := size(); got != before {
			t.Errorf("the commit made the file grow from %d to %d bytes, so it waited for a checkpoint", before, got)
		}
		time.Sleep(2 * checkpointEvery)
		synctest.Wait()
		if got := size(); got < before+100*pageSize {
			t.Errorf("the file grew from %d to %d bytes, want the account in it", before, got)
		}
	})
}
