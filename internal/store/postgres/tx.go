package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The statements around a transaction that asks before it writes. They are
// queued with the first and the last of its questions and cost no round trip
// of their own.
const (
	beginSQL  = `begin`
	commitSQL = `commit`
)

// withConn runs do, which begins and commits a transaction of its own on the
// connection, and rolls back what it left open.
func (s *Store) withConn(ctx context.Context, do func(conn *pgxpool.Conn) error) error {
	return s.pool.AcquireFunc(ctx, func(conn *pgxpool.Conn) error {
		err := do(conn)
		if pg := conn.Conn().PgConn(); !pg.IsClosed() && pg.TxStatus() != 'I' {
			_, _ = conn.Exec(ctx, `rollback`) // otherwise the pool closes the connection
		}
		return err
	})
}

// tx runs do in a transaction.
func (s *Store) tx(ctx context.Context, do func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, s.pool, do)
}
