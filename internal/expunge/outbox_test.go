package expunge_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/expunge"
	"github.com/postrider/postrider/internal/store"
)

// outboxes has rows by the name of their account, and may be away.
type outboxes struct {
	mu    sync.Mutex
	rows  map[string]int64
	away  error
	asked []string // the names of the last call
	tried int      // how often an outbox that was away was tried
}

func (o *outboxes) Expunge(_ context.Context, away map[string]error, account ...string) (n int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = account
	if o.away != nil && away["shop"] == nil {
		o.tried++
		away["shop"] = o.away
	}
	if o.away != nil {
		return 0, o.away
	}
	for _, name := range account {
		n += o.rows[name]
		delete(o.rows, name)
	}
	return n, nil
}

func (o *outboxes) is(away error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.away = away
}

func TestAnAccountIsExpungedFromOutboxesByBothOfItsNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.expunge()
		page, err := w.Accounts(t.Context(), store.AccountQuery{ID: e.Account})
		w.ok(err)
		account := page.Items[0]
		account.UID = "eve"
		w.ok(w.PutAccount(t.Context(), account))
		o := &outboxes{rows: map[string]int64{"eve": 2, e.Account.String(): 3, "bob": 5}, away: errors.New("shop: connection refused")}
		r, end := w.run(expunge.Options{Outboxes: o})
		defer end()
		w.ok(r.Begin(t.Context(), e))
		time.Sleep(time.Hour) // all rows of the store are removed, the uid too
		synctest.Wait()
		_, _, x := w.left()
		if !x[0].EndedAt.IsZero() || x[0].EmptySince.IsZero() || x[0].Outbox.Fault != "shop: connection refused" {
			t.Errorf("while an outbox is away, it is %+v", x[0])
		}
		o.is(nil)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		_, _, x = w.left()
		want := postrider.ExpungeOutbox{Removed: 5}
		if x[0].EndedAt.IsZero() || x[0].Outbox != want || len(o.rows) != 1 {
			t.Errorf("at the end it is %+v, and %v are left", x[0], o.rows)
		}
		audit, err := w.AuditEntries(t.Context(), store.AuditQuery{Action: "expunged"})
		w.ok(err)
		if audit.Items[0].Details["outbox"] != "5" {
			t.Errorf("the proof has %v", audit.Items[0].Details)
		}
	})
}

func TestAnotherAccountWithTheUIDKeepsItsRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.expunge()
		page, err := w.Accounts(t.Context(), store.AccountQuery{ID: e.Account})
		w.ok(err)
		account := page.Items[0]
		account.UID = "eve"
		w.ok(w.PutAccount(t.Context(), account))
		o := &outboxes{rows: map[string]int64{}}
		r, end := w.run(expunge.Options{Outboxes: o})
		defer end()
		w.ok(r.Begin(t.Context(), e))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		w.ok(w.PutAccount(t.Context(), postrider.Account{ID: store.NewID[postrider.AccountID](w.ids), UID: "eve", CreatedAt: time.Now()}))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		o.mu.Lock()
		defer o.mu.Unlock()
		if !slices.Equal(o.asked, []string{e.Account.String()}) {
			t.Errorf("the last round asked for rows of %q", o.asked)
		}
	})
}

func TestAnExpungeOfAnEventAsksNoOutbox(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.expunge()
		e.Event = w.events[0]
		o := &outboxes{away: errors.New("away")}
		r, end := w.run(expunge.Options{Outboxes: o})
		defer end()
		w.ok(r.Begin(t.Context(), e))
		time.Sleep(time.Hour)
		synctest.Wait()
		if _, _, x := w.left(); x[0].EndedAt.IsZero() || o.asked != nil {
			t.Errorf("it is %+v, and asked for %q", x[0], o.asked)
		}
	})
}

func TestAUIDThatAnotherNodeNotedIsNotMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e := w.expunge()
		w.ok(w.PutExpunge(t.Context(), e))
		w.ok(w.NoteOutbox(t.Context(), e.ID, postrider.ExpungeOutbox{UID: "eve"}))
		o := &outboxes{}
		_, end := w.run(expunge.Options{Outboxes: o})
		defer end()
		synctest.Wait() // the first round is over
		o.mu.Lock()
		defer o.mu.Unlock()
		if !slices.Equal(o.asked, []string{e.Account.String(), "eve"}) {
			t.Errorf("the first round asked for rows of %q", o.asked)
		}
	})
}

// another returns an expunge of another account.
func (w *world) another() postrider.Expunge {
	w.Helper()
	e := w.expunge()
	e.Account = store.NewID[postrider.AccountID](w.ids)
	w.ok(w.PutAccount(w.Context(), postrider.Account{ID: e.Account, CreatedAt: time.Now()}))
	return e
}

// hanging is an outbox whose database accepts connections, and does not answer.
type hanging struct{}

func (hanging) Expunge(ctx context.Context, _ map[string]error, _ ...string) (int64, error) {
	<-ctx.Done()
	return 0, ctx.Err()
}

func TestAnOutboxThatHangsDelaysNoOtherExpunge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		r, end := w.run(expunge.Options{Outboxes: hanging{}})
		defer end()
		first, ofEvent, ofAccount := w.another(), w.expunge(), w.expunge()
		w.ok(r.Begin(t.Context(), first))
		time.Sleep(time.Minute) // the outbox hangs
		ofEvent.Event = w.events[0]
		w.ok(r.Begin(t.Context(), ofEvent))
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if _, _, x := w.left(); x[0].EndedAt.IsZero() || !x[1].EndedAt.IsZero() {
			t.Errorf("the expunge of an event is %+v, that of the account whose outbox hangs is %+v", x[0], x[1])
		}
		w.ok(r.Begin(t.Context(), ofAccount))
		time.Sleep(time.Minute)
		synctest.Wait()
		events, deliveries, _ := w.left()
		if n, err := r.Unfinished(t.Context()); events+deliveries != 0 || n != 0 || err != nil {
			t.Errorf("%d events and %d deliveries of an account are left; unfinished: %d, %v", events, deliveries, n, err)
		}
	})
}

func TestAnOutboxThatIsAwayIsTriedOnceInARound(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.ok(w.PutExpunge(t.Context(), w.expunge()))
		w.ok(w.PutExpunge(t.Context(), w.another()))
		o := &outboxes{away: errors.New("shop: connection refused")}
		_, end := w.run(expunge.Options{Outboxes: o})
		defer end()
		time.Sleep(10*time.Minute + time.Second)
		synctest.Wait()
		_, _, x := w.left()
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.tried != 11 || x[0].Outbox.Fault == "" || x[1].Outbox.Fault == "" {
			t.Errorf("in eleven rounds it was tried %d times; %+v and %+v", o.tried, x[0].Outbox, x[1].Outbox)
		}
	})
}
