package postgres_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

// A node that is being reclaimed waits, but no other node does. The other survivors, who also
// learned of the death, continue, and so do all heartbeats.
func TestNobodyWaitsForAReclaim(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s, conn, watch := openAt(t, dsn), connect(t, dsn), connect(t, dsn)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	dead := store.Heartbeat{Incarnation: 1, Instance: [16]byte{1}, TTL: time.Microsecond}
	if _, err := s.Heartbeat(ctx, dead); err != nil {
		t.Fatal(err)
	}

	if _, err := conn.Exec(ctx, `begin; select from nodes where incarnation = 1 for update`); err != nil {
		t.Fatal(err)
	}
	var back sync.WaitGroup
	back.Go(func() {
		if _, err := s.Heartbeat(ctx, dead); err != nil {
			t.Errorf("the heartbeat of the dead node: %v", err)
		}
	})
	testkit.Eventually(t, "the dead node's heartbeat waits for the reclaim", func() bool {
		var waiting bool
		err := watch.QueryRow(ctx, `
			select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')`).Scan(&waiting)
		return err == nil && waiting
	})

	if n, err := s.Reclaim(ctx, 1, 10); n != 0 || err != nil {
		t.Errorf("Reclaim = %d, %v, want 0 while another is at it", n, err)
	}
	if _, err := s.Heartbeat(ctx, store.Heartbeat{Incarnation: 2, Instance: [16]byte{2}, TTL: time.Hour}); err != nil {
		t.Errorf("the heartbeat of a survivor: %v", err)
	}
	if _, err := conn.Exec(ctx, `rollback`); err != nil {
		t.Error(err)
	}
	back.Wait()
}
