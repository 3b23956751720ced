package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/store"
)

// tx is the writer's connection with a transaction open on it.
type tx struct {
	conn       *sql.Conn
	clock      *store.Clock
	now, wall  time.Time // of the unit that runs: what decides what is due, and what people see
	statements map[statement]*sql.Stmt
}

// statement names a prepared statement: its text and, for one about many rows,
// how many of them.
type statement struct {
	bulk
	rows int
}

// bulk is a statement about any number of rows: between head and tail stand
// their placeholders, as in values (?,?),(?,?).
type bulk struct {
	head, tail string
	columns    int
}

// lockTries is how often the lock is asked for when another process, a backup
// for instance, has it; each try waits for busy_timeout.
const lockTries = 5

func (t *tx) begin(ctx context.Context) (err error) {
	for range lockTries {
		err = t.exec(ctx, "begin immediate")
		if err == nil || classOf(err) != classBusy {
			return err
		}
	}
	return err
}

// rollback ends the transaction, if SQLite has not done so by itself, which it
// does after some errors and calls an error here.
func (t *tx) rollback(ctx context.Context) error {
	err := t.exec(ctx, "rollback")
	if classOf(err) == classOther {
		return nil
	}
	return err
}

func (t *tx) close() error {
	var err error
	for _, s := range t.statements {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, t.conn.Close())
}

// exec runs a statement that answers nothing.
func (t *tx) exec(ctx context.Context, query string, args ...any) error {
	_, err := t.count(ctx, query, args...)
	return err
}

// count runs a statement and returns how many rows it changed.
func (t *tx) count(ctx context.Context, query string, args ...any) (int64, error) {
	s, err := t.prepare(ctx, statement{bulk: bulk{head: query}})
	if err != nil {
		return 0, err
	}
	result, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// query runs a statement that answers with rows.
func (t *tx) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.prepare(ctx, statement{bulk: bulk{head: query}})
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// row runs a statement that answers with one row.
func (t *tx) row(ctx context.Context, query string, args ...any) row {
	s, err := t.prepare(ctx, statement{bulk: bulk{head: query}})
	if err != nil {
		return row{err: err}
	}
	return row{row: s.QueryRowContext(ctx, args...)}
}

// row is a [sql.Row] that may also be the error of preparing its statement.
type row struct {
	row *sql.Row
	err error
}

// Scan copies the columns, or returns sql.ErrNoRows.
func (r row) Scan(into ...any) error {
	if r.err != nil {
		return r.err
	}
	return r.row.Scan(into...)
}

// sizes are the numbers of rows that bulk statements are prepared for: a
// hundred rows are four statements.
var sizes = []int{256, 64, 16, 4, 1}

// chunks cuts the arguments of a bulk statement into those of statements of
// the sizes that are prepared.
func (t *tx) chunks(ctx context.Context, b bulk, args []any, run func(*sql.Stmt, []any) error) error {
	for len(args) > 0 {
		rows := 1
		for _, size := range sizes {
			if size*b.columns <= len(args) {
				rows = size
				break
			}
		}
		s, err := t.prepare(ctx, statement{bulk: b, rows: rows})
		if err != nil {
			return err
		}
		if err := run(s, args[:rows*b.columns]); err != nil {
			return err
		}
		args = args[rows*b.columns:]
	}
	return nil
}

// execAll runs a bulk statement that answers nothing, with b.columns arguments
// for each row.
func (t *tx) execAll(ctx context.Context, b bulk, args []any) error {
	return t.chunks(ctx, b, args, func(s *sql.Stmt, args []any) error {
		_, err := s.ExecContext(ctx, args...)
		return err
	})
}

// queryAll runs a bulk statement and returns what it answers with, in no
// order.
func queryAll[T any](ctx context.Context, t *tx, q bulkQuery[T]) ([]T, error) {
	var all []T
	err := t.chunks(ctx, q.bulk, q.args, func(s *sql.Stmt, args []any) error {
		rows, err := s.QueryContext(ctx, args...)
		if err != nil {
			return err
		}
		some, err := collect(rows, q.scan)
		all = append(all, some...)
		return err
	})
	return all, err
}

// bulkQuery is a bulk statement with its arguments and how to read its rows.
type bulkQuery[T any] struct {
	bulk
	args []any
	scan func(*sql.Rows, *T) error
}

// collect reads all rows and closes them.
func collect[T any](rows *sql.Rows, scan func(*sql.Rows, *T) error) (all []T, err error) {
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var one T
		if err := scan(rows, &one); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, rows.Err()
}

func (t *tx) prepare(ctx context.Context, s statement) (*sql.Stmt, error) {
	if prepared, ok := t.statements[s]; ok {
		return prepared, nil
	}
	text := s.head
	if s.rows > 0 {
		text += tuples(s.rows, s.columns) + s.tail
	}
	prepared, err := t.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare %.40q: %w", text, err)
	}
	t.statements[s] = prepared
	return prepared, nil
}
