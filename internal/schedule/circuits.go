package schedule

import (
	"errors"
	"time"

	"github.com/postrider/postrider"
)

// probeStage is how far the probe of a circuit that is not closed has come. The stages
// after noProbe use one of the slots for probes.
//
//	noProbe ──time, due──► probeAsked ──stored──► probeGranted ──started──► probeInFlight ──over──► noProbe
//
// probeAsked and probeGranted go back to noProbe when the store refuses, when another node
// or a person changed the circuit, when the endpoint is paused, or when the delivery for the
// probe has gone. With the shard, every stage is lost.
type probeStage int

// The stages. [circuits.setProbe] sets them and counts.
const (
	noProbe       probeStage = iota // the circuit is closed, its cooldown runs, or nothing is due to probe with
	probeAsked                      // set by probe: the half-open circuit is being stored, and the store grants the probe to one node
	probeGranted                    // set when it is stored: the next attempt is the probe
	probeInFlight                   // set by startOne; recordAttempt ends it with the probe's result
)

// circuits stores changes of circuits, one after the other for each endpoint, and
// grants the right to probe.
//
// The core decides on its own copy of a circuit and does not wait for the store: an
// endpoint that fails gets nothing more at once. Only a probe waits until its
// half-open circuit is stored: a node that has lost the shard without knowing it must
// not probe beside the new owner. An example:
//
//	 0 s  the fifth failure in a row opens the circuit; it is stored as version 7.
//	      The leases that have not started are given back
//	60 s  the cooldown is over and a delivery is due: probe asks, by storing the half-open
//	      circuit as version 8. If another node stored a version 8 first, this is a
//	      conflict: that circuit is adopted, and no probe starts
//	      stored: the probe is granted; one delivery is claimed and sent
//	61 s  it is accepted: the circuit closes (version 9), and the concurrency window
//	      starts with one attempt. Had it failed, the circuit would have opened for
//	      another cooldown ([postrider.Breaker])
//
// An endpoint's state consists of the circuit's status, the stage of the probe and
// whether a change is being stored. These combinations occur:
//
//	circuit     probe stage             storing   what happens
//	closed      none                    any       deliveries start as window and rate allow
//	open        none                    any       nothing starts; probe asks once the cooldown is over
//	half open   asked                   yes       nothing starts until the store grants the probe
//	half open   granted                 any       the next delivery is the probe; it is claimed if none is prefetched
//	half open   in flight               any       nothing else starts
//
// A circuit that changes while it is being stored is stored again afterwards
// (again). The version (Generation) decides between nodes: see [CircuitStored].
// At most limit probes are asked for, granted or in flight. A quarter of the node's 1,024
// slots probes 1,000 endpoints that hang for 10 s in 40 s, so that each is probed
// once a minute.
type circuits struct {
	core    *Core
	limit   int
	probes  int
	waiting queue // endpoints whose circuit may be probed once there is a slot, in the order in which they were due
}

// probe asks for the right to probe an endpoint whose cooldown is over, once
// something is due for it and there is a slot for the probe. The store grants the
// right to one node. An endpoint that waits for the slot costs the store nothing.
func (cs *circuits) probe(now time.Time, ep *endpoint) {
	if ep.probe == probeGranted && ep.prefetchedCount() == 0 && ep.asked == [laneCount]int{} && !now.Before(ep.breaker.ProbeAt) {
		cs.setProbe(ep, noProbe) // the delivery that it was meant for has gone
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
			cs.core.ready.queues[of].remove(ep) // probes have slots of their own
		}
	}
}

// store has the circuit stored. While one change is being stored, later ones are
// merged into one that follows it: an endpoint whose circuit changes with each attempt
// costs the store one write at a time.
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

// logged is what the log last said of a circuit. A change of it is notable.
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

// apply goes on when a change of a circuit is stored, or could not be. A circuit
// is stored by compare-and-swap of its version (Generation), so there are four cases:
//
//   - Stored. A probe that was asked for is granted. A change that came meanwhile
//     is stored now.
//   - Conflict, and the stored circuit is closed as it was before this node's opened: the
//     stored one is older than the failures since. This node's is stored over it. Where it
//     was open before, as while a probe fails, a person (or the last owner) closed it
//     meanwhile, and theirs counts. What cannot be known: a person may have closed, in
//     the moment in which this node opened it, a circuit that was closed but on probation.
//   - Any other conflict: another node or a person was faster, and theirs counts. Only
//     the times that the endpoint itself asked for are kept, where they are later.
//   - Another error: a probe that was asked for is not granted; it is asked for
//     again later.
func (in CircuitStored) apply(c *Core, now time.Time) {
	ep := c.endpoints[in.Circuit.Endpoint]
	if ep == nil || !ep.storing {
		return // another node got the shard meanwhile: what was known of the circuit is forgotten
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

// learn takes over circuits as they are stored, of endpoints that this node serves. One
// that is not newer than what the core knows has nothing that it lacks, and would take from it
// what is only in memory: failures since, the window of failures, a probe that is granted.
// While a change of this node's is being stored, its reply will say what counts.
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

// remember keeps a stored circuit of an endpoint that is not in memory: all of it
// if it has an effect, and otherwise its version, so that the next change is
// stored at the first try.
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

// adopt takes over a circuit as it is stored: another node or a person changed it,
// or this node has just become the owner. A probe that is in flight goes on, and its
// result counts; one that was asked for or granted is not this node's any more.
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
