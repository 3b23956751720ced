package expunge_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/archive"
	"github.com/postrider/postrider/internal/expunge"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// of returns the roles of a store.
func of(s store.Store) expunge.Store {
	return expunge.Store{Expunges: s, Ledger: s, Directory: s, Archived: s, Audit: s, Time: s}
}

// world is a store with an account, an endpoint and some events, one of which was delivered.
type world struct {
	*testing.T
	*memory.Store

	ids      *store.IDs
	endpoint postrider.Endpoint
	events   []postrider.EventID // the first one is delivered, the others are pending
	log      bytes.Buffer
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, Store: memory.New(memory.Options{}), ids: store.NewIDs(time.Now, nil)}
	account := store.NewID[postrider.AccountID](w.ids)
	w.ok(w.PutAccount(t.Context(), postrider.Account{ID: account, Name: "Eve Ltd.", CreatedAt: account.Time()}))
	var err error
	w.endpoint, err = w.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](w.ids), Account: account, Kind: postrider.KindHTTP, URL: "https://eve.example/",
		EventTypes: []postrider.Pattern{"*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}})
	w.ok(err)
	for n := range 3 {
		event := postrider.Event{
			ID: store.NewID[postrider.EventID](w.ids), Account: account, Type: "order.made", Data: []byte(`{"name":"Eve"}`),
			CreatedAt: time.Now(),
		}
		_, err := w.Publish(t.Context(), store.Publish{Version: 1, Batches: []store.Batch{{{Event: event, Deliveries: []store.NewDelivery{{
			ID: store.NewID[postrider.DeliveryID](w.ids), Endpoint: w.endpoint.ID, Lane: postrider.LaneFirst, Expiry: 30 * 24 * time.Hour,
		}}}}}})
		w.ok(err)
		w.events = append(w.events, event.ID)
		if n == 0 {
			w.deliver()
		}
	}
	return w
}

// deliver settles the only delivery that is due.
func (w *world) deliver() {
	w.Helper()
	w.settle(w.claim())
}

func (w *world) claim() postrider.Claimed {
	w.Helper()
	claims, err := w.Claim(w.Context(),
		store.Claim{Token: 1, Wants: []store.Want{{Endpoint: w.endpoint.ID, Lane: postrider.LaneFirst, N: 1, Lease: time.Minute}}})
	w.ok(err)
	return claims.Items[0]
}

func (w *world) settle(c postrider.Claimed) {
	w.Helper()
	_, err := w.Settle(w.Context(), []store.Settlement{{
		Claimed: c, Attempt: postrider.Attempt{
			Delivery: c.ID, Number: c.Attempt, Event: c.Event.ID, Outcome: postrider.OutcomeAccepted,
			StatusCode: 200, ResponseBody: []byte("Eve, thank you"),
		},
		Transition: postrider.Transition{To: postrider.Delivered},
	}})
	w.ok(err)
}

func (w *world) expunge() postrider.Expunge {
	id := store.NewID[postrider.ExpungeID](w.ids)
	return postrider.Expunge{ID: id, Account: w.endpoint.Account, By: "Olga", CreatedAt: id.Time()}
}

// run runs a runner until the end of the returned function.
func (w *world) run(opts expunge.Options) (r *expunge.Runner, end func()) {
	r = w.runner(opts)
	return r, w.start(r)
}

// runner returns a runner that does not run yet.
func (w *world) runner(opts expunge.Options) *expunge.Runner {
	opts.Log = slog.New(slog.NewTextHandler(&w.log, nil))
	opts.CancelDeleted = func() {
		_, err := w.DeleteEndpoints(w.Context(), 100)
		w.ok(err)
		_, _, err = w.Store.CancelDeleted(w.Context(), 100)
		w.ok(err)
	}
	return expunge.New(of(w.Store), opts)
}

// start lets the runner run, and returns a function that ends it.
func (w *world) start(r *expunge.Runner) (end func()) {
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = r.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

// left returns how many events and deliveries are stored, and the expunges.
func (w *world) left() (events, deliveries int, expunges []postrider.Expunge) {
	w.Helper()
	e, err := w.Events(w.Context(), store.EventQuery{})
	w.ok(err)
	d, err := w.Deliveries(w.Context(), store.DeliveryQuery{})
	w.ok(err)
	x, err := w.Expunges(w.Context(), store.ExpungeQuery{})
	w.ok(err)
	return len(e.Items), len(d.Items), x.Items
}

func TestWhatIsExpungedIsGone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		choose             func(*world, *postrider.Expunge)
		events, deliveries int // that stay
	}{
		"a delivered event": {func(w *world, e *postrider.Expunge) { e.Event = w.events[0] }, 2, 2},
		"a pending event":   {func(w *world, e *postrider.Expunge) { e.Event = w.events[1] }, 2, 2},
		"an endpoint":       {func(w *world, e *postrider.Expunge) { e.Endpoint = w.endpoint.ID }, 3, 0},
		"an account":        {func(*world, *postrider.Expunge) {}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				r, end := w.run(expunge.Options{Chunk: 1})
				defer end()
				e := w.expunge()
				test.choose(w, &e)
				_, err := w.PutArchiveKey(t.Context(), e.Account, []byte("encrypted"))
				w.ok(err)
				w.ok(r.Begin(t.Context(), e))
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				events, deliveries, x := w.left()
				if there, err := w.DeleteArchiveKey(t.Context(), w.endpoint.Account); err != nil || there != (name != "an account") {
					t.Errorf("the key of the account's archives is there: %v, %v", there, err)
				}
				if events != test.events || deliveries != test.deliveries || x[0].EmptySince.IsZero() || !x[0].EndedAt.IsZero() {
					t.Errorf("%d events and %d deliveries are left, want %d and %d; %+v", events, deliveries, test.events, test.deliveries, x[0])
				}
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				if _, _, x = w.left(); x[0].EndedAt.IsZero() {
					t.Errorf("it has not ended: %+v", x[0])
				}
				audit, err := w.AuditEntries(t.Context(), store.AuditQuery{Action: "expunged"})
				w.ok(err)
				kind, id := expunge.Object(e)
				if len(audit.Items) != 1 || audit.Items[0].Object != kind || audit.Items[0].ObjectID != id || audit.Items[0].Name != "Olga" ||
					len(audit.Items[0].Details["sha256"]) != 64 {
					t.Errorf("the proof is %+v", audit.Items)
				}
				if text := w.log.String(); strings.Contains(text, "Eve") || !strings.Contains(text, "expunged") {
					t.Errorf("the log says %s", text)
				}
			})
		})
	}
}

func TestAnAttemptUnderWayLeavesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		under := w.claim()
		r, end := w.run(expunge.Options{})
		defer end()
		e := w.expunge()
		e.Event = under.Event.ID
		w.ok(r.Begin(t.Context(), e))
		time.Sleep(5 * time.Minute)
		synctest.Wait()
		w.settle(under) // a slow receiver has responded
		time.Sleep(time.Hour)
		synctest.Wait()
		page, err := w.Attempts(t.Context(), store.AttemptQuery{Event: under.Event.ID})
		w.ok(err)
		if _, _, x := w.left(); len(page.Items) != 0 || x[0].EndedAt.IsZero() {
			t.Errorf("attempts %+v are left; %+v", page.Items, x[0])
		}
	})
}

// reader is a store whose files are held by a reader.
type reader struct {
	*memory.Store

	holds  atomic.Bool
	scrubs atomic.Int64 // how often Scrub was called
	behind time.Duration
}

// Now returns the time of a while ago.
func (r *reader) Now(ctx context.Context) (time.Time, error) {
	now, err := r.Store.Now(ctx)
	return now.Add(-r.behind), err
}

func (r *reader) Scrub(context.Context) error {
	r.scrubs.Add(1)
	if r.holds.Load() {
		return postrider.ErrBusy
	}
	return nil
}

func TestAnExpungeEndsWhenTheFilesOfTheStoreAreCleared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		held := &reader{Store: w.Store}
		held.holds.Store(true)
		r := expunge.New(of(held), expunge.Options{CancelDeleted: func() {
			_, err := w.DeleteEndpoints(t.Context(), 100)
			w.ok(err)
			_, _, err = w.Store.CancelDeleted(t.Context(), 100)
			w.ok(err)
		}})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		w.ok(r.Begin(t.Context(), w.expunge()))
		time.Sleep(time.Hour)
		if _, _, x := w.left(); x[0].EmptySince.IsZero() || !x[0].EndedAt.IsZero() {
			t.Errorf("while a reader holds the files the expunge is %+v, want that nothing is found and it goes on", x[0])
		}
		held.holds.Store(false)
		time.Sleep(20 * time.Minute)
		if _, _, x := w.left(); x[0].EndedAt.IsZero() {
			t.Errorf("once they are cleared the expunge is %+v, want its end", x[0])
		}
		cancel()
		running.Wait()
	})
}

func TestTheFilesAreClearedOnceBeforeTheEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		s := &reader{Store: w.Store, behind: time.Second} // between the look at the time and the search for rows
		r := expunge.New(of(s), expunge.Options{})
		defer w.start(r)()
		e := w.expunge()
		e.Event = w.events[0]
		w.ok(r.Begin(t.Context(), e))
		w.ok(r.Begin(t.Context(), w.another()))
		time.Sleep(14 * time.Minute)
		synctest.Wait()
		if n := s.scrubs.Load(); n != 0 {
			t.Errorf("the files were cleared %d times before the expunges could end", n)
		}
		time.Sleep(4 * time.Minute)
		synctest.Wait()
		if _, _, x := w.left(); s.scrubs.Load() != 2 || x[0].EndedAt.IsZero() || x[1].EndedAt.IsZero() {
			t.Errorf("the files were cleared %d times for two expunges: %+v", s.scrubs.Load(), x)
		}
	})
}

func TestARestoredStoreExpungesAgain(t *testing.T) {
	t.Parallel()
	list := filepath.Join(t.TempDir(), "expunged.ndjson")
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.expunge()
		w.ok(expunge.New(of(w.Store), expunge.Options{List: list}).Begin(t.Context(), e))
		text, err := os.ReadFile(list)
		w.ok(err)
		// A crash has cut the write of another one.
		w.ok(os.WriteFile(list, append(text, []byte("\n{\"id\":\"xpg_01")...), 0o600))

		restored := newWorld(t) // it has the same objects
		restored.endpoint.Account = e.Account
		w.ok(restored.PutAccount(t.Context(), postrider.Account{ID: e.Account, Name: "Eve Ltd."}))
		r := restored.runner(expunge.Options{List: list})
		w.ok(r.Recover(t.Context()))
		w.ok(r.Recover(t.Context())) // at each start
		if n, err := r.Unfinished(t.Context()); n != 1 || err != nil {
			t.Fatalf("unfinished: %d, %v, want 1", n, err)
		}
		defer restored.start(r)()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if n, err := r.Unfinished(t.Context()); n != 0 || err != nil {
			t.Errorf("unfinished after two minutes: %d, %v, want 0", n, err)
		}
		accounts, err := restored.Accounts(t.Context(), store.AccountQuery{ID: e.Account})
		w.ok(err)
		if a := accounts.Items[0]; a.Name != "" || a.DeletedAt.IsZero() {
			t.Errorf("the account is %+v", a)
		}
	})
}

// full is a store that refuses expunges.
type full struct {
	*memory.Store

	before func() // called before an expunge is refused
}

func (f full) PutExpunge(context.Context, postrider.Expunge) error {
	f.before()
	return postrider.ErrBusy
}

func TestAnExpungeThatWasRefusedDoesNotBeginLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	folder := filepath.Join(t.TempDir(), "lists")
	w.ok(os.Mkdir(folder, 0o700))
	list := expunge.Options{List: filepath.Join(folder, "expunged.ndjson")}
	r, e, begun := expunge.New(of(w.Store), list), w.expunge(), w.another()
	w.ok(r.Begin(t.Context(), begun))
	refusing := expunge.New(of(full{w.Store, func() {}}), list)
	if err := refusing.Begin(t.Context(), e); !errors.Is(err, postrider.ErrBusy) || strings.Contains(err.Error(), "next start") {
		t.Errorf("Begin: %v", err)
	}
	w.ok(r.Recover(t.Context()))
	if _, _, x := w.left(); len(x) != 1 || x[0].ID != begun.ID {
		t.Errorf("the next start has begun %+v", x)
	}

	w.ok(r.Begin(t.Context(), e)) // again
	restored := newWorld(t)
	w.ok(expunge.New(of(restored.Store), list).Recover(t.Context()))
	if _, _, x := restored.left(); len(x) != 2 {
		t.Errorf("a restored store begins %+v", x)
	}

	away := full{w.Store, func() { w.ok(os.Rename(folder, folder+".away")) }}
	err := expunge.New(of(away), list).Begin(t.Context(), w.expunge())
	if !errors.Is(err, postrider.ErrBusy) || errors.Is(err, postrider.ErrExpungeList) ||
		!strings.Contains(err.Error(), "begins at the next start") {
		t.Errorf("Begin that cannot withdraw: %v", err)
	}
}

func TestAnExpungeThatRunsThoughItWasRefusedIsOnTheList(t *testing.T) {
	t.Parallel()
	w, e := newWorld(t), postrider.Expunge{}
	list := expunge.Options{List: filepath.Join(t.TempDir(), "expunged.ndjson")}
	r := expunge.New(of(full{w.Store, func() { w.ok(w.PutExpunge(t.Context(), e)) }}), list)
	e = w.expunge()
	if err := r.Begin(t.Context(), e); !errors.Is(err, postrider.ErrBusy) {
		t.Errorf("Begin: %v", err)
	}
	once, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		w.ok(r.WatchList(once))
	}
	restored := newWorld(t)
	w.ok(expunge.New(of(restored.Store), list).Recover(t.Context()))
	text, err := os.ReadFile(list.List)
	w.ok(err)
	if _, _, x := restored.left(); len(x) != 1 || x[0].ID != e.ID || strings.Count(string(text), e.ID.String()) != 3 {
		t.Errorf("a restored store begins %+v by the list\n%s", x, text)
	}
}

func TestListsThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	folder := t.TempDir()
	faulty := filepath.Join(folder, "faulty")
	w.ok(os.WriteFile(faulty, []byte("{\"id\":\"xpg_01h455vb4pex5vsknk084sn02q\"}\n"), 0o600))
	err := expunge.New(of(w.Store), expunge.Options{List: faulty}).Recover(t.Context())
	if err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a line without account: %v", err)
	}
	r := expunge.New(of(w.Store), expunge.Options{List: folder})
	if err := r.Begin(t.Context(), w.expunge()); !errors.Is(err, postrider.ErrExpungeList) {
		t.Errorf("a folder was taken for a list: %v", err)
	}
	if _, _, x := w.left(); len(x) != 0 {
		t.Errorf("an expunge that is not on the list has begun: %+v", x)
	}
}

// A list that cannot be written is told each minute, before anybody demands an expunge, and so is a
// write that fails.
func TestObserversHearOfAListThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		folder := filepath.Join(t.TempDir(), "lists")
		var mu sync.Mutex
		var failed, succeeded int
		r := expunge.New(of(w.Store), expunge.Options{List: filepath.Join(folder, "expunged"), ChoreDone: func(c observe.ChoreDone) {
			mu.Lock()
			defer mu.Unlock()
			if c.Name == "check expunge list" && c.Err != nil {
				failed++
			} else if c.Name == "check expunge list" {
				succeeded++
			}
		}})
		heard := func(what string, wantFailed, wantSucceeded int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			if failed != wantFailed || succeeded != wantSucceeded {
				t.Errorf("%s: observers heard of %d failures and %d successes, want %d and %d", what, failed, succeeded, wantFailed, wantSucceeded)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.WatchList(ctx) })
		time.Sleep(150 * time.Second)
		heard("without the folder", 3, 0)
		if err := r.Begin(ctx, w.expunge()); !errors.Is(err, postrider.ErrExpungeList) {
			t.Errorf("Begin without the folder: %v", err)
		}
		heard("a write without the folder", 4, 0)
		w.ok(os.Mkdir(folder, 0o700))
		time.Sleep(time.Minute)
		heard("with the folder", 4, 1)
		w.ok(r.Begin(ctx, w.expunge()))
		heard("a write", 4, 2)
		stop()
		running.Wait()
	})
}

// archived archives all that is stored, and returns the archive and its folder.
func (w *world) archived() (a *archive.Archive, folder string) {
	w.Helper()
	keyring, err := secrets.NewKeyring(rand.Reader)
	w.ok(err)
	folder = filepath.Join(w.TempDir(), "archive")
	w.ok(os.Mkdir(folder, 0o700))
	roles := archive.Store{Archive: w.Store, ArchiveKeys: w.Store, Restored: w.Store, Time: w.Store, Progress: w.Store}
	a = archive.New(archive.Folder(folder), roles, secrets.New(keyring), archive.Options{})
	for _, kind := range []store.Kind{store.OldBodies, store.OldAttempts, store.OldEvents} {
		for more := true; more; {
			more, err = a.Archive(w.Context(), kind, time.Now().Add(48*time.Hour))
			w.ok(err)
		}
	}
	return a, folder
}

func TestWhileTheArchiveIsAwayAnExpungeGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a, folder := w.archived()
		var mu sync.Mutex
		var chores []error // of the archive
		r, end := w.run(expunge.Options{Archive: a, ChoreDone: func(c observe.ChoreDone) {
			mu.Lock()
			defer mu.Unlock()
			chores = append(chores, c.Err)
		}})
		defer end()
		w.ok(os.Rename(folder, folder+".away"))
		for i := range 2 {
			e := w.expunge()
			e.Event = w.events[i]
			w.ok(r.Begin(t.Context(), e))
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		events, deliveries, x := w.left()
		if events != 1 || deliveries != 1 {
			t.Errorf("%d events and %d deliveries are stored, want 1 and 1", events, deliveries)
		}
		for _, e := range x {
			if !e.EndedAt.IsZero() || !strings.Contains(e.Archive.Fault, "the archive is away") || e.Removed.Archived != 0 {
				t.Errorf("while the archive is away, the expunge is %+v", e)
			}
		}
		mu.Lock()
		tried := slices.Clone(chores)
		mu.Unlock()
		if len(tried) < 3 || len(tried) > 6 || tried[0] == nil {
			t.Errorf("the archive was tried %d times in five minutes, with %v; want once a minute", len(tried), tried)
		}
		w.ok(os.Rename(folder+".away", folder))
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		_, _, x = w.left()
		if x[0].Removed.Archived != 1 || x[1].Removed.Archived != 2 { // the second event was not attempted
			t.Errorf("%d and %d records were removed, want 1 and 2", x[0].Removed.Archived, x[1].Removed.Archived)
		}
		for _, e := range x {
			if e.EndedAt.IsZero() || e.Archive.Fault != "" || e.Archive.Held {
				t.Errorf("when the archive is back, the expunge is %+v", e)
			}
		}
		audit, err := w.AuditEntries(t.Context(), store.AuditQuery{Action: "expunged"})
		w.ok(err)
		if len(audit.Items) != 2 || audit.Items[1].Details["archived"] != "2" {
			t.Errorf("the proof is %+v", audit.Items)
		}
	})
}

func TestWithoutItsArchiveAnExpungeSaysThatItIsHeld(t *testing.T) {
	t.Parallel()
	for name, held := range map[string]bool{"archived before": true, "never archived": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if held {
					w.archived()
				}
				r, end := w.run(expunge.Options{})
				defer end()
				e := w.expunge()
				e.Event = w.events[0]
				w.ok(r.Begin(t.Context(), e))
				time.Sleep(20 * time.Minute)
				synctest.Wait()
				if _, _, x := w.left(); x[0].EndedAt.IsZero() || x[0].Archive.Held != held {
					t.Errorf("the expunge is %+v, want it held: %v", x[0], held)
				}
			})
		})
	}
}

func FuzzList(f *testing.F) {
	f.Add([]byte("{\"id\":\"xpg_01h455vb4pex5vsknk084sn02q\",\"account\":\"acc_01h455vb4pex5vsknk084sn02q\"}\n"))
	f.Add([]byte("\n{\"id\":1}\n{"))
	f.Fuzz(func(t *testing.T, text []byte) {
		list := filepath.Join(t.TempDir(), "list")
		if err := os.WriteFile(list, text, 0o600); err != nil {
			t.Fatal(err)
		}
		s := memory.New(memory.Options{})
		if err := expunge.New(of(s), expunge.Options{List: list}).Recover(t.Context()); err != nil {
			return
		}
		page, err := s.Expunges(t.Context(), store.ExpungeQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Items {
			if e.ID.IsZero() || e.Account.IsZero() {
				t.Errorf("%q lists %+v", text, e)
			}
		}
	})
}
