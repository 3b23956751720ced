package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a dispatcher with the memory store, in a synctest bubble.
type harness struct {
	t     *testing.T
	queue store.Queue
	store *memory.Store
	ids   *store.IDs
	d     *dispatch.Dispatcher
	last  func(routing.Change) // function with which the last dispatcher has subscribed
	heard map[*dispatch.Dispatcher]func(routing.Change)
	held  atomic.Bool // whether the store is held

	mu      sync.Mutex
	same    map[postrider.EndpointID]*snapshot // snapshots that Lookup returns, if they are set
	routed  map[postrider.EndpointID]store.EndpointSnapshot
	respond func(postrider.Claimed) postrider.Attempt // the response comes after its Duration
	sent    []request
	now     map[postrider.EndpointID]int
	most    map[postrider.EndpointID]int
}

type request struct {
	at time.Time
	postrider.Claimed
}

func newHarness(t *testing.T) *harness {
	r := &harness{
		t: t, store: memory.New(memory.Options{}), ids: store.NewIDs(time.Now, &[32]byte{}),
		routed: map[postrider.EndpointID]store.EndpointSnapshot{}, heard: map[*dispatch.Dispatcher]func(routing.Change){},
		now: map[postrider.EndpointID]int{}, most: map[postrider.EndpointID]int{},
		respond: func(postrider.Claimed) postrider.Attempt { return accepted(time.Millisecond) },
	}
	r.queue = r.store
	return r
}

func accepted(after time.Duration) postrider.Attempt {
	return postrider.Attempt{Outcome: postrider.OutcomeAccepted, StatusCode: 200, Duration: after}
}

func rejected() postrider.Attempt {
	return postrider.Attempt{Outcome: postrider.OutcomeRejected, StatusCode: 500, Duration: time.Millisecond}
}

// run starts the dispatcher. It returns a function that ends the dispatcher and waits for it.
func (r *harness) run(opts dispatch.Options) (stop func() error) {
	ctx, cancel := context.WithCancel(r.t.Context())
	r.d = dispatch.New(r.queue, r, r, opts)
	r.heard[r.d] = r.last
	ended := make(chan error, 1)
	var running sync.WaitGroup
	running.Go(func() { ended <- r.d.Run(ctx) })
	synctest.Wait()
	return func() error {
		cancel()
		running.Wait()
		return <-ended
	}
}

func (r *harness) endpoint(change func(*postrider.Policy)) postrider.EndpointID {
	e := postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](r.ids), URL: "https://a.example",
		EventTypes: []postrider.Pattern{"*"}, Status: postrider.EndpointEnabled, Policy: postrider.DefaultPolicy(),
	}
	e.Policy.Retry = postrider.RetryPolicy{Delays: []time.Duration{0, 5 * time.Second, time.Minute}}
	if change != nil {
		change(&e.Policy)
	}
	e, err := r.store.PutEndpoint(r.t.Context(), store.PutEndpoint{Endpoint: e})
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.routed[e.ID] = store.EndpointSnapshot{Endpoint: e}
	return e.ID
}

func (r *harness) status(id postrider.EndpointID, s postrider.EndpointStatus) {
	r.mu.Lock()
	to := r.routed[id]
	to.Endpoint.Status = s
	r.routed[id] = to
	r.mu.Unlock()
	r.heard[r.d](routing.Change{Endpoint: id})
}

// publish stores n deliveries to the endpoint. If tell is true, it tells the dispatcher.
func (r *harness) publish(id postrider.EndpointID, n int, tell bool) []postrider.DeliveryID {
	made, waiting := r.commit(id, n, "")
	if tell {
		r.committed(waiting)
	}
	return made
}

// committed tells the dispatcher which deliveries wait in the queue.
func (r *harness) committed(waiting []store.DueLane) {
	err := r.d.Admit(nil, func(schedule.Grant) (schedule.DeliveriesCommitted, error) {
		return schedule.DeliveriesCommitted{Waiting: waiting}, nil
	})
	if err != nil {
		r.t.Error(err)
	}
}

// commit stores n deliveries to the endpoint. If key is not empty, they are in the order of that
// key.
func (r *harness) commit(id postrider.EndpointID, n int, key string) (made []postrider.DeliveryID, waiting []store.DueLane) {
	var batch store.Batch
	for range n {
		d := store.NewDelivery{
			ID: store.NewID[postrider.DeliveryID](r.ids), Endpoint: id, Lane: postrider.LaneFirst, Expiry: 24 * time.Hour,
		}
		if key != "" {
			d.Ordered = r.routed[id].Endpoint.Policy.OnDead
		}
		batch = append(batch, store.NewEvent{
			Event:      postrider.Event{ID: store.NewID[postrider.EventID](r.ids), Type: "a.b", Data: []byte(`{}`), OrderingKey: key},
			Deliveries: []store.NewDelivery{d},
		})
		made = append(made, d.ID)
		waiting = append(waiting, store.DueLane{Endpoint: id, Lane: d.Lane})
	}
	changes, err := r.store.Changes(r.t.Context(), 0, 10_000)
	if err == nil {
		_, err = r.store.Publish(r.t.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{batch}})
	}
	if err != nil {
		r.t.Fatal(err)
	}
	return made, waiting
}

// Send plays the receiver.
func (r *harness) Send(ctx context.Context, deadline time.Time, c *postrider.Claimed, _ *store.EndpointSnapshot) postrider.Attempt {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	r.mu.Lock()
	r.sent = append(r.sent, request{time.Now(), *c})
	r.now[c.Endpoint]++
	r.most[c.Endpoint] = max(r.most[c.Endpoint], r.now[c.Endpoint])
	respond := r.respond
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.now[c.Endpoint]--
		r.mu.Unlock()
	}()
	a := respond(*c)
	select {
	case <-time.After(a.Duration):
		return a
	case <-ctx.Done():
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return postrider.Attempt{Outcome: postrider.OutcomeTimedOut, Error: "timeout"}
		}
		return postrider.Attempt{Outcome: postrider.OutcomeTimedOut, Error: context.Cause(ctx).Error()}
	}
}

func (r *harness) Held() bool { return r.held.Load() }

func (r *harness) Subscribe(f func(routing.Change)) { r.last = f }

// notify tells a dispatcher that something is due for the endpoint.
func (r *harness) notify(d *dispatch.Dispatcher, id postrider.EndpointID) {
	r.heard[d](routing.Change{Endpoint: id, Due: true})
}

// Disable does nothing if a person has paused the endpoint, as in production.
func (r *harness) Disable(_ context.Context, id postrider.EndpointID, _ string) error {
	if to, _ := r.Lookup(id); to.Endpoint.Status == postrider.EndpointEnabled {
		r.status(id, postrider.EndpointDisabled)
	}
	return nil
}

// instants returns when each request to the endpoint left, counted from a time.
func (r *harness) instants(id postrider.EndpointID, since time.Time) (at []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.sent {
		if s.Endpoint == id {
			at = append(at, s.at.Sub(since).Round(10*time.Millisecond))
		}
	}
	return at
}

func (r *harness) requests() []request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.sent)
}

func (r *harness) peak() map[postrider.EndpointID]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.most)
}

func (r *harness) delivery(id postrider.DeliveryID) postrider.Delivery {
	page, err := r.store.Deliveries(r.t.Context(), store.DeliveryQuery{ID: id})
	if err != nil || len(page.Items) != 1 {
		r.t.Fatalf("delivery %s: %v, %v", id, page.Items, err)
	}
	return page.Items[0]
}

func TestRetriesLeaveAtTheirTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(nil)
		r.respond = func(postrider.Claimed) postrider.Attempt { return rejected() }
		stop := r.run(dispatch.Options{})
		start := time.Now()
		d := r.publish(id, 1, true)[0]
		time.Sleep(2 * time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		want := []time.Duration{0, 5 * time.Second, 65 * time.Second}
		if got := r.instants(id, start); !slices.Equal(got, want) {
			t.Errorf("requests left after %v, want %v", got, want)
		}
		if got := r.delivery(d); got.Status != postrider.Dead || got.Reason != postrider.ReasonExhausted || got.Attempts != 3 {
			t.Errorf("delivery = %+v, want dead, exhausted after 3 attempts", got)
		}
	})
}

func TestRetryAfterPacesTheEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(func(p *postrider.Policy) { p.Concurrency = 1 })
		start := time.Now()
		r.respond = func(postrider.Claimed) postrider.Attempt {
			if time.Since(start) < time.Second {
				return postrider.Attempt{Outcome: postrider.OutcomeThrottled, StatusCode: 429, RetryAfter: 100 * time.Second}
			}
			return accepted(0)
		}
		stop := r.run(dispatch.Options{})
		r.publish(id, 3, true)
		time.Sleep(3 * time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		want := []time.Duration{0, 100 * time.Second, 100 * time.Second, 100 * time.Second}
		if got := r.instants(id, start); !slices.Equal(got, want) {
			t.Errorf("requests left after %v, want %v", got, want)
		}
	})
}

func TestPromise5OneEndpointDoesNotDelayAnother(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		hung, healthy := r.endpoint(nil), r.endpoint(nil)
		r.respond = func(c postrider.Claimed) postrider.Attempt {
			if c.Endpoint == hung {
				return accepted(time.Hour)
			}
			return accepted(time.Millisecond)
		}
		stop := r.run(dispatch.Options{})
		r.publish(hung, 1000, true)
		time.Sleep(3 * time.Second)
		start := time.Now()
		r.publish(healthy, 5, true)
		time.Sleep(time.Second)
		for _, at := range r.instants(healthy, start) {
			if at > 0 {
				t.Errorf("a request to the healthy endpoint left after %v", at)
			}
		}
		if n := len(r.instants(healthy, start)); n != 5 {
			t.Errorf("%d of 5 requests left", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestLimitsHold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		one, two := r.endpoint(func(p *postrider.Policy) { p.Concurrency = 7 }), r.endpoint(nil)
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(time.Second) }
		stop := r.run(dispatch.Options{Concurrency: 12})
		r.publish(one, 100, true)
		r.publish(two, 100, true)
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if r.peak()[one] > 7 || r.peak()[two] > 10 || r.peak()[one]+r.peak()[two] < 12 {
			t.Errorf("at most %d and %d attempts in flight, want at most 7 and 10, and 12 together", r.peak()[one], r.peak()[two])
		}
		if n := len(r.requests()); n != 200 {
			t.Errorf("%d requests left, want 200", n)
		}
	})
}

func TestGoneDisablesTheEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(func(p *postrider.Policy) { p.Concurrency = 1 })
		r.respond = func(postrider.Claimed) postrider.Attempt {
			return postrider.Attempt{Outcome: postrider.OutcomeGone, StatusCode: 410}
		}
		stop := r.run(dispatch.Options{})
		ids := r.publish(id, 3, true)
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if len(r.requests()) != 1 {
			t.Errorf("%d requests left, want 1", len(r.requests()))
		}
		for i, want := range []postrider.Status{postrider.Dead, postrider.Pending, postrider.Pending} {
			if got := r.delivery(ids[i]); got.Status != want {
				t.Errorf("delivery %d is %s, want %s", i, got.Status, want)
			}
		}
	})
}

func TestAPausedEndpointThatSaid410IsSentToOnceItIsResumed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(func(p *postrider.Policy) { p.Concurrency = 1 })
		r.respond = func(postrider.Claimed) postrider.Attempt {
			return postrider.Attempt{Outcome: postrider.OutcomeGone, StatusCode: 410, Duration: time.Second}
		}
		stop := r.run(dispatch.Options{})
		r.publish(id, 2, true)
		time.Sleep(time.Second / 2)
		r.status(id, postrider.EndpointPaused)
		time.Sleep(time.Second)
		r.status(id, postrider.EndpointEnabled)
		time.Sleep(2 * time.Second)
		if n := len(r.requests()); n != 2 {
			t.Errorf("%d requests left, want one before the pause and one after it", n)
		}
		if to, _ := r.Lookup(id); to.Endpoint.Status != postrider.EndpointDisabled {
			t.Errorf("the endpoint is %s after its second 410, want disabled", to.Endpoint.Status)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestPauseHoldsAndResumeDelivers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(nil)
		stop := r.run(dispatch.Options{})
		r.publish(id, 1, true)
		time.Sleep(time.Second)
		r.status(id, postrider.EndpointPaused)
		held := r.publish(id, 50, true)
		time.Sleep(time.Hour)
		if len(r.requests()) != 1 {
			t.Errorf("%d requests left to a paused endpoint", len(r.requests())-1)
		}
		if got := r.delivery(held[0]); got.Status != postrider.Pending || got.Attempts != 0 {
			t.Errorf("held delivery = %+v, want pending without attempts", got)
		}
		r.status(id, postrider.EndpointEnabled)
		time.Sleep(time.Second)
		if len(r.requests()) != 51 {
			t.Errorf("%d of 51 requests left after resuming", len(r.requests()))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestPromise7WakeUpsMayBeLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(nil)
		stop := r.run(dispatch.Options{})
		r.publish(id, 30, false)
		time.Sleep(31 * time.Second)
		if len(r.requests()) != 30 {
			t.Errorf("%d of 30 deliveries were found by the scan", len(r.requests()))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestPromise3AGracefulStopFinishesAndReleases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(func(p *postrider.Policy) { p.Concurrency = 2 })
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(8 * time.Second) }
		stop := r.run(dispatch.Options{})
		ids := r.publish(id, 10, true)
		time.Sleep(time.Second)
		start := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start).Round(100 * time.Millisecond); took != 7*time.Second {
			t.Errorf("drained in %v, want 7s", took)
		}
		var delivered int
		for _, id := range ids {
			d := r.delivery(id)
			if d.Status == postrider.Delivered {
				delivered++
			} else if d.Attempts != 0 || d.NextAttemptAt.After(time.Now()) {
				t.Errorf("delivery %+v is not released", d)
			}
		}
		if delivered != 2 {
			t.Errorf("%d deliveries delivered, want the 2 in flight", delivered)
		}
	})
}

func TestDrainEndsAtItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(func(p *postrider.Policy) { p.Timeout = 30 * time.Second })
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(time.Hour) }
		stop := r.run(dispatch.Options{Drain: 10 * time.Second})
		d := r.publish(id, 1, true)[0]
		time.Sleep(time.Second)
		start := time.Now()
		if err := stop(); err != nil {
			t.Error(err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("drained in %v, want 10s", took)
		}
		if got := r.delivery(d); got.Status != postrider.Pending || got.LastError != dispatch.ErrDrainTimeout.Error() {
			t.Errorf("delivery = %+v, want pending after %q", got, dispatch.ErrDrainTimeout)
		}
	})
}

func TestPanicCostsTheAttempt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(nil)
		r.respond = func(c postrider.Claimed) postrider.Attempt {
			if c.Attempt == 1 {
				panic("poison")
			}
			return accepted(0)
		}
		stop := r.run(dispatch.Options{})
		d := r.publish(id, 1, true)[0]
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		if got := r.delivery(d); got.Status != postrider.Delivered || got.Attempts != 2 {
			t.Errorf("delivery = %+v, want delivered at the second attempt", got)
		}
	})
}

// away is a queue whose database is unavailable for a while.
type away struct {
	store.Queue
	until time.Time
}

var errAway = fmt.Errorf("the database is away: %w", postrider.ErrBusy)

func (q away) Claim(ctx context.Context, c store.Claim) (store.Claims, error) {
	if time.Now().Before(q.until) {
		return store.Claims{}, fmt.Errorf("claim: %w", errAway)
	}
	return q.Queue.Claim(ctx, c)
}

func (q away) Settle(ctx context.Context, s []store.Settlement) ([]store.Settled, error) {
	if time.Now().Before(q.until) {
		return nil, fmt.Errorf("settle: %w", errAway)
	}
	return q.Queue.Settle(ctx, s)
}

func TestWorkGoesOnWhenTheDatabaseIsBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(nil)
		r.queue = away{r.store, time.Now().Add(time.Minute)}
		stop := r.run(dispatch.Options{})
		ids := r.publish(id, 3, true)
		time.Sleep(50 * time.Second)
		if err := r.d.Progressing(); !errors.Is(err, errAway) {
			t.Errorf("Progressing = %v while the database is away", err)
		}
		time.Sleep(30 * time.Second)
		if err := r.d.Progressing(); err != nil {
			t.Errorf("Progressing = %v after the database is back", err)
		}
		for _, id := range ids {
			if got := r.delivery(id); got.Status != postrider.Delivered {
				t.Errorf("delivery = %+v, want delivered", got)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestACommitThatFailsOrPanicsReturnsItsLeases(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(func(p *postrider.Policy) { p.Concurrency = 1 })
		stop := r.run(dispatch.Options{})
		ask := []schedule.Admission{
			{Endpoint: id, Lane: postrider.LaneFirst},
			{Endpoint: id, Lane: postrider.LaneFirst},
			{Endpoint: id, Lane: postrider.LaneFirst},
		}
		admit := func(end func() error) (leased int) {
			defer func() { _ = recover() }()
			err := r.d.Admit(ask, func(g schedule.Grant) (schedule.DeliveriesCommitted, error) {
				for i := range ask {
					if g.Lease(i).Token != 0 {
						leased++
					}
				}
				return schedule.DeliveriesCommitted{}, end()
			})
			if !errors.Is(err, errAway) {
				t.Errorf("Admit returns %v, want the commit's error", err)
			}
			return leased
		}
		for i, end := range []func() error{
			func() error { return errAway }, func() error { panic("commit") }, func() error { return errAway },
		} {
			if n := admit(end); n != 2 && i != 1 {
				t.Errorf("%d deliveries were leased at the call %d, want twice the limit: 2", n, i)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
