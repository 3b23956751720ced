package dispatch

import (
	"errors"
	"net/http"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/postrider/postrider"
)

// trouble is what the core remembers of how an endpoint takes what it is sent,
// and how much it may be sent because of that.
type trouble struct {
	breaker postrider.Breaker
	storing bool // a change of the circuit is being stored,
	again   bool // and there was another one since
	stage   stage

	window   postrider.Window
	patience postrider.Patience
	limiter  *rate.Limiter // nil: nothing was sent yet, or no rate was asked for

	pacedUntil time.Time // it asked to be left alone
	restUntil  time.Time // its rate is spent
	silent     bool      // its last failure was no answer
	suspect    bool      // it counts as in trouble, see judge
}

// stage is how far the probe of a circuit that is not closed has come.
type stage int

const (
	noProbe      stage = iota
	probeAsked         // the store decides which node probes
	probeGranted       // the next attempt is the probe
	probeFlying        // it is under way
)

// broken reports whether the circuit lets nothing through but a probe.
func (t *trouble) broken() bool { return !t.breaker.Closed() }

func (t *trouble) probing() bool { return t.stage == probeGranted || t.stage == probeFlying }

// calm reports whether there is nothing to remember.
func (t *trouble) calm(now time.Time) bool {
	return t.breaker.Quiet() && !t.storing && t.window.Open() && t.patience == postrider.Patience{} &&
		!t.pacedUntil.After(now) && (t.limiter == nil || t.limiter.TokensAt(now) >= float64(t.limiter.Burst()))
}

// slots returns how many attempts may be in flight: one for a probe, one to
// find out about an endpoint that did not answer, and else as many as it has
// shown to take.
func (ep *endpoint) slots() int {
	switch {
	case ep.stage == probeGranted:
		return ep.inFlight + 1 // those in flight left before the circuit opened
	case ep.broken():
		return 0
	case ep.silent:
		return 1
	}
	return ep.window.Slots(ep.limit)
}

// room returns how much credit the endpoint may have taken: more than it has
// slots, so that none waits for a claim, but no more than it can use before
// the leases end: prefetch times its slots, and where it answers fast, what it
// takes in half a second. Once it is spent, what is published has to be
// claimed, at twice the cost, until nothing older waits.
func (ep *endpoint) room(prefetch int) int {
	if ep.suspect {
		return ep.slots()
	}
	if ep.latency > 0 {
		prefetch = max(prefetch, int(min(maxPrefetch, time.Second/2/ep.latency)))
	}
	n := ep.slots() * prefetch
	if ep.latency > time.Second { // there is time to claim the next before an answer
		n = min(n, ep.slots()+1)
	}
	if ep.host != nil && ep.host.full {
		n = min(n, ep.inFlight+1)
	}
	if r := ep.policy.Rate; r.Attempts > 0 {
		n = min(n, ep.inFlight+1+int(perSecond(r)/10))
	}
	return n
}

// maxPrefetch is how many times its slots an endpoint may have in hand at most.
const maxPrefetch = 16

// gateOpens returns when an endpoint that is gated now may be served again;
// zero: time alone does not open it.
func (ep *endpoint) gateOpens() time.Time {
	if !ep.broken() || ep.stage != noProbe {
		return ep.pacedUntil
	}
	var first time.Time
	for _, l := range ep.lanes {
		if l.waiting && (first.IsZero() || l.due.Before(first)) {
			first = l.due
		}
	}
	if first.IsZero() {
		return time.Time{} // nothing to probe with
	}
	return later(later(first, ep.breaker.ProbeAt), ep.pacedUntil)
}

// probe asks for the right to probe an endpoint whose cooldown is over, once
// there is something to send. The store grants it, to one node.
func (c *core) probe(now time.Time, ep *endpoint) {
	if ep.stage == probeGranted && ep.holds() == 0 && ep.asked == [laneCount]int{} && !now.Before(ep.breaker.ProbeAt) {
		ep.stage = noProbe // what it was meant for has gone
	}
	if ep.stage != noProbe || ep.storing || c.draining || now.Before(ep.pacedUntil) || !ep.isDue(now) {
		return
	}
	if ep.breaker.Probe(now, ep.policy.Timeout+c.opts.LeaseMargin) {
		ep.stage = probeAsked
		c.storeCircuit(ep)
	}
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
	c.do.circuits = append(c.do.circuits, circuit)
}

// shift moves a circuit's times: stored circuits have times by the store's
// clock.
func shift(circuit postrider.Circuit, by time.Duration) postrider.Circuit {
	for _, at := range []*time.Time{&circuit.OpenedAt, &circuit.ProbeAt, &circuit.FailingSince} {
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
		c.adopt(now, ep, in.circuit)
		return
	case in.err != nil:
		if ep.stage == probeAsked {
			ep.stage = noProbe
		}
		if again {
			c.storeCircuit(ep)
		}
	default:
		ep.breaker.Generation = in.circuit.Generation
		c.generations[ep.id] = in.circuit.Generation
		if ep.stage == probeAsked {
			ep.stage = probeGranted
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
		quiet := postrider.Breaker{Circuit: circuit}
		if ep := c.endpoints[circuit.Endpoint]; ep == nil && quiet.Quiet() {
			continue
		}
		if ep := c.endpoint(circuit.Endpoint); circuit.Generation >= ep.breaker.Generation && !ep.storing {
			c.adopt(now, ep, circuit)
		}
	}
}

// adopt takes over a circuit as it is stored.
func (c *core) adopt(now time.Time, ep *endpoint, circuit postrider.Circuit) {
	c.generations[ep.id] = circuit.Generation
	was := ep.broken()
	ep.breaker = postrider.Breaker{Circuit: shift(circuit, -c.ahead)}
	if ep.stage != probeFlying {
		ep.stage = noProbe
	}
	if was && !ep.broken() {
		ep.silent = false
		ep.window.Restart(ep.limit)
	}
	c.judge(ep)
	c.review(now, ep)
}

// learn takes up what an attempt showed of its endpoint. While this node's own
// network is broken, or it is about to end, silence says nothing.
func (c *core) learn(now time.Time, ep *endpoint, it *item) {
	a := &it.attempt
	if it.probe && ep.stage == probeFlying {
		ep.stage = noProbe
	}
	silent := isSilence(a.Outcome)
	if silent || isAnswer(a.Outcome) {
		c.network.note(ep.host, silent, now)
	}
	if silent && (c.draining || c.networkBroken(now)) {
		return
	}
	if ep.policy.AdaptiveTimeout {
		ep.patience.Record(a.Outcome)
	}
	was := ep.broken()
	changed := ep.breaker.Record(a.Outcome, it.probe, now, ep.policy.Circuit)
	ep.silent = ep.breaker.Failures() > 0 && (silent || ep.silent)
	switch {
	case a.Outcome == postrider.OutcomeAccepted:
		ep.window.Accepted(ep.limit)
	case a.Outcome == postrider.OutcomeThrottled, a.StatusCode == http.StatusServiceUnavailable:
		if pause := ep.window.Throttled(ep.limit, now); pause > 0 && a.RetryAfter == 0 {
			ep.pacedUntil = later(ep.pacedUntil, now.Add(pause))
		}
	}
	if was && !ep.broken() {
		ep.window.Restart(ep.limit)
	}
	if changed {
		c.storeCircuit(ep)
	}
	c.judge(ep)
}

// judge counts an endpoint among those in trouble, or no more: those whose
// circuit is not closed, or was not long ago, and those that did not answer
// last. Together they get a tenth of the slots.
func (c *core) judge(ep *endpoint) {
	is := ep.broken() || ep.breaker.Cooldown > 0 || ep.silent
	if is == ep.suspect {
		return
	}
	ep.suspect = is
	if is {
		c.suspected += ep.inFlight
		return
	}
	c.suspected -= ep.inFlight
	if c.suspects.remove(ep) {
		c.line(ep) // among the others, who do not wait for the dead
	}
}

// isSilence reports whether an attempt ended without an answer.
func isSilence(o postrider.Outcome) bool {
	return o == postrider.OutcomeUnreachable || o == postrider.OutcomeTimedOut || o == postrider.OutcomeBroken
}

// rested reports whether the endpoint's rate allows an attempt now, and
// reserves it. If not, nothing starts until it does.
func (c *core) rested(now time.Time, ep *endpoint) bool {
	if ep.policy.Rate.Attempts == 0 {
		return true
	}
	if ep.limiter == nil {
		ep.limiter = newLimiter(ep.policy.Rate)
		if c.shards.isNew(ep.shard, now.Add(-ep.policy.Rate.Per)) {
			ep.limiter.AllowN(now, ep.limiter.Burst()) // who served it before may have spent it
		}
	}
	reserved := ep.limiter.ReserveN(now, 1)
	wait := reserved.DelayFrom(now)
	if wait == 0 {
		return true
	}
	reserved.CancelAt(now)
	ep.restUntil = now.Add(wait)
	return false
}

// isAnswer reports whether an attempt brought an answer of the receiver.
func isAnswer(o postrider.Outcome) bool {
	return o == postrider.OutcomeAccepted || o == postrider.OutcomeRejected ||
		o == postrider.OutcomeThrottled || o == postrider.OutcomeGone
}

// newLimiter lets a tenth of a second's worth go at once.
func newLimiter(r postrider.Rate) *rate.Limiter {
	return rate.NewLimiter(perSecond(r), max(1, int(perSecond(r)/10)))
}

func perSecond(r postrider.Rate) rate.Limit { return rate.Limit(float64(r.Attempts) / r.Per.Seconds()) }

// host is what all endpoints at one name share, whoever owns them: nobody uses
// this node as a cannon.
type host struct {
	name       string
	endpoints  int  // that are in memory
	inFlight   int  // attempts
	full       bool // it had no slot for one that waits
	waiting    ring // endpoints that could start something
	answeredAt time.Time
	silentAt   time.Time
}

// hostOf returns the name in a canonical URL.
func hostOf(url string) string {
	_, rest, _ := strings.Cut(url, "://")
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		rest = rest[:i]
	}
	if i := strings.LastIndexByte(rest, ':'); i > strings.LastIndexByte(rest, ']') {
		rest = rest[:i]
	}
	return rest
}

// moveTo makes the endpoint one of the host.
func (c *core) moveTo(ep *endpoint, name string) {
	if ep.host != nil && ep.host.name == name {
		return
	}
	ep.leaveHost()
	h := c.hosts[name]
	if h == nil {
		h = &host{name: strings.Clone(name)}
		c.hosts[h.name] = h
	}
	h.endpoints++
	h.inFlight += ep.inFlight
	ep.host = h
}

func (ep *endpoint) leaveHost() {
	if ep.host == nil {
		return
	}
	ep.host.endpoints--
	ep.host.inFlight -= ep.inFlight
	if ep.host.waiting.remove(ep) {
		ep.startable = false
	}
	ep.host = nil
}

// network tells the trouble of many hosts at once from our own.
type network struct {
	broken bool
	looked time.Time
}

// How long an answer, and silence, which comes late, say something of the
// network.
const (
	answerCounts  = 3 * time.Second
	silenceCounts = 10 * time.Second
)

func (n *network) note(h *host, silent bool, now time.Time) {
	if silent {
		h.silentAt = now
	} else {
		h.answeredAt = now
	}
}

// networkBroken reports whether it is rather this node than its receivers: five
// hosts or more are silent, and fewer than five, and at most one in five, have
// answered lately.
func (c *core) networkBroken(now time.Time) bool {
	if now.Sub(c.network.looked) < 100*time.Millisecond {
		return c.network.broken
	}
	c.network.looked = now
	answering, silent := 0, 0
	for name, h := range c.hosts {
		switch {
		case now.Sub(h.answeredAt) < answerCounts:
			answering++
		case now.Sub(h.silentAt) < silenceCounts:
			silent++
		case h.endpoints == 0:
			delete(c.hosts, name)
		}
	}
	c.network.broken = silent >= 5 && answering < 5 && answering*4 <= silent
	return c.network.broken
}
