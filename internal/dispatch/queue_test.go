package dispatch_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/observe"
)

// TestTheQueueIsMeasuredByWhatHoldsIt has one endpoint for each value of HeldBy, and one whose
// deliveries the dispatcher was not told of: they wait only for the dispatcher. For the endpoint
// with a rate, one delivery is sent and one is leased ahead.
func TestTheQueueIsMeasuredByWhatHoldsIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var measured observe.Queue
		r := newHarness(t)
		paused, untold := r.endpoint(nil), r.endpoint(nil)
		broken := r.endpoint(func(p *postrider.Policy) {
			p.Circuit = postrider.CircuitPolicy{Failures: 5, Cooldown: time.Hour, MaxCooldown: time.Hour}
		})
		asked := r.endpoint(nil)
		metered := r.endpoint(func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 1, Per: time.Hour} })
		slow := r.endpoint(func(p *postrider.Policy) { p.Concurrency = 1 })
		r.respond = func(c postrider.Claimed) postrider.Attempt {
			switch c.Endpoint {
			case broken:
				return rejected()
			case asked:
				return postrider.Attempt{Outcome: postrider.OutcomeThrottled, StatusCode: 429, RetryAfter: time.Hour, Duration: time.Millisecond}
			case slow:
				return accepted(9 * time.Second)
			}
			return accepted(time.Millisecond)
		}
		stop := r.run(dispatch.Options{Hooks: observe.Hooks{Queue: func(q observe.Queue) {
			mu.Lock()
			defer mu.Unlock()
			measured = q
		}}})
		r.status(paused, postrider.EndpointPaused)
		r.publish(asked, 1, true)
		r.publish(broken, 8, true)
		time.Sleep(time.Second)
		r.publish(paused, 3, true)
		r.publish(asked, 2, true)
		r.publish(metered, 4, true)
		r.publish(slow, 9, true)
		r.publish(untold, 6, false)
		time.Sleep(15 * time.Second)
		synctest.Wait()

		mu.Lock()
		defer mu.Unlock()
		due, waiting := map[postrider.HeldBy]int{}, map[postrider.EndpointID]int{}
		for _, l := range measured.Lanes {
			due[l.HeldBy] += l.Due
			waiting[l.Endpoint] += l.Waiting
			if l.HeldBy == postrider.HeldByNothing && (l.Oldest < 13*time.Second || l.Oldest > 15*time.Second || l.Newest > l.Oldest) {
				t.Errorf("the oldest has been due for %v, the newest for %v, want about 14 s", l.Oldest, l.Newest)
			}
		}
		for hold, want := range map[postrider.HeldBy]int{
			postrider.HeldByPause: 3, postrider.HeldByCircuit: 8, postrider.HeldByRetryAfter: 2, postrider.HeldByRate: 2, postrider.HeldByNothing: 6,
		} {
			if due[hold] != want {
				t.Errorf("held by %s: %d due, want %d", hold, due[hold], want)
			}
		}
		if n := due[postrider.HeldByConcurrency]; n < 5 || n > 7 || waiting[slow] != 8 {
			t.Errorf("held by its own concurrency: %d of %d, want 5 to 7 of 8", n, waiting[slow])
		}
		if measured.OpenCircuits != 1 || measured.OpenedTogether != 1 || measured.Partial {
			t.Errorf("%d open circuits, %d together, partial %v; want 1, 1, false", measured.OpenCircuits, measured.OpenedTogether, measured.Partial)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestTheLagOfTheLoopIsMeasured(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		times := 0
		r := newHarness(t)
		stop := r.run(dispatch.Options{Hooks: observe.Hooks{
			LoopLag: func(lag time.Duration) {
				mu.Lock()
				defer mu.Unlock()
				times++
				if lag != 0 {
					t.Errorf("a loop without work lags by %v", lag)
				}
			},
			Membership: func(m observe.Membership) {
				if m.Nodes != 1 || m.Shards != 256 {
					t.Errorf("alone: %+v, want one node with all shards", m)
				}
			},
		}})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if err := stop(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if times < 38 || times > 40 {
			t.Errorf("measured %d times in 10 s, want 40", times)
		}
	})
}
