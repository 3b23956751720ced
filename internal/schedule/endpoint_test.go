package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestAReleasedDeliveryIsClaimedThoughAClaimWasFaster(t *testing.T) {
	t.Parallel()
	c, now := fixture(func(p *postrider.Policy) { p.Concurrency = 1 })
	id := postrider.EndpointID{1}
	do := decide(c, now, stored{started: admitted(c, now, id, id)})
	now = now.Add(16 * time.Second) // the lease of the second delivery no longer covers an attempt
	do = decide(c, now, over(do.Send[0], a200))
	if len(do.Release) != 1 || do.Claim == nil {
		t.Fatalf("%d released, and claims %t; want one, and that it does", len(do.Release), do.Claim != nil)
	}
	nothing := ClaimReturned{Claim: do.Claim, Got: store.Claims{Lanes: make([]store.LaneState, len(do.Claim.Wants))}, AskedAt: now}
	if again := decide(c, now, nothing); again.Claim != nil {
		t.Fatal("claimed again before the release is committed")
	}
	now = now.Add(time.Second)
	if again := decide(c, now, LeasesReleased{do.Release}); again.Claim == nil {
		t.Error("the delivery is not looked for once it can be claimed")
	}
}

func TestTheNextDeliveryOfAKeyIsClaimedAtOnce(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	do := decide(c, now, stored{started: admitted(c, now, id)})
	do = decide(c, now, over(do.Send[0], a200))
	if len(do.Settle) != 1 || do.Claim != nil {
		t.Fatalf("%d settled, claimed %v; want 1 and nothing", len(do.Settle), do.Claim)
	}
	do = decide(c, now, SettlementsCommitted{do.Settle, []store.Settled{{Next: postrider.LaneRetry}}})
	if do.Claim == nil || len(do.Claim.Wants) != 1 || do.Claim.Wants[0].Lane != postrider.LaneRetry || do.Claim.Wants[0].Endpoint != id {
		t.Errorf("claim %+v, want the retry lane of the endpoint", do.Claim)
	}
}

func TestNothingGrows(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{Concurrency: 200, HostConcurrency: 2})
	answers := []postrider.Attempt{a200, a500, a429, silence, a503, a200}
	h.respond = func(it *Delivery) postrider.Attempt {
		if it.Attempt > 2 {
			return a200
		}
		return answers[int(it.ID[15])%len(answers)]
	}
	for i := range 3000 {
		id := h.endpoint(fmt.Sprintf("h%d.example", i%700), func(p *postrider.Policy) {
			p.AdaptiveTimeout = i%2 == 0
			if i%3 == 0 {
				p.Rate = postrider.Rate{Attempts: 10, Per: time.Second}
			}
		})
		h.publish(id, 3)
		switch i % 50 {
		case 0:
			h.wait(time.Second)
		case 7:
			delete(h.routed, id)
			h.step(changed{id})
		case 9:
			h.alter(id, func(to *store.EndpointSnapshot) { to.Endpoint.URL = "https://elsewhere.example" })
		}
	}
	h.wait(30 * time.Minute)
	c := h.c
	for _, ep := range c.endpoints {
		if ep.isQuiet(h.now) {
			t.Errorf("an endpoint is remembered of which there is nothing to know: %+v", ep)
		}
	}
	for id := range h.routed { // the endpoints that failed last stay in memory
		delete(h.routed, id)
		h.step(changed{id})
	}
	h.wait(time.Minute)
	if n := len(c.endpoints) + len(c.hosts.byName) + len(c.timers) + len(c.admissions.underWay) + c.slots.credit + c.slots.inFlight +
		c.circuits.probes + c.commits.unsettled; n > 0 {
		t.Errorf("%d endpoints, %d hosts, %d timers, %d admissions, %d in hand, %d in flight, %d probes, %d unsettled are left",
			len(c.endpoints), len(c.hosts.byName), len(c.timers), len(c.admissions.underWay), c.slots.credit, c.slots.inFlight, c.circuits.probes,
			c.commits.unsettled)
	}
	for name, r := range map[string]*queue{
		"prompt": &c.ready.queues[prompt], "failed once": &c.ready.queues[failedOnce], "chronic": &c.ready.queues[unreliable],
		"to be probed": &c.circuits.waiting, "silent": &c.unanswered, "to lease once": &c.claims.waiting[failedOnce],
		"to lease chronic": &c.claims.waiting[unreliable],
		"patient":          &c.bulk.waiting, "claimable": &c.claims.waiting[unproven],
	} {
		if r.len() > 0 || cap(r.eps) > 8192 {
			t.Errorf("%d endpoints and capacity for %d are left among the %s", r.len(), cap(r.eps), name)
		}
	}
	if c.shards.busy != [store.Shards]int{} {
		t.Error("shards are busy with nothing")
	}
}

func TestAnEndpointThatWasNamedTooEarlyIsLookedAtWhenItIsKnown(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	known := h.routed[id]
	delete(h.routed, id)
	h.publish(id, 1)
	h.expect(id, 0, "nothing is sent to an endpoint that is not known")
	h.routed[id] = known
	h.step(changed{id})
	h.expect(id, 1, "it has settings now")
}

func TestAnIdleEndpointIsForgottenAtTheSecondInspection(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	h.wait(time.Second)
	h.publish(id, 1)
	h.over(id, a200)
	h.wait(300 * time.Millisecond)
	ep := h.c.endpoints[id]
	if ep == nil {
		t.Fatal("an endpoint was forgotten at the first look")
	}
	h.publish(id, 1)
	if h.over(id, a200); h.c.endpoints[id] != ep {
		t.Error("an endpoint that is in use was forgotten")
	}
	h.wait(3 * time.Second)
	if len(h.c.endpoints) > 0 {
		t.Error("an idle endpoint is remembered")
	}
}

func TestADeletedEndpointGivesItsProbesSlotBack(t *testing.T) {
	t.Parallel()
	for name, err := range map[string]error{"stored before the deletion": nil, "refused": postrider.ErrNotFound} {
		h := newHarness(t, Options{})
		id := h.endpoint("a.example", nil)
		h.fail(id)
		h.publish(id, 1)
		h.slow = true
		h.wait(time.Minute)
		if h.c.circuits.probes != 1 || len(h.changes) != 1 {
			t.Fatalf("%s: %d probes and %d changes to be stored, want the right to probe to be asked for", name, h.c.circuits.probes, len(h.changes))
		}
		delete(h.routed, id)
		h.step(changed{id})
		h.wait(3 * time.Second)
		in := h.grant()
		in.Err = err
		h.step(in)
		h.wait(3 * time.Second)
		if n := h.c.circuits.probes + len(h.c.endpoints); n != 0 {
			t.Errorf("%s: %d probes, %d endpoints in memory, want none", name, h.c.circuits.probes, len(h.c.endpoints))
		}
	}
}

func TestACircuitThatAPersonClosesDuringAProbeIsClosed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	h.fail(id)
	h.publish(id, 1)
	h.wait(time.Minute)
	h.slow = true
	h.over(id, a500) // the attempt of the probe
	if len(h.changes) != 1 || h.changes[0].Closed() {
		t.Fatalf("%+v is to be stored, want that the circuit opened again", h.changes)
	}
	closed, _ := h.changes[0].ClosedByHand()
	closed.Generation++
	h.changes = nil
	h.step(CircuitStored{closed, fmt.Errorf("put circuit: %w", postrider.ErrConflict)})
	if h.c.endpoints[id].isOpen() || len(h.changes) > 0 {
		t.Errorf("%+v is to be stored over the circuit that a person closed", h.changes)
	}
}

func TestTheStoresClockCountsForWhatIsStored(t *testing.T) {
	t.Parallel()
	const ahead = 10 * time.Minute
	h := newHarness(t, shared())
	h.slow = true
	open, expired := h.endpoint("a.example", nil), h.endpoint("a.example", nil)
	theirs := h.now.Add(ahead)
	h.c.ahead = ahead
	r := store.Membership{Nodes: 2, Shards: []uint8{store.Shard(open), store.Shard(expired)}}
	h.step(heartbeatReply{Membership: r, until: h.now.Add(ttl), circuits: []postrider.Circuit{{
		Endpoint: open, Status: postrider.CircuitOpen, OpenedAt: theirs.Add(-time.Minute), ProbeAt: theirs.Add(2 * time.Second),
		FailingSince: theirs.Add(-time.Hour), Cooldown: time.Minute, Generation: 3,
	}}})
	ours := h.c.endpoint(open).breaker.Circuit
	if ours.OpenedAt != h.now.Add(-time.Minute) || ours.ProbeAt != h.now.Add(2*time.Second) || ours.FailingSince != h.now.Add(-time.Hour) {
		t.Errorf("the circuit is known as %+v, want its times by this node's clock", ours)
	}
	h.publish(open, 1)
	h.wait(1900 * time.Millisecond)
	if len(h.changes) > 0 {
		t.Error("probed before its time")
	}
	h.wait(100 * time.Millisecond)
	until := h.now.Add(ahead + 10*time.Second + h.c.opts.LeaseMargin)
	if len(h.changes) != 1 || h.changes[0].ProbeAt != until || h.changes[0].OpenedAt != theirs.Add(-time.Minute) ||
		h.changes[0].FailingSince != theirs.Add(-time.Hour) {
		t.Errorf("%+v is to be stored, want its times by the store's clock, and a probe until %v", h.changes, until)
	}

	for i, left := range []time.Duration{ahead - time.Second, ahead + time.Second} {
		h.rows[expired] = append(h.rows[expired], row{h.now, postrider.Claimed{
			ID: postrider.DeliveryID{9, byte(i)}, Endpoint: expired, Event: &postrider.Event{Data: []byte("1")},
			Lane: postrider.LaneFirst, ExpiresAt: h.now.Add(left),
		}})
	}
	h.step(woken{expired})
	h.expect(expired, 1, "one is not expired by the store's clock")
	if len(h.settled) != 1 || h.settled[0].Transition.Reason != postrider.ReasonExpired || h.settled[0].Claimed.ID[1] != 0 {
		t.Errorf("%v are settled, want the one that is expired", h.settled)
	}
}
