package dispatch

import (
	"errors"
	"time"

	"github.com/postrider/postrider"
)

// maxProbes is how many probes may be under way or about to start. A quarter of
// the slots probes 1,000 endpoints that hang for 10 s in 40 s, so that each is
// probed once a minute.
func (c *core) maxProbes() int { return max(1, c.opts.Concurrency/4) }

// probe asks for the right to probe an endpoint whose cooldown is over, once
// something is due for it and there is a slot for the probe. The store grants
// the right to one node. Endpoints wait for the slot in the order in which they
// were due, and cost the store nothing while they do.
func (c *core) probe(now time.Time, ep *endpoint) {
	if ep.stage == probeGranted && ep.holds() == 0 && ep.asked == [laneCount]int{} && !now.Before(ep.breaker.ProbeAt) {
		c.setStage(ep, noProbe) // the delivery that it was meant for has gone
	}
	if ep.stage != noProbe || ep.storing || c.draining || !ep.isDue(now) ||
		now.Before(ep.breaker.PacedUntil) || now.Before(ep.breaker.ProbeAt) {
		return
	}
	if c.probes >= c.maxProbes() {
		if !ep.probeWaits {
			ep.probeWaits = true
			c.probeLine.push(ep)
		}
		return
	}
	if ep.breaker.Probe(now, ep.policy.Timeout+c.opts.LeaseMargin) {
		c.setStage(ep, probeAsked)
		c.storeCircuit(ep)
	}
}

// letProbe looks again at endpoints that wait for a slot for their probe.
func (c *core) letProbe(now time.Time) {
	for c.probes < c.maxProbes() {
		ep := c.probeLine.pop()
		if ep == nil {
			return
		}
		ep.probeWaits = false
		c.review(now, ep)
	}
}

// setStage moves an endpoint's probe on.
func (c *core) setStage(ep *endpoint, s stage) {
	if ep.stage == noProbe {
		c.probes++
	}
	ep.stage = s
	if s == noProbe {
		c.probes--
	}
	for of := range c.lines {
		if s == probeGranted && ep.startable && of != int(broken) && c.lines[of].remove(ep) {
			ep.startable = false // probes have slots of their own
		}
	}
}

// circuitChange is a circuit that is to be stored.
type circuitChange struct {
	postrider.Circuit

	news bool // its status or cooldown changed, which an operator wants to know
}

// storeCircuit has the circuit stored, one change after the other.
func (c *core) storeCircuit(ep *endpoint) {
	if ep.storing {
		ep.again = true
		return
	}
	ep.storing = true
	circuit := shift(ep.breaker.Circuit, c.ahead)
	circuit.Endpoint = ep.id
	told := toldOf(circuit)
	c.do.circuits = append(c.do.circuits, circuitChange{circuit, told != ep.told})
	ep.told = told
}

// told is what the log last said of a circuit.
type told struct {
	open     postrider.CircuitStatus
	cooldown time.Duration
	openedAt time.Time
}

func toldOf(c postrider.Circuit) told {
	if c.Closed() {
		return told{cooldown: c.Cooldown}
	}
	return told{c.Status, c.Cooldown, c.OpenedAt}
}

// shift moves a circuit's times: those that are stored are by the store's
// clock.
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

// circuitStored goes on when a change of a circuit is stored. Where another
// node or a person was faster, theirs counts.
func (c *core) circuitStored(now time.Time, in circuitStored) {
	ep := c.endpoints[in.circuit.Endpoint]
	if ep == nil {
		return
	}
	ep.storing = false
	again := ep.again
	ep.again = false
	switch {
	case errors.Is(in.err, postrider.ErrConflict) && ep.broken() && ep.stage != probeAsked && in.circuit.Closed():
		// What is stored is older than what was learned since.
		ep.breaker.Generation = in.circuit.Generation
		c.storeCircuit(ep)
	case errors.Is(in.err, postrider.ErrConflict):
		ours := ep.breaker.Circuit
		c.adopt(now, ep, in.circuit)
		if ep.breaker.PacedUntil.Before(ours.PacedUntil) || ep.breaker.RateFullAt.Before(ours.RateFullAt) {
			ep.breaker.PacedUntil = later(ep.breaker.PacedUntil, ours.PacedUntil)
			ep.breaker.RateFullAt = later(ep.breaker.RateFullAt, ours.RateFullAt)
			c.storeCircuit(ep)
			c.review(now, ep)
		}
		return
	case in.err != nil:
		if ep.stage == probeAsked {
			c.setStage(ep, noProbe)
		}
		if again {
			c.storeCircuit(ep)
		}
	default:
		ep.breaker.Generation = in.circuit.Generation
		c.generations[ep.id] = in.circuit.Generation
		if ep.stage == probeAsked {
			c.setStage(ep, probeGranted)
		}
		if again {
			c.storeCircuit(ep)
		}
	}
	c.judge(ep)
	c.review(now, ep)
}

// learnCircuits takes over circuits of endpoints that are to be served.
func (c *core) learnCircuits(now time.Time, circuits []postrider.Circuit) {
	for _, circuit := range circuits {
		c.generations[circuit.Endpoint] = max(c.generations[circuit.Endpoint], circuit.Generation)
		if ep := c.endpoints[circuit.Endpoint]; ep == nil && asksNothing(shift(circuit, -c.ahead), now) {
			continue
		}
		if ep := c.endpoint(circuit.Endpoint); circuit.Generation >= ep.breaker.Generation && !ep.storing {
			c.adopt(now, ep, circuit)
		}
	}
}

// asksNothing reports whether nothing of a stored circuit matters any more.
func asksNothing(circuit postrider.Circuit, now time.Time) bool {
	b := postrider.Breaker{Circuit: circuit}
	return b.Quiet() && !circuit.PacedUntil.After(now) && !circuit.RateFullAt.After(now)
}

// adopt takes over a circuit as it is stored.
func (c *core) adopt(now time.Time, ep *endpoint, circuit postrider.Circuit) {
	c.generations[ep.id] = circuit.Generation
	was := ep.broken()
	ep.breaker = postrider.Breaker{Circuit: shift(circuit, -c.ahead)}
	ep.told = toldOf(circuit)
	if ep.stage != probeFlying && ep.stage != noProbe {
		c.setStage(ep, noProbe)
	}
	if was && !ep.broken() {
		ep.silent = false
		ep.window.Restart(ep.limit)
	}
	c.judge(ep)
	c.review(now, ep)
}
