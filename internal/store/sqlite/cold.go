package sqlite

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/store/sqlstore"
)

// cold is the database as package sqlstore has it. There is no commit of an unknown fate: the
// writer knows what is on disk.
type cold struct{ *Store }

// Query reads rows on a connection that only reads.
func (c cold) Query(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	args, err := arguments(q.Args)
	if err != nil {
		return err
	}
	pool, ctx, cancel := c.reader(ctx)
	defer cancel()
	statement, err := pool.prepared(ctx, c.texts.translate(q.SQL)) //nolint:sqlclosecheck // it lives as long as the store
	if err != nil {
		return c.fault(err)
	}
	rows, err := statement.QueryContext(ctx, args...)
	return c.fault(readRows(rows, err, read))
}

// Exec runs one statement in a job of the writer.
func (c cold) Exec(ctx context.Context, fate sqlstore.Fate, q sqlstore.Query) (n int64, err error) {
	err = c.Change(ctx, fate, func(ctx context.Context, tx sqlstore.Tx) error {
		n, err = tx.Exec(ctx, q)
		return err
	})
	return n, err
}

// Change runs do as a job of the writer.
func (c cold) Change(ctx context.Context, _ sqlstore.Fate, do func(context.Context, sqlstore.Tx) error) error {
	return explained(c.writer.do(ctx, &job{run: func(ctx context.Context, tx *tx) error { return do(ctx, coldTx{tx, &c.texts}) }}))
}

// Unindexed returns the column with the sign for which the planner walks no index of it.
func (c cold) Unindexed(column string) string { return "+" + column }

// texts are statements of package sqlstore in the language of SQLite, by how they are written.
type texts struct{ known sync.Map }

func (t *texts) translate(statement string) string {
	if text, ok := t.known.Load(statement); ok {
		return text.(string) //nolint:errcheck // there is nothing else in it
	}
	text := sqlstore.SQLite(statement)
	t.known.Store(statement, text)
	return text
}

// coldTx is a job's transaction as package sqlstore has it.
type coldTx struct {
	tx    *tx
	texts *texts
}

// Query reads rows.
func (t coldTx) Query(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	args, err := arguments(q.Args)
	if err != nil {
		return err
	}
	rows, err := t.tx.query(ctx, t.texts.translate(q.SQL), args...)
	return readRows(rows, err, read)
}

// Exec runs a statement.
func (t coldTx) Exec(ctx context.Context, q sqlstore.Query) (int64, error) {
	args, err := arguments(q.Args)
	if err != nil {
		return 0, err
	}
	return t.tx.count(ctx, t.texts.translate(q.SQL), args...)
}

// Lock does nothing: jobs run one after the other.
func (t coldTx) Lock(context.Context, string, [16]byte) error { return nil }

// Now is the time that decides what is due.
func (t coldTx) Now() time.Time { return t.tx.now }

// Wall is the time of day.
func (t coldTx) Wall() time.Time { return t.tx.wall }

// Again is never true.
func (t coldTx) Again() bool { return false }

// readRows has read read the rows of a query, unless it failed, and closes them.
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

// arguments returns the arguments as the driver takes them.
func arguments(args sqlstore.Args) ([]any, error) {
	named := make([]any, 0, len(args))
	for name, arg := range args {
		value, err := sqlstore.ForSQLite(arg)
		if err != nil {
			return nil, err
		}
		named = append(named, sql.Named(name, value))
	}
	return named, nil
}

// coldRows are rows as package sqlstore has them.
type coldRows struct{ *sql.Rows }

// Scan copies the columns of a row.
func (r coldRows) Scan(into ...any) error {
	columns := make([]any, len(into))
	for i, pointer := range into {
		columns[i] = sqlstore.FromSQLite{Into: pointer}
	}
	return r.Rows.Scan(columns...)
}
