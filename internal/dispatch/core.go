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
	lookup func(postrider.EndpointID) (*store.EndpointSnapshot, bool)

	endpoints   map[postrider.EndpointID]*endpoint
	hosts       map[string]*host
	generations map[postrider.EndpointID]int64    // of circuits that ever changed
	vouched     map[postrider.EndpointID]struct{} // that are forgotten, and accepted something last
	lines       [classes]ring                     // endpoints with something held and a slot of their own free
	flying      [classes]int                      // attempts in flight
	inClass     [classes]int                      // credit taken
	leaseLines  [classes]ring                     // degraded endpoints with something due, which wait for room in their class
	probeLine   ring                              // endpoints whose circuit may be probed, once there is a slot
	probes      int                               // asked for, granted or under way
	silentLine  ring                              // endpoints that have to answer before they get another slot
	patient     ring                              // endpoints whose bulk waits for its pace
	claimable   ring                              // endpoints with something due and credit left
	timers      timeHeap                          // endpoints whose next change comes with time alone
	bulk        pace                              // for the bulk lanes
	isolation   isolation                         // for the suspect lanes
	stock       stock                             // what is leased and not started
	leased      [laneCount]int                    // by lane: asked for, admitted or held
	shards      shards                            // which endpoints are this node's
	unknown     postrider.Policy
	ahead, wall time.Duration // the store's Now and Wall are ahead of this node's clock; set before a step

	token      postrider.Token               // the last one given out
	admitted   map[postrider.Token]time.Time // when the admissions under way were asked for
	settles    int                           // settlements committed since the last look at the pressure
	settleRate float64                       // settlements a second, smoothed
	looked     time.Time                     // when that was
	inHand     int                           // credit taken, over all endpoints
	inFlight   int                           // attempts whose answer is not read yet
	unsettled  int                           // attempts answered, not yet committed
	answered   []answers                     // when those were, in their order

	load load // of the processors

	claiming    bool      // a claim is under way
	claimAfter  time.Time // no claim before: the last ones failed
	claimRest   time.Time // likewise: the last one was just now
	claimErrors int       // claims in a row that failed
	draining    bool
	moved       bool // something was answered or settled since the rim looked

	do actions // being filled by the current step
}

// actions are what the rim is to carry out after a step.
type actions struct {
	send     []*item
	settle   []store.Settlement
	release  []release
	claim    *store.Claim
	circuits []circuitChange        // to be stored
	disable  []postrider.EndpointID // they answered 410
	news     []store.DueLane        // of other nodes' endpoints, committed by this one
	look     []postrider.EndpointID // of other nodes, have something due
	behind   time.Duration          // how long the node needs for the backlog that is its own
	bulk     int                    // endpoints whose bulk waits for its pace, or deliveries of it
	wakeAt   time.Time              // when to step at the latest; zero: when there is an input
}

// release is a lease to be given back.
type release struct {
	store.Lease

	endpoint postrider.EndpointID
	lane     int
	shard    uint8
}

// item is a delivery in hand.
type item struct {
	postrider.Claimed

	leasedUntil time.Time
	to          *store.EndpointSnapshot // set when it starts
	timeout     time.Duration           // likewise
	probe       bool                    // likewise: the endpoint's circuit is half open for it
	attempt     postrider.Attempt       // set when it is over
}

// endpoint is what the core knows of an endpoint that has work, or trouble.
type endpoint struct {
	id      postrider.EndpointID
	shard   uint8
	host    *host
	policy  *postrider.Policy
	limit   int           // attempts in flight
	known   bool          // it is not deleted, and this node has heard of it
	open    bool          // it is enabled
	gone    bool          // it answered 410, and is not disabled yet
	granted time.Duration // the shortest lease given since it had no credit taken
	trouble

	lanes     [laneCount]lane
	held      [laneCount][]*item
	credit    int // taken: held, in flight, asked for and admitted
	inFlight  int
	stuck     int            // of the credit, counted in the stock as what it cannot start
	unsettled int            // attempts answered, not yet committed
	asked     [laneCount]int // by the claim under way
	turn      int            // counts starts, to share them among the lanes
	backlog   int            // about how many first attempts were committed without a lease, while they could be sent, and not claimed since
	latency   time.Duration  // of its answers, smoothed

	startable, claimable, patient, probeWaits, silentWaits, leaseWaits bool // it is in that ring
	isolated, aside                                                    bool // likewise in isolation.wait and stock.aside
	idle                                                               bool // there was nothing to know of it lately
	timer                                                              int  // its place in the heap and one; 0: none
	wakeAt                                                             time.Time
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
	attempted struct{ item *item } // a request is over
	settled   struct {             // a group of settlements is committed
		settlements []store.Settlement
		results     []store.Settled
	}
	released struct{ releases []release } // leases were given back
	due      struct {                     // work was found
		lanes []store.DueLane
		young bool // its rows are new: a claim from the lane's low on finds them
	}
	circuits struct { // that ever changed, of a node that is alone
		circuits []postrider.Circuit
	}
	circuitStored struct { // a change of a circuit is committed, or what is there instead
		circuit postrider.Circuit
		err     error
	}
	roster struct { // how the shards are shared out
		store.Roster
		until    time.Time           // what is said holds
		circuits []postrider.Circuit // of shards that are new
	}
	unlocked    struct{}                                // this node has lost its lock, and may have lost its shards
	notDisabled struct{ endpoint postrider.EndpointID } // it asked for no more, and is still enabled
	woken       struct{ endpoint postrider.EndpointID } // something of it is due, on whatever node
	beating     struct{ drained chan<- []uint8 }        // which shards can be given up now
	changed     struct{ endpoint postrider.EndpointID } // an endpoint is not what it was
	load        struct {                                // how goroutines wait for a processor
		saturated bool // one in ten for over a millisecond: a backlog is the node's own fault
		crowded   bool // one in sixteen for over a tenth of that: what is urgent has to wait
	}
	drain struct{} // take no more work
	tick  struct{} // time passed
)

func newCore(opts Options, lookup func(postrider.EndpointID) (*store.EndpointSnapshot, bool)) *core {
	return &core{
		opts:        opts,
		lookup:      lookup,
		endpoints:   map[postrider.EndpointID]*endpoint{},
		hosts:       map[string]*host{},
		generations: map[postrider.EndpointID]int64{},
		vouched:     map[postrider.EndpointID]struct{}{},
		shards:      shards{alone: opts.Cluster.Nodes == nil},
		admitted:    map[postrider.Token]time.Time{},
		token:       postrider.Token(opts.Cluster.Incarnation) << 32,
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
		c.attempted(now, in.item)
	case settled:
		c.settled(now, in)
	case released:
		c.released(now, in)
	case due:
		for _, d := range in.lanes {
			c.foundDue(now, d, in.young)
		}
	case notDisabled:
		if ep := c.endpoints[in.endpoint]; ep != nil {
			ep.gone = false
			c.configure(ep)
			c.review(now, ep)
		}
	case woken:
		c.woken(now, in.endpoint)
	case changed:
		c.changed(now, in.endpoint)
	case circuits:
		c.learnCircuits(now, in.circuits)
	case circuitStored:
		c.circuitStored(now, in)
	case roster:
		c.share(now, in)
	case unlocked:
		c.shards.until = time.Time{}
	case beating:
		in.drained <- c.drainedShards()
	case load:
		c.load = in
	case drain:
		c.drain(now)
	case tick:
	}
}

// act decides what is to be done now and returns it; the next call reuses it.
func (c *core) act(now time.Time) *actions {
	if c.shards.startedAt.IsZero() {
		c.shards.startedAt = now
	}
	for ep := c.timers.popDue(now); ep != nil; ep = c.timers.popDue(now) {
		c.review(now, ep)
	}
	c.letProbe(now)
	c.letLease(now)
	c.letGoOn(now)
	c.feedBulk(now)
	c.nextRound(now)
	c.start(now)
	c.feelPressure(now)
	c.restock(now)
	c.claim(now)
	c.do.bulk = max(c.patient.len(), c.leased[bulkLane])
	c.do.wakeAt = c.timers.next()
	if at := c.claimsAt(); c.claimable.len() > 0 && now.Before(at) {
		c.do.wakeAt = sooner(c.do.wakeAt, at)
	}
	if c.patient.len() > 0 && (c.roomOfBulk() > 0 || c.leased[bulkLane] > c.bulk.asked) {
		c.do.wakeAt = sooner(c.do.wakeAt, now.Add(bulkStep))
	}
	if c.stock.aside.len() > 0 {
		c.do.wakeAt = sooner(c.do.wakeAt, c.looked.Add(lookEvery))
	}
	if at := c.nextRoundAt(now); !at.IsZero() {
		c.do.wakeAt = sooner(c.do.wakeAt, at)
	}
	return &c.do
}

// sooner returns the first of two instants; one that is zero never comes.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// taken empties the actions once the rim has them.
func (c *core) taken() { c.do = actions{send: c.do.send[:0], behind: c.do.behind} }

// endpoint returns the state of an endpoint, made when it is new.
func (c *core) endpoint(id postrider.EndpointID) *endpoint {
	ep := c.endpoints[id]
	if ep == nil {
		ep = &endpoint{id: id, shard: store.Shard(id)}
		ep.breaker.Generation = c.generations[id]
		if to, ok := c.lookup(id); ok && to.Circuit.Generation > ep.breaker.Generation {
			ep.breaker.Circuit = shift(to.Circuit, -c.ahead) // of an endpoint that is new to this node
			ep.told = toldOf(to.Circuit)
		}
		if _, ok := c.vouched[id]; ok {
			ep.breaker.Vouch()
			delete(c.vouched, id)
		}
		c.endpoints[id] = ep
		c.configure(ep)
		c.judge(ep)
	}
	ep.idle = false
	return ep
}

// mine returns the state of an endpoint of this node; nil: it is another's.
func (c *core) mine(id postrider.EndpointID) *endpoint {
	if !c.shards.has(store.Shard(id)) {
		return nil
	}
	return c.endpoint(id)
}

// configure takes over what the endpoint's owner asked for, as far as one
// endpoint may go: 32 of the node's slots, or a quarter of them. An endpoint
// that is not known, yet or any more, is not sent to, and what may wait for it
// is forgotten: a wake-up or the scan names it again when it is.
func (c *core) configure(ep *endpoint) {
	to, ok := c.lookup(ep.id)
	ep.known = ok
	if !ok {
		ep.open, ep.gone, ep.limit, ep.policy = false, false, 1, &c.unknown
		ep.lanes = [laneCount]lane{}
		return
	}
	enabled := to.Endpoint.Status == postrider.EndpointEnabled
	ep.gone = ep.gone && enabled
	ep.open = enabled && !ep.gone
	if ep.policy != nil && ep.policy != &c.unknown && ep.policy.Rate != to.Endpoint.Policy.Rate {
		ep.bucket, ep.metered, ep.restUntil = postrider.Bucket{}, false, time.Time{}
		ep.breaker.RateFullAt = time.Time{}
	}
	ep.policy = &to.Endpoint.Policy
	if !ep.policy.AdaptiveTimeout {
		ep.patience = postrider.Patience{}
	}
	ep.limit = max(1, min(ep.policy.Concurrency, max(32, c.opts.Concurrency/4)))
	c.moveTo(ep, hostOf(to.Endpoint.URL))
}

// woken looks for what is due at an endpoint, or has its node look.
func (c *core) woken(now time.Time, id postrider.EndpointID) {
	ep := c.mine(id)
	if ep == nil {
		c.do.look = append(c.do.look, id)
		return
	}
	for l := range ep.lanes {
		ep.lanes[l].low = time.Time{}
		c.expect(ep, l, now)
	}
	c.review(now, ep)
}

func (c *core) changed(now time.Time, id postrider.EndpointID) {
	ep := c.endpoints[id]
	to, ok := c.lookup(id)
	if ok && ep == nil && to.Circuit.Generation > 0 {
		ep = c.mine(id)
	}
	if ep == nil {
		if !ok {
			delete(c.vouched, id)
		}
		return
	}
	was := ep.host
	c.configure(ep)
	if ok && to.Circuit.Generation > ep.breaker.Generation {
		c.adopt(now, ep, to.Circuit)
	}
	c.review(now, ep)
	if was != ep.host {
		c.letIn(now, was)
	}
}

// review puts an endpoint where it belongs after anything about it changed:
// among those that may start, the claimable, those that wait for the pace or
// for a probe, the timers.
func (c *core) review(now time.Time, ep *endpoint) {
	c.timers.remove(ep)
	if ep.stuck > 0 && !ep.isStuck(now) {
		c.unstick(&ep.stuck)
	}
	if ep.broken() && c.mayServe(ep) {
		c.probe(now, ep)
	}
	if c.gated(now, ep) {
		c.giveBack(now, ep)
		if ep.stage == probeGranted {
			c.setStage(ep, noProbe) // others may have its slot meanwhile
		}
		if at := ep.gateOpens(); c.mayServe(ep) && at.After(now) {
			c.timers.put(ep, at)
		}
		return
	}
	c.dropUncovered(now, ep)
	switch {
	case ep.startable || ep.inFlight >= ep.slots() || ep.holds() == 0 || now.Before(ep.restUntil):
	case c.unproven(now, ep):
		if !ep.silentWaits {
			ep.silentWaits = true
			c.silentLine.push(ep)
		}
	case c.laneOfNext(now, ep) < 0:
		c.wait(ep) // only bulk waits for anything else
	default:
		c.line(ep)
	}
	if c.draining {
		return
	}
	if !ep.claimable && c.wantsClaim(now, ep) {
		c.claimable.push(ep)
		ep.claimable = true
	}
	if next, ok := ep.nextDue(now); ok {
		c.timers.put(ep, next)
	}
}

// forget drops an endpoint about which there has been nothing to know since
// the last time it was asked.
func (c *core) forget(now time.Time, ep *endpoint) {
	idle := ep.credit+ep.unsettled == 0 && !ep.startable && !ep.claimable && !ep.patient && !ep.probeWaits && !ep.silentWaits && !ep.leaseWaits && !ep.isolated && !ep.aside && !ep.gone &&
		(ep.calm(now) || !ep.known || !c.shards.has(ep.shard)) &&
		!slices.ContainsFunc(ep.lanes[:], func(l lane) bool { return l.waiting })
	if idle && ep.idle {
		c.timers.remove(ep)
		c.leaveHost(ep)
		delete(c.endpoints, ep.id)
		if ep.known && ep.breaker.Vouched() {
			c.vouched[ep.id] = struct{}{}
		}
	}
	ep.idle = idle
}

// foundDue notes what a look at the queue found; young: only its new rows were
// looked at.
func (c *core) foundDue(now time.Time, d store.DueLane, young bool) {
	ep := c.mine(d.Endpoint)
	if ep == nil {
		return
	}
	if !young {
		ep.lanes[laneIndex(d.Lane)].low = time.Time{} // it may be older than what was claimed
	}
	if d.Lane == postrider.LaneSuspect && d.In <= 0 {
		c.foundSuspects(now, ep)
	}
	c.found(now, d)
}

// found notes that a lane has something waiting.
func (c *core) found(now time.Time, d store.DueLane) {
	if ep := c.mine(d.Endpoint); ep != nil {
		c.expect(ep, laneIndex(d.Lane), now.Add(d.In))
		c.review(now, ep)
	}
}

// drain takes no more work and gives back what is held.
func (c *core) drain(now time.Time) {
	c.draining = true
	c.shards.leaving = c.shards.owned
	for _, ep := range c.sorted() {
		c.giveBack(now, ep)
	}
}

// sorted returns the endpoints in an order that is always the same.
func (c *core) sorted() []*endpoint {
	return slices.SortedFunc(maps.Values(c.endpoints), func(a, b *endpoint) int { return a.id.Compare(b.id) })
}

// drained reports whether nothing is left to wait for.
func (c *core) drained() bool {
	return c.draining && len(c.admitted) == 0 && !c.claiming && c.shards.busy == [store.Shards]int{}
}

// mayServe reports whether the endpoint is enabled and this node's to serve.
func (c *core) mayServe(ep *endpoint) bool { return ep.open && c.shards.serves(ep.shard) }

// gated reports whether nothing may start for the endpoint, nor be claimed.
func (c *core) gated(now time.Time, ep *endpoint) bool {
	return !c.mayServe(ep) || now.Before(ep.breaker.PacedUntil) || ep.broken() && !ep.probing()
}

func (ep *endpoint) holds() (n int) {
	for _, items := range ep.held {
		n += len(items)
	}
	return n
}

// expect notes that something in the lane is due at the instant, or before.
func (c *core) expect(ep *endpoint, l int, at time.Time) {
	if !ep.known || !c.shards.has(ep.shard) {
		return
	}
	if !ep.lanes[l].waiting || at.Before(ep.lanes[l].due) {
		ep.lanes[l].waiting, ep.lanes[l].due = true, at
	}
}

// nextDue returns the first instant after now at which a lane becomes due, the
// endpoint may start something again, its probe is too old, or a lease that is
// held no longer covers an attempt.
func (ep *endpoint) nextDue(now time.Time) (next time.Time, ok bool) {
	consider := func(at time.Time) {
		if at.After(now) && (!ok || at.Before(next)) {
			next, ok = at, true
		}
	}
	if ep.stage == probeGranted {
		consider(ep.breaker.ProbeAt)
	}
	for l, lane := range ep.lanes {
		if lane.waiting {
			consider(lane.due)
			consider(ep.restUntil)
		}
		if len(ep.held[l]) > 0 {
			consider(ep.held[l][0].leasedUntil.Add(-ep.policy.Timeout + 1))
			consider(ep.restUntil)
		}
	}
	return next, ok
}

func laneIndex(l postrider.Lane) int {
	switch l {
	case postrider.LaneFirst:
		return 0
	case postrider.LaneRetry:
		return 1
	case postrider.LaneSuspect:
		return suspectLane
	case postrider.LaneBulk:
	}
	return bulkLane
}
