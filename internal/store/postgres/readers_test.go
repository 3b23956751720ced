package postgres_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/postgres"
)

// TestPromise5ReadersDoNotTakeTheConnectionsOfTheEngine lets more readers wait for a locked table
// than the store has connections. Publishes and claims must continue beside them.
func TestPromise5ReadersDoNotTakeTheConnectionsOfTheEngine(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s, conn := newShop(t, dsn), connect(t, dsn)
	small := openWith(t, dsn, postgres.Options{MaxConns: 2})
	if _, err := conn.Exec(t.Context(), `begin; lock table attempts in access exclusive mode`); err != nil {
		t.Fatal(err)
	}
	var reads sync.WaitGroup
	var ended atomic.Int64
	for range 6 {
		reads.Go(func() {
			_, _ = small.Attempts(store.ForReader(t.Context()), store.AttemptQuery{Delivery: postrider.DeliveryID{1}}) // fails after 2 s
			ended.Add(1)
		})
	}
	waiting := func() (n int) {
		if err := conn.QueryRow(t.Context(),
			`select count(*) from pg_locks where not granted and relation = 'attempts'::regclass`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for waiting() == 0 && ended.Load() == 0 { // one query at a time
	}
	if _, err := small.Publish(t.Context(), store.Publish{Version: 1, Batches: []store.Batch{s.batch(3, 0)}}); err != nil {
		t.Error(err)
	}
	if ended.Load() > 0 {
		t.Error("the publish waited until a reader had given up")
	}
	if _, err := conn.Exec(t.Context(), `rollback`); err != nil {
		t.Fatal(err)
	}
	reads.Wait()
}
