package quota_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/quota"
	"github.com/postrider/postrider/internal/store"
)

// endpoint creates an endpoint of an account.
func (w *world) endpoint(account postrider.AccountID) postrider.EndpointID {
	w.Helper()
	id := store.NewID[postrider.EndpointID](w.ids)
	_, err := w.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{
		ID: id, Account: account, URL: "https://acme.example", EventTypes: []postrider.Pattern{"*"},
		Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}})
	if err != nil {
		w.Fatal(err)
	}
	return id
}

// owe adds n pending deliveries of an endpoint, as ingest and replays do.
func (w *world) owe(account postrider.AccountID, endpoint postrider.EndpointID, n int) {
	w.Helper()
	changes, err := w.Changes(w.Context(), 0, 1_000_000)
	if err != nil {
		w.Fatal(err)
	}
	var batch store.Batch
	for range n {
		e := event(account, 1)
		e.ID = store.NewID[postrider.EventID](w.ids)
		batch = append(batch, store.NewEvent{Event: e, Deliveries: []store.NewDelivery{{
			ID: store.NewID[postrider.DeliveryID](w.ids), Endpoint: endpoint, Lane: postrider.LaneFirst, Expiry: 7 * 24 * time.Hour,
		}}})
	}
	if _, err := w.Store.Publish(w.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{batch}}); err != nil {
		w.Fatal(err)
	}
}

// deliver ends n pending deliveries of an endpoint.
func (w *world) deliver(endpoint postrider.EndpointID, n int) {
	w.Helper()
	claims, err := w.Claim(w.Context(),
		store.Claim{Token: 1, Wants: []store.Want{{Endpoint: endpoint, Lane: postrider.LaneFirst, N: n, Lease: time.Minute}}})
	if err != nil || len(claims.Items) != n {
		w.Fatalf("claimed %d deliveries: %v, want %d", len(claims.Items), err, n)
	}
	var settlements []store.Settlement
	for _, c := range claims.Items {
		settlements = append(settlements, store.Settlement{
			Claimed: c, Attempt: postrider.Attempt{
				Delivery: c.ID, Event: c.Event.ID, Endpoint: endpoint, Number: 1,
				Outcome: postrider.OutcomeAccepted, StatusCode: 200,
			},
			Transition: postrider.Transition{To: postrider.Delivered},
		})
	}
	if _, err := w.Settle(w.Context(), settlements); err != nil {
		w.Fatal(err)
	}
}

// full returns for each endpoint whether it is marked.
func (w *world) full(endpoints ...postrider.EndpointID) (full []bool) {
	w.Helper()
	for _, id := range endpoints {
		page, err := w.Endpoints(w.Context(), store.EndpointQuery{ID: id})
		if err != nil {
			w.Fatal(err)
		}
		full = append(full, !page.Items[0].FullSince.IsZero())
	}
	return full
}

func (w *world) isFull(when string, want []bool, endpoints ...postrider.EndpointID) {
	w.Helper()
	if got := w.full(endpoints...); !slices.Equal(got, want) {
		w.Errorf("%s: full = %v, want %v", when, got, want)
	}
}

// mark starts Backlogs on a store. It ends with the test.
func (w *world) mark(s quota.BacklogStore, opts quota.BacklogOptions) {
	b := quota.NewBacklogs(s, opts)
	ctx, cancel := context.WithCancel(w.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := b.Run(ctx); err != nil {
			w.Errorf("Run = %v", err)
		}
	})
	w.Cleanup(func() { cancel(); running.Wait() })
}

// passed lets the time pass.
func passed(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestAnEndpointIsMarkedWhenItsBacklogIsFullAndFreeAgainWhenItDrains(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		acme := w.account(postrider.Quotas{})
		slow, other := w.endpoint(acme), w.endpoint(acme)
		var told []postrider.EndpointID
		w.mark(w.Store, quota.BacklogOptions{Default: 100, Notify: func(id postrider.EndpointID) { told = append(told, id) }})
		passed(time.Second)
		w.owe(acme, slow, 99)
		w.owe(acme, other, 50)
		passed(10 * time.Second)
		w.isFull("with 99 of 100", []bool{false, false}, slow, other)
		w.owe(acme, slow, 1)
		passed(6 * time.Second)
		w.isFull("with 100", []bool{true, false}, slow, other)
		w.deliver(slow, 9)
		passed(10 * time.Second)
		w.isFull("with 91", []bool{true, false}, slow, other)
		w.deliver(slow, 1)
		passed(6 * time.Second)
		w.isFull("with 90", []bool{false, false}, slow, other)
		if !slices.Equal(told, []postrider.EndpointID{slow, slow}) {
			t.Errorf("the table was told of %v, want both changes of %v", told, slow)
		}
	})
}

func TestTheLimitOfAnAccountGoesBeforeTheServers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		small, free, usual := w.account(postrider.Quotas{Backlog: 5}), w.account(postrider.Quotas{Backlog: postrider.NoQuota}),
			w.account(postrider.Quotas{Endpoints: 9})
		var endpoints []postrider.EndpointID
		for _, account := range []postrider.AccountID{small, free, usual} {
			endpoints = append(endpoints, w.endpoint(account))
			w.owe(account, endpoints[len(endpoints)-1], 20)
		}
		w.mark(w.Store, quota.BacklogOptions{Default: 20})
		passed(time.Second)
		w.isFull("with 20 each", []bool{true, false, true}, endpoints...)
		if err := w.PutQuotas(t.Context(), small, postrider.Quotas{Backlog: 30}); err != nil {
			t.Fatal(err)
		}
		passed(6 * time.Second)
		w.isFull("after a limit was raised", []bool{false, false, true}, endpoints...)
	})
}

func TestAnEndpointIsFreeWhenNoLimitIsLeft(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		acme := w.account(postrider.Quotas{})
		e := w.endpoint(acme)
		w.owe(acme, e, 10)
		if _, err := w.MarkFull(t.Context(), store.MarkFull{Full: []postrider.EndpointID{e}}); err != nil {
			t.Fatal(err)
		}
		w.mark(w.Store, quota.BacklogOptions{})
		passed(time.Second)
		w.isFull("without a limit", []bool{false}, e)
	})
}

func TestEachPageOfEndpointsIsMarked(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		acme := w.account(postrider.Quotas{})
		var endpoints []postrider.EndpointID
		for range 600 {
			endpoints = append(endpoints, w.endpoint(acme))
			w.owe(acme, endpoints[len(endpoints)-1], 2)
		}
		done := make(chan observe.ChoreDone, 100)
		w.mark(w.Store, quota.BacklogOptions{Default: 2, Hooks: observe.Hooks{ChoreDone: func(c observe.ChoreDone) { done <- c }}})
		passed(time.Second)
		for i, full := range w.full(endpoints...) {
			if !full {
				t.Fatalf("endpoint %d of 600 is not marked", i)
			}
		}
		if c := <-done; c.Rows != 600 || c.Err != nil {
			t.Errorf("the round was %+v, want 600 rows", c)
		}
	})
}

func TestPeopleAreToldOnceADayOfAFullEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		acme := w.account(postrider.Quotas{})
		e := w.endpoint(acme)
		var noticed atomic.Int64
		w.mark(w.Store, quota.BacklogOptions{Default: 10, Hooks: observe.Hooks{Noticed: func(postrider.Notice) { noticed.Add(1) }}})
		for range 3 {
			w.owe(acme, e, 10)
			passed(6 * time.Second)
			w.isFull("filled", []bool{true}, e)
			w.deliver(e, 10)
			passed(6 * time.Second)
			w.isFull("drained", []bool{false}, e)
		}
		passed(24 * time.Hour)
		w.owe(acme, e, 10)
		passed(6 * time.Second)
		page, err := w.Notices(t.Context(), store.NoticeQuery{Kind: postrider.NoticeBacklogFull})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) != 2 || noticed.Load() != 2 {
			t.Fatalf("%d notices, observers saw %d, want one of each day: %+v", len(page.Items), noticed.Load(), page.Items)
		}
		if n := page.Items[0]; n.Account != acme || n.Object != e.String() || n.Details["limit"] != "10" {
			t.Errorf("notice = %+v, want of the endpoint", n)
		}
	})
}

// counting counts the calls of a store, which may fail.
type counting struct {
	quota.BacklogStore

	calls atomic.Int64
	fail  atomic.Bool
}

func (c *counting) EndpointBacklogs(ctx context.Context, q store.BacklogsQuery) ([]postrider.EndpointBacklog, error) {
	c.calls.Add(1)
	if c.fail.Load() {
		return nil, fmt.Errorf("away: %w", postrider.ErrBusy)
	}
	return c.BacklogStore.EndpointBacklogs(ctx, q)
}

func TestOneNodeCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		acme := w.account(postrider.Quotas{})
		e := w.endpoint(acme)
		var leader atomic.Int64
		nodes := []*counting{{BacklogStore: w.Store}, {BacklogStore: w.Store}}
		for i, node := range nodes {
			w.mark(node, quota.BacklogOptions{Default: 10, Leads: func() bool { return leader.Load() == int64(i) }})
		}
		passed(time.Minute)
		if nodes[0].calls.Load() == 0 || nodes[1].calls.Load() != 0 {
			t.Errorf("the nodes made %d and %d calls, want some and none", nodes[0].calls.Load(), nodes[1].calls.Load())
		}
		leader.Store(1)
		w.owe(acme, e, 10)
		passed(6 * time.Second)
		w.isFull("with another leader", []bool{true}, e)
	})
}

// TestABacklogIsBoundedFromTheFirstSecondOfAServer kills a server every two seconds. It leads 300
// ms after each start.
func TestABacklogIsBoundedFromTheFirstSecondOfAServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		acme := w.account(postrider.Quotas{})
		e := w.endpoint(acme)
		w.owe(acme, e, 10)
		started := time.Now()
		w.mark(w.Store, quota.BacklogOptions{Default: 10, Leads: func() bool { return time.Since(started) > 300*time.Millisecond }})
		passed(time.Second)
		w.isFull("a second after the start", []bool{true}, e)
	})
}

func TestARoundThatFailsIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		acme := w.account(postrider.Quotas{})
		e := w.endpoint(acme)
		w.owe(acme, e, 10)
		away := &counting{BacklogStore: w.Store}
		away.fail.Store(true)
		rounds := make(chan observe.ChoreDone, 100)
		w.mark(away, quota.BacklogOptions{Default: 10, Hooks: observe.Hooks{ChoreDone: func(c observe.ChoreDone) { rounds <- c }}})
		passed(12 * time.Second)
		w.isFull("while the store is away", []bool{false}, e)
		if c := <-rounds; c.Name != "mark full backlogs" || !errors.Is(c.Err, postrider.ErrBusy) {
			t.Errorf("the round was %+v, want that it failed", c)
		}
		away.fail.Store(false)
		passed(6 * time.Second)
		w.isFull("afterwards", []bool{true}, e)
	})
}
