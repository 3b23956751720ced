package dispatch_test

import (
	"bytes"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

func TestObserversHearWhatTheDispatcherDoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		heard := map[string]int{}
		hear := func(name string, n int) {
			mu.Lock()
			defer mu.Unlock()
			heard[name] += n
		}
		hooks := observe.Hooks{
			Claimed:         func(c observe.Claimed) { hear("claimed", c.Got) },
			AttemptStarted:  func(postrider.Claimed) { hear("started", 1) },
			AttemptFinished: func(a observe.AttemptFinished) { hear("finished "+string(a.Attempt.Outcome), 1) },
			Settled: func(s observe.Settled) {
				hear("settled "+string(s.Transition.To), 1)
				panic("a hook")
			},
			DeadLetter:     func(s observe.Settled) { hear("dead "+s.Transition.Reason, 1) },
			CircuitChanged: func(c postrider.Circuit) { hear("circuit "+string(c.Status), 1) },
			Lag:            func(lag time.Duration) { hear("lag", int(lag)) },
			Membership:     func(m observe.Membership) { hear("shards", m.Shards) },
		}
		observer := observe.New(hooks, slog.New(slog.DiscardHandler))
		r := newHarness(t)
		r.respond = func(postrider.Claimed) postrider.Attempt { return rejected() }
		n := r.node(1, dispatch.Options{Hooks: observer.Hooks})
		id := r.endpoint(func(p *postrider.Policy) {
			p.Retry = postrider.RetryPolicy{Delays: []time.Duration{0}}
			p.Circuit = postrider.CircuitPolicy{Failures: 5, Cooldown: time.Hour, MaxCooldown: time.Hour}
		})
		time.Sleep(time.Second)
		r.publish(id, 5, true)
		time.Sleep(time.Second)
		if err := n.stop(); err != nil {
			t.Error(err)
		}
		for what, want := range map[string]int{
			"claimed": 5, "started": 5, "finished rejected": 5, "settled dead": 5, "dead exhausted": 5, "circuit open": 1, "lag": 0,
		} {
			if got, is := heard[what]; got != want || !is {
				t.Errorf("%s: %d, want %d", what, got, want)
			}
		}
		if heard["shards"] == 0 || observer.Panics() != 5 {
			t.Errorf("membership: %d shards; %d panics, want some and 5", heard["shards"], observer.Panics())
		}
	})
}

// TestPromise2APostponedAttemptIsNoRecord runs a node that twice cannot make an endpoint's attempt.
// The third try is the delivery's first attempt, and the only one that is recorded.
func TestPromise2APostponedAttemptIsNoRecord(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var postponed, settled atomic.Int64
		var log bytes.Buffer
		h := newHarness(t)
		h.respond = func(postrider.Claimed) postrider.Attempt {
			if postponed.Load() < 2 {
				return postrider.Attempt{Outcome: postrider.OutcomePostponed, Error: string(postrider.FailureDescriptors)}
			}
			return accepted(time.Millisecond)
		}
		n := h.node(1, dispatch.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Hooks: observe.Hooks{
			Postponed: func(postrider.Failure) { postponed.Add(1) }, Settled: func(observe.Settled) { settled.Add(1) },
		}})
		id := h.endpoint(func(p *postrider.Policy) { p.Retry = postrider.RetryPolicy{Delays: []time.Duration{0}} })
		time.Sleep(5 * time.Second)
		h.publish(id, 1, true)
		time.Sleep(2500 * time.Millisecond)
		if postponed.Load() != 2 || settled.Load() != 0 {
			t.Errorf("after 2.5 s: %d postponed, %d settled; want 2 and none", postponed.Load(), settled.Load())
		}
		time.Sleep(time.Second)
		end(t, n)
		if line := `delivery.attempt=1 `; settled.Load() != 1 || !strings.Contains(log.String(), line) {
			t.Errorf("%d settled; no line has %s: %s", settled.Load(), line, log.String())
		}
	})
}

// TestAnAttemptThatAnotherFollowsIsReported records an attempt whose token was refused.
func TestAnAttemptThatAnotherFollowsIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var heard []observe.Settled
		var log bytes.Buffer
		h := newHarness(t)
		n := h.node(1, dispatch.Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Hooks: observe.Hooks{
			Settled: func(s observe.Settled) { heard = append(heard, s) },
		}})
		id := h.endpoint(nil)
		h.commit(id, 1, "")
		got, err := h.store.Claim(t.Context(), store.Claim{
			Token: 9,
			Wants: []store.Want{{Endpoint: id, Lane: postrider.LaneFirst, N: 1, Lease: time.Hour}},
		})
		if err != nil || len(got.Items) != 1 {
			t.Fatalf("claimed %+v, %v", got, err)
		}
		a := rejected()
		a.Error = string(postrider.FailureTokenRefused)
		if err := n.d.Continue(t.Context(), got.Items[0], a); err != nil {
			t.Error(err)
		}
		gone := got.Items[0]
		gone.Token = 8
		if err := n.d.Continue(t.Context(), gone, a); !errors.Is(err, postrider.ErrFenced) {
			t.Errorf("without the lease: %v", err)
		}
		end(t, n)
		if len(heard) != 1 || heard[0].Transition.To != postrider.Pending || heard[0].Stale ||
			!strings.Contains(log.String(), "error=token_refused") {
			t.Errorf("heard %+v, log %s", heard, log.String())
		}
	})
}

// TestLostAttemptsAreReported lets one lease end that nobody settles, and then kills a node that
// has leased three deliveries.
func TestLostAttemptsAreReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Int64
		var log bytes.Buffer
		h := newHarness(t)
		n := h.node(1, dispatch.Options{
			Log:   slog.New(slog.NewTextHandler(&log, nil)),
			Hooks: observe.Hooks{AttemptsLost: func(n int) { lost.Add(int64(n)) }},
		})
		lease := func(id postrider.EndpointID, deliveries int, token postrider.Token, span time.Duration) {
			h.commit(id, deliveries, "")
			if _, err := h.store.Claim(t.Context(), store.Claim{Token: token, Wants: []store.Want{
				{Endpoint: id, Lane: postrider.LaneFirst, N: deliveries, Lease: span},
			}}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Second)
		lease(h.endpoint(nil), 1, 2<<32|1, time.Second)
		time.Sleep(time.Minute)
		if got := lost.Load(); got != 1 {
			t.Errorf("%d lost attempts were reported after a lease ended, want 1", got)
		}

		if _, err := h.store.Heartbeat(t.Context(), store.Heartbeat{
			Incarnation: 3, Instance: [16]byte{3}, Host: "hooks-3",
			TTL: 5 * time.Second,
		}); err != nil {
			t.Fatal(err)
		}
		lease(h.endpoint(nil), 3, 3<<32|1, time.Hour)
		time.Sleep(time.Minute)
		if got := lost.Load(); got != 1+3 {
			t.Errorf("%d lost attempts were reported after a node died, want 3 more", got)
		}
		end(t, n)
		if sent := len(h.requests()); sent != 4 {
			t.Errorf("%d requests left, want 4", sent)
		}
		line := regexp.MustCompile(`level=WARN msg="delivery attempted" delivery.id=dlv_\S+ delivery.event=evt_\S+ delivery.endpoint=ep_\S+ delivery.attempt=1 delivery.trace=\w+ outcome=lost status=pending`)
		if lines := line.FindAllString(log.String(), -1); len(lines) != 4 {
			t.Errorf("%d lost attempts have a log line, want 4:\n%s", len(lines), log.String())
		}
		if want := `msg="dead node reclaimed" incarnation=3 host=hooks-3 deliveries=3`; !strings.Contains(log.String(), want) {
			t.Errorf("no line of the log has %s:\n%s", want, log.String())
		}
	})
}

func TestARepeatedCallOfTheStoreIsLoggedByItsName(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		h := newHarness(t)
		id := h.endpoint(nil)
		h.respond = func(postrider.Claimed) postrider.Attempt { return rejected() }
		n := h.node(1, dispatch.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		n.set(func(c *connection) { c.fails["settle"], c.fails["put circuit"] = true, true })
		h.publish(id, 20, true)
		time.Sleep(time.Second)
		n.set(func(c *connection) { c.fails["settle"] = false })
		time.Sleep(time.Minute)
		n.set(func(c *connection) { c.fails["put circuit"] = false })
		end(t, n)
		for _, name := range []string{"settle", `"put circuit"`} {
			if !strings.Contains(log.String(), `msg="call of the store failed, trying again" call=`+name) {
				t.Errorf("the log has no line for the call %s:\n%s", name, log.String())
			}
		}
	})
}

func TestANodeWithoutAStoredHeartbeatHasNotJoined(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		n := &node{connection: &connection{Store: r.store, calls: map[string]int{}, fails: map[string]bool{"beat": true}}}
		r.queue = n.connection
		stop := r.run(dispatch.Options{Cluster: dispatch.Cluster{Nodes: n.connection, Incarnation: 1}})
		time.Sleep(8 * time.Second)
		if err := r.d.Joined(); err == nil || !strings.Contains(err.Error(), "no heartbeat of it is stored yet") || !errors.Is(err, errAway) {
			t.Errorf("before the first heartbeat: %v", err)
		}
		n.set(func(c *connection) { c.fails["beat"] = false })
		time.Sleep(2 * time.Second)
		if err := r.d.Joined(); err != nil {
			t.Errorf("with heartbeats: %v", err)
		}
		n.set(func(c *connection) { c.fails["beat"] = true })
		time.Sleep(4 * time.Second)
		if err := r.d.Joined(); err != nil {
			t.Errorf("4 s after the last heartbeat: %v, the lease is 5 s", err)
		}
		time.Sleep(2 * time.Second)
		if err := r.d.Joined(); err == nil || !errors.Is(err, errAway) {
			t.Errorf("6 s after the last heartbeat: %v", err)
		}
		n.set(func(c *connection) { c.fails["beat"] = false })
		time.Sleep(2 * time.Second)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
