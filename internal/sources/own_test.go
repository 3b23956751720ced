package sources_test

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/testkit"
)

// ownTable gives the producer a table of its own, with ids of a type, and has the source read it.
func (w *world) ownTable(ids string) {
	w.Helper()
	w.exec(`create table own (id ` + ids + ` primary key, place bigint generated always as identity, who text, kind text,
		body json, key text)`)
	w.source.Table = &postrider.SourceTable{
		Name: "public.own", ID: "id", Order: "place", Account: "who", Type: "kind", Data: "body", OrderingKey: "key",
	}
	w.ok(w.PutSource(w.Context(), w.source))
}

// writeOwn commits n rows of an account with the data {"n":i}, from a number on.
func (w *world) writeOwn(account string, from, n int) {
	w.Helper()
	w.exec(`insert into own (who, kind, body, key) select $1, 'order.created', format('{"n":%s}', i)::json, 'k'
		from generate_series($2::int, $2::int + $3::int - 1) i`, account, from, n)
}

// untilLeft waits until the table has n rows.
func (w *world) untilLeft(n int) {
	w.Helper()
	testkit.Eventually(w, "the rows are deleted", func() bool { return w.number("select count(*) from own") == n })
}

func TestRowsOfATableOfTheProducersOwnArePublishedOnce(t *testing.T) {
	onEachStore(t, func(w *world) {
		w.ownTable("uuid default gen_random_uuid()")
		w.writeOwn("acme", 1, 1)
		late, err := w.producer.Begin(w.Context())
		w.ok(err)
		_, err = late.Exec(w.Context(), `insert into own (who, kind, body) values ('acme', 'order.created', '{"n":2}')`)
		w.ok(err)
		w.node(nil, nil)
		w.writeOwn("acme", 3, 1200)
		w.untilLeft(0)
		w.ok(late.Commit(w.Context()))
		w.untilLeft(0)
		back, err := w.producer.Begin(w.Context())
		w.ok(err)
		_, err = back.Exec(w.Context(), `insert into own (who, kind, body) values ('acme', 'order.created', '{"n":1000000}')`)
		w.ok(err)
		w.ok(back.Rollback(w.Context()))
		w.wantOnce("acme", 1202)
		of := slices.DeleteFunc(w.data("acme"), func(data string) bool { return data == `{"n":2}` })
		if !slices.IsSortedFunc(of, func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) }) {
			w.Error("the rows of the key were published in another order")
		}
	})
}

// A node dies in each of its first cycles, between two steps. The ids are numbers.
func TestADeathWhileAnOwnTableIsReadRepeatsNothing(t *testing.T) {
	onEachStore(t, func(w *world) {
		w.ownTable("bigint generated always as identity")
		written := 0
		for _, step := range []string{"polled", "published", "advanced"} {
			for cycle := range int32(3) {
				w.writeOwn("acme", written+1, 1700)
				written += 1700
				var times atomic.Int32
				died := make(chan struct{})
				end := w.node(func(name string) error {
					if name != step || times.Add(1) != cycle+1 {
						return nil
					}
					close(died)
					return errDied
				}, nil)
				<-died
				end()
			}
		}
		w.node(nil, nil)
		w.untilLeft(0)
		w.wantOnce("acme", written)
	})
}

func TestRejectedAndHeldRowsOfAnOwnTableDelayNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	w.exec("create sequence ids")
	w.ownTable("text default 'row ' || nextval('ids')")
	w.ok(w.PutQuotas(t.Context(), w.accounts["acme"], postrider.Quotas{EventsPerSecond: 20, Burst: 10}))
	w.ok(w.meter.Refresh(t.Context()))
	w.writeOwn("nobody", 1, 3)
	w.writeOwn("acme", 1, 60) // accepted, and leaves a debt of 2.5 s
	w.node(nil, nil)
	w.untilLeft(3)
	w.writeOwn("acme", 61, 10)
	w.writeOwn("globex", 1, 700)
	testkit.Eventually(t, "the other account is published", func() bool { return len(w.data("globex")) == 700 })
	if n := len(w.data("acme")); n != 60 {
		t.Errorf("%d events of the held account are published, want 60", n)
	}
	w.untilLeft(3)
	w.wantOnce("acme", 70)
	w.wantOnce("globex", 700)
	w.untilCounted(3)
}

// More rows of a held account than a page has are in front of those of another.
func TestManyHeldRowsOfAnOwnTableDelayNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	w.ownTable("uuid default gen_random_uuid()")
	w.ok(w.PutQuotas(t.Context(), w.accounts["acme"], postrider.Quotas{BytesPerDay: 300}))
	w.ok(w.meter.Refresh(t.Context()))
	w.writeOwn("acme", 1, 1200)
	w.writeOwn("globex", 1, 10)
	w.node(nil, nil)
	testkit.Eventually(t, "the other account is published", func() bool { return len(w.data("globex")) == 10 })
	for i, data := range w.data("acme") {
		if numberOf(data) != i+1 {
			t.Fatalf("row %d was published as number %d", numberOf(data), i+1)
		}
	}
}

// Rows that cannot be deleted are told, and published once.
func TestAnOwnTableThatKeepsItsRowsIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	w.ownTable("uuid default gen_random_uuid()")
	w.exec(`create function keep() returns trigger language plpgsql as 'begin return null; end'`)
	w.exec(`create trigger keep before delete on own for each row execute function keep()`)
	w.writeOwn("acme", 1, 10)
	w.node(nil, nil)
	testkit.Eventually(t, "the state says so", func() bool {
		return strings.Contains(w.state().Error, "a trigger or a rule of the table keeps them")
	})
	w.exec(`drop trigger keep on own`)
	w.untilLeft(0)
	w.wantOnce("acme", 10)
	if s := w.state(); s.Cycle < 1 || s.Missing != 0 {
		t.Errorf("the state is %+v", s)
	}
}

// After a failover to a replica that lacks the newest rows, their numbers are given to other rows.
func TestANumberThatIsGivenAgainIsAnotherRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	w.ownTable("bigint generated always as identity")
	w.node(nil, nil)
	w.writeOwn("acme", 1, 5)
	w.untilLeft(0)
	w.exec("alter table own alter id restart, alter place restart")
	w.writeOwn("acme", 6, 5)
	w.untilLeft(0)
	w.wantOnce("acme", 10)
}
