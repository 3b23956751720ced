package app_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/testkit"
)

var hold = flag.Duration("hold", 2500*time.Millisecond, "how long TestPromise5Waits holds each resource")

// wait is a row of docs/waits.md: a resource that is held by force.
type wait struct {
	sqlite bool
	// statement holds the resource, in a transaction that stands still.
	statement string
	// take holds the resource in another way, until release is called.
	take func(t *testing.T, r *running, dir string) (release func())
	// atProducer holds the resource in the database of a producer.
	atProducer func(t *testing.T, p *shopDatabase) (release func())
	// blocked waits for the resource. Its response is the status, while the resource is held.
	blocked func(ctx context.Context, c *client.Client) error
	status  int
	// stops names what the resource stops: the watchers that need not proceed while it is held.
	stops []string
}

// publishOf publishes an event of the account that all watch.
func publishOf(change func(*apitypes.EventCreate)) func(context.Context, *client.Client) error {
	return func(ctx context.Context, c *client.Client) error {
		e := apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)}
		change(&e)
		_, err := c.Publish(ctx, e)
		return err
	}
}

func orderedBy(key string) func(*apitypes.EventCreate) {
	return func(e *apitypes.EventCreate) { e.OrderingKey = key }
}

// createEndpoint is a change of the subscriptions.
func createEndpoint(ctx context.Context, c *client.Client) error {
	_, err := c.CreateEndpoint(ctx, apitypes.EndpointCreate{Account: "acme", URL: "http://127.0.0.1:9", EventTypes: []string{"none"}})
	return err
}

func listDeadLetters(ctx context.Context, c *client.Client) error {
	_, err := c.DeadLetters(ctx, client.DeadLetterFilter{})
	return err
}

var waits = map[string]wait{
	"ordering-key": {
		statement: `select from ordering_keys where ordering_key = 'held' for update`,
		blocked:   publishOf(orderedBy("held")), status: http.StatusServiceUnavailable,
	},
	"new-ordering-key": {
		statement: `insert into ordering_keys (account, ordering_key, last) select id, 'new', 1 from accounts`,
		blocked:   publishOf(orderedBy("new")), status: http.StatusServiceUnavailable,
	},
	"idempotency-key": {
		statement: `insert into idempotency_keys (account, key, event, hash, created_at) select id, 'once', id, sha256(''), now() from accounts`,
		blocked:   publishOf(func(e *apitypes.EventCreate) { e.IdempotencyKey = "once" }), status: http.StatusServiceUnavailable,
	},
	"queue-row": {statement: `select from queue for update`},
	"subscriptions": {
		statement: `select from subscriptions for update`, blocked: createEndpoint, status: http.StatusServiceUnavailable,
		stops: []string{"change"},
	},
	"quota-row":    {statement: `lock table quota_use in share row exclusive mode`},
	"circuit-row":  {statement: `lock table circuits in share row exclusive mode`},
	"shards":       {statement: `select from shards for update`},
	"membership":   {statement: `select pg_advisory_xact_lock(hashtext('postrider_nodes'))`, stops: []string{"arrival", "ready", "row"}},
	"rollups":      {statement: `select pg_advisory_xact_lock(1886352244 + 1, 0)`},
	"replays":      {statement: `select pg_advisory_xact_lock(hashtext('postrider_replays'))`},
	"dead-letters": {statement: `lock table dead_letters`, blocked: listDeadLetters, status: http.StatusServiceUnavailable},
	"partition": {
		statement: `lock table events`, blocked: publishOf(orderedBy("")), status: http.StatusServiceUnavailable,
		stops: []string{"publish", "ordered", "arrival", "change", "ready", "row"},
	},
	"source-row": {
		statement: `select from sources for update`, blocked: pauseSource, status: http.StatusServiceUnavailable, stops: []string{"row"},
	},
	"connection-pool": {take: manyReaders},
	"receiver":        {take: hangingReceiver},
	"outbox-row":      {atProducer: lockedRow, stops: []string{"row"}},
	"outbox-key":      {atProducer: openKey},
	"producer-hangs":  {atProducer: hangingProducer, stops: []string{"row"}},
	"sqlite-writer": {
		sqlite: true, take: lockedFile, blocked: publishOf(orderedBy("")), status: http.StatusServiceUnavailable,
		stops: []string{"publish", "ordered", "arrival", "change", "ready", "row"},
	},
}

// manyReaders has more lists wait for a lock than the pool has connections.
func manyReaders(t *testing.T, r *running, dsn string) func() {
	end := inTransaction(t, dsn, `lock table dead_letters`)
	ctx, cancel := context.WithCancel(t.Context())
	var readers sync.WaitGroup
	for range 40 {
		readers.Go(func() {
			for ctx.Err() == nil {
				_ = listDeadLetters(ctx, r.api)
			}
		})
	}
	return func() {
		cancel()
		readers.Wait()
		end()
	}
}

// hangingReceiver has attempts wait for a receiver that does not answer.
func hangingReceiver(t *testing.T, r *running, _ string) func() {
	release := make(chan struct{})
	receiver := testkit.NewReceiver(t, func(http.ResponseWriter, testkit.Request) { <-release })
	_, err := r.api.CreateEndpoint(t.Context(), apitypes.EndpointCreate{
		Account: "acme", URL: receiver.URL, EventTypes: []string{"*"}, Policy: apitypes.Policy{Concurrency: apitypes.Of(100)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() { close(release) }
}

// lockedFile has another program write to the file of SQLite.
func lockedFile(t *testing.T, _ *running, dir string) func() {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(dir, "postrider.db"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err == nil {
		_, err = conn.ExecContext(t.Context(), "pragma busy_timeout = 10000; begin immediate")
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = errors.Join(conn.Close(), db.Close()) }
}

// TestPromise5Waits tests each row of docs/waits.md: it holds the resource of the row, and checks
// that everybody else makes progress.
func TestPromise5Waits(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "waits.md"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllSubmatch(page, -1) {
		rows = append(rows, string(row[1]))
	}
	for row := range waits {
		if !slices.Contains(rows, row) {
			t.Errorf("docs/waits.md has no row `%s`", row)
		}
	}
	s := newShop(t)
	for _, row := range rows {
		w, ok := waits[row]
		if !ok {
			t.Errorf("the row `%s` of docs/waits.md has no case here", row)
			continue
		}
		t.Run(row, func(t *testing.T) {
			t.Parallel()
			w.walk(t, s)
		})
	}
}

// walk holds the resource for at least hold, until everybody whom the resource does not stop has
// made progress several times. Then it frees the resource, and all must make progress.
func (w *wait) walk(t *testing.T, s *shop) {
	dir, env := t.TempDir(), map[string]string{}
	place := dir
	if !w.sqlite {
		place = testkit.Postgres(t, func(context.Context, string) error { return nil })
		env["POSTRIDER_DATABASE_URL"] = place
	}
	r := startWith(t, dir, env)
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	e := r.subscribe(t, receiver.URL)
	_, err := r.api.CreateEndpoint(t.Context(), apitypes.EndpointCreate{
		Account: "acme", URL: receiver.URL, EventTypes: []string{"*"}, Policy: apitypes.Policy{Order: apitypes.Of(postrider.OrderByKey)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := publishOf(orderedBy("held"))(t.Context(), r.api); err != nil {
		t.Fatal(err)
	}
	receiver.Wait(t, 2)
	p := databaseOf(t, s, r)
	all := watch(p, r, receiver, e)
	all.proceed(t, nil)

	var release func()
	switch {
	case w.take != nil:
		release = w.take(t, r, place)
	case w.atProducer != nil:
		release = w.atProducer(t, p)
	default:
		release = inTransaction(t, place, w.statement)
	}
	all.reset()
	once := r.tries(t, 1)
	begun := time.Now()
	for w.blocked != nil {
		asked := time.Now()
		err := w.blocked(t.Context(), once)
		problem, ok := errors.AsType[*client.Error](err)
		if ok && problem.Status == w.status {
			t.Logf("what waits for it is refused after %v: %s", time.Since(asked).Round(time.Millisecond), problem.Detail)
			break
		}
		if time.Since(begun) > testkit.Patience {
			t.Fatalf("what waits for it: %v, want the status %d", err, w.status)
		}
	}
	all.proceed(t, w.stops)
	for time.Since(begun) < *hold {
		all.proceed(t, w.stops)
	}
	t.Logf("held for %v: %s", time.Since(begun).Round(time.Millisecond), all.longest(w.stops))
	release()
	all.reset()
	all.proceed(t, nil)
}

// tries returns a client that tries each call so many times.
func (r *running) tries(t *testing.T, attempts int) *client.Client {
	t.Helper()
	key, err := os.ReadFile(r.keyFile)
	if err != nil {
		t.Fatal(err)
	}
	c := client.New("http://"+r.app.Addr().String(), strings.TrimSpace(string(key)), client.Options{Attempts: attempts})
	t.Cleanup(c.Close)
	return c
}

// inTransaction runs a statement in a session of a stranger that then stands still.
func inTransaction(t *testing.T, dsn, statement string) (end func()) {
	t.Helper()
	db, err := sql.Open("pgx", dsn+"&application_name=stranger")
	if err != nil {
		t.Fatal(err)
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), statement)
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = errors.Join(tx.Rollback(), db.Close()) }
}

// watchers do one thing each, again and again.
type watchers map[string]*watcher

type watcher struct {
	mu      sync.Mutex
	times   int           // that it succeeded since reset
	refused error         // the first error since reset
	longest time.Duration // of one time since reset
}

func watch(p *shopDatabase, r *running, receiver *testkit.Receiver, e apitypes.Endpoint) watchers {
	t := p.T
	all := watchers{}
	ctx, cancel := context.WithCancel(t.Context())
	var watching sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	once, n := r.tries(t, 1), 0
	for name, do := range map[string]func() error{
		"publish": func() error { return publishOf(orderedBy(""))(ctx, once) },
		"ordered": func() error { return publishOf(orderedBy("other"))(ctx, once) },
		"change": func() error {
			n++
			_, err := once.ChangeEndpoint(ctx, e.ID, apitypes.EndpointUpdate{Description: apitypes.Of(fmt.Sprint(n))})
			return err
		},
		"ready": func() error {
			if status, text := r.ready(t); status != http.StatusOK {
				return errors.New(text)
			}
			return nil
		},
		"arrival": func() error {
			before := len(receiver.Requests())
			for len(receiver.Requests()) == before && ctx.Err() == nil {
				<-time.After(5 * time.Millisecond)
			}
			return nil
		},
		"commit": func() error { // of a producer, which waits for nobody
			_, err := p.publish(ctx)
			return err
		},
		"row": func() error { return p.publishRead(ctx) },
	} {
		w := &watcher{}
		all[name] = w
		watching.Go(func() {
			for ctx.Err() == nil {
				begun := time.Now()
				err := do()
				if ctx.Err() == nil {
					w.note(time.Since(begun), err)
				}
				<-time.After(20 * time.Millisecond)
			}
		})
	}
	return all
}

func (w *watcher) note(took time.Duration, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.longest = max(w.longest, took)
	if err == nil {
		w.times++
	} else if w.refused == nil {
		w.refused = err
	}
}

func (all watchers) reset() {
	for _, w := range all {
		w.mu.Lock()
		w.times, w.refused, w.longest = 0, nil, 0
		w.mu.Unlock()
	}
}

// proceed waits until all but those that are stopped have succeeded some times more. None of
// them may be refused.
func (all watchers) proceed(t *testing.T, stopped []string) {
	t.Helper()
	for name, w := range all {
		if slices.Contains(stopped, name) {
			continue
		}
		w.mu.Lock()
		before := w.times
		w.mu.Unlock()
		testkit.Eventually(t, name+" proceeds", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.times >= before+5
		})
		w.mu.Lock()
		if stopped != nil && w.refused != nil {
			t.Errorf("%s is refused: %v", name, w.refused)
		}
		w.mu.Unlock()
	}
}

func (all watchers) longest(stopped []string) (text string) {
	for name, w := range all {
		if !slices.Contains(stopped, name) {
			w.mu.Lock()
			text += fmt.Sprintf("%s %v ", name, w.longest.Round(time.Millisecond))
			w.mu.Unlock()
		}
	}
	return text
}
