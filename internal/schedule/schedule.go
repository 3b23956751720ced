// Package schedule decides what the dispatcher does next: which deliveries are admitted, claimed,
// started, settled and released, and how much may be sent to each endpoint.
//
// A [Core] is a state machine. The dispatcher's loop applies inputs ([Core.Apply], [Core.Admit])
// and asks for actions ([Core.Decide]):
//
//	for in := range inputs {
//		core.Apply(time.Now(), in)
//		carryOut(core.Decide(time.Now()))
//	}
//
// A delivery goes through these stages:
//
//	due ─► claimable ─► claimed ─► prefetched ─► ready ─► in flight ─► unsettled ─► settled
//	                                   ▲
//	admitted, committed ───────────────┘
//
// An endpoint's lane is due. The endpoint waits in the queue of claims. The claim returns
// deliveries under a lease. They are prefetched until the endpoint has a slot. The endpoint waits
// in the ready queue of its class. An attempt starts. Its result is settled. A delivery that ingest
// commits under a lease ([Core.Admit]) skips the claim. After every change of an endpoint,
// [Core.review] puts it into the queues in which it belongs.
//
// These promises always hold:
//
//   - A core reads no clock, draws no random number, starts no goroutine, sends on
//     no channel and reads nothing that others write. The same inputs at the same
//     times give the same actions.
//   - Every lease has one unit of credit, from the request for the lease until the
//     attempt has ended or the lease is released.
//   - Nothing starts above a limit. There are limits for the attempts of the node, of
//     a host, of an endpoint and of a class, and for leases that have not started.
//     The number in flight may exceed a limit for a while, for two reasons: an edit
//     lowers the limit, or a failed attempt moves the endpoint, with its other attempts,
//     into a class whose share is in use.
//   - A core remembers nothing of deleted endpoints, and little of idle ones.
//
// Read schedule.go, actions.go, endpoint.go, lanes.go, review.go and slots.go first. Then follow a
// delivery: admission.go, claim.go, prefetch.go, start.go and settle.go. Each other file answers
// one question about an endpoint or the node.
//
// The package makes no request and writes nothing: package dispatch does. [postrider.Settle]
// decides what a response means, and [postrider.Breaker] when a circuit opens.
package schedule

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Options tunes a [Core]. The zero value has the production defaults of a single node.
type Options struct {
	// Attempts in flight to responding endpoints; default 1,024; at most a third of MaxInFlight.
	Concurrency int
	// Attempts in flight to all endpoints, including unresponsive ones; default and maximum: five
	// times Concurrency.
	MaxInFlight     int
	HostConcurrency int // attempts in flight to one host; default a quarter of Concurrency, at least 64
	CreditFactor    int // the endpoint's credit limit in multiples of its limit; default 2
	// Attempts that have started and are not committed, without slow ones in flight; default four
	// times Concurrency, at least 4,096.
	MaxUnsettled int
	LeaseMargin  time.Duration // by how much a lease is longer than the endpoint's timeout; default 15 s
	// Other nodes share the store, so the core owns nothing until [ShardsAssigned] says so.
	Shared      bool
	Incarnation uint32        // incarnation of this node; the upper half of every token
	Poll        time.Duration // interval at which other nodes poll for new deliveries; default 1 s
}

func (o Options) withDefaults() Options {
	o.Concurrency = cmp.Or(o.Concurrency, 1024)
	o.MaxInFlight = min(cmp.Or(o.MaxInFlight, 5*o.Concurrency), 5*o.Concurrency)
	o.Concurrency = max(1, min(o.Concurrency, o.MaxInFlight/3))
	o.HostConcurrency = cmp.Or(o.HostConcurrency, max(64, o.Concurrency/4))
	o.CreditFactor = cmp.Or(o.CreditFactor, 2)
	o.MaxUnsettled = cmp.Or(o.MaxUnsettled, max(4096, 4*o.Concurrency))
	o.LeaseMargin = cmp.Or(o.LeaseMargin, LeaseMargin)
	o.Poll = cmp.Or(o.Poll, time.Second)
	return o
}

// LeaseMargin is by how much a lease is longer than the timeout of its endpoint, unless Options say
// otherwise.
const LeaseMargin = 15 * time.Second

// Core has all state of the dispatcher and makes every decision on it. It belongs to one goroutine.
type Core struct {
	opts        Options
	ahead, wall time.Duration // how far the store's Now and Wall are ahead of this node's clock; see SetClock

	// Endpoints in memory: those that have something to do or to remember.
	endpoints map[postrider.EndpointID]*endpoint
	// Endpoints not in memory whose circuit ever changed, or that accepted their last delivery.
	remembered map[postrider.EndpointID]remembered
	unknown    postrider.Policy // policy of endpoints without settings

	slots      slots
	hosts      hosts
	ready      ready
	unanswered queue // endpoints that must respond before they get another slot
	admissions admissions
	// Deliveries that were handed to this node, until their settlement or release is committed.
	handed   map[postrider.DeliveryID]struct{}
	claims   claims
	prefetch prefetch
	circuits circuits
	suspects suspects
	bulk     bulkLimiter
	commits  commits
	pressure backpressure
	shards   shards
	timers   timeHeap // endpoints that must be reviewed at a certain time

	load     Load
	draining bool    // set by Drain: nothing more is claimed, admitted or started
	moved    bool    // a response was read or a settlement committed since the last Decide; part of Actions.Progress
	actions  Actions // actions collected until the next Decide
}

// New returns a core without endpoints.
func New(opts Options) *Core {
	opts = opts.withDefaults()
	c := &Core{
		opts:       opts,
		endpoints:  map[postrider.EndpointID]*endpoint{},
		remembered: map[postrider.EndpointID]remembered{},
		slots: slots{
			limit: opts.Concurrency, slowLimit: max(2*opts.Concurrency, opts.MaxInFlight-opts.Concurrency),
			hostLimit: opts.HostConcurrency, creditFactor: opts.CreditFactor,
		},
		unanswered: queue{kind: inUnanswered},
		admissions: admissions{
			token:    postrider.Token(opts.Incarnation) << 32,
			underWay: map[postrider.Token]admission{},
		},
		handed: map[postrider.DeliveryID]struct{}{},
		shards: shards{alone: !opts.Shared},
	}
	c.slots.shards = &c.shards
	c.claims = claims{core: c}
	c.prefetch = prefetch{slots: &c.slots, waiting: queue{kind: inStuck}}
	c.hosts = hosts{prefetch: &c.prefetch, byName: map[string]*host{}}
	c.ready = ready{slots: &c.slots}
	for of := range classes {
		c.ready.queues[of].kind, c.claims.waiting[of].kind = inReady, inClaims
	}
	c.circuits = circuits{core: c, limit: max(1, opts.Concurrency/4), waiting: queue{kind: inProbes}}
	c.suspects = suspects{slots: &c.slots, waiting: queue{kind: inSuspects}}
	c.bulk = bulkLimiter{slots: &c.slots, waiting: queue{kind: inBulk}}
	return c
}

// SetClock sets how far the store's clock and the store's time of day are ahead of this node's
// clock. It must be called before inputs are applied.
func (c *Core) SetClock(ahead, wall time.Duration) { c.ahead, c.wall = ahead, wall }

// Apply applies one input. The next Decide decides its consequences, so many inputs may be applied
// before it.
func (c *Core) Apply(now time.Time, in Input) { in.apply(c, now) }

// Decide returns the actions at the time now. The Send slice is valid until the next call.
//
// The order of the steps matters. First, endpoints are reviewed if their time has come or a
// capacity for them is free again: that fills the ready queues. Starts come before the claim,
// because they free the capacity to prefetch that the claim uses.
func (c *Core) Decide(now time.Time) Actions {
	if c.suspects.startedAt.IsZero() {
		c.suspects.startedAt = now
	}
	for ep := c.timers.popDue(now); ep != nil; ep = c.timers.popDue(now) {
		c.review(now, ep)
	}
	c.reviewWaiting(now)
	c.start(now)
	c.inspectAll(now)
	c.reviewNext(now, &c.prefetch.waiting, min(c.prefetch.maxStuck()-c.prefetch.stuck, c.prefetch.waiting.len()))
	c.claims.claim(now)

	do := c.actions
	do.Lag = c.pressure.lag
	do.BulkWaiting = max(c.bulk.waiting.len(), c.slots.leased[bulkLane])
	do.WakeAt = c.wakeAt(now)
	idle := c.claims.ready()+c.ready.queues[prompt].len()+c.commits.unsettled == 0 && !c.claims.underWay
	do.Progress = idle || len(do.Send) > 0 || c.moved
	c.moved = false
	c.actions = Actions{Send: do.Send[:0]}
	return do
}

// reviewWaiting reviews endpoints that waited for a capacity that is free again, in the order in
// which they began to wait.
func (c *Core) reviewWaiting(now time.Time) {
	for c.circuits.probes < c.circuits.limit && c.circuits.waiting.len() > 0 {
		c.reviewNext(now, &c.circuits.waiting, 1)
	}
	if c.pressure.isDue(now) && !c.slots.scarce() {
		c.reviewNext(now, &c.unanswered, c.unanswered.len())
	}
	c.reviewNext(now, &c.bulk.waiting, c.bulk.resumable(now))
	c.reviewNext(now, &c.suspects.waiting, c.suspects.nextRound(now))
}

// reviewNext reviews the first n endpoints of a queue.
func (c *Core) reviewNext(now time.Time, q *queue, n int) {
	for ; n > 0; n-- {
		c.review(now, q.pop())
	}
}

// wakeAt returns the latest time of the next Decide; zero: Decide is needed only after an input.
func (c *Core) wakeAt(now time.Time) time.Time {
	at := c.timers.next()
	if next := c.claims.nextAt(); c.claims.ready() > 0 && now.Before(next) {
		at = sooner(at, next)
	}
	// Time adds bulk tokens. They help only if a claim may lease more bulk, or if a prefetched bulk
	// delivery waits to start. Otherwise the claim under way or a response comes first.
	if c.bulk.waiting.len() > 0 && (c.bulk.free() > 0 || c.slots.leased[bulkLane] > c.bulk.asked) {
		at = sooner(at, now.Add(bulkStep))
	}
	if c.prefetch.waiting.len() > 0 {
		at = sooner(at, c.pressure.inspectedAt.Add(inspectEvery))
	}
	if next := c.suspects.nextRoundAt(now); !next.IsZero() {
		at = sooner(at, next)
	}
	return at
}

// Drained reports whether a core that got [Drain] waits for nothing more.
func (c *Core) Drained() bool {
	return c.draining && len(c.admissions.underWay) == 0 && !c.claims.underWay && c.shards.busy == [store.Shards]int{}
}

// Unfinished returns how many attempts have started and are not settled.
func (c *Core) Unfinished() int { return c.slots.inFlight + c.commits.unsettled }

// SurplusShards returns the shards that this node must give up and that are no longer busy: none of
// their deliveries is leased, unsettled or being released.
func (c *Core) SurplusShards() []uint8 { return c.shards.surplus() }

// sortedByID returns endpoints sorted by id, because decisions must not depend on the order of a
// map.
func sortedByID(endpoints map[postrider.EndpointID]*endpoint) []*endpoint {
	return slices.SortedFunc(maps.Values(endpoints), func(a, b *endpoint) int { return a.id.Compare(b.id) })
}
