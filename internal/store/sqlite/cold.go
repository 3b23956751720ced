package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/store/sqlstore"
)

// cold is the [sqlstore.Database] of the store. It always knows whether a transaction was stored,
// because the writer knows what is on disk.
type cold struct{ *Store }

// Query reads rows on a connection that only reads.
func (c cold) Query(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	text, args, err := c.texts.translate(q, c.wall)
	if err != nil {
		return err
	}
	pool, ctx, cancel := c.reader(ctx)
	defer cancel()
	statement, err := pool.prepared(ctx, text) //nolint:sqlclosecheck // lives as long as the store
	if err != nil {
		return c.fault(err)
	}
	rows, err := statement.QueryContext(ctx, args...)
	return c.fault(readRows(rows, err, read))
}

// Count is Query, because SQLite's plans need no statistics.
func (c cold) Count(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	return c.Query(ctx, q, read)
}

// Exec runs one statement as a job of the writer.
func (c cold) Exec(ctx context.Context, fate sqlstore.Fate, q sqlstore.Query) (n int64, err error) {
	err = c.Change(ctx, fate, func(ctx context.Context, tx sqlstore.Tx) error {
		n, err = tx.Exec(ctx, q)
		return err
	})
	return n, err
}

// Change runs do as a job of the writer.
func (c cold) Change(ctx context.Context, fate sqlstore.Fate, do func(context.Context, sqlstore.Tx) error) error {
	return explained(c.writer.do(ctx, &job{
		bulk: fate == sqlstore.Bulk,
		run:  func(ctx context.Context, tx *tx) error { return do(ctx, coldTx{tx, &c.texts}) },
	}))
}

// Pieces makes pieces of pieceRows rows.
func (c cold) Pieces(ctx context.Context, limit int, do func(int) (int, error)) (int, error) {
	return inPieces(ctx, limit, do)
}

// Unindexed returns the column with a plus sign. For such an expression the planner walks no
// index.
func (c cold) Unindexed(column string) string { return "+" + column }

// EventTables returns the only table of events.
func (c cold) EventTables() []string { return []string{"events"} }

// texts has the statements of package sqlstore, translated for SQLite, by their original text. They
// have the numbers of their arguments, because the driver takes longer to find a name.
type texts struct{ known sync.Map }

// translate returns the text and the arguments of q for the driver. It passes only the arguments
// that the statement has, because the driver refuses others. The function wall returns the time
// of day of the transaction.
func (t *texts) translate(q sqlstore.Query, wall func() time.Time) (text string, args []any, err error) {
	known, ok := t.known.Load(q.SQL)
	if !ok {
		known, _ = t.known.LoadOrStore(q.SQL, sqlstore.Number(sqlstore.SQLite(q.SQL), "?"))
	}
	s := known.(sqlstore.Numbered) //nolint:errcheck // the map has no other type
	for _, name := range s.Names {
		if name == "wall" {
			args = append(args, micros(wall()))
			continue
		}
		value, err := sqlstore.ForSQLite(q.Args[name])
		if err != nil {
			return "", nil, fmt.Errorf("argument %s: %w", name, err)
		}
		args = append(args, value)
	}
	return s.Text, args, nil
}

// coldTx is a [sqlstore.Tx] in the transaction of a job.
type coldTx struct {
	tx    *tx
	texts *texts
}

// Query reads rows.
func (t coldTx) Query(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	text, args, err := t.texts.translate(q, t.Wall)
	if err != nil {
		return err
	}
	rows, err := t.tx.query(ctx, text, args...)
	return readRows(rows, err, read)
}

// QueryAll runs a statement once for each element of all.
func (t coldTx) QueryAll(ctx context.Context, statement string, all []sqlstore.Args, read func(sqlstore.Rows) error) error {
	for _, args := range all {
		if err := t.Query(ctx, sqlstore.Query{SQL: statement, Args: args}, read); err != nil {
			return err
		}
	}
	return nil
}

// Exec runs a statement.
func (t coldTx) Exec(ctx context.Context, q sqlstore.Query) (int64, error) {
	text, args, err := t.texts.translate(q, t.Wall)
	if err != nil {
		return 0, err
	}
	return t.tx.count(ctx, text, args...)
}

// ExecAll runs a statement once for each element of all.
func (t coldTx) ExecAll(ctx context.Context, statement string, all []sqlstore.Args) (n int64, err error) {
	for _, args := range all {
		changed, err := t.Exec(ctx, sqlstore.Query{SQL: statement, Args: args})
		if err != nil {
			return 0, err
		}
		n += changed
	}
	return n, nil
}

// Lock does nothing, because jobs run one after the other.
func (t coldTx) Lock(context.Context, string, [16]byte) error { return nil }

// Now returns the time that decides which work is due.
func (t coldTx) Now() time.Time { return t.tx.now }

// Wall returns the time of day.
func (t coldTx) Wall() time.Time { return t.tx.wall }

// Again returns false, because no transaction runs again after it was stored.
func (t coldTx) Again() bool { return false }

// readRows calls read with the rows of a query, unless the query failed, and closes them.
func readRows(rows *sql.Rows, err error, read func(sqlstore.Rows) error) error {
	if err != nil {
		return err
	}
	defer rows.Close()
	if err := read(coldRows{rows}); err != nil {
		return err
	}
	return rows.Err()
}

// coldRows are [sqlstore.Rows].
type coldRows struct{ *sql.Rows }

// Scan copies the columns of a row.
func (r coldRows) Scan(into ...any) error {
	columns := make([]any, len(into))
	for i, pointer := range into {
		columns[i] = sqlstore.FromSQLite{Into: pointer}
	}
	return r.Rows.Scan(columns...)
}
