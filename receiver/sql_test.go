package receiver_test

import (
	"database/sql"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider/receiver"
)

func openDatabases(t *testing.T) map[receiver.Dialect]*sql.DB {
	t.Helper()
	return map[receiver.Dialect]*sql.DB{receiver.SQLite: openSQLite(t), receiver.PostgreSQL: openPostgres(t)}
}

func TestSQLMigratesManyAtOnceAndAgain(t *testing.T) {
	t.Parallel()
	for dialect, db := range openDatabases(t) {
		s, err := receiver.NewSQL(db, dialect, receiver.SQLOptions{Table: "inbox_2"})
		must(t, err)
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if err := s.Migrate(t.Context()); err != nil {
					t.Errorf("%s: %v", dialect, err)
				}
			})
		}
		all.Wait()
		must(t, s.Record(t.Context(), claim(t, s, "evt_1", long)))
		must(t, s.Migrate(t.Context()))
		wantClaimError(t, s, "evt_1", receiver.ErrProcessed)
	}
}

func TestSQLRefusesNamesThatAreNoTables(t *testing.T) {
	t.Parallel()
	db := openSQLite(t)
	for _, table := range []string{"a b", `a"`, "a;drop table b", "A", "1a", "a.b", "ä"} {
		if _, err := receiver.NewSQL(db, receiver.SQLite, receiver.SQLOptions{Table: table}); err == nil {
			t.Errorf("table %q is accepted", table)
		}
	}
	if _, err := receiver.NewSQL(db, "mysql", receiver.SQLOptions{}); err == nil {
		t.Error("an unknown dialect is accepted")
	}
}

// The handler's writes in the transaction of RecordTx are committed exactly once, even after
// crashes. Here the first handler's lease ends before it commits.
func TestSQLRecordTx(t *testing.T) {
	t.Parallel()
	for dialect, db := range openDatabases(t) {
		t.Run(string(dialect), func(t *testing.T) {
			t.Parallel()
			s := newSQL(t, db, dialect)
			exec(t, db, "create table orders (id text)")
			var events []receiver.Event
			h := newHooks(t, s, func(e receiver.Event) error {
				events = append(events, e)
				return errors.New("not yet")
			})
			for range 2 {
				h.wantStatus(t, h.request(t, "evt_1", `{"order":1}`), 500)
			}
			lost, lasting := events[0], events[1]
			if err := writeOrder(t, db, s, lost); !errors.Is(err, receiver.ErrClaimLost) {
				t.Errorf("record with a claim that was released: %v, want ErrClaimLost", err)
			}
			h.handle = func(e receiver.Event) error {
				if err := writeOrder(t, db, s, lasting); !errors.Is(err, receiver.ErrClaimLost) {
					t.Errorf("record of what another claimed: %v, want ErrClaimLost", err)
				}
				return errors.Join(writeOrder(t, db, s, e), errors.New("crash after the commit"))
			}
			h.wantStatus(t, h.request(t, "evt_1", `{"order":1}`), 500)
			h.wantStatus(t, h.request(t, "evt_1", `{"order":1}`), 204)
			var orders int
			must(t, db.QueryRowContext(t.Context(), "select count(*) from orders").Scan(&orders))
			if orders != 1 {
				t.Errorf("there are %d orders, want 1", orders)
			}
		})
	}
}

func writeOrder(t *testing.T, db *sql.DB, s *receiver.SQL, e receiver.Event) error {
	t.Helper()
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	defer tx.Rollback()
	if err := s.RecordTx(t.Context(), tx, e); err != nil {
		return err
	}
	_, err = tx.ExecContext(t.Context(), "insert into orders (id) values ($1)", e.ID)
	must(t, err)
	return tx.Commit()
}

func exec(t *testing.T, db *sql.DB, text string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), text)
	must(t, err)
}

// Without its database a receiver responds 503 and calls no handler.
func TestSQLAway(t *testing.T) {
	t.Parallel()
	db := openSQLite(t)
	s := newSQL(t, db, receiver.SQLite)
	h := newHooks(t, s, func(receiver.Event) error {
		t.Error("the handler was called")
		return nil
	})
	must(t, db.Close())
	got := h.wantStatus(t, h.request(t, "evt_1", `{}`), 503)
	if got.Header().Get("Retry-After") == "" {
		t.Error("a 503 has no Retry-After")
	}
	if _, err := s.Purge(t.Context(), time.Hour); err == nil {
		t.Error("a purge without a database has no error")
	}
}
