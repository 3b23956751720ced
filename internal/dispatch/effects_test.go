package dispatch_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/store"
)

// Refresh does nothing, because Lookup always returns the settings that were set last.
func (r *harness) Refresh(context.Context) error { return nil }

func (r *harness) RefreshedAt() time.Time { return time.Now() }

func (r *harness) Lookup(id postrider.EndpointID) (*store.EndpointSnapshot, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if to := r.same[id]; to != nil {
		return to, true
	}
	to, ok := r.routed[id]
	return &to, ok
}

type snapshot = store.EndpointSnapshot

// servedBy returns one of the endpoints that the node serves.
func (r *harness) servedBy(n *node, ids []postrider.EndpointID) postrider.EndpointID {
	r.t.Helper()
	i := slices.IndexFunc(ids, func(id postrider.EndpointID) bool {
		_, served := n.d.Pace(r.t.Context(), id)
		return served
	})
	if i < 0 {
		r.t.Fatal("the node serves none of the endpoints")
	}
	return ids[i]
}

// await returns the result of Await, and how long it took.
func (r *harness) await(n *node, w postrider.Withdrawal) (postrider.NotEffective, time.Duration) {
	begun := time.Now()
	got := n.d.Await(r.t.Context(), w)
	return got, time.Since(begun).Round(time.Millisecond)
}

func TestPromise7AResponseWaitsForTheNodeThatServesTheEndpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		nodes := r.nodes(3, dispatch.Options{Cluster: dispatch.Cluster{Host: "host"}})
		ids := r.endpoints(30, nil)
		a, b := nodes[0], nodes[1]
		here, there := r.servedBy(a, ids), r.servedBy(b, ids)
		for _, w := range []postrider.Withdrawal{{}, {Endpoint: here}, {Endpoint: there}} {
			if got, took := r.await(a, w); got.Any() || took > 0 {
				t.Errorf("Await %+v = %+v after %v, want effective at once", w, got, took)
			}
		}
		b.set(func(c *connection) { c.deaf = true }) // its wake-ups are lost
		for _, w := range []postrider.Withdrawal{{}, {Endpoint: there}} {
			got, took := r.await(a, w)
			if want := []string{"host"}; !slices.Equal(got.Nodes, want) || took != 2*time.Second ||
				time.Until(got.Until).Round(time.Second) != 5*time.Second {
				t.Errorf("Await %+v = %+v after %v, want one node after 2 s, for 5 s", w, got, took)
			}
		}
		if got, took := r.await(a, postrider.Withdrawal{Endpoint: here}); got.Any() || took > 0 {
			t.Errorf("Await of this node's endpoint = %+v after %v", got, took)
		}
		b.set(func(c *connection) { c.away = true; c.cut() }) // the node dies, and its lock is free
		synctest.Wait()
		if got, took := r.await(a, postrider.Withdrawal{Endpoint: there}); got.Any() || took > 0 {
			t.Errorf("Await with a dead node = %+v after %v, want effective at once", got, took)
		}
		b.set(func(c *connection) { c.away, c.deaf = false, false })
		time.Sleep(10 * time.Second)
		end(t, nodes...)
	})
}

func TestPromise7EachNodeHearsThatAccountsChangedBeforeItConfirms(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		var heard atomic.Int64
		nodes := r.nodes(3, dispatch.Options{Cluster: dispatch.Cluster{OnAccounts: func() { heard.Add(1) }}})
		there := r.servedBy(nodes[1], r.endpoints(30, nil))
		for _, w := range []postrider.Withdrawal{{Endpoint: there}, {Endpoint: there, Delivery: [16]byte{1}}, {Event: [16]byte{2}}} {
			if got, _ := r.await(nodes[0], w); got.Any() || heard.Load() > 0 {
				t.Errorf("Await %+v = %+v, and %d nodes heard of accounts, want none", w, got, heard.Load())
			}
		}
		if got, _ := r.await(nodes[0], postrider.Withdrawal{}); got.Any() || heard.Load() != 3 {
			t.Errorf("Await of accounts = %+v, and %d nodes heard of it, want all 3", got, heard.Load())
		}
		end(t, nodes...)
	})
}

// TestPromise7WhatHasStartedLooksAgain: an attempt sends nothing if its settings are not the
// newest, its delivery was cancelled, or its node owns nothing.
func TestPromise7WhatHasStartedLooksAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(nil)
		n := r.node(1, dispatch.Options{})
		time.Sleep(5 * time.Second)
		to, _ := r.Lookup(id)
		other := *to
		r.same = map[postrider.EndpointID]*snapshot{id: to}
		c := postrider.Claimed{ID: [16]byte{1}, Endpoint: id, Event: &postrider.Event{ID: [16]byte{2}}}
		current := func(what string, want bool) {
			t.Helper()
			if got := n.d.Current(&c, to); got != want {
				t.Errorf("%s: Current = %v, want %v", what, got, want)
			}
		}
		current("as it was", true)
		if n.d.Current(&c, &other) {
			t.Error("older settings are current")
		}
		n.d.Await(t.Context(), postrider.Withdrawal{Endpoint: id, Delivery: postrider.DeliveryID{3}})
		current("after the cancel of another delivery", true)
		n.d.Await(t.Context(), postrider.Withdrawal{Endpoint: id, Delivery: c.ID})
		current("after its cancel", false)
		c.ID = [16]byte{4}
		current("the next delivery", true)
		n.d.Await(t.Context(), postrider.Withdrawal{Event: c.Event.ID})
		current("after the expunge of its event", false)
		c.Event = &postrider.Event{ID: [16]byte{5}}
		n.set(func(c *connection) { c.away = true }) // heartbeats fail
		time.Sleep(6 * time.Second)
		current("on a node without a heartbeat for 5 s", false)
		n.set(func(c *connection) { c.away = false })
		time.Sleep(6 * time.Second)
		current("with heartbeats again", true)
		end(t, n)
	})
}

// TestPromise7AnAttemptThatSentNothingUsesNothingUp changes endpoints just before the first ten
// requests leave. No attempt is recorded, no circuit opens, and the delivery leaves soon.
func TestPromise7AnAttemptThatSentNothingUsesNothingUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(nil)
		withdrawn := 0
		r.respond = func(postrider.Claimed) postrider.Attempt {
			if withdrawn++; withdrawn <= 10 {
				return postrider.Attempt{Outcome: postrider.OutcomeNone}
			}
			return accepted(time.Millisecond)
		}
		stop := r.run(dispatch.Options{})
		d := r.publish(id, 1, true)[0]
		time.Sleep(time.Second)
		if got := r.delivery(d); got.Status != postrider.Delivered || got.Attempts != 1 {
			t.Errorf("the delivery is %+v, want delivered at its first attempt", got)
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}
