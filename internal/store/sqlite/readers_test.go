package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// TestPromise5ReadersDoNotTakeTheConnectionsOfTheEngine takes every connection for readers. The
// engine still reads and writes, and a further reader waits until its time limit.
func TestPromise5ReadersDoNotTakeTheConnectionsOfTheEngine(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), t.TempDir(), Options{Readers: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for range 2 {
		conn, err := s.people.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	account := postrider.Account{ID: postrider.AccountID{1}, UID: "acme", Name: "Acme", CreatedAt: time.Now().UTC()}
	if err := s.PutAccount(t.Context(), account); err != nil {
		t.Error(err)
	}
	if _, err := s.Accounts(t.Context(), store.AccountQuery{}); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(store.ForReader(t.Context()), 50*time.Millisecond)
	defer cancel()
	if _, err := s.Accounts(ctx, store.AccountQuery{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a reader without a connection: %v, want that its time is over", err)
	}
}

// TestAReadOfALongTimeIsEnded runs a statement that would never end.
func TestAReadOfALongTimeIsEnded(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), t.TempDir(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const endless = `with recursive n (i) as (select 1 union all select i + 1 from n) select max(i) from n`
	began := time.Now()
	_, err = list(store.ForReader(t.Context()), s, query{endless, nil}, func(rows *sql.Rows, n *int64) error { return rows.Scan(n) })
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took < listTime {
		t.Errorf("after %v: %v, want that its time is over after %v", took, err, listTime)
	}
}
