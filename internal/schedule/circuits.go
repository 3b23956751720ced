package schedule

import (
	"errors"
	"time"

	"github.com/postrider/postrider"
)

// probeStage is how far the probe of a circuit that is not closed has come.
//
//	noProbe ──time, due──► probeAsked ──stored──► probeGranted ──started──► probeInFlight ──over──► noProbe
//
// Any stage but the last goes back to noProbe when the store refuses, when the
// circuit was changed by somebody else, or when the delivery for the probe has
// gone.
type probeStage int

// The stages. [circuits.setProbe] sets them and counts.
const (
	noProbe       probeStage = iota
	probeAsked               // the half-open circuit is being stored: the store grants the probe to one node
	probeGranted             // the next attempt is the probe
	probeInFlight            // the probe is under way
)

// circuits stores changes of circuits, one after the other for each endpoint, and
// hands out the right to probe.
//
// The core decides on its own copy of a circuit and does not wait for the store: an
// endpoint that fails is left alone at once. Only a probe waits until its
// half-open circuit is stored, since of several nodes one may probe. So an endpoint's
// state is five things, of which these combinations occur:
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
// At most limit probes are asked for, granted or in flight: a quarter of the
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
		now.Before(ep.breaker.PacedUntil) || now.Before(ep.breaker.ProbeAt) {
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
// merged into one that follows it.
func (cs *circuits) store(ep *endpoint) {
	if ep.storing {
		ep.again = true
		return
	}
	ep.storing = true
	circuit := shift(ep.breaker.Circuit, cs.core.ahead)
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

// shift moves a circuit's times from one clock to another: those that are stored
// are by the store's clock.
func shift(circuit postrider.Circuit, by time.Duration) postrider.Circuit {
	for _, at := range []*time.Time{
		&circuit.OpenedAt, &circuit.ProbeAt, &circuit.FailingSince, &circuit.PacedUntil, &circuit.RateFullAt, &circuit.LastAttemptAt,
	} {
		if !at.IsZero() {
			*at = at.Add(by)
		}
	}
	return circuit
}

// apply goes on when a change of a circuit is stored, or could not be. A circuit
// is stored by compare-and-swap of its version (Generation), so there are four cases:
//
//   - Stored. A probe that was asked for is granted. A change that came meanwhile
//     is stored now.
//   - Conflict, and what is stored is closed, while this node's circuit opened: what is
//     stored is older than what was learned since. This node's is stored over it.
//   - Any other conflict: another node or a person was faster, and theirs counts. Only
//     the times that the endpoint itself asked for are kept, where they are later.
//   - Another error: a probe that was asked for is not granted; it is asked for
//     again later.
func (in CircuitStored) apply(c *Core, now time.Time) {
	ep := c.endpoints[in.Circuit.Endpoint]
	if ep == nil {
		return
	}
	again := ep.again
	ep.storing, ep.again = false, false
	switch {
	case errors.Is(in.Err, postrider.ErrConflict) && ep.isOpen() && ep.probe != probeAsked && in.Circuit.Closed():
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
		ep.breaker.Generation = in.Circuit.Generation
		if ep.probe == probeAsked {
			c.circuits.setProbe(ep, probeGranted)
		}
	}
	if again {
		c.circuits.store(ep)
	}
	c.updateDegraded(ep)
	c.review(now, ep)
}

func (in CircuitsLoaded) apply(c *Core, now time.Time) { c.circuits.learn(now, in.Circuits) }

// learn takes over stored circuits of endpoints that this node serves.
func (cs *circuits) learn(now time.Time, known []postrider.Circuit) {
	for _, circuit := range known {
		ep := cs.core.endpoints[circuit.Endpoint]
		if ep == nil {
			cs.remember(now, circuit)
		} else if circuit.Generation >= ep.breaker.Generation && !ep.storing {
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
	ours := shift(circuit, -cs.core.ahead)
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
	ep.breaker = postrider.Breaker{Circuit: shift(circuit, -cs.core.ahead)}
	ep.logged = loggedOf(circuit)
	if ep.probe != probeInFlight && ep.probe != noProbe {
		cs.setProbe(ep, noProbe)
	}
	if wasOpen && !ep.isOpen() {
		ep.unresponsive = false
		ep.window.Restart(ep.limit)
	}
	cs.core.updateDegraded(ep)
	cs.core.review(now, ep)
}
