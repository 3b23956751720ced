package janitor_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// notified returns the notices, oldest first, each with the minutes since the start.
func (w *harness) notified(q store.NoticeQuery) (all []string) {
	w.Helper()
	q.Paging = store.Paging{OldestFirst: true, Limit: store.MaxLimit}
	page, err := w.Notices(w.Context(), q)
	w.ok(err)
	for _, n := range page.Items {
		all = append(all, fmt.Sprintf("%v %s %s", n.CreatedAt.Sub(w.start).Truncate(time.Minute), n.Kind, n.Details["reason"]))
	}
	return all
}

// run runs so many janitors at once for d of virtual time.
func (w *harness) run(janitors int, d time.Duration, s store.Store, opts janitor.Options) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), d)
	defer cancel()
	var all sync.WaitGroup
	for range janitors {
		all.Go(func() {
			if err := janitor.New(of(s), opts).Run(ctx); err != nil {
				w.Errorf("Run = %v, want nil", err)
			}
		})
	}
	all.Wait()
}

// open has the endpoint's circuit be open, and the endpoint fail, since now.
func (w *harness) open(e postrider.Endpoint) {
	w.Helper()
	w.openSince(e, time.Now())
}

func (w *harness) openSince(e postrider.Endpoint, since time.Time) {
	w.Helper()
	w.attempted(postrider.Circuit{
		Endpoint: e.ID, Status: postrider.CircuitOpen, Reason: postrider.ReasonFailuresInRow, OpenedAt: since, FailingSince: since,
	})
}

func TestEachChangeOfHealthHasOneNotice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		w.failing(e)
		w.run(2, 6*24*time.Hour, w, janitor.Options{})

		w.same("the notices", w.notified(store.NoticeQuery{Account: w.account, Object: e.ID.String()}), []string{
			"6h1m0s endpoint.failing failing", "24h2m0s endpoint.failing failing",
			"72h3m0s endpoint.disabling failing", "120h4m0s endpoint.disabled failing",
		})
	})
}

func TestA410HasANoticeAndSoHasARecovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		gone, dying := w.endpoint(), w.endpoint()
		var mu sync.Mutex
		var heard []string
		opts := janitor.Options{Hooks: observe.Hooks{Noticed: func(n postrider.Notice) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, string(n.Kind))
		}}}
		j := janitor.New(of(w.Store), opts)
		for range 2 {
			w.ok(j.Disable(t.Context(), gone.ID, postrider.ReasonGone))
		}
		w.deadLetters(dying, 30)
		w.run(1, time.Minute/2, w.Store, opts)
		time.Sleep(postrider.HealthSpan)
		w.run(1, time.Minute/2, w.Store, opts)

		w.same("the notices of the one that is gone", w.notified(store.NoticeQuery{Object: gone.ID.String()}),
			[]string{"0s endpoint.disabled gone"})
		w.same("those of the other", w.notified(store.NoticeQuery{Object: dying.ID.String()}), []string{
			"0s endpoint.disabling dead_letters", "24h0m0s endpoint.recovered ",
		})
		mu.Lock()
		defer mu.Unlock()
		w.same("what observers heard", heard, []string{"endpoint.disabled", "endpoint.disabling", "endpoint.recovered"})
	})
}

// An endpoint is set aside once, and not if it has changed meanwhile.
func TestAnEndpointThatIsSetAsideHasANotice(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		j := janitor.New(of(w.Store), janitor.Options{})
		for range 2 {
			w.ok(j.SetAside(t.Context(), e))
		}
		w.same("the notices", w.notified(store.NoticeQuery{Object: e.ID.String()}), []string{"0s endpoint.condition_failed "})
		page, err := w.Endpoints(t.Context(), store.EndpointQuery{ID: e.ID})
		w.ok(err)
		if !page.Items[0].ConditionFailed || page.Items[0].PolicyError == "" || page.Items[0].Revision != e.Revision+1 {
			t.Errorf("the endpoint is %+v", page.Items[0])
		}
	})
}

func TestACircuitThatStaysOpenHasOneNoticeForEachTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		limits := postrider.HealthLimits{WarnPercent: 100, DisablePercent: 100}
		opts := janitor.Options{Chunk: 2, Limits: &limits}
		var opened []postrider.Endpoint
		for range 5 { // more than two chunks
			opened = append(opened, w.endpoint())
			w.open(opened[len(opened)-1])
		}
		w.failing(w.endpoint()) // and its circuit is closed
		w.run(2, 3*time.Hour, w, opts)
		for _, e := range opened {
			w.same("the notices", w.notified(store.NoticeQuery{Object: e.ID.String(), Account: w.account}),
				[]string{"1h1m0s endpoint.circuit_open failures_in_row"})
		}
		w.run(1, time.Hour, w, opts) // after a restart

		known, err := w.Circuits(t.Context(), store.CircuitQuery{Endpoint: opened[0].ID, Limit: 1})
		w.ok(err)
		again := postrider.Circuit{Endpoint: opened[0].ID, Generation: known[0].Generation}
		again, err = w.PutCircuit(t.Context(), store.PutCircuit{Circuit: again})
		w.ok(err)
		w.run(1, time.Hour, w, opts)
		again.Status, again.FailingSince = postrider.CircuitOpen, time.Now()
		w.attempted(again)
		w.run(1, 2*time.Hour, w, opts)
		w.same("all notices", w.notified(store.NoticeQuery{}),
			append(slices.Repeat([]string{"1h1m0s endpoint.circuit_open failures_in_row"}, 5), "6h1m0s endpoint.circuit_open "))
	})
}

func TestManyDeadLettersHaveANoticeADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		time.Sleep(time.Until(w.start.Truncate(24 * time.Hour).Add(23*time.Hour + 50*time.Minute))) // ten minutes before another day
		w.start = time.Now()
		limits := postrider.HealthLimits{WarnPercent: 100, DisablePercent: 100}
		opts := janitor.Options{Chunk: 2, Limits: &limits, Notice: janitor.NoticeLimits{DeadLetters: 30}}
		e, few := w.endpoint(), w.endpoint()
		w.deadLetters(few, 29)
		w.deadLetters(e, 30)
		w.run(2, 12*time.Hour, w, opts)
		w.deadLetters(e, 40)
		w.run(1, 14*time.Hour, w, opts)

		page, err := w.Notices(t.Context(), store.NoticeQuery{Paging: store.Paging{OldestFirst: true}})
		w.ok(err)
		var got []string
		for _, n := range page.Items {
			got = append(got, fmt.Sprint(n.CreatedAt.Sub(w.start).Truncate(time.Minute), " ", n.Kind, " ", n.Object == e.ID.String(), " ",
				n.Details["count"], " of ", n.Details["limit"]))
		}
		w.same("the notices", got, []string{
			"0s endpoint.dead_letters true 30 of 30", "24h0m0s endpoint.dead_letters true 40 of 30",
		})
	})
}

func TestDeadLettersThatAreDiscardedAreToldOfBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		w.deadLetters(e, 5)
		w.endpoint()
		limits := postrider.HealthLimits{WarnPercent: 100, DisablePercent: 100}
		w.run(2, 182*aDay, w, janitor.Options{Every: time.Hour, Chunk: 2, Limits: &limits})

		page, err := w.Notices(t.Context(), store.NoticeQuery{Account: w.account, Paging: store.Paging{OldestFirst: true}})
		w.ok(err)
		var got []string
		for _, n := range page.Items {
			got = append(got, fmt.Sprint(n.CreatedAt.Sub(w.start).Truncate(24*time.Hour), " ", n.Kind, " ", n.Object == e.ID.String()))
			if discarded := w.start.Add(180 * aDay).UTC().Format(time.RFC3339); n.Kind == postrider.NoticeExpiring &&
				n.Details["discarded_at"] != discarded {
				t.Errorf("they are discarded at %s, want %s", n.Details["discarded_at"], discarded)
			}
		}
		w.same("the notices", got, []string{
			"4008h0m0s endpoint.dead_letters_expiring true", "4176h0m0s endpoint.dead_letters_expiring true", // after 167 and 174 days
			"4320h0m0s endpoint.dead_letters_expired true",
		})
	})
}

// lockedStore is a store of which one verb fails for some time.
type lockedStore struct {
	store.Store

	until time.Time
}

func (l lockedStore) Shrink(ctx context.Context, limit int) (int, error) {
	if time.Now().Before(l.until) {
		return 0, errors.New("dial tcp db.internal:5432: user=postrider password=hunter2")
	}
	return l.Store.Shrink(ctx, limit)
}

func TestAChoreThatKeepsFailingHasANoticeADay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		w.run(2, 4*aDay, lockedStore{w.Store, w.start.Add(59 * time.Minute)}, janitor.Options{})
		w.same("the notices after 59 minutes", w.notified(store.NoticeQuery{}), []string(nil))
		w.start = time.Now()
		w.run(2, 4*aDay, lockedStore{w.Store, w.start.Add(30 * time.Hour)}, janitor.Options{})

		page, err := w.Notices(t.Context(), store.NoticeQuery{})
		w.ok(err)
		if len(page.Items) != 2 {
			t.Fatalf("the notices are %+v, want one after an hour and one a day later", page.Items)
		}
		n := page.Items[1]
		if at := n.CreatedAt.Sub(w.start); at < time.Hour || at > time.Hour+2*time.Minute || page.Items[0].CreatedAt.Sub(n.CreatedAt) < aDay {
			t.Errorf("the notices are %v and %v after the start, want after an hour and a day later", at, page.Items[0].CreatedAt.Sub(w.start))
		}
		if n.Object != "shrink the file" || !n.Account.IsZero() || n.Details["error"] != "the log of the server has the cause" ||
			n.Details["failing_since"] == "" {
			t.Errorf("the notice is %+v", n)
		}
	})
}

// hangingStore is a store in which notices hang.
type hangingStore struct{ store.Store }

func (hangingStore) PutNotices(ctx context.Context, _ []postrider.Notice) ([]postrider.Notice, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (hangingStore) Notices(ctx context.Context, _ store.NoticeQuery) (page store.Page[postrider.Notice], err error) {
	<-ctx.Done()
	return page, ctx.Err()
}

func TestNothingWaitsForANoticeThatHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		w.deadLetters(e, 200) // far more than have a notice
		w.open(e)
		w.work(1, 3*time.Hour, hangingStore{w.Store})

		w.same("the endpoint's health", w.recorded(e), []string{"0s warned dead_letters 1", "1h0m0s disabled dead_letters 1"})
		rounds := map[string]int{}
		for _, c := range w.chores {
			rounds[c.Name]++
		}
		for _, chore := range []string{"expire deliveries", "assess endpoint health", "cancel deliveries of deleted endpoints", "roll up"} {
			if rounds[chore] < 179 {
				t.Errorf("%d rounds of %q in 180 minutes", rounds[chore], chore)
			}
		}
	})
}

// countingStore counts the rows that calls of the chores read and write.
type countingStore struct {
	store.Store

	mu      sync.Mutex
	written map[time.Duration]int // notices and changes of health, by the 10 ms in which they were written
	most    int                   // notices of one call
	start   time.Time
}

func (c *countingStore) count(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.written[time.Since(c.start).Truncate(10*time.Millisecond)] += n
	c.most = max(c.most, n)
}

func (c *countingStore) PutNotices(ctx context.Context, notices []postrider.Notice) ([]postrider.Notice, error) {
	c.count(len(notices))
	return c.Store.PutNotices(ctx, notices)
}

func (c *countingStore) PutHealth(ctx context.Context, h postrider.EndpointHealth, notices ...postrider.Notice) error {
	c.count(1)
	return c.Store.PutHealth(ctx, h, notices...)
}

func TestTenThousandEndpointsThatFailAtOnceHaveANoticeEach(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		w := newHarness(t)
		for range n {
			w.openSince(w.endpoint(), w.start.Add(-6*time.Hour))
		}
		s := &countingStore{Store: w.Store, written: map[time.Duration]int{}, start: w.start}
		w.run(1, 3*time.Minute, s, janitor.Options{})

		counts := map[postrider.NoticeKind]int{}
		for q := (store.NoticeQuery{Paging: store.Paging{Limit: store.MaxLimit}}); ; {
			page, err := w.Notices(t.Context(), q)
			w.ok(err)
			for _, notice := range page.Items {
				counts[notice.Kind]++
			}
			if q.Cursor = page.Next; q.Cursor == "" {
				break
			}
		}
		w.same("notices by kind", counts, map[postrider.NoticeKind]int{postrider.NoticeCircuitOpen: n, postrider.NoticeFailing: n})
		total := 0
		for at, written := range s.written {
			if total += written; written > 500+store.MaxLimit {
				t.Errorf("%d rows were written in the 10 ms after %v, want at most a chunk of health and one of circuits", written, at)
			}
		}
		if total != 2*n || s.most > store.MaxLimit {
			t.Errorf("%d rows were written for %d notices, at most %d at once; want each once, %d at once", total, 2*n, s.most, store.MaxLimit)
		}
	})
}

// step sets the time of day of the store ahead by so much; its Now goes on.
func (w *harness) step(by time.Duration) {
	w.Helper()
	c, now := w.Clock(), time.Now()
	c.Follow(store.Reading{Asked: now, Answered: now, Wall: c.Wall(), Ahead: c.Ahead()})
	c.Follow(store.Reading{Asked: now, Answered: now, Wall: c.Wall().Add(by), Ahead: c.Ahead() - by, Version: 1})
}

func TestAStepOfTheTimeOfDayIsNoOutage(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{6 * 24 * time.Hour, -6 * 24 * time.Hour} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t)
			opts := janitor.Options{Chunk: 2, Notice: janitor.NoticeLimits{CircuitOpen: time.Hour}}
			e := w.endpoint()
			w.open(e)
			w.run(1, 2*time.Hour, w, opts)
			w.step(by)
			w.run(1, 3*time.Hour, w, opts) // another janitor, which has told of nothing
			w.same("the notices", w.notified(store.NoticeQuery{Object: e.ID.String(), Account: w.account}),
				[]string{"1h1m0s endpoint.circuit_open failures_in_row"})

			late := w.endpoint()
			since := w.Clock().Now()
			w.openSince(late, since)
			w.run(1, 59*time.Minute, w, opts)
			w.same("notices of a circuit that has not failed for long", w.notified(store.NoticeQuery{Object: late.ID.String(), Account: w.account}),
				[]string(nil))
			w.run(1, time.Hour, w, opts)
			page, err := w.Notices(w.Context(), store.NoticeQuery{Object: late.ID.String(), Account: w.account})
			w.ok(err)
			w.same("since when it fails", page.Items[0].Details["failing_since"], w.Clock().Shown(since).Format(time.RFC3339))
		})
	}
}
