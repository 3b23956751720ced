package dispatch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// slowPages is a store that takes long for each page of a list.
type slowPages struct {
	*memory.Store
	page time.Duration
}

func (s slowPages) wait(ctx context.Context) error {
	select {
	case <-time.After(s.page):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (s slowPages) Due(ctx context.Context, d store.Due) ([]store.DueLane, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Store.Due(ctx, d)
}

func (s slowPages) Circuits(ctx context.Context, q store.CircuitQuery) ([]postrider.Circuit, error) {
	if err := s.wait(ctx); err != nil {
		return nil, err
	}
	return s.Store.Circuits(ctx, q)
}

func TestAScanThatTakesLongReachesTheLastPage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ids := r.endpoints(1001, nil) // two pages of endpoints
		for _, id := range ids {
			_, err := r.store.PutCircuit(t.Context(), store.PutCircuit{Circuit: postrider.Circuit{Endpoint: id, Status: postrider.CircuitClosed}})
			if err != nil {
				t.Fatal(err)
			}
			r.publish(id, 1, false)
		}
		r.queue = slowPages{r.store, 6 * time.Second}
		stop := r.run(dispatch.Options{})
		time.Sleep(time.Minute)
		if n := len(r.requests()); n != len(ids) {
			t.Errorf("%d requests, want one of each of %d endpoints", n, len(ids))
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestANodeThatCannotLoadItsCircuitsTakesNoneForClosed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(nil)
		_, err := r.store.PutCircuit(t.Context(), store.PutCircuit{Circuit: postrider.Circuit{
			Endpoint: id, Status: postrider.CircuitOpen, OpenedAt: time.Now(), ProbeAt: time.Now().Add(time.Hour), Cooldown: time.Hour,
		}})
		if err != nil {
			t.Fatal(err)
		}
		r.publish(id, 1, false)
		l := &connection{Store: r.store, calls: map[string]int{}, fails: map[string]bool{"circuits": true}}
		r.queue = l
		stop := r.run(dispatch.Options{})
		time.Sleep(20 * time.Second)
		l.set(func(c *connection) { c.fails["circuits"] = false })
		time.Sleep(time.Minute)
		if n := len(r.requests()); n != 0 || l.count("circuits") < 3 {
			t.Errorf("%d requests to an endpoint whose circuit is open, after %d tries to load circuits; want none after 3 or more", n,
				l.count("circuits"))
		}
		time.Sleep(time.Hour)
		if n := len(r.requests()); n != 1 {
			t.Errorf("%d requests after the cooldown, want the probe", n)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
