package receiver_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/postrider/postrider/internal/testkit"
	"github.com/postrider/postrider/receiver"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// purging is a Store with the method Purge, which both stores of the package have.
type purging interface {
	receiver.Store
	Purge(ctx context.Context, age time.Duration) (int64, error)
}

// openStores are the stores that must keep the contract. Real databases do not work with the
// virtual time of a synctest bubble, so all stores are tested in real time.
var openStores = map[string]func(*testing.T) purging{
	"memory":     func(*testing.T) purging { return receiver.NewMemory(receiver.MemoryOptions{}) },
	"sqlite":     func(t *testing.T) purging { return newSQL(t, openSQLite(t), receiver.SQLite) },
	"postgresql": func(t *testing.T) purging { return newSQL(t, openPostgres(t), receiver.PostgreSQL) },
}

func openSQLite(t *testing.T) *sql.DB {
	t.Helper()
	file := filepath.Join(t.TempDir(), "receiver.db")
	return open(t, "sqlite", "file:"+file+"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_txlock=immediate")
}

func openPostgres(t *testing.T) *sql.DB {
	t.Helper()
	return open(t, "pgx", testkit.Postgres(t, func(context.Context, string) error { return nil }))
}

func open(t *testing.T, driver, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

func newSQL(t *testing.T, db *sql.DB, dialect receiver.Dialect) *receiver.SQL {
	t.Helper()
	s, err := receiver.NewSQL(db, dialect, receiver.SQLOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// Each sentence of the contract is a subtest for every store.
func TestStore(t *testing.T) {
	t.Parallel()
	for name, open := range openStores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, sentence := range []struct {
				says string
				test func(*testing.T, purging)
			}{
				{"an event that is claimed is being processed", claimedIsProcessing},
				{"an event that is recorded is processed, for good", recordedIsProcessed},
				{"an event that is released can be claimed at once", releasedIsFree},
				{"events do not know of each other", eventsAreApart},
				{"of parallel claims one is granted", oneClaimIsGranted},
				{"of parallel takeovers one is granted", oneTakeoverIsGranted},
				{"a claim that a crash left ends with its lease", leaseEnds},
				{"who lost the claim cannot release the other's", lostCannotRelease},
				{"who lost the claim still records", lostStillRecords},
				{"what is old is purged, and nothing else", purgesOld},
			} {
				t.Run(sentence.says, func(t *testing.T) {
					t.Parallel()
					sentence.test(t, open(t))
				})
			}
		})
	}
}

const long = time.Hour // a lease that does not end during a test

func claim(t *testing.T, s receiver.Store, key string, lease time.Duration) receiver.Claim {
	t.Helper()
	c, err := s.Claim(t.Context(), key, lease)
	if err != nil {
		t.Fatalf("claim %s: %v", key, err)
	}
	return c
}

func wantClaimError(t *testing.T, s receiver.Store, key string, want error) {
	t.Helper()
	if c, err := s.Claim(t.Context(), key, long); !errors.Is(err, want) {
		t.Fatalf("claim %s = %v, %v, want %v", key, c, err, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func claimedIsProcessing(t *testing.T, s purging) {
	claim(t, s, "evt_1", long)
	wantClaimError(t, s, "evt_1", receiver.ErrProcessing)
}

func recordedIsProcessed(t *testing.T, s purging) {
	c := claim(t, s, "evt_1", time.Millisecond)
	must(t, s.Record(t.Context(), c))
	must(t, s.Record(t.Context(), c))
	must(t, s.Release(t.Context(), c))
	wantClaimError(t, s, "evt_1", receiver.ErrProcessed)
}

func releasedIsFree(t *testing.T, s purging) {
	c := claim(t, s, "evt_1", long)
	must(t, s.Release(t.Context(), c))
	must(t, s.Release(t.Context(), c))
	claim(t, s, "evt_1", long)
}

func eventsAreApart(t *testing.T, s purging) {
	must(t, s.Record(t.Context(), claim(t, s, "evt_1", long)))
	claim(t, s, "evt_2", long)
	claim(t, s, "EVT_1", long)
	claim(t, s, "evt_'1", long)
}

func oneClaimIsGranted(t *testing.T, s purging) {
	for round := range 20 {
		if granted := claimInParallel(t, s, fmt.Sprint("evt_", round)); granted != 1 {
			t.Errorf("%d of 16 parallel claims were granted", granted)
		}
	}
}

func oneTakeoverIsGranted(t *testing.T, s purging) {
	claim(t, s, "evt_1", time.Millisecond)
	granted := int64(0)
	testkit.Eventually(t, "the lease ends", func() bool {
		granted = claimInParallel(t, s, "evt_1")
		return granted > 0
	})
	if granted != 1 {
		t.Errorf("%d of 16 parallel takeovers were granted", granted)
	}
}

// takeOver claims an event after the lease of its claim has ended.
func takeOver(t *testing.T, s receiver.Store, key string) (c receiver.Claim) {
	t.Helper()
	testkit.Eventually(t, "the lease ends", func() bool {
		var err error
		c, err = s.Claim(t.Context(), key, long)
		return err == nil
	})
	return c
}

func claimInParallel(t *testing.T, s receiver.Store, key string) int64 {
	t.Helper()
	var granted atomic.Int64
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			switch _, err := s.Claim(t.Context(), key, long); {
			case err == nil:
				granted.Add(1)
			case !errors.Is(err, receiver.ErrProcessing):
				t.Error(err)
			}
		})
	}
	all.Wait()
	return granted.Load()
}

func leaseEnds(t *testing.T, s purging) {
	begun := time.Now()
	const lease = 200 * time.Millisecond
	claim(t, s, "evt_1", lease)
	takeOver(t, s, "evt_1")
	if took := time.Since(begun); took < lease-5*time.Millisecond { // a clock may have a precision of milliseconds
		t.Errorf("the lease ended after %v", took)
	}
}

func lostCannotRelease(t *testing.T, s purging) {
	lost := claim(t, s, "evt_1", time.Millisecond)
	takeOver(t, s, "evt_1")
	must(t, s.Release(t.Context(), lost))
	wantClaimError(t, s, "evt_1", receiver.ErrProcessing)
}

func lostStillRecords(t *testing.T, s purging) {
	lost := claim(t, s, "evt_1", time.Millisecond)
	second := takeOver(t, s, "evt_1")
	must(t, s.Record(t.Context(), lost))
	wantClaimError(t, s, "evt_1", receiver.ErrProcessed)
	must(t, s.Release(t.Context(), second)) // its handler returned an error
	wantClaimError(t, s, "evt_1", receiver.ErrProcessed)
}

func purgesOld(t *testing.T, s purging) {
	must(t, s.Record(t.Context(), claim(t, s, "processed", long)))
	claim(t, s, "crashed", time.Millisecond)
	claim(t, s, "processing", long)
	if n, err := s.Purge(t.Context(), long); n != 0 || err != nil {
		t.Errorf("purge of what is older than an hour = %d, %v", n, err)
	}
	var purged int64
	testkit.Eventually(t, "the processed one and the crashed one are purged", func() bool {
		n, err := s.Purge(t.Context(), 30*time.Millisecond)
		must(t, err)
		purged += n
		return purged >= 2
	})
	if purged != 2 {
		t.Errorf("purged %d, want the processed one and the crashed one", purged)
	}
	wantClaimError(t, s, "processing", receiver.ErrProcessing)
	claim(t, s, "processed", long)
	claim(t, s, "crashed", long)
}
