package dispatch

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// crowd is n endpoints whose circuits never open, so that only the budget
// holds retries back.
func (d *desk) crowd(n int) []postrider.EndpointID {
	ids := make([]postrider.EndpointID, n)
	for i := range ids {
		ids[i] = d.endpoint("a.example", func(p *postrider.Policy) { p.Circuit = postrider.CircuitPresets["never"] })
	}
	return ids
}

// attempts counts first attempts and retries from the n-th request on.
func (d *desk) attempts(n int) (first, retries int) {
	for _, f := range d.sent[n:] {
		if f.Step == 0 {
			first++
		} else {
			retries++
		}
	}
	return first, retries
}

func TestAnOutageOfEverythingCostsAFifthMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	ids := d.crowd(300)
	d.respond = func(*item) postrider.Attempt { return a500 }
	for range 600 {
		d.wait(time.Second)
		for i := range 10 {
			d.publish(ids[(d.next+i)%len(ids)], 1)
		}
	}
	for _, f := range d.sent {
		if wait := f.left.Sub(f.published); f.Step == 0 && wait > 0 {
			t.Fatalf("a first attempt waited %v for retries", wait)
		}
	}
	first, retries := d.attempts(0)
	if most := first/5 + maxBudget + 10*10; first != 6000 || retries > most {
		t.Errorf("%d first attempts and %d retries, want 6,000 and at most a fifth, 500 and 10 a minute: %d", first, retries, most)
	}
	if least := first / 5; retries < least {
		t.Errorf("%d retries, want what the budget has: %d", retries, least)
	}
	n := len(d.sent)
	d.wait(10 * time.Minute)
	if _, retries := d.attempts(n); retries < 95 || retries > 105 {
		t.Errorf("%d retries in ten minutes in which nothing is published, want 10 a minute", retries)
	}

	// It ends, and 6,000 deliveries wait for their retry.
	n = len(d.sent)
	d.respond = func(*item) postrider.Attempt { return a200 }
	for id := range d.rows {
		for i := range d.rows[id] {
			d.rows[id][i].due = earliest(d.rows[id][i].due, d.now)
		}
		d.step(woken{id})
	}
	d.wait(time.Minute)
	left := 0
	for _, rows := range d.rows {
		left += len(rows)
	}
	if _, retries := d.attempts(n); left > 0 || retries != 6000 {
		t.Errorf("%d of 6,000 deliveries left and %d wait a minute after the outage", retries, left)
	}
}

func TestARetryThatIsAcceptedEarnsMoreThanItCost(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b := budget{tokens: 1, at: now}
	for _, s := range []struct {
		what    string
		do      func()
		want    float64
		allowed bool
	}{
		{"a retry", func() { b.started(3) }, 0, false},
		{"four first attempts", func() { b.started(0); b.started(0); b.started(0); b.started(0) }, 0.8, false},
		{"a fifth", func() { b.started(0) }, 1, true},
		{"a first attempt that is accepted", func() { b.accepted(0) }, 1, true},
		{"a retry that is accepted", func() { b.started(1); b.accepted(1) }, 2, true},
		{"a minute", func() { now = now.Add(time.Minute) }, 12, true},
		{"a day", func() { now = now.Add(24 * time.Hour) }, maxBudget, true},
	} {
		s.do()
		if allowed := b.allows(now); allowed != s.allowed || b.tokens < s.want-1e-9 || b.tokens > s.want+1e-9 {
			t.Errorf("after %s %v retries, allowed %t; want %v, %t", s.what, b.tokens, allowed, s.want, s.allowed)
		}
	}
}

func TestWhatWaitsForTheBudgetGoesOn(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	d.respond = func(*item) postrider.Attempt { return a500 }
	ids := d.crowd(5)
	for _, id := range ids {
		d.publish(id, 2)
	}
	d.c.budget.tokens = 0
	d.wait(5500 * time.Millisecond)
	n := len(d.sent)
	if n != 10 || d.c.starved.len() != 5 {
		t.Fatalf("%d attempts left and %d endpoints wait for the budget, want 10 and 5", n, d.c.starved.len())
	}
	d.respond = func(*item) postrider.Attempt { return a200 }
	d.publish(ids[0], 1)
	if first, _ := d.attempts(n); first != 1 {
		t.Error("a first attempt waits for the budget")
	}
	d.wait(10 * time.Second)
	if _, retries := d.attempts(n); retries != 10 {
		t.Errorf("%d retries left, want all 10", retries)
	}
}

func TestAProbeDoesNotWaitForTheBudget(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", nil)
	d.fail(id)
	for range 120 {
		d.c.budget = budget{at: d.now}
		d.wait(500 * time.Millisecond)
	}
	d.expect(id, 1, "after the cooldown")
	if it := d.flying[0]; !it.probe || it.Step == 0 {
		t.Errorf("probe %t at step %d, want a retry that is one", it.probe, it.Step)
	}
}

func TestAHeldRetryDoesNotKeepFirstAttemptsWaitingForTheBudget(t *testing.T) {
	t.Parallel()
	c, now := fixture(func(p *postrider.Policy) { p.Concurrency = 1 })
	id := postrider.EndpointID{1}
	do := take(c, now, stored{started: admitted(c, now, id, id)})
	c.budget.tokens = 0
	retry := &item{Claimed: postrider.Claimed{Endpoint: id, Lane: postrider.LaneRetry, Step: 1, Event: &postrider.Event{Data: []byte(`1`)}, ExpiresAt: now.Add(time.Hour)}, leasedUntil: now.Add(time.Minute)}
	ep := c.endpoints[id]
	c.credit(ep, 1)
	c.leased[1]++
	ep.held[1] = append(ep.held[1], retry)
	do = take(c, now, over(do.send[0], a200))
	if len(do.send) != 1 || do.send[0].Step != 0 {
		t.Fatalf("%d sent, want the first attempt", len(do.send))
	}
	do = take(c, now, over(do.send[0], a200))
	if len(do.send) != 0 || !ep.starved {
		t.Errorf("%d sent, starved %t; want the retry to wait for the budget", len(do.send), ep.starved)
	}
	if do = take(c, now.Add(6*time.Second)); len(do.send) != 1 {
		t.Errorf("%d sent once the budget has one, want 1", len(do.send))
	}
}

func TestWhatWaitsForTheBudgetOrThePaceIsLeftAloneMeanwhile(t *testing.T) {
	t.Parallel()
	for lane, least := range map[postrider.Lane]time.Duration{postrider.LaneRetry: 100 * time.Millisecond, postrider.LaneBulk: 5 * time.Millisecond} {
		c, now := fixture(nil)
		c.budget = budget{tokens: 1.5, at: now}
		found := due{}
		for i := range 5 {
			found.lanes = append(found.lanes, store.DueLane{Endpoint: postrider.EndpointID{byte(i)}, Lane: lane})
		}
		asked := false
		do := take(c, now, found)
		for range 20 { // the claim does not come back
			asked = asked || do.claim != nil
			if !do.wakeAt.IsZero() && do.wakeAt.Before(now.Add(least)) {
				t.Errorf("%s: the next step is %v after the last, want %v at least", lane, do.wakeAt.Sub(now), least)
			}
			now = later(do.wakeAt, now.Add(time.Millisecond))
			do = take(c, now)
		}
		if !asked || lane == postrider.LaneRetry && (c.leased[1] != 1 || c.starved.len() != 4) {
			t.Errorf("%s: asked %t, %d retries asked for and %d endpoints starve, want 1 and 4", lane, asked, c.leased[1], c.starved.len())
		}
	}
}
