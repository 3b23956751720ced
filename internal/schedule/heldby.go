package schedule

import (
	"slices"
	"time"

	"github.com/postrider/postrider"
)

// HeldBy returns why the due deliveries of an endpoint are not sent; false: another node owns the
// endpoint. An endpoint with as many attempts in flight as it has shown to handle is held by its
// own concurrency: more slots of the node would not help.
func (c *Core) HeldBy(now time.Time, id postrider.EndpointID) (postrider.HeldBy, bool) {
	ep := c.endpoints[id]
	switch {
	case ep == nil || !c.shards.owns(ep.shard):
		return "", false
	case c.shards.held:
		return postrider.HeldByRestore, true
	case !ep.enabled:
		return postrider.HeldByPause, true
	case now.Before(ep.postponedUntil):
		return postrider.HeldByNothing, true
	case ep.isOpen():
		return postrider.HeldByCircuit, true
	case now.Before(ep.breaker.PacedUntil):
		return postrider.HeldByRetryAfter, true
	case now.Before(ep.rateBlockedUntil):
		return postrider.HeldByRate, true
	case ep.class.degraded(), ep.class == slow && !c.slots.hasSlot(slow):
		return postrider.HeldByFailures, true
	case ep.inFlight >= ep.maxInFlight(), c.slots.unanswered(now, ep):
		return postrider.HeldByConcurrency, true
	}
	return postrider.HeldByNothing, true
}

// OpenCircuits returns, for each circuit of this node's endpoints that is open or half open, when
// it left the status closed. A circuit that a person opened has the zero time. Circuits are left out
// whose cooldown is over and that have no delivery to probe with: whether their endpoints work is
// not known. So are those of endpoints that are not in memory, once their cooldown is over, because
// an endpoint with deliveries is in memory.
func (c *Core) OpenCircuits(now time.Time) (since []time.Time) {
	add := func(circuit *postrider.Circuit) {
		switch {
		case circuit.Closed():
		case circuit.Reason == postrider.ReasonManual:
			since = append(since, time.Time{})
		default:
			since = append(since, circuit.OpenedAt)
		}
	}
	for _, ep := range c.endpoints {
		if c.shards.owns(ep.shard) && (now.Before(ep.breaker.ProbeAt) || ep.hasDeliveries()) {
			add(&ep.breaker.Circuit)
		}
	}
	for _, known := range c.remembered {
		if known.circuit != nil && now.Before(known.circuit.ProbeAt.Add(-c.ahead)) {
			add(known.circuit)
		}
	}
	return since
}

// hasDeliveries reports whether deliveries wait for the endpoint or are under way.
func (ep *endpoint) hasDeliveries() bool {
	return ep.credit+ep.unsettled > 0 || slices.ContainsFunc(ep.lanes[:], func(l lane) bool { return l.occupied })
}
