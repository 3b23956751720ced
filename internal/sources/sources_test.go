package sources_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/store/sqlite"
	"github.com/postrider/postrider/internal/testkit"
)

func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	// The log of the file that is replaced belongs to it.
	return errors.Join(os.RemoveAll(to+"-wal"), os.RemoveAll(to+"-shm"), os.WriteFile(to, text, 0o600))
}

func TestWhatIsCommittedIsPublishedOnce(t *testing.T) {
	onEachStore(t, func(w *world) {
		w.write("acme", 1, 1)
		w.node(nil, nil)
		w.exec(`do $$ begin
			begin
				perform postrider.publish('acme', 'order.created', '{"n":1000}');
				raise exception 'back to the savepoint';
			exception when others then null;
			end;
			perform postrider.publish('acme', 'order.created', '{"n":2}');
		end $$`)
		tx, err := w.producer.Begin(w.Context())
		w.ok(err)
		_, err = tx.Exec(w.Context(), `select postrider.publish('acme', 'order.created', '{"n":1001}')`)
		w.ok(err)
		w.ok(tx.Rollback(w.Context()))
		w.write("acme", 3, 1200)
		w.untilRead()
		w.wantOnce("acme", 1202)
		known, err := w.OutboxRows(w.Context(), w.rows("outbox_read"))
		w.ok(err)
		if len(known) != 1202 {
			w.Errorf("the store knows %d rows that were read, want 1202", len(known))
		}
	})
}

// A transaction that is open keeps nobody waiting, and its row is published when it commits.
func TestATransactionThatStaysOpenDelaysNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	tx, err := w.producer.Begin(t.Context())
	w.ok(err)
	_, err = tx.Exec(t.Context(), `select postrider.publish('acme', 'order.created', '{"n":1}')`)
	w.ok(err)
	w.node(nil, nil)
	for i := range 5 {
		w.write("acme", 2+i, 1)
		w.untilRead()
	}
	w.ok(tx.Commit(t.Context()))
	w.untilRead()
	w.wantOnce("acme", 6)
}

// A node dies in each of its first cycles, between two steps. Another goes on.
func TestADeathBetweenTwoStepsRepeatsNothing(t *testing.T) {
	onEachStore(t, func(w *world) {
		written := 0
		for _, step := range []string{"polled", "published", "advanced"} {
			for cycle := range int32(3) {
				w.write("acme", written+1, 1700)
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
		w.untilRead()
		w.wantOnce("acme", written)
	})
}

// The connection to the store fails after the store has advanced, so its node does not know it.
func TestAnErrorThatHidesASuccessRepeatsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	var failed atomic.Bool
	end := w.node(nil, nil)
	w.write("acme", 1, 10)
	w.untilRead()
	end()
	w.node(func(name string) error {
		if name == "advanced" && failed.CompareAndSwap(false, true) {
			return errors.New("the connection is lost")
		}
		return nil
	}, nil)
	w.write("acme", 11, 10)
	testkit.Eventually(t, "the step fails", failed.Load)
	w.untilRead()
	w.wantOnce("acme", 20)
	db, err := w.open(t.Context(), w.source)
	w.ok(err)
	defer db.Close()
	if theirs, _, err := db.Cycle(t.Context(), w.source.ID); err != nil || theirs != w.state().Cycle {
		t.Errorf("the producer is in cycle %d and the store in %d, %v; want the same", theirs, w.state().Cycle, err)
	}
}

func TestAHeldAccountDelaysNoOther(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	w.ok(w.PutQuotas(t.Context(), w.accounts["acme"], postrider.Quotas{EventsPerSecond: 20, Burst: 10}))
	w.ok(w.meter.Refresh(t.Context()))
	w.write("acme", 1, 60) // accepted, and leaves a debt of 2.5 s
	w.node(nil, nil)
	w.untilRead()
	w.write("acme", 61, 10)
	w.write("globex", 1, 700)
	testkit.Eventually(t, "the other account is published", func() bool { return len(w.data("globex")) == 700 })
	if n := len(w.data("acme")); n != 60 {
		t.Errorf("%d events of the held account are published, want 60", n)
	}
	w.untilRead()
	w.wantOnce("acme", 70)
	w.wantOnce("globex", 700)
	if !slices.IsSortedFunc(w.data("acme"), func(a, b string) int { return cmp.Compare(numberOf(a), numberOf(b)) }) {
		t.Error("the rows of the held account were published in another order")
	}
}

// The rows of a held account are far from each other, with those of another held account in between. So they are found by
// more than one look at the outbox.
func TestPromise5AHeldAccountIsReadThroughTheBacklogOfAnother(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	var times atomic.Int32
	w.refuse = func(events []postrider.Event) error {
		for _, e := range events {
			if e.Account == w.accounts["acme"] {
				return &postrider.QuotaError{Account: e.Account, Quota: postrider.QuotaEvents, RetryAfter: time.Minute}
			}
			if times.Add(1) < 120 { // then the 105 pages are polled
				return &postrider.QuotaError{Account: e.Account, Quota: postrider.QuotaEvents}
			}
		}
		return nil
	}
	w.write("globex", 1, 1)
	w.write("acme", 1, 21000)
	w.write("globex", 2, 1)
	w.node(nil, nil)
	testkit.Eventually(t, "the rows behind the backlog are published", func() bool { return len(w.data("globex")) == 2 })
	w.wantOnce("globex", 2)
}

func numberOf(data string) (n int) {
	_, _ = fmt.Sscanf(data, `{"n":%d}`, &n)
	return n
}

// A quota of bytes lets pass what it has room for, though the rows are read as one page.
func TestAQuotaOfBytesIsUsedUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	w.ok(w.PutQuotas(t.Context(), w.accounts["acme"], postrider.Quotas{BytesPerDay: 300}))
	w.ok(w.meter.Refresh(t.Context()))
	w.write("acme", 1, 100) // of 7 to 9 bytes
	w.write("globex", 1, 10)
	w.node(nil, nil)
	testkit.Eventually(t, "what there is room for is published", func() bool { return len(w.data("acme")) >= 37 })
	testkit.Eventually(t, "the other account is published", func() bool { return len(w.data("globex")) == 10 })
	for i, data := range w.data("acme") {
		if numberOf(data) != i+1 {
			t.Fatalf("row %d was published as number %d", numberOf(data), i+1)
		}
	}
}

func TestRowsThatAreNoEventsAreRejected(t *testing.T) {
	onEachStore(t, func(w *world) {
		w.exec(`select postrider.publish('nobody', 'order.created', '{}')`)
		w.exec(`select postrider.publish('acme', 'order.created', '{"n":1}', idempotency_key => 'k')`)
		w.exec(`select postrider.publish('acme', 'order.created', '{"n":7}', idempotency_key => 'k')`)
		w.exec(`insert into postrider.outbox (account, type, data) values ('acme', 'no type!', '\xff')`)
		w.write("acme", 2, 600)
		w.node(nil, nil)
		w.untilRead()
		w.wantOnce("acme", 601)
		rows, err := w.producer.Query(w.Context(), "select code || ' ' || field from postrider.outbox_rejected order by number")
		w.ok(err)
		got, err := pgx.CollectRows(rows, pgx.RowTo[string])
		w.ok(err)
		if len(got) != 3 || got[0] != "not_found account" || got[1] != "idempotency_conflict idempotency_key" {
			w.Errorf("rejected: %q", got)
		}
		w.untilCounted(3)
	})
}

// The store cannot store an event, and says nothing of why. The rows of its account wait behind it, and people are told.
func TestARowThatCannotBeStoredStopsItsAccountAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	w.refuse = func(events []postrider.Event) error {
		if slices.ContainsFunc(events, func(e postrider.Event) bool { return string(e.Data) == `{"n":300}` }) {
			return errors.New("something is strange")
		}
		return nil
	}
	w.write("globex", 1, 100)
	w.write("acme", 101, 400)
	w.write("globex", 101, 100)
	w.node(nil, nil)
	w.wantError("something is strange")
	testkit.Eventually(t, "the other account is published", func() bool { return len(w.data("globex")) == 200 })
	if n := len(w.data("acme")); n != 199 {
		t.Errorf("%d rows of the account were published, want the 199 before the strange one", n)
	}
}

// A refusal of all is waited for. A duplicate that it leaves behind is none for the store.
func TestAnOverloadIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	var times atomic.Int32
	w.refuse = func([]postrider.Event) error {
		switch n := times.Add(1); {
		case n > 5:
			return nil
		case n == 3:
			return fmt.Errorf("publish: %w", &postrider.FullError{RetryAfter: time.Millisecond})
		}
		return &postrider.OverloadError{RetryAfter: time.Millisecond}
	}
	w.write("acme", 1, 700)
	w.node(nil, nil)
	w.untilRead()
	w.wantOnce("acme", 700)
}

// Another node's move of a cycle comes late. Our store has lost what it moved. If this node has begun its session since, the
// move is refused. If it has only begun the same cycle, it compares the rows.
func TestALateMoveHidesNoRow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	polled, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.node(func(step string) error {
		if step == "polled" {
			once.Do(func() { close(polled); <-goOn })
		}
		return nil
	}, nil)
	w.write("acme", 1, 1)
	<-polled
	w.write("acme", 2, 1)
	db, err := w.open(t.Context(), w.source)
	w.ok(err)
	defer db.Close()
	rows, _, err := db.Poll(t.Context(), &outbox.Window{}, 10)
	w.ok(err)
	late := outbox.Moved{Source: w.source.ID, Cycle: 1, At: w.Clock().Wall(), Rows: rows[1:]}
	if err := db.Move(t.Context(), late); !errors.Is(err, postrider.ErrFenced) {
		t.Errorf("a move of an earlier session: %v, want ErrFenced", err)
	}
	late.Cycle = 2
	w.ok(db.Move(t.Context(), late))
	close(goOn)
	testkit.Eventually(t, "the hidden row is published", func() bool { return len(w.data("acme")) == 2 })
	w.untilRead()
	w.wantOnce("acme", 2)
}

// Many clients publish the same keys, and commit at random times.
func TestTheRowsOfAKeyArePublishedInTheirOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	w.node(nil, nil)
	var clients sync.WaitGroup
	for client := range 8 {
		clients.Go(func() {
			for i := range 40 {
				_, err := w.producer.Exec(t.Context(), `with published as materialized (
					select postrider.publish('acme', 'order.created', '{}', ordering_key => $1)
				) select pg_sleep(random() / 200) from published`, fmt.Sprint("key", (client+i)%3))
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Wait()
	w.untilRead()
	for key := range 3 {
		w.wantOrder(fmt.Sprint("key", key))
	}
}

// wantOrder fails the test unless the rows of an ordering key that the producer has were published in the order of their
// numbers. The producer may have lost others.
func (w *world) wantOrder(key string) {
	w.Helper()
	rows, err := w.producer.Query(w.Context(), "select id from postrider.outbox_read where ordering_key = $1 order by number", key)
	w.ok(err)
	want, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	w.ok(err)
	var got [][16]byte
	for _, e := range w.published {
		if e.OrderingKey == key && slices.Contains(want, [16]byte(e.Row)) {
			got = append(got, e.Row)
		}
	}
	if len(want) == 0 || !slices.Equal(got, want) {
		w.Errorf("the %d rows of %s were published in another order than that of their %d numbers", len(got), key, len(want))
	}
}

// The store is restored to a copy. What it has lost is read again, and nothing else.
func TestPromise12AfterARestoreOfTheStoreTheReaderGoesBack(t *testing.T) {
	t.Parallel()
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup.db")
	w := newWorld(t, openSQLite(t, dir))
	end := w.node(nil, nil)
	w.write("acme", 1, 700)
	w.untilRead()
	_, err := sqlite.Copy(t.Context(), dir, backup, nil)
	w.ok(err)
	w.write("acme", 701, 1300)
	w.untilRead()
	end()
	w.write("acme", 2001, 5)
	w.restore(dir, backup)
	w.node(nil, nil)
	w.untilRead()
	w.wantOnce("acme", 2005)
	known, err := w.OutboxRows(t.Context(), w.rows("outbox_read"))
	w.ok(err)
	if len(known) != 2005 || w.state().Missing != 0 {
		t.Errorf("the store knows %d rows and misses %d, want 2,005 and 0", len(known), w.state().Missing)
	}
}

func TestAfterARestoreTheReaderSaysWhatMayBeMissing(t *testing.T) {
	t.Parallel()
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup.db")
	w := newWorld(t, openSQLite(t, dir))
	_, err := sqlite.Copy(t.Context(), dir, backup, nil)
	w.ok(err)
	end := w.node(nil, nil)
	w.write("acme", 1, 30)
	w.untilRead()
	end()
	db, err := w.open(t.Context(), w.source)
	w.ok(err)
	defer db.Close()
	w.ok(db.Keep(t.Context(), time.Now().Add(72*time.Hour), 24*time.Hour)) // drops all that was read
	w.restore(dir, backup)
	w.node(nil, nil)
	testkit.Eventually(t, "the loss is told", func() bool { return w.state().Missing == 30 })
}

// While the store was away, the rows became older than they are kept. They are compared before they are dropped.
func TestAfterALongOutageNoRowIsMissing(t *testing.T) {
	t.Parallel()
	dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "backup.db")
	w := newWorld(t, openSQLite(t, dir))
	_, err := sqlite.Copy(t.Context(), dir, backup, nil)
	w.ok(err)
	end := w.node(nil, nil)
	w.write("acme", 1, 30)
	w.untilRead()
	end()
	w.exec("select postrider.make_hour(now() - interval '72 hours')")
	w.exec("update postrider.outbox_read set read_at = now() - interval '72 hours'")
	w.restore(dir, backup)
	w.node(nil, nil)
	testkit.Eventually(t, "the rows are published again", func() bool { return len(w.data("acme")) == 30 })
	if n := w.state().Missing; n != 0 {
		t.Errorf("%d rows are missing", n)
	}
}

// The producer's database is restored to a copy, in which rows wait that were read since.
func TestAfterARestoreOfTheProducerNothingIsPublishedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	w.write("acme", 1, 300)
	database := w.producer.Config().ConnConfig.Database
	copied := database + "_copy"
	w.producer.Reset() // a template must have no connections
	testkit.Eventually(t, "the database is copied", func() bool { return w.admin("create database "+copied+" template "+database) == nil })
	t.Cleanup(func() { w.ok(w.admin("drop database " + copied + " with (force)")) })
	end := w.node(nil, nil)
	w.untilRead()
	end()
	w.source.URL = strings.Replace(w.source.URL, "/"+database+"?", "/"+copied+"?", 1)
	w.ok(w.PutSource(t.Context(), w.source))
	config := w.producer.Config()
	config.ConnConfig.Database = copied
	again, err := pgx.ConnectConfig(t.Context(), config.ConnConfig)
	w.ok(err)
	defer again.Close(t.Context())
	end = w.node(nil, nil)
	testkit.Eventually(t, "the copy is read", func() bool {
		var n int
		w.ok(again.QueryRow(t.Context(), "select count(*) from postrider.outbox").Scan(&n))
		return n == 0
	})
	end()
	w.wantOnce("acme", 300)
}

// Two nodes read the source at once, as while a shard moves. Then the first dies.
func TestTwoReadersPublishEachRowOnce(t *testing.T) {
	onEachStore(t, func(w *world) {
		first := w.node(nil, nil)
		w.node(nil, nil)
		for i := range 20 {
			w.write("acme", 100*i+1, 100)
		}
		first()
		w.untilRead()
		w.wantOnce("acme", 2000)
	})
}

// The owner dies, and another node becomes the owner.
func TestAnotherNodeTakesOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	var owner atomic.Int32
	first := w.node(nil, func() bool { return owner.Load() == 0 })
	w.node(nil, func() bool { return owner.Load() == 1 })
	w.write("acme", 1, 10)
	w.untilRead()
	first()
	w.write("acme", 11, 10)
	owner.Store(1)
	begun := time.Now()
	w.untilRead()
	if took := time.Since(begun); took > 4*time.Second && !testkit.Raced() {
		t.Errorf("the rows waited for %v", took)
	}
	w.wantOnce("acme", 20)
}

// wantError waits until the state of the source has an error with the text.
func (w *world) wantError(text string) {
	w.Helper()
	testkit.Eventually(w, "the state says: "+text, func() bool { return strings.Contains(w.state().Error, text) })
}

// The role of the source loses its right to log in, and gets it back.
func TestRevokedCredentialsAreTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	role := w.producer.Config().ConnConfig.Database + "_reader"
	w.exec("create role " + role + " login in role postrider_reader")
	t.Cleanup(func() { w.ok(w.admin("drop role " + role)) })
	w.source.URL = strings.Replace(w.source.URL, "postgres@", role+"@", 1)
	w.ok(w.PutSource(t.Context(), w.source))
	end := w.node(nil, nil)
	defer end()
	w.write("acme", 1, 1)
	w.untilRead()
	w.exec("alter role " + role + " nologin")
	w.exec("select pg_terminate_backend(pid) from pg_stat_activity where usename = $1", role)
	w.wantError("not permitted to log in")
	w.write("acme", 2, 1)
	w.exec("alter role " + role + " login")
	w.untilRead()
	testkit.Eventually(t, "the error is over", func() bool { return w.state().Error == "" })
	w.wantOnce("acme", 2)
}

// A role that may read and not move publishes nothing.
func TestWhoMayNotMoveReadsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	role := w.producer.Config().ConnConfig.Database + "_reader"
	w.exec("create role " + role + " login in role postrider_reader")
	t.Cleanup(func() { w.ok(w.admin("drop role " + role)) })
	w.exec("revoke execute on function postrider.move from postrider_reader")
	w.source.URL = strings.Replace(w.source.URL, "postgres@", role+"@", 1)
	w.ok(w.PutSource(t.Context(), w.source))
	w.write("acme", 1, 3)
	end := w.node(nil, nil)
	defer end()
	w.wantError("must be granted postrider_reader")
	if n := len(w.data("acme")); n > 0 {
		t.Errorf("%d rows were published", n)
	}
	w.exec("grant execute on function postrider.move to postrider_reader")
	w.untilRead()
	w.wantOnce("acme", 3)
}

func TestANewerSchemaIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	w.exec("update postrider.outbox_version set version = version + 1")
	w.write("acme", 1, 3)
	w.node(nil, nil)
	var newer *outbox.VersionError
	db, err := w.open(t.Context(), w.source)
	if !errors.As(err, &newer) {
		db.Close()
		t.Fatalf("Open = %v, want a VersionError", err)
	}
	w.wantError(newer.Error())
	w.exec("update postrider.outbox_version set version = version - 1")
	w.untilRead()
	w.wantOnce("acme", 3)
}

// A paused source is not read; a deleted one neither.
func TestAPausedSourceIsNotRead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, memory.New(memory.Options{}))
	w.node(nil, nil)
	w.write("acme", 1, 1)
	w.untilRead()
	w.ok(w.PauseSource(t.Context(), w.source.ID, true))
	w.ok(w.PutSource(t.Context(), w.source)) // leaves it paused
	testkit.Eventually(t, "the reader has disconnected", func() bool {
		return w.number("select count(*) from pg_stat_activity where datname = current_database() and application_name like 'postrider%'") == 0
	})
	w.write("acme", 2, 1)
	w.ok(w.PauseSource(t.Context(), w.source.ID, false))
	w.untilRead()
	w.wantOnce("acme", 2)
}

// admin runs SQL outside the database of the producer, also after the test.
func (w *world) admin(sql string) error {
	ctx := context.WithoutCancel(w.Context())
	conn, err := pgx.Connect(ctx, testkit.SharedCluster(w).DSN("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, sql)
	return err
}
