package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// suspects lets n suspects wait at each of the endpoints, and lets a look at the
// queue find them.
func (d *desk) suspects(n int, ids ...postrider.EndpointID) {
	d.t.Helper()
	in := LanesDue{}
	for _, id := range ids {
		for range n {
			d.next++
			d.rows[id] = append(d.rows[id], row{d.now, postrider.Claimed{
				ID:       postrider.DeliveryID{2, 13: byte(d.next >> 16), 14: byte(d.next >> 8), 15: byte(d.next)},
				Endpoint: id, Event: &postrider.Event{Data: []byte("1")}, Lane: postrider.LaneSuspect,
				Losses: postrider.SuspectedAfter, ExpiresAt: d.now.Add(expiry),
			}})
		}
		in.Lanes = append(in.Lanes, store.DueLane{Endpoint: id, Lane: postrider.LaneSuspect})
	}
	d.step(in)
}

func (d *desk) endpoints(n int) (ids []postrider.EndpointID) {
	for i := range n {
		ids = append(ids, d.endpoint(fmt.Sprintf("%d.example", i), nil))
	}
	return ids
}

func TestSuspectsGoOneAtATimeAfterADeathAndThenTwiceAsMany(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	ids := d.endpoints(20)
	d.suspects(1, ids...)
	for _, want := range []int{1, 2, 4, 8, 5} {
		if got := d.inFlight(); got != want || d.c.slots.leased[suspectLane] != 0 {
			t.Fatalf("%d suspects in flight and %d leased besides, want %d and none", got, d.c.slots.leased[suspectLane], want)
		}
		for n := want - 1; n >= 0; n-- {
			if got := d.inFlight(); got != n+1 {
				t.Fatalf("%d suspects in flight, want %d until the round of %d is survived", got, n+1, want)
			}
			d.over(d.flying[0].Endpoint, a200)
		}
	}
	if len(d.sent) != 20 {
		t.Errorf("%d of 20 suspects were sent", len(d.sent))
	}
}

func TestASuspectThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	ids := d.endpoints(8)
	d.suspects(1, ids...)
	d.expect(ids[0], 1, "after the death")
	d.wait(harmlessAfter - time.Millisecond)
	if n := d.inFlight(); n != 1 {
		t.Fatalf("%d suspects in flight before the first has been for %v", n, harmlessAfter)
	}
	d.wait(4 * harmlessAfter)
	if n := d.inFlight(); n != 8 {
		t.Errorf("%d of 8 suspects in flight although none does harm", n)
	}
}

func TestSuspectsWaitUntilTheNodeIsUp(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	d.c.suspects.startedAt = d.now
	id := d.endpoints(1)[0]
	d.suspects(1, id)
	d.wait(suspectsAfter - time.Millisecond)
	d.expect(id, 0, "before the node has been up for long enough")
	d.wait(time.Millisecond)
	d.expect(id, 1, "after that")
}

func TestNewSuspectsGoOneAtATimeAgain(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	d.respond = func(*Delivery) postrider.Attempt { return a200 }
	old := d.endpoints(50)
	d.suspects(1, old...)
	d.wait(time.Second)
	if len(d.sent) != 50 || d.c.suspects.round < 32 {
		t.Fatalf("%d of 50 were sent, the window is %d", len(d.sent), d.c.suspects.round)
	}
	d.respond = nil
	d.suspects(1, old[:10]...) // another node died with them
	if n := d.inFlight(); n != 1 {
		t.Errorf("%d new suspects in flight, want 1", n)
	}
}

func TestNoSuspectIsLeasedBeforeItCanStart(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 2 })
	d.publish(id, 2)
	d.c.endpoints[id].latency = time.Second // answers take their time
	d.suspects(1, id)
	if n := d.c.slots.leased[suspectLane]; n != 0 {
		t.Fatalf("%d suspects are leased while their endpoint has no slot", n)
	}
	d.over(id, a200)
	if last := d.sent[len(d.sent)-1]; last.Lane != postrider.LaneSuspect {
		t.Errorf("a delivery of lane %s has the slot that the suspect waits for", last.Lane)
	}
}

func TestSuspectsStarveBehindNoBacklog(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	d.respond = func(*Delivery) postrider.Attempt {
		a := a200
		a.Duration = 20 * time.Millisecond
		return a
	}
	id := d.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 4 })
	d.publish(id, 5000)
	d.suspects(100, id)
	d.wait(5 * time.Second)
	suspects := 0
	for _, f := range d.sent {
		if f.Lane == postrider.LaneSuspect {
			suspects++
		}
	}
	if suspects != 100 {
		t.Errorf("%d of 100 suspects were sent while %d others wait", suspects, len(d.rows[id]))
	}
}

func TestASuspectThatMustBeRetriedIsNoSuspectAnyMore(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	id := d.endpoints(1)[0]
	d.suspects(1, id)
	d.over(id, a500)
	d.wait(6 * time.Second)
	if len(d.sent) != 2 || d.sent[1].Lane != postrider.LaneRetry {
		t.Errorf("%d attempts, want a second one from the retry lane", len(d.sent))
	}
}
