package schedule

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// harness is a core with a store that responds at once. The test moves its time on. Receivers
// respond when the test says so, or as the function respond says.
type harness struct {
	t       *testing.T
	c       *core
	now     time.Time
	wakeAt  time.Time
	routed  map[postrider.EndpointID]*store.EndpointSnapshot
	rows    map[postrider.EndpointID][]row // waiting rows
	leased  map[store.Lease]postrider.Claimed
	respond func(*Delivery) postrider.Attempt // the response comes after its Duration; nil: the test responds

	underWay []request // requests in flight, in the order in which they left
	sent     []request // all requests
	slow     bool      // true: the test stores changes of circuits
	changes  []postrider.Circuit
	settled  []store.Settlement
	given    int // number of leases that were given back
	claims   int // number of deliveries that were claimed
	next     int // number for the next id
}

// expiry is the expiry of every delivery.
const expiry = 24 * time.Hour

type row struct {
	due time.Time
	postrider.Claimed
}

type request struct {
	*Delivery
	left, ends time.Time
	published  time.Time
	attempt    postrider.Attempt
}

func newHarness(t *testing.T, opts Options) *harness {
	h := &harness{
		t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		routed: map[postrider.EndpointID]*store.EndpointSnapshot{}, rows: map[postrider.EndpointID][]row{},
		leased: map[store.Lease]postrider.Claimed{},
	}
	opts.Incarnation = cmp.Or(opts.Incarnation, 1)
	h.c = newCore(opts, func(id postrider.EndpointID) (*store.EndpointSnapshot, bool) {
		to, ok := h.routed[id]
		return to, ok
	})
	h.step()
	h.now = h.now.Add(time.Hour) // so that the node did not start just now
	return h
}

// shared returns the options of a node among others.
func shared() Options { return Options{Shared: true} }

// endpoint makes an endpoint at a host. Its shard is the last byte of its number.
func (h *harness) endpoint(host string, change func(*postrider.Policy)) postrider.EndpointID {
	h.next++
	id := postrider.EndpointID{1, 13: byte(h.next >> 16), 14: byte(h.next >> 8), 15: byte(h.next)}
	policy := postrider.DefaultPolicy()
	policy.Retry = postrider.RetryPolicy{Base: 5 * time.Second, Factor: 1, Cap: 5 * time.Second, MaxAttempts: 1000}
	if change != nil {
		change(&policy)
	}
	h.routed[id] = &store.EndpointSnapshot{Endpoint: postrider.Endpoint{
		ID: id, URL: "https://" + host + "/", Status: postrider.EndpointEnabled, Policy: policy,
	}}
	return id
}

// alter changes the endpoint, and gives the core the change.
func (h *harness) alter(id postrider.EndpointID, change func(*store.EndpointSnapshot)) {
	to := *h.routed[id]
	change(&to)
	h.routed[id] = &to
	h.step(changed{id})
}

func (h *harness) pause(id postrider.EndpointID) {
	h.alter(id, func(to *store.EndpointSnapshot) { to.Endpoint.Status = postrider.EndpointPaused })
}

// publish adds n waiting deliveries, and tells the core.
func (h *harness) publish(id postrider.EndpointID, n int) {
	in := stored{}
	for range n {
		h.next++
		h.rows[id] = append(h.rows[id], row{h.now, postrider.Claimed{
			ID:       postrider.DeliveryID{1, 13: byte(h.next >> 16), 14: byte(h.next >> 8), 15: byte(h.next)},
			Endpoint: id, Event: &postrider.Event{Data: []byte("1")}, Lane: postrider.LaneFirst, ExpiresAt: h.now.Add(expiry),
		}})
		in.waiting = append(in.waiting, store.DueLane{Endpoint: id, Lane: postrider.LaneFirst})
	}
	h.step(in)
}

// step applies the inputs, and lets the store and the receivers carry out the actions.
func (h *harness) step(inputs ...any) {
	h.t.Helper()
	for _, in := range inputs {
		h.c.step(h.now, in)
	}
	do := h.c.Decide(h.now)
	h.wakeAt = do.WakeAt
	for _, it := range do.Send {
		f := request{Delivery: it, left: h.now, published: it.ExpiresAt.Add(-expiry)}
		if h.respond != nil {
			f.attempt = h.respond(it)
			f.ends = h.now.Add(f.attempt.Duration)
		}
		h.underWay, h.sent = append(h.underWay, f), append(h.sent, f)
	}
	if most := h.c.opts.MaxInFlight; h.c.slots.inFlight > most {
		h.t.Fatalf("%d attempts in flight, limit %d", h.c.slots.inFlight, most)
	}
	var answers []any
	if len(do.Settle) > 0 {
		answers = append(answers, h.settle(do.Settle))
	}
	if do.Claim != nil {
		answers = append(answers, h.claim(do.Claim))
	}
	if len(do.Release) > 0 {
		h.given += len(do.Release)
		answers = append(answers, h.release(do.Release))
	}
	for _, circuit := range do.Circuits {
		h.changes = append(h.changes, circuit.Circuit)
		if !h.slow {
			answers = append(answers, h.grant())
		}
	}
	if len(answers) > 0 {
		h.step(answers...)
	}
}

// grant returns the input that says that the oldest waiting change of a circuit was stored.
func (h *harness) grant() CircuitStored {
	if len(h.changes) == 0 {
		h.t.Fatal("no change of a circuit is to be stored")
	}
	circuit := h.changes[0]
	circuit.Generation++
	h.changes = h.changes[1:]
	return CircuitStored{circuit, nil}
}

func (h *harness) settle(settlements []store.Settlement) SettlementsCommitted {
	in := SettlementsCommitted{settlements, make([]store.Settled, len(settlements))}
	h.settled = append(h.settled, settlements...)
	for _, s := range settlements {
		delete(h.leased, store.Lease{Delivery: s.Claimed.ID, Token: s.Claimed.Token})
		if s.Transition.To == postrider.Pending {
			again := s.Claimed
			again.Lane, again.Step = postrider.LaneRetry, s.Transition.Step
			h.rows[again.Endpoint] = append(h.rows[again.Endpoint], row{h.now.Add(s.Transition.After), again})
		}
	}
	return in
}

func (h *harness) claim(c *store.Claim) ClaimReturned {
	in := ClaimReturned{Claim: c, AskedAt: h.now}
	for _, w := range c.Wants {
		state := store.LaneState{Low: h.now}
		var left []row
		for _, r := range h.rows[w.Endpoint] {
			switch {
			case r.Lane == w.Lane && state.Claimed < w.N && !r.due.After(h.now):
				r.Token, r.Attempt = c.Token, r.Attempt+1
				in.Got.Items = append(in.Got.Items, r.Claimed)
				h.leased[store.Lease{Delivery: r.ID, Token: r.Token}] = r.Claimed
				state.Claimed++
				continue
			case r.Lane == w.Lane && !(state.Waiting && state.In <= r.due.Sub(h.now)):
				state.Waiting, state.In = true, r.due.Sub(h.now)
			}
			left = append(left, r)
		}
		h.claims += state.Claimed
		h.rows[w.Endpoint] = left
		in.Got.Lanes = append(in.Got.Lanes, state)
	}
	return in
}

func (h *harness) release(releases []Release) LeasesReleased {
	for _, r := range releases {
		if back, ok := h.leased[r.Lease]; ok {
			delete(h.leased, r.Lease)
			back.Attempt--
			h.rows[back.Endpoint] = append(h.rows[back.Endpoint], row{h.now, back})
		}
		for _, f := range h.underWay {
			if f.ID == r.Delivery && f.Token == r.Token {
				h.t.Fatalf("delivery %v is in flight and given back", r.Delivery)
			}
		}
	}
	return LeasesReleased{releases}
}

// over ends the oldest request to the endpoint.
func (h *harness) over(id postrider.EndpointID, a postrider.Attempt) {
	h.t.Helper()
	i := slices.IndexFunc(h.underWay, func(f request) bool { return f.Endpoint == id })
	if i < 0 {
		h.t.Fatalf("nothing is in flight to endpoint %v", id[15])
	}
	f := h.underWay[i]
	h.underWay = slices.Delete(h.underWay, i, i+1)
	h.step(over(f.Delivery, a))
}

// wait lets time pass in steps of at most a second, as the loop does.
func (h *harness) wait(span time.Duration) {
	h.t.Helper()
	for end := h.now.Add(span); h.now.Before(end); {
		next := earliest(end, h.now.Add(time.Second))
		if !h.wakeAt.IsZero() && h.wakeAt.After(h.now) {
			next = earliest(next, h.wakeAt)
		}
		for _, f := range h.underWay {
			if h.respond != nil {
				next = earliest(next, f.ends)
			}
		}
		h.now = later(next, h.now)
		var inputs []any
		if h.respond != nil {
			h.underWay = slices.DeleteFunc(h.underWay, func(f request) bool {
				if f.ends.After(h.now) {
					return false
				}
				inputs = append(inputs, over(f.Delivery, f.attempt))
				return true
			})
		}
		h.step(inputs...)
	}
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// inFlight counts the requests to the endpoints; without arguments, to all endpoints.
func (h *harness) inFlight(ids ...postrider.EndpointID) (n int) {
	for _, f := range h.underWay {
		if len(ids) == 0 || slices.Contains(ids, f.Endpoint) {
			n++
		}
	}
	return n
}

// markResponsive sets the last response of the endpoints an hour ahead, so that the core takes them
// for responsive.
func (h *harness) markResponsive(ids ...postrider.EndpointID) {
	for _, id := range ids {
		h.c.endpoint(id).respondedAt = h.now.Add(time.Hour)
	}
}

// expect requires that n requests to the endpoint are in flight.
func (h *harness) expect(id postrider.EndpointID, n int, when string) {
	h.t.Helper()
	if got := h.inFlight(id); got != n {
		h.t.Errorf("%s: %d attempts in flight, want %d", when, got, n)
	}
}

// fail makes failures in a row, which open the endpoint's circuit.
func (h *harness) fail(id postrider.EndpointID) {
	h.t.Helper()
	h.failBy(id, a500)
}

func (h *harness) failBy(id postrider.EndpointID, a postrider.Attempt) {
	h.t.Helper()
	h.publish(id, 5)
	for range 5 {
		h.over(id, a)
	}
	if !h.c.endpoints[id].isOpen() {
		h.t.Fatal("the circuit has not opened after five failures in a row")
	}
}

// The responses of receivers.
var (
	a200    = postrider.Attempt{Outcome: postrider.OutcomeAccepted, StatusCode: 200, Duration: time.Millisecond}
	a500    = postrider.Attempt{Outcome: postrider.OutcomeRejected, StatusCode: 500, Duration: time.Millisecond}
	a429    = postrider.Attempt{Outcome: postrider.OutcomeThrottled, StatusCode: 429, Duration: time.Millisecond}
	a410    = postrider.Attempt{Outcome: postrider.OutcomeGone, StatusCode: 410, Duration: time.Millisecond}
	a503    = postrider.Attempt{Outcome: postrider.OutcomeThrottled, StatusCode: 503, Duration: time.Millisecond}
	silence = postrider.Attempt{Outcome: postrider.OutcomeTimedOut, Duration: 10 * time.Second}
)
