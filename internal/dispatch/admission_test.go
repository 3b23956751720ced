package dispatch_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/schedule"
)

// TestALargeCommitWaitsOnASaturatedNode has one attempt in flight and two leased deliveries that
// have not started, and asks for admissions. Three are many for a node with eight slots.
func TestALargeCommitWaitsOnASaturatedNode(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		saturated bool
		response  time.Duration // how long each attempt takes
		ask       int
		waits     time.Duration
	}{
		{"until all have started", true, 20 * time.Millisecond, 3, 40 * time.Millisecond},
		{"but a small one does not", true, 20 * time.Millisecond, 1, 0},
		{"not for long", true, 10 * time.Second, 3, 100 * time.Millisecond},
		{"only there", false, 20 * time.Millisecond, 3, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newHarness(t)
				id := r.endpoint(func(p *postrider.Policy) { p.Concurrency = 1 })
				var takes atomic.Int64
				takes.Store(int64(time.Millisecond))
				r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(time.Duration(takes.Load())) }
				stop := r.run(dispatch.Options{Concurrency: 8})
				r.publish(id, 1, true) // the endpoint responds
				time.Sleep(100 * time.Millisecond)
				takes.Store(int64(tt.response))
				r.publish(id, 3, true)
				if tt.saturated {
					r.d.Saturate()
				}
				synctest.Wait()

				asked := time.Now()
				ask := make([]schedule.Admission, tt.ask)
				for i := range ask {
					ask[i] = schedule.Admission{Endpoint: id, Lane: postrider.LaneFirst}
				}
				err := r.d.Admit(ask, func(g schedule.Grant) (schedule.DeliveriesCommitted, error) {
					if waited := time.Since(asked); waited != tt.waits || g.Token == 0 {
						t.Errorf("the commit waited for %v and got the token %d, want %v and a token", waited, g.Token, tt.waits)
					}
					return schedule.DeliveriesCommitted{}, errAway
				})
				if !errors.Is(err, errAway) {
					t.Errorf("Admit = %v, want the error of the commit", err)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// An endpoint that the core is about to forget gets its next event at once. The core must not forget it between the
// question for an admission and the answer, because it would not know the endpoint's settings then.
func TestAnEventAfterAPauseIsAdmitted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ask := []schedule.Admission{{Endpoint: r.endpoint(nil), Lane: postrider.LaneFirst}}
		stop := r.run(dispatch.Options{})
		for pause := time.Duration(0); pause <= 3*time.Second; pause += 50 * time.Millisecond {
			time.Sleep(pause)
			err := r.d.Admit(ask, func(g schedule.Grant) (schedule.DeliveriesCommitted, error) {
				if g.Token == 0 {
					t.Errorf("after a pause of %v the delivery is not admitted", pause)
				}
				return schedule.DeliveriesCommitted{}, errAway
			})
			if !errors.Is(err, errAway) {
				t.Errorf("Admit = %v, want the error of the commit", err)
			}
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
