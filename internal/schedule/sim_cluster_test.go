package schedule

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// member is the membership of a simulated node, as membership.go of package dispatch keeps it.
type member struct {
	leaving bool
	gone    bool
	had     ShardSet
	last    time.Time // time of the last heartbeat
	steady  time.Time // since when heartbeats are in time
	locked  bool      // the node holds its lock
	losses  int       // how often the node lost its lock
	dead    []uint32  // dead nodes of the last heartbeat
}

// lock lets the node take its lock, in simulations that have locks.
func (w *simulation) lock(n *simNode) {
	if w.locks && n.alive && !n.member.locked {
		n.member.locked = true
		w.store.Lock(n.core.opts.Incarnation)
	}
}

// unlock frees the node's lock, as happens when its process or its connection ends.
func (w *simulation) unlock(n *simNode) {
	if n.member.locked {
		n.member.locked = false
		n.member.losses++
		w.store.Unlock(n.core.opts.Incarnation)
	}
}

// cut ends the connection on which a node holds its lock. The node notices, and has its lock again
// before other nodes may take it for dead.
func (w *simulation) cut() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if !w.shared || !n.serves(w.now) || !n.member.locked || w.healed {
		return
	}
	w.unlock(n)
	w.step(n, LockLost{Losses: n.member.losses})
	w.later(n, time.Duration(w.rng.Int64N(int64(3*time.Second))), func() { w.lock(n) })
}

// serves reports whether the node accepts publishes.
func (n *simNode) serves(now time.Time) bool {
	return n.alive && !now.Before(n.frozen) && !n.member.leaving
}

// beat sends a heartbeat once a second, as runMembership does.
func (w *simulation) beat(n *simNode) {
	wait := time.Second
	if w.healed {
		wait *= 2
	}
	again := func() { w.later(n, wait, func() { w.beat(n) }) }
	if w.now.Before(w.away) {
		again()
		return
	}
	surplus := n.core.SurplusShards()
	losses := n.member.losses
	opts, asked := n.core.opts, w.now
	r, err := w.store.Heartbeat(w.t.Context(), store.Heartbeat{
		Incarnation: opts.Incarnation, TTL: ttl, Release: surplus, Leaving: n.member.leaving,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	if w.unlucky() { // the reply is lost
		again()
		return
	}
	if n.member.steady.IsZero() || asked.Sub(n.member.last) > ttl {
		n.member.steady = asked
	}
	n.member.last = asked
	w.later(n, w.randomDelay(), func() {
		until := asked.Add(ttl)
		if r.Unlocked {
			until = time.Time{}
		}
		w.enrolled(n, heartbeatReply{r, until, nil, losses})
	})
	if n.member.leaving && n.core.Drained() {
		n.member.gone, n.alive = true, false
		if err := w.store.Forget(w.t.Context(), opts.Incarnation); err != nil {
			w.t.Fatal(err)
		}
		w.unlock(n)
		w.endSessions(n)
		return
	}
	again()
}

// enrolled applies the reply to a heartbeat.
func (w *simulation) enrolled(n *simNode, r heartbeatReply) {
	var has ShardSet
	gained := false
	for _, shard := range r.Shards {
		has[shard] = true
		gained = gained || !n.member.had[shard]
	}
	n.member.had = has
	if gained {
		open, err := w.store.Circuits(w.t.Context(), store.CircuitQuery{Limit: 1000})
		if err != nil {
			w.t.Fatal(err)
		}
		for _, c := range open {
			if has[store.Shard(c.Endpoint)] {
				r.circuits = append(r.circuits, c)
			}
		}
	}
	w.step(n, r)
	dead := slices.Concat(r.Gone, r.Silent)
	if gained || slices.ContainsFunc(n.member.dead, func(i uint32) bool { return !slices.Contains(dead, i) }) {
		w.poll(n)
	}
	n.member.dead = dead
	w.reclaim(r.Gone)
	if n.member.last.Sub(n.member.steady) > ttl {
		w.reclaim(r.Silent)
	}
}

func (w *simulation) reclaim(dead []uint32) {
	for _, incarnation := range dead {
		if _, err := w.store.Reclaim(w.t.Context(), incarnation, 1000); err != nil {
			w.t.Fatal(err)
		}
		// Its requests may be made again.
		maps.DeleteFunc(w.sending, func(_ postrider.DeliveryID, by uint32) bool { return by == incarnation })
	}
}

// poll scans the whole queue, which is small in a simulation.
func (w *simulation) poll(n *simNode) {
	if w.now.Before(w.away) {
		return
	}
	lanes, err := w.store.Due(w.t.Context(), store.Due{Max: 1000})
	if err != nil {
		w.t.Fatal(err)
	}
	w.step(n, LanesDue{Lanes: lanes})
}

// freeze stops a node for longer than other nodes wait for it.
func (w *simulation) freeze() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if !n.alive || w.healed {
		return
	}
	n.frozen = w.now.Add(time.Duration(1+w.rng.IntN(40)) * time.Second)
	clear(w.sending) // its requests may be made again in the meantime
	w.crashes++
}

// leave ends a node in good order, and starts another one.
func (w *simulation) leave() {
	n := w.nodes[w.rng.IntN(len(w.nodes))]
	if !w.shared || !n.serves(w.now) || w.healed {
		return
	}
	n.member.leaving = true
	w.step(n, Drain{})
	w.at(time.Duration(w.rng.Int64N(int64(5*time.Second))), w.boot)
}

// checkOwner requires that only one node sends to an endpoint, of all living nodes that got a reply
// from the store recently.
func (w *simulation) checkOwner(n *simNode, it *Delivery) {
	if !w.shared {
		return
	}
	total := 0
	for _, other := range w.nodes {
		if other.alive && !w.now.Before(other.frozen) && (other == n || other.core.shards.owns(store.Shard(it.Endpoint)) &&
			!other.core.shards.lapsed(w.now)) {
			total += other.inFlight[it.Endpoint]
		}
	}
	if limit := it.To.Endpoint.Policy.Concurrency; w.crashes == 0 && total > limit {
		w.t.Errorf("%d attempts in flight to an endpoint with a limit of %d, over all nodes", total, limit)
	}
}

// orderChecker has the ordered deliveries that receivers got.
type orderChecker struct {
	isOrdered map[postrider.DeliveryID]bool
	seen      map[postrider.DeliveryID]bool
	last      map[orderedKey]int64
}

type orderedKey struct {
	endpoint postrider.EndpointID
	key      string
}

func (b *orderChecker) ordered(d *store.NewDelivery) {
	if b.isOrdered == nil {
		b.isOrdered, b.seen, b.last = map[postrider.DeliveryID]bool{}, map[postrider.DeliveryID]bool{}, map[orderedKey]int64{}
	}
	b.isOrdered[d.ID] = true
}

// accepted requires that receivers accept the events of a key in the order of their sequence, when
// each is accepted for the first time.
func (b *orderChecker) accepted(t *testing.T, it *Delivery) {
	if !b.isOrdered[it.ID] || b.seen[it.ID] {
		return
	}
	b.seen[it.ID] = true
	key := orderedKey{it.Endpoint, it.Event.OrderingKey}
	if it.Event.Sequence < b.last[key] {
		t.Errorf("key %s: %d was accepted after %d", key.key, it.Event.Sequence, b.last[key])
	}
	b.last[key] = it.Event.Sequence
}
