package replay_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/replay"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// world is a store with dead letters of a few endpoints, in virtual time.
type world struct {
	*testing.T
	*memory.Store
	ids      *store.IDs
	endpoint postrider.Endpoint
	policy   postrider.Policy // policy of every endpoint on all nodes
	full     int              // Options.Pending; 0: the default
	room     func() error     // nil: there is always room
	tokens   postrider.Token

	mu     sync.Mutex
	hooked []postrider.ReplayJob  // jobs with which the hook was called
	looked []postrider.EndpointID // endpoints that Notify was called with
	queued []store.DueLane        // lanes that Queued was called with
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, Store: memory.New(memory.Options{}), ids: store.NewIDs(time.Now, nil), policy: postrider.DefaultPolicy()}
	account := postrider.Account{ID: store.NewID[postrider.AccountID](w.ids), Name: "Acme Inc."}
	w.ok(w.PutAccount(t.Context(), account))
	w.endpoint = w.newEndpoint(account.ID)
	return w
}

func (w *world) newEndpoint(account postrider.AccountID) postrider.Endpoint {
	w.Helper()
	e, err := w.PutEndpoint(w.Context(), store.PutEndpoint{Endpoint: postrider.Endpoint{
		ID: store.NewID[postrider.EndpointID](w.ids), Account: account, URL: "https://acme.example", Status: postrider.EndpointEnabled,
		Policy: w.policy,
	}})
	w.ok(err)
	return e
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// Lookup implements [replay.Endpoints].
func (w *world) Lookup(id postrider.EndpointID) (*store.EndpointSnapshot, bool) {
	return &store.EndpointSnapshot{Endpoint: postrider.Endpoint{ID: id, Policy: w.policy}}, true
}

// Notify implements [replay.Endpoints].
func (w *world) Notify(id postrider.EndpointID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = append(w.looked, id)
}

// Wants implements [replay.Endpoints]: the endpoints want all events but those of one type.
func (w *world) Wants(_ postrider.EndpointID, e *postrider.Event) bool {
	return e.Type != "order.ignored"
}

// Refresh implements [replay.Endpoints].
func (w *world) Refresh(context.Context) error { return nil }

// Queued implements [replay.Dispatcher].
func (w *world) Queued(lanes []store.DueLane) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.queued = append(w.queued, lanes...)
}

// dead calls deadAt with the first endpoint.
func (w *world) dead(n int, key string) (ids []postrider.DeliveryID) {
	w.Helper()
	return w.deadAt(w.endpoint, n, key)
}

// deadAt publishes n events and lets their deliveries to an endpoint die. key is their ordering
// key; empty: none.
func (w *world) deadAt(e postrider.Endpoint, n int, key string) (ids []postrider.DeliveryID) {
	w.Helper()
	changes, err := w.Changes(w.Context(), 0, 100)
	w.ok(err)
	for range n {
		d := store.NewDelivery{ID: store.NewID[postrider.DeliveryID](w.ids), Endpoint: e.ID, Lane: postrider.LaneFirst, Expiry: time.Hour}
		_, err := w.Publish(w.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{{{
			Event: postrider.Event{
				ID: store.NewID[postrider.EventID](w.ids), Account: e.Account, Type: "order.created", Data: []byte(`1`), OrderingKey: key,
			},
			Deliveries: []store.NewDelivery{d},
		}}}})
		w.ok(err)
		ids = append(ids, d.ID)
	}
	w.settleAt(e, postrider.LaneFirst, n, postrider.Transition{To: postrider.Dead, Reason: postrider.ReasonExhausted})
	return ids
}

// settle calls settleAt with the first endpoint.
func (w *world) settle(lane postrider.Lane, n int, to postrider.Transition) []postrider.Claimed {
	w.Helper()
	return w.settleAt(w.endpoint, lane, n, to)
}

// settleAt claims up to n deliveries of a lane, ends them, and returns them.
func (w *world) settleAt(e postrider.Endpoint, lane postrider.Lane, n int, to postrider.Transition) []postrider.Claimed {
	w.Helper()
	w.tokens++
	claims, err := w.Claim(w.Context(),
		store.Claim{Token: w.tokens, Wants: []store.Want{{Endpoint: e.ID, Lane: lane, N: n, Lease: time.Minute}}})
	w.ok(err)
	var settlements []store.Settlement
	for _, c := range claims.Items {
		settlements = append(settlements, store.Settlement{Claimed: c, Transition: to, Attempt: postrider.Attempt{
			Delivery: c.ID, Event: c.Event.ID, Endpoint: c.Endpoint, Number: c.Attempt, Outcome: postrider.OutcomeRejected, StatusCode: 500,
			StartedAt: time.Now(),
		}})
	}
	_, err = w.Settle(w.Context(), settlements)
	w.ok(err)
	return claims.Items
}

// job stores a job for all dead letters.
func (w *world) job(perSecond int) postrider.ReplayID {
	w.Helper()
	return w.jobOf(postrider.ActionReplay, perSecond)
}

func (w *world) jobOf(action postrider.ReplayAction, perSecond int) postrider.ReplayID {
	w.Helper()
	job := postrider.ReplayJob{
		ID: store.NewID[postrider.ReplayID](w.ids), CreatedAt: w.Clock().Wall(), Action: action, PerSecond: perSecond, By: "support",
		Filter: postrider.ReplayFilter{Statuses: []postrider.Status{postrider.Dead}},
	}
	w.ok(w.PutReplayJob(w.Context(), job))
	return job.ID
}

func (w *world) read(id postrider.ReplayID) postrider.ReplayJob {
	w.Helper()
	page, err := w.ReplayJobs(w.Context(), store.ReplayJobQuery{ID: id})
	w.ok(err)
	return page.Items[0]
}

// node runs a runner on the store until the returned function is called.
func (w *world) node(s replay.Store) (stop func()) {
	ctx, cancel := context.WithCancel(w.Context())
	r := replay.New(s, w, w, replay.Options{
		IDs: w.ids, Pending: w.full, Room: w.room,
		Hooks: observe.Hooks{ReplayEnded: func(job postrider.ReplayJob) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.hooked = append(w.hooked, job)
		}},
	})
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.Run(ctx); err != nil {
			w.Errorf("Run = %v", err)
		}
	})
	return func() { cancel(); running.Wait() }
}

// ended returns the jobs that the hook was called with.
func (w *world) ended() []postrider.ReplayJob {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.hooked)
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(w *world)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

func TestAJobHoldsItsPace(t *testing.T) {
	for _, perSecond := range []int{1, 7, 50, 500} {
		t.Run(fmt.Sprint(perSecond), func(t *testing.T) {
			bubble(t, func(w *world) {
				n := 20 * perSecond
				w.dead(n, "")
				id := w.job(perSecond)
				defer w.node(w)()
				for second := 1; second <= 20; second++ {
					time.Sleep(time.Second)
					synctest.Wait()
					want := second * perSecond
					if got := w.read(id).Handled; got > want || got < want-max(1, perSecond/20) {
						t.Errorf("after %d s %d are replayed, want %d or one chunk less", second, got, want)
					}
					w.settle(postrider.LaneBulk, n, postrider.Transition{To: postrider.Delivered})
				}
				time.Sleep(time.Second)
				if got := w.read(id); got.Status != postrider.ReplayDone || got.Handled != n {
					t.Errorf("after 21 s the job is %s with %d, want done with %d", got.Status, got.Handled, n)
				}
			})
		})
	}
}

// TestAJobWaitsForItsEndpoints delivers nothing at first.
func TestAJobWaitsForItsEndpoints(t *testing.T) {
	bubble(t, func(w *world) {
		const pending, n = 5000, 8000
		w.dead(n, "")
		id := w.job(5000)
		defer w.node(w)()
		time.Sleep(time.Minute)
		full := w.read(id)
		if full.Made.Pending < pending || full.Made.Pending > pending+1000 {
			t.Errorf("%d are pending, want about %d", full.Made.Pending, pending)
		}
		w.settle(postrider.LaneBulk, 500, postrider.Transition{To: postrider.Delivered})
		time.Sleep(10 * time.Second)
		if got := w.read(id); got.Made.Pending > pending+1000 {
			t.Errorf("%d are pending after some were delivered", got.Made.Pending)
		}
		for range 20 {
			w.settle(postrider.LaneBulk, n, postrider.Transition{To: postrider.Delivered})
			time.Sleep(time.Second)
		}
		if got := w.read(id); got.Status != postrider.ReplayDone || got.Made.Delivered != n {
			t.Errorf("the job is %+v, want done with %d delivered", got, n)
		}
	})
}

// TestPromise5AFullEndpointDoesNotDelayTheOthersOfItsJob has one endpoint that accepts nothing for
// an hour, as with an open circuit.
func TestPromise5AFullEndpointDoesNotDelayTheOthersOfItsJob(t *testing.T) {
	bubble(t, func(w *world) {
		const n = 600
		w.full = 50
		good, bad := w.newEndpoint(w.endpoint.Account), w.endpoint
		for range n / 20 {
			w.deadAt(bad, 20, "key")
			w.deadAt(good, 20, "")
		}
		w.policy.Order, w.policy.OnDead = postrider.OrderByKey, postrider.PauseOnDead
		id := w.job(40)
		stop := w.node(w)
		done := postrider.Transition{To: postrider.Delivered}
		delivered := 0
		for range n/40 + 10 { // seconds; both endpoints share the pace
			time.Sleep(time.Second)
			delivered += len(w.settleAt(good, postrider.LaneBulk, n, done))
		}
		if delivered != n {
			t.Errorf("the endpoint that works got %d of %d", delivered, n)
		}
		time.Sleep(time.Hour)
		if got := w.read(id); got.Made.Pending < 50 || got.Made.Pending > 60 || got.Status != postrider.ReplayRunning {
			t.Errorf("the job is %s with %d pending, want about 50 of the full endpoint", got.Status, got.Made.Pending)
		}
		stop()
		defer w.node(w)()
		var sequences []int64
		for range 2 * n {
			time.Sleep(100 * time.Millisecond)
			for _, c := range w.settleAt(bad, postrider.LaneBulk, 10, done) {
				sequences = append(sequences, c.Event.Sequence)
			}
		}
		if got := w.read(id); got.Status != postrider.ReplayDone || got.Made.Delivered != 2*n || !slices.IsSorted(sequences) {
			t.Errorf("the job is %+v, want done; the ordered endpoint got %v", got, sequences)
		}
	})
}

func TestAJobIsPausedResumedAndCancelled(t *testing.T) {
	bubble(t, func(w *world) {
		w.dead(1000, "")
		id := w.job(50)
		defer w.node(w)()
		set := func(to postrider.ReplayStatus) int {
			w.ok(w.SetReplayJob(t.Context(), store.SetReplayJob{ID: id, Status: to}))
			synctest.Wait()
			return w.read(id).Handled
		}
		time.Sleep(2 * time.Second)
		paused := set(postrider.ReplayPaused)
		time.Sleep(time.Minute)
		if got := w.read(id).Handled; got != paused || paused == 0 {
			t.Errorf("%d are replayed after the pause at %d", got, paused)
		}
		set(postrider.ReplayRunning)
		time.Sleep(5 * time.Second)
		cancelled := set(postrider.ReplayCancelled)
		if cancelled < paused+150 {
			t.Errorf("%d were replayed within 5 s of the resume at %d", cancelled, paused)
		}
		time.Sleep(time.Minute)
		if got := w.read(id); got.Handled != cancelled || got.Made.Pending != cancelled {
			t.Errorf("after the cancel at %d the job has %+v", cancelled, got)
		}
		if ended := w.ended(); len(ended) != 0 {
			t.Errorf("the hook was called with %v, though a person has ended the job", ended)
		}
	})
}

func TestANodeThatStopsGivesItsJobBack(t *testing.T) {
	bubble(t, func(w *world) {
		w.dead(1000, "")
		id := w.job(100)
		stop := w.node(w)
		time.Sleep(2 * time.Second)
		stop()
		before := w.read(id).Handled
		defer w.node(w)()
		time.Sleep(2 * time.Second)
		if got := w.read(id).Handled; got < before+150 {
			t.Errorf("%d are replayed 2 s after the node has stopped at %d", got, before)
		}
	})
}

// killed is the connection of a node to the store. Once the node is dead, all calls fail.
type killed struct {
	*memory.Store
	mu   sync.Mutex
	dead bool
	// fate decides which chunks fail, and whether before or after they are stored; nil: none.
	fate func(store.ReplayChunk) (before, after error)
}

var errKilled = fmt.Errorf("the node is dead: %w", postrider.ErrBusy)

func (k *killed) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead = true
}

func (k *killed) gone() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dead {
		return errKilled
	}
	return nil
}

func (k *killed) ClaimReplayJobs(ctx context.Context, c store.ClaimReplayJobs) ([]postrider.ReplayJob, error) {
	if err := k.gone(); err != nil {
		return nil, err
	}
	return k.Store.ClaimReplayJobs(ctx, c)
}

func (k *killed) ReplayChunk(ctx context.Context, c store.ReplayChunk) error {
	if err := k.gone(); err != nil {
		return err
	}
	var before, after error
	if k.fate != nil {
		before, after = k.fate(c)
	}
	if before != nil {
		return before
	}
	err := k.Store.ReplayChunk(ctx, c)
	return errors.Join(err, after)
}

func TestPromise8TheJobOfAKilledNodeGoesOnWithinTenSeconds(t *testing.T) {
	bubble(t, func(w *world) {
		w.dead(1000, "")
		id := w.job(100)
		first := &killed{Store: w.Store}
		defer w.node(first)()
		time.Sleep(2 * time.Second)
		first.kill()
		before := w.read(id).Handled
		defer w.node(w)()
		time.Sleep(7 * time.Second)
		if got := w.read(id).Handled; got != before {
			t.Errorf("%d are replayed within the lease, want %d", got, before)
		}
		time.Sleep(3 * time.Second)
		if got := w.read(id).Handled; got < before+50 {
			t.Errorf("%d are replayed 10 s after the death, from %d on", got, before)
		}
	})
}

// TestPromise2EachMatchIsReplayedOnce kills nodes before and after commits, loses replies, and
// pauses and resumes, by seed. Sometimes endpoints are full.
func TestPromise2EachMatchIsReplayedOnce(t *testing.T) {
	for seed := range uint64(10) { // each takes eight seconds of processor time with the race detector
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(w *world) { playOnce(w, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func playOnce(w *world, random *rand.Rand) {
	const n = 400
	w.full = 15
	endpoints := []postrider.Endpoint{w.endpoint, w.newEndpoint(w.endpoint.Account), w.newEndpoint(w.endpoint.Account)}
	var matches []postrider.DeliveryID
	for len(matches) < n {
		matches = append(matches, w.deadAt(endpoints[random.IntN(3)], 10, "")...)
	}
	id := w.job(40)
	later := w.dead(10, "")
	replays := map[postrider.DeliveryID]int{}
	deliver := func(e postrider.Endpoint) {
		for _, c := range w.settleAt(e, postrider.LaneBulk, n, postrider.Transition{To: postrider.Delivered}) {
			replays[c.ReplayedFrom]++
		}
	}
	var mu sync.Mutex
	roll := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return random.IntN(n)
	}
	start := func() *killed {
		k := &killed{Store: w.Store}
		k.fate = func(store.ReplayChunk) (before, after error) {
			switch roll(12) {
			case 0:
				return postrider.ErrBusy, nil
			case 1:
				k.kill()
				return errKilled, nil
			case 2: // the chunk is stored, but the reply is lost
				return nil, postrider.ErrBusy
			case 3:
				k.kill()
				return nil, errKilled
			}
			return nil, nil
		}
		w.Cleanup(w.node(k))
		return k
	}
	nodes := []*killed{start(), start()}
	for round := 0; !w.read(id).Status.Ended(); round++ {
		if round > 2000 {
			w.Fatalf("the job does not end: %+v", w.read(id))
		}
		time.Sleep(time.Duration(roll(2000)) * time.Millisecond)
		if roll(2) == 0 {
			deliver(endpoints[roll(3)])
		}
		for i, k := range nodes {
			if k.gone() != nil && roll(3) == 0 {
				nodes[i] = start()
			}
		}
		if roll(10) == 0 {
			_ = w.SetReplayJob(w.Context(), store.SetReplayJob{ID: id, Status: postrider.ReplayPaused}) // it may have ended
			time.Sleep(time.Duration(roll(1000)) * time.Millisecond)
			_ = w.SetReplayJob(w.Context(), store.SetReplayJob{ID: id, Status: postrider.ReplayRunning})
		}
	}
	for _, e := range endpoints {
		deliver(e)
	}
	for _, match := range matches {
		if replays[match] != 1 {
			w.Errorf("delivery %s is replayed %d times", match, replays[match])
		}
	}
	if got := w.read(id); len(replays) != n || got.Handled != n || got.Status != postrider.ReplayDone {
		w.Errorf("%d deliveries are replayed, and the job counts %d; want %d. Later ones: %v", len(replays), got.Handled, n, later)
	}
}

func TestAnErrorThatDoesNotPassEndsTheJob(t *testing.T) {
	bubble(t, func(w *world) {
		w.dead(10, "")
		id := w.job(10)
		broken := &killed{Store: w.Store, fate: func(c store.ReplayChunk) (before, after error) {
			if len(c.Items) > 0 {
				return errors.New("the table is gone"), nil
			}
			return nil, nil
		}}
		defer w.node(broken)()
		time.Sleep(10 * time.Minute)
		got := w.read(id)
		ended := w.ended()
		if got.Status != postrider.ReplayFailed || got.Error == "" || len(ended) != 1 || ended[0].Status != postrider.ReplayFailed {
			t.Errorf("the job is %+v, and the hook was called with %+v; want failed, once", got, ended)
		}
	})
}

func TestAnErrorThatPassesDoesNotEndTheJob(t *testing.T) {
	bubble(t, func(w *world) {
		w.dead(10, "")
		id := w.job(10)
		begun := time.Now()
		away := &killed{Store: w.Store, fate: func(store.ReplayChunk) (before, after error) {
			if time.Since(begun) < 10*time.Minute {
				return postrider.ErrBusy, nil
			}
			return nil, nil
		}}
		defer w.node(away)()
		time.Sleep(11 * time.Minute)
		ended := w.ended()
		if got := w.read(id); got.Status != postrider.ReplayDone || len(ended) != 1 || ended[0].Made.Pending != 10 {
			t.Errorf("the job is %+v, and the hook was called with %+v; want done, once", got, ended)
		}
	})
}

func TestOrderedDeliveriesAreReplayedInSequence(t *testing.T) {
	bubble(t, func(w *world) {
		w.dead(30, "key")
		w.policy.Order, w.policy.OnDead = postrider.OrderByKey, postrider.PauseOnDead
		w.job(10)
		defer w.node(w)()
		time.Sleep(5 * time.Second)
		for want := int64(1); want <= 30; want++ {
			due := w.settle(postrider.LaneBulk, 10, postrider.Transition{To: postrider.Delivered})
			if len(due) != 1 || due[0].Event.Sequence != want {
				t.Fatalf("due are %+v, want sequence %d alone", due, want)
			}
		}
	})
}

// TestTheDispatcherIsToldWhereReplaysWait checks that only the bulk lane is named if no delivery of
// another lane can have become due: each lane costs a claim.
func TestTheDispatcherIsToldWhereReplaysWait(t *testing.T) {
	for name, tt := range map[string]struct {
		order  postrider.Order
		action postrider.ReplayAction
		lane   bool // only the bulk lane; false: all lanes
	}{
		"a replay":               {action: postrider.ActionReplay, lane: true},
		"a replay in a sequence": {action: postrider.ActionReplay, order: postrider.OrderByKey},
		"a discard":              {action: postrider.ActionDiscard},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				w.dead(10, "key")
				w.policy.Order, w.policy.OnDead = tt.order, postrider.PauseOnDead
				w.jobOf(tt.action, 5)
				defer w.node(w)()
				time.Sleep(time.Minute)
				synctest.Wait()
				w.mu.Lock()
				defer w.mu.Unlock()
				want := store.DueLane{Endpoint: w.endpoint.ID, Lane: postrider.LaneBulk}
				if tt.lane && (len(w.queued) == 0 || w.queued[0] != want || len(w.looked) > 0) {
					t.Errorf("told of the lanes %v and the endpoints %v, want the bulk lane", w.queued, w.looked)
				}
				if !tt.lane && (len(w.looked) == 0 || w.looked[0] != w.endpoint.ID || len(w.queued) > 0) {
					t.Errorf("told of the lanes %v and the endpoints %v, want the endpoint", w.queued, w.looked)
				}
			})
		})
	}
}

func TestANodeWorksOnSeveralJobsAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		w.dead(100, "")
		w.settle(postrider.LaneFirst, 1, postrider.Transition{To: postrider.Dead})
		slow, other := w.job(1), w.job(1)
		defer w.node(w)()
		time.Sleep(10 * time.Second)
		if a, b := w.read(slow).Matched(), w.read(other).Matched(); a < 8 || b < 8 {
			t.Errorf("after 10 s one job has looked at %d, the other at %d", a, b)
		}
	})
}
