package schedule

import (
	"errors"
	"time"

	"github.com/postrider/postrider"
)

// probeStage is the progress of the probe of a circuit that is open or half open. Each stage after
// noProbe uses one of the slots for probes.
//
//	noProbe ──time, due──► probeAsked ──stored──► probeGranted ──started──► probeInFlight ──over──► noProbe
//
// probeAsked and probeGranted go back to noProbe in four cases: the store refuses, another node or
// a person changed the circuit, the endpoint is paused, or the delivery for the probe is no longer
// there. When the node loses the shard, the stage becomes noProbe.
type probeStage int

// The stages. Only [circuits.setProbe] sets them, and it counts the slots in use.
const (
	// The circuit is closed, its cooldown has not passed, or no delivery is due for a probe.
	noProbe       probeStage = iota
	probeAsked               // set by probe: the half-open circuit is being stored; the store grants the probe to one node
	probeGranted             // set when the half-open circuit is stored: the next attempt is the probe
	probeInFlight            // set by startOne; recordAttempt ends it with the probe's result
)

// circuits stores changes of circuits, one after the other for each endpoint, and grants the right
// to probe.
//
// The core decides on its own copy of a circuit and does not wait for the store: a failing endpoint
// gets nothing more at once. Only a probe waits until its half-open circuit is stored. Otherwise a
// node that has lost the shard without knowing it could probe at the same time as the new owner. An
// example:
//
//	 0 s  the fifth failure in a row opens the circuit; it is stored as version 7.
//	      The leases that have not started are given back
//	60 s  the cooldown is over and a delivery is due: probe asks, by storing the half-open
//	      circuit as version 8. If another node stored a version 8 first, this is a
//	      conflict: that circuit is adopted, and no probe starts
//	      stored: the probe is granted; one delivery is claimed and sent
//	61 s  it is accepted: the circuit closes (version 9), and the concurrency window
//	      starts with one attempt. If it failed, the circuit would open for
//	      another cooldown ([postrider.Breaker])
//
// The state of an endpoint has three parts: the circuit's status, the stage of the probe, and
// whether a change is being stored. These combinations occur:
//
//	circuit     probe stage             storing   what happens
//	closed      none                    any       deliveries start as window and rate allow
//	open        none                    any       nothing starts; probe asks once the cooldown is over
//	half open   asked                   yes       nothing starts until the store grants the probe
//	half open   granted                 any       the next delivery is the probe; it is claimed if none is prefetched
//	half open   in flight               any       nothing else starts
//
// If a circuit changes while it is being stored, it is stored once more afterwards (again). The
// version (Generation) decides between nodes: see [CircuitStored]. At most limit probes are asked
// for, granted or in flight. The limit is a quarter of the node's 1,024 slots. So 1,000 endpoints
// that hang for 10 s are probed in 40 s, and each is probed once a minute.
type circuits struct {
	core    *Core
	limit   int
	probes  int
	waiting queue // endpoints whose probe is due and waits for a slot, in the order in which the probes became due
}

// probe asks for the right to probe an endpoint if its cooldown is over, something is due for it,
// and a slot for probes is free. The store grants the right to one node. An endpoint that waits for
// a slot causes no work for the store.
func (cs *circuits) probe(now time.Time, ep *endpoint) {
	if ep.probe == probeGranted && ep.prefetchedCount() == 0 && ep.asked == [laneCount]int{} && !now.Before(ep.breaker.ProbeAt) {
		cs.setProbe(ep, noProbe) // the delivery for the probe is no longer there
	}
	if ep.probe != noProbe || ep.storing || cs.core.draining || !ep.isDue(now) ||
		now.Before(ep.breaker.PacedUntil) || now.Before(ep.breaker.ProbeAt) || now.Before(ep.postponedUntil) {
		return
	}
	if cs.probes >= cs.limit {
		cs.waiting.push(ep)
		return
	}
	if ep.breaker.Probe(now, ep.policy.Timeout+cs.core.opts.LeaseMargin) {
		cs.setProbe(ep, probeAsked)
		cs.store(ep)
	}
}

// setProbe moves an endpoint's probe to another stage.
func (cs *circuits) setProbe(ep *endpoint, to probeStage) {
	if ep.probe == noProbe {
		cs.probes++
	}
	ep.probe = to
	if to == noProbe {
		cs.probes--
	}
	if to == probeGranted && ep.class != circuitOpen {
		for of := range cs.core.ready.queues {
			cs.core.ready.queues[of].remove(ep) // probes have their own slots
		}
	}
}

// store stores the circuit. If a change is being stored already, all later changes are merged into
// one that is stored after it. So an endpoint whose circuit changes with each attempt causes one
// write at a time.
func (cs *circuits) store(ep *endpoint) {
	if ep.storing {
		ep.again = true
		return
	}
	ep.storing = true
	circuit := ep.breaker.Circuit.Shift(cs.core.ahead)
	circuit.Endpoint = ep.id
	is := loggedOf(circuit)
	cs.core.actions.Circuits = append(cs.core.actions.Circuits, CircuitChange{circuit, is != ep.logged})
	ep.logged = is
}

// logged is the state of a circuit that was logged last. A change of it is notable.
type logged struct {
	status   postrider.CircuitStatus // zero: closed
	cooldown time.Duration
	openedAt time.Time
}

func loggedOf(c postrider.Circuit) logged {
	if c.Closed() {
		return logged{cooldown: c.Cooldown}
	}
	return logged{c.Status, c.Cooldown, c.OpenedAt}
}

// apply continues after a change of a circuit was stored, or could not be stored. A circuit is
// stored by compare-and-swap of its version (Generation), so there are four cases:
//
//   - It was stored. A probe that was asked for is granted. If the circuit changed in the meantime,
//     it is stored again.
//   - Conflict, this node opened the circuit, and the stored circuit is closed, as it was before.
//     The stored circuit does not know of this node's failures, so this node's circuit is stored
//     over it. If the stored circuit was open before, for example while a probe fails, a person (or
//     the last owner) closed it in the meantime, and the stored circuit wins. One case cannot be
//     recognised: just when this node opens a circuit that was closed but on probation, a person
//     closes it.
//   - Any other conflict: another node or a person changed the circuit first, and the stored
//     circuit wins. Only the times that the endpoint itself asked for are kept, if they are later.
//   - Another error: a probe that was asked for is not granted. It is asked for again later.
func (in CircuitStored) apply(c *Core, now time.Time) {
	ep := c.endpoints[in.Circuit.Endpoint]
	if ep == nil || !ep.storing {
		return // another node got the shard meanwhile, so this node has forgotten the circuit
	}
	again := ep.again
	ep.storing, ep.again = false, false
	switch {
	case errors.Is(in.Err, postrider.ErrConflict) && ep.isOpen() && !ep.storedOpen && ep.probe != probeAsked && in.Circuit.Closed():
		ep.breaker.Generation = in.Circuit.Generation
		again = true
	case errors.Is(in.Err, postrider.ErrConflict):
		ours := ep.breaker.Circuit
		c.circuits.adopt(now, ep, in.Circuit)
		if ep.breaker.PacedUntil.Before(ours.PacedUntil) || ep.breaker.RateFullAt.Before(ours.RateFullAt) {
			ep.breaker.PacedUntil = later(ep.breaker.PacedUntil, ours.PacedUntil)
			ep.breaker.RateFullAt = later(ep.breaker.RateFullAt, ours.RateFullAt)
			c.circuits.store(ep)
			c.review(now, ep)
		}
		return
	case in.Err != nil:
		if ep.probe == probeAsked {
			c.circuits.setProbe(ep, noProbe)
		}
	default:
		ep.breaker.Generation, ep.storedOpen = in.Circuit.Generation, !in.Circuit.Closed()
		if ep.probe == probeAsked {
			c.circuits.setProbe(ep, probeGranted)
		}
	}
	if again {
		c.circuits.store(ep)
	}
	c.updateClass(now, ep)
	c.review(now, ep)
}

func (in CircuitsLoaded) apply(c *Core, now time.Time) { c.circuits.learn(now, in.Circuits) }

// learn takes over stored circuits of endpoints that this node serves. It ignores a stored circuit
// that is not newer than the core's own, because adopting that would lose state that is only in
// memory: failures since then, the window of failures, a granted probe. It also ignores one while a
// change of this node's is being stored, because the reply to that will say which circuit wins.
func (cs *circuits) learn(now time.Time, known []postrider.Circuit) {
	for _, circuit := range known {
		ep := cs.core.endpoints[circuit.Endpoint]
		if ep == nil {
			cs.remember(now, circuit)
		} else if circuit.Generation > ep.breaker.Generation && !ep.storing {
			cs.adopt(now, ep, circuit)
		}
	}
}

// remember keeps the stored circuit of an endpoint that is not in memory. It keeps all of it if it
// has an effect, and otherwise only its version, so that the next change is stored at the first
// try.
func (cs *circuits) remember(now time.Time, circuit postrider.Circuit) {
	known := cs.core.remembered[circuit.Endpoint]
	if circuit.Generation <= known.version {
		return
	}
	known.version = circuit.Generation
	known.circuit = nil
	ours := circuit.Shift(-cs.core.ahead)
	b := postrider.Breaker{Circuit: ours}
	if !b.Quiet() || ours.PacedUntil.After(now) || ours.RateFullAt.After(now) {
		known.circuit = &circuit
	}
	cs.core.remembered[circuit.Endpoint] = known
}

// adopt takes over the stored circuit: another node or a person changed it, or this node has just
// become the owner. A probe in flight goes on, and its result counts. A probe that was asked for or
// granted no longer belongs to this node.
func (cs *circuits) adopt(now time.Time, ep *endpoint, circuit postrider.Circuit) {
	wasOpen := ep.isOpen()
	ep.breaker = postrider.Breaker{Circuit: circuit.Shift(-cs.core.ahead)}
	ep.logged, ep.storedOpen = loggedOf(circuit), !circuit.Closed()
	if ep.probe != probeInFlight && ep.probe != noProbe {
		cs.setProbe(ep, noProbe)
	}
	if wasOpen && !ep.isOpen() {
		ep.unresponsive = false
		ep.window.Restart(ep.limit)
	}
	cs.core.updateClass(now, ep)
	cs.core.review(now, ep)
}
