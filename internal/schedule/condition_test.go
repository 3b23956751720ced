package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestAnOpenCircuitCostsWaitingDeliveriesNoAttempt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 2 })
	h.publish(id, 20)
	for range 5 {
		h.over(id, a500)
	}
	h.expect(id, 1, "the circuit opened with one attempt on its way")
	ep := h.c.endpoints[id]
	if !ep.isOpen() || ep.prefetchedCount() > 0 || h.given == 0 {
		t.Errorf("broken %t, %d held, %d given back; want an open circuit that gives back what is held", ep.isOpen(), ep.prefetchedCount(),
			h.given)
	}
	claims := h.claims
	h.over(id, a200)
	h.publish(id, 1)
	h.wait(59 * time.Second)
	if len(h.underWay) > 0 || h.claims != claims {
		t.Errorf("%d attempts left and %d deliveries were claimed while the circuit is open", len(h.underWay), h.claims-claims)
	}
	if len(h.settled) != 6 {
		t.Errorf("%d attempts settled, want the 6 that were made", len(h.settled))
	}
}

func TestACircuitWithNothingToProbeWithDoesNotCount(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	idle := h.endpoint("idle.example", func(p *postrider.Policy) { p.Retry.MaxAttempts = 1 })
	busy := h.endpoint("busy.example", func(p *postrider.Policy) { p.Retry.Base, p.Retry.Cap = time.Hour, time.Hour })
	count := func(want int, when string) {
		t.Helper()
		if open := h.c.OpenCircuits(h.now); len(open) != want {
			t.Errorf("%s: %d circuits count, want %d", when, len(open), want)
		}
	}
	h.fail(idle)
	h.fail(busy)
	h.wait(59 * time.Second)
	count(2, "in the cooldown")
	h.wait(10 * time.Minute)
	count(1, "after it, one has dead letters alone and one a retry that is not due")
	h.publish(idle, 1)
	h.expect(idle, 1, "the delivery is the probe")
	count(2, "while it is under way")
	h.over(idle, a500)
	count(2, "in the next cooldown")
}

func TestAProbeLeavesOnceTheStoreGrantsIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", func(p *postrider.Policy) { p.AdaptiveTimeout = true })
	h.failBy(id, silence)
	h.publish(id, 20)
	h.slow = true
	h.wait(time.Minute)
	if len(h.changes) != 1 || h.changes[0].Status != postrider.CircuitHalfOpen || len(h.underWay) > 0 {
		t.Fatalf("after the cooldown %v is to be stored and %d attempts left, want half open and none", h.changes, len(h.underWay))
	}
	h.wait(5 * time.Second)
	h.expect(id, 0, "not granted yet")
	h.step(h.grant())
	h.expect(id, 1, "granted")
	if probe := h.underWay[0]; !probe.Probe || probe.Timeout != 10*time.Second {
		t.Errorf("probe %t with a timeout of %v, want one with all of it", probe.Probe, probe.Timeout)
	}
	h.publish(id, 5)
	h.wait(9 * time.Second)
	h.expect(id, 1, "a probe is under way")
	h.over(id, a500)
	h.step(h.grant())
	h.wait(59 * time.Second)
	h.expect(id, 0, "the probe failed, for as long again")
	h.wait(time.Second)
	h.step(h.grant())
	h.expect(id, 1, "the next probe")
}

func TestAProbeThatIsNotGrantedIsAnothers(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	h.fail(id)
	h.publish(id, 3)
	h.slow = true
	h.wait(time.Minute)
	theirs := h.changes[0]
	theirs.Generation, theirs.ProbeAt = 7, h.now.Add(25*time.Second)
	h.changes = nil
	h.step(CircuitStored{theirs, fmt.Errorf("put circuit: %w", postrider.ErrConflict)})
	h.wait(24 * time.Second)
	if len(h.underWay)+len(h.changes) > 0 {
		t.Errorf("%d attempts left and %v is to be stored while another probes", len(h.underWay), h.changes)
	}
	if got := h.c.endpoints[id].breaker.Circuit; got != theirs {
		t.Errorf("circuit %+v, want the stored %+v", got, theirs)
	}
	h.wait(time.Second)
	if len(h.changes) != 1 || h.changes[0].Generation != 7 {
		t.Errorf("%v is to be stored, want a probe of what is stored, since the other never came back", h.changes)
	}
}

func TestAProbeThatTheStoreDidNotHearOfIsAskedAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	h.fail(id)
	h.slow = true
	h.wait(time.Minute)
	circuit := h.changes[0]
	h.changes = nil
	h.step(CircuitStored{circuit, postrider.ErrBusy})
	h.wait(24 * time.Second)
	h.expect(id, 0, "not granted")
	h.wait(time.Second)
	h.step(h.grant())
	h.expect(id, 1, "granted at last")
}

func TestAProbeWhoseDeliveryHasGoneIsAskedAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	h.fail(id)
	clear(h.rows) // all deliveries are cancelled
	h.wait(2 * time.Minute)
	h.expect(id, 0, "nothing to probe with")
	h.slow = true
	h.publish(id, 3)
	h.expect(id, 0, "what was granted is too old")
	h.step(h.grant())
	h.expect(id, 1, "something to probe with")
	if !h.underWay[0].Probe {
		t.Error("the attempt is no probe")
	}
}

func TestAClosedCircuitStartsSlowlyAndOldestFirst(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 10 })
	h.fail(id)
	clear(h.rows)
	h.publish(id, 60)
	h.wait(time.Minute)
	h.expect(id, 1, "the probe")
	h.over(id, a200)
	for _, want := range []int{1, 2, 4, 8, 10} {
		h.expect(id, want, "a round of a closed circuit")
		for range h.inFlight(id) {
			last := h.underWay
			h.underWay = last[:1:1]
			it := h.underWay[0].Delivery
			h.underWay = last[1:]
			it.Result = a200
			h.c.step(h.now, Attempted{it})
		}
		h.step()
	}
	for i := 6; i < len(h.sent); i++ {
		if h.sent[i].ID.Compare(h.sent[i-1].ID) < 0 {
			t.Errorf("request %d is of an older delivery than the one before", i)
		}
	}
}

func TestACircuitThatAPersonSetIsAdopted(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	set := func(s postrider.CircuitStatus, generation int64) {
		h.alter(id, func(to *store.EndpointSnapshot) {
			b := postrider.Breaker{Circuit: to.Circuit}
			b.Set(s, h.now, to.Endpoint.Policy.Circuit)
			to.Circuit = b.Circuit
			to.Circuit.Endpoint, to.Circuit.Generation = id, generation
		})
	}
	h.publish(id, 20)
	h.expect(id, 10, "closed")
	set(postrider.CircuitOpen, 5)
	for range 10 {
		h.over(id, a200)
	}
	h.wait(29 * time.Minute)
	h.expect(id, 0, "opened by a person")
	set(postrider.CircuitClosed, 4)
	h.expect(id, 0, "an older version")
	set(postrider.CircuitHalfOpen, 6)
	h.expect(id, 1, "a person asks for a probe")
	set(postrider.CircuitClosed, 9)
	h.over(id, a200)
	h.expect(id, 2, "closed by a person, and one was accepted")

	// An endpoint that the node has not served before.
	id = h.endpoint("a.example", nil)
	set(postrider.CircuitOpen, 1)
	h.publish(id, 1)
	h.expect(id, 0, "opened before there was anything")
}

func TestAnUnresponsiveEndpointGetsOneSlot(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", func(p *postrider.Policy) { p.Circuit.Failures, p.Circuit.Percent, p.Circuit.Attempts = 0, 0, 0 })
	h.publish(id, 50)
	h.expect(id, 10, "at first")
	for range 10 {
		h.over(id, silence)
	}
	h.expect(id, 1, "after silence")
	h.over(id, silence)
	h.expect(id, 1, "after more of it")
	h.over(id, a200)
	h.expect(id, 10, "after an answer")
}

func TestUnreliableEndpointsShareATenthOfTheSlots(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{Concurrency: 50})
	var ids []postrider.EndpointID
	for range 20 {
		id := h.endpoint("a.example", nil)
		ids = append(ids, id)
		for range 2 {
			h.publish(id, 1)
			h.over(id, silence)
		}
		h.publish(id, 1)
	}
	if got := h.inFlight(ids...); got != 5 {
		t.Errorf("%d attempts in flight to chronic endpoints, want a tenth of the slots: 5", got)
	}
	healthy := h.endpoint("b.example", func(p *postrider.Policy) { p.Concurrency = 100 })
	h.markResponsive(healthy)
	h.publish(healthy, 100)
	h.expect(healthy, 32, "a healthy endpoint takes all that it may have")
}

func TestAnEndpointThatFailedOnceDoesNotWaitBehindUnreliableOnes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{Concurrency: 10})
	blocker, often, once := h.endpoint("a.example", nil), h.endpoint("a.example", nil), h.endpoint("a.example", nil)
	for _, id := range []postrider.EndpointID{blocker, blocker, often, often, once} {
		h.publish(id, 1)
		h.over(id, silence)
	}
	h.publish(blocker, 1) // takes the only slot of its class
	h.publish(often, 1)
	h.publish(once, 1)
	h.expect(often, 0, "behind another chronic one")
	h.expect(once, 1, "beside them")
	h.over(once, silence)
	h.publish(once, 1)
	h.expect(once, 0, "that failed twice")
	h.over(blocker, a200)
	h.expect(often, 1, "once the other has answered")
}

func TestAnEndpointThatDoesNotAnswerGetsNoMoreSlotsWhenTheyAreScarce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{Concurrency: 36, HostConcurrency: 20})
	hangs := h.endpoint("a.example", nil)
	answers := h.endpoint("b.example", nil)
	h.publish(hangs, 10)
	h.expect(hangs, 10, "while slots are free")
	other := h.endpoint("c.example", nil)
	h.publish(other, 3)
	h.expect(other, 1, "a second slot before the first answer")
	h.publish(answers, 10)
	h.over(answers, a200)
	h.expect(answers, 9, "after an answer")
	h.wait(2 * time.Second)
	h.expect(other, 1, "and no more")
	for h.inFlight(answers) > 0 {
		h.over(answers, a200)
	}
	if h.inFlight(hangs) < 2 {
		t.Fatal("what hangs has ended by itself")
	}
	h.over(hangs, silence)
	h.over(hangs, silence)
	h.wait(time.Second)
	if got := h.inFlight(other); got < 2 {
		t.Errorf("%d attempts in flight once slots are free again, want more than one", got)
	}
}

func TestManyEndpointsThatHangUseTheirShareOfTheSlots(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{HostConcurrency: 1024})
	hanging := map[postrider.EndpointID]bool{}
	for i := range 1000 {
		id := h.endpoint(fmt.Sprintf("hole%d.example", i%4), nil)
		hanging[id] = true
	}
	h.respond = func(it *Delivery) postrider.Attempt {
		if hanging[it.Endpoint] {
			return postrider.Attempt{Outcome: postrider.OutcomeTimedOut, Duration: it.Timeout}
		}
		return a200
	}
	for id := range hanging {
		h.publish(id, 5)
	}
	h.wait(60 * time.Second) // by then each endpoint has hung once: 1,000 × 5 × 10 s / 1,024 slots
	healthy := h.endpoint("healthy.example", nil)
	for range 240 {
		h.wait(250 * time.Millisecond)
		h.publish(healthy, 1)
		if h.sent[len(h.sent)-1].Endpoint != healthy {
			t.Fatal("a delivery to a healthy endpoint did not leave at once")
		}
		// A tenth of the slots for each class, and a quarter for probes.
		if n := h.inFlight() - h.inFlight(healthy); n > 102+102+256 {
			t.Fatalf("%d attempts in flight to endpoints that never answer, want 460 at most", n)
		}
	}
}

func TestRetryAfterPacesExactly(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	h.publish(id, 20)
	asked := a429
	asked.RetryAfter = 90 * time.Second
	at := h.now
	for range 10 {
		h.over(id, asked)
	}
	h.wait(89*time.Second + 999*time.Millisecond)
	h.expect(id, 0, "it asked for 90 s")
	h.wait(time.Second)
	if left := h.sent[10].left.Sub(at); left != 90*time.Second {
		t.Errorf("the next attempt left after %v, want 90 s", left)
	}
	h.expect(id, 5, "half of its slots")
}

func TestThrottlingHalvesAndRecovers(t *testing.T) {
	t.Parallel()
	for name, a := range map[string]postrider.Attempt{"429": a429, "503": a503} {
		h := newHarness(t, Options{})
		id := h.endpoint("a.example", func(p *postrider.Policy) {
			p.Concurrency, p.Circuit = 16, postrider.CircuitPresets["never"]
		})
		h.publish(id, 200)
		for _, want := range []int{8, 4, 2, 1} {
			for range h.inFlight(id) { // all throttled attempts of one round count once
				h.over(id, a)
			}
			if got := h.c.endpoints[id].maxInFlight(); got != want {
				t.Errorf("%s: %d slots, want %d", name, got, want)
			}
			h.wait(time.Second)
		}
		for rounds := 0; h.inFlight(id) < 16 && rounds < 20; rounds++ {
			for range h.inFlight(id) {
				h.over(id, a200)
			}
		}
		h.expect(id, 16, name+" and recovers")
	}
}

func TestThrottlingASingleSlotPausesUpToASecond(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", func(p *postrider.Policy) {
		p.Concurrency, p.Circuit = 1, postrider.CircuitPresets["never"]
		p.Retry = postrider.RetryPolicy{Base: time.Millisecond, Factor: 1, Cap: time.Millisecond, MaxAttempts: 100}
	})
	h.publish(id, 20)
	var pauses []time.Duration
	pause := func(a postrider.Attempt) {
		at, n := h.now, len(h.sent)
		h.over(id, a)
		for len(h.sent) == n {
			h.wait(time.Millisecond)
		}
		pauses = append(pauses, h.sent[n].left.Sub(at))
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
	if h.given > 0 {
		t.Errorf("%d leases were given back for a pause", h.given)
	}
}

func TestAnEndpointThatTimesOutGetsLessTime(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", func(p *postrider.Policy) {
		p.Concurrency, p.AdaptiveTimeout, p.Circuit = 1, true, postrider.CircuitPresets["never"]
	})
	plain := h.endpoint("b.example", func(p *postrider.Policy) { p.Concurrency, p.Circuit = 1, postrider.CircuitPresets["never"] })
	h.publish(id, 20)
	h.publish(plain, 20)
	var got []time.Duration
	for range 12 {
		for _, f := range h.underWay {
			if f.Endpoint == id {
				got = append(got, f.Timeout)
			} else if f.Timeout != 10*time.Second {
				t.Errorf("a timeout of %v without having asked for that", f.Timeout)
			}
		}
		h.over(id, silence)
		h.over(plain, silence)
	}
	want := []int{10000, 10000, 10000, 5000, 5000, 5000, 2500, 2500, 2500, 10000, 1250, 1250}
	for i := range want {
		if got[i] != time.Duration(want[i])*time.Millisecond {
			t.Fatalf("timeouts %v, want %v ms", got, want)
		}
	}
	h.over(id, a500)
	h.expect(id, 1, "after an answer")
	if last := h.sent[len(h.sent)-1]; last.Timeout != 10*time.Second {
		t.Errorf("a timeout of %v after an answer in time, want all of it", last.Timeout)
	}
}

func TestACircuitThatEverChangedIsStoredAtTheFirstTry(t *testing.T) {
	t.Parallel()
	since := time.Date(2025, 12, 31, 0, 0, 0, 0, time.UTC)
	closed := func(id postrider.EndpointID) []postrider.Circuit {
		return []postrider.Circuit{{Endpoint: id, Status: postrider.CircuitClosed, Generation: 3}}
	}
	for name, learn := range map[string]func(*harness, postrider.EndpointID){
		"it was forgotten": func(h *harness, id postrider.EndpointID) {
			h.fail(id) // stored with generation 1, half open 2, closed 3, trusted 4
			h.wait(time.Minute)
			h.publish(id, 60)
			for len(h.underWay) > 0 {
				h.over(id, a200)
			}
			h.wait(3 * time.Second)
			if h.c.endpoints[id] != nil {
				t.Fatal("the endpoint is not forgotten")
			}
		},
		"at the start": func(h *harness, id postrider.EndpointID) { h.step(CircuitsLoaded{closed(id)}) },
		"with a shard": func(h *harness, id postrider.EndpointID) {
			h.step(heartbeatReply{
				Membership: store.Membership{Nodes: 2, Shards: []uint8{store.Shard(id)}}, until: h.now.Add(ttl),
				circuits: closed(id),
			})
		},
	} {
		h := newHarness(t, Options{})
		if name == "with a shard" {
			h = newHarness(t, shared())
		}
		id := h.endpoint("a.example", nil)
		learn(h, id)
		h.slow = true
		known := h.c.version(id)
		if h.fail(id); len(h.changes) != 1 || known < 3 || h.changes[0].Generation != known {
			t.Errorf("%s: %+v is to be stored, want an open circuit after generation %d", name, h.changes, known)
		}
	}

	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	failing := closed(id)
	failing[0].FailingSince = since
	h.step(CircuitsLoaded{failing})
	h.slow = true
	h.publish(id, 1)
	h.over(id, a200)
	if len(h.changes) != 1 || !h.changes[0].FailingSince.IsZero() || h.changes[0].Generation != 3 {
		t.Errorf("%+v is to be stored, want that it does not fail any more", h.changes)
	}
}

func TestACircuitThatOpenedIsStoredOverAnOlderOneThatIsClosed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	h.slow = true
	h.fail(id)
	theirs := postrider.Circuit{Endpoint: id, Status: postrider.CircuitClosed, Generation: 7}
	h.changes = nil
	h.step(CircuitStored{theirs, fmt.Errorf("put circuit: %w", postrider.ErrConflict)})
	if len(h.changes) != 1 || h.changes[0].Status != postrider.CircuitOpen || h.changes[0].Generation != 7 || !h.c.endpoints[id].isOpen() {
		t.Fatalf("%+v is to be stored, want the open circuit over generation 7", h.changes)
	}
	h.step(h.grant())
	if got := h.c.version(id); got != 8 {
		t.Errorf("generation %d is known, want the stored 8", got)
	}
}

func TestAnEndpointThatRecoversDoesNotWaitAmongTheDegraded(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{Concurrency: 10})
	blocker, id := h.endpoint("a.example", nil), h.endpoint("b.example", nil)
	for range 2 {
		h.publish(blocker, 1)
		h.over(blocker, silence)
	}
	h.publish(blocker, 1) // takes the only slot of its class
	h.step(CircuitsLoaded{[]postrider.Circuit{{Endpoint: id, Status: postrider.CircuitClosed, Cooldown: time.Minute, Generation: 3}}})
	h.publish(id, 1)
	h.expect(id, 0, "not trusted yet")
	h.alter(id, func(to *store.EndpointSnapshot) {
		to.Circuit = postrider.Circuit{Endpoint: id, Status: postrider.CircuitClosed, Generation: 4}
	})
	h.expect(id, 1, "trusted again")
	h.expect(blocker, 1, "degraded as before")
}

func TestWithoutAdaptiveTimeoutAllOfItIsGivenBack(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", func(p *postrider.Policy) {
		p.Concurrency, p.AdaptiveTimeout, p.Circuit = 1, true, postrider.CircuitPresets["never"]
	})
	h.publish(id, 20)
	for range 6 {
		h.over(id, silence)
	}
	if got := h.underWay[0].Timeout; got != 2500*time.Millisecond {
		t.Fatalf("a timeout of %v after six, want 2.5 s", got)
	}
	for _, adaptive := range []bool{false, true} {
		h.alter(id, func(to *store.EndpointSnapshot) { to.Endpoint.Policy.AdaptiveTimeout = adaptive })
		h.over(id, silence)
		if got := h.underWay[0].Timeout; got != 10*time.Second {
			t.Errorf("a timeout of %v once it was switched off, adaptive now %t, want 10 s", got, adaptive)
		}
	}
}

func TestTheFirstResponseCountsFully(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	h.publish(id, 2)
	slow := a200
	slow.Duration = 8 * time.Second
	h.over(id, slow)
	if got := h.c.endpoints[id].latency; got != 8*time.Second {
		t.Errorf("the latency is %v after a response of 8 s", got)
	}
	h.over(id, postrider.Attempt{Outcome: postrider.OutcomeAccepted, StatusCode: 200})
	if got := h.c.endpoints[id].latency; got != 7*time.Second {
		t.Errorf("the latency is %v after another one at once, want an eighth less", got)
	}
}

func TestNothingIsRememberedOfADeletedEndpoint(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	h.step(CircuitsLoaded{[]postrider.Circuit{{Endpoint: id, Status: postrider.CircuitClosed, Generation: 3}}})
	if len(h.c.remembered) != 1 {
		t.Fatal("the version of a circuit is not remembered")
	}
	h.publish(id, 1)
	h.over(id, a200)
	h.wait(3 * time.Second)
	if len(h.c.endpoints) != 0 || h.c.version(id) != 3 {
		t.Fatalf("%d endpoints in memory and version %d, want none and 3", len(h.c.endpoints), h.c.version(id))
	}
	delete(h.routed, id)
	h.step(changed{id})
	if len(h.c.remembered) != 0 {
		t.Error("a deleted endpoint is remembered")
	}
}
