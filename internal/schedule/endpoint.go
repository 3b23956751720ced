package schedule

import (
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// endpoint is the state of an endpoint that has deliveries leased, in flight or waiting, or whose
// condition must be remembered. Introduce brings it into memory when the first input names it.
// forget removes it when two inspections in a row found nothing to remember; then only a few bytes
// are kept (remembered).
type endpoint struct {
	id       postrider.EndpointID
	shard    uint8
	host     *host                   // nil: the endpoint has no settings
	settings *store.EndpointSnapshot // from the last EndpointChanged; nil: the endpoint is deleted, or not known yet
	policy   *postrider.Policy       // policy of the settings; never nil
	limit    int                     // attempts in flight that the policy allows; at least 1
	enabled  bool                    // the settings say enabled, their policy can be read, and gone is false
	// Its receiver wants no more (Disable), and it is being disabled, so nothing starts, whatever the settings say; cleared
	// by DisableEnded.
	gone bool
	condition

	lanes      [laneCount]lane
	prefetched [laneCount][]*Delivery // leased but not started, oldest first
	credit     int                    // see slots
	inFlight   int                    // attempts whose response is not read yet
	asked      [laneCount]int         // deliveries that the claim under way asks for
	unsettled  int                    // attempts that have ended but are not committed
	stuck      int                    // the part of the credit that prefetch counts as stuck
	lease      time.Duration          // the shortest lease that was requested since credit was 0
	starts     int                    // attempts started; selects the row of laneOrder
	// Approximate number of first attempts that were committed without a lease and are not claimed
	// yet; used for the lag.
	backlog int
	// Smoothed duration of attempts; for an attempt that timed out, the time until its time-out; 0:
	// no attempt has ended.
	latency time.Duration

	queued queueKinds
	idle   bool      // the last inspection found nothing to remember; cleared by inputs that name the endpoint
	timer  int       // index in the heap of timers plus one; 0: it has no timer
	wakeAt time.Time // time of its timer
}

// remembered is the part that the core keeps of an endpoint that is not in memory. It is a few
// bytes, with which the next change of the circuit is stored at the first try. A circuit that the
// store reports later (circuits.remember) is kept as a whole while it has an effect.
type remembered struct {
	version int64              // version of the circuit; 0: it never changed
	circuit *postrider.Circuit // stored circuit, on the store's clock; nil: it has no effect any more
	vouched bool               // the last attempt was accepted; see [postrider.Breaker.Vouch]
}

// Needs reports whether this node owns an endpoint that is not in memory. Such an endpoint must be
// introduced before an input names it.
func (c *Core) Needs(id postrider.EndpointID) bool {
	return c.endpoints[id] == nil && c.shards.owns(store.Shard(id))
}

// Introduce brings an endpoint into memory, with its current settings; nil: it is deleted, or not
// known yet. The core forgets the endpoint when it has been idle for a while.
func (c *Core) Introduce(id postrider.EndpointID, settings *store.EndpointSnapshot) {
	if c.endpoints[id] != nil {
		return
	}
	ep := &endpoint{id: id, shard: store.Shard(id), condition: condition{class: unproven}}
	known := c.remembered[id]
	delete(c.remembered, id)
	ep.breaker.Generation = known.version
	if settings != nil && settings.Circuit.Generation > known.version {
		known.circuit = &settings.Circuit
	}
	if known.circuit != nil {
		ep.breaker.Circuit = known.circuit.Shift(-c.ahead)
		ep.logged, ep.storedOpen = loggedOf(*known.circuit), !known.circuit.Closed()
	}
	if known.vouched {
		ep.breaker.Vouch()
	}
	c.endpoints[id] = ep
	c.configure(ep, settings)
	c.updateClass(time.Time{}, ep)
}

// owned returns an endpoint of this node, and brings it into memory if necessary; nil: another node
// owns it.
func (c *Core) owned(id postrider.EndpointID) *endpoint {
	if !c.shards.owns(store.Shard(id)) {
		return nil
	}
	c.Introduce(id, nil) // does nothing if the endpoint is in memory
	ep := c.endpoints[id]
	ep.idle = false
	return ep
}

// configure applies the settings. One endpoint gets at most 32 of the node's slots, or a quarter of
// them if that is more. To an endpoint without settings nothing is sent, and the core forgets which
// of its lanes may have rows: a later EndpointChanged with its settings, or a scan, finds them
// again. An endpoint whose policy cannot be read is treated as paused: nothing starts, but its
// lanes are remembered.
func (c *Core) configure(ep *endpoint, settings *store.EndpointSnapshot) {
	ep.settings = settings
	if settings == nil {
		ep.enabled, ep.gone, ep.limit, ep.policy = false, false, 1, &c.unknown
		ep.lanes = [laneCount]lane{}
		return
	}
	enabled := settings.Endpoint.Status == postrider.EndpointEnabled && settings.Endpoint.PolicyError == ""
	ep.enabled = enabled && !ep.gone
	c.hosts.move(ep, hostOf(settings.Endpoint.URL))
	if settings.Endpoint.PolicyError != "" && ep.policy != nil {
		return // attempts in flight end under the policy with which they started
	}
	if ep.policy != nil && ep.policy != &c.unknown && ep.policy.Rate != settings.Endpoint.Policy.Rate {
		ep.bucket, ep.metered, ep.rateBlockedUntil = postrider.Bucket{}, false, time.Time{}
		ep.breaker.RateFullAt = time.Time{}
	}
	ep.policy = &settings.Endpoint.Policy
	if !ep.policy.AdaptiveTimeout {
		ep.timeout = postrider.AdaptiveTimeout{}
	}
	ep.limit = max(1, min(ep.policy.Concurrency, max(32, c.opts.Concurrency/4)))
}

// apply configures the endpoint if it is in memory, and adopts a newer circuit. If deliveries may
// be due, this node looks for them in all lanes, or names the endpoint to the node that owns it.
// Deliveries may also be due if an input named the endpoint before this node knew its settings:
// another node created the endpoint and accepted an event for it.
func (in EndpointChanged) apply(c *Core, now time.Time) {
	id := in.Endpoint
	if ep := c.endpoints[id]; ep != nil {
		was := ep.host
		in.Due = in.Due || ep.settings == nil && in.Settings != nil
		c.configure(ep, in.Settings)
		if in.Settings != nil && in.Settings.Circuit.Generation > ep.breaker.Generation {
			c.circuits.adopt(now, ep, in.Settings.Circuit)
		}
		c.review(now, ep)
		if was != ep.host {
			c.reviewHost(now, was)
		}
	} else if in.Settings == nil {
		delete(c.remembered, id)
	} else if c.shards.owns(store.Shard(id)) {
		c.circuits.remember(now, in.Settings.Circuit)
	}
	if !in.Due {
		return
	}
	if !c.shards.owns(store.Shard(id)) {
		c.actions.LookAt = append(c.actions.LookAt, id)
		return
	}
	c.Introduce(id, in.Settings)
	ep := c.owned(id)
	for l := range ep.lanes {
		ep.lanes[l].low = time.Time{}
		c.noteDue(ep, l, now)
	}
	c.review(now, ep)
}

// forget removes an endpoint if this inspection and the last one found nothing to remember. So an
// endpoint that gets a delivery now and then stays in memory.
func (c *Core) forget(now time.Time, ep *endpoint) {
	owned := c.shards.owns(ep.shard)
	idle := ep.credit+ep.unsettled == 0 && ep.queued == 0 && !ep.gone &&
		!ep.storing && ep.probe == noProbe && // otherwise the slot of its probe would stay in use
		(ep.isQuiet(now) || ep.settings == nil || !owned) &&
		!slices.ContainsFunc(ep.lanes[:], func(l lane) bool { return l.occupied })
	if idle && ep.idle {
		c.timers.remove(ep)
		c.hosts.leave(ep)
		delete(c.endpoints, ep.id)
		if vouched := ep.breaker.Vouched(); ep.settings != nil && owned && (vouched || ep.breaker.Generation > 0) {
			c.remembered[ep.id] = remembered{version: ep.breaker.Generation, vouched: vouched}
		}
	}
	ep.idle = idle
}

// noteDue records that a row of the lane is due at the time, unless an earlier time is recorded.
func (c *Core) noteDue(ep *endpoint, l int, at time.Time) {
	if ep.settings == nil || !c.shards.owns(ep.shard) {
		return
	}
	if !ep.lanes[l].occupied || at.Before(ep.lanes[l].dueAt) {
		ep.lanes[l].occupied, ep.lanes[l].dueAt = true, at
	}
}

// isDue reports whether a row of one of the endpoint's lanes is due.
func (ep *endpoint) isDue(now time.Time) bool {
	return slices.ContainsFunc(ep.lanes[:], func(l lane) bool { return l.isDue(now) })
}

// prefetchedCount returns how many deliveries are leased and have not started.
func (ep *endpoint) prefetchedCount() (n int) {
	for _, deliveries := range ep.prefetched {
		n += len(deliveries)
	}
	return n
}

// pop removes the first prefetched delivery of a lane.
func (ep *endpoint) pop(l int) *Delivery {
	ep.starts++
	deliveries := ep.prefetched[l]
	d := deliveries[0]
	deliveries[0] = nil
	ep.prefetched[l] = deliveries[1:]
	return d
}
