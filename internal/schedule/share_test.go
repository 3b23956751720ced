package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestAHostGetsItsShareWhosesoeverTheEndpointsAre(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{Concurrency: 100, HostConcurrency: 8})
	var ids []postrider.EndpointID
	for range 10 {
		id := d.endpoint("a.example:8443", nil)
		d.routed[id].Endpoint.Account = postrider.AccountID{byte(len(ids))}
		d.publish(id, 20)
		ids = append(ids, id)
	}
	other := d.endpoint("b.example", nil)
	d.proves(append(ids, other)...)
	d.publish(other, 20)
	d.expect(other, 8, "another host")
	for range 192 {
		if n := d.inFlight(ids...); n != 8 {
			t.Fatalf("%d attempts in flight to one host, want 8", n)
		}
		d.over(d.flying[slices.IndexFunc(d.flying, func(f flight) bool { return f.Endpoint != other })].Endpoint, a200)
	}
	sent := map[postrider.EndpointID]int{}
	for _, f := range d.sent {
		sent[f.Endpoint]++
	}
	for _, id := range ids {
		if sent[id] != 20 {
			t.Errorf("%d of 20 deliveries left to one of the endpoints at the host", sent[id])
		}
	}
}

func TestWhoWaitsForAHostGoesOnThoughTheNextInLineCannot(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{HostConcurrency: 1})
	one, paused, paced, last := d.endpoint("a.example", nil), d.endpoint("a.example", nil), d.endpoint("a.example", nil), d.endpoint("a.example", nil)
	for _, id := range []postrider.EndpointID{one, paused, paced, last} {
		d.publish(id, 1)
	}
	d.pause(paused)
	d.c.endpoints[paced].breaker.PacedUntil = d.now.Add(time.Hour)
	d.over(one, a200)
	d.expect(last, 1, "the host is free, and those before it in line may not start")
}

func TestAnEndpointThatMovesTakesItsAttemptsAlong(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{HostConcurrency: 4})
	mover, waiting := d.endpoint("a.example", nil), d.endpoint("a.example", nil)
	d.proves(mover, waiting)
	d.publish(mover, 4)
	d.publish(waiting, 4)
	d.expect(mover, 4, "the whole host")
	d.expect(waiting, 0, "the host is full")
	d.alter(mover, func(to *store.EndpointSnapshot) { to.Endpoint.URL = "https://b.example/" })
	d.expect(waiting, 4, "the host that was left")
	busy := d.endpoint("b.example", nil)
	d.proves(busy)
	d.publish(busy, 4)
	d.expect(busy, 0, "the host that was moved to is full")

	d.alter(busy, func(to *store.EndpointSnapshot) { to.Endpoint.URL = "https://c.example/" })
	d.expect(busy, 4, "one that waited for its host and left it")
	for _, id := range []postrider.EndpointID{mover, waiting, busy} {
		for range 4 {
			d.over(id, a200)
		}
	}
	d.wait(15 * time.Second)
	if len(d.c.hosts.byName) > 0 {
		t.Errorf("%d hosts are remembered", len(d.c.hosts.byName))
	}
}

func TestHostsAreToldApart(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://a.example": "a.example", "https://a.example:8443/x?y": "a.example", "http://[::1]:80/": "[::1]",
		"http://[::1]/": "[::1]", "https://10.0.0.1?x": "10.0.0.1",
	} {
		if got := hostOf(url); got != want {
			t.Errorf("hostOf(%q) = %q, want %q", url, got, want)
		}
	}
}

func TestStartsAreSpacedByTheRate(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	d.respond = func(*Delivery) postrider.Attempt { return a200 }
	slow := d.endpoint("a.example", func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 120, Per: time.Minute, Burst: 1} })
	fast := d.endpoint("a.example", func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 100, Per: time.Second} })
	d.publish(slow, 40)
	d.publish(fast, 300)
	other := d.endpoint("a.example", nil)
	d.publish(other, 1)
	if d.sent[len(d.sent)-1].Endpoint != other {
		t.Error("an endpoint whose rate is spent blocks another")
	}
	start := d.now
	d.wait(20 * time.Second)
	seen := map[postrider.EndpointID]int{}
	for _, f := range d.sent {
		at := f.left.Sub(start)
		switch n := seen[f.Endpoint]; f.Endpoint {
		case slow:
			if want := time.Duration(n) * 500 * time.Millisecond; at < want || at > want+10*time.Millisecond {
				t.Errorf("attempt %d at 2 a second left after %v, want %v", n, at, want)
			}
		case fast: // a tenth goes at once
			if want := time.Duration(max(0, n-9)) * 10 * time.Millisecond; at < want || at > want+50*time.Millisecond {
				t.Errorf("attempt %d at 100 a second left after %v, want %v", n, at, want)
			}
		}
		seen[f.Endpoint]++
	}
	if seen[slow] != 40 || seen[fast] != 300 {
		t.Errorf("%d of 40 and %d of 300 attempts left", seen[slow], seen[fast])
	}
}

func TestAFastRateIsSpentWhereAnotherNodeMayHaveSpentIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shared())
	rate := func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 20, Per: 10 * time.Second} }
	id := d.endpoint("a.example", rate)
	d.owns(store.Shard(id))
	d.publish(id, 4)
	d.expect(id, 0, "just taken over")
	d.wait(499 * time.Millisecond)
	d.expect(id, 0, "before an interval is over")
	d.wait(time.Millisecond)
	d.expect(id, 1, "after an interval")

	long := d.endpoint("a.example", rate)
	d.owns(store.Shard(id), store.Shard(long))
	d.hold(5 * time.Second)
	d.publish(long, 4)
	d.expect(long, 2, "this node's for longer than its burst takes to come back")
}

func TestASlowRateGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	rate := func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 1, Per: time.Hour} }
	d := newDesk(t, Options{})
	d.respond = func(*Delivery) postrider.Attempt { return a200 }
	d.slow = true
	id := d.endpoint("a.example", rate)
	d.publish(id, 1)
	if len(d.sent) != 1 || len(d.changes) != 1 || d.changes[0].RateFullAt != d.now.Add(time.Hour) {
		t.Fatalf("%d sent, and %+v is to be stored; want one, and an hour", len(d.sent), d.changes)
	}
	stored := d.grant().Circuit

	next := newDesk(t, Options{}) // after a restart ten minutes later
	next.respond = d.respond
	next.now = d.now.Add(10 * time.Minute)
	next.routed[id] = d.routed[id]
	next.step(CircuitsLoaded{[]postrider.Circuit{stored}})
	next.wait(2 * time.Second) // with nothing to send: endpoints that are at rest are forgotten
	next.publish(id, 2)
	for i := range 2 {
		n := len(next.sent)
		next.wait(50*time.Minute - time.Second - time.Duration(1-i)*2*time.Second)
		if len(next.sent) > n {
			t.Fatal("an attempt left before its time")
		}
		next.wait(time.Second)
		if len(next.sent) != n+1 {
			t.Fatal("no attempt left an hour after the last one")
		}
		next.wait(10 * time.Minute)
	}
	fresh := next.endpoint("b.example", rate)
	next.publish(fresh, 1)
	if next.sent[len(next.sent)-1].Endpoint != fresh {
		t.Error("a fresh endpoint was not sent to at once")
	}
}

func TestWhatWaitsForASlowRateLeavesAtItsTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	d.respond = func(*Delivery) postrider.Attempt { return a200 }
	id := d.endpoint("a.example", func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 3, Per: time.Minute} })
	start := d.now
	d.publish(id, 4)
	d.wait(time.Minute + time.Second)
	if len(d.sent) != 4 {
		t.Fatalf("%d of 4 attempts left in a minute", len(d.sent))
	}
	for i, f := range d.sent {
		if at, want := f.left.Sub(start), time.Duration(i)*20*time.Second; at != want {
			t.Errorf("attempt %d left after %v, want %v", i, at, want)
		}
	}
	if d.given > len(d.sent) {
		t.Errorf("%d leases were given back, want no delivery leased again and again", d.given)
	}
}

func TestALeaseThatIsGivenBackIsFoundThoughAClaimWasFaster(t *testing.T) {
	t.Parallel()
	c, now := fixture(func(p *postrider.Policy) { p.Concurrency = 1 })
	id := postrider.EndpointID{1}
	do := take(c, now, stored{started: admitted(c, now, id, id)})
	now = now.Add(16 * time.Second) // the lease of the second covers no attempt any more
	do = take(c, now, over(do.Send[0], a200))
	if len(do.Release) != 1 || do.Claim == nil {
		t.Fatalf("%d released, and claims %t; want one, and that it does", len(do.Release), do.Claim != nil)
	}
	nothing := ClaimReturned{Claim: do.Claim, Got: store.Claims{Lanes: make([]store.LaneState, len(do.Claim.Wants))}, AskedAt: now}
	if again := take(c, now, nothing); again.Claim != nil {
		t.Fatal("claimed again before the release is committed")
	}
	now = now.Add(time.Second)
	if again := take(c, now, LeasesReleased{do.Release}); again.Claim == nil {
		t.Error("the delivery is not looked for once it can be claimed")
	}
}

func TestANewRateCounts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	d.respond = func(*Delivery) postrider.Attempt { return a200 }
	id := d.endpoint("a.example", func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 1, Per: time.Hour} })
	d.publish(id, 50)
	d.wait(time.Minute)
	if len(d.sent) != 1 {
		t.Fatalf("%d attempts at one an hour", len(d.sent))
	}
	d.alter(id, func(to *store.EndpointSnapshot) { to.Endpoint.Policy.Rate = postrider.Rate{} })
	d.wait(time.Second)
	if len(d.sent) != 50 {
		t.Errorf("%d of 50 attempts left once there is no rate", len(d.sent))
	}
}

// owns tells the core that the shards are its own, for the usual time.
func (d *desk) owns(shards ...uint8) { d.shardsOf(0, shards...) }

func (d *desk) shardsOf(excess int, shards ...uint8) {
	slices.Sort(shards)
	d.step(heartbeatReply{store.Membership{Nodes: 2, Shards: shards, Surplus: excess}, d.now.Add(ttl), nil})
}

// hold waits, and says now and then that the shards are still the core's.
func (d *desk) hold(span time.Duration) {
	for ; span > 0; span -= time.Second {
		var own []uint8
		for shard, is := range d.c.shards.owned {
			if is {
				own = append(own, uint8(shard))
			}
		}
		d.owns(own...)
		d.wait(min(span, time.Second))
	}
}

// drained asks which shards can be given up.
func (d *desk) drained() []uint8 {
	return d.c.SurplusShards()
}

// admits reports whether a new delivery would be admitted, and ends that.
func (d *desk) admits(id postrider.EndpointID) bool {
	n := &store.NewDelivery{Endpoint: id, Lane: postrider.LaneFirst}
	d.step(admit{[]*store.NewDelivery{n}})
	if n.Token == 0 {
		return false
	}
	d.step(stored{dropped: []store.NewDelivery{*n}})
	return true
}

func TestTheEndpointsOfOtherNodesAreLeftAlone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shared())
	mine, theirs := d.endpoint("a.example", nil), d.endpoint("a.example", nil)
	d.owns(store.Shard(mine))
	if !d.admits(mine) || d.admits(theirs) {
		t.Errorf("admitted its own %t and another's %t", d.admits(mine), d.admits(theirs))
	}
	d.publish(mine, 2)
	d.rows[theirs] = []row{{d.now, postrider.Claimed{ID: postrider.DeliveryID{9}, Endpoint: theirs, Lane: postrider.LaneFirst}}}
	in := stored{waiting: []store.DueLane{{Endpoint: theirs, Lane: postrider.LaneFirst}}}
	d.c.step(d.now, in)
	do := d.c.Decide(d.now)
	if len(do.Notify) != 1 || do.Notify[0].Endpoint != theirs {
		t.Errorf("others hear of %v, want what was published for another node", do.Notify)
	}
	d.step(LanesDue{Lanes: []store.DueLane{{Endpoint: theirs, Lane: postrider.LaneFirst}}})
	d.c.step(d.now, woken{theirs})
	if do := d.c.Decide(d.now); len(do.LookAt) != 1 || do.LookAt[0] != theirs {
		t.Errorf("%v are to be looked at by others, want the woken endpoint", do.LookAt)
	}
	d.hold(time.Minute)
	d.expect(mine, 2, "its own")
	if len(d.sent) != 2 || d.claims != 2 || d.c.endpoints[theirs] != nil {
		t.Errorf("%d sent, %d claimed, want its own 2, and nothing known of another's endpoint", len(d.sent), d.claims)
	}
}

func TestAShardIsGivenUpOnceNothingOfItIsInHand(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shared())
	id := d.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 1 })
	free := d.endpoint("a.example", nil)
	d.owns(store.Shard(id), store.Shard(free))
	d.publish(id, 3)
	if got := d.drained(); got != nil {
		t.Errorf("%v are given up, want none of its share", got)
	}
	d.c.step(d.now, heartbeatReply{store.Membership{Nodes: 2, Shards: []uint8{store.Shard(id), store.Shard(free)}, Surplus: 2}, d.now.Add(5 * time.Second), nil})
	do := d.c.Decide(d.now)
	if len(do.Release) == 0 || do.Claim != nil {
		t.Fatalf("%d leases are given back and %v is claimed, want what is held and nothing", len(do.Release), do.Claim)
	}
	if d.admits(id) || d.admits(free) {
		t.Error("a delivery is admitted to a shard that is given up")
	}
	gives := func(want bool, when string) {
		t.Helper()
		if got := d.drained(); slices.Contains(got, store.Shard(id)) != want || !slices.Contains(got, store.Shard(free)) {
			t.Errorf("%s: shards %v can go; the busy one should be among them: %t, the free one always", when, got, want)
		}
	}
	gives(false, "in flight, and leases on their way back")
	d.c.step(d.now, over(d.flying[0].Delivery, a200))
	d.flying = nil
	answered := d.c.Decide(d.now)
	gives(false, "not settled")
	d.step(d.settle(answered.Settle))
	gives(false, "leases on their way back")
	d.step(d.release(do.Release))
	gives(true, "nothing in hand")
	d.owns(store.Shard(id))
	d.expect(id, 1, "kept after all")
}

func TestTheSameShardsAreGivenUpUntilTheyAreGone(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shared())
	d.shardsOf(1, 3, 4)
	first := d.drained()
	d.shardsOf(2, 3, 4, 5, 6)
	if got := d.drained(); len(first) != 1 || len(got) != 2 || !slices.Contains(got, first[0]) {
		t.Errorf("shards %v are given up after %v", got, first)
	}
}

func TestALapsedOwnershipStartsNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shared())
	id := d.endpoint("a.example", nil)
	d.publish(id, 1)
	d.expect(id, 0, "before the first heartbeat")
	d.owns(store.Shard(id))
	d.publish(id, 30)
	d.expect(id, 10, "by the heartbeat")
	d.wait(5 * time.Second)
	claims := d.claims
	for range 10 {
		d.over(id, a200)
	}
	d.expect(id, 0, "after the ownership lapsed")
	if d.admits(id) || d.claims != claims {
		t.Errorf("%d deliveries were claimed, or one admitted, after the ownership lapsed", d.claims-claims)
	}
	d.owns(store.Shard(id))
	d.expect(id, 10, "by a new heartbeat")
}

func TestWhatIsInFlightWhenAShardIsLostEndsAsItDoes(t *testing.T) {
	t.Parallel()
	d := newDesk(t, shared())
	id := d.endpoint("a.example", nil)
	d.owns(store.Shard(id))
	d.publish(id, 30)
	d.over(id, silence) // it is degraded now
	d.owns()
	d.owns(7)
	for range 9 {
		d.over(id, silence)
	}
	d.hold(2 * time.Second)
	if len(d.settled) != 10 || len(d.c.endpoints) != 0 || d.c.slots.inFlightOf[unreliable]+d.c.slots.inFlightOf[failedOnce] != 0 || d.c.slots.credit != 0 {
		t.Errorf("%d settled, %d endpoints, %d suspected, %d in hand; want 10, 0, 0, 0",
			len(d.settled), len(d.c.endpoints), d.c.slots.inFlightOf[unreliable]+d.c.slots.inFlightOf[failedOnce], d.c.slots.credit)
	}
}

func TestTheNextOfAKeyIsClaimedAtOnce(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	do := take(c, now, stored{started: admitted(c, now, id)})
	do = take(c, now, over(do.Send[0], a200))
	if len(do.Settle) != 1 || do.Claim != nil {
		t.Fatalf("%d settled, claimed %v; want 1 and nothing", len(do.Settle), do.Claim)
	}
	do = take(c, now, SettlementsCommitted{do.Settle, []store.Settled{{Next: postrider.LaneRetry}}})
	if do.Claim == nil || len(do.Claim.Wants) != 1 || do.Claim.Wants[0].Lane != postrider.LaneRetry || do.Claim.Wants[0].Endpoint != id {
		t.Errorf("claim %+v, want the retry lane of the endpoint", do.Claim)
	}
}

func TestNothingGrows(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{Concurrency: 200, HostConcurrency: 2})
	answers := []postrider.Attempt{a200, a500, a429, silence, a503, a200}
	d.respond = func(it *Delivery) postrider.Attempt {
		if it.Attempt > 2 {
			return a200
		}
		return answers[int(it.ID[15])%len(answers)]
	}
	for i := range 3000 {
		id := d.endpoint(fmt.Sprintf("h%d.example", i%700), func(p *postrider.Policy) {
			p.AdaptiveTimeout = i%2 == 0
			if i%3 == 0 {
				p.Rate = postrider.Rate{Attempts: 10, Per: time.Second}
			}
		})
		d.publish(id, 3)
		switch i % 50 {
		case 0:
			d.wait(time.Second)
		case 7:
			delete(d.routed, id)
			d.step(changed{id})
		case 9:
			d.alter(id, func(to *store.EndpointSnapshot) { to.Endpoint.URL = "https://elsewhere.example" })
		}
	}
	d.wait(30 * time.Minute)
	c := d.c
	for _, ep := range c.endpoints {
		if ep.isQuiet(d.now) {
			t.Errorf("an endpoint is remembered of which there is nothing to know: %+v", ep)
		}
	}
	for id := range d.routed { // what failed last is remembered for as long as it is there
		delete(d.routed, id)
		d.step(changed{id})
	}
	d.wait(time.Minute)
	if n := len(c.endpoints) + len(c.hosts.byName) + len(c.timers) + len(c.admissions.underWay) + c.slots.credit + c.slots.inFlight + c.circuits.probes + c.commits.unsettled; n > 0 {
		t.Errorf("%d endpoints, %d hosts, %d timers, %d admissions, %d in hand, %d in flight, %d probes, %d unsettled are left",
			len(c.endpoints), len(c.hosts.byName), len(c.timers), len(c.admissions.underWay), c.slots.credit, c.slots.inFlight, c.circuits.probes, c.commits.unsettled)
	}
	for name, r := range map[string]*queue{
		"healthy": &c.ready.queues[healthy], "failed once": &c.ready.queues[failedOnce], "chronic": &c.ready.queues[unreliable],
		"to be probed": &c.circuits.waiting, "silent": &c.unproven, "to lease once": &c.degraded[failedOnce], "to lease chronic": &c.degraded[unreliable],
		"patient": &c.bulk.waiting, "claimable": &c.claims.waiting,
	} {
		if r.len() > 0 || cap(r.eps) > 8192 {
			t.Errorf("%d endpoints and room for %d are left among the %s", r.len(), cap(r.eps), name)
		}
	}
	if c.shards.busy != [store.Shards]int{} {
		t.Error("shards are busy with nothing")
	}
}

func TestWhatIsIdleIsForgottenAtTheSecondLook(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", nil)
	d.wait(time.Second)
	d.publish(id, 1)
	d.over(id, a200)
	d.wait(300 * time.Millisecond)
	ep := d.c.endpoints[id]
	if ep == nil {
		t.Fatal("an endpoint was forgotten at the first look")
	}
	d.publish(id, 1)
	if d.over(id, a200); d.c.endpoints[id] != ep {
		t.Error("an endpoint that is in use was forgotten")
	}
	d.wait(3 * time.Second)
	if len(d.c.endpoints) > 0 {
		t.Error("an idle endpoint is remembered")
	}
}

func TestEndpointsAtAFullHostHoldWhatTheyCouldStart(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{HostConcurrency: 2})
	first, second, third := d.endpoint("a.example", nil), d.endpoint("a.example", nil), d.endpoint("a.example", nil)
	d.publish(first, 2)
	d.publish(second, 1)
	d.publish(third, 30)
	d.publish(second, 30)
	for _, id := range []postrider.EndpointID{second, third} {
		if n := d.c.endpoints[id].prefetchedCount(); n != 1 {
			t.Errorf("%d deliveries are held at a full host, want one", n)
		}
	}
	d.respond = func(*Delivery) postrider.Attempt { return a200 }
	for range 2 {
		d.over(first, a200)
	}
	d.wait(time.Second)
	if len(d.sent) != 63 || d.c.hosts.byName["a.example"] != nil && d.c.hosts.byName["a.example"].full {
		t.Errorf("%d of 63 left, and the host is not free", len(d.sent))
	}
}

func TestTheStoresClockCountsForWhatIsStored(t *testing.T) {
	t.Parallel()
	const ahead = 10 * time.Minute
	d := newDesk(t, shared())
	d.slow = true
	open, expired := d.endpoint("a.example", nil), d.endpoint("a.example", nil)
	theirs := d.now.Add(ahead)
	d.c.ahead = ahead
	r := store.Membership{Nodes: 2, Shards: []uint8{store.Shard(open), store.Shard(expired)}}
	d.step(heartbeatReply{r, d.now.Add(ttl), []postrider.Circuit{{
		Endpoint: open, Status: postrider.CircuitOpen, OpenedAt: theirs.Add(-time.Minute), ProbeAt: theirs.Add(2 * time.Second),
		FailingSince: theirs.Add(-time.Hour), Cooldown: time.Minute, Generation: 3,
	}}})
	ours := d.c.endpoint(open).breaker.Circuit
	if ours.OpenedAt != d.now.Add(-time.Minute) || ours.ProbeAt != d.now.Add(2*time.Second) || ours.FailingSince != d.now.Add(-time.Hour) {
		t.Errorf("the circuit is known as %+v, want its times by this node's clock", ours)
	}
	d.publish(open, 1)
	d.wait(1900 * time.Millisecond)
	if len(d.changes) > 0 {
		t.Error("probed before its time")
	}
	d.wait(100 * time.Millisecond)
	until := d.now.Add(ahead + 10*time.Second + d.c.opts.LeaseMargin)
	if len(d.changes) != 1 || d.changes[0].ProbeAt != until || d.changes[0].OpenedAt != theirs.Add(-time.Minute) || d.changes[0].FailingSince != theirs.Add(-time.Hour) {
		t.Errorf("%+v is to be stored, want its times by the store's clock, and a probe until %v", d.changes, until)
	}

	for i, left := range []time.Duration{ahead - time.Second, ahead + time.Second} {
		d.rows[expired] = append(d.rows[expired], row{d.now, postrider.Claimed{
			ID: postrider.DeliveryID{9, byte(i)}, Endpoint: expired, Event: &postrider.Event{Data: []byte("1")},
			Lane: postrider.LaneFirst, ExpiresAt: d.now.Add(left),
		}})
	}
	d.step(woken{expired})
	d.expect(expired, 1, "one is not expired by the store's clock")
	if len(d.settled) != 1 || d.settled[0].Transition.Reason != postrider.ReasonExpired || d.settled[0].Claimed.ID[1] != 0 {
		t.Errorf("%v are settled, want the one that is expired", d.settled)
	}
}
