package sources_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/quota"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/sources"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/store/sqlite"
	"github.com/postrider/postrider/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// world has a producer with an outbox in PostgreSQL, a store, and what publishes into it. Nothing is sent.
type world struct {
	*testing.T
	store.Store
	ids      *store.IDs
	source   postrider.Source
	producer *pgxpool.Pool
	accounts map[string]postrider.AccountID
	meter    *quota.Meter
	stop     func()                          // of what publishes
	server   atomic.Pointer[testkit.Cluster] // of the producer

	mu        sync.Mutex
	published []postrider.Event // of which a node has got a receipt, without duplicates
	rejected  int
	refuse    func(events []postrider.Event) error // of a publish; nil: none is refused
}

// stores opens an empty store of each kind.
var stores = map[string]func(t *testing.T) store.Store{
	"memory": func(*testing.T) store.Store { return memory.New(memory.Options{}) },
	"sqlite": func(t *testing.T) store.Store { return openSQLite(t, t.TempDir()) },
	"postgres": func(t *testing.T) store.Store {
		s, err := postgres.Open(t.Context(), testkit.Postgres(t, postgres.Migrate), postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	},
}

func openSQLite(t *testing.T, dir string) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), dir, sqlite.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// onEachStore runs a test with a store of each kind.
func onEachStore(t *testing.T, test func(w *world)) {
	t.Helper()
	t.Parallel()
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newWorld(t, open(t)))
		})
	}
}

func newWorld(t *testing.T, s store.Store) *world {
	t.Helper()
	dsn := testkit.Postgres(t, func(ctx context.Context, dsn string) error {
		return outbox.Install(ctx, outbox.Config{URL: dsn, Local: true}, false)
	})
	w := &world{T: t, ids: store.NewIDs(time.Now, nil), accounts: map[string]postrider.AccountID{}}
	w.server.Store(testkit.SharedCluster(t))
	var err error
	w.producer, err = pgxpool.New(t.Context(), dsn)
	w.ok(err)
	w.source = postrider.Source{
		ID: store.NewID[postrider.SourceID](w.ids), Name: "shop", URL: w.urlOf("postgres", dsn), Keep: 24 * time.Hour, CreatedAt: time.Now(),
	}
	w.use(s)
	t.Cleanup(func() {
		w.producer.Close()
		w.close()
	})
	w.ok(s.PutSource(t.Context(), w.source))
	for _, uid := range []string{"acme", "globex"} {
		id := store.NewID[postrider.AccountID](w.ids)
		w.ok(s.PutAccount(t.Context(), postrider.Account{ID: id, UID: uid, Name: uid}))
		w.accounts[uid] = id
	}
	return w
}

// use starts what publishes into a store.
func (w *world) use(s store.Store) {
	w.Store = s
	table := routing.New(s, routing.Options{})
	in := ingest.New(s, table, idle{}, ingest.Options{IDs: w.ids, Clock: s.Clock()})
	w.meter = quota.New(in, s, quota.Options{})
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = in.Run(ctx) })      // returns nil
	running.Go(func() { _ = w.meter.Run(ctx) }) // returns nil
	w.stop = sync.OnceFunc(func() { cancel(); running.Wait() })
}

// close stops what publishes and closes the store.
func (w *world) close() {
	w.stop()
	if w.Store != nil {
		w.ok(w.Store.Close())
		w.Store = nil
	}
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// urlOf returns the URL of a database of the test cluster for a role. Its address is not used; see open.
func (w *world) urlOf(role, dsn string) string {
	u, err := url.Parse(dsn)
	w.ok(err)
	return "postgres://" + role + "@127.0.0.1/" + path.Base(u.Path) + "?sslmode=disable"
}

// open connects to the producer by the socket of its server.
func (w *world) open(ctx context.Context, s postrider.Source) (*outbox.DB, error) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", w.server.Load().Socket())
	}
	return outbox.Open(ctx, outbox.Config{URL: s.URL, Table: s.Table, Source: s.ID, Dial: dial})
}

// idle is a dispatcher that starts nothing.
type idle struct{}

func (idle) Admit(_ []schedule.Admission, commit func(schedule.Grant) (schedule.DeliveriesCommitted, error)) error {
	_, err := commit(schedule.Grant{})
	return err
}

func (idle) Lag() time.Duration { return 0 }

func (idle) BulkWaits() int { return 0 }

// node reads the source. Its step is called between the steps of a cycle, which then fails with the error of step. If that
// is errDied, the node dies.
type node struct {
	*world
	step func(name string) error
	owns func() bool
	kill context.CancelFunc
}

// node starts a node. step and owns may be nil. end waits until the node has ended.
func (w *world) node(step func(name string) error, owns func() bool) (end func()) {
	w.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.Context()))
	n := &node{world: w, step: step, owns: owns, kill: cancel}
	s := sources.New(sources.Deps{
		Store: storeOf{w.Store, n}, Publisher: n, Open: w.open,
		Owns: func([16]byte) bool { return owns == nil || owns() }, Held: func() bool { return false },
	}, sources.Options{Node: "test", Hooks: observe.Hooks{SourceRead: n.read}, Log: slog.New(slog.NewTextHandler(w.Output(), nil))})
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx, w.convert) }) // returns nil
	end = sync.OnceFunc(func() { cancel(); running.Wait() })
	w.Cleanup(end)
	return end
}

var errDied = errors.New("the node has died")

// at calls step, and kills the node if it must die there.
func (n *node) at(step string) error {
	if n.step == nil {
		return nil
	}
	err := n.step(step)
	if errors.Is(err, errDied) {
		n.kill()
	}
	return err
}

// Publish implements sources.Publisher.
func (n *node) Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	if err := n.at("polled"); err != nil {
		return nil, err
	}
	n.mu.Lock()
	refuse := n.refuse
	n.mu.Unlock()
	if refuse != nil {
		if err := refuse(events); err != nil {
			return nil, err
		}
	}
	receipts, err := n.meter.Publish(ctx, events)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	for i, r := range receipts {
		if !r.Duplicate {
			n.published = append(n.published, events[i])
		}
	}
	n.mu.Unlock()
	return receipts, n.at("published")
}

func (n *node) read(r observe.SourceRead) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rejected += r.Rejected
}

// untilCounted waits until n rejections are counted. A node counts those of a cycle after it has begun to move its rows.
func (w *world) untilCounted(n int) {
	w.Helper()
	testkit.Eventually(w, fmt.Sprint(n, " rejections are counted"), func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		return w.rejected == n
	})
}

// storeOf is the store of a node.
type storeOf struct {
	store.Store
	n *node
}

func (s storeOf) AdvanceSource(ctx context.Context, a store.AdvanceSource) error {
	if err := s.Store.AdvanceSource(ctx, a); err != nil || len(a.Rows) == 0 {
		return err
	}
	return s.n.at("advanced")
}

// convert does in short what the API does.
func (w *world) convert(_ context.Context, c *apitypes.EventCreate) (postrider.Event, error) {
	account, ok := w.accounts[c.Account]
	if !ok {
		return postrider.Event{}, &postrider.InvalidError{Field: "account", Code: postrider.FaultNotFound, Reason: "names no account"}
	}
	e := postrider.Event{
		Account: account, Type: c.Type, Data: c.Data, OrderingKey: c.OrderingKey, IdempotencyKey: c.IdempotencyKey, Hops: c.Hops,
	}
	return e, e.Check(256 << 10)
}

// exec runs SQL at the producer.
func (w *world) exec(sql string, args ...any) {
	w.Helper()
	_, err := w.producer.Exec(w.Context(), sql, args...)
	w.ok(err)
}

// write commits n rows of an account with the data {"n":i}, from a number on.
func (w *world) write(account string, from, n int) {
	w.Helper()
	w.exec(`select postrider.publish(account => $1, type => 'order.created', data => format('{"n":%s}', i)::json)
		from generate_series($2::int, $2::int + $3::int - 1) i`, account, from, n)
}

// number returns the first number of a query.
func (w *world) number(sql string) (n int) {
	w.Helper()
	w.ok(w.producer.QueryRow(w.Context(), sql).Scan(&n))
	return n
}

// untilRead waits until nothing waits in the outbox.
func (w *world) untilRead() {
	w.Helper()
	testkit.Eventually(w, "the outbox is empty", func() bool { return w.number("select count(*) from postrider.outbox") == 0 })
}

// data returns the data of all events of an account in the store, in the order of their publishes.
func (w *world) data(account string) (all []string) {
	w.Helper()
	q := store.EventQuery{Account: w.accounts[account], Whole: true, Paging: store.Paging{Limit: store.MaxLimit, OldestFirst: true}}
	for {
		page, err := w.Events(w.Context(), q)
		w.ok(err)
		for _, e := range page.Items {
			all = append(all, string(e.Data))
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return all
		}
	}
}

// wantOnce fails the test unless exactly the rows 1 to n of an account were published, each once.
func (w *world) wantOnce(account string, n int) {
	w.Helper()
	times := map[string]int{}
	for _, data := range w.data(account) {
		times[data]++
	}
	for i := range n {
		if key := fmt.Sprintf(`{"n":%d}`, i+1); times[key] != 1 {
			w.Errorf("%s of %s was published %d times, want once", key, account, times[key])
		}
	}
	if len(times) != n {
		w.Errorf("%d events of %s were published, want %d", len(times), account, n)
	}
}

// state returns what the store knows of the source.
func (w *world) state() postrider.SourceState {
	w.Helper()
	all, err := w.Sources(w.Context())
	w.ok(err)
	return all[0].State
}

// rows returns the ids of the rows of a table of the outbox.
func (w *world) rows(table string) []postrider.OutboxID {
	w.Helper()
	rows, err := w.producer.Query(w.Context(), "select id from postrider."+pgx.Identifier{table}.Sanitize())
	w.ok(err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
	w.ok(err)
	all := make([]postrider.OutboxID, len(ids))
	for i, id := range ids {
		all[i] = id
	}
	return all
}

// restore replaces the file of a SQLite store by a copy, and opens it.
func (w *world) restore(dir, from string) {
	w.Helper()
	w.close()
	w.ok(copyFile(from, filepath.Join(dir, "postrider.db")))
	w.use(openSQLite(w.T, dir))
}
