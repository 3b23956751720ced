package schedule

import (
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

func TestTheLimitOfAHostHoldsForAllAccountsTogether(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{Concurrency: 100, HostConcurrency: 8})
	var ids []postrider.EndpointID
	for range 10 {
		id := h.endpoint("a.example:8443", nil)
		h.routed[id].Endpoint.Account = postrider.AccountID{byte(len(ids))}
		h.publish(id, 20)
		ids = append(ids, id)
	}
	other := h.endpoint("b.example", nil)
	h.markResponsive(append(ids, other)...)
	h.publish(other, 20)
	h.expect(other, 8, "another host")
	for range 192 {
		if n := h.inFlight(ids...); n != 8 {
			t.Fatalf("%d attempts in flight to one host, want 8", n)
		}
		h.over(h.underWay[slices.IndexFunc(h.underWay, func(f request) bool { return f.Endpoint != other })].Endpoint, a200)
	}
	sent := map[postrider.EndpointID]int{}
	for _, f := range h.sent {
		sent[f.Endpoint]++
	}
	for _, id := range ids {
		if sent[id] != 20 {
			t.Errorf("%d of 20 deliveries left to one of the endpoints at the host", sent[id])
		}
	}
}

func TestASlotOfAHostGoesToTheFirstEndpointThatCanUseIt(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{HostConcurrency: 1})
	one, paused, throttled, last := h.endpoint("a.example", nil), h.endpoint("a.example", nil), h.endpoint("a.example", nil),
		h.endpoint("a.example", nil)
	for _, id := range []postrider.EndpointID{one, paused, throttled, last} {
		h.publish(id, 1)
	}
	h.pause(paused)
	h.c.endpoints[throttled].breaker.PacedUntil = h.now.Add(time.Hour)
	h.over(one, a200)
	h.expect(last, 1, "the host is free, and those that wait before it may not start")
}

func TestAnEndpointThatMovesToAnotherHostTakesItsAttemptsAlong(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{HostConcurrency: 4})
	mover, waiting := h.endpoint("a.example", nil), h.endpoint("a.example", nil)
	h.markResponsive(mover, waiting)
	h.publish(mover, 4)
	h.publish(waiting, 4)
	h.expect(mover, 4, "the whole host")
	h.expect(waiting, 0, "the host is full")
	h.alter(mover, func(to *store.EndpointSnapshot) { to.Endpoint.URL = "https://b.example/" })
	h.expect(waiting, 4, "the host that was left")
	busy := h.endpoint("b.example", nil)
	h.markResponsive(busy)
	h.publish(busy, 4)
	h.expect(busy, 0, "the host that was moved to is full")

	h.alter(busy, func(to *store.EndpointSnapshot) { to.Endpoint.URL = "https://c.example/" })
	h.expect(busy, 4, "one that waited for its host and left it")
	for _, id := range []postrider.EndpointID{mover, waiting, busy} {
		for range 4 {
			h.over(id, a200)
		}
	}
	h.wait(15 * time.Second)
	if len(h.c.hosts.byName) > 0 {
		t.Errorf("%d hosts are remembered", len(h.c.hosts.byName))
	}
}

func TestHostNamesOfURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"https://a.example": "a.example", "https://a.example:8443/x?y": "a.example", "http://[::1]:80/": "[::1]",
		"http://[::1]/": "[::1]", "https://10.0.0.1?x": "10.0.0.1",
	} {
		if got := hostOf(url); got != want {
			t.Errorf("hostOf(%q) = %q, want %q", url, got, want)
		}
	}
}

func TestEndpointsAtAFullHostLeaseOnlyWhatTheyCanStart(t *testing.T) {
	t.Parallel()
	h := newHarness(t, Options{HostConcurrency: 2})
	first, second, third := h.endpoint("a.example", nil), h.endpoint("a.example", nil), h.endpoint("a.example", nil)
	h.publish(first, 2)
	h.publish(second, 1)
	h.publish(third, 30)
	h.publish(second, 30)
	for _, id := range []postrider.EndpointID{second, third} {
		if n := h.c.endpoints[id].prefetchedCount(); n != 1 {
			t.Errorf("%d deliveries are held at a full host, want one", n)
		}
	}
	h.respond = func(*Delivery) postrider.Attempt { return a200 }
	for range 2 {
		h.over(first, a200)
	}
	h.wait(time.Second)
	if len(h.sent) != 63 || h.c.hosts.byName["a.example"] != nil && h.c.hosts.byName["a.example"].full {
		t.Errorf("%d of 63 left, and the host is not free", len(h.sent))
	}
}
