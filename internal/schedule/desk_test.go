package schedule

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// desk is a core before a store that answers at once, in time that the test
// moves on. Receivers answer when the test says so, or as respond says.
type desk struct {
	t       *testing.T
	c       *core
	now     time.Time
	wakeAt  time.Time
	routed  map[postrider.EndpointID]*store.EndpointSnapshot
	rows    map[postrider.EndpointID][]row // that wait
	leased  map[store.Lease]postrider.Claimed
	respond func(*Delivery) postrider.Attempt // after which time is its Duration; nil: the test answers

	flying  []flight // requests, as they left
	sent    []flight // all there ever were
	slow    bool     // the test answers for changes of circuits
	changes []postrider.Circuit
	settled []store.Settlement
	given   int // leases that were given back
	claims  int // deliveries that were claimed
	next    int // for ids
}

// expiry is that of every delivery.
const expiry = 24 * time.Hour

type row struct {
	due time.Time
	postrider.Claimed
}

type flight struct {
	*Delivery
	left, ends time.Time
	published  time.Time
	attempt    postrider.Attempt
}

func newDesk(t *testing.T, opts Options) *desk {
	d := &desk{
		t: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC),
		routed: map[postrider.EndpointID]*store.EndpointSnapshot{}, rows: map[postrider.EndpointID][]row{},
		leased: map[store.Lease]postrider.Claimed{},
	}
	opts.Incarnation = cmp.Or(opts.Incarnation, 1)
	d.c = newCore(opts, func(id postrider.EndpointID) (*store.EndpointSnapshot, bool) {
		to, ok := d.routed[id]
		return to, ok
	})
	d.step()
	d.now = d.now.Add(time.Hour) // the node is not new
	return d
}

// shared are options of a node among others.
func shared() Options { return Options{Shared: true} }

// endpoint makes an endpoint at a host; its shard is its number's last byte.
func (d *desk) endpoint(host string, change func(*postrider.Policy)) postrider.EndpointID {
	d.next++
	id := postrider.EndpointID{1, 13: byte(d.next >> 16), 14: byte(d.next >> 8), 15: byte(d.next)}
	policy := postrider.DefaultPolicy()
	policy.Retry = postrider.RetryPolicy{Base: 5 * time.Second, Factor: 1, Cap: 5 * time.Second, MaxAttempts: 1000}
	if change != nil {
		change(&policy)
	}
	d.routed[id] = &store.EndpointSnapshot{Endpoint: postrider.Endpoint{
		ID: id, URL: "https://" + host + "/", Status: postrider.EndpointEnabled, Policy: policy,
	}}
	return id
}

// alter gives the endpoint other properties, of which the core is told.
func (d *desk) alter(id postrider.EndpointID, change func(*store.EndpointSnapshot)) {
	to := *d.routed[id]
	change(&to)
	d.routed[id] = &to
	d.step(changed{id})
}

func (d *desk) pause(id postrider.EndpointID) {
	d.alter(id, func(to *store.EndpointSnapshot) { to.Endpoint.Status = postrider.EndpointPaused })
}

// publish lets n deliveries wait, and says so.
func (d *desk) publish(id postrider.EndpointID, n int) {
	in := stored{}
	for range n {
		d.next++
		d.rows[id] = append(d.rows[id], row{d.now, postrider.Claimed{
			ID:       postrider.DeliveryID{1, 13: byte(d.next >> 16), 14: byte(d.next >> 8), 15: byte(d.next)},
			Endpoint: id, Event: &postrider.Event{Data: []byte("1")}, Lane: postrider.LaneFirst, ExpiresAt: d.now.Add(expiry),
		}})
		in.waiting = append(in.waiting, store.DueLane{Endpoint: id, Lane: postrider.LaneFirst})
	}
	d.step(in)
}

// step steps, and lets the store and the receivers do what is to be done.
func (d *desk) step(inputs ...any) {
	d.t.Helper()
	for _, in := range inputs {
		d.c.step(d.now, in)
	}
	do := d.c.Decide(d.now)
	d.wakeAt = do.WakeAt
	for _, it := range do.Send {
		f := flight{Delivery: it, left: d.now, published: it.ExpiresAt.Add(-expiry)}
		if d.respond != nil {
			f.attempt = d.respond(it)
			f.ends = d.now.Add(f.attempt.Duration)
		}
		d.flying, d.sent = append(d.flying, f), append(d.sent, f)
	}
	if d.c.slots.inFlight > d.c.opts.Concurrency {
		d.t.Fatalf("%d attempts in flight, limit %d", d.c.slots.inFlight, d.c.opts.Concurrency)
	}
	var answers []any
	if len(do.Settle) > 0 {
		answers = append(answers, d.settle(do.Settle))
	}
	if do.Claim != nil {
		answers = append(answers, d.claim(do.Claim))
	}
	if len(do.Release) > 0 {
		d.given += len(do.Release)
		answers = append(answers, d.release(do.Release))
	}
	for _, circuit := range do.Circuits {
		d.changes = append(d.changes, circuit.Circuit)
		if !d.slow {
			answers = append(answers, d.grant())
		}
	}
	if len(answers) > 0 {
		d.step(answers...)
	}
}

// grant stores the first change of a circuit that waits for it.
func (d *desk) grant() CircuitStored {
	if len(d.changes) == 0 {
		d.t.Fatal("no change of a circuit is to be stored")
	}
	circuit := d.changes[0]
	circuit.Generation++
	d.changes = d.changes[1:]
	return CircuitStored{circuit, nil}
}

func (d *desk) settle(settlements []store.Settlement) SettlementsCommitted {
	in := SettlementsCommitted{settlements, make([]store.Settled, len(settlements))}
	d.settled = append(d.settled, settlements...)
	for _, s := range settlements {
		delete(d.leased, store.Lease{Delivery: s.Claimed.ID, Token: s.Claimed.Token})
		if s.Transition.To == postrider.Pending {
			again := s.Claimed
			again.Lane, again.Step = postrider.LaneRetry, s.Transition.Step
			d.rows[again.Endpoint] = append(d.rows[again.Endpoint], row{d.now.Add(s.Transition.After), again})
		}
	}
	return in
}

func (d *desk) claim(c *store.Claim) ClaimReturned {
	in := ClaimReturned{Claim: c, AskedAt: d.now}
	for _, w := range c.Wants {
		state := store.LaneState{Low: d.now}
		var left []row
		for _, r := range d.rows[w.Endpoint] {
			switch {
			case r.Lane == w.Lane && state.Claimed < w.N && !r.due.After(d.now):
				r.Token, r.Attempt = c.Token, r.Attempt+1
				in.Got.Items = append(in.Got.Items, r.Claimed)
				d.leased[store.Lease{Delivery: r.ID, Token: r.Token}] = r.Claimed
				state.Claimed++
				continue
			case r.Lane == w.Lane && !(state.Waiting && state.In <= r.due.Sub(d.now)):
				state.Waiting, state.In = true, r.due.Sub(d.now)
			}
			left = append(left, r)
		}
		d.claims += state.Claimed
		d.rows[w.Endpoint] = left
		in.Got.Lanes = append(in.Got.Lanes, state)
	}
	return in
}

func (d *desk) release(releases []Release) LeasesReleased {
	for _, r := range releases {
		if back, ok := d.leased[r.Lease]; ok {
			delete(d.leased, r.Lease)
			back.Attempt--
			d.rows[back.Endpoint] = append(d.rows[back.Endpoint], row{d.now, back})
		}
		for _, f := range d.flying {
			if f.ID == r.Delivery && f.Token == r.Token {
				d.t.Fatalf("delivery %v is in flight and given back", r.Delivery)
			}
		}
	}
	return LeasesReleased{releases}
}

// over ends a request of the endpoint, the oldest.
func (d *desk) over(id postrider.EndpointID, a postrider.Attempt) {
	d.t.Helper()
	i := slices.IndexFunc(d.flying, func(f flight) bool { return f.Endpoint == id })
	if i < 0 {
		d.t.Fatalf("nothing is in flight to endpoint %v", id[15])
	}
	f := d.flying[i]
	d.flying = slices.Delete(d.flying, i, i+1)
	d.step(over(f.Delivery, a))
}

// wait lets time pass, up to a second at once, as the loop does.
func (d *desk) wait(span time.Duration) {
	d.t.Helper()
	for end := d.now.Add(span); d.now.Before(end); {
		next := earliest(end, d.now.Add(time.Second))
		if !d.wakeAt.IsZero() && d.wakeAt.After(d.now) {
			next = earliest(next, d.wakeAt)
		}
		for _, f := range d.flying {
			if d.respond != nil {
				next = earliest(next, f.ends)
			}
		}
		d.now = later(next, d.now)
		var inputs []any
		if d.respond != nil {
			d.flying = slices.DeleteFunc(d.flying, func(f flight) bool {
				if f.ends.After(d.now) {
					return false
				}
				inputs = append(inputs, over(f.Delivery, f.attempt))
				return true
			})
		}
		d.step(inputs...)
	}
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// inFlight counts requests to the endpoints; none: to all.
func (d *desk) inFlight(ids ...postrider.EndpointID) (n int) {
	for _, f := range d.flying {
		if len(ids) == 0 || slices.Contains(ids, f.Endpoint) {
			n++
		}
	}
	return n
}

// proves lets the core know the endpoints as such that answer all the time.
func (d *desk) proves(ids ...postrider.EndpointID) {
	for _, id := range ids {
		d.c.endpoint(id).respondedAt = d.now.Add(time.Hour)
	}
}

// expect demands that so many requests to the endpoint are in flight.
func (d *desk) expect(id postrider.EndpointID, n int, when string) {
	d.t.Helper()
	if got := d.inFlight(id); got != n {
		d.t.Errorf("%s: %d attempts in flight, want %d", when, got, n)
	}
}

// fail lets the endpoint's circuit open after failures in a row.
func (d *desk) fail(id postrider.EndpointID) {
	d.t.Helper()
	d.failBy(id, a500)
}

func (d *desk) failBy(id postrider.EndpointID, a postrider.Attempt) {
	d.t.Helper()
	d.publish(id, 5)
	for range 5 {
		d.over(id, a)
	}
	if !d.c.endpoints[id].isOpen() {
		d.t.Fatal("the circuit has not opened after five failures in a row")
	}
}

// What receivers answer.
var (
	a200    = postrider.Attempt{Outcome: postrider.OutcomeAccepted, StatusCode: 200, Duration: time.Millisecond}
	a500    = postrider.Attempt{Outcome: postrider.OutcomeRejected, StatusCode: 500, Duration: time.Millisecond}
	a429    = postrider.Attempt{Outcome: postrider.OutcomeThrottled, StatusCode: 429, Duration: time.Millisecond}
	a503    = postrider.Attempt{Outcome: postrider.OutcomeThrottled, StatusCode: 503, Duration: time.Millisecond}
	silence = postrider.Attempt{Outcome: postrider.OutcomeTimedOut, Duration: 10 * time.Second}
)
