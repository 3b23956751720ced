package postgres_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/postgres"
)

// lines is a log that several goroutines write to.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// stands runs a statement in a transaction that then stands still. The function end ends the
// transaction without a commit.
func stands(t *testing.T, dsn, statement string, args ...any) (end func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn+"&application_name=stranger")
	if err != nil {
		t.Fatal(err)
	}
	end = func() { _ = conn.Close(context.Background()) }
	t.Cleanup(end)
	for _, s := range []string{"set idle_in_transaction_session_timeout = 0", "begin"} {
		if _, err := conn.Exec(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := conn.Exec(t.Context(), statement, args...); err != nil {
		t.Fatal(err)
	}
	return end
}

// keyed returns a batch of one event with an ordering key, whose delivery is ordered.
func (s *shop) keyed(key string) store.Batch {
	batch := s.batch(1, 0)
	batch[0].Event.OrderingKey, batch[0].Deliveries[0].Ordered = key, postrider.SkipDead
	return batch
}

// locked publishes the batches, and returns the field of each batch that was refused because of a
// lock.
func (s *shop) locked(t *testing.T, batches ...store.Batch) (fields []string) {
	t.Helper()
	begun := time.Now()
	published, err := s.Publish(t.Context(), store.Publish{Version: 1, Batches: batches})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("published after %v", time.Since(begun))
	for _, p := range published {
		switch {
		case p.Locked != nil:
			fields = append(fields, p.Locked.Field+" "+p.Locked.Key)
		case p.Events == nil:
			t.Error("a batch was refused for another reason")
		default:
			fields = append(fields, "")
		}
	}
	return fields
}

func TestPromise5AKeyThatATransactionKeepsHoldsOnlyItsOwnEvents(t *testing.T) {
	t.Parallel()
	ordered := func(key string) func(*postrider.Event) { return func(e *postrider.Event) { e.OrderingKey = key } }
	for name, tt := range map[string]struct {
		statement string
		want      string
		seen      bool // whether the number of the transaction is known
		change    func(*postrider.Event)
	}{
		"its row is locked":  {"select from ordering_keys where ordering_key = 'k1' for update", "ordering_key k1", true, ordered("k1")},
		"its row is updated": {"update ordering_keys set last = last + 1 where ordering_key = 'k1'", "ordering_key k1", true, ordered("k1")},
		"its row is inserted": {
			"insert into ordering_keys (account, ordering_key, last) select id, 'new', 1 from accounts", "ordering_key new", false, ordered("new"),
		},
		"an idempotency key is inserted": {
			"insert into idempotency_keys (account, key, event, hash, created_at) select id, 'i1', id, sha256(''), now() from accounts",
			"idempotency_key i1", false, func(e *postrider.Event) { e.IdempotencyKey = "i1" },
		},
		"a row of an outbox is recorded": {
			"insert into outbox_rows (id, event, recorded_at) select id, id, now() from accounts",
			"outbox_id obx_", false, func(e *postrider.Event) { e.Row = postrider.OutboxID(e.Account) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log lines
			dsn := freshDSN(t)
			s := newShop(t, dsn)
			s.Store = openWith(t, dsn, postgres.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
			s.locked(t, s.keyed("k1"), s.keyed("k2"))
			end := stands(t, dsn, tt.statement)

			stuck := s.batch(1, 0)
			tt.change(&stuck[0].Event)
			for range 2 {
				if got := s.locked(t, s.batch(1, 0), s.keyed("k2"), stuck); got[0] != "" || got[1] != "" || !strings.HasPrefix(got[2], tt.want) {
					t.Errorf("refused for locks: %q, want only the third, for %s", got, tt.want)
				}
			}
			for tt.seen && !strings.Contains(log.String(), "application=stranger") {
				s.locked(t, stuck)
			}
			if got := log.String(); strings.Count(got, "that others wait for") > 1 {
				t.Errorf("the log has more than one line of the transaction: %s", got)
			}
			end()
			for s.locked(t, stuck)[0] != "" { // the server has not yet noticed the end of the transaction
			}
		})
	}
}

func TestPromise5ASettlementThatCannotLockHoldsNoOther(t *testing.T) {
	t.Parallel()
	for name, statement := range map[string]string{
		"its ordering key is locked": "select from ordering_keys where ordering_key = 'k1' for update",
		"its delivery is locked":     "select from queue where ordering_key = 'k1' for update",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn := freshDSN(t)
			s := newShop(t, dsn)
			batches := []store.Batch{s.keyed("k1"), s.keyed("k2"), s.batch(1, 0)}
			s.locked(t, batches...)
			claims, err := s.Claim(t.Context(), store.Claim{Token: 7, Wants: []store.Want{
				{Endpoint: s.endpoint.ID, Lane: postrider.LaneFirst, N: 10, Lease: time.Minute},
			}})
			if err != nil || len(claims.Items) != 3 {
				t.Fatalf("Claim = %v, %v", claims, err)
			}
			var settlements []store.Settlement
			for _, batch := range batches {
				settlements = append(settlements, s.settlements(batch, 7)...)
			}
			end := stands(t, dsn, statement)
			for range 2 {
				begun := time.Now()
				settled, err := s.Settle(t.Context(), settlements)
				t.Logf("settled after %v", time.Since(begun))
				if err != nil || !settled[0].Locked || settled[1] != (store.Settled{}) || settled[2] != (store.Settled{}) {
					t.Errorf("Settle = %+v, %v, want only the first locked", settled, err)
				}
			}
			end()
			for {
				settled, err := s.Settle(t.Context(), settlements)
				if err != nil || settled[0].Stale {
					t.Fatalf("Settle = %+v, %v", settled, err)
				}
				if !settled[0].Locked {
					break
				}
			}
		})
	}
}

func TestAChangeWaitsForALockThatIsKeptForASecond(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s, own := newShop(t, dsn), connect(t, dsn)
	end := stands(t, dsn, "update subscriptions set version = version")
	changed := make(chan error, 1)
	var changing sync.WaitGroup
	defer changing.Wait()
	changing.Go(func() {
		e := s.endpoint
		e.ID, e.Revision = store.NewID[postrider.EndpointID](s.ids), 0
		_, err := s.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: e})
		changed <- err
	})
	tries := map[time.Time]bool{}
	for len(tries) < 3 {
		var begun time.Time
		err := own.QueryRow(t.Context(), `
			select coalesce(max(a.query_start), 'epoch')
			from pg_stat_activity a
			where a.datname = current_database() and a.wait_event_type = 'Lock'`).Scan(&begun)
		if err != nil {
			t.Fatal(err)
		}
		if begun.Unix() != 0 {
			tries[begun] = true
		}
		select {
		case err := <-changed:
			t.Fatalf("PutEndpoint = %v after %d tries to get the lock", err, len(tries))
		default:
		}
	}
	end()
	if err := <-changed; err != nil {
		t.Errorf("PutEndpoint = %v, want that it waits until the lock is free", err)
	}
}
