package lab

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	_ "modernc.org/sqlite" // the driver of the server's own files
)

// Fill writes rows into the store of a server while the server does not run. ID, At, Key, Bytes,
// Series and Back return SQL for the store. Their text arguments are SQL too.
type Fill interface {
	// Do runs statements.
	Do(ctx context.Context, sql string) error
	// Copy makes copies of a row.
	Copy(ctx context.Context, c Copies) error
	// End ends the filling. The server may be started afterwards.
	End(ctx context.Context) error

	// ID returns the id for an instant in Unix milliseconds and a number n.
	ID(ms, n string) string
	// At returns an instant in Unix milliseconds.
	At(ms string) string
	// Key returns an id.
	Key(id [16]byte) string
	// Bytes returns bytes.
	Bytes(b []byte) string
	// Series returns a source of numbers i: 1, 1 + step and so on, up to last.
	Series(last, step int) string
	// Back returns the begin of a step of that many seconds, i steps before the step of the instant
	// at.
	Back(at string, seconds int) string
}

// Fill prepares the store of a server that has ended for many new rows. SQLite drops its indexes
// and makes them again at the end.
func (l *Lab) Fill(ctx context.Context, s *Server) (Fill, error) { return l.fill(ctx, s, true) }

// FillFurther does what [Lab.Fill] does, for a few rows. It keeps the indexes, so afterwards the
// file is as if the server had stored the rows.
func (l *Lab) FillFurther(ctx context.Context, s *Server) (Fill, error) { return l.fill(ctx, s, false) }

func (l *Lab) fill(ctx context.Context, s *Server, anew bool) (Fill, error) {
	if s.dsn != "" {
		f := &postgresFill{lab: l, server: s}
		f.script.WriteString(SeedSQL)
		return f, nil
	}
	return openSQLiteFill(ctx, filepath.Join(s.dir, "postrider.db"), anew)
}

// postgresFill collects a script. The script's temporary functions exist as long as the connection
// that runs it.
type postgresFill struct {
	lab    *Lab
	server *Server
	script strings.Builder
}

// Do adds statements to the script.
func (f *postgresFill) Do(_ context.Context, statements string) error {
	f.script.WriteString(statements + ";\n")
	return nil
}

// Copy adds the copies to the script.
func (f *postgresFill) Copy(_ context.Context, c Copies) error {
	f.script.WriteString(c.SQL())
	return nil
}

// End runs the script.
func (f *postgresFill) End(ctx context.Context) error {
	_, err := f.lab.SQL(ctx, f.server, f.script.String()+"vacuum (analyze);\ncheckpoint;")
	return err
}

// ID implements [Fill].
func (f *postgresFill) ID(ms, n string) string { return fmt.Sprintf("pg_temp.make_id(%s, %s)", ms, n) }

// At implements [Fill].
func (f *postgresFill) At(ms string) string { return fmt.Sprintf("to_timestamp((%s) / 1000.0)", ms) }

// Key implements [Fill].
func (f *postgresFill) Key(id [16]byte) string { return fmt.Sprintf("'%x'::uuid", id) }

// Bytes implements [Fill].
func (f *postgresFill) Bytes(b []byte) string { return fmt.Sprintf("decode('%x', 'hex')", b) }

// Series implements [Fill].
func (f *postgresFill) Series(last, step int) string {
	return fmt.Sprintf("generate_series(1::bigint, %d, %d) i", last, step)
}

// Back implements [Fill].
func (f *postgresFill) Back(at string, seconds int) string {
	return fmt.Sprintf("to_timestamp(floor(extract(epoch from %s) / %d - i) * %[2]d)", at, seconds)
}

// sqliteFill writes to the file. For many rows it makes the indexes of the long tables again at the
// end, which takes less time than to maintain them.
type sqliteFill struct {
	db      *sql.DB
	indexes []string // the statements that make the indexes; empty: the indexes stay
}

// longTables are the tables that a history fills.
const longTables = `('attempts', 'attempt_bodies', 'events', 'dead_letters', 'queue', 'rollups')`

func openSQLiteFill(ctx context.Context, file string, anew bool) (*sqliteFill, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(off)&_pragma=synchronous(off)&_pragma=cache_size(-500000)")
	if err != nil {
		return nil, fmt.Errorf("fill the store: %w", err)
	}
	db.SetMaxOpenConns(1) // one connection, because temporary tables belong to it
	f := &sqliteFill{db: db}
	if !anew {
		return f, nil
	}
	names, err := f.texts(ctx, `select name from sqlite_master where type = 'index' and sql is not null and tbl_name in `+longTables+
		` order by name`)
	if err == nil {
		f.indexes, err = f.texts(ctx, `select sql from sqlite_master where type = 'index' and sql is not null and tbl_name in `+longTables+
			` order by name`)
	}
	for _, name := range names {
		err = errors.Join(err, f.Do(ctx, "drop index "+name))
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return f, nil
}

// texts returns the texts that a query selects.
func (f *sqliteFill) texts(ctx context.Context, query string, args ...any) (texts []string, err error) {
	rows, err := f.db.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("fill the store: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return nil, fmt.Errorf("fill the store: %w", err)
		}
		texts = append(texts, text)
	}
	return texts, rows.Err()
}

// Do runs statements.
func (f *sqliteFill) Do(ctx context.Context, statements string) error {
	if _, err := f.db.ExecContext(ctx, statements); err != nil {
		return fmt.Errorf("fill the store: %w\n%s", err, statements)
	}
	return nil
}

// Copy does what SeedSQL does in PostgreSQL. The source is the outer loop of the join; otherwise
// SQLite would store the rows of the source first.
func (f *sqliteFill) Copy(ctx context.Context, c Copies) error {
	columns, err := f.texts(ctx, `select name from pragma_table_info(?)`, c.Table)
	if err != nil {
		return err
	}
	values := make([]string, len(columns))
	for i, column := range columns {
		values[i] = "base." + column
		if value, ok := c.Overrides[column]; ok {
			values[i] = value
		}
	}
	names := strings.Join(columns, ", ")
	result, err := f.db.ExecContext(ctx,
		fmt.Sprintf("insert into %[1]s (%[2]s) select %[3]s from %[4]s cross join (select %[2]s from %[1]s where %[5]s limit 1) base",
			c.Table, names, strings.Join(values, ", "), c.Source, c.Which))
	if err != nil {
		return fmt.Errorf("copy a row of %s: %w", c.Table, err)
	}
	if made, err := result.RowsAffected(); err != nil || made == 0 {
		return fmt.Errorf("copy a row of %s: there is none with %s (%w)", c.Table, c.Which, err)
	}
	return nil
}

// End makes the indexes again and closes the file.
func (f *sqliteFill) End(ctx context.Context) error {
	var errs []error
	for _, index := range f.indexes {
		errs = append(errs, f.Do(ctx, index))
	}
	return errors.Join(append(errs, f.db.Close())...)
}

// ID implements [Fill].
func (f *sqliteFill) ID(ms, n string) string {
	return fmt.Sprintf("unhex(format('%%012x7%%03x8%%015x', %s, (%s) & 4095, %[2]s))", ms, n)
}

// At implements [Fill].
func (f *sqliteFill) At(ms string) string { return fmt.Sprintf("((%s) * 1000)", ms) }

// Key implements [Fill].
func (f *sqliteFill) Key(id [16]byte) string { return fmt.Sprintf("x'%x'", id) }

// Bytes implements [Fill].
func (f *sqliteFill) Bytes(b []byte) string { return fmt.Sprintf("x'%x'", b) }

// Series implements [Fill].
func (f *sqliteFill) Series(last, step int) string {
	return fmt.Sprintf("(with recursive numbers (i) as (select 1 union all select i + %d from numbers where i + %[1]d <= %d) select i from numbers) series",
		step, last)
}

// Back implements [Fill].
func (f *sqliteFill) Back(at string, seconds int) string {
	return fmt.Sprintf("((%s) / %d - i) * %[2]d", at, seconds*1_000_000)
}
