package schedule

import "time"

// class says with which other endpoints an endpoint shares slots. Each class has slots of its
// own, so that endpoints which hang take none from those that respond. [Core.updateClass] sets it.
type class int

// The classes, from the best to the worst.
const (
	prompt      class = iota // it responded within the last second, or less while its slots are scarce
	proven                   // its last response is older, and accepted what was sent
	unproven                 // it is new to this node, or its last response accepted nothing
	slow                     // it has not responded for slowAfter to what is in flight, or usually takes that long
	failedOnce               // one failure in a row, which got no response
	unreliable               // two or more failures in a row, at least one without a response, or its circuit closed lately
	circuitOpen              // its circuit is not closed: nothing but its probe
	classes
)

// slowAfter is how long an endpoint may take to respond until it is slow.
const slowAfter = time.Second / 4

// degraded reports whether the last attempts of the endpoint got no response.
func (of class) degraded() bool { return of == failedOnce || of == unreliable }

// slots counts the node's capacity in use.
//
// Credit is the unit of it: one credit for each delivery that is asked for by the
// claim under way, admitted but not committed, prefetched (leased and not
// started) or in flight. Admit or a claim reserves it; it stays with the delivery, and is
// free again when the attempt is over or the lease is released. So
//
//	credit - inFlight  deliveries are leased and have not started, at most limit
//	credit             leases of this node end as lost attempts if it dies now, beside those
//	                   of the attempts that are over and not committed (commits)
type slots struct {
	shards       *shards
	limit        int // attempts in flight to prompt endpoints
	slowLimit    int // attempts in flight to slow endpoints, and to those that may turn out to be slow
	hostLimit    int // attempts in flight to one host
	creditFactor int // see Options

	inFlight   int            // attempts whose response is not read yet
	credit     int            // of all endpoints
	inFlightOf [classes]int   // by class
	creditOf   [classes]int   // by class
	leased     [laneCount]int // by lane: asked for, admitted or prefetched
}

// addCredit takes n credit for the endpoint, or returns it.
func (s *slots) addCredit(ep *endpoint, n int) {
	ep.credit += n
	s.shards.busy[ep.shard] += n
	s.creditOf[ep.class] += n
	s.credit += n
}

// addInFlight counts an attempt that starts, or with -1 one that is over.
func (s *slots) addInFlight(ep *endpoint, n int) {
	ep.inFlight += n
	s.inFlight += n
	ep.host.inFlight += n
	s.inFlightOf[ep.class] += n
}

// reclass moves an endpoint, with what it uses, to another class.
func (s *slots) reclass(ep *endpoint, to class) {
	s.inFlightOf[ep.class] -= ep.inFlight
	s.creditOf[ep.class] -= ep.credit
	s.inFlightOf[to] += ep.inFlight
	s.creditOf[to] += ep.credit
	ep.class = to
}

// classLimit returns how many attempts of the class may be in flight; [circuits] limits probes.
// Those of proven and unproven endpoints may turn out to be slow, so they count as slow, too, and
// leave some of these slots to the classes above and to those who are slow and do respond.
//
// Example: 10,000 new endpoints hang. With the defaults 1,024 of them get a slot as unproven ones,
// and after a quarter of a second they are slow and 1,024 others start, until 3,072 are in flight. Proven
// ones still have 512, and prompt ones 1,024.
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

// leasable returns how many more deliveries the class may lease, as far as it is up to the
// class. All but prompt endpoints lease no more than they can start: otherwise they would
// lease and release the same deliveries all the time.
func (s *slots) leasable(of class) int {
	if of == prompt || of == circuitOpen {
		return s.limit
	}
	return s.classLimit(of) - s.creditOf[of]
}

// promptWithin returns how long ago the last response of a prompt endpoint may be: a second
// while half of their slots are free, and less the fewer are. So endpoints that hang from
// one moment on cannot take the last of these slots, since others have responded later.
func (s *slots) promptWithin() time.Duration {
	free := float64(s.limit-s.inFlightOf[prompt]) / float64(s.limit)
	return min(time.Second, time.Duration(2*free*float64(time.Second)))
}

// prefetchFree returns how many more deliveries the node may lease before they
// start. There is at most one for each slot: when a node dies, every delivery that
// it leased counts as an attempt that may have been made, and at most one for
// each slot was not.
func (s *slots) prefetchFree() int { return s.limit - (s.credit - s.inFlight) }

// mustRespond reports whether an endpoint has to respond before it gets more than one slot:
// slots for what does not respond, or its host's, are scarce, and it has not responded for a
// second. So endpoints that begin to hang have one attempt in flight each, not all that they may have.
func (s *slots) mustRespond(now time.Time, ep *endpoint) bool {
	scarce := s.scarce() || ep.host != nil && ep.host.inFlight > s.hostLimit/2
	return scarce && ep.class <= slow && now.Sub(ep.respondedAt) > time.Second
}

// scarce reports whether so many attempts wait for endpoints that have not responded lately.
func (s *slots) scarce() bool {
	return s.inFlightOf[proven]+s.inFlightOf[unproven]+s.inFlightOf[slow] > s.limit/4
}

// unanswered reports whether the endpoint has the one slot that it gets before it responds.
func (s *slots) unanswered(now time.Time, ep *endpoint) bool {
	return ep.inFlight > 0 && s.mustRespond(now, ep)
}

// ready is the endpoints that can start a delivery at once, in a queue for each
// class.
type ready struct {
	slots  *slots
	queues [classes]queue
}

// enqueue appends an endpoint to the queue of its class. One with a suspect goes
// first: its suspect was claimed in order to start at once.
func (r *ready) enqueue(ep *endpoint) {
	if ep.class <= slow && len(ep.prefetched[suspectLane]) > 0 {
		r.queues[ep.class].pushFront(ep)
		return
	}
	r.queues[ep.class].push(ep)
}

// next removes and returns the endpoint that starts next; nil: none can. Classes with few
// slots come first: while results wait for their commits, they would never start
// behind the others, and the others hardly notice them.
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
