package ingest_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/ingest"
)

// directed returns an event for these endpoints only.
func (r *harness) directed(to ...postrider.Endpoint) postrider.Event {
	e := r.event("", `{"a": 2}`)
	for i := range to {
		e.Endpoints = append(e.Endpoints, to[i].ID)
	}
	return e
}

// An event that names endpoints asks no types and no filters, and skips as other events do.
func TestAnEventGoesToTheEndpointsThatItNames(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{})
	defer r.run()()
	r.endpoints(3, postrider.EndpointEnabled)
	named := r.filtered(3, `{"data": {"a": [1]}}`, func(e *postrider.Endpoint) { e.EventTypes = []postrider.Pattern{"other"} })
	named[1].Status, named[2].Status = postrider.EndpointPaused, postrider.EndpointDisabled
	r.put(named[1])
	r.put(named[2])
	got := r.publish(r.directed(named...))[0]
	if found := r.deliveries(got.ID); got.Deliveries != 2 || found[postrider.Pending] != 2 || found[postrider.Skipped] != 1 {
		t.Errorf("%+v, stored %v, want two pending and the disabled one skipped", got, found)
	}
	named[0].Status = postrider.EndpointDeleted
	r.put(named[0])
	if got := r.publish(r.directed(named[0]))[0]; got.Deliveries != 0 || got.FanOut {
		t.Errorf("for a deleted endpoint: %+v", got)
	}
}

// A job of an event that names endpoints makes deliveries for these alone, also after an interruption.
func TestAFanOutHasTheEndpointsThatAnEventNames(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newHarness(t, ingest.Options{FanOutAbove: 5, FanOutChunk: 3})
		r.endpoints(20, postrider.EndpointEnabled)
		named := r.filtered(10, `{"data": {"a": [1]}}`, func(e *postrider.Endpoint) { e.EventTypes = []postrider.Pattern{"other"} })
		broken := &interruptedInbox{Inbox: r.store} // fails before its first chunk
		r.inbox = broken
		stop := r.run()
		got := r.publish(r.directed(named...))[0]
		time.Sleep(time.Second)
		named[4].Status = postrider.EndpointDeleted
		r.put(named[4])
		broken.left.Store(2) // and before its third
		time.Sleep(time.Minute)
		broken.left.Store(1000)
		time.Sleep(time.Minute)
		if found := r.deliveries(got.ID); !got.FanOut || found[postrider.Pending] != 9 || found[postrider.Skipped] != 1 {
			t.Errorf("%+v, stored %v, want a job with 9 pending and the deleted one skipped", got, found)
		}
		stop()
	})
}

// An endpoint that wants order keeps an event from a job only if the event names it.
func TestNamedEndpointsDecideAboutOrder(t *testing.T) {
	t.Parallel()
	r := newHarness(t, ingest.Options{FanOutAbove: 5})
	defer r.run()()
	plain := r.filtered(8, "", asIs)
	ordered := r.filtered(1, "", func(e *postrider.Endpoint) { e.Policy.Order = postrider.OrderByKey })
	for _, to := range [][]postrider.Endpoint{plain, append(plain[:7:7], ordered...)} {
		e := r.directed(to...)
		e.OrderingKey = "k"
		if got := r.publish(e)[0]; got.FanOut != (to[7].ID == plain[7].ID) || !got.FanOut && got.Deliveries != 8 {
			t.Errorf("%+v for %d endpoints", got, len(to))
		}
	}
}
