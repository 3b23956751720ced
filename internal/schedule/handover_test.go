package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// session begins a session with one other node.
func (h *harness) session() postrider.Token { return h.c.NextSession(1).Token }

// committed returns n new deliveries that another node has committed under the token of a session.
func (h *harness) committed(token postrider.Token, id postrider.EndpointID, n int) (deliveries []Handed) {
	for range n {
		h.next++
		cl := postrider.Claimed{
			ID:       postrider.DeliveryID{3, 13: byte(h.next >> 16), 14: byte(h.next >> 8), 15: byte(h.next)},
			Endpoint: id, Event: &postrider.Event{Data: []byte("1")}, Lane: postrider.LaneFirst, Attempt: 1, Token: token,
			ExpiresAt: h.now.Add(expiry),
		}
		h.leased[store.Lease{Delivery: cl.ID, Token: token}] = cl
		deliveries = append(deliveries, Handed{cl, h.now.Add(h.routed[id].Endpoint.Policy.Timeout + LeaseMargin)})
	}
	return deliveries
}

// hand names deliveries to the core, and returns the endpoints that it refuses.
func (h *harness) hand(deliveries ...Handed) []postrider.EndpointID {
	h.t.Helper()
	in := &given{deliveries: deliveries}
	h.step(in)
	return in.refused
}

// under returns what the store has leased under a token, as at the end of a session.
func (h *harness) under(token postrider.Token) (ended SessionEnded) {
	for lease, cl := range h.leased {
		if lease.Token == token {
			ended.Leases = append(ended.Leases, store.SessionLease{Lease: lease, Endpoint: cl.Endpoint, Lane: cl.Lane})
		}
	}
	slices.SortFunc(ended.Leases, func(a, b store.SessionLease) int { return a.Delivery.Compare(b.Delivery) })
	return ended
}

// expectNothingHanded requires that the core has forgotten all handed deliveries and their credit.
func (h *harness) expectNothingHanded() {
	h.t.Helper()
	if len(h.c.handed) != 0 || h.c.slots.credit != 0 || h.c.shards.busy != [store.Shards]int{} {
		h.t.Errorf("%d handed deliveries, %d credit and busy shards %v are left, want none", len(h.c.handed), h.c.slots.credit, h.c.shards.busy)
	}
}

func TestHandedDeliveriesStartWithoutAClaim(t *testing.T) {
	t.Parallel()
	h := newHarness(t, shared())
	id := h.endpoint("a.example", nil) // its limit is 10, and its credit limit 20
	h.owns(store.Shard(id))
	token := h.session()
	refused := h.hand(h.committed(token, id, 20)...)
	h.expect(id, 10, "handed")
	if len(refused) != 0 || h.claims != 0 || h.c.slots.credit != 20 {
		t.Errorf("refused %v, %d claimed, %d credit in use; want none, 0 and 20", refused, h.claims, h.c.slots.credit)
	}
	for range 20 {
		h.over(id, a200)
	}
	if h.claims != 0 || len(h.settled) != 20 || h.given != 0 {
		t.Errorf("%d claimed, %d settled, %d given back; want 0, 20 and 0", h.claims, len(h.settled), h.given)
	}
	for _, s := range h.settled {
		if s.Claimed.Token != token {
			t.Errorf("settled with token %x, want that of the session, %x", s.Claimed.Token, token)
		}
	}
	h.expectNothingHanded()
	h.hold(5 * time.Second)
	if len(h.c.endpoints) != 0 {
		t.Errorf("%d endpoints are in memory, want none", len(h.c.endpoints))
	}
}

func TestAHandedDeliveryThatWouldNotBeAdmittedIsGivenBack(t *testing.T) {
	t.Parallel()
	for name, prepare := range map[string]func(h *harness, id postrider.EndpointID){
		"another node owns its endpoint": func(h *harness, id postrider.EndpointID) { h.owns(store.Shard(id) + 1) },
		"its endpoint is paused":         (*harness).pause,
		"its endpoint is deleted": func(h *harness, id postrider.EndpointID) {
			delete(h.routed, id)
			h.step(changed{id})
		},
		"its endpoint's circuit is open": (*harness).fail,
		"the credit is used up":          func(h *harness, id postrider.EndpointID) { h.publish(id, 20) },
		"another delivery has waited for long": func(h *harness, id postrider.EndpointID) {
			h.c.step(h.now, stored{waiting: []store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}})
			h.c.Decide(h.now) // the claim hangs
			h.now = h.now.Add(4*MaxBatchDelay + 1)
		},
		"the node drains":                  func(h *harness, _ postrider.EndpointID) { h.step(Drain{}) },
		"the node's ownership has lapsed":  func(h *harness, _ postrider.EndpointID) { h.now = h.now.Add(ttl) },
		"too many results are not settled": func(h *harness, _ postrider.EndpointID) { h.c.commits.unsettled = h.c.opts.MaxUnsettled },
	} {
		h := newHarness(t, shared())
		id := h.endpoint("a.example", nil)
		h.owns(store.Shard(id))
		deliveries := h.committed(h.session(), id, 1)
		prepare(h, id)
		in := &given{deliveries: deliveries}
		h.c.step(h.now, in)
		do := h.c.Decide(h.now)
		want := store.Lease{Delivery: deliveries[0].ID, Token: deliveries[0].Token}
		whom := id
		if h.c.draining || h.c.shards.lapsed(h.now) || h.c.commits.unsettled > 0 {
			whom = postrider.EndpointID{} // the whole node
		}
		if !slices.Equal(in.refused, []postrider.EndpointID{whom}) || len(do.Send) != 0 || len(do.Release) != 1 || do.Release[0].Lease != want {
			t.Errorf("%s: refused %v, %d sent, released %v; want %v, 0 and %v once", name, in.refused, len(do.Send), do.Release, whom, want)
			continue
		}
		if h.c.shards.busy[store.Shard(id)] == 0 {
			t.Errorf("%s: the shard is not busy while the lease is given back", name)
		}
		h.c.step(h.now, h.release(do.Release))
		do = h.c.Decide(h.now)
		lane := store.DueLane{Endpoint: id, Lane: postrider.LaneFirst}
		if others := name == "another node owns its endpoint"; others != slices.Contains(do.Notify, lane) {
			t.Errorf("%s: after the release other nodes hear of %v", name, do.Notify)
		}
		if len(do.Release) != 0 || len(h.c.handed) != 0 {
			t.Errorf("%s: %v are released again, and %d handed deliveries are remembered", name, do.Release, len(h.c.handed))
		}
	}
}

func TestAHandedDeliveryThatWasGivenBackIsClaimedAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, shared())
	id := h.endpoint("a.example", nil)
	h.owns(store.Shard(id))
	token := h.session()
	h.committed(token, id, 3)
	h.step(h.under(token))
	h.wait(MaxBatchDelay)
	h.expect(id, 3, "never named and given back")
	if h.given != 3 || h.claims != 3 {
		t.Errorf("%d given back and %d claimed, want 3 and 3", h.given, h.claims)
	}
}

func TestAHandedDeliveryStartsOnlyUnderALeaseThatCoversIt(t *testing.T) {
	t.Parallel()
	const ahead = time.Hour // of this node's clock is that of the store
	for _, tt := range []struct {
		spare time.Duration
		sent  int
	}{{0, 1}, {-1, 0}, {-ahead, 0}} {
		h := newHarness(t, shared())
		h.c.SetClock(ahead, ahead)
		id := h.endpoint("a.example", nil)
		h.owns(store.Shard(id))
		d := h.committed(h.session(), id, 1)[0]
		d.Until = h.now.Add(ahead + h.routed[id].Endpoint.Policy.Timeout + tt.spare)
		h.c.step(h.now, &given{deliveries: []Handed{d}})
		do := h.c.Decide(h.now)
		if len(do.Send) != tt.sent || len(do.Release) != 1-tt.sent {
			t.Errorf("%v to spare: %d sent and %d released, want %d sent", tt.spare, len(do.Send), len(do.Release), tt.sent)
		}
		if h.c.step(h.now, LeasesReleased{do.Release}); len(h.c.handed) != tt.sent {
			t.Errorf("%v to spare: %d handed deliveries are remembered, want %d", tt.spare, len(h.c.handed), tt.sent)
		}
	}
}

// The endpoints have a limit of 1, so that a second delivery stays prefetched.
func TestTheEndOfASessionGivesBackWhatWasNeverNamed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, shared())
	var ids []postrider.EndpointID
	var shards []uint8
	for range 4 {
		id := h.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 1 })
		ids, shards = append(ids, id), append(shards, store.Shard(id))
	}
	busy, unsettled, settled, unnamed := ids[0], ids[1], ids[2], ids[3]
	h.owns(shards...)
	h.committed(h.session(), unnamed, 1) // of another session
	token := h.session()
	refused := h.hand(slices.Concat(h.committed(token, busy, 2), h.committed(token, unsettled, 1), h.committed(token, settled, 1))...)
	want := h.committed(token, unnamed, 1)[0]
	if len(refused) != 0 || h.inFlight(busy, unsettled, settled) != 3 || h.unstarted() != 1 {
		t.Fatalf("refused %v, %d in flight, %d prefetched; want none, 3 and 1", refused, h.inFlight(), h.unstarted())
	}
	request := h.underWay[slices.IndexFunc(h.underWay, func(f request) bool { return f.Endpoint == unsettled })]
	h.c.step(h.now, over(request.Delivery, a200))
	waiting := h.c.Decide(h.now)
	ended := h.under(token)
	h.over(settled, a200)

	h.c.step(h.now, ended)
	do := h.c.Decide(h.now)
	for _, r := range do.Release {
		// The store ignores a release of what is settled, because nothing is leased under the token any more.
		if r.Delivery != want.ID && r.endpoint != settled {
			t.Errorf("delivery %v of endpoint %d is given back, and it is under way", r.Delivery, r.endpoint[15])
		}
	}
	answers := []any{h.settle(waiting.Settle)}
	if do.Claim != nil { // it comes before the release, and finds nothing
		answers = append(answers, h.claim(do.Claim))
	}
	h.step(append(answers, h.release(do.Release))...)
	if _, still := h.leased[store.Lease{Delivery: want.ID, Token: token}]; still || len(ended.Leases) != 5 {
		t.Errorf("of %d leases that the store had, the one that was never named is still leased: %t; want 5, and that it is not",
			len(ended.Leases), still)
	}
	h.hold(time.Second)
	for range 2 {
		h.over(busy, a200)
	}
	h.over(unnamed, a200)
	h.expectNothingHanded()
	if h.inFlight(busy, settled, unnamed) != 0 || len(h.settled) != 5 {
		t.Errorf("%d requests and %d settlements, want none besides the 5 deliveries", h.inFlight(busy, settled, unnamed), len(h.settled))
	}
}

func TestSessionsTogetherLeaseAtMostAQuarterOfTheSlots(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 8, 100, 1024} {
		c := New(Options{Concurrency: slots, Incarnation: 7, Shared: true})
		tokens := map[postrider.Token]bool{}
		for nodes := range 300 {
			s := c.NextSession(nodes)
			most := max(slots/4, nodes) // each node may lease one
			if s.Budget < 1 || nodes*s.Budget > most {
				t.Errorf("%d slots: a budget of %d for each of %d nodes, want %d together", slots, s.Budget, nodes, most)
			}
			if s.Token>>32 != 7 || tokens[s.Token] {
				t.Errorf("%d slots: token %x, want a new one of incarnation 7", slots, s.Token)
			}
			tokens[s.Token] = true
		}
		if s := c.NextSession(1); s.Budget != max(1, slots/4) {
			t.Errorf("%d slots: a budget of %d for the only other node, want a quarter", slots, s.Budget)
		}
	}
}

func TestNoHandedDeliveryIsRememberedForEver(t *testing.T) {
	t.Parallel()
	postponed := postrider.Attempt{Outcome: postrider.OutcomePostponed, Duration: time.Millisecond}
	none := postrider.Attempt{Outcome: postrider.OutcomeNone, Duration: time.Millisecond}
	for name, tt := range map[string]struct {
		first postrider.Attempt // the first response
		then  func(*harness, postrider.EndpointID)
	}{
		"accepted":      {first: a200},
		"retried":       {first: a500},
		"timed out":     {first: silence},
		"gone":          {first: a410},
		"postponed":     {first: postponed},
		"cancelled":     {first: none},
		"paused":        {first: a200, then: (*harness).pause},
		"another's":     {first: a200, then: func(h *harness, id postrider.EndpointID) { h.owns(store.Shard(id) + 1) }},
		"held":          {first: a200, then: func(h *harness, _ postrider.EndpointID) { h.step(HoldChanged{true}) }},
		"the node ends": {first: a200, then: func(h *harness, _ postrider.EndpointID) { h.step(Drain{}) }},
	} {
		h := newHarness(t, shared())
		id := h.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 2 })
		h.owns(store.Shard(id))
		token := h.session()
		h.respond = func(it *Delivery) postrider.Attempt {
			if it.Token == token {
				return tt.first
			}
			return a200
		}
		if refused := h.hand(h.committed(token, id, 5)...); len(refused) != 1 || len(h.c.handed) != 4 {
			t.Fatalf("%s: refused %v and remembers %d, want 1 and 4", name, refused, len(h.c.handed))
		}
		if tt.then != nil {
			tt.then(h, id)
		}
		h.hold(time.Minute)
		if len(h.c.handed) != 0 || h.c.slots.credit != 0 || h.c.shards.busy != [store.Shards]int{} {
			t.Errorf("%s: %d handed deliveries and %d credit are left", name, len(h.c.handed), h.c.slots.credit)
		}
	}
}

// TestWhatNodesCostEachOther runs nodes of equal load without faults. Without sessions, a delivery
// for another node's endpoint costs a claim; with sessions, one message at most.
func TestWhatNodesCostEachOther(t *testing.T) {
	t.Parallel()
	const publishes = 1000
	t.Log("nodes  sessions  claimed  handed  refused  messages")
	for _, nodes := range []int{3, 10, 30} {
		for _, off := range []bool{true, false} {
			w := newSimulation(t, 1) // an odd seed has several nodes
			w.healed, w.links.off, w.order = true, off, nil
			account := store.NewID[postrider.AccountID](w.ids)
			for range 256 {
				w.addEndpoint(account, func(*postrider.Policy) {})
			}
			for i := range nodes {
				w.bootWith(Options{Incarnation: uint32(i + 1)})
			}
			w.runFor(time.Minute) // until the nodes have equal shares
			for i := range publishes {
				w.at(time.Duration(w.rng.Int64N(int64(time.Minute))), func() { w.publishAt(w.nodes[i%nodes]) })
			}
			w.runFor(2 * time.Minute)
			w.check()
			got := w.links.tally
			t.Logf("%5d  %8t  %6.1f%%  %6d  %7d  %8d", nodes, !off, 100*float64(got.claimed)/publishes, got.taken, got.refused, got.messages)
			others := publishes * (nodes - 1) / nodes
			if off && (got.claimed < others-publishes/20 || got.claimed > others+publishes/20 || got.messages != 0) {
				t.Errorf("%d nodes without sessions: %d claimed, %d messages; want about %d and 0", nodes, got.claimed, got.messages, others)
			}
			if !off && (got.claimed > publishes/100 || got.messages > got.taken+got.refused || got.taken < others-publishes/20) {
				t.Errorf("%d nodes with sessions: %+v; want at most %d claimed, about %d taken, and one message for each",
					nodes, got, publishes/100, others)
			}
		}
	}
}
