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

// failures are the ways in which an attempt fails.
var failures = map[string]postrider.Attempt{
	"500": a500, "503": a503, "time-out": silence,
	"refused": {Outcome: postrider.OutcomeUnreachable, Duration: time.Millisecond},
	"reset":   {Outcome: postrider.OutcomeBroken, Duration: time.Millisecond},
}

// endpointsAtOwnHosts makes n endpoints, each at its own host.
func (h *harness) endpointsAtOwnHosts(n int, change func(*postrider.Policy)) []postrider.EndpointID {
	ids := make([]postrider.EndpointID, n)
	for i := range ids {
		ids[i] = h.endpoint(fmt.Sprintf("h%d.example", h.next), change)
	}
	return ids
}

// publishEvery publishes one event to each of ids in each period, spread evenly.
func (h *harness) publishEvery(period, span time.Duration, ids []postrider.EndpointID) {
	const steps = 10
	for at := time.Duration(0); at < span; at += period / steps {
		part := int(at/(period/steps)) % steps
		for _, id := range ids[part*len(ids)/steps : (part+1)*len(ids)/steps] {
			h.publish(id, 1)
		}
		h.wait(period / steps)
	}
}

// Every endpoint fails for ten minutes. Their circuits limit the number of requests, and each
// endpoint gets its events within a minute of the end.
func TestAnOutageOfEverythingIsBoundedByCircuits(t *testing.T) {
	t.Parallel()
	if testkit.Plain(t) {
		return
	}
	for name, fails := range failures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t, Options{})
			ids := h.endpointsAtOwnHosts(1000, func(p *postrider.Policy) { p.Retry = postrider.RetryPolicy{Preset: "default"} })
			h.respond = func(*Delivery) postrider.Attempt { return fails }
			h.publishEvery(20*time.Second, 10*time.Minute, ids)
			first, probes := 0, 0
			for _, f := range h.sent {
				if f.Probe {
					probes++
				}
				if f.Step == 0 {
					first++
				}
			}
			if most := first*12/10 + 10*len(ids); len(h.sent) > most || probes > 10*len(ids) {
				t.Errorf("%d requests, %d of them probes, for %d first attempts; want %d at most", len(h.sent), probes, first, most)
			}
			ended, n := h.now, len(h.sent)
			h.respond = func(*Delivery) postrider.Attempt { return a200 }
			h.publishEvery(20*time.Second, time.Minute, ids)
			reached := map[postrider.EndpointID]bool{}
			for _, f := range h.sent[n:] {
				if !f.left.After(ended.Add(time.Minute)) {
					reached[f.Endpoint] = true
				}
			}
			if len(reached) != len(ids) {
				t.Errorf("%d of %d endpoints got something within a minute of the end", len(reached), len(ids))
			}
			t.Logf("%d requests, %d probes, %d first attempts", len(h.sent[:n]), probes, first)
		})
	}
}

// While 200 endpoints hang or fail all the time, the retry of an endpoint that fails once starts
// when it is due.
func TestARetryIsNotLateBesideEndpointsThatFail(t *testing.T) {
	t.Parallel()
	if testkit.Plain(t) {
		return
	}
	for _, preset := range []string{"never", "default"} {
		for _, others := range []string{"time-out", "500"} {
			for name, fails := range failures {
				t.Run(preset+" "+others+" "+name, func(t *testing.T) {
					t.Parallel()
					h := newHarness(t, Options{HostConcurrency: 1024})
					bad := h.endpointsAtOwnHosts(200, func(p *postrider.Policy) { p.Circuit = postrider.CircuitPresets[preset] })
					well := h.endpointsAtOwnHosts(100, func(p *postrider.Policy) {
						p.Retry = postrider.RetryPolicy{Base: time.Second, Factor: 1, Cap: time.Second, MaxAttempts: 3}
					})
					hopeless := map[postrider.EndpointID]bool{}
					for _, id := range bad {
						hopeless[id] = true
					}
					due := map[postrider.DeliveryID]time.Time{}
					var late []time.Duration
					h.respond = func(it *Delivery) postrider.Attempt {
						if hopeless[it.Endpoint] {
							return failures[others]
						}
						if it.Step == 0 && it.ID[15]%2 == 0 {
							due[it.ID] = h.now.Add(fails.Duration + time.Second)
							return fails
						}
						if at, ok := due[it.ID]; ok {
							late = append(late, h.now.Sub(at))
						}
						return a200
					}
					for i := range 60 {
						for _, id := range bad {
							if i%2 == 0 || len(h.rows[id]) == 0 {
								h.publish(id, 2)
							}
						}
						h.publish(well[i%len(well)], 1)
						h.wait(time.Second)
					}
					h.wait(15 * time.Second)
					slices.Sort(late)
					if len(late) < 20 || late[len(late)*99/100] > time.Second {
						t.Errorf("%d retries, late by up to %v", len(late), late[max(0, len(late)-3):])
					}
				})
			}
		}
	}
}

// An endpoint that responds 503 to half of its requests gets nearly as many as one that responds
// 500.
func TestHalfOf503HardlySlows(t *testing.T) {
	t.Parallel()
	run := func(fails postrider.Attempt) (delivered int) {
		h := newHarness(t, Options{})
		random := rand.New(rand.NewPCG(1, 2))
		id := h.endpoint("a.example", func(p *postrider.Policy) { p.Circuit = postrider.CircuitPresets["never"] })
		h.respond = func(*Delivery) postrider.Attempt {
			a := a200
			if random.IntN(2) == 0 {
				a = fails
			} else {
				delivered++
			}
			a.Duration = 20 * time.Millisecond
			return a
		}
		for range 600 {
			h.publish(id, 1)
			h.wait(100 * time.Millisecond)
		}
		return delivered
	}
	with500 := run(a500)
	if with503 := run(a503); with503*100 < with500*95 {
		t.Errorf("%d delivered with 503, and %d with 500", with503, with500)
	}
}

// An endpoint that refuses each event three times gets all events.
func TestRefusedThreeTimesThenAcceptedIsDelivered(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]postrider.Attempt{"500": a500, "503": a503, "429": a429} {
		h := newHarness(t, Options{})
		id := h.endpoint("a.example", func(p *postrider.Policy) {
			ms := time.Millisecond
			p.Circuit = postrider.CircuitPresets["never"]
			p.Retry = postrider.RetryPolicy{Delays: []time.Duration{0, 300 * ms, 300 * ms, 600 * ms, 600 * ms, time.Second}, Jitter: "10%"}
		})
		delivered := 0
		h.respond = func(it *Delivery) postrider.Attempt {
			if it.Attempt < 4 {
				return fails
			}
			delivered++
			return a200
		}
		for range 50 {
			h.publish(id, 1)
			h.wait(200 * time.Millisecond)
		}
		h.wait(10 * time.Second)
		if delivered != 50 {
			t.Errorf("%s: %d of 50 delivered after 20 s", name, delivered)
		}
	}
}

// Ten thousand hanging endpoints do not slow healthy endpoints, and each of them is probed as often
// as a quarter of the slots allows.
func TestTenThousandEndpointsThatHangCostHealthyOnesNothing(t *testing.T) {
	t.Parallel()
	if testkit.Plain(t) {
		return
	}
	h := newHarness(t, Options{})
	holes := h.endpointsAtOwnHosts(10_000, nil)
	well := h.endpointsAtOwnHosts(50, nil)
	accepts := map[postrider.EndpointID]bool{}
	for _, id := range well {
		accepts[id] = true
	}
	h.respond = func(it *Delivery) postrider.Attempt {
		if accepts[it.Endpoint] {
			return a200
		}
		return silence
	}
	h.markResponsive(well...)
	for _, id := range holes {
		h.publish(id, 6)
	}
	h.wait(10 * time.Minute)
	begun := len(h.sent)
	for range 120 {
		for _, id := range well {
			n := len(h.sent)
			h.publish(id, 1)
			if len(h.sent) == n {
				t.Fatal("a delivery to a healthy endpoint did not leave at once")
			}
		}
		h.wait(time.Second)
	}
	probes := len(h.sent) - begun - 120*len(well)
	t.Logf("%d requests to black holes in two minutes", probes)
	if most := (102 + 102 + 256) * 120 / 10; probes > most+460 {
		t.Errorf("%d requests to black holes in two minutes, want %d at most", probes, most)
	}
}
