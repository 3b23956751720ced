package janitor_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// of returns the roles of a store.
func of(s store.Store) janitor.Store {
	return janitor.Store{
		Upkeep: s, Retention: s, Health: s, Time: s, Queue: s, Directory: s, History: s, NoticeLog: s, Rollups: s, OutboxRows: s,
	}
}

// harness is a store with endpoints in trouble, and what janitors of it said.
type harness struct {
	*testing.T
	*memory.Store

	ids     *store.IDs
	account postrider.AccountID
	start   time.Time

	attempts sync.WaitGroup // see attempted

	mu     sync.Mutex
	heard  []string // by all janitors, each with the time since the start
	chores []observe.ChoreDone
	counts []observe.HealthCounts // of each round of a janitor
	log    bytes.Buffer
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	ids := store.NewIDs(time.Now, &[32]byte{1})
	w := &harness{
		T: t, Store: memory.New(memory.Options{}), ids: ids,
		account: store.NewID[postrider.AccountID](ids), start: time.Now(),
	}
	t.Cleanup(w.attempts.Wait)
	return w
}

func (w *harness) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *harness) endpoint() postrider.Endpoint {
	w.Helper()
	e, err := w.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](w.ids), Account: w.account, URL: "https://receiver.example/",
		Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}})
	w.ok(err)
	return e
}

func (w *harness) found(id postrider.EndpointID) postrider.Endpoint {
	w.Helper()
	page, err := w.Endpoints(w.Context(), store.EndpointQuery{Account: w.account, ID: id})
	w.ok(err)
	if len(page.Items) != 1 {
		w.Fatalf("there are %d endpoints %s", len(page.Items), id)
	}
	return page.Items[0]
}

// deadLetters has n deliveries of the endpoint end as dead letters, and counts them.
func (w *harness) deadLetters(e postrider.Endpoint, n int) {
	w.Helper()
	changes, err := w.Changes(w.Context(), 0, 1000)
	w.ok(err)
	var batch store.Batch
	for range n {
		batch = append(batch, store.NewEvent{
			Event: postrider.Event{ID: store.NewID[postrider.EventID](w.ids), Account: w.account, Type: "order.created", Data: []byte(`{}`)},
			Deliveries: []store.NewDelivery{{
				ID: store.NewID[postrider.DeliveryID](w.ids), Endpoint: e.ID, Lane: postrider.LaneFirst,
			}},
		})
	}
	_, err = w.Publish(w.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{batch}})
	w.ok(err)
	expired, _, err := w.Expire(w.Context(), n)
	w.ok(err)
	if expired != n {
		w.Fatalf("%d of %d deliveries are dead letters", expired, n)
	}
	_, err = w.FoldRollups(w.Context(), store.Fold{Deltas: n})
	w.ok(err)
}

// failing has the endpoint fail since now.
func (w *harness) failing(e postrider.Endpoint) {
	w.Helper()
	w.attempted(postrider.Circuit{Endpoint: e.ID, Status: postrider.CircuitClosed, FailingSince: time.Now()})
}

// attempted stores the circuit after an attempt that failed now, and then after one each minute, half a
// minute past. It ends when somebody else changes the circuit.
func (w *harness) attempted(c postrider.Circuit) {
	w.Helper()
	fail := func() (err error) {
		c.LastAttemptAt = w.Clock().Now()
		c, err = w.PutCircuit(w.Context(), store.PutCircuit{Circuit: c})
		return err
	}
	w.ok(fail())
	w.attempts.Go(func() {
		for wait := time.Minute / 2; batch.Sleep(w.Context(), wait); wait = time.Minute {
			if fail() != nil {
				return
			}
		}
	})
}

// work runs so many janitors at once for d of virtual time.
func (w *harness) work(janitors int, d time.Duration, s store.Store) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), d)
	defer cancel()
	opts := janitor.Options{
		Chunk: 2, Log: slog.New(slog.NewTextHandler(&w.log, nil)),
		Hooks: observe.Hooks{HealthChanged: w.hear, ChoreDone: w.done, HealthCounted: w.counted},
	}
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

func (w *harness) done(c observe.ChoreDone) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.chores = append(w.chores, c)
}

func (w *harness) counted(c observe.HealthCounts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts = append(w.counts, c)
}

func (w *harness) hear(s postrider.EndpointHealth) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.heard = append(w.heard, fmt.Sprintf("%v %s %s %d", time.Since(w.start), s.Status, s.Reason, s.Warnings))
}

// recorded returns the endpoint's history, oldest first, as hear notes them.
func (w *harness) recorded(e postrider.Endpoint) (all []string) {
	w.Helper()
	page, err := w.HealthHistory(w.Context(), store.HealthQuery{Account: w.account, Endpoint: e.ID})
	w.ok(err)
	for _, s := range page.Items {
		all = append([]string{fmt.Sprintf("%v %s %s %d", s.Since.Sub(w.start), s.Status, s.Reason, s.Warnings)}, all...)
	}
	return all
}

func (w *harness) same(what string, got, want any) {
	w.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		w.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestAnEndpointWithDeadLettersIsWarnedAndAnHourLaterDisabled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		w.deadLetters(e, 30)
		w.work(1, 2*time.Hour, w)

		want := []string{"0s warned dead_letters 1", "1h0m0s disabled dead_letters 1"}
		w.same("what was recorded", w.recorded(e), want)
		w.same("what was heard", w.heard, want)
		e = w.found(e.ID)
		w.same("the endpoint's status", e.Status, postrider.EndpointDisabled)
		w.same("its reason", e.StatusReason, postrider.ReasonDeadLetters)
		line := `level=WARN msg="endpoint health changed" endpoint=` + e.ID.String() + " status=disabled reason=dead_letters warnings=1\n"
		if !strings.HasSuffix(w.log.String(), line) || strings.Count(w.log.String(), "\n") != 2 {
			t.Errorf("two lines should be logged, the last %s; got\n%s", line, w.log.String())
		}
	})
}

func TestAnEndpointThatFailsForFiveDaysIsWarnedThriceAndDisabled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		w.failing(e)
		w.work(1, 6*24*time.Hour, w)

		w.same("what was recorded", w.recorded(e), []string{
			"6h1m0s warned failing 1", "24h2m0s warned failing 2", "72h3m0s warned failing 3", "120h4m0s disabled failing 3",
		})
		w.same("the endpoint's status", w.found(e.ID).Status, postrider.EndpointDisabled)
	})
}

func TestAnEndpointThatAPersonEnabledAgainBeginsAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		w.deadLetters(e, 30)
		w.work(1, 90*time.Minute, w)
		e = w.found(e.ID)
		e.Status, e.StatusReason = postrider.EndpointEnabled, ""
		_, err := w.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: e})
		w.ok(err)
		w.work(1, 3*time.Hour, w)

		w.same("what was recorded", w.recorded(e), []string{
			"0s warned dead_letters 1", "1h0m0s disabled dead_letters 1", "1h30m0s healthy  0",
		})
		w.same("what was counted", slices.Compact(w.counts), []observe.HealthCounts{{Warned: 1}, {Disabled: 1}, {}})
	})
}

func TestOfTwoJanitorsOneRecordsAChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		var endpoints []postrider.Endpoint
		for range 5 { // more than two chunks
			endpoints = append(endpoints, w.endpoint())
			w.deadLetters(endpoints[len(endpoints)-1], 20)
		}
		w.work(2, 2*time.Hour, w)

		for _, e := range endpoints {
			history := w.recorded(e)
			if len(history) != 2 || !strings.Contains(history[1], " disabled dead_letters 1") {
				t.Errorf("recorded of %s: %q, want a warning and its end", e.ID, history)
			}
		}
		if len(w.heard) != 2*len(endpoints) {
			t.Errorf("heard %d changes of %d endpoints, want two of each: %q", len(w.heard), len(endpoints), w.heard)
		}
		if !slices.ContainsFunc(w.chores, func(c observe.ChoreDone) bool { return c.Name == "assess endpoint health" && c.Err == nil }) {
			t.Errorf("%d rounds of chores were heard of, want some of \"assess endpoint health\"", len(w.chores))
		}
	})
}

// flakyStore is a store of which one verb fails until a time.
type flakyStore struct {
	store.Store

	failing string
	until   time.Time
}

func (b *flakyStore) fail(verb string) error {
	if verb == b.failing && time.Now().Before(b.until) {
		return errors.New("store is away")
	}
	return nil
}

func (b *flakyStore) HealthInputs(ctx context.Context, after postrider.EndpointID, limit int) ([]postrider.HealthInput, error) {
	if err := b.fail("inputs"); err != nil {
		return nil, err
	}
	return b.Store.HealthInputs(ctx, after, limit)
}

func (b *flakyStore) Now(ctx context.Context) (time.Time, error) {
	if err := b.fail("now"); err != nil {
		return time.Time{}, err
	}
	return b.Store.Now(ctx)
}

func (b *flakyStore) PutHealth(ctx context.Context, s postrider.EndpointHealth, notices ...postrider.Notice) error {
	if err := b.fail("put"); err != nil {
		return err
	}
	return b.Store.PutHealth(ctx, s, notices...)
}

func TestHealthIsRecordedOnceTheStoreIsBack(t *testing.T) {
	t.Parallel()
	for _, verb := range []string{"inputs", "now", "put"} {
		synctest.Test(t, func(t *testing.T) {
			w := newHarness(t)
			e := w.endpoint()
			w.deadLetters(e, 30)
			w.work(1, time.Minute, &flakyStore{Store: w.Store, failing: verb, until: w.start.Add(2 * time.Second)})

			w.same("what was recorded after "+verb, w.recorded(e), []string{"3s warned dead_letters 1"})
		})
	}
}

// A 410 takes the same way as an assessment: one record, one line in the log, one
// call of the hook.
func TestDisableRecordsLogsAndCallsTheHookOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		w.deadLetters(e, 30)
		w.work(1, time.Minute, w.Store) // which warns
		j := janitor.New(of(w.Store), janitor.Options{
			Log:   slog.New(slog.NewTextHandler(&w.log, nil)),
			Hooks: observe.Hooks{HealthChanged: w.hear},
		})
		for range 2 { // the second one finds it disabled
			w.ok(j.Disable(t.Context(), e.ID, postrider.ReasonGone))
		}
		want := []string{"0s warned dead_letters 1", "1m0s disabled gone 1"}
		w.same("what was recorded", w.recorded(e), want)
		w.same("what was heard", w.heard, want)
		if found := w.found(e.ID); found.Status != postrider.EndpointDisabled || found.StatusReason != postrider.ReasonGone {
			t.Errorf("the endpoint is %s (%s), want disabled (gone)", found.Status, found.StatusReason)
		}
		if n := strings.Count(w.log.String(), "endpoint health changed"); n != 2 {
			t.Errorf("%d lines in the log, want 2: %s", n, w.log.String())
		}
	})
}

func TestDisableReachesAPausedEndpointAfterA410Alone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		e.Status, e.StatusReason = postrider.EndpointPaused, "maintenance"
		_, err := w.PutEndpoint(t.Context(), store.PutEndpoint{Endpoint: e})
		w.ok(err)
		j := janitor.New(of(w.Store), janitor.Options{})
		w.ok(j.Disable(t.Context(), e.ID, postrider.ReasonFailing))
		w.same("the status after failures", w.found(e.ID).Status, postrider.EndpointPaused)
		w.ok(j.Disable(t.Context(), e.ID, postrider.ReasonGone))
		w.same("the status after a 410", w.found(e.ID).Status, postrider.EndpointDisabled)
		w.same("what was recorded", w.recorded(e), []string{"0s disabled gone 0"})
	})
}

func TestDisableRepeatsWhenAnotherNodeRecordedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		j := janitor.New(of(overtakenStore{w.Store}), janitor.Options{Hooks: observe.Hooks{HealthChanged: w.hear}})
		w.ok(j.Disable(t.Context(), e.ID, postrider.ReasonGone))
		w.same("what was recorded", w.recorded(e), []string{"0s disabled gone 0"})
		if w.heard != nil {
			t.Errorf("heard %q, want nothing: the other node recorded it", w.heard)
		}
		gone := store.NewID[postrider.EndpointID](w.ids)
		w.ok(j.Disable(t.Context(), gone, postrider.ReasonGone))
	})
}

// overtakenStore is a store in which another node records every health just before.
type overtakenStore struct{ store.Store }

func (o overtakenStore) PutHealth(ctx context.Context, s postrider.EndpointHealth, notices ...postrider.Notice) error {
	if err := o.Store.PutHealth(ctx, s, notices...); err != nil {
		return err
	}
	return o.Store.PutHealth(ctx, s, notices...)
}

func TestAChangeThatAnotherNodeRecordedIsNotHeardHere(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newHarness(t)
		e := w.endpoint()
		w.deadLetters(e, 30)
		w.work(1, 2*time.Hour, overtakenStore{w.Store})

		w.same("what was recorded", w.recorded(e), []string{"0s warned dead_letters 1", "1h0m0s disabled dead_letters 1"})
		if w.heard != nil || w.log.Len() > 0 {
			t.Errorf("heard %q and logged %q, want nothing", w.heard, w.log.String())
		}
	})
}
