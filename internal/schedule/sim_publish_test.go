package schedule

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// links are the connections between simulated nodes, which hand deliveries to each other as package
// peers does.
type links struct {
	off   bool                      // nothing is handed
	to    map[[2]*simNode]*session  // the session in which the first node hands to the second
	until map[store.Lease]time.Time // end of each lease that one node made for another
	tally tally
}

func newLinks() links {
	return links{to: map[[2]*simNode]*session{}, until: map[store.Lease]time.Time{}}
}

// tally counts what nodes do for each other.
type tally struct {
	claimed  int // deliveries that claims returned
	messages int // messages that name deliveries
	taken    int // deliveries that their nodes took
	refused  int // deliveries that their nodes gave back
	cut      int // lost messages
	unnamed  int // deliveries whose session ended before they were named
	late     int // unnamed deliveries that the first look at an ended session missed
}

func (y *tally) add(other tally) {
	y.taken += other.taken
	y.refused += other.refused
	y.cut += other.cut
	y.unnamed += other.unnamed
	y.late += other.late
}

// session is what one node may lease of another, and what it has named.
type session struct {
	Session

	owner  *simNode
	ended  bool
	spared map[postrider.EndpointID]time.Time // to these nothing is handed until the time
}

// publish does the work of ingest, on a living node.
func (w *simulation) publish() {
	var n *simNode
	for _, other := range w.nodes {
		if other.serves(w.now) {
			n = other
		}
	}
	if n == nil || w.now.Before(w.away) {
		w.at(time.Second, w.publish)
		return
	}
	w.publishAt(n)
}

func (w *simulation) publishAt(n *simNode) {
	to := w.routed[w.order[w.rng.IntN(len(w.order))]]
	key := ""
	if w.rng.IntN(2) == 0 || w.keyed {
		key = string(rune('a' + w.rng.IntN(3)))
	}
	e := &store.NewEvent{
		Event: postrider.Event{
			ID: store.NewID[postrider.EventID](w.ids), Account: to.Endpoint.Account, Type: "a.b", Data: []byte(`1`), OrderingKey: key,
		},
		Deliveries: []store.NewDelivery{{
			ID: store.NewID[postrider.DeliveryID](w.ids), Endpoint: to.Endpoint.ID, Lane: postrider.LaneFirst, Expiry: 24 * time.Hour,
		}},
	}
	d := &e.Deliveries[0]
	if key != "" && to.Endpoint.Policy.Order == postrider.OrderByKey {
		d.Ordered = to.Endpoint.Policy.OnDead
		w.book.ordered(d)
	} else {
		w.step(n, admit{[]*store.NewDelivery{d}})
		if s := w.reserve(n, d); s != nil {
			from, takes := w.now, w.commitTime()
			w.later(n, takes, func() { w.commitHanded(n, s, e, from) })
			if takes > time.Second && w.rng.IntN(2) == 0 {
				w.later(n, takes/2, func() { w.endSession(s) })
			}
			return
		}
	}
	w.commit(e)
	w.later(n, w.randomDelay(), func() {
		if d.Token == 0 {
			w.step(n, stored{waiting: []store.DueLane{{Endpoint: d.Endpoint, Lane: d.Lane}}})
			return
		}
		w.step(n, stored{started: []postrider.Claimed{w.claimed(e)}})
	})
}

func (w *simulation) commit(e *store.NewEvent) {
	changes, err := w.store.Changes(w.t.Context(), 0, 10_000)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := w.store.Publish(w.t.Context(), store.Publish{Version: changes.Version, Batches: []store.Batch{{*e}}}); err != nil {
		w.t.Fatal(err)
	}
	w.published++
}

func (w *simulation) claimed(e *store.NewEvent) postrider.Claimed {
	d := &e.Deliveries[0]
	return postrider.Claimed{
		ID: d.ID, Endpoint: d.Endpoint, Event: &e.Event, Lane: d.Lane, Attempt: 1, Token: d.Token, ExpiresAt: w.now.Add(time.Hour),
	}
}

// commitTime returns how long a commit takes: now and then almost as long as ingest waits for it.
func (w *simulation) commitTime() time.Duration {
	if !w.healed && w.rng.IntN(16) == 0 {
		return time.Duration(w.rng.Int64N(int64(10 * time.Second)))
	}
	return w.randomDelay()
}

// reserve mostly leases a delivery for the node of its endpoint, if that is another one; nil: the
// delivery is this node's, or waits in the queue.
func (w *simulation) reserve(n *simNode, d *store.NewDelivery) *session {
	if d.Token != 0 || w.links.off || !w.healed && w.rng.IntN(8) == 0 {
		return nil
	}
	s := w.session(n, store.Shard(d.Endpoint))
	if s == nil || s.Budget <= 0 || w.now.Before(s.spared[d.Endpoint]) {
		return nil
	}
	s.Budget--
	d.Token, d.Lease = s.Token, w.routed[d.Endpoint].Endpoint.Policy.Timeout+LeaseMargin
	return s
}

// session returns the session of a node with the owner of a shard. A node that stands still keeps its
// sessions and opens none. nil: there is none.
func (w *simulation) session(n *simNode, shard uint8) *session {
	var owner *simNode
	for _, other := range w.nodes {
		if other != n && other.alive && other.member.had[shard] && (owner == nil || w.now.Before(owner.frozen)) {
			owner = other
		}
	}
	if owner == nil {
		return nil
	}
	pair := [2]*simNode{n, owner}
	if w.links.to[pair] == nil && !w.now.Before(owner.frozen) {
		w.links.to[pair] = &session{
			Session: owner.core.NextSession(len(w.nodes) - 1), owner: owner, spared: map[postrider.EndpointID]time.Time{},
		}
	}
	return w.links.to[pair]
}

// commitHanded commits a delivery under the lease of another node, and names it to that node.
func (w *simulation) commitHanded(n *simNode, s *session, e *store.NewEvent, from time.Time) {
	if w.now.Before(w.away) || w.now.Sub(from) > 10*time.Second { // the commit fails
		s.Budget++
		w.at(time.Second, w.publish)
		return
	}
	w.commit(e)
	if w.deadly && !w.healed && w.rng.IntN(32) == 0 {
		w.crashNode(n)
		return
	}
	d, until := e.Deliveries[0], from.Add(e.Deliveries[0].Lease)
	w.links.until[store.Lease{Delivery: d.ID, Token: d.Token}] = until
	w.later(n, w.randomDelay(), func() { w.name(s, Handed{w.claimed(e), until}) })
}

// name sends a message that names a delivery. The connection may be lost with the message.
func (w *simulation) name(s *session, d Handed) {
	if w.unlucky() {
		w.links.tally.cut++
		w.endSession(s)
	}
	if s.ended {
		return
	}
	w.links.tally.messages++
	takes := w.randomDelay()
	if !w.healed && w.rng.IntN(16) == 0 { // the lease may end before
		takes = time.Duration(w.rng.Int64N(int64(time.Minute)))
	}
	w.later(s.owner, takes, func() {
		if s.ended {
			return
		}
		in := &given{deliveries: []Handed{d}}
		w.step(s.owner, in)
		s.Budget++
		w.links.tally.taken += 1 - len(in.refused)
		w.links.tally.refused += len(in.refused)
		for _, id := range in.refused {
			s.spared[id] = w.now.Add(100 * time.Millisecond)
			w.expectGivenBack(s.owner, store.Lease{Delivery: d.ID, Token: d.Token})
		}
	})
}

// endSessions ends the sessions of a node that has ended.
func (w *simulation) endSessions(n *simNode) {
	for _, other := range w.nodes {
		for _, pair := range [][2]*simNode{{n, other}, {other, n}} {
			if s := w.links.to[pair]; s != nil {
				w.endSession(s)
			}
		}
	}
}

// endSession ends a session. The owner looks three times for what was not named, because the other
// node may still be committing.
func (w *simulation) endSession(s *session) {
	if s.ended {
		return
	}
	s.ended = true
	for pair, of := range w.links.to {
		if of == s {
			delete(w.links.to, pair)
		}
	}
	for _, after := range []time.Duration{0, time.Second, 12 * time.Second} {
		w.later(s.owner, after, func() { w.look(s, after > 0) })
	}
}

// look gives back what an ended session has left.
func (w *simulation) look(s *session, again bool) {
	if w.now.Before(w.away) {
		return
	}
	leases := w.leased(s.Token)
	if len(leases) == 0 {
		return
	}
	w.later(s.owner, w.randomDelay(), func() {
		for _, l := range leases {
			if _, named := s.owner.core.handed[l.Delivery]; named {
				continue
			}
			if w.links.tally.unnamed++; again {
				w.links.tally.late++
			}
			w.expectGivenBack(s.owner, l.Lease)
		}
		w.step(s.owner, SessionEnded{leases})
	})
}

func (w *simulation) leased(token postrider.Token) []store.SessionLease {
	leases, err := w.store.Leased(w.t.Context(), token, postrider.DeliveryID{})
	if err != nil {
		w.t.Fatal(err)
	}
	return leases
}

// expectGivenBack requires that the node gives a lease back within 0.1 s. The two halves of that time
// make sure that a node that stands still has continued for a while.
func (w *simulation) expectGivenBack(n *simNode, lease store.Lease) {
	const half = 50 * time.Millisecond
	w.later(n, half, func() {
		w.later(n, half, func() {
			for _, l := range w.leased(lease.Token) {
				if l.Lease == lease {
					w.t.Errorf("delivery %s was handed to a node that does not have it, and is not given back", l.Delivery)
				}
			}
		})
	})
}

// checkLease requires that a handed delivery starts only while its lease covers its attempt.
func (w *simulation) checkLease(it *Delivery) {
	until, ok := w.links.until[store.Lease{Delivery: it.ID, Token: it.Token}]
	if ok && w.now.Add(it.Timeout).After(until) {
		w.t.Errorf("delivery %s starts %v before its lease ends, with a timeout of %v", it.ID, until.Sub(w.now), it.Timeout)
	}
}

// checkHanded requires that each handed delivery that is remembered is leased, unsettled or being
// released: together these make the shards busy.
func (w *simulation) checkHanded(c *core) {
	busy := 0
	for shard, n := range c.shards.busy {
		if busy += n; n < 0 {
			w.t.Errorf("shard %d has %d deliveries in hand", shard, n)
		}
	}
	if len(c.handed) > busy {
		w.t.Errorf("%d handed deliveries are remembered, and %d of all deliveries are in hand", len(c.handed), busy)
	}
}
