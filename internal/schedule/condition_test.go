package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestACircuitOpensAndCostsWhatWaitsNoAttempt(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 2 })
	d.publish(id, 20)
	for range 5 {
		d.over(id, a500)
	}
	d.expect(id, 1, "the circuit opened with one attempt on its way")
	ep := d.c.endpoints[id]
	if !ep.isOpen() || ep.prefetchedCount() > 0 || d.given == 0 {
		t.Errorf("broken %t, %d held, %d given back; want an open circuit that gives back what is held", ep.isOpen(), ep.prefetchedCount(), d.given)
	}
	claims := d.claims
	d.over(id, a200)
	d.publish(id, 1)
	d.wait(59 * time.Second)
	if len(d.flying) > 0 || d.claims != claims {
		t.Errorf("%d attempts left and %d deliveries were claimed while the circuit is open", len(d.flying), d.claims-claims)
	}
	if len(d.settled) != 6 {
		t.Errorf("%d attempts settled, want the 6 that were made", len(d.settled))
	}
}

func TestAProbeLeavesOnceTheStoreGrantsIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", func(p *postrider.Policy) { p.AdaptiveTimeout = true })
	d.failBy(id, silence)
	d.publish(id, 20)
	d.slow = true
	d.wait(time.Minute)
	if len(d.changes) != 1 || d.changes[0].Status != postrider.CircuitHalfOpen || len(d.flying) > 0 {
		t.Fatalf("after the cooldown %v is to be stored and %d attempts left, want half open and none", d.changes, len(d.flying))
	}
	d.wait(5 * time.Second)
	d.expect(id, 0, "not granted yet")
	d.step(d.grant())
	d.expect(id, 1, "granted")
	if probe := d.flying[0]; !probe.Probe || probe.Timeout != 10*time.Second {
		t.Errorf("probe %t with a timeout of %v, want one with all of it", probe.Probe, probe.Timeout)
	}
	d.publish(id, 5)
	d.wait(9 * time.Second)
	d.expect(id, 1, "a probe is under way")
	d.over(id, a500)
	d.step(d.grant())
	d.wait(59 * time.Second)
	d.expect(id, 0, "the probe failed, for as long again")
	d.wait(time.Second)
	d.step(d.grant())
	d.expect(id, 1, "the next probe")
}

func TestAProbeThatIsNotGrantedIsAnothers(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", nil)
	d.fail(id)
	d.publish(id, 3)
	d.slow = true
	d.wait(time.Minute)
	theirs := d.changes[0]
	theirs.Generation, theirs.ProbeAt = 7, d.now.Add(25*time.Second)
	d.changes = nil
	d.step(CircuitStored{theirs, fmt.Errorf("put circuit: %w", postrider.ErrConflict)})
	d.wait(24 * time.Second)
	if len(d.flying)+len(d.changes) > 0 {
		t.Errorf("%d attempts left and %v is to be stored while another probes", len(d.flying), d.changes)
	}
	if got := d.c.endpoints[id].breaker.Circuit; got != theirs {
		t.Errorf("circuit %+v, want the stored %+v", got, theirs)
	}
	d.wait(time.Second)
	if len(d.changes) != 1 || d.changes[0].Generation != 7 {
		t.Errorf("%v is to be stored, want a probe of what is stored, since the other never came back", d.changes)
	}
}

func TestAProbeThatTheStoreDidNotHearOfIsAskedAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", nil)
	d.fail(id)
	d.slow = true
	d.wait(time.Minute)
	circuit := d.changes[0]
	d.changes = nil
	d.step(CircuitStored{circuit, postrider.ErrBusy})
	d.wait(24 * time.Second)
	d.expect(id, 0, "not granted")
	d.wait(time.Second)
	d.step(d.grant())
	d.expect(id, 1, "granted at last")
}

func TestAProbeWhoseDeliveryHasGoneIsAskedAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", nil)
	d.fail(id)
	clear(d.rows) // cancelled, all of it
	d.wait(2 * time.Minute)
	d.expect(id, 0, "nothing to probe with")
	d.slow = true
	d.publish(id, 3)
	d.expect(id, 0, "what was granted is too old")
	d.step(d.grant())
	d.expect(id, 1, "something to probe with")
	if !d.flying[0].Probe {
		t.Error("the attempt is no probe")
	}
}

func TestAClosedCircuitStartsSlowlyAndOldestFirst(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 10 })
	d.fail(id)
	clear(d.rows)
	d.publish(id, 60)
	d.wait(time.Minute)
	d.expect(id, 1, "the probe")
	d.over(id, a200)
	for _, want := range []int{1, 2, 4, 8, 10} {
		d.expect(id, want, "a round of a closed circuit")
		for range d.inFlight(id) {
			last := d.flying
			d.flying = last[:1:1]
			it := d.flying[0].Delivery
			d.flying = last[1:]
			it.Result = a200
			d.c.step(d.now, Attempted{it})
		}
		d.step()
	}
	for i := 6; i < len(d.sent); i++ {
		if d.sent[i].ID.Compare(d.sent[i-1].ID) < 0 {
			t.Errorf("request %d is of an older delivery than the one before", i)
		}
	}
}

func TestACircuitThatAPersonSetIsAdopted(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", nil)
	set := func(s postrider.CircuitStatus, generation int64) {
		d.alter(id, func(to *store.EndpointSnapshot) {
			b := postrider.Breaker{Circuit: to.Circuit}
			b.Set(s, d.now, to.Endpoint.Policy.Circuit)
			to.Circuit = b.Circuit
			to.Circuit.Endpoint, to.Circuit.Generation = id, generation
		})
	}
	d.publish(id, 20)
	d.expect(id, 10, "closed")
	set(postrider.CircuitOpen, 5)
	for range 10 {
		d.over(id, a200)
	}
	d.wait(29 * time.Minute)
	d.expect(id, 0, "opened by a person")
	set(postrider.CircuitClosed, 4)
	d.expect(id, 0, "an older version")
	set(postrider.CircuitHalfOpen, 6)
	d.expect(id, 1, "a person asks for a probe")
	set(postrider.CircuitClosed, 9)
	d.over(id, a200)
	d.expect(id, 2, "closed by a person, and one was accepted")

	// One that the node had nothing to do with yet.
	id = d.endpoint("a.example", nil)
	set(postrider.CircuitOpen, 1)
	d.publish(id, 1)
	d.expect(id, 0, "opened before there was anything")
}

func TestASilentEndpointGetsOneSlot(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", func(p *postrider.Policy) { p.Circuit.Failures, p.Circuit.Percent, p.Circuit.Attempts = 0, 0, 0 })
	d.publish(id, 50)
	d.expect(id, 10, "at first")
	for range 10 {
		d.over(id, silence)
	}
	d.expect(id, 1, "after silence")
	d.over(id, silence)
	d.expect(id, 1, "after more of it")
	d.over(id, a200)
	d.expect(id, 10, "after an answer")
}

func TestUnreliableEndpointsShareATenthOfTheSlots(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{Concurrency: 50})
	var ids []postrider.EndpointID
	for range 20 {
		id := d.endpoint("a.example", nil)
		ids = append(ids, id)
		for range 2 {
			d.publish(id, 1)
			d.over(id, silence)
		}
		d.publish(id, 1)
	}
	if got := d.inFlight(ids...); got != 5 {
		t.Errorf("%d attempts in flight to chronic endpoints, want a tenth of the slots: 5", got)
	}
	healthy := d.endpoint("b.example", func(p *postrider.Policy) { p.Concurrency = 100 })
	d.proves(healthy)
	d.publish(healthy, 100)
	d.expect(healthy, 32, "a healthy endpoint takes all that it may have")
}

func TestAnEndpointThatFailedOnceDoesNotWaitBehindChronicOnes(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{Concurrency: 10})
	blocker, often, once := d.endpoint("a.example", nil), d.endpoint("a.example", nil), d.endpoint("a.example", nil)
	for _, id := range []postrider.EndpointID{blocker, blocker, often, often, once} {
		d.publish(id, 1)
		d.over(id, silence)
	}
	d.publish(blocker, 1) // the one slot of the chronic
	d.publish(often, 1)
	d.publish(once, 1)
	d.expect(often, 0, "behind another chronic one")
	d.expect(once, 1, "beside them")
	d.over(once, silence)
	d.publish(once, 1)
	d.expect(once, 0, "that failed twice")
	d.over(blocker, a200)
	d.expect(often, 1, "once the other has answered")
}

func TestAnEndpointThatDoesNotAnswerGetsNoMoreSlotsWhenTheyAreScarce(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{Concurrency: 20, HostConcurrency: 20})
	hangs := d.endpoint("a.example", nil)
	answers := d.endpoint("b.example", nil)
	d.publish(hangs, 10)
	d.expect(hangs, 10, "while slots are free")
	other := d.endpoint("c.example", nil)
	d.publish(other, 3)
	d.expect(other, 1, "a second slot before the first answer")
	d.publish(answers, 10)
	d.over(answers, a200)
	d.expect(answers, 9, "after an answer")
	d.wait(2 * time.Second)
	d.expect(other, 1, "and no more")
	for d.inFlight(answers) > 0 {
		d.over(answers, a200)
	}
	if d.inFlight(hangs) < 2 {
		t.Fatal("what hangs has ended by itself")
	}
	d.over(hangs, silence)
	d.over(hangs, silence)
	d.wait(time.Second)
	if got := d.inFlight(other); got < 2 {
		t.Errorf("%d attempts in flight once half of the slots are free, want more than one", got)
	}
}

func TestABlackHoledCrowdHoldsItsShareOfTheSlots(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{HostConcurrency: 1024})
	crowd := map[postrider.EndpointID]bool{}
	for i := range 1000 {
		id := d.endpoint(fmt.Sprintf("hole%d.example", i%4), nil)
		crowd[id] = true
	}
	d.respond = func(it *Delivery) postrider.Attempt {
		if crowd[it.Endpoint] {
			return postrider.Attempt{Outcome: postrider.OutcomeTimedOut, Duration: it.Timeout}
		}
		return a200
	}
	for id := range crowd {
		d.publish(id, 5)
	}
	d.wait(60 * time.Second) // each was silent once, after 1,000 × 5 × 10 s / 1,024 slots at most
	healthy := d.endpoint("healthy.example", nil)
	for range 240 {
		d.wait(250 * time.Millisecond)
		d.publish(healthy, 1)
		if d.sent[len(d.sent)-1].Endpoint != healthy {
			t.Fatal("a delivery to a healthy endpoint did not leave at once")
		}
		// A tenth for each class, and a quarter for the probes.
		if n := d.inFlight() - d.inFlight(healthy); n > 102+102+256 {
			t.Fatalf("%d attempts in flight to endpoints that never answer, want 460 at most", n)
		}
	}
}

func TestRetryAfterPacesExactly(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", nil)
	d.publish(id, 20)
	asked := a429
	asked.RetryAfter = 90 * time.Second
	at := d.now
	for range 10 {
		d.over(id, asked)
	}
	d.wait(89*time.Second + 999*time.Millisecond)
	d.expect(id, 0, "it asked for 90 s")
	d.wait(time.Second)
	if left := d.sent[10].left.Sub(at); left != 90*time.Second {
		t.Errorf("the next attempt left after %v, want 90 s", left)
	}
	d.expect(id, 5, "half of its slots")
}

func TestThrottlingHalvesAndRecovers(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]postrider.Attempt{"429": a429, "503": a503} {
		d := newDesk(t, Options{})
		id := d.endpoint("a.example", func(p *postrider.Policy) {
			p.Concurrency, p.Circuit = 16, postrider.CircuitPresets["never"]
		})
		d.publish(id, 200)
		for _, want := range []int{8, 4, 2, 1} {
			for range d.inFlight(id) { // one round, however many of it are throttled, counts once
				d.over(id, a)
			}
			if got := d.c.endpoints[id].maxInFlight(); got != want {
				t.Errorf("%s: %d slots, want %d", name, got, want)
			}
			d.wait(time.Second)
		}
		for rounds := 0; d.inFlight(id) < 16 && rounds < 20; rounds++ {
			for range d.inFlight(id) {
				d.over(id, a200)
			}
		}
		d.expect(id, 16, name+" and recovers")
	}
}

func TestThrottlingASingleSlotPausesUpToASecond(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", func(p *postrider.Policy) {
		p.Concurrency, p.Circuit = 1, postrider.CircuitPresets["never"]
		p.Retry = postrider.RetryPolicy{Base: time.Millisecond, Factor: 1, Cap: time.Millisecond, MaxAttempts: 100}
	})
	d.publish(id, 20)
	var pauses []time.Duration
	pause := func(a postrider.Attempt) {
		at, n := d.now, len(d.sent)
		d.over(id, a)
		for len(d.sent) == n {
			d.wait(time.Millisecond)
		}
		pauses = append(pauses, d.sent[n].left.Sub(at))
	}
	for range 10 {
		pause(a503)
	}
	pause(a200)
	for range 6 {
		pause(a429)
	}
	want := []int{5, 10, 20, 40, 80, 160, 320, 640, 1000, 1000, 0, 5, 10, 20, 40, 80, 100}
	for i := range want {
		if pauses[i] != time.Duration(want[i])*time.Millisecond {
			t.Fatalf("paused for %v, want %v ms", pauses, want)
		}
	}
	if d.given > 0 {
		t.Errorf("%d leases were given back for a pause", d.given)
	}
}

func TestAnEndpointThatTimesOutGetsLessTime(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", func(p *postrider.Policy) {
		p.Concurrency, p.AdaptiveTimeout, p.Circuit = 1, true, postrider.CircuitPresets["never"]
	})
	plain := d.endpoint("b.example", func(p *postrider.Policy) { p.Concurrency, p.Circuit = 1, postrider.CircuitPresets["never"] })
	d.publish(id, 20)
	d.publish(plain, 20)
	var got []time.Duration
	for range 12 {
		for _, f := range d.flying {
			if f.Endpoint == id {
				got = append(got, f.Timeout)
			} else if f.Timeout != 10*time.Second {
				t.Errorf("a timeout of %v without having asked for that", f.Timeout)
			}
		}
		d.over(id, silence)
		d.over(plain, silence)
	}
	want := []int{10000, 10000, 10000, 5000, 5000, 5000, 2500, 2500, 2500, 10000, 1250, 1250}
	for i := range want {
		if got[i] != time.Duration(want[i])*time.Millisecond {
			t.Fatalf("timeouts %v, want %v ms", got, want)
		}
	}
	d.over(id, a500)
	d.expect(id, 1, "after an answer")
	if last := d.sent[len(d.sent)-1]; last.Timeout != 10*time.Second {
		t.Errorf("a timeout of %v after an answer in time, want all of it", last.Timeout)
	}
}

func TestACircuitThatEverChangedIsStoredAtTheFirstTry(t *testing.T) {
	t.Parallel()
	since := time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC)
	closed := func(id postrider.EndpointID) []postrider.Circuit {
		return []postrider.Circuit{{Endpoint: id, Status: postrider.CircuitClosed, Generation: 3}}
	}
	for name, learn := range map[string]func(*desk, postrider.EndpointID){
		"it was forgotten": func(d *desk, id postrider.EndpointID) {
			d.fail(id) // stored with generation 1, half open 2, closed 3, trusted 4
			d.wait(time.Minute)
			d.publish(id, 60)
			for len(d.flying) > 0 {
				d.over(id, a200)
			}
			d.wait(3 * time.Second)
			if d.c.endpoints[id] != nil {
				t.Fatal("the endpoint is not forgotten")
			}
		},
		"at the start": func(d *desk, id postrider.EndpointID) { d.step(CircuitsLoaded{closed(id)}) },
		"with a shard": func(d *desk, id postrider.EndpointID) {
			d.step(heartbeatReply{store.Membership{Nodes: 2, Shards: []uint8{store.Shard(id)}}, d.now.Add(ttl), closed(id)})
		},
	} {
		d := newDesk(t, Options{})
		if name == "with a shard" {
			d = newDesk(t, shared())
		}
		id := d.endpoint("a.example", nil)
		learn(d, id)
		d.slow = true
		known := d.c.version(id)
		if d.fail(id); len(d.changes) != 1 || known < 3 || d.changes[0].Generation != known {
			t.Errorf("%s: %+v is to be stored, want an open circuit after generation %d", name, d.changes, known)
		}
	}

	d := newDesk(t, Options{})
	id := d.endpoint("a.example", nil)
	failing := closed(id)
	failing[0].FailingSince = since
	d.step(CircuitsLoaded{failing})
	d.slow = true
	d.publish(id, 1)
	d.over(id, a200)
	if len(d.changes) != 1 || !d.changes[0].FailingSince.IsZero() || d.changes[0].Generation != 3 {
		t.Errorf("%+v is to be stored, want that it does not fail any more", d.changes)
	}
}

func TestACircuitThatOpenedIsStoredOverAnOlderOneThatIsClosed(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", nil)
	d.slow = true
	d.fail(id)
	theirs := postrider.Circuit{Endpoint: id, Status: postrider.CircuitClosed, Generation: 7}
	d.changes = nil
	d.step(CircuitStored{theirs, fmt.Errorf("put circuit: %w", postrider.ErrConflict)})
	if len(d.changes) != 1 || d.changes[0].Status != postrider.CircuitOpen || d.changes[0].Generation != 7 || !d.c.endpoints[id].isOpen() {
		t.Fatalf("%+v is to be stored, want the open circuit over generation 7", d.changes)
	}
	d.step(d.grant())
	if got := d.c.version(id); got != 8 {
		t.Errorf("generation %d is known, want the stored 8", got)
	}
}

func TestAnEndpointThatIsGoneAndCouldNotBeDisabledIsSentTo(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	id := postrider.EndpointID{1}
	gone := postrider.Attempt{Outcome: postrider.OutcomeGone, StatusCode: 410, Duration: time.Millisecond}
	found := LanesDue{Lanes: []store.DueLane{{Endpoint: id, Lane: postrider.LaneFirst}}}
	for range 2 {
		do := take(c, now, stored{started: admitted(c, now, id)})
		if len(do.Send) != 1 {
			t.Fatalf("%d sent, want 1", len(do.Send))
		}
		it := do.Send[0]
		if do = take(c, now, over(it, gone), found); len(do.Disable) != 1 || do.Disable[0] != id || do.Claim != nil {
			t.Fatalf("%v to be disabled and claimed %v, want the endpoint that answered 410, and nothing", do.Disable, do.Claim)
		}
		do = take(c, now, NotDisabled{id})
		if do.Claim == nil {
			t.Fatal("an endpoint that could not be disabled is left alone")
		}
		nothing := ClaimReturned{Claim: do.Claim, Got: store.Claims{Lanes: make([]store.LaneState, len(do.Claim.Wants))}, AskedAt: now}
		take(c, now, nothing)
	}
}

func TestAnEndpointThatRecoversDoesNotWaitAmongTheDegraded(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{Concurrency: 10})
	blocker, id := d.endpoint("a.example", nil), d.endpoint("b.example", nil)
	for range 2 {
		d.publish(blocker, 1)
		d.over(blocker, silence)
	}
	d.publish(blocker, 1) // the one slot of the chronic
	d.step(CircuitsLoaded{[]postrider.Circuit{{Endpoint: id, Status: postrider.CircuitClosed, Cooldown: time.Minute, Generation: 3}}})
	d.publish(id, 1)
	d.expect(id, 0, "not trusted yet")
	d.alter(id, func(to *store.EndpointSnapshot) {
		to.Circuit = postrider.Circuit{Endpoint: id, Status: postrider.CircuitClosed, Generation: 4}
	})
	d.expect(id, 1, "trusted again")
	d.expect(blocker, 1, "degraded as before")
}

func TestWithoutAdaptiveTimeoutAllOfItIsGivenBack(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", func(p *postrider.Policy) {
		p.Concurrency, p.AdaptiveTimeout, p.Circuit = 1, true, postrider.CircuitPresets["never"]
	})
	d.publish(id, 20)
	for range 6 {
		d.over(id, silence)
	}
	if got := d.flying[0].Timeout; got != 2500*time.Millisecond {
		t.Fatalf("a timeout of %v after six, want 2.5 s", got)
	}
	for _, adaptive := range []bool{false, true} {
		d.alter(id, func(to *store.EndpointSnapshot) { to.Endpoint.Policy.AdaptiveTimeout = adaptive })
		d.over(id, silence)
		if got := d.flying[0].Timeout; got != 10*time.Second {
			t.Errorf("a timeout of %v once it was switched off, adaptive now %t, want 10 s", got, adaptive)
		}
	}
}

func TestTheFirstResponseCountsFully(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", nil)
	d.publish(id, 2)
	slow := a200
	slow.Duration = 8 * time.Second
	d.over(id, slow)
	if got := d.c.endpoints[id].latency; got != 8*time.Second {
		t.Errorf("the latency is %v after a response of 8 s", got)
	}
	d.over(id, postrider.Attempt{Outcome: postrider.OutcomeAccepted, StatusCode: 200})
	if got := d.c.endpoints[id].latency; got != 7*time.Second {
		t.Errorf("the latency is %v after another one at once, want an eighth less", got)
	}
}

func TestNothingIsRememberedOfADeletedEndpoint(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", nil)
	d.step(CircuitsLoaded{[]postrider.Circuit{{Endpoint: id, Status: postrider.CircuitClosed, Generation: 3}}})
	if len(d.c.remembered) != 1 {
		t.Fatal("the version of a circuit is not remembered")
	}
	d.publish(id, 1)
	d.over(id, a200)
	d.wait(3 * time.Second)
	if len(d.c.endpoints) != 0 || d.c.version(id) != 3 {
		t.Fatalf("%d endpoints in memory and version %d, want none and 3", len(d.c.endpoints), d.c.version(id))
	}
	delete(d.routed, id)
	d.step(changed{id})
	if len(d.c.remembered) != 0 {
		t.Error("a deleted endpoint is remembered")
	}
}
