package postgres_test

import (
	"testing"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// open returns an empty store, which is closed when the test ends.
func open(t *testing.T) store.Store { return openAt(t, freshDSN(t)) }

func freshDSN(tb testing.TB) string {
	tb.Helper()
	return testkit.Postgres(tb, postgres.Migrate)
}

func openAt(tb testing.TB, dsn string) *postgres.Store {
	tb.Helper()
	return openWith(tb, dsn, postgres.Options{})
}

func openWith(tb testing.TB, dsn string, opts postgres.Options) *postgres.Store {
	tb.Helper()
	s, err := postgres.Open(tb.Context(), dsn, opts)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}
