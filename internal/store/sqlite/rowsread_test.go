package sqlite

import (
	"context"
	"database/sql"
	"reflect"
	"testing"
	"time"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/postrider/postrider/internal/store/sqlstore"
	"github.com/postrider/postrider/internal/store/storetest"
	"github.com/postrider/postrider/internal/testkit"
)

var dialect = storetest.Dialect{
	ID:      `unhex(format('%012x%04x8%015x', @base + ($2), 28672 + $1, $2))`,
	Literal: `x'$1'`,
	Hash:    `unhex(format('%064x', $1))`,
	Rows:    `(with recursive n (i) as (select 1 union all select i + 1 from n where i < $1) select i from n)`,
	Bytes:   `x'$1'`,
	Texts:   `'["$1"]'`,
}

// mayThrowAway has the readings that may throw away more rows, besides those of all stores.
var mayThrowAway = []storetest.Excess{
	{
		Verbs: "Deliveries", Of: "skipped deliveries of a job", Most: 2_500,
		Why: "passes over up to 10,000 other deliveries of the job",
	},
	{Verbs: "ClaimDestinations", Most: 20_000, Why: "a destination that is due and has no notice drops out"},
}

// steps returns the statement of a connection that has made the most steps since the last call,
// and their number. The driver has no method for it.
func steps(conn any) (text string, most int) {
	db, tls := uintptr(reflect.ValueOf(conn).Elem().FieldByName("db").Uint()), libc.NewTLS()
	defer tls.Close()
	for s := sqlite3.Xsqlite3_next_stmt(tls, db, 0); s != 0; s = sqlite3.Xsqlite3_next_stmt(tls, db, s) {
		if n := int(sqlite3.Xsqlite3_stmt_status(tls, s, sqlite3.SQLITE_STMTSTATUS_VM_STEP, 1)); n > most {
			text, most = libc.GoString(sqlite3.Xsqlite3_sql(tls, s)), n
		}
	}
	return text, most
}

// TestRowsRead counts the steps of SQLite's virtual machine. A row that a statement returns may
// take as many steps as 80 rows that are only read: it has more columns, and others are looked up
// for it. So the pages are small.
func TestRowsRead(t *testing.T) {
	t.Parallel()
	if testkit.Plain(t) { // runs without the race detector, because the test counts steps and has no races
		return
	}
	const size, returned = 5, 80
	s := opened(t)
	base := time.Now()
	// Readings also calls verbs that write, so it comes before the rows.
	readings := storetest.Readings(t, s, cold{s}, storetest.Pages{Base: base, Size: size})
	crowd := sqlstore.SQLite(storetest.Crowd(dialect, base))
	if err := change(t.Context(), s, func(ctx context.Context, tx *tx) error {
		_, err := tx.conn.ExecContext(ctx, crowd, sql.Named("wall", base.UnixMicro()))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.reads.SetMaxOpenConns(1) // so that one connection has all statements
	step := func() (text string, most int) {
		conn, err := s.reads.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.Raw(func(c any) error { text, most = steps(c); return nil }); err != nil {
			t.Fatal(err)
		}
		return text, most
	}
	step()
	const plainSQL = `select id from events where account = @account order by id desc limit 1000`
	plain := query{plainSQL, []any{sql.Named("account", storetest.Most[:])}}
	if _, err := list(t.Context(), s, plain, func(*sql.Rows, *struct{}) error { return nil }); err != nil {
		t.Fatal(err)
	}
	_, thousand := step()
	storetest.RowsRead(t, readings, mayThrowAway, func(t *testing.T, r storetest.Reading) (int, string) {
		step()
		rows, err := r.Read(t.Context())
		if err != nil {
			t.Errorf("%s, %s: %v", r.Verb, r.Of, err)
		}
		text, most := step()
		return 1000*most/thousand - returned*rows, text
	})
}
