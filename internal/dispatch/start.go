package dispatch

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// admit lets ingest commit deliveries that are leased already: those whose
// endpoint has credit left and nothing older waiting. It spends the credit.
func (c *core) admit(now time.Time, in admit) {
	defer close(in.answered)
	if c.draining {
		return
	}
	var token postrider.Token
	for _, d := range in.deliveries {
		if c.inHand >= c.opts.MaxHeld || c.unsettled >= c.opts.MaxUnsettled {
			break
		}
		ep := c.endpoint(d.Endpoint)
		if !ep.admits(now, laneIndex(d.Lane), c.opts.Prefetch) {
			c.forget(now, ep)
			continue
		}
		if token == 0 {
			token = c.nextToken()
			c.admitted[token] = now
		}
		d.Token, d.Lease = token, c.grant(ep)
		c.credit(ep, 1)
	}
}

// admits reports whether a new delivery may start before it was ever queued.
// None may pass older ones of its lane.
func (ep *endpoint) admits(now time.Time, l, prefetch int) bool {
	older := ep.asked[l] > 0 || ep.lanes[l].waiting && !ep.lanes[l].due.After(now)
	return !ep.gated(now) && !older && ep.credit < ep.limit*prefetch
}

// stored takes up what ingest committed: admitted deliveries are held, those
// that were not are due, and admissions that were not committed end.
func (c *core) stored(now time.Time, in stored) {
	var token postrider.Token
	for _, started := range in.started {
		ep := c.endpoint(started.Endpoint)
		token = started.Token
		// The store's lease began after the admission was asked for.
		c.hold(now, ep, item{Claimed: started, leasedUntil: c.admitted[token].Add(ep.granted)})
	}
	for _, d := range in.dropped {
		token = d.Token
		ep := c.endpoint(d.Endpoint)
		c.credit(ep, -1)
		c.review(now, ep)
	}
	delete(c.admitted, token)
	for _, d := range in.waiting {
		if d.In <= 0 {
			c.endpoint(d.Endpoint).backlog++
		}
		c.found(now, d)
	}
}

// hold keeps an item until its endpoint has a slot for it.
func (c *core) hold(now time.Time, ep *endpoint, it item) {
	if c.draining || !ep.open {
		c.release(ep, it)
		ep.expect(laneIndex(it.Lane), now)
		return
	}
	l := laneIndex(it.Lane)
	ep.held[l] = append(ep.held[l], it)
	if !ep.startable {
		c.review(now, ep)
	}
}

// start hands out slots, one to each startable endpoint in turn, while there
// are any.
func (c *core) start(now time.Time) {
	for c.inFlight < c.opts.Concurrency && c.inFlight+c.unsettled < c.opts.MaxUnsettled {
		ep := c.startable.pop()
		if ep == nil {
			return
		}
		ep.startable = false
		if !ep.gated(now) && ep.inFlight < ep.limit && ep.holds() > 0 {
			c.startOne(now, ep)
		}
		c.review(now, ep)
	}
}

func (c *core) startOne(now time.Time, ep *endpoint) {
	to, ok := c.lookup(ep.id)
	if !ok || to.Endpoint.Status != postrider.EndpointEnabled {
		ep.open = false // the news are on their way; the review that follows gives back what is held
		return
	}
	if c.dropUncovered(now, ep); ep.holds() == 0 {
		return
	}
	it := ep.take()
	if t, refused := postrider.Refuse(it.Claimed, now); refused {
		c.credit(ep, -1)
		c.settle(now, it.Claimed, postrider.Attempt{Outcome: postrider.OutcomeNone, StartedAt: now, Error: t.Reason}, t)
		return
	}
	it.to, it.timeout = to, ep.timeout
	ep.inFlight++
	c.inFlight++
	c.do.send = append(c.do.send, it)
}

// laneTurns says which lane a start prefers: of five, three are the first
// lane's and one each the other two's. An empty lane leaves its turn to the
// next in order.
var laneTurns = [5][3]int{{0, 1, 2}, {1, 0, 2}, {0, 1, 2}, {2, 0, 1}, {0, 1, 2}}

// take removes the item that starts next.
func (ep *endpoint) take() item {
	ep.turn++
	for _, l := range laneTurns[ep.turn%len(laneTurns)] {
		if items := ep.held[l]; len(items) > 0 {
			it := items[0]
			items[0] = item{} // let its event go when it is over
			ep.held[l] = items[1:]
			return it
		}
	}
	return item{}
}

// attempted frees the slot and decides what the attempt does.
func (c *core) attempted(now time.Time, in attempted) {
	ep := c.endpoint(in.item.Endpoint)
	c.moved = true
	ep.inFlight--
	c.inFlight--
	c.credit(ep, -1)
	ep.latency += (in.attempt.Duration - ep.latency) / 8

	t := postrider.Settle(in.item.Claimed, in.attempt, in.item.to.Endpoint.Policy)
	if t.Pace > 0 {
		ep.pacedUntil = later(ep.pacedUntil, now.Add(t.Pace))
	}
	if t.DisableEndpoint {
		ep.open, ep.gone = false, true
		c.do.disable = append(c.do.disable, ep.id)
	}
	c.settle(now, in.item.Claimed, in.attempt, t)
	c.review(now, ep)
}

func (c *core) settle(now time.Time, claimed postrider.Claimed, a postrider.Attempt, t postrider.Transition) {
	a.Delivery, a.Event, a.Endpoint, a.Number = claimed.ID, claimed.Event.ID, claimed.Endpoint, claimed.Attempt
	c.unsettled++
	if last := len(c.answered) - 1; last >= 0 && c.answered[last].at.Equal(now) {
		c.answered[last].n++
	} else {
		c.answered = append(c.answered, answers{now, 1})
	}
	c.do.settle = append(c.do.settle, store.Settlement{Claimed: claimed, Attempt: a, Transition: t})
}

// settled notes when the deliveries that go on are due again.
func (c *core) settled(now time.Time, in settled) {
	c.settles += len(in.settlements)
	c.committed(len(in.settlements))
	c.moved = true
	for i, s := range in.settlements {
		c.unsettled--
		if s.Transition.To != postrider.Pending || in.results[i].Stale {
			continue
		}
		l := postrider.LaneRetry
		if s.Claimed.Lane == postrider.LaneBulk {
			l = postrider.LaneBulk
		}
		// The commit is over, so the store's now plus the wait is not later.
		c.found(now, store.DueLane{Endpoint: s.Claimed.Endpoint, Lane: l, In: s.Transition.After})
	}
}

// committed forgets the oldest n answers; they are committed in their order.
func (c *core) committed(n int) {
	for n > 0 {
		taken := min(n, c.answered[0].n)
		c.answered[0].n -= taken
		n -= taken
		if c.answered[0].n == 0 {
			c.answered = c.answered[1:]
		}
	}
}

// late reports whether answers wait for their commit for so long that their
// leases may end before it. Until it is over nothing is claimed: this node
// would take over from itself, and send again what was accepted.
func (c *core) late(now time.Time) bool {
	return len(c.answered) > 0 && now.Sub(c.answered[0].at) > c.opts.LeaseMargin/3
}

// busyLatency is the answer time from which on an endpoint with a backlog is
// held to keep itself waiting.
const busyLatency = 100 * time.Millisecond

// feelPressure looks four times a second at how long this node would need for
// the backlog that is its own fault: while its processors are taken, what is due
// for endpoints that may be sent to and answer fast.
func (c *core) feelPressure(now time.Time) {
	const every = 250 * time.Millisecond
	since := now.Sub(c.looked)
	if since < every {
		return
	}
	backlog := 0
	for _, ep := range c.endpoints {
		if c.saturated && !ep.gated(now) && ep.latency < busyLatency {
			backlog += ep.backlog
		}
	}
	rate := max(float64(c.settles)/since.Seconds(), 100)
	c.do.behind = time.Duration(float64(backlog) / rate * float64(time.Second))
	c.looked, c.settles = now, 0
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
