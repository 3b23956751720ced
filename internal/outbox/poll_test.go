package outbox_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/testkit"
)

// producers is a model of transactions that publish: which rows must have been returned, and in which order.
type producers struct {
	w      *world
	conns  []*pgx.Conn
	open   [][]string // of each connection: keys and data of its open transaction; nil: none is open
	wanted map[string]bool
	got    []outbox.Row
	window outbox.Window
	count  int
	cycle  int64
}

func (p *producers) publish(t *rapid.T) {
	i := rapid.IntRange(0, len(p.conns)-1).Draw(t, "connection")
	key := rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "key")
	for other, rows := range p.open {
		if other != i && key != "" && slices.ContainsFunc(rows, func(row string) bool { return strings.HasPrefix(row, key+" ") }) {
			key = "" // another transaction holds it
		}
	}
	if p.open[i] == nil {
		p.exec(t, i, "begin")
	}
	p.count++
	row := fmt.Sprintf("%s %d", key, p.count)
	p.exec(t, i, fmt.Sprintf("select postrider.publish('acme', 'a.b', to_json('%s'::text), ordering_key => '%s')", row, key))
	p.open[i] = append(p.open[i], row)
}

func (p *producers) exec(t *rapid.T, i int, statement string) {
	if _, err := p.conns[i].PgConn().Exec(p.w.Context(), statement).ReadAll(); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
}

func (p *producers) end(t *rapid.T) {
	i := rapid.IntRange(0, len(p.conns)-1).Draw(t, "connection")
	if p.open[i] == nil {
		return
	}
	how := rapid.SampledFrom([]string{"commit", "commit", "rollback"}).Draw(t, "how")
	p.exec(t, i, how)
	for _, row := range p.open[i] {
		if how == "commit" {
			p.wanted[row] = true
		}
	}
	p.open[i] = nil
}

func (p *producers) poll(t *rapid.T) {
	rows, _, err := p.w.db.Poll(p.w.Context(), &p.window, rapid.IntRange(1, 4).Draw(t, "rows"))
	if err != nil {
		t.Fatal(err)
	}
	p.got = append(p.got, rows...)
	if rapid.Bool().Draw(t, "moved") {
		p.cycle++
		err := p.w.db.Move(p.w.Context(), outbox.Moved{Source: source, Cycle: p.cycle, At: noon, Rows: rows})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// check compares the rows that were returned with those that were committed.
func (p *producers) check(t *rapid.T) {
	seen, last := map[string]bool{}, map[string]int{}
	for _, r := range p.got {
		var row string
		var n int
		if err := json.Unmarshal(r.Create.Data, &row); err != nil {
			t.Fatal(err)
		}
		if seen[row] || !p.wanted[row] {
			t.Fatalf("row %q was returned: twice %t, committed %t", row, seen[row], p.wanted[row])
		}
		seen[row] = true
		if _, err := fmt.Sscan(row[strings.Index(row, " "):], &n); err != nil {
			t.Fatal(err)
		}
		if key := r.Create.OrderingKey; key != "" {
			if n < last[key] {
				t.Fatalf("row %q came after %d", row, last[key])
			}
			last[key] = n
		}
	}
}

// Windows return each committed row exactly once, and those of a key in order, however late transactions
// commit.
func TestPollReturnsEachRowOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var conns []*pgx.Conn
	for range 4 {
		conns = append(conns, connect(t, w.dsn))
	}
	rapid.Check(t, func(t *rapid.T) {
		w.exec("truncate postrider.outbox; delete from postrider.outbox_cycle")
		p := &producers{w: w, conns: conns, open: make([][]string, len(conns)), wanted: map[string]bool{}}
		defer func() {
			for i, rows := range p.open {
				if rows != nil {
					p.exec(t, i, "rollback")
				}
			}
		}()
		for range rapid.IntRange(10, 60).Draw(t, "steps") {
			rapid.SampledFrom([]func(*rapid.T){p.publish, p.publish, p.end, p.poll}).Draw(t, "step")(t)
			p.check(t)
		}
		for began := false; ; { // the first window may have begun before the last commits
			rows, more, err := w.db.Poll(w.Context(), &p.window, 3)
			if err != nil {
				t.Fatal(err)
			}
			p.got = append(p.got, rows...)
			if began && len(rows) == 0 && !more {
				break
			}
			began = !more
		}
		p.check(t)
		if len(p.got) != len(p.wanted) {
			t.Fatalf("%d rows were returned, %d were committed", len(p.got), len(p.wanted))
		}
	})
}

// Sixteen clients publish with few keys. The number of a row rises with the commits of its key, and the
// windows beside them return the rows in that order.
func TestNumbersRiseInTheOrderOfCommits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("create table log (id text, key text, n int)", "create index on log (key, n)")
	var clients sync.WaitGroup
	for c := range 16 {
		conn := connect(t, w.dsn)
		clients.Go(func() {
			random := rand.New(rand.NewPCG(uint64(c), 1))
			for range 40 {
				key := fmt.Sprint(random.IntN(3))
				err := pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
					var id string
					if err := tx.QueryRow(t.Context(), "select postrider.publish('acme', 'a.b', '1', ordering_key => $1)", key).Scan(&id); err != nil {
						return err
					}
					// The transaction before has committed, so it is seen, or the lock does not work.
					_, err := tx.Exec(t.Context(), "insert into log select $1, $2, coalesce(max(n), 0) + 1 from log where key = $2", id, key)
					return err
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	clients.Go(func() { <-done })
	var window outbox.Window
	var got []outbox.Row
	for len(got) < 640 && !t.Failed() {
		rows := w.poll(&window, 7)
		got = append(got, rows...)
	}
	close(done)
	clients.Wait()
	places := map[string]int64{}
	for _, r := range got {
		n := w.number("select n from log where id = $1", r.ID.String())
		if key := r.Create.OrderingKey; n != places[key]+1 {
			t.Errorf("key %s: commit %d came after %d", key, n, places[key])
		} else {
			places[key] = n
		}
	}
	if n := w.number("select count(*) - count(distinct (key, n)) from log"); n != 0 {
		t.Errorf("%d transactions did not wait for their key", n)
	}
}

// Beside a transaction that stays open, rows that were read stay as dead ones. A poll does not look at them.
func TestPollPassesNoDeadRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keepDead()
	var window outbox.Window
	for cycle := range 10 {
		w.exec("select postrider.publish('acme', 'a.b', '1') from generate_series(1, 2000)")
		rows := w.poll(&window, 1000)
		if len(rows) != 2000 {
			t.Fatalf("%d rows, want 2000", len(rows))
		}
		w.move(int64(cycle)+1, noon, rows...)
	}
	w.exec("select postrider.publish('acme', 'a.b', '2')")
	w.poll(&window, 1000)
	w.exec("select postrider.publish('acme', 'a.b', '3')")
	if read := w.buffers(&window); read > 60 {
		t.Errorf("a poll reads %d pages beside 20,000 dead rows", read)
	}
	if read := w.buffers(new(outbox.Window)); read < 200 {
		t.Errorf("a poll of everything reads %d pages: nothing is dead, so this test shows nothing", read)
	}
}

// After a vacuum of the empty table, the planner takes all indexes for equal.
func TestRowsAreFoundByTheirNumbers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fill := "insert into postrider.outbox (account, type, data) select 'acme', 'a.b', '1' from generate_series(1, 20000)"
	w.exec(fill, "delete from postrider.outbox", "vacuum analyze postrider.outbox")
	w.keepDead()
	w.exec(fill, "delete from postrider.outbox")
	var window outbox.Window
	w.poll(&window, 200)
	w.exec("select postrider.publish('acme', 'a.b', '1') from generate_series(1, 200)")
	if read := w.buffers(&window); read > 2000 {
		t.Errorf("a poll of 200 rows reads %d pages", read)
	}
	numbers := "(select array_agg(number) from postrider.outbox), (select array_agg(id) from postrider.outbox)"
	if read := w.pages("select postrider.move(gen_random_uuid(), 1, null, now(), " + numbers + ")"); read > 10000 {
		t.Errorf("a move of 200 rows reads %d pages", read)
	}
}

// keepDead opens a transaction, which keeps all dead rows until the end of the test.
func (w *world) keepDead() {
	w.Helper()
	const begin = "begin isolation level repeatable read; select pg_current_xact_id()"
	if _, err := connect(w.T, w.dsn).PgConn().Exec(w.Context(), begin).ReadAll(); err != nil {
		w.Fatal(err)
	}
}

// buffers returns how many pages the next poll of a window reads.
func (w *world) buffers(window *outbox.Window) int64 {
	w.Helper()
	const poll = "select number from postrider.poll(nullif($1::text, '')::pg_snapshot, $2, nullif($3::text, '')::pg_snapshot, $4, $5)"
	w.pages(poll, window.Args(1000)...) // the session reads the catalog
	return w.pages(poll, window.Args(1000)...)
}

// pages returns how many pages a statement reads.
func (w *world) pages(statement string, args ...any) int64 {
	w.Helper()
	var plan []struct {
		Plan struct {
			Hit  int64 `json:"Shared Hit Blocks"`
			Read int64 `json:"Shared Read Blocks"`
		}
	}
	var text []byte
	err := w.conn.QueryRow(w.Context(), "explain (analyze, buffers, format json) "+statement, args...).Scan(&text)
	if err == nil {
		err = json.Unmarshal(text, &plan)
	}
	if err != nil {
		w.Fatal(err)
	}
	return plan[0].Plan.Hit + plan[0].Plan.Read
}

// A transaction that publishes very much and stays open costs the polls beside it nothing.
func TestPollPassesNoOpenRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bulk := connect(t, w.dsn)
	if _, err := bulk.PgConn().Exec(t.Context(), "begin; select postrider.publish('acme', 'a.b', '1') from generate_series(1, 20000)").ReadAll(); err != nil {
		t.Fatal(err)
	}
	var window outbox.Window
	for range 3 {
		w.poll(&window, 1000)
	}
	if read := w.buffers(&window); read > 60 {
		t.Errorf("a poll reads %d pages beside 20,000 rows of an open transaction", read)
	}
	if _, err := bulk.PgConn().Exec(t.Context(), "commit").ReadAll(); err != nil {
		t.Fatal(err)
	}
	if rows := w.poll(&window, 1000); len(rows) != 20000 {
		t.Errorf("%d rows after the commit, want 20000", len(rows))
	}
}

// A page ends where its data would be too large for the memory of a reader.
func TestPagesAreBoundedByTheirData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("select postrider.limit_data(1000002)", "select postrider.publish('acme', 'a.b', to_json(repeat('x', 1000000))) from generate_series(1, 20)")
	var window outbox.Window
	for i, want := range []int{9, 9, 2} {
		rows, more, err := w.db.Poll(t.Context(), &window, 1000)
		if err != nil || len(rows) != want || more != (i < 2) {
			t.Fatalf("page %d: %d rows, %t, %v, want %d", i, len(rows), more, err, want)
		}
	}
	rows, _, more, err := w.db.OfAccount(t.Context(), &window, "acme", 0, 1000)
	if err != nil || len(rows) != 9 || !more {
		t.Errorf("%d rows of the account, %t, %v, want 9 and more", len(rows), more, err)
	}
}

// OfAccount returns what Poll has returned and nothing else, so that a late commit cannot come after a
// later row of its key.
func TestOfAccountReturnsWhatPollHasReturned(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := connect(t, w.dsn)
	var window outbox.Window
	want := func(from int64, more bool, want string) {
		t.Helper()
		rows, _, left, err := w.db.OfAccount(t.Context(), &window, "acme", from, 2)
		if err != nil || data(rows) != want || left != more {
			t.Errorf("from %d: %s, %t, %v, want %s, %t", from, data(rows), left, err, want, more)
		}
	}
	want(0, false, "[]")
	if _, err := late.PgConn().Exec(t.Context(), "begin; select postrider.publish('acme', 'a.b', '1')").ReadAll(); err != nil {
		t.Fatal(err)
	}
	w.exec("select postrider.publish(case when g = 4 then 'globex' else 'acme' end, 'a.b', to_json(g)) from generate_series(2, 5) g")
	if rows, more, err := w.db.Poll(t.Context(), &window, 2); data(rows) != "[2 3]" || !more || err != nil {
		t.Fatalf("%s, %t, %v", data(rows), more, err)
	}
	want(0, true, "[2 3]")
	if _, err := late.PgConn().Exec(t.Context(), "commit").ReadAll(); err != nil {
		t.Fatal(err)
	}
	want(0, true, "[2 3]")
	want(4, false, "[]")
	w.poll(&window, 2)
	want(4, false, "[5]")
	if got := data(w.poll(&window, 2)); got != "[1]" {
		t.Errorf("the next window has %s, want [1]", got)
	}
	want(0, true, "[1 2]")
}

// A call of OfAccount does not walk through all rows of the others, even if they are dead.
func TestOfAccountIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(`insert into postrider.outbox (account, type, data)
		select case when g in (1, 45000) then 'acme' else 'globex' end, 'a.b', g::text::bytea from generate_series(1, 45000) g`)
	var window outbox.Window
	w.poll(&window, 45001)
	walk := func(from int64) {
		t.Helper()
		for i, want := range []string{"[1]", "[]", "[45000]"} {
			rows, next, more, err := w.db.OfAccount(t.Context(), &window, "acme", from, 10)
			if err != nil || data(rows) != want || more != (i < 2) || more && next != int64(20000*(i+1)+1) {
				t.Fatalf("from %d: %s, then from %d, %t, %v, want %s", from, data(rows), next, more, err, want)
			}
			from = next
		}
	}
	walk(0)
	walk(1)
	w.exec("delete from postrider.outbox where account = 'globex'")
	walk(1)
}

// A restored or promoted server has other transactions, so a window of before means nothing. So does one that has recovered
// from a crash of one of its processes.
func TestPollAfterARestart(t *testing.T) {
	t.Parallel()
	cluster, err := testkit.StartPostgres(testkit.Memory())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	}()
	dsn, err := cluster.Database(t.Context(), "shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := outbox.Install(t.Context(), outbox.Config{URL: dsn, Local: true}, false); err != nil {
		t.Fatal(err)
	}
	var window outbox.Window
	published := func(want string) {
		t.Helper()
		w := &world{t, dsn, openAt(t, dsn), connect(t, dsn)}
		w.exec("select postrider.publish('acme', 'a.b', '1')")
		if rows, _, _, err := w.db.OfAccount(t.Context(), &window, "acme", 0, 5); len(rows) > 0 || err != nil {
			t.Errorf("of an account, %d rows of before are returned, %v", len(rows), err)
		}
		if got := data(w.poll(&window, 5)); got != want {
			t.Errorf("the window has %s, want everything: %s", got, want)
		}
	}
	published("[1]")
	for _, action := range []string{"stop", "start"} {
		if err := cluster.Control(action); err != nil {
			t.Fatal(err)
		}
	}
	published("[1 1]")
	conn, other := connect(t, dsn), connect(t, dsn)
	if err := syscall.Kill(int(conn.PgConn().PID()), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "the server has recovered", func() bool {
		if other.Ping(t.Context()) == nil {
			return false // it has not noticed yet
		}
		again, err := pgx.Connect(t.Context(), dsn)
		return err == nil && again.Close(t.Context()) == nil
	})
	published("[1 1 1]")
}

// In a database that was restored from a dump, rows have transactions of another server.
func TestPollAfterADump(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("select postrider.publish('acme', 'a.b', to_json(g)) from generate_series(1, 7) g",
		"update postrider.outbox set tx = '123456789012' where number > 1", "update postrider.outbox set tx = '3' where number = 3")
	if got := data(w.poll(new(outbox.Window), 2)); got != "[1 2 3 4 5 6 7]" {
		t.Errorf("got %s", got)
	}
	w.exec("insert into postrider.outbox (tx, account, type, data) select '123456789012', 'acme', 'a.b', '1' from generate_series(1, 45000)")
	if n := len(w.poll(new(outbox.Window), 50000)); n != 45007 {
		t.Errorf("%d rows, want 45,007", n)
	}
}

// Behind a pooler, a name may lead to another database.
func TestPollInAnotherDatabase(t *testing.T) {
	t.Parallel()
	w, other := newWorld(t), newWorld(t)
	other.exec("select postrider.publish('acme', 'a.b', '1')")
	w.exec("select postrider.publish('acme', 'a.b', '2')")
	var window outbox.Window
	w.poll(&window, 2)
	if got := data(other.poll(&window, 2)); got != "[1]" {
		t.Errorf("got %s, want [1]", got)
	}
}

// Rows that somebody wrote by hand have faults, and hold nothing up.
func TestRubbish(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec("select postrider.publish('acme', 'a.b', '1')", `
		insert into postrider.outbox (account, type, data, channels, metadata, internal, content_type,
			occurred_at, published_at, max_attempts, hops, previous) values
		('acme', 'a.b', '\xff', null, null, null, null, null, now(), null, null, null),
		('', '', '', '{{a,null},{b,c}}', '{"a": 1}', '[1]', '', 'infinity', '-infinity', -7, 2147483647, 'null'),
		('acme', 'a.b', '2', null, '{"a": "\u0000"}', 'null', 'x', '294276-01-01', 'infinity', null, -1, '1')`,
		"insert into postrider.outbox (account, type, data) select 'acme', 'a.b', convert_to(repeat('x', 2000000), 'UTF8') from generate_series(1, 10)",
		"select postrider.publish('acme', 'a.b', '3')")
	rows := w.poll(new(outbox.Window), 5)
	if len(rows) != 15 || string(rows[0].Create.Data) != "1" || string(rows[14].Create.Data) != "3" {
		t.Fatalf("%d rows", len(rows))
	}
	want := map[int]string{
		2: "channels[1] must not be null\nmetadata must be an object of strings\ninternal must be an object of strings\ncontent_type must not be empty",
		4: "data must be at most 1048576 bytes",
	}
	for i, text := range want {
		if rows[i].Fault == nil || rows[i].Fault.Error() != text {
			t.Errorf("row %d: %v, want %q", i, rows[i].Fault, text)
		}
	}
	if _, err := json.Marshal([]time.Time{rows[2].OccurredAt, rows[2].PublishedAt, rows[3].OccurredAt, rows[3].PublishedAt}); err != nil {
		t.Error(err)
	}
	wantRefused(t, w.conn, "428C9", "insert into postrider.outbox (number, account, type, data) values (5, 'a', 'b', '1')")
	wantRefused(t, w.conn, "23502", "insert into postrider.outbox (id, account, type, data) values (null, 'a', 'b', '1')")
	rejections := make([]outbox.Rejection, len(rows))
	for i, r := range rows {
		rejections[i] = outbox.Rejection{Row: r, Code: "malformed", Field: "data", Message: "is rubbish"}
	}
	if err := w.db.Move(t.Context(), outbox.Moved{Source: source, Cycle: 1, At: noon, Rejected: rejections}); err != nil {
		t.Fatal(err)
	}
	if rows, _, err := w.db.Rejected(t.Context(), outbox.RejectedQuery{}); len(rows) != 15 || err != nil {
		t.Errorf("%d rejected rows, %v", len(rows), err)
	}
}
