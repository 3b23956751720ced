package schedule

import (
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestStartsAreSpacedByTheRate(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	h.respond = func(*Delivery) postrider.Attempt { return a200 }
	slow := h.endpoint("a.example", func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 120, Per: time.Minute, Burst: 1} })
	fast := h.endpoint("a.example", func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 100, Per: time.Second} })
	h.publish(slow, 40)
	h.publish(fast, 300)
	other := h.endpoint("a.example", nil)
	h.publish(other, 1)
	if h.sent[len(h.sent)-1].Endpoint != other {
		t.Error("an endpoint whose rate is spent blocks another")
	}
	start := h.now
	h.wait(20 * time.Second)
	seen := map[postrider.EndpointID]int{}
	for _, f := range h.sent {
		at := f.left.Sub(start)
		switch n := seen[f.Endpoint]; f.Endpoint {
		case slow:
			if want := time.Duration(n) * 500 * time.Millisecond; at < want || at > want+10*time.Millisecond {
				t.Errorf("attempt %d at 2 a second left after %v, want %v", n, at, want)
			}
		case fast: // a tenth of the attempts starts at once
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

func TestAFastRateIsUsedUpWhereAnotherNodeMayHaveUsedIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, shared())
	rate := func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 20, Per: 10 * time.Second} }
	id := h.endpoint("a.example", rate)
	h.owns(store.Shard(id))
	h.publish(id, 4)
	h.expect(id, 0, "just taken over")
	h.wait(499 * time.Millisecond)
	h.expect(id, 0, "before an interval is over")
	h.wait(time.Millisecond)
	h.expect(id, 1, "after an interval")

	long := h.endpoint("a.example", rate)
	h.owns(store.Shard(id), store.Shard(long))
	h.hold(5 * time.Second)
	h.publish(long, 4)
	h.expect(long, 2, "this node's for longer than its burst takes to come back")
}

func TestASlowRateSurvivesTheNode(t *testing.T) {
	t.Parallel()
	rate := func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 1, Per: time.Hour} }
	h := newHarness(t, Options{})
	h.respond = func(*Delivery) postrider.Attempt { return a200 }
	h.slow = true
	id := h.endpoint("a.example", rate)
	h.publish(id, 1)
	if len(h.sent) != 1 || len(h.changes) != 1 || h.changes[0].RateFullAt != h.now.Add(time.Hour) {
		t.Fatalf("%d sent, and %+v is to be stored; want one, and an hour", len(h.sent), h.changes)
	}
	stored := h.grant().Circuit

	next := newHarness(t, Options{}) // a node that starts ten minutes later
	next.respond = h.respond
	next.now = h.now.Add(10 * time.Minute)
	next.routed[id] = h.routed[id]
	next.step(CircuitsLoaded{[]postrider.Circuit{stored}})
	next.wait(2 * time.Second) // nothing is sent meanwhile, and idle endpoints are forgotten
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

func TestADeliveryThatWaitsForASlowRateLeavesAtItsTime(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	h.respond = func(*Delivery) postrider.Attempt { return a200 }
	id := h.endpoint("a.example", func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 3, Per: time.Minute} })
	start := h.now
	h.publish(id, 4)
	h.wait(time.Minute + time.Second)
	if len(h.sent) != 4 {
		t.Fatalf("%d of 4 attempts left in a minute", len(h.sent))
	}
	for i, f := range h.sent {
		if at, want := f.left.Sub(start), time.Duration(i)*20*time.Second; at != want {
			t.Errorf("attempt %d left after %v, want %v", i, at, want)
		}
	}
	if h.given > len(h.sent) {
		t.Errorf("%d leases were given back, want no delivery leased again and again", h.given)
	}
}

func TestAChangedRateCountsAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	h.respond = func(*Delivery) postrider.Attempt { return a200 }
	id := h.endpoint("a.example", func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 1, Per: time.Hour} })
	h.publish(id, 50)
	h.wait(time.Minute)
	if len(h.sent) != 1 {
		t.Fatalf("%d attempts at one an hour", len(h.sent))
	}
	h.alter(id, func(to *store.EndpointSnapshot) { to.Endpoint.Policy.Rate = postrider.Rate{} })
	h.wait(time.Second)
	if len(h.sent) != 50 {
		t.Errorf("%d of 50 attempts left once there is no rate", len(h.sent))
	}
}
