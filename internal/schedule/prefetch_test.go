package schedule

import (
	"fmt"
	"testing"
	"time"

	"github.com/postrider/postrider"
)

// unstarted returns how many deliveries the node leases and has not started.
func (d *desk) unstarted() int { return d.c.slots.credit - d.c.slots.inFlight }

func TestANodeLeasesNoMoreThanItsSlotsBeforeTheyStart(t *testing.T) {
	t.Parallel()
	d := newDesk(t, Options{Concurrency: 100})
	most := 0
	d.respond = func(*Delivery) postrider.Attempt {
		most = max(most, d.unstarted())
		a := a200
		a.Duration = 20 * time.Millisecond
		return a
	}
	for _, id := range d.endpoints(40) {
		d.publish(id, 200)
		d.replay(id, 50)
	}
	d.wait(20 * time.Second)
	if most > 100 || most < 50 {
		t.Errorf("up to %d deliveries were leased before they started, want no more than the 100 slots and most of them", most)
	}
	if len(d.sent) != 40*250 {
		t.Errorf("%d of %d were sent", len(d.sent), 40*250)
	}
}

func TestEndpointsThatCannotStartLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]func(*postrider.Policy){
		"their rate is spent": func(p *postrider.Policy) { p.Rate = postrider.Rate{Attempts: 1, Per: time.Minute} },
		"they are silent":     func(p *postrider.Policy) { p.Circuit = postrider.CircuitPolicy{} },
		"their host is full":  func(*postrider.Policy) {},
	} {
		d := newDesk(t, Options{Concurrency: 100, HostConcurrency: 50})
		well := map[postrider.EndpointID]bool{}
		d.respond = func(it *Delivery) postrider.Attempt {
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
			d.publish(d.endpoint(host, policy), 10)
		}
		for i := range 10 { // without these it would rather be the node's own network
			id := d.endpoint(fmt.Sprintf("well%d.example", i), nil)
			well[id] = true
			d.publish(id, 300)
		}
		for range 45 {
			for id := range well {
				d.publish(id, 1)
			}
			d.wait(time.Second)
		}
		if n := d.unstarted(); n > 50 {
			t.Errorf("%s: %d deliveries are leased and cannot start", name, n)
		}
		id := d.endpoint("well.example", nil)
		well[id] = true
		d.publish(id, 100)
		d.wait(time.Second)
		if n := len(d.rows[id]) + d.inFlight(id); n > 0 {
			t.Errorf("%s: %d of 100 deliveries to a healthy endpoint wait after a second", name, n)
		}
	}
}

func TestEndpointsThatWaitForRoomInTheStockGetItAtOnce(t *testing.T) {
	t.Parallel()
	for _, hosts := range []int{1, 3} { // of which each is full at first
		d := newDesk(t, Options{Concurrency: 100, HostConcurrency: 30})
		d.respond = func(*Delivery) postrider.Attempt { return a200 }
		var ids []postrider.EndpointID
		for i := range 100 {
			ids = append(ids, d.endpoint(fmt.Sprintf("%d.example", i%hosts), nil))
		}
		d.wait(2 * time.Second)
		start := d.now
		for _, id := range ids {
			d.publish(id, 3)
		}
		d.wait(5 * time.Second)
		if n := len(d.sent); n != 300 {
			t.Fatalf("%d hosts: %d of 300 deliveries were sent", hosts, n)
		}
		if last := d.sent[299].left.Sub(start); last > 20*time.Millisecond {
			t.Errorf("%d hosts: the last delivery was sent after %v, want 20ms at most", hosts, last)
		}
	}
}
