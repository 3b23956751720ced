package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// replay adds n waiting deliveries to the bulk lane, and tells the core.
func (h *harness) replay(id postrider.EndpointID, n int) {
	for range n {
		h.next++
		h.rows[id] = append(h.rows[id], row{h.now, postrider.Claimed{
			ID:       postrider.DeliveryID{2, 13: byte(h.next >> 16), 14: byte(h.next >> 8), 15: byte(h.next)},
			Endpoint: id, Event: &postrider.Event{Data: []byte("1")}, Lane: postrider.LaneBulk, ExpiresAt: h.now.Add(expiry),
		}})
	}
	h.step(LanesDue{Lanes: []store.DueLane{{Endpoint: id, Lane: postrider.LaneBulk}}})
}

func TestTheBulkRateFollowsTheProcessors(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		load   Load
		urgent time.Duration // time since the last urgent start
		want   float64       // rate after a long time
	}{
		{Load{Saturated: true, Crowded: true}, time.Hour, minBulkRate},
		{Load{Crowded: true}, time.Second - 1, minBulkRate},
		{Load{Crowded: true}, time.Second, maxBulkRate},
		{Load{}, 0, maxBulkRate},
	} {
		p := bulkLimiter{slots: &slots{}}
		p.refill(now)
		p.urgentAt = now.Add(-tt.urgent)
		first := p.rate
		p.short = true
		p.adjust(now, tt.load)
		if p.rate < first != (tt.want < first) {
			t.Errorf("%+v, urgent %v ago: a rate of %v after %v, want it to change at once", tt.load, tt.urgent, p.rate, first)
		}
		for range 100 {
			p.short = true
			p.adjust(now, tt.load)
		}
		if p.rate != tt.want {
			t.Errorf("%+v, urgent %v ago: a rate of %v in the end, want %v", tt.load, tt.urgent, p.rate, tt.want)
		}
		for range 100 {
			p.adjust(now, Load{})
		}
		if p.rate != initialBulkRate {
			t.Errorf("a rate of %v after it was not used for long, want %v", p.rate, initialBulkRate)
		}
	}
}

func TestBulkWaitsForItsRateAndNothingElseDoes(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{})
	h.respond = func(*Delivery) postrider.Attempt { return a200 }
	var ids []postrider.EndpointID
	h.step(Load{Saturated: true})
	for range 20 {
		ids = append(ids, h.endpoint("a.example", nil))
		h.replay(ids[len(ids)-1], 500)
	}
	for i := range 10 {
		h.wait(time.Second)
		h.publish(ids[i], 1)
		if !slices.ContainsFunc(h.sent, func(f request) bool { return f.Lane == postrider.LaneFirst && f.left.Equal(h.now) }) {
			t.Error("a first attempt waits for the bulk rate")
		}
	}
	slow, each := len(h.sent)-10, map[postrider.EndpointID]int{}
	for _, f := range h.sent {
		each[f.Endpoint]++
	}
	if slow < 9*minBulkRate || slow > 15*minBulkRate {
		t.Errorf("%d bulk attempts in 10 s while saturated, want about %d", slow, 10*minBulkRate)
	}
	for _, id := range ids {
		if each[id] < slow/40 {
			t.Errorf("%d of %d attempts to one of 20 endpoints", each[id], slow)
		}
	}
	h.step(Load{})
	h.wait(10 * time.Second)
	if got := len(h.sent) - 10; got != 10_000 || h.c.bulk.waiting.len() > 0 {
		t.Errorf("%d of 10,000 bulk attempts left, and %d endpoints wait; want all, faster", got, h.c.bulk.waiting.len())
	}
}

func TestEndpointsThatWaitForTheBulkRateAreNotReviewed(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	found := LanesDue{}
	for i := range 5 {
		found.Lanes = append(found.Lanes, store.DueLane{Endpoint: postrider.EndpointID{byte(i)}, Lane: postrider.LaneBulk})
	}
	asked := false
	do := decide(c, now, found)
	for range 20 { // the claim does not return
		asked = asked || do.Claim != nil
		if least := now.Add(5 * time.Millisecond); !do.WakeAt.IsZero() && do.WakeAt.Before(least) {
			t.Errorf("the next step is %v after the last, want 5ms at least", do.WakeAt.Sub(now))
		}
		now = later(do.WakeAt, now.Add(time.Millisecond))
		do = decide(c, now)
	}
	if !asked {
		t.Error("nothing was claimed")
	}
}
