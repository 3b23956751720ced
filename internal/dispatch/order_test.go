package dispatch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/store"
)

// ordered stores n deliveries in the order of a key, and tells the dispatcher.
func (r *harness) ordered(id postrider.EndpointID, key string, n int) []postrider.DeliveryID {
	made, waiting := r.commit(id, n, key)
	r.committed(waiting)
	return made
}

// sequences returns the sequence of each request with the key, in the order in which they left.
func (r *harness) sequences(key string) (seen []int64) {
	for _, s := range r.requests() {
		if s.Event.OrderingKey == key {
			seen = append(seen, s.Event.Sequence)
		}
	}
	return seen
}

func byKey(onDead postrider.OnDead) func(*postrider.Policy) {
	return func(p *postrider.Policy) {
		p.Order, p.OnDead = postrider.OrderByKey, onDead
		p.Retry = postrider.RetryPolicy{Delays: []time.Duration{0, 5 * time.Second, 10 * time.Second}}
	}
}

func TestAKeyWaitsForItsHeadAndOtherKeysDoNot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(byKey(postrider.SkipDead))
		r.respond = func(c postrider.Claimed) postrider.Attempt {
			if c.Event.OrderingKey == "a" && c.Event.Sequence == 2 && c.Attempt < 3 {
				return rejected()
			}
			return accepted(10 * time.Millisecond)
		}
		stop := r.run(dispatch.Options{})
		r.ordered(id, "a", 4)
		r.ordered(id, "b", 20)
		r.publish(id, 20, true)
		time.Sleep(4 * time.Second)
		if got, want := r.sequences("a"), []int64{1, 2}; !slices.Equal(got, want) {
			t.Errorf("key a while its head is retried: %v left, want %v", got, want)
		}
		if got := r.sequences("b"); len(got) != 20 || !slices.IsSorted(got) {
			t.Errorf("key b: %v left, want 1 to 20", got)
		}
		if got := len(r.sequences("")); got != 20 {
			t.Errorf("%d of 20 deliveries without a key left", got)
		}
		time.Sleep(30 * time.Second)
		if got, want := r.sequences("a"), []int64{1, 2, 2, 2, 3, 4}; !slices.Equal(got, want) {
			t.Errorf("key a: %v left, want %v", got, want)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestAKeyMovesAsFastAsItsAnswers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(byKey(postrider.SkipDead))
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(10 * time.Millisecond) }
		stop := r.run(dispatch.Options{})
		start := time.Now()
		r.ordered(id, "a", 100)
		time.Sleep(10 * time.Second)
		got := r.instants(id, start)
		if len(got) != 100 || got[99] > 2*time.Second {
			t.Errorf("%d of 100 deliveries left, the last after %v, want each with the answer of the one before", len(got), got[len(got)-1])
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

func TestADeadHeadIsSkippedOrPausesItsKey(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		onDead postrider.OnDead
		goOn   func(*harness, postrider.DeliveryID) error
		before []int64 // sequences sent until the head is dead
		after  []int64 // sequences sent after a person resolved the dead letter
	}{
		"skip":               {postrider.SkipDead, nil, []int64{1, 1, 1, 2, 3}, []int64{1, 1, 1, 2, 3}},
		"pause, and replay":  {postrider.PauseOnDead, replay, []int64{1, 1, 1}, []int64{1, 1, 1, 1, 2, 3}},
		"pause, and discard": {postrider.PauseOnDead, discard, []int64{1, 1, 1}, []int64{1, 1, 1, 2, 3}},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newHarness(t)
			id := r.endpoint(byKey(tt.onDead))
			start := time.Now()
			r.respond = func(c postrider.Claimed) postrider.Attempt {
				if c.Event.OrderingKey == "a" && c.Event.Sequence == 1 && time.Since(start) < time.Minute {
					return rejected()
				}
				return accepted(0)
			}
			stop := r.run(dispatch.Options{})
			head := r.ordered(id, "a", 3)[0]
			r.ordered(id, "b", 3)
			time.Sleep(time.Minute)
			if got := r.sequences("a"); !slices.Equal(got, tt.before) {
				t.Errorf("%s: %v left after the head died, want %v", name, got, tt.before)
			}
			if got := r.sequences("b"); len(got) != 3 {
				t.Errorf("%s: %v of another key left, want all", name, got)
			}
			if tt.goOn != nil {
				if err := tt.goOn(r, head); err != nil {
					t.Fatal(err)
				}
				r.notify(r.d, id)
			}
			time.Sleep(time.Second)
			if got := r.sequences("a"); !slices.Equal(got, tt.after) {
				t.Errorf("%s: %v left, want %v", name, got, tt.after)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	}
}

func replay(r *harness, dead postrider.DeliveryID) error {
	_, err := r.store.Replay(r.t.Context(), store.Replay{
		Delivery: dead, ID: store.NewID[postrider.DeliveryID](r.ids), Expiry: time.Hour, By: "me",
	})
	return err
}

func discard(r *harness, dead postrider.DeliveryID) error {
	_, err := r.store.Discard(r.t.Context(), store.Discard{Delivery: dead, By: "me"})
	return err
}

func TestAKeyKeepsItsOrderThroughAHandOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(byKey(postrider.SkipDead))
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(500 * time.Millisecond) }
		first := r.node(1, dispatch.Options{})
		time.Sleep(2 * time.Second)
		r.d = first.d
		r.ordered(id, "a", 40)
		time.Sleep(3 * time.Second)
		second := r.node(2, dispatch.Options{})
		time.Sleep(3 * time.Second)
		end(t, first)
		time.Sleep(30 * time.Second)
		if got := r.sequences("a"); len(got) != 40 || !slices.IsSorted(got) {
			t.Errorf("%v left, want 1 to 40", got)
		}
		end(t, second)
	})
}
