package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// owns tells the core that the shards are its own, for the usual time.

func (h *harness) owns(shards ...uint8) { h.shardsOf(0, shards...) }

func (h *harness) shardsOf(excess int, shards ...uint8) {
	slices.Sort(shards)
	h.step(heartbeatReply{Membership: store.Membership{Nodes: 2, Shards: shards, Surplus: excess}, until: h.now.Add(ttl)})
}

// hold waits, and says now and then that the shards are still the core's.

func (h *harness) hold(span time.Duration) {
	for ; span > 0; span -= time.Second {
		var own []uint8
		for shard, is := range h.c.shards.owned {
			if is {
				own = append(own, uint8(shard))
			}
		}
		h.owns(own...)
		h.wait(min(span, time.Second))
	}
}

// drained asks which shards can be given up.

func (h *harness) drained() []uint8 {
	return h.c.SurplusShards()
}

// admits reports whether a new delivery would be admitted, and ends that.

func (h *harness) admits(id postrider.EndpointID) bool {
	n := &store.NewDelivery{Endpoint: id, Lane: postrider.LaneFirst}
	h.step(admit{[]*store.NewDelivery{n}})
	if n.Token == 0 {
		return false
	}
	h.step(stored{dropped: []store.NewDelivery{*n}})
	return true
}

func TestNothingIsDoneForEndpointsOfOtherNodes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, shared())
	mine, theirs := h.endpoint("a.example", nil), h.endpoint("a.example", nil)
	h.owns(store.Shard(mine))
	if !h.admits(mine) || h.admits(theirs) {
		t.Errorf("admitted its own %t and another's %t", h.admits(mine), h.admits(theirs))
	}
	h.publish(mine, 2)
	h.rows[theirs] = []row{{h.now, postrider.Claimed{ID: postrider.DeliveryID{9}, Endpoint: theirs, Lane: postrider.LaneFirst}}}
	in := stored{waiting: []store.DueLane{{Endpoint: theirs, Lane: postrider.LaneFirst}}}
	h.c.step(h.now, in)
	do := h.c.Decide(h.now)
	if len(do.Notify) != 1 || do.Notify[0].Endpoint != theirs {
		t.Errorf("others hear of %v, want what was published for another node", do.Notify)
	}
	h.step(LanesDue{Lanes: []store.DueLane{{Endpoint: theirs, Lane: postrider.LaneFirst}}})
	h.c.step(h.now, woken{theirs})
	if do := h.c.Decide(h.now); len(do.LookAt) != 1 || do.LookAt[0] != theirs {
		t.Errorf("%v are to be looked at by others, want the woken endpoint", do.LookAt)
	}
	h.hold(time.Minute)
	h.expect(mine, 2, "its own")
	if len(h.sent) != 2 || h.claims != 2 || h.c.endpoints[theirs] != nil {
		t.Errorf("%d sent, %d claimed, want its own 2, and nothing known of another's endpoint", len(h.sent), h.claims)
	}
}

func TestANewShardLeavesTheCircuitsOfOthersAsTheyAre(t *testing.T) {
	t.Parallel()
	h := newHarness(t, shared())
	id := h.endpoint("a.example", nil)
	other := store.Shard(id) + 1
	known := []postrider.Circuit{{Endpoint: id, Status: postrider.CircuitClosed, Generation: 3}}
	own := func(shards ...uint8) {
		h.step(heartbeatReply{Membership: store.Membership{Nodes: 2, Shards: shards}, until: h.now.Add(ttl), circuits: known})
	}
	own(store.Shard(id))
	h.publish(id, 5)
	for range 3 {
		h.over(id, a500)
	}
	own(store.Shard(id), other)
	for range 2 {
		h.over(id, a500)
	}
	if !h.c.endpoints[id].isOpen() {
		t.Error("three failures before the node got another shard and two after it did not open the circuit")
	}
}

func TestACircuitThatIsStoredAfterItsShardWasLostIsLearntWithTheShard(t *testing.T) {
	t.Parallel()
	h := newHarness(t, shared())
	h.slow = true
	id := h.endpoint("a.example", nil)
	h.owns(store.Shard(id))
	h.fail(id)
	h.owns()
	in := h.grant()
	h.step(in)
	h.step(heartbeatReply{
		Membership: store.Membership{Nodes: 2, Shards: []uint8{store.Shard(id)}}, until: h.now.Add(ttl),
		circuits: []postrider.Circuit{in.Circuit},
	})
	if !h.c.endpoint(id).isOpen() {
		t.Error("the circuit that this node opened is closed after the shard came back")
	}
}

func TestAShardIsGivenUpOnceNothingOfItIsInHand(t *testing.T) {
	t.Parallel()
	h := newHarness(t, shared())
	id := h.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 1 })
	free := h.endpoint("a.example", nil)
	h.owns(store.Shard(id), store.Shard(free))
	h.publish(id, 3)
	if got := h.drained(); got != nil {
		t.Errorf("%v are given up, want none of its share", got)
	}
	h.c.step(h.now, heartbeatReply{
		Membership: store.Membership{Nodes: 2, Shards: []uint8{store.Shard(id), store.Shard(free)}, Surplus: 2},
		until:      h.now.Add(5 * time.Second),
	})
	do := h.c.Decide(h.now)
	if len(do.Release) == 0 || do.Claim != nil {
		t.Fatalf("%d leases are given back and %v is claimed, want what is held and nothing", len(do.Release), do.Claim)
	}
	if h.admits(id) || h.admits(free) {
		t.Error("a delivery is admitted to a shard that is given up")
	}
	gives := func(want bool, when string) {
		t.Helper()
		if got := h.drained(); slices.Contains(got, store.Shard(id)) != want || !slices.Contains(got, store.Shard(free)) {
			t.Errorf("%s: shards %v can go; the busy one should be among them: %t, the free one always", when, got, want)
		}
	}
	gives(false, "in flight, and leases on their way back")
	h.c.step(h.now, over(h.underWay[0].Delivery, a200))
	h.underWay = nil
	answered := h.c.Decide(h.now)
	gives(false, "not settled")
	h.step(h.settle(answered.Settle))
	gives(false, "leases on their way back")
	h.step(h.release(do.Release))
	gives(true, "nothing in hand")
	h.owns(store.Shard(id))
	h.expect(id, 1, "kept after all")
}

func TestTheSameShardsAreGivenUpUntilTheyAreGone(t *testing.T) {
	t.Parallel()
	h := newHarness(t, shared())
	h.shardsOf(1, 3, 4)
	first := h.drained()
	h.shardsOf(2, 3, 4, 5, 6)
	if got := h.drained(); len(first) != 1 || len(got) != 2 || !slices.Contains(got, first[0]) {
		t.Errorf("shards %v are given up after %v", got, first)
	}
}

func TestALapsedOwnershipStartsNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, shared())
	id := h.endpoint("a.example", nil)
	h.publish(id, 1)
	h.expect(id, 0, "before the first heartbeat")
	h.owns(store.Shard(id))
	h.publish(id, 30)
	h.expect(id, 10, "by the heartbeat")
	h.wait(5 * time.Second)
	claims := h.claims
	for range 10 {
		h.over(id, a200)
	}
	h.expect(id, 0, "after the ownership lapsed")
	if h.admits(id) || h.claims != claims {
		t.Errorf("%d deliveries were claimed, or one admitted, after the ownership lapsed", h.claims-claims)
	}
	h.owns(store.Shard(id))
	h.expect(id, 10, "by a new heartbeat")
}

func TestAttemptsInFlightWhenAShardIsLostAreSettled(t *testing.T) {
	t.Parallel()
	h := newHarness(t, shared())
	id := h.endpoint("a.example", nil)
	h.owns(store.Shard(id))
	h.publish(id, 30)
	h.over(id, silence) // the endpoint is degraded now
	h.owns()
	h.owns(7)
	for range 9 {
		h.over(id, silence)
	}
	h.hold(2 * time.Second)
	if len(h.settled) != 10 || len(h.c.endpoints) != 0 || h.c.slots.inFlightOf[unreliable]+h.c.slots.inFlightOf[failedOnce] != 0 ||
		h.c.slots.credit != 0 {
		t.Errorf("%d settled, %d endpoints, %d suspected, %d in hand; want 10, 0, 0, 0",
			len(h.settled), len(h.c.endpoints), h.c.slots.inFlightOf[unreliable]+h.c.slots.inFlightOf[failedOnce], h.c.slots.credit)
	}
}
