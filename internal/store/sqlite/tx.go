package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider/internal/store"
)

// tx is the writer's connection with an open transaction. One tx lives as long as the writer, and
// only the writer's goroutine uses it. Jobs get it as an argument.
type tx struct {
	conn       *sql.Conn
	clock      *store.Clock
	now, wall  time.Time               // set by runJob for each job: now decides which work is due, wall is what people see
	recorded   store.Deltas            // the records of the job so far; runJob empties it and stores its delta
	statements map[statement]*sql.Stmt // filled by prepare; closed by close
}

// statement is the key of a prepared statement: its text and, for a bulk statement, its number of
// rows.
type statement struct {
	bulk
	rows int // 0: the statement is not a bulk statement, and its text is head
}

// bulk is a statement for any number of rows. The placeholders of the rows are between head and
// tail. Example: head is "delete from queue where id in (values ", tail is ")", and there is one
// column. For two rows the text is "delete from queue where id in (values (?),(?))". One call of
// the driver with many rows is cheaper than many calls with one row.
type bulk struct {
	head, tail string
	columns    int // number of placeholders of a row
}

// lockTries is how often begin tries to get the file's lock while another process, such as a
// backup, has it. Each try waits for busy_timeout, which is a second in total.
const lockTries = 5

// begin takes the write lock at once (immediate). A transaction that began as a reader would have
// to take it later, and SQLite refuses that if another process has written in between.
func (t *tx) begin(ctx context.Context) (err error) {
	for range lockTries {
		err = t.exec(ctx, "begin immediate")
		if err == nil || classOf(err) != classBusy {
			return err
		}
	}
	return err
}

// rollback ends the transaction. After some errors, for example a full disk, SQLite has ended the
// transaction itself. Then "rollback" returns an error, which is ignored.
func (t *tx) rollback(ctx context.Context) error {
	err := t.exec(ctx, "rollback")
	if classOf(err) == classOther {
		return nil
	}
	return err
}

// close closes the prepared statements and the connection.
func (t *tx) close() error {
	var err error
	for _, s := range t.statements {
		err = errors.Join(err, s.Close())
	}
	return errors.Join(err, t.conn.Close())
}

// exec runs a statement that returns no rows.
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

// query runs a statement that returns rows. The caller must read all rows with collect.
func (t *tx) query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	s, err := t.prepare(ctx, statement{bulk: bulk{head: query}})
	if err != nil {
		return nil, err
	}
	return s.QueryContext(ctx, args...)
}

// row runs a statement that returns one row.
func (t *tx) row(ctx context.Context, query string, args ...any) row {
	s, err := t.prepare(ctx, statement{bulk: bulk{head: query}})
	if err != nil {
		return row{err: err}
	}
	return row{row: s.QueryRowContext(ctx, args...)}
}

// row is a [sql.Row], or the error of preparing its statement.
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

// sizes are the numbers of rows for which bulk statements are prepared. A few sizes keep the
// number of prepared statements small, and a call needs few of them: 100 rows are 64, 16, 16 and
// 4.
var sizes = []int{256, 64, 16, 4, 1}

// chunks cuts the arguments of a bulk statement into pieces of these sizes, the largest first,
// and calls run with the prepared statement of each. Example: 70 rows of 13 columns are 910
// arguments; they become calls with 64, 4, 1 and 1 rows.
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

// execAll runs a bulk statement that returns no rows. args has b.columns values for each row, one
// row after the other. Without args nothing is run.
func (t *tx) execAll(ctx context.Context, b bulk, args []any) error {
	return t.chunks(ctx, b, args, func(s *sql.Stmt, args []any) error {
		_, err := s.ExecContext(ctx, args...)
		return err
	})
}

// queryAll runs a bulk statement and returns its rows, in no order.
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

// bulkQuery is a bulk statement with its arguments and a function that reads its rows.
type bulkQuery[T any] struct {
	bulk
	args []any                     // bulk.columns values for each row
	scan func(*sql.Rows, *T) error // reads one row of the result
}

// collect reads all rows and closes them. Open rows would keep their statement busy, and the
// writer has only one connection.
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

// prepare returns the prepared statement, and prepares it the first time. Parsing takes longer
// than running most statements.
func (t *tx) prepare(ctx context.Context, s statement) (*sql.Stmt, error) {
	if prepared, ok := t.statements[s]; ok {
		return prepared, nil
	}
	text := s.head
	if s.rows > 0 { // a bulk statement
		text += tuples(s.rows, s.columns) + s.tail
	}
	prepared, err := t.conn.PrepareContext(ctx, text)
	if err != nil {
		return nil, fmt.Errorf("prepare %.40q: %w", text, err)
	}
	t.statements[s] = prepared
	return prepared, nil
}
