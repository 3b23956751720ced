package dispatch

import (
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// core is all dispatch state and every decision on it. It belongs to one
// goroutine. [core.step] takes what happened and says what is to be done; it
// reads no clock, draws no random number and starts nothing, so that the same
// inputs at the same times always give the same actions.
//
// A delivery's way through it: an endpoint's lane is due, the endpoint is
// claimable, the claim brings items, the items are held, the endpoint is
// startable, an item starts, its attempt is settled. An admitted delivery joins
// at "held".
type core struct {
	opts   Options
	lookup func(postrider.EndpointID) (store.Routed, bool)

	endpoints map[postrider.EndpointID]*endpoint
	startable ring     // endpoints with something held and a slot of their own free
	claimable ring     // endpoints with something due and credit left
	timers    timeHeap // endpoints whose next change comes with time alone

	token     postrider.Token               // the last one given out
	admitted  map[postrider.Token]time.Time // when the admissions under way were asked for
	settles   int                           // settlements committed since the last look at the pressure
	looked    time.Time                     // when that was
	inHand    int                           // credit taken, over all endpoints
	inFlight  int                           // attempts whose answer is not read yet
	unsettled int                           // attempts answered, not yet committed
	answered  []answers                     // when those were, in their order

	saturated bool // goroutines wait for a processor

	claiming    bool      // a claim is under way
	claimAfter  time.Time // no claim before: the last ones failed
	claimErrors int       // claims in a row that failed
	draining    bool
	moved       bool // something was answered or settled since the rim looked

	do actions // being filled by the current step
}

// actions are what the rim is to carry out after a step.
type actions struct {
	send    []item
	settle  []store.Settlement
	release []store.Lease
	claim   *store.Claim
	disable []postrider.EndpointID // they answered 410
	behind  time.Duration          // how long the node needs for the backlog that is its own
	wakeAt  time.Time              // when to step at the latest; zero: when there is an input
}

// item is a delivery in hand.
type item struct {
	postrider.Claimed

	leasedUntil time.Time
	to          store.Routed  // set when it starts
	timeout     time.Duration // likewise
}

// endpoint is what the core knows of an endpoint that has work.
type endpoint struct {
	id      postrider.EndpointID
	limit   int // attempts in flight
	timeout time.Duration
	known   bool          // it is not deleted, and this node has heard of it
	open    bool          // it is enabled
	gone    bool          // it answered 410, and is not disabled yet
	granted time.Duration // the shortest lease given since it had no credit taken

	pacedUntil time.Time
	lanes      [3]lane
	held       [3][]item
	credit     int // taken: held, in flight, asked for and admitted
	inFlight   int
	asked      [3]int        // by the claim under way
	turn       int           // counts starts, to share them among the lanes
	backlog    int           // rows that were committed without a lease and not claimed since, about
	latency    time.Duration // of its answers, smoothed

	startable, claimable bool // it is in that ring
	timer                int  // its place in the heap and one; 0: none
	wakeAt               time.Time
}

// answers are attempts that were answered at the same time.
type answers struct {
	at time.Time
	n  int
}

// lane is what the core knows of the rows that wait in an endpoint's lane.
type lane struct {
	waiting bool      // something may wait, due at the earliest then
	due     time.Time // waiting
	low     time.Time // for the next claim
}

// The inputs: what happened.
type (
	admit struct { // ingest is about to commit these deliveries
		deliveries []*store.NewDelivery
		answered   chan<- struct{}
	}
	stored struct { // ingest's commit is over
		started []postrider.Claimed
		waiting []store.DueLane
		dropped []store.NewDelivery
	}
	claimed struct { // a claim came back
		claim *store.Claim
		got   store.Claims
		err   error
		asked time.Time
	}
	attempted struct { // a request is over
		item    item
		attempt postrider.Attempt
	}
	settled struct { // a group of settlements is committed
		settlements []store.Settlement
		results     []store.Settled
	}
	due     struct{ lanes []store.DueLane }         // work was found
	changed struct{ endpoint postrider.EndpointID } // an endpoint is not what it was
	load    struct{ saturated bool }                // whether goroutines wait for a processor
	drain   struct{}                                // take no more work
	tick    struct{}                                // time passed
)

func newCore(opts Options, lookup func(postrider.EndpointID) (store.Routed, bool)) *core {
	return &core{
		opts:      opts,
		lookup:    lookup,
		endpoints: map[postrider.EndpointID]*endpoint{},
		admitted:  map[postrider.Token]time.Time{},
		token:     postrider.Token(opts.Incarnation) << 32,
	}
}

// step takes one input into the state. Its consequences wait for act, so that
// many inputs can be taken before anything is decided.
func (c *core) step(now time.Time, input any) {
	switch in := input.(type) {
	case admit:
		c.admit(now, in)
	case stored:
		c.stored(now, in)
	case claimed:
		c.claimed(now, in)
	case attempted:
		c.attempted(now, in)
	case settled:
		c.settled(now, in)
	case due:
		for _, d := range in.lanes {
			c.endpoint(d.Endpoint).lanes[laneIndex(d.Lane)].low = time.Time{} // it may be older than what was claimed
			c.found(now, d)
		}
	case changed:
		c.changed(now, in.endpoint)
	case load:
		c.saturated = in.saturated
	case drain:
		c.drain(now)
	case tick:
	}
}

// act decides what is to be done now and returns it; the next call reuses it.
func (c *core) act(now time.Time) *actions {
	for ep := c.timers.popDue(now); ep != nil; ep = c.timers.popDue(now) {
		c.review(now, ep)
	}
	c.start(now)
	c.claim(now)
	c.feelPressure(now)
	c.do.wakeAt = c.timers.next()
	if c.claimable.len() > 0 && now.Before(c.claimAfter) && (c.do.wakeAt.IsZero() || c.claimAfter.Before(c.do.wakeAt)) {
		c.do.wakeAt = c.claimAfter
	}
	return &c.do
}

// taken empties the actions once the rim has them.
func (c *core) taken() { c.do = actions{send: c.do.send[:0], behind: c.do.behind} }

// endpoint returns the state of an endpoint, made when it is new.
func (c *core) endpoint(id postrider.EndpointID) *endpoint {
	ep := c.endpoints[id]
	if ep == nil {
		ep = &endpoint{id: id}
		c.endpoints[id] = ep
		c.configure(ep)
	}
	return ep
}

// configure takes over what the endpoint's owner asked for, as far as one
// endpoint may go: 32 of the node's slots, or a quarter of them. An endpoint
// that is not known, yet or any more, is not sent to, and what may wait for it
// is forgotten: a wake-up or the scan names it again when it is.
func (c *core) configure(ep *endpoint) {
	to, ok := c.lookup(ep.id)
	ep.known = ok
	enabled := ok && to.Endpoint.Status == postrider.EndpointEnabled
	ep.gone = ep.gone && enabled
	ep.open = enabled && !ep.gone
	ep.limit = max(1, min(to.Endpoint.Policy.Concurrency, max(32, c.opts.Concurrency/4)))
	ep.timeout = to.Endpoint.Policy.Timeout
	if !ok {
		ep.lanes = [3]lane{}
	}
}

func (c *core) changed(now time.Time, id postrider.EndpointID) {
	ep := c.endpoints[id]
	if ep == nil {
		return
	}
	c.configure(ep)
	c.review(now, ep)
}

// review puts an endpoint where it belongs after anything about it changed:
// among the startable, the claimable, the timers, or, when nothing is known to
// wait for it, out of memory.
func (c *core) review(now time.Time, ep *endpoint) {
	c.timers.remove(ep)
	if ep.gated(now) {
		c.giveBack(now, ep)
		if ep.open {
			c.timers.put(ep, ep.pacedUntil)
		}
		c.forget(now, ep)
		return
	}
	c.dropUncovered(now, ep)
	if !ep.startable && ep.inFlight < ep.limit && ep.holds() > 0 {
		c.startable.push(ep)
		ep.startable = true
	}
	if c.draining {
		return
	}
	if !ep.claimable && ep.wantsClaim(now, c.opts.Prefetch) {
		c.claimable.push(ep)
		ep.claimable = true
	}
	if next, ok := ep.nextDue(now); ok {
		c.timers.put(ep, next)
	}
	c.forget(now, ep)
}

// forget drops the state of an endpoint about which there is nothing to know.
func (c *core) forget(now time.Time, ep *endpoint) {
	if ep.credit > 0 || ep.startable || ep.claimable || ep.gone || ep.pacedUntil.After(now) ||
		slices.ContainsFunc(ep.lanes[:], func(l lane) bool { return l.waiting }) {
		return
	}
	c.timers.remove(ep)
	delete(c.endpoints, ep.id)
}

// found notes that a lane has something waiting.
func (c *core) found(now time.Time, d store.DueLane) {
	ep := c.endpoint(d.Endpoint)
	ep.expect(laneIndex(d.Lane), now.Add(d.In))
	c.review(now, ep)
}

// drain takes no more work and gives back what is held.
func (c *core) drain(now time.Time) {
	c.draining = true
	for _, id := range slices.SortedFunc(maps.Keys(c.endpoints), postrider.EndpointID.Compare) {
		c.giveBack(now, c.endpoints[id])
	}
}

// drained reports whether nothing is left to wait for.
func (c *core) drained() bool {
	return c.draining && c.inFlight+c.unsettled+len(c.admitted) == 0 && !c.claiming
}

// giveBack releases what an endpoint holds and has not started.
func (c *core) giveBack(now time.Time, ep *endpoint) {
	for l, items := range ep.held {
		for _, it := range items {
			c.release(ep, it)
			ep.expect(l, now)
		}
		ep.held[l] = nil
	}
}

// dropUncovered releases what an endpoint holds under leases that no longer
// cover an attempt: another may have it before that one ends.
func (c *core) dropUncovered(now time.Time, ep *endpoint) {
	for l, items := range ep.held {
		for len(items) > 0 && items[0].leasedUntil.Before(now.Add(ep.timeout)) {
			c.release(ep, items[0])
			ep.expect(l, now)
			items = items[1:]
		}
		ep.held[l] = items
	}
}

func (c *core) release(ep *endpoint, it item) {
	c.do.release = append(c.do.release, store.Lease{Delivery: it.ID, Token: it.Token})
	c.credit(ep, -1)
}

func (c *core) credit(ep *endpoint, n int) {
	ep.credit += n
	c.inHand += n
}

// grant returns how long the next lease of the endpoint is. Until all of its
// credit is free again, its leases are taken to be as short as the shortest:
// its timeout may change while they run.
func (c *core) grant(ep *endpoint) time.Duration {
	lease := ep.timeout + c.opts.LeaseMargin
	if ep.credit == 0 {
		ep.granted = lease
	}
	ep.granted = min(ep.granted, lease)
	return lease
}

func (c *core) nextToken() postrider.Token {
	c.token++
	return c.token
}

// gated reports whether nothing may start for the endpoint, nor be claimed.
func (ep *endpoint) gated(now time.Time) bool { return !ep.open || now.Before(ep.pacedUntil) }

func (ep *endpoint) holds() int { return len(ep.held[0]) + len(ep.held[1]) + len(ep.held[2]) }

// expect notes that something in the lane is due at the instant, or before.
func (ep *endpoint) expect(l int, at time.Time) {
	if !ep.known {
		return
	}
	if !ep.lanes[l].waiting || at.Before(ep.lanes[l].due) {
		ep.lanes[l].waiting, ep.lanes[l].due = true, at
	}
}

// nextDue returns the first instant after now at which a lane becomes due or
// a lease that is held no longer covers an attempt.
func (ep *endpoint) nextDue(now time.Time) (next time.Time, ok bool) {
	consider := func(at time.Time) {
		if at.After(now) && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	for l, lane := range ep.lanes {
		if lane.waiting {
			consider(lane.due)
		}
		if len(ep.held[l]) > 0 {
			consider(ep.held[l][0].leasedUntil.Add(-ep.timeout + 1))
		}
	}
	return next, ok
}

func laneIndex(l postrider.Lane) int { return slices.Index(postrider.Lanes, l) }
