package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/testkit"
)

// A row is there if its work was committed, and only then.
func TestPublishFollowsItsTransaction(t *testing.T) {
	t.Parallel()
	publish := func(data string) string { return "select postrider.publish('acme', 'order.created', '" + data + "')" }
	for name, tt := range map[string]struct {
		statements []string
		want       string
	}{
		"commit":             {[]string{"begin", publish("1"), publish("2"), "commit"}, "[1 2]"},
		"rollback":           {[]string{"begin", publish("1"), "rollback"}, "[]"},
		"savepoint":          {[]string{"begin", publish("1"), "savepoint s", publish("2"), "rollback to s", publish("3"), "commit"}, "[1 3]"},
		"released savepoint": {[]string{"begin", "savepoint s", publish("1"), "release s", "commit"}, "[1]"},
		"DO block":           {[]string{"do $$ begin perform postrider.publish('acme', 'order.created', '1'); end $$"}, "[1]"},
		"block that fails": {[]string{`do $$ begin
			begin perform postrider.publish('acme', 'order.created', '1'); perform 1/0; exception when division_by_zero then end;
			perform postrider.publish('acme', 'order.created', '2'); end $$`}, "[2]"},
		"trigger": {[]string{
			"create table orders (id int)", `create function told() returns trigger language plpgsql as $$ begin
				perform postrider.publish('acme', 'order.created', to_json(new.id)); return new; end $$`,
			"create trigger tell before insert on orders for each row execute function told()",
			"insert into orders values (1), (2)", "begin", "insert into orders values (3)", "rollback",
		}, "[1 2]"},
		"two phases, committed": {[]string{"begin", publish("1"), "prepare transaction 'a'", publish("2"), "commit prepared 'a'"}, "[1 2]"},
		"two phases, open":      {[]string{"begin", publish("1"), "prepare transaction 'b'", publish("2")}, "[2]"},
		"two phases, back":      {[]string{"begin", publish("1"), "prepare transaction 'c'", "rollback prepared 'c'"}, "[]"},
		"copied": {[]string{
			"create table o as select g from generate_series(1, 3) g",
			"select postrider.publish('acme', 'order.created', to_json(g)) from o",
		}, "[1 2 3]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.exec(tt.statements...)
			w.wantData(tt.want)
			if name == "two phases, open" {
				w.exec("rollback prepared 'b'") // no database is dropped before
			}
		})
	}
}

// Each argument comes out as a field of the API's event.
func TestPublishKeepsEveryField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	at := time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC)
	var id, second string
	err := w.conn.QueryRow(t.Context(), `
		select postrider.publish(account => 'acme', type => 'order.created', data => '{"a": 1}', idempotency_key => 'k',
		ordering_key => 'o', api_version => '2', max_attempts => 3, subject => 's', channels => '{c,d}',
		metadata => '{"m": "1"}', internal => '{"i": "2"}',
		previous => ' {"a":  0} ', endpoints => '{e}', hops => 2, traceparent => 'tp', tracestate => 'ts', occurred_at => $1)`, at).Scan(&id)
	if err != nil {
		t.Fatal(err)
	}
	err = w.conn.QueryRow(t.Context(), `select postrider.publish_bytes('acme', 'report.made', '\xff00', 'image/png', changed_paths => '{$.a}')`).Scan(&second)
	if err != nil {
		t.Fatal(err)
	}
	rows := w.poll(new(outbox.Window), 10)
	if len(rows) != 2 || rows[0].ID.String() != id || rows[1].ID.String() != second || rows[0].Fault != nil || rows[1].Fault != nil {
		t.Fatalf("got %+v, want the ids %s and %s", rows, id, second)
	}
	three := 3
	want := apitypes.EventCreate{
		About: apitypes.About{
			Subject: "s", Channels: []string{"c", "d"}, Metadata: map[string]string{"m": "1"}, Internal: map[string]string{"i": "2"},
			Previous: []byte(`{"a":  0}`),
		},
		Account: "acme", Type: "order.created", Data: []byte(`{"a": 1}`), IdempotencyKey: "k", OrderingKey: "o", APIVersion: "2",
		Endpoints: []string{"e"}, MaxAttempts: &three, Hops: 2, TraceParent: "tp", TraceState: "ts",
	}
	if diff := cmp.Diff(want, rows[0].Create); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = apitypes.EventCreate{
		About:   apitypes.About{ChangedPaths: []string{"$.a"}, ContentType: "image/png"},
		Account: "acme", Type: "report.made", Data: []byte(`"/wA="`), DataEncoding: "base64",
	}
	if diff := cmp.Diff(want, rows[1].Create); diff != "" {
		t.Errorf("bytes (-want +got):\n%s", diff)
	}
	now := func(at time.Time) bool { return time.Since(at).Abs() < time.Minute }
	if !rows[0].OccurredAt.Equal(at) || !now(rows[1].OccurredAt) || !now(rows[0].PublishedAt) {
		t.Errorf("the events occurred at %s and %s, and were published at %s", rows[0].OccurredAt, rows[1].OccurredAt, rows[0].PublishedAt)
	}
}

// The id that the function returns is the text of the row's id.
func TestRowIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for range 100 {
		var text string
		var id [16]byte
		err := w.conn.QueryRow(t.Context(), "select postrider.row_id(id), id from (select gen_random_uuid() as id) x").Scan(&text, &id)
		if err != nil || postrider.OutboxID(id).String() != text {
			t.Fatalf("%x is %s, want %s: %v", id, text, postrider.OutboxID(id), err)
		}
	}
}

func TestPublishKeepsTheBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, text := range []string{
		`{ "b" : 1,"a":  [ ] }`, `{"a": 1, "a": 2}`, `1e400`, `-0.10`, `"\u00e4ä\/"`, "[1,\n\t2]",
		`123456789012345678901234567890.0`, ` {} `, `"\u0000"`,
	} {
		if _, err := w.conn.Exec(t.Context(), "select postrider.publish('acme', 'a.b', $1)", pgx.QueryExecModeSimpleProtocol, text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		rows := w.poll(new(outbox.Window), 100)
		if got := string(rows[len(rows)-1].Create.Data); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// A caller cannot put functions, tables or operators of its own in the place of PostgreSQL's.
func TestPublishIgnoresThePathOfItsCaller(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, dsn := w.role("postrider_producer")
	conn := connect(t, dsn)
	w.exec("create schema fakes", "grant all on schema fakes to public")
	_, err := conn.PgConn().Exec(t.Context(), `
		create function fakes.stolen() returns boolean language plpgsql as $$
			begin raise exception 'a fake was called as %', current_user; end $$;
		create function fakes.pg_current_xact_id() returns xid8 language sql as $$ select fakes.stolen()::text::xid8 $$;
		create function fakes.nextval(text) returns bigint language sql as $$ select fakes.stolen()::int::bigint $$;
		create function fakes.clock_timestamp() returns timestamptz language sql as $$ select fakes.stolen()::text::timestamptz $$;
		create function fakes.octet_length(text) returns int language sql as $$ select fakes.stolen()::int $$;
		create function fakes.octet_length(bytea) returns int language sql as $$ select fakes.stolen()::int $$;
		create function fakes.cardinality(anyarray) returns int language sql as $$ select fakes.stolen()::int $$;
		create function fakes.eq(text, text) returns boolean language sql as $$ select fakes.stolen() $$;
		create operator fakes.= (leftarg = text, rightarg = text, function = fakes.eq);
		create table fakes.producers (role name);
		create table fakes.outbox (number int);
		create temporary table outbox (number int);
		set search_path = fakes, pg_temp, pg_catalog;
		select postrider.publish('acme', 'order.created', '1', ordering_key => 'k', channels => '{a}', metadata => '{"a": "b"}');
		select postrider.publish('acme', '', '1', on_error => 'reject')`).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	w.wantData("[1]")
}

// The table producers says by the role of the session who may publish what.
func TestProducersAreBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	orders, ordersDSN := w.role("postrider_producer")
	bills, billsDSN := w.role("postrider_producer")
	_, otherDSN := w.role("postrider_producer")
	w.exec(fmt.Sprintf("insert into postrider.producers values ('%s', null, '{order.*,ping}'), ('%s', '{acme}', null)", orders, bills))
	order, bill, other := connect(t, ordersDSN), connect(t, billsDSN), connect(t, otherDSN)
	type calls []struct {
		conn *pgx.Conn
		call string
	}
	for _, allowed := range (calls{
		{order, "'acme', 'order.created'"}, {order, "'globex', 'order.item.added'"}, {order, "'acme', 'ping'"}, {bill, "'acme', 'order.created'"},
	}) {
		if _, err := allowed.conn.Exec(t.Context(), "select postrider.publish("+allowed.call+", '1')"); err != nil {
			t.Errorf("%s: %v", allowed.call, err)
		}
	}
	for _, refused := range (calls{
		{order, "'acme', 'order'"},
		{order, "'acme', 'orders.x'"},
		{order, "'acme', 'ping.x'"},
		{bill, "'globex', 'order.created'"},
		{other, "'acme', 'ping'"},
	}) {
		for _, more := range []string{"", ", on_error => 'reject'"} {
			wantRefused(t, refused.conn, "42501 may not publish events of type", "select postrider.publish("+refused.call+", '1'"+more+")")
		}
	}
	_, err := other.Exec(t.Context(), "select postrider.publish('acme', 'bill.sent', '1')")
	refused, _ := errors.AsType[*pgconn.PgError](err)
	_, allow, _ := strings.Cut(refused.Hint, "allows it: ")
	w.exec(allow[:strings.IndexByte(allow, ';')]) // what the error says
	if _, err := other.Exec(t.Context(), "select postrider.publish('acme', 'bill.sent', '1')"); err != nil {
		t.Error(err)
	}
	// A rejected row would be retried by a person who does not see who may do what.
	wantRefused(t, bill, "42501 may not publish", "select postrider.publish('globex', '', '1', on_error => 'reject')")
	w.exec(fmt.Sprintf("grant %s to %s", bills, orders))
	_, err = order.PgConn().Exec(t.Context(), "set role "+bills+"; select postrider.publish('acme', 'bill.sent', '1')").ReadAll()
	if err == nil || !strings.Contains(err.Error(), "role "+orders+" may not publish") {
		t.Errorf("as another role: %v", err)
	}
}

func TestRejectedRowsKeepTheTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("create table orders (id int)", "begin", "insert into orders values (1)",
		"select postrider.publish('acme', 'a b', '{\"x\": 1}', hops => 9, on_error => 'reject')", "commit")
	rows, next, err := w.db.Rejected(t.Context(), outbox.RejectedQuery{})
	if err != nil || len(rows) != 1 || next != "" || w.number("select count(*) from orders") != 1 {
		t.Fatalf("%+v, %q, %v", rows, next, err)
	}
	r := rows[0]
	if want := "type must be segments of letters, digits, _ and - joined by dots, at most 128 bytes\n" + postrider.ErrLoop.Error(); r.Message != want ||
		r.Code != "malformed" || r.Field != "type" || string(r.Create.Data) != `{"x": 1}` || r.Producer != "postgres" {
		t.Errorf("got %+v, want the message %q", r, want)
	}
	w.wantData("[]")
}

func TestPublishThroughAPooler(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dsn := testkit.PgBouncer(t, w.dsn, "pool_mode = transaction\ndefault_pool_size = 2")
	db := openAt(t, dsn)
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	var window outbox.Window
	for i := range 20 {
		conn, err := pgx.ConnectConfig(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(t.Context(), "select postrider.publish('acme', 'a.b', $1, ordering_key => 'k')", fmt.Sprint(i))
			return err
		})
		_ = conn.Close(t.Context())
		rows, more, pollErr := db.Poll(t.Context(), &window, 10)
		if err != nil || pollErr != nil || more || data(rows) != fmt.Sprintf("[%d]", i) {
			t.Fatalf("got %s, %t, %v, %v", data(rows), more, err, pollErr)
		}
		if err := db.Move(t.Context(), outbox.Moved{Source: source, Cycle: int64(i + 1), At: noon, Rows: rows}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNotify(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	woken := make(chan struct{}, 100)
	if err := w.db.Listen(t.Context(), func() { woken <- struct{}{} }); err != nil || len(woken) != 0 {
		t.Errorf("without the trigger: %v", err)
	}
	at := outbox.Config{URL: w.dsn, Local: true}
	if err := outbox.Install(t.Context(), at, true); err != nil {
		t.Fatal(err)
	}
	if err := outbox.Upgrade(t.Context(), at); err != nil { // keeps the trigger
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { ended <- w.db.Listen(ctx, func() { woken <- struct{}{} }) })
	for deadline := time.After(20 * time.Second); ; {
		w.exec("select postrider.publish('acme', 'a.b', '1')")
		select {
		case <-woken:
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if err := outbox.Install(t.Context(), at, false); err != nil {
				t.Fatal(err)
			}
			if on, err := w.db.Notifies(t.Context()); on || err != nil {
				t.Errorf("after an install without it: %t, %v", on, err)
			}
			return
		case <-time.After(10 * time.Millisecond): // it does not listen yet
		case <-deadline:
			t.Fatal("no notification")
		}
	}
}
