package outbox_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/testkit"
)

// debezium is the table that Debezium's documentation describes, with a column of the time.
const debezium = `create table outbox (id uuid primary key default gen_random_uuid(), aggregatetype text, aggregateid text, type text,
	payload jsonb, created_at timestamptz not null default clock_timestamp())`

// mapped is the mapping of debezium.
var mapped = postrider.SourceTable{
	Name: "public.outbox", ID: "id", Order: "created_at", FixedAccount: "acme", Type: "type", Data: "payload", OrderingKey: "aggregateid",
}

// ownWorld returns a database with a table of the producer's own, and a config that reads it.
func ownWorld(t *testing.T, dsn, table string, mapping postrider.SourceTable) (*world, outbox.Config) {
	t.Helper()
	w := &world{t, dsn, nil, connect(t, dsn)}
	w.exec(table)
	return w, outbox.Config{URL: dsn, Local: true, Table: &mapping, Source: postrider.SourceID{1}}
}

// openOwn opens the table.
func (w *world) openOwn(c outbox.Config) {
	w.Helper()
	db, err := outbox.Open(w.Context(), c)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(db.Close)
	w.db = db
}

// own polls the table once, and returns the rows and their data.
func (w *world) own(window *outbox.Window) ([]outbox.Row, string) {
	w.Helper()
	rows, _, err := w.db.Poll(w.Context(), window, 100)
	if err != nil {
		w.Fatal(err)
	}
	return rows, data(rows)
}

// wantOwn checks what a poll returns.
func (w *world) wantOwn(window *outbox.Window, want string) []outbox.Row {
	w.Helper()
	rows, got := w.own(window)
	if got != want {
		w.Errorf("the rows are %s, want %s", got, want)
	}
	return rows
}

func (w *world) moveOwn(m outbox.Moved) {
	w.Helper()
	if err := w.db.Move(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}

func TestATableOfTheProducersOwnIsRead(t *testing.T) {
	t.Parallel()
	w, c := ownWorld(t, emptyDSN(t), debezium, mapped)
	w.openOwn(c)
	late := connect(t, w.dsn)
	tx, err := late.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), "insert into outbox (aggregateid, type, payload) values ('o1', 'order.created', '1')")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.exec("insert into outbox (aggregateid, type, payload) values ('o2', 'order.created', '2'), ('o2', 'order.paid', '3')")
	window := new(outbox.Window)
	rows := w.wantOwn(window, "[2 3]")
	if c := rows[1].Create; c.Account != "acme" || c.Type != "order.paid" || c.OrderingKey != "o2" {
		t.Errorf("the event is %+v", c)
	}
	if want := strings.ReplaceAll(rows[0].Key, "-", ""); fmt.Sprintf("%x", rows[0].ID[:]) != want || rows[0].PublishedAt.IsZero() {
		t.Errorf("the row %s has the id %x and the time %s", want, rows[0].ID[:], rows[0].PublishedAt)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.moveOwn(outbox.Moved{Rows: rows[:1]})
	w.moveOwn(outbox.Moved{Rows: rows[:1]}) // a repetition is no error
	rows = w.wantOwn(window, "[1 3]")
	place, err := w.db.Row(t.Context(), rows[0].ID)
	if err != nil || place.Where != "waiting" {
		t.Errorf("the row is %+v, %v", place, err)
	}
	stats, err := w.db.Stats(t.Context())
	if err != nil || stats.Waiting != 2 || !stats.Oldest.Equal(rows[0].PublishedAt) || stats.Rejected != 0 {
		t.Errorf("Stats = %+v, %v", stats, err)
	}
	w.exec("update outbox set payload = '4' where payload = '1'") // another row, as after a failover
	w.moveOwn(outbox.Moved{Rows: rows})
	w.moveOwn(outbox.Moved{Rows: w.wantOwn(window, "[4]")})
	if n := w.number("select count(*) from outbox"); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}

func TestRejectedRowsOfAnOwnTableDoNotStopTheOthers(t *testing.T) {
	t.Parallel()
	mapping := postrider.SourceTable{Name: "shop.Out box", ID: "Nr", Account: "who", Type: "kind", Data: "body"}
	w, c := ownWorld(t, emptyDSN(t), `create schema shop;
		create table shop."Out box" ("Nr" bigint primary key, who text, kind text, body bytea);
		insert into shop."Out box" values (1, null, null, null), (2, 'acme', 'a', '{ "n": 1e400 }'), (3, 'globex', 'a', '3'),
			(4, 'acme', 'a', '4')`, mapping)
	w.openOwn(c)
	window := new(outbox.Window)
	rows := w.wantOwn(window, `[ { "n": 1e400 } 3 4]`)
	if rows[0].Create.Account != "" || rows[0].Key != "1" {
		t.Errorf("the first row is %+v", rows[0])
	}
	ids := []postrider.OutboxID{rows[0].ID, rows[1].ID, rows[2].ID, rows[3].ID}
	slices.SortFunc(ids, postrider.OutboxID.Compare)
	if len(slices.Compact(ids)) != 4 {
		t.Errorf("rows have the same id: %v", ids)
	}
	w.moveOwn(outbox.Moved{Rejected: []outbox.Rejection{{Row: rows[0]}}})
	w.wantOwn(window, `[{ "n": 1e400 } 3 4]`)
	if stats, err := w.db.Stats(t.Context()); err != nil || stats.Rejected != 1 || stats.Waiting != 3 {
		t.Errorf("Stats = %+v, %v", stats, err)
	}
	window.Held = []string{"acme"}
	w.wantOwn(window, "[3]")
	due, _, more, err := w.db.OfAccount(t.Context(), window, "acme", 0, 1)
	if err != nil || !more || data(due) != `[{ "n": 1e400 }]` {
		t.Errorf("OfAccount = %s, %t, %v", data(due), more, err)
	}
	again, err := outbox.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if head, err := again.Head(t.Context(), 10); err != nil || len(head) != 4 || head[0].ID != rows[0].ID {
		t.Errorf("another reader sees %d rows, %v", len(head), err)
	}
	if n, err := again.Expunge(t.Context(), "acme", "x"); err != nil || n != 2 {
		t.Errorf("Expunge = %d, %v", n, err)
	}
	if n, err := again.Remove(t.Context(), rows); err != nil || n != 2 {
		t.Errorf("Remove = %d, %v", n, err)
	}
}

// A rejected row is tried again after a minute. If it is not rejected then, it is forgotten.
func TestARejectedRowOfAnOwnTableIsTriedAgain(t *testing.T) {
	t.Parallel()
	w, c := ownWorld(t, emptyDSN(t), debezium+"; insert into outbox (type, payload) values ('a', '1'), ('a', '2')", mapped)
	w.openOwn(c)
	window := new(outbox.Window)
	rows := w.wantOwn(window, "[1 2]")
	rejected := func(want int64) {
		t.Helper()
		if stats, err := w.db.Stats(t.Context()); err != nil || stats.Rejected != want {
			t.Errorf("%d rows are rejected, %v; want %d", stats.Rejected, err, want)
		}
	}
	w.moveOwn(outbox.Moved{Rejected: []outbox.Rejection{{Row: rows[0]}, {Row: rows[1]}}})
	w.db.Age(59 * time.Second)
	w.wantOwn(window, "[]")
	w.db.Age(2 * time.Second)
	w.wantOwn(window, "[1 2]")
	rejected(2)
	w.moveOwn(outbox.Moved{Rows: rows[:1]})
	rejected(1)
	w.db.Age(time.Minute)
	w.wantOwn(window, "[2]")
	rejected(0)
	many := make([]outbox.Rejection, 10_001)
	for i := range many {
		many[i].Key = fmt.Sprint(i)
	}
	w.moveOwn(outbox.Moved{Rejected: many})
	_, _, err := w.db.Poll(t.Context(), window, 1)
	if err == nil || !strings.Contains(err.Error(), "more than 10000 rows of the table public.outbox are rejected") {
		t.Errorf("Poll beside many rejected rows = %v", err)
	}
}

func TestAPageOfAnOwnTableFitsIntoMemory(t *testing.T) {
	t.Parallel()
	w, c := ownWorld(t, emptyDSN(t), debezium, mapped)
	w.exec("insert into outbox (type, payload) select 'a', to_jsonb(repeat('x', 1000000)) from generate_series(1, 20)")
	w.exec(`insert into outbox (type, payload, created_at) values ('a', to_jsonb(repeat('x', 1100000)), '2020-01-01')`)
	w.openOwn(c)
	window, read := new(outbox.Window), 0
	for more := true; more; {
		var rows []outbox.Row
		var err error
		if rows, more, err = w.db.Poll(t.Context(), window, 100); err != nil || len(rows) == 0 || len(rows) > 10 {
			t.Fatalf("a page has %d rows, %v", len(rows), err)
		}
		if read == 0 && (rows[0].Fault == nil || !strings.Contains(rows[0].Fault.Error(), "must be at most")) {
			t.Errorf("the fault of a row that is too large is %v", rows[0].Fault)
		}
		read += len(rows)
		w.moveOwn(outbox.Moved{Rows: rows})
	}
	if read != 21 {
		t.Errorf("%d rows were read, want 21", read)
	}
}

func TestATableThatCannotBeAnOutboxIsRefused(t *testing.T) {
	t.Parallel()
	with := func(change func(*postrider.SourceTable)) postrider.SourceTable {
		mapping := mapped
		change(&mapping)
		return mapping
	}
	const deleting = `; create function gone() returns trigger language plpgsql as $$
		begin delete from outbox where id = new.id; return null; end $$;
		create trigger gone_at_once after insert on outbox for each row execute function gone()`
	for name, tt := range map[string]struct {
		table   string
		mapping postrider.SourceTable
		want    string
	}{
		"no table":     {"create table other ()", mapped, "the table public.outbox is not there"},
		"a view":       {"create view outbox as select 1 as id", mapped, "is no plain table"},
		"no column":    {strings.ReplaceAll(debezium, "payload", "pay"), mapped, "has no column payload"},
		"no unique id": {strings.ReplaceAll(debezium, "primary key", "not null"), mapped, "needs a primary key of the column id alone"},
		"an id of two": {
			strings.ReplaceAll(debezium, "primary key", "not null") + "; alter table outbox add primary key (id, created_at)",
			mapped, "needs a primary key",
		},
		"an id of a time": {
			strings.ReplaceAll(debezium, "id uuid primary key default gen_random_uuid()", "id date primary key"), mapped,
			"has ids of the type date",
		},
		"an id or null": {strings.ReplaceAll(debezium, "primary key", "unique"), mapped, "with not null"},
		"no order":      {debezium, with(func(m *postrider.SourceTable) { m.Order = "" }), "needs one for the order, whose values rise"},
		"a wrong order": {debezium, with(func(m *postrider.SourceTable) { m.Order = "x" }), "has no column x"},
		"an odd order": {
			debezium + "; alter table outbox add place json",
			with(func(m *postrider.SourceTable) { m.Order = "place" }), "cannot be read with these columns",
		},
		"a trigger":      {debezium + deleting, mapped, "has the trigger gone_at_once, whose function deletes"},
		"its own rights": {debezium, mapped, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, c := ownWorld(t, emptyDSN(t), tt.table, tt.mapping)
			wantOpen(t, c, tt.want)
		})
	}
}

// wantOpen checks the error of Open; "" is none.
func wantOpen(t *testing.T, c outbox.Config, want string) {
	t.Helper()
	db, err := outbox.Open(t.Context(), c)
	switch {
	case err == nil && want == "":
		db.Close()
	case err == nil:
		db.Close()
		t.Errorf("Open took the table, want %q", want)
	case want == "" || !strings.Contains(err.Error(), want):
		t.Errorf("Open = %v, want %q", err, want)
	}
}

func TestRightsAtAnOwnTable(t *testing.T) {
	t.Parallel()
	w, c := ownWorld(t, emptyDSN(t), debezium+"; insert into outbox (type, payload) values ('a', '1')", mapped)
	role, dsn := w.role()
	c.URL = dsn
	wantOpen(t, c, "grant select, delete on public.outbox")
	w.exec("grant select on outbox to " + role)
	wantOpen(t, c, "grant select, delete on public.outbox")
	w.exec("grant delete on outbox to " + role)
	w.openOwn(c)
	w.exec("alter table outbox enable row level security")
	wantOpen(t, c, "has row security for the role")
	w.exec("alter table outbox disable row level security")
	rows, _ := w.own(new(outbox.Window))
	w.exec("create function keep() returns trigger language plpgsql as 'begin return null; end'",
		"create trigger keep before delete on outbox for each row execute function keep()")
	err := w.db.Move(t.Context(), outbox.Moved{Rows: rows})
	if err == nil || !strings.Contains(err.Error(), "a trigger or a rule of the table keeps them") {
		t.Errorf("Move of rows that stay = %v", err)
	}
	w.exec("revoke delete on outbox from " + role)
	if err := w.db.Move(t.Context(), outbox.Moved{}); !outbox.Denied(err) {
		t.Errorf("Move without the right = %v", err)
	}
}

// A connector of Debezium reads the table through a slot, by a publication that has the table.
func TestASlotThatReadsTheTableIsRefused(t *testing.T) {
	t.Parallel()
	cluster, err := testkit.StartPostgres("", "wal_level=logical")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	dsn, err := cluster.Database(t.Context(), "shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	w, c := ownWorld(t, dsn, debezium, mapped)
	w.exec("create table other ()", "create publication dbz_publication for table other",
		"select pg_create_logical_replication_slot('debezium', 'pgoutput')")
	wantOpen(t, c, "")
	w.exec("alter publication dbz_publication add table outbox")
	wantOpen(t, c, "is read through the replication slot debezium")
	w.exec("select pg_drop_replication_slot('debezium')")
	wantOpen(t, c, "")
}

// The store records a row by its id, so it needs one.
func TestARowWithAZeroUUID(t *testing.T) {
	t.Parallel()
	const insert = "insert into outbox (id, aggregateid, type, payload) values ('00000000-0000-0000-0000-000000000000', 'k', 'a.b', '1')"
	w, config := ownWorld(t, emptyDSN(t), debezium, mapped)
	w.exec(insert)
	w.openOwn(config)
	if rows := w.wantOwn(new(outbox.Window), "[1]"); rows[0].ID.IsZero() || rows[0].Fault != nil {
		t.Errorf("in a table of the producer's own: %+v", rows[0])
	}
	w = newWorld(t)
	w.exec("insert into postrider.outbox (id, account, type, data) values ('00000000-0000-0000-0000-000000000000', 'acme', 'a.b', '1')")
	if rows := w.poll(new(outbox.Window), 1); len(rows) != 1 || !outbox.IsFault(rows[0].Fault) {
		t.Errorf("in the outbox: %+v", rows)
	}
}
