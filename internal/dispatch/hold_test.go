package dispatch_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/schedule"
)

// TestNothingIsSentWhileTheStoreIsHeld holds the store while one delivery is in flight, one is
// leased and others wait. It resumes the store a day later.
func TestNothingIsSentWhileTheStoreIsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(func(p *postrider.Policy) { p.Concurrency = 1 })
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(5 * time.Second) }
		stop := r.run(dispatch.Options{})
		made := r.publish(id, 4, true)
		time.Sleep(time.Second)
		if n := len(r.requests()); n != 1 {
			t.Fatalf("%d requests left, want the one that the endpoint allows", n)
		}

		r.held.Store(true)
		time.Sleep(4*time.Second + time.Second) // time for the first attempt to end
		made = append(made, r.publish(id, 1, true)...)
		err := r.d.Admit([]schedule.Admission{{Endpoint: id, Lane: postrider.LaneFirst}},
			func(g schedule.Grant) (schedule.DeliveriesCommitted, error) {
				if g.Token != 0 {
					t.Error("a delivery was admitted while the store is held")
				}
				return schedule.DeliveriesCommitted{}, nil
			})
		if err != nil {
			t.Error(err)
		}
		time.Sleep(12 * time.Hour)
		if n := len(r.requests()); n != 1 {
			t.Errorf("%d requests left while the store was held, want none but the one before", n-1)
		}
		if got := r.delivery(made[0]); got.Status != postrider.Delivered {
			t.Errorf("the attempt in flight ended as %s, want that it is settled", got.Status)
		}
		if err := r.d.Progressing(); err != nil {
			t.Errorf("Progressing = %v, want nil: what is held is not stuck", err)
		}

		r.held.Store(false)
		time.Sleep(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		for i, d := range made {
			if got := r.delivery(d); got.Status != postrider.Delivered || got.Attempts != 1 {
				t.Errorf("delivery %d = %s after %d attempts, want delivered after one", i, got.Status, got.Attempts)
			}
		}
	})
}

// TestADispatcherStartsHeld starts a dispatcher on a held store.
func TestADispatcherStartsHeld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(nil)
		r.publish(id, 10, false)
		r.held.Store(true)
		stop := r.run(dispatch.Options{})
		time.Sleep(time.Hour)
		if n := len(r.requests()); n != 0 {
			t.Errorf("%d requests left while the store was held, want none", n)
		}
		r.held.Store(false)
		time.Sleep(2 * time.Second)
		if n := len(r.requests()); n != 10 {
			t.Errorf("%d requests left within two seconds of the resumption, want 10", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
