package sqlite_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlite"
	"github.com/postrider/postrider/internal/store/storetest"
)

func TestContract(t *testing.T) { storetest.Run(t, empty) }

func TestModel(t *testing.T) { storetest.Model(t, empty) }

func empty(t *testing.T) store.Store { return open(t, t.TempDir(), sqlite.Options{}) }

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

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
