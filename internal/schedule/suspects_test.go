package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// suspects adds n waiting suspects to each of the endpoints, which the next scan finds.
func (h *harness) suspects(n int, ids ...postrider.EndpointID) {
	h.t.Helper()
	in := LanesDue{}
	for _, id := range ids {
		for range n {
			h.next++
			h.rows[id] = append(h.rows[id], row{h.now, postrider.Claimed{
				ID:       postrider.DeliveryID{2, 13: byte(h.next >> 16), 14: byte(h.next >> 8), 15: byte(h.next)},
				Endpoint: id, Event: &postrider.Event{Data: []byte("1")}, Lane: postrider.LaneSuspect,
				Losses: postrider.SuspectedAfter, ExpiresAt: h.now.Add(expiry),
			}})
		}
		in.Lanes = append(in.Lanes, store.DueLane{Endpoint: id, Lane: postrider.LaneSuspect})
	}
	h.step(in)
}

func (h *harness) endpoints(n int) (ids []postrider.EndpointID) {
	for i := range n {
		ids = append(ids, h.endpoint(fmt.Sprintf("%d.example", i), nil))
	}
	return ids
}

func TestSuspectsGoOneAtATimeAfterADeathAndThenTwiceAsMany(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	ids := h.endpoints(20)
	h.suspects(1, ids...)
	for _, want := range []int{1, 2, 4, 8, 5} {
		if got := h.inFlight(); got != want || h.c.slots.leased[suspectLane] != 0 {
			t.Fatalf("%d suspects in flight and %d leased besides, want %d and none", got, h.c.slots.leased[suspectLane], want)
		}
		for n := want - 1; n >= 0; n-- {
			if got := h.inFlight(); got != n+1 {
				t.Fatalf("%d suspects in flight, want %d until the round of %d is survived", got, n+1, want)
			}
			h.over(h.underWay[0].Endpoint, a200)
		}
	}
	if len(h.sent) != 20 {
		t.Errorf("%d of 20 suspects were sent", len(h.sent))
	}
}

func TestASuspectThatHangsHoldsUpNoOther(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	ids := h.endpoints(8)
	h.suspects(1, ids...)
	h.expect(ids[0], 1, "after the death")
	h.wait(harmlessAfter - time.Millisecond)
	if n := h.inFlight(); n != 1 {
		t.Fatalf("%d suspects in flight before the first has been for %v", n, harmlessAfter)
	}
	h.wait(4 * harmlessAfter)
	if n := h.inFlight(); n != 8 {
		t.Errorf("%d of 8 suspects in flight although none does harm", n)
	}
}

func TestSuspectsWaitUntilTheNodeIsUp(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	h.c.suspects.startedAt = h.now
	id := h.endpoints(1)[0]
	h.suspects(1, id)
	h.wait(suspectsAfter - time.Millisecond)
	h.expect(id, 0, "before the node has been up for long enough")
	h.wait(time.Millisecond)
	h.expect(id, 1, "after that")
}

func TestNewSuspectsGoOneAtATimeAgain(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	h.respond = func(*Delivery) postrider.Attempt { return a200 }
	old := h.endpoints(50)
	h.suspects(1, old...)
	h.wait(time.Second)
	if len(h.sent) != 50 || h.c.suspects.round < 32 {
		t.Fatalf("%d of 50 were sent, the window is %d", len(h.sent), h.c.suspects.round)
	}
	h.respond = nil
	h.suspects(1, old[:10]...) // another node died while it leased them
	if n := h.inFlight(); n != 1 {
		t.Errorf("%d new suspects in flight, want 1", n)
	}
}

func TestNoSuspectIsLeasedBeforeItCanStart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 2 })
	h.publish(id, 2)
	h.c.endpoints[id].latency = time.Second // responses take long
	h.suspects(1, id)
	if n := h.c.slots.leased[suspectLane]; n != 0 {
		t.Fatalf("%d suspects are leased while their endpoint has no slot", n)
	}
	h.over(id, a200)
	if last := h.sent[len(h.sent)-1]; last.Lane != postrider.LaneSuspect {
		t.Errorf("a delivery of lane %s has the slot that the suspect waits for", last.Lane)
	}
}

func TestNoSuspectIsLeasedAtAnEndpointThatNeverResponded(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 1 })
	h.publish(id, 1)
	h.suspects(1, id)
	if n := h.c.slots.leased[suspectLane]; n != 0 {
		t.Fatalf("%d suspects are leased while the only slot hangs", n)
	}
	h.over(id, a200)
	h.expect(id, 1, "the suspect, once the slot is free")
}

func TestADegradedClassLeasesNoSuspectAboveItsShare(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{Concurrency: 10})
	ids := h.endpoints(2)
	for _, id := range ids {
		h.publish(id, 1)
		h.over(id, silence)
	}
	h.publish(ids[0], 1) // takes the only slot of its class
	h.suspects(1, ids[1])
	if c := h.c; c.slots.creditOf[failedOnce] > c.slots.classLimit(failedOnce) {
		t.Fatalf("%d leased by endpoints that failed once, want at most %d", c.slots.creditOf[failedOnce], c.slots.classLimit(failedOnce))
	}
	h.over(ids[0], a200)
	h.expect(ids[1], 1, "the suspect, once its class has a slot")
}

func TestARoundOfWhichNothingIsAttemptedIsNotSurvived(t *testing.T) {
	t.Parallel()
	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, Options{})
		ids := h.endpoints(8)
		for i, id := range ids {
			expires := h.now.Add(expiry)
			if i < 3 {
				expires = h.now
			}
			h.rows[id] = []row{{h.now, postrider.Claimed{
				ID: postrider.DeliveryID(id), Endpoint: id, Event: &postrider.Event{Data: []byte("1")}, Lane: postrider.LaneSuspect,
				Losses: postrider.SuspectedAfter, ExpiresAt: expires,
			}}}
		}
		h.suspects(0, ids...) // a scan finds them at once
		if n := h.inFlight(); n != 1 || len(h.settled) != 3 {
			t.Errorf("%d suspects in flight after %d that were expired, want 1: none before was attempted", n, len(h.settled))
		}
	})
	t.Run("given back", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t, Options{})
		id := h.endpoint("a.example", nil)
		h.c.step(h.now, LanesDue{Lanes: []store.DueLane{{Endpoint: id, Lane: postrider.LaneSuspect}}})
		do := h.c.Decide(h.now)
		if do.Claim == nil {
			t.Fatal("no claim for the suspect")
		}
		h.pause(id)
		got := store.Claims{
			Lanes: []store.LaneState{{Claimed: 1}},
			Items: []postrider.Claimed{{ID: postrider.DeliveryID{9}, Endpoint: id, Lane: postrider.LaneSuspect, Token: do.Claim.Token}},
		}
		h.step(ClaimReturned{Claim: do.Claim, Got: got, AskedAt: h.now})
		h.wait(time.Second)
		if s := h.c.suspects; s.round != 1 || s.unclaimed != 1 || h.given != 1 {
			t.Errorf("a round of %d suspects with %d left after the first was given back %d times, want a round of 1 with 1 left", s.round,
				s.unclaimed, h.given)
		}
	})
}

func TestSuspectsStarveBehindNoBacklog(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	h.respond = func(*Delivery) postrider.Attempt {
		a := a200
		a.Duration = 20 * time.Millisecond
		return a
	}
	id := h.endpoint("a.example", func(p *postrider.Policy) { p.Concurrency = 4 })
	h.publish(id, 5000)
	h.suspects(100, id)
	h.wait(5 * time.Second)
	suspects := 0
	for _, f := range h.sent {
		if f.Lane == postrider.LaneSuspect {
			suspects++
		}
	}
	if suspects != 100 {
		t.Errorf("%d of 100 suspects were sent while %d others wait", suspects, len(h.rows[id]))
	}
}

func TestASuspectThatMustBeRetriedIsNoSuspectAnyMore(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	id := h.endpoints(1)[0]
	h.suspects(1, id)
	h.over(id, a500)
	h.wait(6 * time.Second)
	if len(h.sent) != 2 || h.sent[1].Lane != postrider.LaneRetry {
		t.Errorf("%d attempts, want a second one from the retry lane", len(h.sent))
	}
}
