package postrider_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/postrider/postrider"
)

// circuitMachine makes random moves of a dispatcher and a person on a breaker, and checks the
// result of each.
type circuitMachine struct {
	policy postrider.CircuitPolicy
	b      postrider.Breaker
	twin   postrider.Breaker // gets the same inputs
	now    time.Time

	probing  bool      // a probe is under way, and its deadline has not passed
	deadline time.Time // deadline of the probe
	row      int       // accepted attempts in a row since the circuit opened, without attempts that do not count
	openedAt time.Time // when failures last opened the circuit; zero: a person has set it since
}

var circuitPolicies = rapid.Custom(func(t *rapid.T) postrider.CircuitPolicy {
	span := func(name string, least, most time.Duration) time.Duration {
		return time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(t, name))
	}
	p := postrider.CircuitPolicy{Failures: rapid.IntRange(0, 8).Draw(t, "failures"), Cooldown: span("cooldown", sec, hour)}
	p.MaxCooldown = span("greatest cooldown", p.Cooldown, 24*hour)
	switch rapid.IntRange(0, 2).Draw(t, "window") {
	case 1:
		p.Percent, p.Attempts = rapid.IntRange(1, 100).Draw(t, "percent"), rapid.IntRange(10, 60).Draw(t, "attempts")
	case 2:
		p.Percent, p.Window = rapid.IntRange(1, 100).Draw(t, "percent"), span("window", 10*sec, hour)
	}
	return p
})

func TestCircuitMachine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &circuitMachine{policy: circuitPolicies.Draw(t, "policy"), now: noon}
		if err := m.policy.Check(); err != nil {
			t.Fatal(err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"time passes":          m.pass,
			"an attempt is over":   m.attempt,
			"many attempts fail":   m.outage,
			"a probe is asked for": m.probe,
			"a probe is over":      m.probed,
			"a person sets it":     m.set,
			"":                     m.check,
		})
	})
}

func (m *circuitMachine) pass(t *rapid.T) {
	// Mostly a time in the order of the cooldowns.
	d := rapid.OneOf(
		rapid.Int64Range(0, int64(10*sec)),
		rapid.Int64Range(0, int64(m.policy.Cooldown)),
		rapid.Int64Range(0, int64(m.policy.MaxCooldown)),
	).Draw(t, "time")
	m.now = m.now.Add(time.Duration(d))
	m.probing = m.probing && m.now.Before(m.deadline)
}

func (m *circuitMachine) closed() bool {
	return m.b.Status == postrider.CircuitClosed || m.b.Status == ""
}

// attempt ends an attempt that is no probe, or a probe whose time was over. While the circuit is
// not closed, the attempt left before it opened.
func (m *circuitMachine) attempt(t *rapid.T) {
	late := m.b.Status != postrider.CircuitHalfOpen && rapid.Bool().Draw(t, "a late probe")
	m.record(t, rapid.SampledFrom(postrider.Outcomes).Draw(t, "outcome"), late)
}

func (m *circuitMachine) outage(t *rapid.T) {
	for range rapid.IntRange(1, 60).Draw(t, "failures") {
		m.record(t, postrider.OutcomeUnreachable, false)
	}
}

func (m *circuitMachine) probe(t *rapid.T) {
	before := m.b
	allowed := m.b.Probe(m.now, 10*sec)
	if twin := m.twin.Probe(m.now, 10*sec); allowed != twin {
		t.Errorf("Probe = %t, and %t for the same history", allowed, twin)
	}
	switch {
	case !allowed && m.b != before:
		t.Errorf("a probe that was refused changed %+v to %+v", before, m.b)
	case allowed && m.probing:
		t.Error("two probes are under way")
	case allowed && (m.closed() || m.now.Before(before.ProbeAt)):
		t.Errorf("a probe was allowed at %v of %+v", m.now, before)
	case allowed && m.b.Failures != before.Failures:
		t.Error("a probe that is under way counts already")
	}
	if allowed {
		m.probing, m.deadline = true, m.now.Add(10*sec)
	}
}

func (m *circuitMachine) probed(t *rapid.T) {
	if !m.probing {
		return // no probe is under way
	}
	m.probing = false
	m.record(t, rapid.SampledFrom(postrider.Outcomes).Draw(t, "outcome"), true)
}

func (m *circuitMachine) set(t *rapid.T) {
	to := rapid.SampledFrom([]postrider.CircuitStatus{
		postrider.CircuitClosed, postrider.CircuitOpen, postrider.CircuitHalfOpen,
	}).Draw(t, "status")
	if to == postrider.CircuitHalfOpen && m.b.Status == to {
		m.probing = m.probing && m.now.Before(m.deadline)
	} else {
		m.probing = false // its result does not count any more
	}
	m.b.Set(to, m.now, m.policy)
	m.twin.Set(to, m.now, m.policy)
	m.row, m.openedAt = 0, time.Time{}
	probed := !m.b.ProbeAt.After(m.now.Add(10 * sec))
	switch to {
	case postrider.CircuitClosed:
		if !m.closed() || m.b.Cooldown != 0 {
			t.Errorf("closed by a person, it is %+v", m.b.Circuit)
		}
	case postrider.CircuitHalfOpen:
		if m.closed() || !probed {
			t.Errorf("to be probed at %v, it is %+v", m.now, m.b.Circuit)
		}
	case postrider.CircuitOpen:
		if m.b.Status != to || !m.b.ProbeAt.Equal(m.now.Add(m.policy.MaxCooldown)) {
			t.Errorf("opened by a person at %v, it is %+v", m.now, m.b.Circuit)
		}
	}
}

// record gives an outcome to both breakers, and checks the transition.
func (m *circuitMachine) record(t *rapid.T, o postrider.Outcome, probe bool) {
	before := m.b.Circuit
	a := &postrider.Attempt{Outcome: o}
	if o == postrider.OutcomeThrottled && rapid.Bool().Draw(t, "it asks for time") {
		a.RetryAfter = sec
	}
	changed := m.b.Record(a, probe, m.now, m.policy)
	if twin := m.twin.Record(a, probe, m.now, m.policy); changed != twin {
		t.Errorf("Record = %t, and %t for the same history", changed, twin)
	}
	after := m.b.Circuit
	failed := after.Failures > before.Failures || after.Status == postrider.CircuitOpen && before.Status != after.Status
	if after.Status != postrider.CircuitOpen && before.Status == postrider.CircuitOpen {
		t.Errorf("%s took %+v to %+v without a probe", o, before, after)
	}
	if unchanged := notFailing(onlyCircuit(before)) == notFailing(onlyCircuit(after)); !changed && !unchanged {
		t.Errorf("%s changed %+v to %+v, and it is not to be stored", o, before, after)
	}
	if changed && after == before {
		t.Errorf("%s left %+v as it was, and it is to be stored", o, after)
	}
	if failed && o == postrider.OutcomeThrottled && a.RetryAfter > 0 {
		t.Errorf("an answer that asks for time is a failure: %+v became %+v", before, after)
	}
	m.checkRow(t, o, failed, before.Cooldown)
	if changed && after.Status == postrider.CircuitOpen {
		m.checkOpening(t, before)
	}
}

// checkRow checks that the cooldown begins anew after three accepted attempts in a row, and not
// before.
func (m *circuitMachine) checkRow(t *rapid.T, o postrider.Outcome, failed bool, before time.Duration) {
	switch {
	case o == postrider.OutcomeAccepted:
		m.row++
	case failed:
		m.row = 0
	}
	if m.b.Cooldown == 0 && before > 0 && m.row < 3 {
		t.Errorf("the cooldown of %v was forgotten after %d in a row", before, m.row)
	}
}

func (m *circuitMachine) checkOpening(t *rapid.T, before postrider.Circuit) {
	want := m.policy.Cooldown
	if m.now.Sub(m.b.FailingSince) >= 15*mins {
		want = min(max(2*before.Cooldown, m.policy.Cooldown), m.policy.MaxCooldown)
	}
	if m.b.Cooldown != want || !m.b.ProbeAt.Equal(m.now.Add(want)) {
		t.Errorf("opened at %v after %v: %+v", m.now, before.Cooldown, m.b.Circuit)
	}
	if m.policy.Failures == 0 && m.policy.Percent == 0 {
		t.Error("a policy that never opens opened")
	}
	if !m.openedAt.IsZero() && m.now.Sub(m.openedAt) < m.policy.Cooldown {
		t.Errorf("opened at %v and at %v", m.openedAt, m.now)
	}
	m.openedAt = m.now
}

func (m *circuitMachine) check(t *rapid.T) {
	b := m.b
	if b != m.twin {
		t.Errorf("the same history gave %+v and %+v", b, m.twin)
	}
	if b.Cooldown != 0 && (b.Cooldown < m.policy.Cooldown || b.Cooldown > m.policy.MaxCooldown) {
		t.Errorf("a cooldown is %v", b.Cooldown)
	}
	if m.closed() != b.OpenedAt.IsZero() || m.closed() != b.ProbeAt.IsZero() {
		t.Errorf("%q since %v, probed at %v", b.Status, b.OpenedAt, b.ProbeAt)
	}
	if !m.closed() && b.Reason == "" {
		t.Error("opened for no reason")
	}
	seen := postrider.CircuitOpen
	if !m.now.Before(b.ProbeAt) {
		seen = postrider.CircuitHalfOpen // nothing is due, or its probe leaves next
	}
	if shown := b.At(m.now).Status; shown != b.Status && (b.Status != postrider.CircuitOpen || shown != seen) {
		t.Errorf("%+v is shown as %q at %v", b, shown, m.now)
	}
	if m.probing && b.Status != postrider.CircuitHalfOpen {
		t.Errorf("%q while a probe is under way", b.Status)
	}
}
