package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/testkit"
)

// archiving returns the state of the archiving of the server's log.
func archiving(t *testing.T, s *postgres.Store) postgres.LogArchive {
	t.Helper()
	l, err := s.LogArchive(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestTheArchiveOfTheLogIsWatched uses a server whose archive folder is missing at first.
func TestTheArchiveOfTheLogIsWatched(t *testing.T) {
	t.Parallel()
	cluster := throwaway(t, "archive_mode=on", "wal_level=replica", "archive_command='test -d ../archive && cp %p ../archive/%f'")
	dsn, err := cluster.Database(t.Context(), "archiving", func(context.Context, string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	endFile := func() { // a file of the log that has a record counts as full, and is archived
		t.Helper()
		for _, statement := range []string{"select pg_logical_emit_message(true, 'postrider', 'a record')", "select pg_switch_wal()"} {
			if err := cluster.Run(t.Context(), cluster.Bin("psql"), cluster.DSN("postgres"), "-qc", statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	if l := archiving(t, s); !l.Enabled {
		t.Errorf("at first: %+v", l)
	}
	endFile()
	testkit.Eventually(t, "the archive fails", func() bool {
		l := archiving(t, s)
		return l.Enabled && l.Failing && l.ArchivedAt.IsZero()
	})
	begun := time.Now().Add(-time.Second)
	if err := cluster.Run(t.Context(), "/bin/mkdir", "archive"); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the log is archived", func() bool {
		endFile() // makes the server try again at once
		l := archiving(t, s)
		return !l.Failing && l.ArchivedAt.After(begun)
	})
}

func TestWithoutAnArchiveOfTheLogThereIsNothingToWatch(t *testing.T) {
	t.Parallel()
	s, err := postgres.Open(t.Context(), testkit.Postgres(t, postgres.Migrate), postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if l := archiving(t, s); l != (postgres.LogArchive{}) {
		t.Errorf("LogArchive = %+v, want nothing", l)
	}
}
