package schedule

import "time"

// class says with which other endpoints an endpoint shares slots. Each class has its own slots, so
// endpoints that hang take no slots from endpoints that respond. [Core.updateClass] sets the class.
type class int

// The classes, from the best to the worst.
const (
	// Responded within the last second, or within less while the slots of prompt endpoints are
	// scarce.
	prompt     class = iota
	proven           // its last response is older, and accepted the event
	unproven         // it is new to this node, or its last response did not accept the event
	slow             // attempts in flight have had no response for slowAfter, or it usually takes that long
	failedOnce       // exactly one failure in a row, and it got no response
	// Two or more failures in a row, at least one without a response, or its circuit closed
	// recently.
	unreliable
	circuitOpen // its circuit is open or half open: only its probe is sent
	classes
)

// slowAfter is the time to respond after which an endpoint is slow.
const slowAfter = time.Second / 4

// degraded reports whether the last attempts of the endpoint got no response.
func (of class) degraded() bool { return of == failedOnce || of == unreliable }

// slots counts the node's capacity in use.
//
// Its unit is credit. Each delivery has one unit of credit while the claim under way asks for it,
// or it is admitted but not committed, prefetched (leased and not started), or in flight. Admit or
// a claim reserves the credit. It is free again when the attempt has ended or the lease is
// released. So
//
//	credit - inFlight  deliveries are leased and have not started, at most limit
//	credit             leases of this node end as lost attempts if it dies now. Attempts
//	                   that have ended and are not committed (commits) are lost, too
type slots struct {
	shards       *shards
	limit        int // attempts in flight to prompt endpoints
	slowLimit    int // attempts in flight to slow endpoints, and to endpoints that may turn out to be slow
	hostLimit    int // attempts in flight to one host
	creditFactor int // see Options

	inFlight   int            // attempts whose response is not read yet
	credit     int            // credit of all endpoints
	inFlightOf [classes]int   // by class
	creditOf   [classes]int   // by class
	leased     [laneCount]int // for each lane: deliveries asked for, admitted or prefetched
}

// addCredit reserves n credit for the endpoint, or returns it if n is negative.
func (s *slots) addCredit(ep *endpoint, n int) {
	ep.credit += n
	s.shards.busy[ep.shard] += n
	s.creditOf[ep.class] += n
	s.credit += n
}

// addInFlight counts an attempt that starts (1) or has ended (-1).
func (s *slots) addInFlight(ep *endpoint, n int) {
	ep.inFlight += n
	s.inFlight += n
	ep.host.inFlight += n
	s.inFlightOf[ep.class] += n
}

// reclass moves an endpoint, with the slots and credit that it uses, to another class.
func (s *slots) reclass(ep *endpoint, to class) {
	s.inFlightOf[ep.class] -= ep.inFlight
	s.creditOf[ep.class] -= ep.credit
	s.inFlightOf[to] += ep.inFlight
	s.creditOf[to] += ep.credit
	ep.class = to
}

// classLimit returns how many attempts of the class may be in flight. ([circuits] limits probes.)
// Attempts to proven and unproven endpoints may turn out to be slow, so they count as slow, too.
// They leave some of these slots to the better classes and to slow endpoints that do respond.
//
// Example: 10,000 new endpoints hang. With the defaults 1,024 of them get a slot as unproven. After
// a quarter of a second they are slow and 1,024 others start, until 3,072 are in flight. Proven
// endpoints still have 512 slots, and prompt ones 1,024.
func (s *slots) classLimit(of class) int {
	switch of {
	case proven:
		return min(s.limit, s.slowLimit-s.limit/2-s.inFlightOf[slow])
	case unproven:
		return min(s.limit, s.slowLimit-s.limit-s.inFlightOf[slow])
	case slow:
		return s.slowLimit
	case failedOnce, unreliable:
		return max(1, s.limit/10)
	case prompt, circuitOpen, classes:
	}
	return s.limit
}

// hasSlot reports whether the class may have one more attempt in flight.
func (s *slots) hasSlot(of class) bool {
	return s.inFlightOf[of] < s.classLimit(of) && s.inFlight < s.limit+s.slowLimit
}

// leasable returns how many more deliveries the class may lease. Other limits are not checked here.
// All classes except prompt and circuitOpen lease no more than they can start: otherwise they would
// lease and release the same deliveries all the time.
func (s *slots) leasable(of class) int {
	if of == prompt || of == circuitOpen {
		return s.limit
	}
	return s.classLimit(of) - s.creditOf[of]
}

// promptWithin returns how old the last response of a prompt endpoint may be: a second while half
// of their slots are free, and less the fewer are free. So if some endpoints begin to hang at one
// moment, they cannot take the last of these slots, because other endpoints have responded more
// recently.
func (s *slots) promptWithin() time.Duration {
	free := float64(s.limit-s.inFlightOf[prompt]) / float64(s.limit)
	return min(time.Second, time.Duration(2*free*float64(time.Second)))
}

// prefetchFree returns how many more deliveries the node may lease before they start. There is at
// most one for each slot. When a node dies, every delivery that it leased counts as an attempt that
// may have been made; so at most one for each slot was not made.
func (s *slots) prefetchFree() int { return s.limit - (s.credit - s.inFlight) }

// mustRespond reports whether an endpoint must respond before it gets more than one slot. It must
// if it has not responded for a second, and either the slots for unresponsive endpoints or the
// slots of its host are scarce. So each endpoint that begins to hang has one attempt in flight, not as many
// as its limit.
func (s *slots) mustRespond(now time.Time, ep *endpoint) bool {
	scarce := s.scarce() || ep.host != nil && ep.host.inFlight > s.hostLimit/2
	return scarce && ep.class <= slow && now.Sub(ep.respondedAt) > time.Second
}

// scarce reports whether more than a quarter of limit attempts wait for endpoints that have not
// responded recently.
func (s *slots) scarce() bool {
	return s.inFlightOf[proven]+s.inFlightOf[unproven]+s.inFlightOf[slow] > s.limit/4
}

// unanswered reports whether the endpoint already has the one slot that it gets before it responds.
func (s *slots) unanswered(now time.Time, ep *endpoint) bool {
	return ep.inFlight > 0 && s.mustRespond(now, ep)
}

// ready has the endpoints that can start a delivery at once, in a queue for each class.
type ready struct {
	slots  *slots
	queues [classes]queue
}

// enqueue appends an endpoint to the queue of its class. An endpoint with a prefetched suspect goes
// to the front, because a suspect is claimed to start at once.
func (r *ready) enqueue(ep *endpoint) {
	if ep.class <= slow && len(ep.prefetched[suspectLane]) > 0 {
		r.queues[ep.class].pushFront(ep)
		return
	}
	r.queues[ep.class].push(ep)
}

// next removes and returns the endpoint that starts next; nil: none can. Classes with few slots
// come first. While results wait for their commits, these classes would never start if they came
// after the others, and the others hardly notice them.
func (r *ready) next() *endpoint {
	for _, of := range [...]class{failedOnce, unreliable, circuitOpen, slow, unproven, proven, prompt} {
		if !r.slots.hasSlot(of) {
			continue
		}
		if ep := r.queues[of].pop(); ep != nil {
			return ep
		}
	}
	return nil
}
