package schedule

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/testkit"
)

// TestOrderHoldsUnderLeaseTheft runs three nodes that stop and die all the time, so that leases are
// taken over while their requests are under way. All events have ordering keys.
func TestOrderHoldsUnderLeaseTheft(t *testing.T) {
	t.Parallel()
	if testkit.Plain(t) {
		return
	}
	seeds := 40
	if testing.Short() {
		seeds = 8
	}
	thefts := 0
	for seed := range seeds {
		w := newSimulation(t, uint64(1_000_001+2*seed)) // odd seeds have several nodes
		for id, to := range w.routed {
			to.Endpoint.Policy.Order, to.Endpoint.Policy.Timeout = postrider.OrderByKey, 5*time.Second
			w.routed[id] = to
		}
		w.hangs = 6
		w.keyed = true
		for range 2 {
			w.boot()
		}
		for range 30 {
			w.at(time.Duration(w.rng.Int64N(int64(150*time.Second))), w.freeze)
		}
		for range 5 {
			w.at(time.Duration(w.rng.Int64N(int64(150*time.Second))), w.crash)
		}
		w.run()
		w.check()
		thefts += w.thefts
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if thefts < 8*seeds {
		t.Errorf("%d leases were taken over in %d seeds: that tests little", thefts, seeds)
	}
}
