package dispatch_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// killed ends the node's process, as its store sees that: no more calls come, and its lock is free.
func (n *node) killed() {
	n.set(func(c *connection) { c.away = true })
	n.cut()
	synctest.Wait() // otherwise a node that starts at once could still find the lock taken
}

func TestPromise8AKilledNodeIsReplacedWithinASecond(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ids := r.endpoints(60, nil)
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(time.Millisecond) }
		nodes := r.nodes(3, dispatch.Options{})
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(8 * time.Second) }
		r.publishVia(nodes[1], ids, 1)
		time.Sleep(100 * time.Millisecond)
		inFlight, _ := r.by(time.Time{})
		died := time.Now()
		nodes[0].killed()
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(time.Millisecond) }
		r.publishVia(nodes[1], ids, 1)
		time.Sleep(1100 * time.Millisecond)
		if by, last := r.by(died); by[1] > 0 || by[2]+by[3] != len(ids) || last > 1100*time.Millisecond {
			t.Errorf("requests by node %v, the last after %v; want %d by the two that live, within a heartbeat", by, last, len(ids))
		}
		time.Sleep(5 * time.Second)
		if r.twice() != inFlight[1] || inFlight[1] == 0 {
			t.Errorf("%d deliveries were attempted again within 6 s, want the %d that the dead node had in flight", r.twice(), inFlight[1])
		}
		time.Sleep(10 * time.Second)
		end(t, nodes[1:]...)
		_ = nodes[0].stop() // its error does not matter: its calls no longer reach the store
	})
}

func TestPromise8ALoneNodeStartsWithinASecondOfItsRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ids := r.endpoints(20, nil)
		var dead []*node
		for i := range uint32(20) {
			n := r.node(1+i, dispatch.Options{})
			started := time.Now()
			r.publishVia(n, ids, 1)
			time.Sleep(time.Second)
			if by, last := r.by(started); by[1+i] < len(ids) || last > time.Second {
				t.Errorf("start %d: requests by node %v within a second, want %d at least", i+1, by, len(ids))
			}
			time.Sleep(time.Duration(i%3) * 500 * time.Millisecond)
			n.killed()
			dead = append(dead, n)
		}
		last := r.node(100, dispatch.Options{})
		time.Sleep(time.Minute)
		for _, n := range dead {
			_ = n.stop()
		}
		end(t, last)
	})
}

func TestATerminatedConnectionCostsNoDuplicate(t *testing.T) {
	t.Parallel()
	for name, others := range map[string]int{"of a lone node": 0, "of one of three nodes": 2} {
		synctest.Test(t, func(t *testing.T) {
			r := newHarness(t)
			ids := r.endpoints(40, func(p *postrider.Policy) { p.Concurrency = 2 })
			r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(4 * time.Second) }
			nodes := r.nodes(1+others, dispatch.Options{})
			r.publishVia(nodes[0], ids, 4) // two in flight, and two leased
			time.Sleep(time.Second)
			cut := time.Now()
			nodes[0].set(func(c *connection) { c.fails["hold"] = true })
			nodes[0].cut()
			time.Sleep(4 * time.Second)
			if by, _ := r.by(cut); by[1] > 0 {
				t.Errorf("%s: %d attempts started without the lock", name, by[1])
			}
			nodes[0].set(func(c *connection) { c.fails["hold"] = false })
			time.Sleep(20 * time.Second)
			if got := len(r.requests()); got != 160 || r.twice() > 0 {
				t.Errorf("%s: %d of 160 requests left, %d deliveries twice", name, got, r.twice())
			}
			if by, _ := r.by(cut); others == 0 && by[1] != 80 {
				t.Errorf("%s: requests by node %v, want it to go on with its lock", name, by)
			}
			end(t, nodes...)
		})
	}
}

func TestAHeartbeatOlderThanTheLossOfTheLockRenewsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ids := r.endpoints(20, nil)
		nodes := r.nodes(2, dispatch.Options{})
		nodes[0].set(func(c *connection) { c.loads = 3 * time.Second })
		end(t, nodes[1]) // the other node gets its shards within a second, and loads their circuits
		time.Sleep(2 * time.Second)
		cut := time.Now()
		nodes[0].set(func(c *connection) { c.fails["hold"] = true })
		nodes[0].cut()
		synctest.Wait()
		r.publishVia(nodes[0], ids, 1)
		time.Sleep(4 * time.Second)
		if by, _ := r.by(cut); by[1] > 0 {
			t.Errorf("%d attempts started without the lock", by[1])
		}
		nodes[0].set(func(c *connection) { c.fails["hold"], c.loads = false, 0 })
		time.Sleep(5 * time.Second)
		if by, _ := r.by(cut); by[1] != len(ids) {
			t.Errorf("requests by node %v, want %d with the lock", by, len(ids))
		}
		end(t, nodes[0])
	})
}

func TestANodeThatGetsNoLockGoesOnByItsHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ids := r.endpoints(20, nil)
		n := r.node(1, dispatch.Options{})
		time.Sleep(2 * time.Second)
		n.set(func(c *connection) { c.fails["hold"] = true })
		n.cut()
		start := time.Now()
		time.Sleep(100 * time.Millisecond)
		r.publishVia(n, ids, 1)
		time.Sleep(8 * time.Second)
		if by, last := r.by(start); by[1] != len(ids) || last < 5*time.Second || last > 7*time.Second {
			t.Errorf("requests by node %v, the last after %v; want %d after the TTL of its heartbeat", by, last, len(ids))
		}
		for range 20 { // for different times since the last try to take the lock
			start = time.Now()
			r.publishVia(n, ids, 1)
			time.Sleep(110 * time.Millisecond)
			if by, last := r.by(start); by[1] != len(ids) || last > 100*time.Millisecond {
				t.Errorf("requests by node %v, the last after %v; want %d at once", by, last, len(ids))
			}
		}
		end(t, n)
	})
}

// stepped is a database whose clock can be stepped, with a store that follows the clock once a
// second, as the real stores do.
type stepped struct {
	clock   *store.Clock
	by      time.Duration
	ahead   time.Duration
	version int64
}

func (s *stepped) follow() {
	for {
		now := time.Now()
		step := s.clock.Follow(store.Reading{
			Asked: now, Answered: now, Wall: now.Round(0).Add(s.by), Ahead: s.ahead, Version: s.version,
		})
		if step == 0 {
			return
		}
		s.ahead, s.version = s.ahead-step, s.version+1
	}
}

func TestAStepOfTheDatabasesClockChangesNothingThatIsDue(t *testing.T) {
	t.Parallel()
	for _, by := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			database := &stepped{clock: store.NewClock(nil), version: 1}
			r := newHarness(t)
			r.store = memory.New(memory.Options{Clock: database.clock})
			r.queue = r.store
			r.ids = store.NewIDs(database.clock.Wall, &[32]byte{})
			ids := r.endpoints(250, nil) // one delivery for each endpoint, so that no endpoint is degraded
			r.respond = func(c postrider.Claimed) postrider.Attempt {
				if c.Attempt == 1 {
					return rejected()
				}
				return accepted(6 * time.Second)
			}
			nodes := r.nodes(2, dispatch.Options{})
			for second := range 240 {
				switch {
				case second == 64: // attempts are in flight, and retries wait
					database.by = by
				case second < 100 && second%4 == 0:
					r.publishVia(nodes[second/4%2], ids[:10], 1)
					ids = ids[10:]
				}
				time.Sleep(500 * time.Millisecond)
				database.follow()
				time.Sleep(500 * time.Millisecond)
			}
			if off := time.Until(database.clock.Wall()); off != by {
				t.Errorf("by %v: the time of day is off by %v", by, off)
			}
			end(t, nodes...)
			r.wantsSchedule(by)
		})
	}
}

// wantsSchedule requires one first attempt and one retry of every delivery. The retry must start
// five seconds after the first attempt, at most two seconds late.
func (r *harness) wantsSchedule(by time.Duration) {
	r.t.Helper()
	attempts := map[postrider.DeliveryID][]time.Time{}
	for _, s := range r.requests() {
		attempts[s.ID] = append(attempts[s.ID], s.at)
	}
	if len(attempts) == 0 {
		r.t.Error("nothing was delivered")
	}
	for id, at := range attempts {
		slices.SortFunc(at, time.Time.Compare)
		if len(at) != 2 {
			r.t.Errorf("by %v: %d attempts for %s, want 2", by, len(at), id)
			continue
		}
		if wait := at[1].Sub(at[0]); wait < 4*time.Second || wait > 7*time.Second {
			r.t.Errorf("by %v: the retry of %s came after %v, want 5 s to 7 s", by, id, wait)
		}
	}
}
