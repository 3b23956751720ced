package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider"
)

// unstarted returns how many deliveries the node has leased but not started.
func (h *harness) unstarted() int { return h.c.slots.credit - h.c.slots.inFlight }

func TestANodeLeasesNoMoreThanItsSlotsBeforeTheyStart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{Concurrency: 100})
	most := 0
	h.respond = func(*Delivery) postrider.Attempt {
		most = max(most, h.unstarted())
		a := a200
		a.Duration = 20 * time.Millisecond
		return a
	}
	for _, id := range h.endpoints(40) {
		h.publish(id, 200)
		h.replay(id, 50)
	}
	h.wait(20 * time.Second)
	if most > 100 || most < 50 {
		t.Errorf("up to %d deliveries were leased before they started, want no more than the 100 slots and most of them", most)
	}
	if len(h.sent) != 40*250 {
		t.Errorf("%d of %d were sent", len(h.sent), 40*250)
	}
}

func TestEndpointsThatCannotStartLeaveCapacityToOthers(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]func(*postrider.Policy){
		"their rate is spent": func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 1, Per: time.Minute} },
		"they are silent":     func(p *postrider.Policy) { p.Circuit = postrider.CircuitPolicy{} },
		"their host is full":  func(*postrider.Policy) {},
	} {
		h := newHarness(t, Options{Concurrency: 100, HostConcurrency: 50})
		well := map[postrider.EndpointID]bool{}
		h.respond = func(it *Delivery) postrider.Attempt {
			a := a200
			switch {
			case well[it.Endpoint], name == "their rate is spent":
			case name == "their host is full":
				a.Duration = 10 * time.Second
			default:
				a = silence
			}
			return a
		}
		for i := range 200 {
			host := "full.example"
			if name != "their host is full" {
				host = fmt.Sprintf("%d.example", i)
			}
			h.publish(h.endpoint(host, policy), 10)
		}
		for i := range 10 { // without endpoints that respond, the node's own network would look broken
			id := h.endpoint(fmt.Sprintf("well%d.example", i), nil)
			well[id] = true
			h.publish(id, 300)
		}
		for range 45 {
			for id := range well {
				h.publish(id, 1)
			}
			h.wait(time.Second)
		}
		if n := h.unstarted(); n > 50 {
			t.Errorf("%s: %d deliveries are leased and cannot start", name, n)
		}
		id := h.endpoint("well.example", nil)
		well[id] = true
		h.publish(id, 100)
		h.wait(time.Second)
		if n := len(h.rows[id]) + h.inFlight(id); n > 0 {
			t.Errorf("%s: %d of 100 deliveries to a healthy endpoint wait after a second", name, n)
		}
	}
}

func TestEndpointsThatWaitForPrefetchCapacityGetItAtOnce(t *testing.T) {
	t.Parallel()
	for _, hosts := range []int{1, 3} { // each host is full at first
		h := newHarness(t, Options{Concurrency: 100, HostConcurrency: 30})
		h.respond = func(*Delivery) postrider.Attempt { return a200 }
		var ids []postrider.EndpointID
		for i := range 100 {
			ids = append(ids, h.endpoint(fmt.Sprintf("%d.example", i%hosts), nil))
		}
		h.wait(2 * time.Second)
		start := h.now
		for _, id := range ids {
			h.publish(id, 3)
		}
		h.wait(5 * time.Second)
		if n := len(h.sent); n != 300 {
			t.Fatalf("%d hosts: %d of 300 deliveries were sent", hosts, n)
		}
		if last := h.sent[299].left.Sub(start); last > 20*time.Millisecond {
			t.Errorf("%d hosts: the last delivery was sent after %v, want 20ms at most", hosts, last)
		}
	}
}
