package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

var nodes = []verb{
	{"Heartbeat", []sentence{
		{"the first heartbeat of a node makes it known and a lone node owns all", heartbeatJoins},
		{"an incarnation that another instance has is ErrConflict", heartbeatClash},
		{"an incarnation whose instance died is free when it is reclaimed", heartbeatClashOfDead},
		{"two and three nodes own their shares", heartbeatShares},
		{"a node that joins is given what is released, and never more than its share", heartbeatHandsOver},
		{"a node learns of the others that live and have an address", heartbeatPeers},
		{"a shard that another owns is not released", heartbeatReleasesOwn},
		{"a node that leaves takes none and counts no more", heartbeatLeaves},
		{"a node that has not sent a heartbeat for its TTL is silent and owns its shards until it is reclaimed", heartbeatDead},
		{"a node whose lock is free is dead, and its shards are nobody's at once", lockFreed},
		{"a node whose lock has been free for LockGrace is gone", lockGone},
		{"a node that heartbeats without its lock is unlocked, gets no shards, and is not gone", lockLost},
		{"a node that has its lock again gets shards", lockBack},
		{"a node that says that it is unlocked goes on by its heartbeat", lockGivenUp},
		{"a node that heartbeats again keeps what nobody took", heartbeatBack},
		{"a node that heartbeats again owns nothing of what others took", heartbeatBackTooLate},
		{"no shard ever has two owners while nodes come, hand over and go", heartbeatInParallel},
	}},
	{"Members", []sentence{
		{"the nodes that live are listed with their shards, by incarnation", membersListed},
		{"one that leaves and one that is dead are marked, until the dead one is reclaimed", membersMarked},
		{"with an endpoint only the node that owns its shard is listed", membersOwning},
	}},
	{"Reclaim", slices.Concat([]sentence{
		{"what a dead node had leased is due at once, its attempts recorded as lost", reclaimFrees},
		{"at most limit deliveries, and the node is forgotten when nothing is left", reclaimLimit},
		{"what others have leased is left alone", reclaimOthers},
		{"a node that is alive or not known is left alone", reclaimAlive},
		{"a node whose lock was free for a moment is left alone", reclaimLocked},
		{"what a node that is gone had leased is due at once", reclaimGone},
		{"of parallel reclaims each lost attempt is recorded once, and one that finds another at it does nothing", reclaimInParallel},
		{"the settlement of what was reclaimed is stale", reclaimStale},
		{"the head of an ordering key stays the head", reclaimOrdered},
		{"what it had leased in the suspect lane is taken in one call, whatever the limit", reclaimSuspectsWhole},
		{"a node whose suspects and others are more than limit is not forgotten before the rest is reclaimed", reclaimSuspectsBesideLimit},
	}, deaths)},
	{"Leased", []sentence{
		{"what is leased under a token and newer than an id is listed, with its endpoint and lane", leasedListed},
	}},
	{"Forget", []sentence{
		{"the node is not known any more and its shards are nobody's", forgetFrees},
		{"its incarnation is free", forgetIncarnation},
	}},
	{"Wake", []sentence{
		{"every node that listens hears the message", wakeReaches},
	}},
	{"Hold", []sentence{
		{"it is heard with an empty message once it holds, and returns when ctx ends", holdEnds},
	}},
	{"SpendQuotas", []sentence{{"the day of an account never goes back", spendDayStays}}},
}

// member is a node that sends heartbeats to the store.
type member struct {
	*world
	store.Heartbeat
}

func (w *world) member(incarnation uint32) *member {
	m := &member{world: w, Heartbeat: store.Heartbeat{Incarnation: incarnation, TTL: long}}
	m.Host = fmt.Sprintf("host-%d", incarnation)
	m.Instance = newID[[16]byte](w)
	return m
}

// heartbeats sends a heartbeat that gives up the shards, and returns the membership afterwards.
func (m *member) heartbeats(release ...uint8) store.Membership {
	m.Helper()
	b := m.Heartbeat
	b.Release = release
	membership, err := m.Nodes.Heartbeat(m.Context(), b)
	m.ok(err)
	return membership
}

// dies sends a last heartbeat, and lets its TTL pass.
func (m *member) dies() {
	m.Helper()
	m.TTL = brief
	m.heartbeats()
	m.passed(brief)
}

func everyShard() (all []uint8) {
	for shard := range store.Shards {
		all = append(all, uint8(shard))
	}
	return all
}

// shares lets the nodes send heartbeats and give up their surplus until no node's shards change.
// It returns the shards of each node. It fails the test unless every shard has exactly one owner.
func (w *world) shares(members ...*member) [][]uint8 {
	w.Helper()
	owned := make([][]uint8, len(members))
	for range 5 {
		for i, m := range members {
			membership := m.heartbeats()
			if membership.Surplus > 0 {
				membership = m.heartbeats(membership.Shards[:membership.Surplus]...)
			}
			if !slices.IsSorted(membership.Shards) {
				w.Errorf("the shards are not sorted: %v", membership.Shards)
			}
			owned[i] = membership.Shards
		}
	}
	all := slices.Concat(owned...)
	slices.Sort(all)
	w.same("the shards of all nodes", all, everyShard())
	return owned
}

func heartbeatJoins(w *world) {
	a := w.member(1)
	want := store.Membership{Nodes: 1, Shards: everyShard()}
	w.same("the first Heartbeat", a.heartbeats(), want)
	w.same("the second Heartbeat", a.heartbeats(), want)
}

// clashes fails the test unless another instance with m's incarnation is refused. The other one also
// asks to release all shards.
func (m *member) clashes() *member {
	m.Helper()
	other := m.member(m.Incarnation)
	b := other.Heartbeat
	b.Release = everyShard()
	_, err := m.Nodes.Heartbeat(m.Context(), b)
	m.refuses(err, postrider.ErrConflict)
	return other
}

func heartbeatClash(w *world) {
	a := w.member(1)
	a.heartbeats()
	a.clashes()
	members, err := w.Nodes.Members(w.Context(), postrider.EndpointID{})
	w.ok(err)
	w.same("the shards of the first one", members[0].Shards, store.Shards)
	w.same("the first one's Heartbeat", a.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
}

func heartbeatClashOfDead(w *world) {
	a := w.member(1)
	a.dies()
	other := a.clashes()
	w.same("Reclaim", w.reclaim(1, 10), 0)
	w.same("the other one's Heartbeat", other.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
	a.clashes()
}

func heartbeatShares(w *world) {
	members := []*member{w.member(1), w.member(2), w.member(3)}
	for n := 1; n <= 3; n++ {
		share := (store.Shards + n - 1) / n
		for i, shards := range w.shares(members[:n]...) {
			if len(shards) > share || len(shards) < store.Shards-(n-1)*share {
				w.Errorf("of %d nodes number %d owns %d shards, want %d", n, i+1, len(shards), share)
			}
		}
		for _, m := range members[:n] {
			if r := m.heartbeats(); r.Nodes != n || r.Surplus != 0 || len(r.Silent) != 0 {
				w.Errorf("the membership has %d nodes, %d shards surplus and %d dead, want %d, 0 and 0", r.Nodes, r.Surplus, len(r.Silent), n)
			}
		}
	}
}

func heartbeatHandsOver(w *world) {
	a, b := w.member(1), w.member(2)
	a.heartbeats()
	w.same("the membership of one that joins", b.heartbeats(), store.Membership{Nodes: 2})
	membership := a.heartbeats()
	if membership.Nodes != 2 || membership.Surplus != store.Shards/2 || len(membership.Shards) != store.Shards {
		w.Fatalf("%d nodes, %d shards and %d surplus, want 2, 256 and 128", membership.Nodes, len(membership.Shards), membership.Surplus)
	}
	given := []uint8{3, 100, 255}
	membership = a.heartbeats(given...)
	if membership.Surplus != store.Shards/2-3 || len(membership.Shards) != store.Shards-3 {
		w.Errorf("%d shards and %d surplus after giving three, want 253 and 125", len(membership.Shards), membership.Surplus)
	}
	w.same("the membership of one that was given three", b.heartbeats(), store.Membership{Nodes: 2, Shards: given})
	w.same("the owner's shards", slices.ContainsFunc(a.heartbeats().Shards, func(s uint8) bool { return slices.Contains(given, s) }), false)
	a.heartbeats(membership.Shards[:200]...)
	if got := len(b.heartbeats().Shards); got != store.Shards/2 {
		w.Errorf("one that joined owns %d shards, want its share of 128", got)
	}
}

func heartbeatReleasesOwn(w *world) {
	a, b, c := w.member(1), w.member(2), w.member(3)
	all := a.heartbeats().Shards
	b.heartbeats(all...)
	w.same("another one's shards", c.heartbeats().Shards, []uint8{})
	w.same("the owner's shards", a.heartbeats().Shards, all)
}

func heartbeatLeaves(w *world) {
	a, b := w.member(1), w.member(2)
	owned := w.shares(a, b)
	a.Leaving = true
	membership := a.heartbeats()
	w.same("the shards of one that leaves", membership.Shards, owned[0])
	w.same("how many nodes it sees", membership.Nodes, 1)
	w.same("how many nodes another sees", b.heartbeats().Nodes, 1)
	w.same("the shards of one that has left", a.heartbeats(owned[0]...).Shards, []uint8{})
	w.same("the shards of the other", b.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
	b.heartbeats(owned[0]...)
	w.same("the shards of one that has left", a.heartbeats().Shards, []uint8{})
}

func heartbeatDead(w *world) {
	a, b, c := w.member(1), w.member(2), w.member(3)
	owned := w.shares(a, b, c)
	a.dies()
	for range 2 {
		for _, m := range []*member{b, c} {
			r := m.heartbeats()
			if r.Nodes != 2 || !slices.Equal(r.Silent, []uint32{1}) {
				w.Errorf("the membership has %d nodes and the dead %v, want 2 and number 1", r.Nodes, r.Silent)
			}
			if slices.ContainsFunc(r.Shards, func(s uint8) bool { return slices.Contains(owned[0], s) }) {
				w.Errorf("a dead node's shard was taken before it was reclaimed")
			}
		}
	}
	w.same("Reclaim", w.reclaim(1, 10), 0)
	for _, shards := range w.shares(b, c) {
		w.same("a survivor's share", len(shards), store.Shards/2)
	}
	w.same("the dead", b.heartbeats().Silent, []uint32{})
}

func heartbeatBack(w *world) {
	a, b := w.member(1), w.member(2)
	owned := w.shares(a, b)
	a.dies()
	w.same("the dead", b.heartbeats().Silent, []uint32{1})
	a.TTL = long
	w.same("the membership of one that is back", a.heartbeats(), store.Membership{Nodes: 2, Shards: owned[0]})
	w.same("the membership of the other", b.heartbeats(), store.Membership{Nodes: 2, Shards: owned[1]})
	w.same("Reclaim", w.reclaim(1, 10), 0)
	w.same("the shards after it", a.heartbeats().Shards, owned[0])
}

func heartbeatBackTooLate(w *world) {
	a, b := w.member(1), w.member(2)
	w.shares(a, b)
	a.dies()
	w.reclaim(1, 10)
	w.same("the other's shards", b.heartbeats().Shards, everyShard())
	a.TTL = long
	w.same("the membership of one that is back", a.heartbeats(), store.Membership{Nodes: 2})
}

// owners has the owner of each shard, as the nodes know it. A node owns a shard from the
// Heartbeat that gives it the shard until just before the Heartbeat that releases the shard.
type owners [store.Shards]atomic.Uint32

// note records the result of a Heartbeat: the node had the shards before, and has the shards
// after.
func (o *owners) note(m *member, before, after []uint8) {
	for _, shard := range after {
		if !slices.Contains(before, shard) && !o[shard].CompareAndSwap(0, m.Incarnation) {
			m.Errorf("shard %d is given to node %d while node %d has it", shard, m.Incarnation, o[shard].Load())
		}
	}
	for _, shard := range before {
		if !slices.Contains(after, shard) {
			m.Errorf("node %d lost shard %d, which it had not given up", m.Incarnation, shard)
		}
	}
}

// live plays the life of one node: the node joins, gives up its surplus, and leaves.
func (o *owners) live(m *member, heartbeats int) {
	var have []uint8
	b := m.Heartbeat
	for i := range heartbeats + 1 {
		kept := have[len(b.Release):]
		membership, err := m.Nodes.Heartbeat(m.Context(), b)
		if err != nil {
			m.Errorf("Heartbeat: %v", err)
			return
		}
		o.note(m, kept, membership.Shards)
		have, b.Release = membership.Shards, nil
		b.Release = have[:min(membership.Surplus, len(have))]
		if b.Leaving = i >= heartbeats-1; b.Leaving {
			b.Release = have
		}
		for _, shard := range b.Release {
			o[shard].Store(0)
		}
	}
	if err := m.Forget(m.Context(), m.Incarnation); err != nil {
		m.Errorf("Forget: %v", err)
	}
}

func heartbeatInParallel(w *world) {
	var o owners
	var life sync.WaitGroup
	for i := range uint32(6) {
		m := w.member(i + 1)
		life.Go(func() { o.live(m, 10+3*int(i)) })
	}
	life.Wait()
	w.same("the shards of a last node", w.member(100).heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
}

func (w *world) reclaim(incarnation uint32, limit int) int {
	w.Helper()
	n, err := w.Reclaim(w.Context(), incarnation, limit)
	w.ok(err)
	return n
}

// leased publishes n deliveries. Node 1 claims them and dies.
func (w *world) leased(n int) (e postrider.Endpoint, items []postrider.Claimed) {
	w.Helper()
	a := w.member(1)
	a.heartbeats()
	e = w.endpoint()
	w.pending(e, n)
	items = w.claim(e, postrider.LaneFirst, n)
	a.dies()
	return e, items
}

func reclaimFrees(w *world) {
	e, items := w.leased(2)
	d := w.to(e)
	d.Token, d.Lease = w.token(), long // leased by admission
	w.publish(store.Batch{w.event(e.Account, d)})
	w.noticesLoss(d.ID, func() { w.same("Reclaim", w.reclaim(1, 10), 3) })
	again := w.claimExactly(e, items[0].ID, items[1].ID, d.ID)
	for _, c := range again {
		if c.Attempt != 2 || c.Losses != 1 || c.Step != 0 || c.Lane != postrider.LaneFirst {
			w.Errorf("claimed %+v, want attempt 2 with one loss", c)
		}
		attempts := w.attempts(w.delivery(c.ID))
		if len(attempts) != 1 {
			w.Fatalf("recorded %d attempts, want the lost one", len(attempts))
		}
		if got := attempts[0]; got.Number != 1 || got.Outcome != postrider.OutcomeLost || got.Error != "server_died" || !got.NextAt.IsZero() ||
			got.Stale {
			w.Errorf("recorded %+v, want attempt 1 as lost", got)
		}
	}
}

func reclaimSuspectsWhole(w *world) {
	e, ids := w.suspects(2)
	w.pending(e, 2)
	for range postrider.ParkedAfter {
		w.claim(e, postrider.LaneFirst, 10)
		w.claim(e, postrider.LaneSuspect, 10)
		w.member(1).dies()
		for n := w.reclaim(1, 1); n > 0; {
			n = w.reclaim(1, 1)
		}
	}
	for _, id := range ids {
		if d := w.delivery(id); d.Parked {
			w.Errorf("the delivery is parked, and never died alone: %+v", d)
		}
	}
}

func reclaimSuspectsBesideLimit(w *world) {
	e, _ := w.suspects(1)
	w.pending(e, 6)
	a, b := w.member(1), w.member(2)
	a.heartbeats()
	w.claim(e, postrider.LaneFirst, 10)
	w.claim(e, postrider.LaneSuspect, 10)
	a.dies()
	b.heartbeats()
	w.same("the first Reclaim", w.reclaim(1, 5), 6)
	w.same("the membership before the end", b.heartbeats(), store.Membership{Nodes: 1, Silent: []uint32{1}})
	w.same("the last Reclaim", w.reclaim(1, 5), 1)
	w.same("the membership after the end", b.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
	if first, suspect := w.claim(e, postrider.LaneFirst, 10), w.claim(e, postrider.LaneSuspect, 10); len(first) != 6 || len(suspect) != 1 {
		w.Errorf("%d deliveries and %d suspects are due, want 6 and 1", len(first), len(suspect))
	}
}

func reclaimLimit(w *world) {
	e, _ := w.leased(5)
	b := w.member(2)
	b.heartbeats()
	for _, want := range []int{2, 2} {
		w.same("Reclaim", w.reclaim(1, 2), want)
		w.same("the membership before the end", b.heartbeats(), store.Membership{Nodes: 1, Silent: []uint32{1}})
	}
	w.same("the last Reclaim", w.reclaim(1, 2), 1)
	w.same("the membership after the end", b.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
	w.same("Reclaim of what is forgotten", w.reclaim(1, 2), 0)
	if n := len(w.claim(e, postrider.LaneFirst, 10)); n != 5 {
		w.Errorf("%d deliveries are due, want 5", n)
	}
}

func reclaimOthers(w *world) {
	a, b := w.member(1), w.member(2)
	a.heartbeats()
	b.heartbeats()
	e := w.endpoint()
	ids := w.pending(e, 4)
	w.settle(retry(w.claim(e, postrider.LaneFirst, 1)[0], long))
	claims, err := w.Claim(w.Context(), store.Claim{Token: 2<<32 | 1, Wants: []store.Want{
		{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: long},
	}})
	w.ok(err)
	w.settle(delivered(w.claim(e, postrider.LaneFirst, 1)[0]))
	w.claim(e, postrider.LaneFirst, 1)
	a.dies()
	w.same("Reclaim", w.reclaim(1, 10), 1)
	w.claimExactly(e, ids[3])
	w.same("the other node's Settle", w.settle(delivered(claims.Items[0])), []store.Settled{{}})
	w.same("the attempts of what waited", len(w.attempts(w.delivery(ids[0]))), 1)
}

func reclaimAlive(w *world) {
	a := w.member(1)
	a.heartbeats()
	e := w.endpoint()
	w.pending(e, 2)
	c := w.claim(e, postrider.LaneFirst, 1)[0]
	claims, err := w.Claim(w.Context(), store.Claim{Token: 9<<32 | 1, Wants: []store.Want{
		{Endpoint: e.ID, Lane: postrider.LaneFirst, N: 1, Lease: long},
	}})
	w.ok(err)
	w.same("Reclaim of one that is alive", w.reclaim(1, 10), 0)
	w.same("Reclaim of one that is not known", w.reclaim(9, 10), 0)
	w.claimExactly(e)
	w.same("Settle", w.settle(delivered(c), delivered(claims.Items[0])), []store.Settled{{}, {}})
	w.same("the membership", a.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
}

func reclaimInParallel(w *world) {
	e, items := w.leased(40)
	var freed atomic.Int64
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for range 10 {
				n, err := w.Reclaim(w.Context(), 1, 5)
				if err != nil {
					w.Errorf("Reclaim: %v", err)
				}
				freed.Add(int64(n))
			}
		})
	}
	callers.Wait()
	for freed.Load() < 40 { // reclaims the deliveries that were left because another caller was reclaiming
		n := w.reclaim(1, 5)
		if n == 0 {
			break
		}
		freed.Add(int64(n))
	}
	w.same("how many were freed", freed.Load(), int64(40))
	w.claimExactly(e, deliveryIDs(items, claimedID)...)
	for _, c := range items {
		w.same("how many attempts are recorded", len(w.attempts(w.delivery(c.ID))), 1)
	}
}

func reclaimStale(w *world) {
	e, items := w.leased(1)
	w.reclaim(1, 10)
	w.same("Settle", w.settle(delivered(items[0])), []store.Settled{{Stale: true}})
	w.release(items[0])
	attempts := w.attempts(w.delivery(items[0].ID))
	if len(attempts) != 1 || !attempts[0].Stale || attempts[0].Outcome != postrider.OutcomeAccepted {
		w.Errorf("recorded %+v, want the stale attempt in the place of the lost one", attempts)
	}
	if c := w.claimExactly(e, items[0].ID)[0]; c.Attempt != 2 {
		w.Errorf("claimed attempt %d, want 2", c.Attempt)
	}
}

func reclaimOrdered(w *world) {
	a := w.member(1)
	a.heartbeats()
	e := w.endpoint()
	ids := w.publishOrdered(e, "o", postrider.PauseOnDead, 2)
	w.claimExactly(e, ids[0])
	a.dies()
	w.same("Reclaim", w.reclaim(1, 10), 1)
	w.deliverInOrder(e, ids...)
}

func forgetFrees(w *world) {
	a, b := w.member(1), w.member(2)
	a.heartbeats()
	b.heartbeats()
	w.ok(w.Forget(w.Context(), 1))
	w.same("the other's membership", b.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
	w.same("the membership of one that is back", a.heartbeats(), store.Membership{Nodes: 2})
}

func forgetIncarnation(w *world) {
	a := w.member(1)
	a.heartbeats()
	other := a.clashes()
	w.ok(w.Forget(w.Context(), 1))
	w.same("the other one's membership", other.heartbeats(), store.Membership{Nodes: 1, Shards: everyShard()})
}

// listener collects the messages that it hears.
type listener struct {
	mu       sync.Mutex
	messages []string
}

func (l *listener) hear(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.messages = append(l.messages, message)
}

func (l *listener) heard(message string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Contains(l.messages, message)
}

func wakeReaches(w *world) {
	ctx, stop := context.WithCancel(w.Context())
	var listening sync.WaitGroup
	defer listening.Wait()
	defer stop()
	var listeners [2]listener
	for i := range listeners {
		listening.Go(func() {
			if err := w.Hold(ctx, uint32(10+i), listeners[i].hear); err != nil && ctx.Err() == nil {
				w.Errorf("Hold: %v", err)
			}
		})
	}
	reached := func(message string) func() bool {
		return func() bool { return listeners[0].heard(message) && listeners[1].heard(message) }
	}
	w.eventually("both listen", reached(""))
	for _, message := range []string{"3:first", "a message of é and '\"", "255"} {
		w.eventually("both hear "+message, func() bool { // a message may be lost, so it is sent again
			w.ok(w.Wake(w.Context(), message))
			return reached(message)()
		})
	}
}

func holdEnds(w *world) {
	ctx, stop := context.WithCancel(w.Context())
	defer stop()
	var l listener
	ended := make(chan error, 1)
	var listening sync.WaitGroup
	defer listening.Wait()
	listening.Go(func() { ended <- w.Hold(ctx, 10, l.hear) })
	w.eventually("it holds", func() bool { return l.heard("") })
	w.ok(w.Wake(w.Context(), "one"))
	stop()
	deadline := time.NewTimer(30 * time.Second)
	defer deadline.Stop()
	select {
	case err := <-ended:
		if err != nil && !errors.Is(err, context.Canceled) {
			w.Errorf("Hold = %v, want nil or the end of ctx", err)
		}
	case <-deadline.C:
		w.Fatalf("Hold did not return within 30 s")
	}
	w.ok(w.Wake(w.Context(), "nobody hears this"))
}
