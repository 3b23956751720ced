package schedule

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/testkit"
)

// hangs is an outage: from one moment on many endpoints hang, each with three due deliveries. Other
// endpoints stay healthy: five get 20 events a second, and twenty get one event in five seconds.
type hangs struct {
	endpoints int
	timeout   time.Duration
	worked    bool          // the endpoints responded in the six seconds before; otherwise they are new
	over      time.Duration // time over which their deliveries come evenly; zero: all at once
	span      time.Duration // duration of the outage
}

// lateness is the time from the publish of a delivery to its start.
type lateness struct {
	busy, rare []time.Duration // for the healthy endpoints; sorted
	tried      time.Duration   // time until each hanging endpoint had an attempt; zero: not all had one
	most       int             // greatest number of attempts in flight
}

func (l lateness) String() string {
	return fmt.Sprintf("late by up to %v with 20 events a second, %v with few; all tried after %v; %d in flight",
		slices.Max(l.busy), slices.Max(l.rare), l.tried, l.most)
}

func (o hangs) run(t *testing.T) lateness {
	t.Helper()
	const tick, before = 10 * time.Millisecond, 6 * time.Second
	h := newHarness(t, Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	bad := h.endpointsAtOwnHosts(o.endpoints, func(p *postrider.Policy) { p.Timeout = o.timeout })
	busy, rare := h.endpointsAtOwnHosts(5, nil), h.endpointsAtOwnHosts(20, nil)
	begins := h.now.Add(before)
	h.respond = func(it *Delivery) postrider.Attempt {
		if !h.now.Before(begins) && it.Timeout == o.timeout {
			return postrider.Attempt{Outcome: postrider.OutcomeTimedOut, Duration: it.Timeout}
		}
		a := a200
		a.Duration = time.Duration(5+rng.IntN(30)) * time.Millisecond
		return a
	}
	l := lateness{}
	for at := time.Duration(0); at < before+o.span; at += tick {
		i := int(at / tick)
		for j, id := range busy {
			if (i+j)%5 == 0 {
				h.publish(id, 1)
			}
		}
		if i%25 == 0 {
			h.publish(rare[i/25%20], 1)
		}
		switch {
		case at >= before:
			for _, id := range part(bad, at-before, max(tick, o.over), tick) {
				h.publish(id, 3)
			}
		case o.worked:
			for _, id := range part(bad, at, before, tick) {
				h.publish(id, 1)
			}
		}
		h.wait(tick)
		l.most = max(l.most, len(h.underWay))
	}
	tried := map[postrider.EndpointID]bool{}
	for _, f := range h.sent {
		switch {
		case f.left.Before(begins):
		case slices.Contains(busy, f.Endpoint):
			l.busy = append(l.busy, f.left.Sub(f.published))
		case slices.Contains(rare, f.Endpoint):
			l.rare = append(l.rare, f.left.Sub(f.published))
		case !tried[f.Endpoint]:
			if tried[f.Endpoint] = true; len(tried) == len(bad) {
				l.tried = f.left.Sub(begins)
			}
		}
	}
	for _, id := range busy {
		for _, r := range h.rows[id] {
			l.busy = append(l.busy, h.now.Sub(r.ExpiresAt.Add(-expiry)))
		}
	}
	return l
}

// part returns the ids whose turn it is at a time, if all of ids have their turns evenly over a
// time.
func part(ids []postrider.EndpointID, at, over, tick time.Duration) []postrider.EndpointID {
	steps, i := int(over/tick), int(at/tick)
	if i >= steps {
		return nil
	}
	return ids[i*len(ids)/steps : (i+1)*len(ids)/steps]
}

func TestPromise5EndpointsThatBeginToHangDelayNoOthers(t *testing.T) {
	t.Parallel()
	if testkit.Plain(t) {
		return
	}
	for name, o := range map[string]hangs{
		"10,000 new":            {endpoints: 10_000, timeout: 9 * time.Second, over: 4 * time.Second, span: 12 * time.Second},
		"10,000 that worked":    {endpoints: 10_000, timeout: 9 * time.Second, worked: true, over: 4 * time.Second, span: 12 * time.Second},
		"10,000 at one moment":  {endpoints: 10_000, timeout: 9 * time.Second, worked: true, span: 3 * time.Second},
		"2,500 for half minute": {endpoints: 2500, timeout: 29 * time.Second, worked: true, span: 12 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := o.run(t)
			t.Log(l)
			if slices.Max(l.busy) > 500*time.Millisecond {
				t.Error("a delivery to a healthy endpoint was late by more than half a second")
			}
			if (!o.worked || o.endpoints < 3000) && slices.Max(l.rare) > 500*time.Millisecond {
				t.Error("a delivery to a healthy endpoint with few events was late by more than half a second")
			}
		})
	}
}

// Endpoints that respond with 200 after 9 s use all slots for slow endpoints, and no other slots.
func TestEndpointsThatAreSlowAndAcceptKeepTheirThroughput(t *testing.T) {
	t.Parallel()
	if testkit.Plain(t) {
		return
	}
	h := newHarness(t, Options{})
	slow := h.endpointsAtOwnHosts(500, nil)
	quick := h.endpoint("quick.example", nil)
	accepted := 0
	h.respond = func(it *Delivery) postrider.Attempt {
		a := a200
		if it.Endpoint != quick {
			accepted++
			a.Duration = 9 * time.Second
		}
		return a
	}
	for _, id := range slow {
		h.publish(id, 100)
	}
	for range 60 {
		h.wait(time.Second)
		n := len(h.sent)
		if h.publish(quick, 1); h.sent[len(h.sent)-1].Endpoint != quick || len(h.sent) == n {
			t.Fatal("a delivery to a quick endpoint did not leave at once")
		}
	}
	// If all endpoints shared 1,024 slots, 6,800 would be accepted.
	if accepted < 12_000 || len(h.c.OpenCircuits(time.Now())) > 0 {
		t.Errorf("%d accepted in a minute, %d circuits open; want at least 12,000 and none", accepted, len(h.c.OpenCircuits(time.Now())))
	}
}
