package sources_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/testkit"
)

// started returns a server of the producer that the end of the test stops.
func (w *world) started(c *testkit.Cluster, err error) *testkit.Cluster {
	w.Helper()
	w.ok(err)
	w.Cleanup(func() { w.ok(c.Stop()) })
	return c
}

// moveTo has the producer and the readers use another server.
func (w *world) moveTo(c *testkit.Cluster) {
	w.Helper()
	w.producer.Close()
	var err error
	w.producer, err = pgxpool.New(context.WithoutCancel(w.Context()), c.DSN("postgres"))
	w.ok(err)
	w.server.Store(c)
}

// promote has the producer and the readers use a replica, which becomes the primary.
func (w *world) promote(replica *testkit.Cluster) {
	w.Helper()
	w.moveTo(replica)
	w.exec("select pg_promote()")
}

// wantAsyncReplicas waits until doctor would see so many asynchronous replicas.
func (w *world) wantAsyncReplicas(want int) {
	w.Helper()
	db, err := w.open(w.Context(), w.source)
	w.ok(err)
	defer db.Close()
	testkit.Eventually(w, fmt.Sprint(want, " asynchronous replicas are seen"), func() bool {
		stats, err := db.Stats(w.Context())
		return err == nil && stats.AsyncReplicas == want
	})
}

// fates say what became of transactions, by the number of their event.
type fates struct {
	mu      sync.Mutex
	last    int
	of      map[int]string
	waiting sync.WaitGroup
}

func (f *fates) note(n int, fate string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of[n] = fate
}

func (f *fates) next() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last++
	return f.last
}

const publishOfKey = `select postrider.publish('acme', 'order.created', format('{"n":%s}', $1::int)::json, ordering_key => $2)`

// write commits n rows of one key.
func (f *fates) write(w *world, n int, key string) {
	w.Helper()
	for range n {
		i := f.next()
		w.exec(publishOfKey, i, key)
		f.note(i, "committed")
	}
}

// run commits transactions of three keys, and rolls every third back, until the server is gone.
func (f *fates) run(w *world, client int) {
	for {
		n := f.next()
		f.note(n, "rolled back")
		tx, err := w.producer.Begin(w.Context())
		if err != nil {
			return
		}
		_, err = tx.Exec(w.Context(), publishOfKey, n, fmt.Sprint("key", (client+n)%3))
		if err != nil || n%3 == 0 {
			if tx.Rollback(w.Context()) != nil {
				return
			}
			continue
		}
		f.note(n, "unknown")
		if tx.Commit(w.Context()) != nil {
			return
		}
		f.note(n, "committed")
	}
}

// check fails the test unless each committed transaction was published once, and none that was rolled back.
func (f *fates) check(w *world) {
	w.Helper()
	times := map[int]int{}
	for _, data := range w.data("acme") {
		times[numberOf(data)]++
	}
	for n, fate := range f.of {
		if got := times[n]; fate == "committed" && got != 1 || fate == "rolled back" && got > 0 || got > 1 {
			w.Errorf("event %d of a transaction that is %s was published %d times", n, fate, got)
		}
	}
}

// The server of the producer fails over to a synchronous replica, and then to an asynchronous one that lacks the newest
// transactions. The latter gives numbers of rows and transactions a second time.
func TestAFailoverOfTheProducer(t *testing.T) {
	t.Parallel()
	w, f := newWorld(t, memory.New(memory.Options{})), &fates{of: map[int]string{}}
	first := w.started(testkit.StartPostgres(testkit.Memory()))
	w.ok(outbox.Install(t.Context(), outbox.Config{URL: first.DSN("postgres"), Local: true}, false))
	second := w.started(first.Standby())
	w.source.URL = w.urlOf("postgres", first.DSN("postgres"))
	w.ok(w.PutSource(t.Context(), w.source))
	w.moveTo(first)
	w.wantAsyncReplicas(1)
	w.exec("alter system set synchronous_standby_names = '*'")
	w.exec("select pg_reload_conf()")
	w.wantAsyncReplicas(0)

	w.node(nil, nil)
	for client := range 6 {
		f.waiting.Go(func() { f.run(w, client) })
	}
	testkit.Eventually(t, "many rows are published", func() bool { return len(w.data("acme")) > 300 })
	w.ok(first.Control("stop"))
	f.waiting.Wait()
	w.promote(second)
	f.write(w, 20, "key1")
	w.untilRead()
	f.check(w)
	for key := range 3 {
		w.wantOrder(fmt.Sprint("key", key))
	}

	third := w.started(second.Standby())
	w.wantAsyncReplicas(1)
	w.failOverWithLoss(f, third)
	f.check(w)
	w.wantOrder("key1")
	w.wantOrder("key2")
}

// failOverWithLoss has a replica lack the move of rows that it has, and other rows with their moves. Then it takes over.
func (w *world) failOverWithLoss(f *fates, replica *testkit.Cluster) {
	w.Helper()
	w.ok(w.PauseSource(w.Context(), w.source.ID, true))
	testkit.Eventually(w, "nobody reads", func() bool {
		return w.number("select count(*) from pg_stat_activity where application_name = 'postrider'") == 0
	})
	f.write(w, 50, "key1")
	testkit.Eventually(w, "the replica has the rows", func() bool {
		return w.number("select count(*) from pg_stat_replication where replay_lsn >= pg_current_wal_lsn()") == 1
	})
	conn, err := pgx.Connect(w.Context(), replica.DSN("postgres"))
	w.ok(err)
	defer conn.Close(w.Context())
	for _, sql := range []string{"alter system set primary_conninfo = ''", "select pg_reload_conf()"} {
		_, err := conn.Exec(w.Context(), sql)
		w.ok(err)
	}
	testkit.Eventually(w, "the replica gets nothing", func() bool { return w.number("select count(*) from pg_stat_replication") == 0 })
	w.ok(w.PauseSource(w.Context(), w.source.ID, false))
	const rows = "(select number, tx from postrider.outbox union all select number, tx from postrider.outbox_read) r"
	last := func() (number, tx int) {
		return w.number("select max(number) from " + rows), w.number("select max(tx)::text::int from " + rows)
	}
	number, tx := last()
	f.write(w, 100, "key2")
	w.untilRead()
	lostNumber, lostTx := last()

	w.ok(w.server.Load().Control("stop"))
	w.promote(replica)
	f.write(w, 30, "key1")
	f.write(w, 200, "key2")
	w.untilRead()
	again := fmt.Sprintf(" where number > %d and number <= %d and tx > '%d' and tx <= '%d'", number, lostNumber, tx, lostTx)
	if w.number("select count(*) from "+rows+again) == 0 {
		w.Error("no number of a row and a transaction was given again, so the test shows nothing")
	}
}
