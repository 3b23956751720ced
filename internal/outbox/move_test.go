package outbox_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/testkit"
)

var (
	source = postrider.SourceID{1}
	noon   = time.Date(2026, 11, 29, 12, 30, 0, 0, time.UTC)
)

// published adds rows with the data 1 to n, and returns them.
func (w *world) published(n int, more string) []outbox.Row {
	w.Helper()
	w.exec(fmt.Sprintf("select postrider.publish('acme', 'a.b', to_json(g)%s) from generate_series(1, %d) g", more, n))
	return w.poll(new(outbox.Window), 100)
}

func (w *world) move(cycle int64, at time.Time, rows ...outbox.Row) {
	w.Helper()
	if err := w.db.Move(w.Context(), outbox.Moved{Source: source, Cycle: cycle, At: at, Rows: rows}); err != nil {
		w.Fatal(err)
	}
}

func TestMoveTakesExactlyItsRows(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := w.published(5, "")
	other := rows[0]
	other.ID = postrider.OutboxID{7} // another row with this number
	w.move(1, noon, rows[1], rows[3], other)
	w.wantData("[1 3 5]")
	w.move(2, noon, rows[1], rows[2]) // one is gone already
	w.wantData("[1 5]")
	if n := w.number("select count(*) from postrider.outbox_read where read_at = $1 and account = 'acme' and producer = 'postgres'", noon); n != 3 {
		t.Errorf("%d read rows, want 3", n)
	}
	err := w.db.Move(t.Context(), outbox.Moved{
		Source: source, Cycle: 3, At: noon, Rows: rows[:1],
		Rejected: []outbox.Rejection{{Row: rows[4], Code: "not_found", Field: "account", Message: "account names no account"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.wantData("[]")
	rejected, _, err := w.db.Rejected(t.Context(), outbox.RejectedQuery{})
	if err != nil || len(rejected) != 1 || rejected[0].ID != rows[4].ID || rejected[0].Message != "account names no account" {
		t.Errorf("%+v, %v", rejected, err)
	}
}

// A member of the data can have any name, and the field of a fault can be named after it.
func TestARejectionCanBeStored(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fault := &postrider.InvalidError{Field: "data.a\x00\xff", Code: postrider.FaultMalformed, Reason: "is there twice"}
	r := outbox.Refuse(w.published(1, "")[0], fault)
	if err := w.db.Move(t.Context(), outbox.Moved{Source: source, Cycle: 1, At: noon, Rejected: []outbox.Rejection{r}}); err != nil {
		t.Fatal(err)
	}
	got, _, err := w.db.Rejected(t.Context(), outbox.RejectedQuery{})
	if err != nil || len(got) != 1 || got[0].Field != "data.a\uFFFD\uFFFD" || !strings.HasPrefix(got[0].Message, got[0].Field) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestMoveIsFencedByTheCycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := w.published(3, "")
	w.move(7, noon, rows[0])
	for _, cycle := range []int64{6, 7} {
		err := w.db.Move(t.Context(), outbox.Moved{
			Source: source, Cycle: cycle, At: noon, Rows: rows[1:2],
			Rejected: []outbox.Rejection{{Row: rows[2], Code: "c", Field: "f", Message: "m"}},
		})
		if !errors.Is(err, postrider.ErrFenced) {
			t.Errorf("cycle %d after 7: %v", cycle, err)
		}
	}
	w.wantData("[2 3]")
	if err := w.db.Move(t.Context(), outbox.Moved{Source: postrider.SourceID{2}, Cycle: 1, At: noon}); err != nil {
		t.Errorf("another source: %v", err)
	}
	w.move(9, noon)
	for id, want := range map[postrider.SourceID]int64{source: 9, {2}: 1, {3}: 0} {
		if got, _, err := w.db.Cycle(t.Context(), id); got != want || err != nil {
			t.Errorf("cycle %d, %v, want %d", got, err, want)
		}
	}
	if err := w.db.Keep(t.Context(), noon, time.Hour); err != nil {
		t.Fatal(err)
	}
	if got, _, err := w.db.Cycle(t.Context(), source); got != 9 || err != nil {
		t.Errorf("after Keep: cycle %d, %v, want 9", got, err)
	}
	if n := w.number("select count(*) from postrider.outbox_cycle"); n != 2 {
		t.Errorf("Keep leaves %d cycles, want 2", n)
	}
}

// Beside an old open transaction, a session does not begin with a walk through all rows that it keeps.
func TestASessionBeginsWhereTheLastOneEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.keepDead()
	var window outbox.Window
	read := func(cycle int64, n int, want string) {
		t.Helper()
		rows, _, err := w.db.Poll(t.Context(), &window, n)
		if err == nil {
			err = w.db.Move(t.Context(), outbox.Moved{Source: source, Cycle: cycle, Reached: window, At: noon, Rows: rows})
		}
		if err != nil || data(rows) != want {
			t.Fatalf("cycle %d: %s, %v, want %s", cycle, data(rows), err, want)
		}
	}
	begins := func() (reached outbox.Window, all bool) {
		_, reached, err := w.db.Cycle(t.Context(), source)
		if err != nil {
			t.Fatal(err)
		}
		return reached, slices.Equal(reached.Args(1), new(outbox.Window).Args(1))
	}
	w.exec("select postrider.publish('acme', 'a.b', '1')")
	read(1, 9, "[1]")
	if _, all := begins(); !all {
		t.Error("beside few dead rows, a session does not look at all rows")
	}
	w.exec("insert into postrider.outbox (account, type, data) select 'acme', 'a.b', '1' from generate_series(1, 100000)",
		"delete from postrider.outbox", "select postrider.publish('acme', 'a.b', to_json(g)) from generate_series(2, 6) g")
	read(2, 3, "[2 3 4]")
	testkit.Eventually(t, "the statistics have the dead rows", func() bool { _, all := begins(); return !all })
	w.exec("select postrider.publish('acme', 'a.b', '7')")
	for i, want := range []string{"[5 6]", "[7]"} { // the rest of a window, and the next one
		window, _ = begins()
		if blocks := w.buffers(&window); blocks > 60 {
			t.Errorf("the first poll reads %d pages beside 100,000 dead rows", blocks)
		}
		read(int64(3+i), 3, want)
	}
}

// Rows that are put back wait in their old order, in front of later ones of their key.
func TestPutBackKeepsTheOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := w.published(6, ", ordering_key => 'k'")
	w.move(1, noon.Add(-time.Hour), rows[:2]...)
	w.move(2, noon, rows[2:5]...)
	var read []outbox.ReadRow
	cursor := outbox.ReadCursor{}
	for {
		page, err := w.db.ReadSince(t.Context(), noon.Add(-time.Hour), cursor, 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		read, cursor = append(read, page...), page[len(page)-1].Cursor()
	}
	var ids []postrider.OutboxID
	for _, r := range read {
		ids = append(ids, r.ID)
	}
	if want := []postrider.OutboxID{rows[4].ID, rows[3].ID, rows[2].ID, rows[1].ID, rows[0].ID}; !slices.Equal(ids, want) {
		t.Errorf("ReadSince lists %v, want %v", ids, want)
	}
	if since, err := w.db.ReadSince(t.Context(), noon, outbox.ReadCursor{}, 10); len(since) != 3 || err != nil {
		t.Errorf("%d rows since noon, %v, want 3", len(since), err)
	}
	for chunk := range slices.Chunk(append(read[:4:4], outbox.ReadRow{ID: rows[5].ID, At: noon, Number: rows[5].Number}), 2) {
		if _, err := w.db.PutBack(t.Context(), chunk); err != nil {
			t.Fatal(err)
		}
	}
	w.exec("select postrider.publish('acme', 'a.b', '7', ordering_key => 'k')")
	w.wantData("[2 3 4 5 6 7]")
	again := w.poll(new(outbox.Window), 100)
	w.move(3, noon, again...)
	if n, err := w.db.PutBack(t.Context(), []outbox.ReadRow{{ID: again[0].ID, At: noon, Number: again[0].Number}}); n != 1 || err != nil {
		t.Errorf("put back a second time: %d, %v", n, err)
	}
}

// Read rows are kept for the interval, by whole hours, and counted when they go.
func TestKeep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rows := w.published(6, "")
	for i, hours := range []int{5, 4, 2, 1, 0} {
		w.move(int64(i)+1, noon.Add(-time.Duration(hours)*time.Hour), rows[i])
	}
	keep := func(want int64) {
		t.Helper()
		if err := w.db.Keep(t.Context(), noon, 2*time.Hour); err != nil {
			t.Fatal(err)
		}
		if n := w.number("select count(*) from postrider.outbox_read"); n != want {
			t.Errorf("%d rows are kept, want %d", n, want)
		}
	}
	reading := connect(t, w.dsn) // a dump, for instance
	if _, err := reading.PgConn().Exec(t.Context(), "begin; select count(*) from postrider.outbox_read").ReadAll(); err != nil {
		t.Fatal(err)
	}
	keep(5)
	w.move(6, noon.Add(9*time.Hour), rows[5]) // makes a partition although somebody reads the table
	if _, err := reading.PgConn().Exec(t.Context(), "commit").ReadAll(); err != nil {
		t.Fatal(err)
	}
	keep(4)
	for since, want := range map[time.Duration]int64{5 * time.Hour: 2, 4 * time.Hour: 1, 3*time.Hour + 30*time.Minute: 0, 0: 0} {
		if n, err := w.db.Dropped(t.Context(), noon.Add(-since)); n != want || err != nil {
			t.Errorf("dropped since %s before: %d, %v, want %d", since, n, err, want)
		}
	}
	for _, hours := range []int{0, 1, 2} {
		name := "postrider.outbox_read_" + noon.Add(time.Duration(hours)*time.Hour).Format("2006010215")
		if w.number("select count(*) from pg_class where oid = to_regclass($1)", name) != 1 {
			t.Errorf("there is no partition %s", name)
		}
	}
}

// The hours of partitions are those of UTC, whatever the time zone of the session is.
func TestKeepInAnyTimeZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, setting := range []string{"timezone = 'Asia/Kolkata'", "datestyle = 'German'"} {
		w.exec("alter database " + w.conn.Config().Database + " set " + setting)
	}
	w.db = openAt(t, w.dsn)
	rows := w.published(2, "")
	w.move(1, noon.Add(-3*time.Hour), rows[0])
	w.move(2, noon, rows[1])
	if err := w.db.Keep(t.Context(), noon, time.Hour); err != nil {
		t.Fatal(err)
	}
	if n, err := w.db.Dropped(t.Context(), noon.Add(-4*time.Hour)); n != 1 || err != nil {
		t.Errorf("%d rows were dropped, %v, want 1", n, err)
	}
	if read, err := w.db.ReadSince(t.Context(), noon, outbox.ReadCursor{}, 5); len(read) != 1 || !read[0].At.Equal(noon) || err != nil {
		t.Errorf("%+v, %v", read, err)
	}
}
