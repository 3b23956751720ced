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
}

func (o *outboxes) Expunge(_ context.Context, account ...string) (n int64, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.asked = account
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

// meanwhile has another node do something while this one is in an outbox.
type meanwhile struct {
	outboxes

	other func()
}

func (m *meanwhile) Expunge(ctx context.Context, account ...string) (int64, error) {
	m.other()
	return m.outboxes.Expunge(ctx, account...)
}

func TestAUIDThatAnotherNodeNotedIsNotMissed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		e, first := w.expunge(), w.expunge() // the newest is first
		first.Account = store.NewID[postrider.AccountID](w.ids)
		w.ok(w.PutAccount(t.Context(), postrider.Account{ID: first.Account, CreatedAt: time.Now()}))
		w.ok(w.PutExpunge(t.Context(), e))
		w.ok(w.PutExpunge(t.Context(), first))
		o := &meanwhile{other: sync.OnceFunc(func() { w.ok(w.NoteOutbox(t.Context(), e.ID, postrider.ExpungeOutbox{UID: "eve"})) })}
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
