package sqlite_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
	"github.com/postrider/postrider/internal/store/storetest"
	"github.com/postrider/postrider/internal/testkit"
)

func TestContract(t *testing.T) { storetest.Run(t, migrated(t).open) }

func TestDeaths(t *testing.T) {
	file := migrated(t)
	storetest.RunDeaths(t, func(t *testing.T) (store.Store, func() store.Store) {
		dir := file.copy(t)
		opened := open(t, dir, sqlite.Options{})
		return opened, func() store.Store {
			if err := opened.Close(); err != nil {
				t.Fatal(err)
			}
			opened = open(t, dir, sqlite.Options{})
			return opened
		}
	})
}

func TestCalls(t *testing.T) {
	storetest.Calls(t, func(t *testing.T, calls store.Calls) store.Store {
		return open(t, inMemory(t), sqlite.Options{Calls: calls})
	})
}

func TestModel(t *testing.T) { storetest.Model(t, migrated(t).open) }

// database is the file of an empty store. Copying it is much faster than migrating a new one for
// each of hundreds of tests, especially with the race detector.
type database []byte

func migrated(t *testing.T) database {
	t.Helper()
	dir := inMemory(t)
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile(filepath.Join(dir, "postrider.db"))
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// open opens a copy in memory. The contract has no sentence about power cuts, so no contract test
// must wait for a disk.
func (d database) open(t *testing.T) store.Store {
	t.Helper()
	return open(t, d.copy(t), sqlite.Options{})
}

// copy writes a copy into a new directory, and returns the directory.
func (d database) copy(t *testing.T) string {
	t.Helper()
	dir := inMemory(t)
	if err := os.WriteFile(filepath.Join(dir, "postrider.db"), d, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// inMemory returns a directory for the test, in a file system in memory if there is one.
func inMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "postrider-test-")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// open opens the store in dir and closes it when the test ends.
func open(t *testing.T, dir string, opts sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestMain(m *testing.M) {
	if testkit.Raced() {
		// With the race detector, SQLite in Go is ten times slower. The model does not look for races.
		// Without the detector it plays all its histories.
		if err := flag.Set("rapid.checks", "10"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}
