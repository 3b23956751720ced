package schedule

import "time"

// class says with which other endpoints an endpoint shares slots. An endpoint that
// does not respond holds a slot for its whole timeout. So endpoints that may be
// down share few of the node's slots, and an endpoint that failed once, perhaps
// by chance, does not wait behind those that keep failing.
type class int

// The classes, from the best to the worst. [Core.updateDegraded] sets them after
// each attempt and each change of the circuit.
const (
	healthy     class = iota // each failure since it last succeeded got a response: any slot
	failedOnce               // one failure in a row, which got no response: shares a tenth of the slots
	unreliable               // two or more failures in a row, at least one without a response, or its circuit closed lately: shares another tenth
	circuitOpen              // its circuit is not closed: nothing but its probe
	classes
)

// degraded reports whether the class has a share of the slots of its own.
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
	shards    *shards
	limit     int // attempts in flight
	hostLimit int // attempts in flight to one host

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

// classLimit is how many slots a degraded class may use: a tenth of the node's.
func (s *slots) classLimit() int { return max(1, s.limit/10) }

// hasSlot reports whether the class may have one more attempt in flight.
func (s *slots) hasSlot(of class) bool { return !of.degraded() || s.inFlightOf[of] < s.classLimit() }

// leasable returns how many more deliveries the class may lease, as far as it is up to the
// class. A degraded one leases no more than it can start: otherwise it would lease and
// release the same deliveries all the time.
func (s *slots) leasable(of class) int {
	if !of.degraded() {
		return s.limit
	}
	return s.classLimit() - s.creditOf[of]
}

// prefetchFree returns how many more deliveries the node may lease before they
// start. There is at most one for each slot: when a node dies, every delivery that
// it leased counts as an attempt that may have been made, and at most one for
// each slot was not.
func (s *slots) prefetchFree() int { return s.limit - (s.credit - s.inFlight) }

// unproven reports whether an endpoint has to respond before it gets another
// slot: more than half of the slots, the node's or its host's, are in use, it has
// some of them, and has not responded for a second. It bounds how many slots endpoints that
// begin to hang use before their first timeout shows it.
func (s *slots) unproven(now time.Time, ep *endpoint) bool {
	scarce := s.inFlight > s.limit/2 || ep.host.inFlight > s.hostLimit/2
	return scarce && ep.inFlight > 0 && now.Sub(ep.respondedAt) > time.Second
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
	if ep.class == healthy && len(ep.prefetched[suspectLane]) > 0 {
		r.queues[healthy].pushFront(ep)
		return
	}
	r.queues[ep.class].push(ep)
}

// next removes and returns the endpoint that starts next; nil: none can. Degraded classes
// come first while they use less than their share. It is small, so that the healthy ones
// hardly notice it, and behind them a degraded class would never start on a busy node.
func (r *ready) next() *endpoint {
	for _, of := range [...]class{failedOnce, unreliable, circuitOpen, healthy} {
		if !r.slots.hasSlot(of) {
			continue
		}
		if ep := r.queues[of].pop(); ep != nil {
			return ep
		}
	}
	return nil
}
