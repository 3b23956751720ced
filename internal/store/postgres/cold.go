package postgres

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// cold is the [sqlstore.Database] of the store.
type cold struct{ *Store }

// Query reads rows, with the settings for lists.
func (c cold) Query(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	return c.read(ctx, listSettingsSQL, q, read)
}

// Count reads rows, with the settings for counts.
func (c cold) Count(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	return c.read(ctx, countSettingsSQL, q, read)
}

func (c cold) read(ctx context.Context, settings string, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	return c.repeat(ctx, func(bool) error {
		b := &pgx.Batch{}
		b.Queue(settings) // the settings last until the end of the batch's transaction
		b.Queue(q.SQL, arguments(q.Args)).Query(func(rows pgx.Rows) error { return readRows(rows, read) })
		return c.readPool(ctx).SendBatch(ctx, b).Close()
	})
}

// Exec runs one statement in a transaction of its own.
func (c cold) Exec(ctx context.Context, fate sqlstore.Fate, q sqlstore.Query) (n int64, err error) {
	err = c.retry(ctx, fate == sqlstore.Repeatable, lockPatience, func(bool) error {
		tag, err := c.pool.Exec(ctx, q.SQL, arguments(q.Args))
		n = tag.RowsAffected()
		return err
	})
	return n, err
}

// Change runs do in a transaction.
func (c cold) Change(ctx context.Context, fate sqlstore.Fate, do func(context.Context, sqlstore.Tx) error) error {
	return c.retry(ctx, fate == sqlstore.Repeatable, lockPatience, func(again bool) error {
		return c.tx(ctx, func(tx pgx.Tx) error { return do(ctx, coldTx{tx, c.clock, again}) })
	})
}

// Pieces makes one piece of all rows, because no publish waits for its transaction.
func (c cold) Pieces(_ context.Context, limit int, do func(int) (int, error)) (int, error) {
	return do(limit)
}

// Unindexed returns the column unchanged, because PostgreSQL plans the statement with the values
// of its arguments and its statistics.
func (c cold) Unindexed(column string) string { return column }

// EventTables returns the partitioned table, and the table of events that were still needed when their
// day was deleted.
func (c cold) EventTables() []string { return []string{"events", "kept_events"} }

// coldTx is a [sqlstore.Tx].
type coldTx struct {
	tx    pgx.Tx
	clock *store.Clock
	again bool
}

// Query reads rows.
func (t coldTx) Query(ctx context.Context, q sqlstore.Query, read func(sqlstore.Rows) error) error {
	rows, err := t.tx.Query(ctx, q.SQL, arguments(q.Args))
	if err != nil {
		return err
	}
	return readRows(rows, read)
}

// QueryAll runs a statement once for each element of all, in one round trip.
func (t coldTx) QueryAll(ctx context.Context, statement string, all []sqlstore.Args, read func(sqlstore.Rows) error) error {
	b := runs(statement, all, func(run *pgx.QueuedQuery) {
		run.Query(func(rows pgx.Rows) error { return readRows(rows, read) })
	})
	return t.tx.SendBatch(ctx, b).Close()
}

// Exec runs a statement.
func (t coldTx) Exec(ctx context.Context, q sqlstore.Query) (int64, error) {
	tag, err := t.tx.Exec(ctx, q.SQL, arguments(q.Args))
	return tag.RowsAffected(), err
}

// ExecAll runs a statement once for each element of all, in one round trip.
func (t coldTx) ExecAll(ctx context.Context, statement string, all []sqlstore.Args) (n int64, err error) {
	if len(all) == 0 {
		return 0, nil
	}
	b := runs(statement, all, func(run *pgx.QueuedQuery) {
		run.Exec(func(tag pgconn.CommandTag) error {
			n += tag.RowsAffected()
			return nil
		})
	})
	return n, t.tx.SendBatch(ctx, b).Close()
}

// runs returns a batch that runs a statement once for each element of all. It replaces the names of
// the arguments once. pgx would do so for each run, which was a quarter of the CPU time of FoldRollups.
func runs(statement string, all []sqlstore.Args, each func(*pgx.QueuedQuery)) *pgx.Batch {
	numbered := sqlstore.Number(statement, "$")
	b := &pgx.Batch{}
	for _, args := range all {
		values := make([]any, len(numbered.Names))
		for i, name := range numbered.Names {
			values[i] = encodable(args[name])
		}
		each(b.Queue(numbered.Text, values...))
	}
	return b
}

// The lock of lockIDSQL ends with the transaction. Two ids with the same hash wait for each
// other.
const lockIDSQL = `select pg_advisory_xact_lock(hashtext(@name), hashtext(@id::uuid::text))`

// Lock makes other transactions that lock the same name and id wait.
func (t coldTx) Lock(ctx context.Context, name string, id [16]byte) error {
	_, err := t.tx.Exec(ctx, lockIDSQL, pgx.NamedArgs{"name": name, "id": someUUID(id)})
	return err
}

// Now returns the time that decides which work is due.
func (t coldTx) Now() time.Time { return t.clock.Now() }

// Wall returns the time of day.
func (t coldTx) Wall() time.Time { return t.clock.Wall() }

// Again reports whether an earlier run may have been stored.
func (t coldTx) Again() bool { return t.again }

// readRows calls read with the rows, and closes them.
func readRows(rows pgx.Rows, read func(sqlstore.Rows) error) error {
	defer rows.Close()
	if err := read(coldRows{rows}); err != nil {
		return err
	}
	return rows.Err()
}

// arguments converts the arguments to types that pgx can encode.
func arguments(args sqlstore.Args) pgx.NamedArgs {
	named := make(pgx.NamedArgs, len(args))
	for name, arg := range args {
		named[name] = encodable(arg)
	}
	return named
}

// encodable converts an argument to a type that pgx can encode.
func encodable(arg any) any {
	switch plain := sqlstore.Plain(arg).(type) {
	case [16]byte:
		return someUUID(plain)
	case [][16]byte:
		ids := make(uuids, len(plain))
		for i, id := range plain {
			ids[i] = someUUID(id)
		}
		return ids
	default:
		return plain
	}
}

// coldRows are [sqlstore.Rows].
type coldRows struct{ pgx.Rows }

// Scan copies the columns of a row. pgx itself decodes lists and maps.
func (r coldRows) Scan(into ...any) error {
	columns := make([]any, len(into))
	for i, pointer := range into {
		to := reflect.ValueOf(pointer).Elem()
		if to.Kind() == reflect.Map || to.Kind() == reflect.Slice && to.Type().Elem().Kind() != reflect.Uint8 {
			columns[i] = pointer
		} else {
			columns[i] = coldColumn{to}
		}
	}
	return r.Rows.Scan(columns...)
}

// coldColumn scans a column into the variable to. Null becomes the zero value. pgx calls the
// method for the type of the column.
type coldColumn struct{ to reflect.Value }

// set calls store if the column is not null and fits the variable.
func (c coldColumn) set(valid bool, value any, fits bool, store func()) error {
	c.to.SetZero()
	switch {
	case !valid:
		return nil
	case !fits:
		return fmt.Errorf("scan %T into %s", value, c.to.Type())
	}
	store()
	return nil
}

// ScanUUID stores an id.
func (c coldColumn) ScanUUID(v pgtype.UUID) error {
	return c.set(v.Valid, v.Bytes, c.to.Kind() == reflect.Array && c.to.Len() == len(v.Bytes), func() {
		reflect.Copy(c.to, reflect.ValueOf(v.Bytes))
	})
}

// ScanTimestamptz stores a time.
func (c coldColumn) ScanTimestamptz(v pgtype.Timestamptz) error {
	return c.set(v.Valid, v.Time, c.to.Type() == reflect.TypeFor[time.Time](), func() { c.to.Set(reflect.ValueOf(v.Time.UTC())) })
}

// ScanInt64 stores a number.
func (c coldColumn) ScanInt64(v pgtype.Int8) error {
	c.to.SetZero()
	if v.Valid && !sqlstore.SetNumber(c.to, v.Int64) {
		return fmt.Errorf("scan %T into %s", v.Int64, c.to.Type())
	}
	return nil
}

// ScanFloat64 stores a number with a fraction.
func (c coldColumn) ScanFloat64(v pgtype.Float8) error {
	return c.set(v.Valid, v.Float64, c.to.CanFloat(), func() { c.to.SetFloat(v.Float64) })
}

// ScanBool stores a flag.
func (c coldColumn) ScanBool(v pgtype.Bool) error {
	return c.set(v.Valid, v.Bool, c.to.Kind() == reflect.Bool, func() { c.to.SetBool(v.Bool) })
}

// ScanBytes stores a text, bytes or a hash.
func (c coldColumn) ScanBytes(v []byte) error {
	switch c.to.Kind() {
	case reflect.String:
		return c.set(v != nil, v, true, func() { c.to.SetString(string(v)) })
	case reflect.Slice:
		return c.set(v != nil, v, true, func() { c.to.SetBytes(bytes.Clone(v)) })
	default:
		return c.set(v != nil, v, c.to.Kind() == reflect.Array && c.to.Len() == len(v), func() { reflect.Copy(c.to, reflect.ValueOf(v)) })
	}
}
