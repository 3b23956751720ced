package notify_test

import (
	"context"
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/ingest"
	"github.com/postrider/postrider/internal/notify"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness has a store with an account, and an ingest whose deliveries wait in the queue.
type harness struct {
	*testing.T
	*memory.Store

	ids     *store.IDs
	account postrider.AccountID
	table   *routing.Table
	ingest  *ingest.Ingest

	mu      sync.Mutex
	rounds  []observe.ChoreDone
	waiting []int
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	w := &harness{T: t, Store: memory.New(memory.Options{}), ids: store.NewIDs(time.Now, &[32]byte{1})}
	w.account = store.NewID[postrider.AccountID](w.ids)
	w.table = routing.New(w.Store, routing.Options{})
	w.ingest = w.newIngest()
	return w
}

func (w *harness) newIngest() *ingest.Ingest {
	return ingest.New(w.Store, w.table, w, ingest.Options{IDs: w.ids, Clock: w.Clock()})
}

// Admit grants no lease, so published deliveries wait.
func (w *harness) Admit(ask []schedule.Admission, commit func(schedule.Grant) (schedule.DeliveriesCommitted, error)) error {
	_, err := commit(schedule.Grant{})
	return err
}

func (w *harness) Lag() time.Duration { return 0 }

func (w *harness) BulkWaits() int { return 0 }

func (w *harness) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *harness) endpoint(patterns ...postrider.Pattern) postrider.Endpoint {
	w.Helper()
	e, err := w.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](w.ids), Account: w.account, URL: "https://receiver.example/", EventTypes: patterns,
		Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}})
	w.ok(err)
	w.ok(w.table.Refresh(w.Context()))
	return e
}

// notice stores a notice about the object.
func (w *harness) notice(kind postrider.NoticeKind, account postrider.AccountID, object string) postrider.Notice {
	w.Helper()
	id := store.NewID[postrider.NoticeID](w.ids)
	put, err := w.PutNotices(w.Context(), []postrider.Notice{{
		ID: id, Account: account, Kind: kind, Object: object, Occurrence: id.String(), Details: map[string]string{"reason": "gone"},
	}})
	w.ok(err)
	return put[0]
}

// run publishes notices on that many nodes for d of virtual time.
func (w *harness) run(nodes int, d time.Duration, to notify.Publisher) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), d)
	defer cancel()
	opts := notify.Options{Hooks: observe.Hooks{
		ChoreDone: func(c observe.ChoreDone) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.rounds = append(w.rounds, c)
		},
		NoticesWaiting: func(n int) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.waiting = append(w.waiting, n)
		},
	}}
	var all sync.WaitGroup
	all.Go(func() { w.check(w.ingest.Run(ctx)) })
	for range nodes {
		all.Go(func() { w.check(notify.New(w, to, w.table, opts).Run(ctx)) })
	}
	all.Wait()
	w.ingest = w.newIngest() // an ingest runs only once
}

func (w *harness) check(err error) {
	if err != nil {
		w.Errorf("Run = %v, want nil", err)
	}
}

// published returns the events of the account, oldest first.
func (w *harness) published() []postrider.Event {
	w.Helper()
	page, err := w.Events(w.Context(), store.EventQuery{Account: w.account, Paging: store.Paging{OldestFirst: true, Limit: store.MaxLimit}})
	w.ok(err)
	for i := range page.Items { // a list leaves the data out
		one, err := w.Events(w.Context(), store.EventQuery{Account: w.account, ID: page.Items[i].ID})
		w.ok(err)
		page.Items[i] = one.Items[0]
	}
	return page.Items
}

func TestANoticeIsPublishedOnceToTheEndpointsThatSubscribe(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		failing, all, subscribed, exact := w.endpoint("order.*"), w.endpoint("*"), w.endpoint("postrider.*"),
			w.endpoint("postrider.endpoint.disabled")
		disabled := w.notice(postrider.NoticeDisabled, w.account, failing.ID.String())
		recovered := w.notice(postrider.NoticeRecovered, w.account, all.ID.String())
		replay := w.notice(postrider.NoticeReplay, w.account, store.NewID[postrider.ReplayID](w.ids).String())
		w.run(3, time.Minute, w.ingest)

		events := w.published()
		if len(events) != 3 {
			t.Fatalf("%d events are published, want one for each of three notices: %+v", len(events), events)
		}
		for i, n := range []postrider.Notice{disabled, recovered, replay} {
			var got apitypes.Notice
			w.ok(json.Unmarshal(events[i].Data, &got))
			if diff := cmp.Diff(apitypes.NoticeOf(n), got); diff != "" || events[i].Type != "postrider."+string(n.Kind) {
				t.Errorf("the event of %s has the data (-want +got):\n%s", events[i].Type, diff)
			}
		}
		deliveries, err := w.Deliveries(t.Context(), store.DeliveryQuery{Account: w.account})
		w.ok(err)
		got := map[postrider.EndpointID]int{}
		for _, d := range deliveries.Items {
			got[d.Endpoint]++
		}
		if diff := cmp.Diff(map[postrider.EndpointID]int{subscribed.ID: 3, exact.ID: 1}, got); diff != "" {
			t.Errorf("deliveries by endpoint (-want +got):\n%s", diff)
		}
		if last, err := w.NoticesPublished(t.Context()); err != nil || last != replay.ID {
			t.Errorf("published up to %s, %v; want %s", last, err, replay.ID)
		}
		w.run(1, time.Minute, w.ingest)
		if again := w.published(); len(again) != 3 {
			t.Errorf("after a restart there are %d events, want 3", len(again))
		}
	})
}

func TestOperationalEventsCauseNoOperationalEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		all, one, both := w.endpoint("postrider.*"), w.endpoint("postrider.replay.finished"), w.endpoint("order.*", "postrider.endpoint.*")
		deleted := w.endpoint("order.*")
		deleted.Status = postrider.EndpointDeleted
		_, err := w.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: deleted})
		w.ok(err)
		w.ok(w.table.Refresh(t.Context()))
		for _, e := range []postrider.Endpoint{all, one, both, deleted} {
			for _, kind := range postrider.NoticeKinds {
				w.notice(kind, w.account, e.ID.String())
			}
		}
		w.notice(postrider.NoticeChore, postrider.AccountID{}, "forget events")
		other := store.NewID[postrider.AccountID](w.ids)
		last := w.notice(postrider.NoticeReplay, other, store.NewID[postrider.ReplayID](w.ids).String()) // nobody subscribes
		w.run(1, time.Minute, w.ingest)

		if events := w.published(); len(events) != 0 {
			t.Errorf("%d events are published, the first %s, want none", len(events), events[0].Type)
		}
		if done, err := w.NoticesPublished(t.Context()); err != nil || done != last.ID {
			t.Errorf("handled up to %s, %v; want %s", done, err, last.ID)
		}
	})
}

func TestANoticeThatIsCommittedLateIsNotPassedBy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint("order.*")
		w.endpoint("postrider.*")
		late := postrider.Notice{
			ID: store.NewID[postrider.NoticeID](w.ids), Account: w.account, Kind: postrider.NoticeFailing, Object: e.ID.String(), Occurrence: "1",
		}
		w.notice(postrider.NoticeDisabled, w.account, e.ID.String())
		var committing sync.WaitGroup
		committing.Go(func() {
			time.Sleep(9 * time.Second)
			_, err := w.PutNotices(t.Context(), []postrider.Notice{late})
			w.check(err)
		})
		w.run(1, time.Minute, w.ingest)
		committing.Wait()
		if events := w.published(); len(events) != 2 {
			t.Errorf("%d events are published, want both", len(events))
		}
	})
}

// flaky is a publisher that refuses, hangs, and then publishes.
type flaky struct {
	notify.Publisher

	refusals, hangs int
	tried           []time.Time
}

func (f *flaky) Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	f.tried = append(f.tried, time.Now())
	switch n := len(f.tried); {
	case n <= f.refusals:
		return nil, &postrider.OverloadError{RetryAfter: time.Second}
	case n <= f.refusals+f.hangs:
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	return f.Publisher.Publish(ctx, events)
}

func TestAPublishThatIsRefusedOrHangsIsTriedAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.endpoint("postrider.*")
		start := time.Now()
		w.notice(postrider.NoticeReplay, w.account, store.NewID[postrider.ReplayID](w.ids).String())
		f := &flaky{Publisher: w.ingest, refusals: 2, hangs: 1}
		w.run(1, 5*time.Minute, f)

		var tried []time.Duration
		for _, at := range f.tried {
			tried = append(tried, at.Sub(start).Round(time.Second))
		}
		want := []time.Duration{15 * time.Second, 16 * time.Second, 18 * time.Second, 52 * time.Second} // the third hangs for 30 s
		if diff := cmp.Diff(want, tried); diff != "" {
			t.Errorf("tried after (-want +got):\n%s", diff)
		}
		if events := w.published(); len(events) != 1 {
			t.Errorf("%d events are published, want 1", len(events))
		}
		failed := 0
		for _, r := range w.rounds {
			if r.Err != nil {
				failed++
			}
		}
		if failed != 3 || w.waiting[len(w.waiting)-1] != 0 {
			t.Errorf("observers heard of %d failed rounds and at last of %d notices that wait; want 3 and 0", failed, w.waiting[len(w.waiting)-1])
		}
	})
}

// late is a publisher that finds the filters of an account over their share of time at each publish.
type late struct {
	*harness

	account postrider.AccountID
}

func (l late) Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	l.table.FanOutLate(l.account)
	return l.ingest.Publish(ctx, events)
}

func TestAnAccountWithSlowFiltersHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		slow, other := w.account, store.NewID[postrider.AccountID](w.ids)
		e := w.endpoint("postrider.*")
		e.Policy.Filter = `{"data": {"kind": ["replay.finished"]}}`
		_, err := w.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: e})
		w.ok(err)
		w.notice(postrider.NoticeReplay, slow, store.NewID[postrider.ReplayID](w.ids).String())
		w.account = other
		w.endpoint("postrider.*") // it refreshes the table, too
		w.notice(postrider.NoticeReplay, other, store.NewID[postrider.ReplayID](w.ids).String())
		w.run(1, time.Minute, late{w, slow})
		for name, account := range map[string]postrider.AccountID{"slow": slow, "other": other} {
			if w.account = account; len(w.published()) != 1 {
				t.Errorf("%d events of the %s account are published, want 1", len(w.published()), name)
			}
		}
	})
}

func TestTheEndStopsAPublishThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.endpoint("postrider.*")
		w.notice(postrider.NoticeReplay, w.account, store.NewID[postrider.ReplayID](w.ids).String())
		start := time.Now()
		w.run(1, 12*time.Second, &flaky{Publisher: w.ingest, hangs: 1})
		if took := time.Since(start); took != 12*time.Second {
			t.Errorf("Run ended after %v, want after 12 s", took)
		}
	})
}

func TestAnEventWhoseKeyIsTakenHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.endpoint("postrider.*")
		var taken postrider.Notice
		for i := range 3 {
			n := w.notice(postrider.NoticeReplay, w.account, store.NewID[postrider.ReplayID](w.ids).String())
			if i == 1 {
				taken = n
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { w.check(w.ingest.Run(ctx)) })
		_, err := w.ingest.Publish(ctx, []postrider.Event{{
			Account: w.account, Type: "order.created", Data: []byte(`{}`), IdempotencyKey: taken.ID.String(),
		}})
		w.ok(err)
		cancel()
		running.Wait()

		w.ingest = ingest.New(w.Store, w.table, w, ingest.Options{IDs: w.ids, Clock: w.Clock()})
		w.run(1, time.Minute, w.ingest)
		if events := w.published(); len(events) != 3 || events[0].Type != "order.created" {
			t.Errorf("%d events are published, want the producer's and two of notices", len(events))
		}
	})
}

func TestTheTypesAreInTheCatalogue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		written := postrider.EventType{Name: postrider.NoticeDisabled.EventType(), Description: "our own words"}
		w.ok(w.PutEventType(t.Context(), written))
		w.run(2, time.Second, w.ingest)

		page, err := w.EventTypes(t.Context(), store.EventTypeQuery{})
		w.ok(err)
		got := map[string]postrider.EventType{}
		for _, et := range page.Items {
			got[et.Name] = et
		}
		if got[written.Name].Description != written.Description {
			t.Errorf("the catalogue says %q of %s, want what a person wrote", got[written.Name].Description, written.Name)
		}
		for _, kind := range postrider.NoticeKinds {
			et, there := got[kind.EventType()]
			if kind.OfInstallation() {
				if there {
					t.Errorf("%s is in the catalogue, and no account gets it", kind.EventType())
				}
				continue
			}
			var example apitypes.Notice
			if kind.EventType() != written.Name && (et.Description == "" || json.Unmarshal(et.Example, &example) != nil ||
				example.Kind != string(kind)) {
				t.Errorf("the catalogue has %s with %q and %s", kind.EventType(), et.Description, et.Example)
			}
		}
	})
}
