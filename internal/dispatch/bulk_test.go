package dispatch

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// replay lets n deliveries wait in the bulk lane, and says so.
func (d *desk) replay(id postrider.EndpointID, n int) {
	for range n {
		d.next++
		d.rows[id] = append(d.rows[id], row{d.now, postrider.Claimed{
			ID:       postrider.DeliveryID{2, 13: byte(d.next >> 16), 14: byte(d.next >> 8), 15: byte(d.next)},
			Endpoint: id, Event: &postrider.Event{Data: []byte("1")}, Lane: postrider.LaneBulk, ExpiresAt: d.now.Add(expiry),
		}})
	}
	d.step(due{lanes: []store.DueLane{{Endpoint: id, Lane: postrider.LaneBulk}}})
}

func TestThePaceOfBulkFollowsTheProcessors(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		load   load
		urgent time.Duration // ago
		want   float64       // after long
	}{
		{load{saturated: true, crowded: true}, time.Hour, leastBulk},
		{load{crowded: true}, time.Second - 1, leastBulk},
		{load{crowded: true}, time.Second, mostBulk},
		{load{}, 0, mostBulk},
	} {
		p := pace{}
		p.refill(now)
		p.urgent = now.Add(-tt.urgent)
		first := p.rate
		p.short = true
		p.adjust(now, tt.load)
		if p.rate < first != (tt.want < first) {
			t.Errorf("%+v, urgent %v ago: a pace of %v after %v, want it to change at once", tt.load, tt.urgent, p.rate, first)
		}
		for range 100 {
			p.short = true
			p.adjust(now, tt.load)
		}
		if p.rate != tt.want {
			t.Errorf("%+v, urgent %v ago: a pace of %v in the end, want %v", tt.load, tt.urgent, p.rate, tt.want)
		}
		for range 100 {
			p.adjust(now, load{})
		}
		if p.rate != firstBulk {
			t.Errorf("a pace of %v after it was not used for long, want %v", p.rate, firstBulk)
		}
	}
}

func TestBulkWaitsForItsPaceAndNothingElseDoes(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{})
	d.respond = func(*item) postrider.Attempt { return a200 }
	var ids []postrider.EndpointID
	d.step(load{saturated: true})
	for range 20 {
		ids = append(ids, d.endpoint("a.example", nil))
		d.replay(ids[len(ids)-1], 500)
	}
	for i := range 10 {
		d.wait(time.Second)
		d.publish(ids[i], 1)
		if !slices.ContainsFunc(d.sent, func(f flight) bool { return f.Lane == postrider.LaneFirst && f.left.Equal(d.now) }) {
			t.Error("a first attempt waits for the pace of bulk")
		}
	}
	slow, each := len(d.sent)-10, map[postrider.EndpointID]int{}
	for _, f := range d.sent {
		each[f.Endpoint]++
	}
	if slow < 9*leastBulk || slow > 15*leastBulk {
		t.Errorf("%d bulk attempts in 10 s while saturated, want about %d", slow, 10*leastBulk)
	}
	for _, id := range ids {
		if each[id] < slow/40 {
			t.Errorf("%d of %d attempts to one of 20 endpoints", each[id], slow)
		}
	}
	d.step(load{})
	d.wait(10 * time.Second)
	if got := len(d.sent) - 10; got != 10_000 || d.c.patient.len() > 0 {
		t.Errorf("%d of 10,000 bulk attempts left, and %d endpoints wait; want all, faster", got, d.c.patient.len())
	}
}

func TestWhatWaitsForThePaceIsLeftAloneMeanwhile(t *testing.T) {
	t.Parallel()
	c, now := fixture(nil)
	found := due{}
	for i := range 5 {
		found.lanes = append(found.lanes, store.DueLane{Endpoint: postrider.EndpointID{byte(i)}, Lane: postrider.LaneBulk})
	}
	asked := false
	do := take(c, now, found)
	for range 20 { // the claim does not come back
		asked = asked || do.claim != nil
		if least := now.Add(5 * time.Millisecond); !do.wakeAt.IsZero() && do.wakeAt.Before(least) {
			t.Errorf("the next step is %v after the last, want 5ms at least", do.wakeAt.Sub(now))
		}
		now = later(do.wakeAt, now.Add(time.Millisecond))
		do = take(c, now)
	}
	if !asked {
		t.Error("nothing was claimed")
	}
}
