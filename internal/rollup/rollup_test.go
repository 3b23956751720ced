package rollup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/rollup"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settled returns an attempt of 30 ms that was accepted now. Its delivery was created before that,
// by the latency.
func settled(endpoint postrider.EndpointID, latency time.Duration) observe.Settled {
	now := time.Now()
	return observe.Settled{
		Delivery: postrider.Claimed{
			ID: postrider.MakeID[postrider.DeliveryID](now.Add(-latency), [10]byte{}), Endpoint: endpoint,
			Event: &postrider.Event{Account: postrider.AccountID{1}, Type: "order.created"},
		},
		Attempt: postrider.Attempt{
			Outcome: postrider.OutcomeAccepted, StatusCode: 200, StartedAt: now.Add(-30 * time.Millisecond), Duration: 30 * time.Millisecond,
		},
		Transition: postrider.Transition{To: postrider.Delivered},
	}
}

var endpoint = postrider.EndpointID{2}

// harness runs a Rollup in a bubble.
type harness struct {
	*testing.T
	rollup *rollup.Rollup
	memory *memory.Store
	log    bytes.Buffer
	ended  sync.WaitGroup
	stop   context.CancelFunc
	chores []observe.ChoreDone // set by Run; read them only after end
}

func (h *harness) note(c observe.ChoreDone) { h.chores = append(h.chores, c) }

// run runs a Rollup with a memory store. If before is not nil, the Rollup gets the store that
// before returns for it.
func run(t *testing.T, before func(rollup.Store) rollup.Store) *harness {
	t.Helper()
	h := &harness{T: t, memory: memory.New(memory.Options{})}
	h.rollup = rollup.New(rollup.Options{Log: slog.New(slog.NewTextHandler(&h.log, nil))})
	s := rollup.Store(h.memory)
	if before != nil {
		s = before(s)
	}
	var ctx context.Context
	ctx, h.stop = context.WithCancel(t.Context())
	h.ended.Go(func() {
		if err := h.rollup.Run(ctx, s, h.note); err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	return h
}

// end ends Run and waits for it.
func (h *harness) end() {
	h.stop()
	h.ended.Wait()
}

// folded returns the rollups of the endpoint in the store, as a sum.
func (h *harness) folded() (sum store.RollupValue) {
	h.Helper()
	rollups, err := h.memory.Rollups(context.WithoutCancel(h.Context()), store.RollupQuery{
		Endpoint: endpoint, From: time.Now().Add(-24 * time.Hour), To: time.Now().Add(time.Hour),
	})
	if err != nil {
		h.Fatal(err)
	}
	for _, r := range rollups {
		if err := sum.Merge(&r.RollupValue); err != nil {
			h.Fatal(err)
		}
	}
	return sum
}

func TestDurationsAreFoldedEveryTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := run(t, nil)
		defer h.end()
		settle := h.rollup.Hooks().Settled
		for range 9 {
			settle(settled(endpoint, 2*time.Second))
		}
		settle(settled(endpoint, time.Minute))
		time.Sleep(9 * time.Second)
		if sum := h.folded(); sum.Latencies.Count() != 0 {
			t.Errorf("%d durations are folded after 9 s", sum.Latencies.Count())
		}
		time.Sleep(2 * time.Second)
		sum := h.folded()
		response, p50, longest := sum.Responses.Quantile(0.5), sum.Latencies.Quantile(0.5), sum.Latencies.Quantile(1)
		if sum.Responses.Count() != 10 || response.Round(time.Millisecond) != 30*time.Millisecond ||
			p50.Round(100*time.Millisecond) != 2*time.Second || longest.Round(2*time.Second) != time.Minute {
			t.Errorf("%d durations, responses %v, latencies %v and %v", sum.Responses.Count(), response, p50, longest)
		}
	})
}

func TestOnlyWhatTookTimeHasADuration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := run(t, nil)
		stale, failed, silent, expired := settled(endpoint, 0), settled(endpoint, 0), settled(endpoint, 0), settled(endpoint, 0)
		stale.Stale = true
		failed.Attempt.StatusCode, failed.Transition.To = 500, postrider.Pending
		silent.Attempt.StatusCode, silent.Transition.To = 0, postrider.Dead
		expired.Attempt = postrider.Attempt{Outcome: postrider.OutcomeNone, StartedAt: time.Now()}
		expired.Transition.To = postrider.Dead
		for _, s := range []observe.Settled{stale, failed, silent, expired} {
			h.rollup.Hooks().Settled(s)
		}
		h.end() // folds once more
		if sum := h.folded(); sum.Responses.Count() != 2 || sum.Latencies.Count() != 0 {
			t.Errorf("%d responses and %d latencies, want those of two answers and none", sum.Responses.Count(), sum.Latencies.Count())
		}
	})
}

// gate is a store that replaces FoldRollups by a function.
type gate func(ctx context.Context, f store.Fold) (int, error)

func (g gate) FoldRollups(ctx context.Context, f store.Fold) (int, error) { return g(ctx, f) }

func TestAllDeltasAreFoldedInTransactionsOfTheRightSize(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		left, largest := 5000, 0
		var sizes []int
		h := run(t, func(rollup.Store) rollup.Store {
			return gate(func(_ context.Context, f store.Fold) (int, error) {
				n := min(f.Deltas, left)
				left -= n
				sizes, largest = append(sizes, f.Deltas), max(largest, f.Deltas)
				time.Sleep(time.Duration(n) * time.Millisecond) // a delta takes a millisecond
				return n, nil
			})
		})
		time.Sleep(20 * time.Second)
		h.end()
		if left != 0 || sizes[0] != 16 || largest > 512 || len(sizes) > 100 {
			t.Errorf("%d of 5000 deltas are left, transactions %v", left, sizes)
		}
	})
}

func TestAFoldThatFailsKeepsItsDurations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var away atomic.Bool
		away.Store(true)
		h := run(t, func(s rollup.Store) rollup.Store {
			return gate(func(ctx context.Context, f store.Fold) (int, error) {
				if away.Load() {
					return 0, errors.New("the database is away")
				}
				return s.FoldRollups(ctx, f)
			})
		})
		h.rollup.Hooks().Settled(settled(endpoint, 0))
		time.Sleep(11 * time.Second)
		away.Store(false)
		h.rollup.Hooks().Settled(settled(endpoint, 0))
		time.Sleep(10 * time.Second)
		h.end()
		if n := len(h.chores); n != 3 || h.chores[0].Err == nil || h.chores[1].Err != nil || h.chores[0].Name != "fold rollups" {
			t.Errorf("observers heard of %+v, want a fold that failed and two that did not", h.chores)
		}
		if sum := h.folded(); sum.Latencies.Count() != 2 || !strings.Contains(h.log.String(), "durations_of=1") {
			t.Errorf("%d durations are folded, want both; log:\n%s", sum.Latencies.Count(), &h.log)
		}
	})
}

// discarded is a store of rollups that keeps no rows.
type discarded struct{}

func (discarded) Read([]store.RollupKey) (map[store.RollupKey]*store.RollupValue, error) {
	return nil, nil
}

func (discarded) Types([]store.Scope) (map[store.Scope][]string, error) {
	return map[store.Scope][]string{}, nil
}

func (discarded) Write([]store.RollupKey, map[store.RollupKey]*store.RollupValue) error { return nil }

// fold does in memory what a durable store does.
func fold(_ context.Context, f store.Fold) (int, error) {
	var folding store.Folding
	if err := folding.Seen(f.Seen); err != nil {
		return 0, err
	}
	return 0, folding.Store(discarded{}, store.Positions{})
}

// TestMemoryIsBoundedWith100000ActiveEndpoints blocks one fold while 100,000 endpoints are active
// for minutes. The waiting durations and the fold together must stay within 64 MiB.
func TestMemoryIsBoundedWith100000ActiveEndpoints(t *testing.T) { //nolint:paralleltest // it measures the heap of the process
	const endpoints, rounds = 100_000, 2
	stuck := make(chan struct{})
	under := make(chan struct{}, 1)
	var log bytes.Buffer
	r := rollup.New(rollup.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	heap := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	ctx, cancel := context.WithCancel(t.Context())
	var ended sync.WaitGroup
	ended.Go(func() {
		_ = r.Run(ctx, gate(func(ctx context.Context, f store.Fold) (int, error) {
			n, err := fold(ctx, f)
			select {
			case under <- struct{}{}:
				<-stuck
			default:
			}
			return n, err
		}), nil)
	})
	settle := r.Hooks().Settled
	for round := range rounds {
		for i := range endpoints {
			id := postrider.EndpointID{byte(i), byte(i >> 8), byte(i >> 16)}
			s := settled(id, time.Duration(1+round)*time.Second)
			// Each endpoint has a text of its own.
			s.Delivery.Event.Type = fmt.Sprintf("order.created.%d", i)
			settle(s)
		}
	}
	grown := int64(heap()) - int64(before)
	t.Logf("%d endpoints take %.1f MiB", endpoints, float64(grown)/(1<<20))
	if grown > 64<<20 {
		t.Errorf("%d endpoints take %d MiB, want at most 64", endpoints, grown>>20)
	}
	close(stuck)
	cancel()
	ended.Wait()
	if !strings.Contains(log.String(), "dropped=") {
		t.Errorf("nothing says that durations were dropped:\n%s", &log)
	}
}
