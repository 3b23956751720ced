package schedule

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// claims makes the claims. Only one claim is under way at a time, for up to maxWants endpoints and
// lanes. The next claim asks for everything that became due in the meantime. So the store gets one
// statement at a time from each node, instead of one for each endpoint. A busy node sends larger
// statements.
//
// A claim asks for a number of deliveries of each lane and reserves credit for them. When it
// returns, the credit of deliveries that it did not return is freed. An error frees all of the
// credit. The store may have leased deliveries whose reply was lost; those leases end, and a later
// claim takes them over.
//
//	 0 ms  a claim for 40 endpoints is sent
//	 4 ms  it returns; meanwhile 12 endpoints have something due
//	16 ms  batchUntil (3 × 4 ms later): the next claim asks for these 12, and for all
//	       that joined them. With 128 endpoints waiting it would have been sent at 4 ms
type claims struct {
	core       *Core
	waiting    [classes]queue // for each class, the endpoints that have something due and free credit
	turn       class          // class whose endpoint was claimed for last
	underWay   bool           // from Actions.Claim until [ClaimReturned]
	batchUntil time.Time      // a claim waits until then, to ask for more at once; set by ClaimReturned
	// retryAt is the earliest time of the next claim after failed claims. Zero: the last claim
	// succeeded.
	retryAt time.Time
	errors  int // failed claims in a row
}

// maxWants is the greatest number of endpoints and lanes of one claim. One statement can look up
// that many within milliseconds.
const maxWants = 256

// maxAsked is the greatest number of deliveries that one claim asks for at one endpoint, so that a
// claim stays short.
const maxAsked = 160

// BatchDelay returns how long to wait after a claim, or a group of settlements, before the next
// one. took is how long that claim or group took. A large one costs the store little more than a
// small one, so a busy store gets fewer and larger ones.
func BatchDelay(took time.Duration) time.Duration { return min(3*took, MaxBatchDelay) }

// MaxBatchDelay is the longest result of [BatchDelay].
const MaxBatchDelay = 25 * time.Millisecond

// nextAt returns the earliest time of the next claim. If the next claim would be large already, it
// does not wait for batchUntil.
func (cl *claims) nextAt() time.Time {
	if cl.ready() < maxWants/2 {
		return later(cl.batchUntil, cl.retryAt)
	}
	return cl.retryAt
}

// backOff delays the next claim after a failed one: by 0.1 s, and twice as long after each further
// failure, up to 5 s.
func (cl *claims) backOff(now time.Time, err error) {
	if err == nil {
		cl.errors, cl.retryAt = 0, time.Time{}
		return
	}
	cl.retryAt = now.Add(min(100*time.Millisecond<<min(cl.errors, 10), 5*time.Second))
	cl.errors++
}

// claim asks for due deliveries of the endpoints that wait for a claim, longest waiting first.
// Conditions may have changed since an endpoint was enqueued, so they are checked again; review
// then puts the endpoint into the queue where it belongs now.
//
// No claim is made while a result has waited for its commit for more than a third of the lease
// margin. The lease of such a delivery may end before its commit. A claim of this node would then
// take over its own lease, and send an accepted delivery again.
func (cl *claims) claim(now time.Time) {
	c := cl.core
	if cl.underWay || c.draining || c.commits.late(now, c.opts.LeaseMargin/3) || c.shards.lapsed(now) || now.Before(cl.nextAt()) {
		return
	}
	var wants []store.Want
	for tried := 0; tried < 2*maxWants && len(wants)+laneCount <= maxWants && c.slots.prefetchFree() > 0; tried++ {
		q := cl.next()
		if q == nil {
			break
		}
		ep := q.pop()
		if !c.shards.gated(now, ep) && cl.queueOf(now, ep) == q {
			wants = append(wants, cl.wants(now, ep)...)
		}
		c.review(now, ep)
	}
	if len(wants) > 0 {
		cl.underWay = true
		c.actions.Claim = &store.Claim{Token: c.admissions.nextToken(), Wants: wants}
	}
}

// next returns the queue of the class for which to claim next. The classes take turns, and a class
// that may lease nothing is passed over. So thousands of endpoints that wait for the slots of
// unresponsive classes delay no claim for the other classes. nil: no class has something to claim.
func (cl *claims) next() *queue {
	for range cl.waiting {
		cl.turn = (cl.turn + 1) % classes
		if q := &cl.waiting[cl.turn]; q.len() > 0 && cl.core.slots.leasable(cl.turn) > 0 {
			return q
		}
	}
	return nil
}

// ready returns for how many endpoints the next claims may ask.
func (cl *claims) ready() (n int) {
	for of := range cl.waiting {
		n += min(cl.waiting[of].len(), max(0, cl.core.slots.leasable(class(of))))
	}
	return n
}

// enqueue puts an endpoint that is not gated into the queue in which it waits to be claimed for. An
// endpoint with suspects also waits in the queue of suspects.
func (cl *claims) enqueue(now time.Time, ep *endpoint) {
	if ep.queued&inClaims != 0 {
		return
	}
	if s := &cl.core.suspects; ep.mayClaim(now) && ep.lanes[suspectLane].isDue(now) && s.claimable(now, ep) == 0 {
		s.waiting.push(ep)
	}
	if q := cl.queueOf(now, ep); q != nil {
		q.push(ep)
	}
}

// queueOf returns the queue in which an endpoint waits to be claimed for:
//
//   - the queue of claims for its class, if a claim is worth its cost: a lane is due, and half of
//     the endpoint's credit is free or it has nothing prefetched;
//   - the queue for a capacity that the node lacks: for stuck leases, for the bulk rate, or for
//     more than one attempt without a response;
//   - nil, if nothing is due, or another event of the endpoint itself must come first.
func (cl *claims) queueOf(now time.Time, ep *endpoint) *queue {
	c := cl.core
	if !ep.mayClaim(now) {
		return nil
	}
	if c.suspects.claimable(now, ep) > 0 {
		return &cl.waiting[ep.class]
	}
	limit := c.slots.creditLimit(now, ep)
	free := limit - ep.credit
	if free <= 0 && c.slots.unanswered(now, ep) {
		return &c.unanswered
	}
	if free <= 0 || (2*free < limit && ep.prefetchedCount() > 0) {
		return nil
	}
	switch due := ep.lanes[firstLane].isDue(now) || ep.lanes[retryLane].isDue(now); {
	case !due && !ep.lanes[bulkLane].isDue(now):
		return nil
	case c.slots.leasable(ep.class) <= 0:
		return &cl.waiting[ep.class]
	case !due && !ep.laneDue(now, bulkLane, &c.bulk):
		return &c.bulk.waiting
	case !c.prefetch.allows(now, ep):
		return &c.prefetch.waiting
	}
	return &cl.waiting[ep.class]
}

// mayClaim reports whether the rate allows more leases and no claim for the endpoint is under way.
func (ep *endpoint) mayClaim(now time.Time) bool {
	return !ep.rateBlocks(now) && ep.asked == [laneCount]int{}
}

// wants divides the endpoint's free credit among its due lanes, in the order in which laneOrder
// divides starts, and reserves it. Suspects come before all others.
func (cl *claims) wants(now time.Time, ep *endpoint) []store.Want {
	c := cl.core
	lease := ep.nextLease(c.opts.LeaseMargin) // computed before credit is reserved
	suspects := c.suspects.claimable(now, ep)
	free := min(
		c.slots.creditLimit(now, ep)-ep.credit-suspects, maxAsked,
		min(c.prefetch.claimLimit(ep, cl.ready()), c.slots.leasable(ep.class))-suspects,
	)
	ep.asked[suspectLane] = suspects
	c.suspects.unclaimed -= suspects
	c.prefetch.reserve(now, ep, suspectLane, suspects)
	for start := ep.starts + 1; free > 0; start++ {
		for _, l := range laneOrder[start%len(laneOrder)] {
			if ep.laneDue(now, l, &c.bulk) {
				ep.asked[l]++
				c.prefetch.reserve(now, ep, l, 1)
				break
			}
		}
		free--
	}
	c.bulk.asked += ep.asked[bulkLane]
	var wants []store.Want
	for l, n := range ep.asked {
		if n > 0 {
			wants = append(wants, store.Want{Endpoint: ep.id, Lane: postrider.Lanes[l], N: n, Lease: lease, After: ep.lanes[l].low})
			ep.lanes[l].occupied = false // a delivery that becomes due while the claim is under way sets it again
		}
	}
	return wants
}

// apply keeps the deliveries that a claim returned, and frees the credit of those that it did not
// return. For each lane the reply says whether more deliveries wait, and from when on; the lane is
// due at that time. If a scan or a commit named the lane in the meantime, the lane stays due even
// if the reply saw no more deliveries.
func (in ClaimReturned) apply(c *Core, now time.Time) {
	c.claims.underWay, c.bulk.asked = false, 0
	c.claims.batchUntil = now.Add(BatchDelay(now.Sub(in.AskedAt)))
	for i, w := range in.Claim.Wants {
		ep, l := c.endpoints[w.Endpoint], laneIndex(w.Lane)
		var state store.LaneState
		if in.Err == nil {
			state = in.Got.Lanes[i]
		}
		ep.asked[l] = 0
		missing := w.N - state.Claimed
		c.prefetch.free(ep, l, missing)
		if l == suspectLane {
			c.suspects.notAttempted(missing)
		}
		if in.Err != nil {
			c.noteDue(ep, l, now)
			continue
		}
		if state.Suspects > 0 {
			c.suspects.restart()
			c.noteDue(ep, suspectLane, now)
		}
		if ep.lanes[l].low.Equal(w.After) { // otherwise a scan has reset low, to ask for the whole lane
			ep.lanes[l].low = state.Low
		}
		ep.reduceBacklog(l, state)
		if state.Waiting {
			c.noteDue(ep, l, now.Add(state.In))
		}
	}
	for _, cl := range in.Got.Items {
		ep := c.endpoints[cl.Endpoint]
		c.keep(now, ep, &Delivery{Claimed: cl, leasedUntil: in.AskedAt.Add(ep.lease)})
	}
	for _, w := range in.Claim.Wants {
		c.review(now, c.endpoints[w.Endpoint])
	}
	c.claims.backOff(now, in.Err)
}

// reduceBacklog subtracts the first attempts that a claim took. If the claim found that no more of
// them are due, the backlog is zero, unless some were published while the claim was under way.
func (ep *endpoint) reduceBacklog(l int, state store.LaneState) {
	switch {
	case l != firstLane:
	case (!state.Waiting || state.In > 0) && !ep.lanes[l].occupied:
		ep.backlog = 0
	default:
		ep.backlog = max(0, ep.backlog-state.Claimed)
	}
}
