package schedule

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
)

// unmade is an attempt that this node could not make.
var unmade = postrider.Attempt{Outcome: postrider.OutcomePostponed, Error: string(postrider.FailureDescriptors)}

// TestPromise2WhatTheNodeLacksUsesNothingUp runs a node that has no descriptors for a while. The
// endpoint's deliveries wait with a back-off. No attempt of the deliveries and no failure of the
// endpoint is counted.
func TestPromise2WhatTheNodeLacksUsesNothingUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", func(p *postrider.Policy) {
		p.Retry.MaxAttempts = 2
		p.Rate = postrider.Rate{Attempts: 100, Per: time.Hour, Burst: 1} // one attempt in 36 s
	})
	start := h.now
	var tries []time.Duration
	lacks := true
	h.respond = func(d *Delivery) postrider.Attempt {
		tries = append(tries, h.now.Sub(start))
		if lacks {
			return unmade
		}
		return a200
	}
	h.publish(id, 3)
	h.wait(95 * time.Second)
	want := []int{0, 1, 3, 7, 15, 31, 61, 91} // seconds at which the attempts start
	if len(tries) != len(want) {
		t.Fatalf("tried after %v, want %d times", tries, len(want))
	}
	for i, seconds := range want {
		at := time.Duration(seconds) * time.Second
		if got := tries[i]; got < at || got > at+100*time.Millisecond {
			t.Errorf("try %d after %v, want %v", i, got, at)
		}
	}
	ep := h.c.endpoints[id]
	if len(h.settled) != 0 || ep.isOpen() || ep.breaker.Failures != 0 || ep.class != unproven || len(h.changes) != 0 {
		t.Errorf("%d attempts recorded, circuit %+v, class %d", len(h.settled), ep.breaker.Circuit, ep.class)
	}
	if by, ok := h.c.HeldBy(h.now, id); !ok || by != postrider.HeldByNothing {
		t.Errorf("held by %s, %t: it waits for this node", by, ok)
	}
	if p, _ := h.c.Pace(h.now, id); p.Reason != postrider.PacePostponed || !p.ResumesAt.After(h.now) {
		t.Errorf("pace %+v", p)
	}
	lacks = false
	h.wait(30 * time.Second)
	if len(h.settled) != 1 || h.settled[0].Claimed.Attempt != 1 || h.settled[0].Claimed.Step != 0 {
		t.Fatalf("settled %+v, want one first attempt: the rate allows the next 36 s later", h.settled)
	}
	h.wait(100 * time.Second)
	if len(h.settled) != 3 || len(h.leased) != 0 || h.c.slots.credit != 0 {
		t.Errorf("%d settled, %d leased, credit %d", len(h.settled), len(h.leased), h.c.slots.credit)
	}
}

// TestAProbeThatIsNotMadeSaysNothing lets the node lack something when it probes.
func TestAProbeThatIsNotMadeSaysNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	h.fail(id)
	h.wait(65 * time.Second)
	h.expect(id, 1, "the probe")
	cooldown := h.c.endpoints[id].breaker.Cooldown
	h.over(id, unmade)
	if ep := h.c.endpoints[id]; ep.breaker.Cooldown != cooldown || h.c.circuits.probes != 0 {
		t.Errorf("cooldown %v, was %v; %d probes", ep.breaker.Cooldown, cooldown, h.c.circuits.probes)
	}
	h.wait(time.Minute)
	h.over(id, a200)
	if h.c.endpoints[id].isOpen() {
		t.Error("the circuit is open after a probe that was accepted")
	}
}

// TestPromise3AnExcusedAttemptIsRecordedAndCountsForNothing: a request left, and then the node
// lacked something for the rest of the attempt.
func TestPromise3AnExcusedAttemptIsRecordedAndCountsForNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", func(p *postrider.Policy) { p.Retry.MaxAttempts = 2 })
	excused := a500
	excused.Excused = true
	h.publish(id, 1)
	for range 7 {
		h.over(id, excused)
		h.wait(31 * time.Second)
	}
	if ep := h.c.endpoints[id]; len(h.settled) != 7 || ep.isOpen() || ep.breaker.Failures != 0 {
		t.Fatalf("%d recorded, circuit %+v", len(h.settled), ep.breaker.Circuit)
	}
	h.over(id, a200)
	if last := h.settled[7]; last.Claimed.Step != 0 || last.Claimed.Attempt != 8 || last.Transition.To != postrider.Delivered {
		t.Errorf("the last settlement is %+v", last)
	}
}

// TestPromise3ASecondAttemptUnderALeaseHasItsNumber: the sender made two attempts under one lease,
// because a token was refused.
func TestPromise3ASecondAttemptUnderALeaseHasItsNumber(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", nil)
	h.publish(id, 1)
	second := a200
	second.Number = 2
	h.over(id, second)
	if s := h.settled[0]; s.Claimed.Attempt != 2 || s.Attempt.Number != 2 {
		t.Errorf("settled attempt %d of lease %d, want 2", s.Attempt.Number, s.Claimed.Attempt)
	}
}
