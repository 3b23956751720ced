package dispatch_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/store"
)

// lockingQueue reports the settlements of one endpoint as locked, until a time.
type lockingQueue struct {
	store.Queue
	endpoint postrider.EndpointID
	until    time.Time
	asked    *atomic.Int32
}

func (q lockingQueue) Settle(ctx context.Context, settlements []store.Settlement) ([]store.Settled, error) {
	all := make([]store.Settled, len(settlements))
	var part []store.Settlement
	var places []int
	for i := range settlements {
		if all[i].Locked = settlements[i].Claimed.Endpoint == q.endpoint && time.Now().Before(q.until); all[i].Locked {
			q.asked.Add(1)
			continue
		}
		part, places = append(part, settlements[i]), append(places, i)
	}
	settled, err := q.Queue.Settle(ctx, part)
	for i := range settled {
		all[places[i]] = settled[i]
	}
	return all, err
}

func TestPromise5ASettlementThatIsLockedHoldsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		stuck, other := r.endpoint(nil), r.endpoint(nil)
		var asked atomic.Int32
		r.queue = lockingQueue{r.store, stuck, time.Now().Add(3 * time.Second), &asked}
		stop := r.run(dispatch.Options{})
		r.publish(stuck, 1, true)
		for range 20 { // each is settled before the next one comes
			r.publish(other, 1, true)
			time.Sleep(100 * time.Millisecond)
		}
		settled := func(of postrider.EndpointID) int {
			page, err := r.store.Deliveries(t.Context(), store.DeliveryQuery{Endpoint: of, Status: postrider.Delivered})
			if err != nil {
				t.Fatal(err)
			}
			return len(page.Items)
		}
		if got := settled(other); got != 20 || settled(stuck) > 0 {
			t.Errorf("%d of 20 deliveries of the other endpoint are settled", got)
		}
		if n := asked.Load(); n == 0 || n > 25 {
			t.Errorf("the settlement was tried %d times in 2 s, want ten a second", n)
		}
		time.Sleep(2 * time.Second)
		if settled(stuck) != 1 || len(r.requests()) != 21 {
			t.Errorf("after the lock: %d settled, %d requests", settled(stuck), len(r.requests()))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
