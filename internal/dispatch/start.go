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
	if c.draining || c.shards.lapsed(now) {
		return
	}
	var token postrider.Token
	for _, d := range in.deliveries {
		if c.roomInStock() <= 0 || c.unsettled >= c.opts.MaxUnsettled {
			break
		}
		ep := c.mine(d.Endpoint)
		if ep == nil {
			continue
		}
		if !c.admits(now, ep, laneIndex(d.Lane)) {
			continue
		}
		if token == 0 {
			token = c.nextToken()
			c.admitted[token] = now
		}
		d.Token, d.Lease = token, c.grant(ep)
		c.credit(ep, 1)
		c.stocked(now, ep, 1)
		c.leased[laneIndex(d.Lane)]++
	}
}

// admits reports whether a new delivery may start before it was ever queued.
// None may pass those of its lane that have waited for longer than a claim
// takes and rests, and none goes to an endpoint that is degraded or rests for
// longer than a lease is worth.
func (c *core) admits(now time.Time, ep *endpoint, l int) bool {
	lane := &ep.lanes[l]
	older := (ep.asked[l] > 0 || lane.waiting) && now.Sub(lane.due) > 4*mostRest
	room := postrider.Lanes[l] != postrider.LaneBulk || c.roomForBulk(ep)
	room = room && c.mayStock(now, ep) && ep.credit-ep.inFlight < c.roomInStock()
	return room && !c.gated(now, ep) && ep.class == healthy && !ep.resting(now) && !older && ep.credit < ep.room(c.opts.Prefetch)
}

// stored takes up what ingest committed: admitted deliveries are held, those
// that were not are due, and admissions that were not committed end.
func (c *core) stored(now time.Time, in stored) {
	var token postrider.Token
	for _, started := range in.started {
		ep := c.endpoint(started.Endpoint)
		token = started.Token
		// The store's lease began after the admission was asked for.
		c.hold(now, ep, &item{Claimed: started, leasedUntil: c.admitted[token].Add(ep.granted)})
	}
	for _, d := range in.dropped {
		token = d.Token
		ep := c.endpoint(d.Endpoint)
		c.credit(ep, -1)
		c.unstocked(ep, 1)
		c.leased[laneIndex(d.Lane)]--
		c.review(now, ep)
	}
	delete(c.admitted, token)
	for _, d := range in.waiting {
		ep := c.mine(d.Endpoint)
		if ep == nil {
			if d.In < c.opts.Cluster.Poll { // else its node will have polled
				c.do.news = append(c.do.news, d)
			}
			continue
		}
		if d.In <= 0 && d.Lane == postrider.LaneFirst && !c.gated(now, ep) {
			ep.backlog++ // bulk has a pace instead
		}
		c.found(now, d)
	}
}

// hold keeps an item until its endpoint has a slot for it.
func (c *core) hold(now time.Time, ep *endpoint, it *item) {
	if c.draining || !ep.open {
		c.release(ep, it)
		c.expect(ep, laneIndex(it.Lane), now)
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
	if c.shards.lapsed(now) {
		return
	}
	for c.inFlight < c.opts.Concurrency && c.inFlight+c.unsettled < c.opts.MaxUnsettled {
		ep := c.next()
		if ep == nil {
			return
		}
		ep.startable = false
		switch {
		case c.gated(now, ep), ep.inFlight >= ep.slots(), ep.holds() == 0, now.Before(ep.restUntil), c.unproven(now, ep):
		case !c.hasRoom(ep.class):
			c.line(ep)
			continue
		case ep.host.inFlight >= c.opts.HostConcurrency:
			ep.startable, ep.host.full = true, true
			ep.host.waiting.push(ep)
			continue
		default:
			c.startOne(now, ep)
		}
		c.review(now, ep)
		c.letIn(now, ep.host)
	}
}

// letIn lines up the endpoint that has waited longest for a slot of the host,
// if one is free, and passes over those that have no use for it any more.
func (c *core) letIn(now time.Time, h *host) {
	for h != nil && h.inFlight < c.opts.HostConcurrency {
		next := h.waiting.pop()
		if next == nil {
			return
		}
		next.startable = false
		c.review(now, next)
		if next.startable && c.hasRoom(next.class) {
			return
		}
	}
}

func (c *core) startOne(now time.Time, ep *endpoint) {
	to, ok := c.lookup(ep.id)
	if !ok || to.Endpoint.Status != postrider.EndpointEnabled {
		ep.open = false // the news are on their way; the review that follows gives back what is held
		return
	}
	c.dropUncovered(now, ep)
	l := c.laneOfNext(now, ep)
	if l < 0 || !c.rested(now, ep) {
		return
	}
	it := ep.take(l)
	c.unstocked(ep, 1)
	c.leased[l]--
	if it.Lane == postrider.LaneBulk {
		c.bulk.tokens--
	} else {
		c.bulk.urgent = now
	}
	if t, refused := postrider.Refuse(it.Claimed, now.Add(c.ahead)); refused {
		c.credit(ep, -1)
		it.attempt = postrider.Attempt{Outcome: postrider.OutcomeNone, StartedAt: now.Add(c.wall), Error: t.Reason}
		c.settle(now, ep, it, t)
		return
	}
	it.to, it.timeout = to, ep.policy.Timeout
	if ep.stage == probeGranted {
		it.probe = true
		c.setStage(ep, probeFlying)
	} else {
		it.timeout = ep.patience.Timeout(it.timeout)
	}
	if l == suspectLane {
		c.isolation.started(it.ID, now)
	}
	c.fly(ep, 1)
	c.do.send = append(c.do.send, it)
}

// fly counts an attempt that starts, or with -1 one that is over.
func (c *core) fly(ep *endpoint, n int) {
	ep.inFlight += n
	c.inFlight += n
	ep.host.inFlight += n
	if ep.host.full && ep.host.waiting.len() == 0 {
		ep.host.full = false
		c.unstick(&ep.host.stuck)
	}
	c.flying[ep.class] += n
}

// laneTurns says which lane a start prefers, unless there is a suspect: of five,
// three are the first lane's and one each the retry and bulk lanes'. An empty
// lane leaves its turn to the next in order.
var laneTurns = [5][3]int{{0, 1, 2}, {1, 0, 2}, {0, 1, 2}, {2, 0, 1}, {0, 1, 2}}

// laneOfNext returns the lane whose first item starts next; -1: none may now.
func (c *core) laneOfNext(now time.Time, ep *endpoint) int {
	if len(ep.held[suspectLane]) > 0 {
		return suspectLane
	}
	for _, l := range laneTurns[(ep.turn+1)%len(laneTurns)] {
		if items := ep.held[l]; len(items) > 0 && (ep.probing() || c.mayStart(now, items[0])) {
			return l
		}
	}
	return -1
}

// mayStart reports whether the pace lets the item go, if it is bulk. A retry
// that is due needs no leave: what bounds retries is its own endpoint's circuit,
// window and class.
func (c *core) mayStart(now time.Time, it *item) bool {
	return it.Lane != postrider.LaneBulk || c.bulk.allows(now)
}

// take removes the first item of a lane.
func (ep *endpoint) take(l int) *item {
	ep.turn++
	items := ep.held[l]
	it := items[0]
	items[0] = nil
	ep.held[l] = items[1:]
	return it
}

// attempted frees the slot and decides what the attempt does.
func (c *core) attempted(now time.Time, it *item) {
	ep := c.endpoint(it.Endpoint)
	c.moved = true
	c.fly(ep, -1)
	c.credit(ep, -1)
	ep.latency += (it.attempt.Duration - ep.latency) / 8

	t := postrider.Settle(it.Claimed, it.attempt, it.to.Endpoint.Policy)
	c.learn(now, ep, it, t.Pace)
	if t.DisableEndpoint {
		ep.open, ep.gone = false, true
		c.do.disable = append(c.do.disable, ep.id)
	}
	c.settle(now, ep, it, t)
	c.review(now, ep)
	c.letIn(now, ep.host)
}

func (c *core) settle(now time.Time, ep *endpoint, it *item, t postrider.Transition) {
	a := &it.attempt
	a.Delivery, a.Event, a.Endpoint, a.Number = it.ID, it.Event.ID, it.Endpoint, it.Attempt
	c.unsettled++
	ep.unsettled++
	c.shards.busy[ep.shard]++
	if last := len(c.answered) - 1; last >= 0 && c.answered[last].at.Equal(now) {
		c.answered[last].n++
	} else {
		c.answered = append(c.answered, answers{now, 1})
	}
	c.do.settle = append(c.do.settle, store.Settlement{Claimed: it.Claimed, Attempt: *a, Transition: t})
}

// settled notes when the deliveries that go on are due again.
func (c *core) settled(now time.Time, in settled) {
	c.settles += len(in.settlements)
	c.committed(len(in.settlements))
	c.moved = true
	for i, s := range in.settlements {
		c.unsettled--
		ep := c.endpoint(s.Claimed.Endpoint)
		ep.unsettled--
		delete(c.isolation.young, s.Claimed.ID)
		c.shards.busy[ep.shard]--
		result := in.results[i]
		switch {
		case result.Next != "":
			c.found(now, store.DueLane{Endpoint: ep.id, Lane: result.Next})
		case s.Transition.To == postrider.Pending && !result.Stale:
			l := postrider.LaneRetry
			if s.Claimed.Lane == postrider.LaneBulk {
				l = postrider.LaneBulk
			}
			// The commit is over, so the store's now plus the wait is not later.
			c.found(now, store.DueLane{Endpoint: ep.id, Lane: l, In: s.Transition.After})
		}
	}
}

// released notes that leases were given back, or are left to end. A claim that
// was under way did not find their rows, so their lanes are due again.
func (c *core) released(now time.Time, in released) {
	for _, r := range in.releases {
		c.shards.busy[r.shard]--
		if ep := c.endpoints[r.endpoint]; ep != nil {
			c.expect(ep, r.lane, now)
			c.review(now, ep)
		}
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

// couldTake reports whether more of what is due for the endpoint could be
// under way: it answered well last, and neither it nor its host is at a limit of
// its own. The backlog of an endpoint that fails is the endpoint's fault.
func (c *core) couldTake(now time.Time, ep *endpoint) bool {
	return !c.gated(now, ep) && ep.class == healthy && ep.breaker.Failures == 0 &&
		ep.inFlight < ep.slots() && !now.Before(ep.restUntil) &&
		ep.host.inFlight < c.opts.HostConcurrency && !c.unproven(now, ep)
}

// lookEvery is how often the core looks at all of its endpoints.
const lookEvery = 250 * time.Millisecond

// feelPressure looks four times a second at how long this node would need for
// the backlog that is its own fault: while its processors are taken, what is due
// for endpoints that could take more. On the way it forgets endpoints of which
// there is nothing to know.
func (c *core) feelPressure(now time.Time) {
	since := now.Sub(c.looked)
	if since < lookEvery {
		return
	}
	backlog := 0
	for _, ep := range c.endpoints {
		if c.load.saturated && c.couldTake(now, ep) {
			backlog += ep.backlog
		}
		c.forget(now, ep)
	}
	c.takeStock(now)
	c.bulk.adjust(now, c.load)
	rate := float64(c.settles) / since.Seconds()
	c.settleRate += (rate - c.settleRate) / 4 // groups come in lumps
	c.do.behind = time.Duration(float64(backlog) / max(rate, c.settleRate, 100) * float64(time.Second))
	c.looked, c.settles = now, 0
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
