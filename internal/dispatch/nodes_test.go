package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/dispatch"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/memory"
)

// connection is a node's connection to the shared store. It can be cut.
type connection struct {
	*memory.Store

	mu    sync.Mutex
	away  bool            // no call reaches the store
	deaf  bool            // wake-ups are lost
	fails map[string]bool // names of the calls that fail
	slow  time.Duration   // time until leases are given back
	takes time.Duration   // time to reclaim a dead node
	loads time.Duration   // time until a page of circuits is read
	cut   func()          // breaks the connection for wake-ups
	calls map[string]int
}

func (c *connection) set(change func(*connection)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	change(c)
}

func (c *connection) call(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[name]++
	if c.away || c.fails[name] {
		return fmt.Errorf("%s: %w", name, errAway)
	}
	return nil
}

func (c *connection) count(name string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[name]
}

func (c *connection) Claim(ctx context.Context, claim store.Claim) (store.Claims, error) {
	if err := c.call("claim"); err != nil {
		return store.Claims{}, err
	}
	return c.Store.Claim(ctx, claim)
}

func (c *connection) Settle(ctx context.Context, s []store.Settlement) ([]store.Settled, error) {
	if err := c.call("settle"); err != nil {
		return nil, err
	}
	return c.Store.Settle(ctx, s)
}

func (c *connection) Release(ctx context.Context, leases []store.Lease) error {
	if err := c.call("release"); err != nil {
		return err
	}
	<-time.After(c.slow)
	return c.Store.Release(ctx, leases)
}

func (c *connection) Due(ctx context.Context, d store.Due) ([]store.DueLane, error) {
	if err := c.call("due"); err != nil {
		return nil, err
	}
	return c.Store.Due(ctx, d)
}

func (c *connection) PutCircuit(ctx context.Context, p store.PutCircuit) (postrider.Circuit, error) {
	if err := c.call("put circuit"); err != nil {
		return postrider.Circuit{}, err
	}
	return c.Store.PutCircuit(ctx, p)
}

func (c *connection) Circuits(ctx context.Context, q store.CircuitQuery) ([]postrider.Circuit, error) {
	if err := c.call("circuits"); err != nil {
		return nil, err
	}
	c.mu.Lock()
	loads := c.loads
	c.mu.Unlock()
	<-time.After(loads)
	return c.Store.Circuits(ctx, q)
}

func (c *connection) Heartbeat(ctx context.Context, b store.Heartbeat) (store.Membership, error) {
	if err := c.call("beat"); err != nil {
		return store.Membership{}, err
	}
	return c.Store.Heartbeat(ctx, b)
}

func (c *connection) Reclaim(ctx context.Context, incarnation uint32, limit int) (int, error) {
	if err := c.call("reclaim"); err != nil {
		return 0, err
	}
	<-time.After(c.takes)
	return c.Store.Reclaim(ctx, incarnation, limit)
}

func (c *connection) Forget(ctx context.Context, incarnation uint32) error {
	if err := c.call("forget"); err != nil {
		return err
	}
	return c.Store.Forget(ctx, incarnation)
}

func (c *connection) Wake(ctx context.Context, message string) error {
	if err := c.call("wake"); err != nil {
		return err
	}
	c.mu.Lock()
	deaf := c.deaf
	c.mu.Unlock()
	if deaf {
		return nil
	}
	return c.Store.Wake(ctx, message)
}

func (c *connection) Hold(ctx context.Context, incarnation uint32, heard func(string)) error {
	if err := c.call("hold"); err != nil {
		return err
	}
	ctx, cut := context.WithCancel(ctx)
	defer cut()
	c.set(func(c *connection) { c.cut = cut })
	return c.Store.Hold(ctx, incarnation, heard)
}

// node is one of several dispatchers that share a store.
type node struct {
	*connection
	d    *dispatch.Dispatcher
	stop func() error
}

// node starts a further dispatcher.
func (r *harness) node(incarnation uint32, opts dispatch.Options) *node {
	n := &node{connection: &connection{Store: r.store, calls: map[string]int{}, fails: map[string]bool{}}}
	r.queue = n.connection
	opts.Cluster.Nodes, opts.Cluster.Incarnation = n.connection, incarnation
	n.stop = r.run(opts)
	n.d = r.d
	return n
}

// nodes starts n nodes and gives them time to divide the shards.
func (r *harness) nodes(n int, opts dispatch.Options) []*node {
	var all []*node
	for i := range n {
		all = append(all, r.node(uint32(1+i), opts))
	}
	time.Sleep(5 * time.Second)
	return all
}

func (r *harness) endpoints(n int, change func(*postrider.Policy)) (ids []postrider.EndpointID) {
	for range n {
		ids = append(ids, r.endpoint(change))
	}
	return ids
}

// publishVia publishes to each endpoint, through one node.
func (r *harness) publishVia(n *node, ids []postrider.EndpointID, each int) {
	r.d = n.d
	for _, id := range ids {
		r.publish(id, each, true)
	}
}

// by counts the requests since a time, by node, and returns when the last one left.
func (r *harness) by(since time.Time) (by map[uint32]int, last time.Duration) {
	by = map[uint32]int{}
	for _, s := range r.requests() {
		if !s.at.Before(since) {
			by[uint32(s.Token>>32)]++
			last = max(last, s.at.Sub(since))
		}
	}
	return by, last
}

// twice returns the number of deliveries for which more than one request left.
func (r *harness) twice() (n int) {
	seen := map[postrider.DeliveryID]int{}
	for _, s := range r.requests() {
		if seen[s.ID]++; seen[s.ID] == 2 {
			n++
		}
	}
	return n
}

func end(t *testing.T, nodes ...*node) {
	t.Helper()
	for _, n := range nodes {
		if err := n.stop(); err != nil {
			t.Error(err)
		}
	}
}

func TestPromise7WhatAnotherNodePublishedIsFound(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		endpoints int
		deaf      bool
		pollOnly  bool
		within    time.Duration
	}{
		{"by wake-ups, at once", 40, false, false, 100 * time.Millisecond},
		{"by wake-ups that cannot name all of it, at once", 1100, false, false, 150 * time.Millisecond},
		{"where they are lost, within a second", 40, true, false, time.Second},
		{"by polling alone, within a second", 40, false, true, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newHarness(t)
			ids := r.endpoints(tt.endpoints, nil)
			nodes := r.nodes(2, dispatch.Options{Cluster: dispatch.Cluster{PollOnly: tt.pollOnly}})
			for _, n := range nodes {
				n.set(func(c *connection) { c.deaf = tt.deaf })
			}
			time.Sleep(time.Second + 500*time.Millisecond)
			start := time.Now()
			r.publishVia(nodes[0], ids, 3)
			time.Sleep(3 * time.Second)
			by, last := r.by(start)
			if by[1]+by[2] != 3*tt.endpoints || by[1] == 0 || by[2] == 0 || last > tt.within || r.twice() > 0 {
				t.Errorf("%s: requests by node %v, the last after %v; want %d by both, within %v", tt.name, by, last, 3*tt.endpoints, tt.within)
			}
			if tt.pollOnly && nodes[0].count("wake") > 0 {
				t.Errorf("%s: wake-ups are used", tt.name)
			}
			end(t, nodes...)
		})
	}
}

func TestALoneNodeDoesNotPoll(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		n := r.node(1, dispatch.Options{})
		time.Sleep(time.Second)
		before := n.count("due")
		time.Sleep(time.Minute)
		if looks := n.count("due") - before; looks > 4 {
			t.Errorf("%d looks at the queue in a minute, want the scan every 30 s", looks)
		}
		if n.count("wake") > 0 {
			t.Errorf("%d wake-ups to nobody", n.count("wake"))
		}
		end(t, n)
	})
}

func TestAChangeMadeOnAnotherNodeReachesTheOwner(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ids := r.endpoints(20, nil)
		r.respond = func(c postrider.Claimed) postrider.Attempt {
			if c.Attempt == 1 {
				return rejected()
			}
			return accepted(0)
		}
		nodes := r.nodes(2, dispatch.Options{})
		for _, id := range ids { // an old delivery is due now, and a poll for new deliveries does not find it
			r.publish(id, 1, false)
		}
		start := time.Now()
		for _, id := range ids {
			r.notify(nodes[0].d, id)
		}
		time.Sleep(200 * time.Millisecond)
		if by, last := r.by(start); len(by) != 2 || last > 150*time.Millisecond {
			t.Errorf("requests by node %v, the last after %v; want by both, at once", by, last)
		}
		time.Sleep(10 * time.Second)
		end(t, nodes...)
	})
}

func TestPromise3ANodeThatLeavesHandsOverAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ids := r.endpoints(40, func(p *postrider.Policy) { p.Concurrency = 2 })
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(2 * time.Second) }
		nodes := r.nodes(2, dispatch.Options{})
		nodes[0].slow = 300 * time.Millisecond
		r.publishVia(nodes[1], ids, 4) // two in flight and two leased
		time.Sleep(time.Second)
		start := time.Now()
		end(t, nodes[0])
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("left after %v, want with its last answer", took)
		}
		time.Sleep(3 * time.Second)
		by, last := r.by(start)
		if got := len(r.requests()); got != 160 || by[1] > 0 || last > 2*time.Second {
			t.Errorf("%d of 160 requests, by node since it left %v, the last after %v; want 2 s at most", got, by, last)
		}
		if r.twice() > 0 {
			t.Errorf("%d deliveries were sent twice", r.twice())
		}
		end(t, nodes[1])
	})
}

func TestALeavingNodeGivesBackWhatItHoldsBeforeItsShardsGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ids := r.endpoints(20, func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 1, Per: time.Second} })
		first := r.node(1, dispatch.Options{})
		time.Sleep(2 * time.Second)
		r.publishVia(first, ids, 6)
		time.Sleep(1500 * time.Millisecond) // time until all are leased and none is in flight
		second := r.node(2, dispatch.Options{})
		first.slow = 3 * time.Second
		end(t, first)
		time.Sleep(10 * time.Second)
		if got := len(r.requests()); got != 120 {
			t.Errorf("%d of 120 requests left, want what was held to be given back first", got)
		}
		end(t, second)
	})
}

func TestPromise8ADeadNodeIsReplacedWithinTenSeconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ids := r.endpoints(40, func(p *postrider.Policy) { p.Concurrency = 2 })
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(3 * time.Second) }
		nodes := r.nodes(2, dispatch.Options{})
		r.publishVia(nodes[1], ids, 4)
		time.Sleep(time.Second)
		died := time.Now()
		nodes[0].set(func(c *connection) { c.away = true })
		before := r.requests()
		time.Sleep(10 * time.Second)
		again := map[postrider.DeliveryID]bool{}
		for _, s := range r.requests()[len(before):] {
			if uint32(s.Token>>32) == 1 && s.at.Sub(died) > 5*time.Second {
				t.Errorf("a node that has not beaten for %v sends", s.at.Sub(died))
			}
			again[s.ID] = true
		}
		lost := 0
		for _, s := range before {
			if uint32(s.Token>>32) != 1 {
				continue
			}
			lost++
			page, err := r.store.Attempts(t.Context(), store.AttemptQuery{Delivery: s.ID, Paging: store.Paging{Limit: 10}})
			if err != nil {
				t.Fatal(err)
			}
			if !again[s.ID] || len(page.Items) == 0 || page.Items[len(page.Items)-1].Outcome != postrider.OutcomeLost &&
				page.Items[0].Outcome != postrider.OutcomeLost {
				t.Errorf("delivery %s: attempted again %t, recorded %v; want a lost attempt and another", s.ID, again[s.ID], page.Items)
			}
		}
		if lost == 0 {
			t.Error("the node that died had nothing in flight")
		}
		time.Sleep(5 * time.Second)
		end(t, nodes[1])
		_ = nodes[0].stop() // the node believes that it is alive, and gives up its leases
	})
}

func TestReclaimingADeadNodeDoesNotStopTheHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ids := r.endpoints(40, nil)
		nodes := r.nodes(3, dispatch.Options{})
		for _, n := range nodes[1:] {
			n.takes = 20 * time.Second
		}
		nodes[0].set(func(c *connection) { c.away = true })
		time.Sleep(7 * time.Second)
		beats := nodes[1].count("beat")
		time.Sleep(10 * time.Second)
		if got := nodes[1].count("beat") - beats; nodes[1].count("reclaim") != 1 || got < 9 {
			t.Errorf("%d beats in 10 s of %d reclaims, want one a second", got, nodes[1].count("reclaim"))
		}
		start := time.Now()
		r.publishVia(nodes[2], ids, 1)
		time.Sleep(100 * time.Millisecond)
		if by, _ := r.by(start); by[2] < 8 || by[3] < 8 {
			t.Errorf("requests by node %v, want both to have their shards", by)
		}
		time.Sleep(30 * time.Second)
		if got := len(r.requests()); got != 40 || r.twice() > 0 {
			t.Errorf("%d of 40 requests left, %d deliveries twice", got, r.twice())
		}
		end(t, nodes[1:]...)
		_ = nodes[0].stop() // its error does not matter: its calls no longer reach the store
	})
}

func TestLimitsHoldOverAllNodes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		few := r.endpoints(20, func(p *postrider.Policy) { p.Concurrency = 3 })
		rated := r.endpoints(20, func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 4, Per: time.Second} })
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(800 * time.Millisecond) }
		nodes, start := r.nodes(2, dispatch.Options{}), time.Now()
		for i := range 8 {
			r.publishVia(nodes[i%len(nodes)], few, 12)
			r.publishVia(nodes[i%len(nodes)], rated, 10)
			time.Sleep(3 * time.Second)
			switch i {
			case 1, 3:
				nodes = append(nodes, r.node(uint32(10+i), dispatch.Options{}))
			case 5:
				end(t, nodes[0])
				nodes = nodes[1:]
			}
		}
		time.Sleep(30 * time.Second)
		end(t, nodes...)
		for id, most := range r.peak() {
			if to := r.routed[id].Endpoint.Policy; most > to.Concurrency {
				t.Errorf("%d attempts in flight at once, want %d", most, to.Concurrency)
			}
		}
		for _, id := range rated {
			at := r.instants(id, start)
			for i := 4; i < len(at); i++ {
				if at[i]-at[i-4] < 990*time.Millisecond {
					t.Errorf("five attempts in %v at four a second", at[i]-at[i-4])
				}
			}
		}
		if got := len(r.requests()); got != 8*20*22 || r.twice() > 0 {
			t.Errorf("%d requests left, %d deliveries twice, want %d and none", got, r.twice(), 8*20*22)
		}
	})
}

func TestACircuitHoldsAfterAHandOverAndOneNodeProbes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		id := r.endpoint(nil)
		r.respond = func(postrider.Claimed) postrider.Attempt { return rejected() }
		first := r.node(1, dispatch.Options{})
		time.Sleep(2 * time.Second)
		r.publishVia(first, []postrider.EndpointID{id}, 20)
		time.Sleep(time.Second)
		opened := time.Now()
		sent := len(r.requests())
		others := []*node{r.node(2, dispatch.Options{}), r.node(3, dispatch.Options{})}
		time.Sleep(time.Second)
		end(t, first)
		for range 5 {
			r.publishVia(others[0], []postrider.EndpointID{id}, 1)
			r.publishVia(others[1], []postrider.EndpointID{id}, 1)
			time.Sleep(10 * time.Second)
		}
		if got := len(r.requests()); got != sent {
			t.Errorf("%d attempts while the circuit is open", got-sent)
		}
		time.Sleep(9 * time.Second)
		if got := len(r.requests()); got != sent+1 {
			t.Errorf("%d attempts %v after it opened, want one probe", got-sent, time.Since(opened))
		}
		time.Sleep(time.Minute + 5*time.Second)
		if got := len(r.requests()); got != sent+2 {
			t.Errorf("%d attempts %v after it opened, want two probes", got-sent, time.Since(opened))
		}
		end(t, others...)
	})
}

func TestAStoreThatWasAwayForAllCostsNoDuplicate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		ids := r.endpoints(40, nil)
		r.respond = func(postrider.Claimed) postrider.Attempt { return accepted(5 * time.Second) }
		nodes := r.nodes(3, dispatch.Options{})
		r.publishVia(nodes[0], ids, 30)
		time.Sleep(time.Second)
		for _, n := range nodes {
			n.set(func(c *connection) { c.away = true })
		}
		time.Sleep(time.Minute)
		for _, n := range nodes { // the nodes reach the store again one after the other
			n.set(func(c *connection) { c.away = false })
			time.Sleep(2 * time.Second)
		}
		time.Sleep(2 * time.Minute)
		if got := len(r.requests()); got != 1200 || r.twice() > 0 {
			t.Errorf("%d requests left, %d deliveries twice, want 1,200 and none", got, r.twice())
		}
		for _, n := range nodes {
			if n.count("reclaim") > 0 {
				t.Error("a node took another for dead")
			}
		}
		end(t, nodes...)
	})
}

func TestCallsThatFailAreNotRepeatedInATightLoop(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*connection)
		most   map[string]int // greatest number of calls in a minute
	}{
		"the store is away": {
			func(c *connection) { c.away = true; c.cut() },
			map[string]int{"beat": 70, "due": 80, "claim": 20, "hold": 70, "settle": 20, "wake": 70},
		},
		"wake-ups break":       {func(c *connection) { c.fails["hold"] = true; c.cut() }, map[string]int{"beat": 70, "hold": 70, "due": 70}},
		"a node stays dead":    {func(c *connection) { c.fails["reclaim"] = true }, map[string]int{"beat": 70, "reclaim": 70, "wake": 140}},
		"circuits do not load": {func(c *connection) { c.fails["circuits"] = true }, map[string]int{"beat": 70, "circuits": 70}},
	}
	for name, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			r := newHarness(t)
			ids := r.endpoints(20, nil)
			nodes := r.nodes(3, dispatch.Options{})
			n := nodes[0]
			r.publishVia(n, ids, 1)
			n.set(tt.change)
			for _, other := range nodes[1:] {
				other.set(func(c *connection) { c.fails["reclaim"] = true })
			}
			nodes[2].set(func(c *connection) { c.away = true }) // the node dies
			time.Sleep(20 * time.Second)
			before := map[string]int{}
			for call := range tt.most {
				before[call] = n.count(call)
			}
			time.Sleep(time.Minute)
			for call, most := range tt.most {
				if got := n.count(call) - before[call]; got > most {
					t.Errorf("%s: %d calls of %s in a minute, want %d at most", name, got, call, most)
				}
			}
			for _, n := range nodes {
				n.set(func(c *connection) { c.away, c.fails = false, map[string]bool{} })
			}
			time.Sleep(30 * time.Second)
			end(t, nodes...)
		})
	}
}

func TestTwoNodesOfOneIncarnationDoNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t)
		one := r.node(7, dispatch.Options{})
		time.Sleep(time.Second)
		two := r.node(7, dispatch.Options{})
		err := two.stop()
		if !errors.Is(err, postrider.ErrConflict) || !strings.Contains(err.Error(), "incarnation 7 is another node's") {
			t.Errorf("Run = %v, want that the incarnation is another node's", err)
		}
		end(t, one)
	})
}
