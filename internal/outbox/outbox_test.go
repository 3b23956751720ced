package outbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// freshDSN returns a database with an outbox.
func freshDSN(t testing.TB) string {
	t.Helper()
	return testkit.Postgres(t, func(ctx context.Context, dsn string) error {
		return outbox.Install(ctx, outbox.Config{URL: dsn, Local: true}, false)
	})
}

// emptyDSN returns a database without an outbox.
func emptyDSN(t testing.TB) string {
	t.Helper()
	return testkit.Postgres(t, nil)
}

// world is a producer's database with its outbox.
type world struct {
	*testing.T

	dsn  string
	db   *outbox.DB
	conn *pgx.Conn
}

func newWorld(t *testing.T) *world {
	t.Helper()
	dsn := freshDSN(t)
	return &world{t, dsn, openAt(t, dsn), connect(t, dsn)}
}

// openAt opens the outbox of a database.
func openAt(t *testing.T, dsn string) *outbox.DB {
	t.Helper()
	db, err := outbox.Open(t.Context(), outbox.Config{URL: dsn, Local: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

var roles atomic.Int64

// role makes a role that may do what the other roles may, and returns a DSN for it.
func (w *world) role(granted ...string) (name, dsn string) {
	w.Helper()
	name = fmt.Sprintf("role_%d", roles.Add(1)) // roles are of the whole cluster
	w.exec("create role " + name + " login")
	for _, other := range granted {
		w.exec("grant " + other + " to " + name)
	}
	return name, strings.Replace(w.dsn, "postgres@", name+"@", 1)
}

// exec runs statements.
func (w *world) exec(statements ...string) {
	w.Helper()
	for _, statement := range statements {
		if _, err := w.conn.PgConn().Exec(w.Context(), statement).ReadAll(); err != nil {
			w.Fatalf("%s: %v", statement, err)
		}
	}
}

// number returns the number that a statement selects.
func (w *world) number(statement string, args ...any) (n int64) {
	w.Helper()
	if err := w.conn.QueryRow(w.Context(), statement, args...).Scan(&n); err != nil {
		w.Fatalf("%s: %v", statement, err)
	}
	return n
}

// poll returns all rows that a window has.
func (w *world) poll(window *outbox.Window, n int) (all []outbox.Row) {
	w.Helper()
	for {
		rows, more, err := w.db.Poll(w.Context(), window, n)
		if err != nil {
			w.Fatal(err)
		}
		all = append(all, rows...)
		if !more {
			return all
		}
	}
}

// data returns the data of rows.
func data(rows []outbox.Row) string {
	var all []json.RawMessage
	for _, r := range rows {
		all = append(all, r.Create.Data)
	}
	return fmt.Sprintf("%s", all)
}

// wantData checks the data of the rows of a new window.
func (w *world) wantData(want string) {
	w.Helper()
	if got := data(w.poll(new(outbox.Window), 100)); got != want {
		w.Errorf("the rows are %s, want %s", got, want)
	}
}

// wantRefused checks that a statement is refused. want is the SQLSTATE and a part of the message.
func wantRefused(t *testing.T, conn *pgx.Conn, want, statement string) {
	t.Helper()
	_, err := conn.Exec(t.Context(), statement)
	code, text, _ := strings.Cut(want, " ")
	refused, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || refused.Code != code || !strings.Contains(refused.Message, text) {
		t.Errorf("%s: %v, want %s", statement, err, want)
	}
}
