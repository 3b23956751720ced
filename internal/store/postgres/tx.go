package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// These statements begin and commit a transaction that reads before it writes. They are sent with
// its first and its last batch, so they need no round trip of their own.
const (
	beginSQL  = `begin`
	commitSQL = `commit`
)

// withConn runs do on one connection. do begins and commits a transaction itself, by the first
// and the last statement of its batches. If do fails in between, withConn rolls the transaction
// back, because the pool would close a connection with an open transaction.
func (s *Store) withConn(ctx context.Context, do func(conn *pgxpool.Conn) error) error {
	return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		err := do(conn)
		if pg := conn.Conn().PgConn(); !pg.IsClosed() && pg.TxStatus() != 'I' {
			_, _ = conn.Exec(ctx, `rollback`)
		}
		return err
	})
}

// tx runs do in a transaction.
func (s *Store) tx(ctx context.Context, do func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, do)
}

// undone returns the number of rows that a transaction changed, which is 0 if it failed.
func undone(n int, err error) (int, error) {
	if err != nil {
		n = 0
	}
	return n, err
}
