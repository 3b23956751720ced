package schedule

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// claims makes the claims. One claim is under way at a time, for up to maxWants
// endpoints and lanes: the next one asks for what became due meanwhile. So the store
// sees one statement at a time from each node, and larger ones the busier it is,
// instead of one for each endpoint.
//
// A claim asks for a number of deliveries of each lane and takes credit for them.
// When it returns, the credit of what it did not bring is free again. An error
// frees all of it, though the store may have leased deliveries whose reply was
// lost: those leases end, and a later claim takes them over.
//
//	 0 ms  a claim for 40 endpoints is sent
//	 4 ms  it returns; 12 endpoints have something due by now
//	16 ms  batchUntil (3 × 4 ms later): the next claim asks for these, and for those
//	       that joined them. With 128 endpoints waiting it would have been sent at 4 ms
type claims struct {
	core       *Core
	waiting    [classes]queue // by class: endpoints with something due and free credit
	turn       class          // whose endpoint was claimed for last
	underWay   bool           // from the action until [ClaimReturned]
	batchUntil time.Time      // a claim waits until then, so that it asks for more at once; set by ClaimReturned
	retryAt    time.Time      // no claim before: the last ones failed; zero: the last one did not
	errors     int            // claims in a row that failed
}

// maxWants is how many endpoints and lanes one claim asks for at most: what one
// statement looks up within milliseconds.
const maxWants = 256

// maxAsked is how many deliveries one claim asks for of one endpoint, so that a
// claim stays short.
const maxAsked = 160

// BatchDelay returns how long to wait between a claim or a group of settlements that
// took so long and the next one. A large one costs the store little more than a small
// one, so a busy store gets fewer and larger ones.
func BatchDelay(took time.Duration) time.Duration { return min(3*took, MaxBatchDelay) }

// MaxBatchDelay is the most that [BatchDelay] returns.
const MaxBatchDelay = 25 * time.Millisecond

// nextAt returns the earliest time of the next claim. A claim that would be large
// at once does not wait for more.
func (cl *claims) nextAt() time.Time {
	if cl.ready() < maxWants/2 {
		return later(cl.batchUntil, cl.retryAt)
	}
	return cl.retryAt
}

// backOff waits 0.1 s after a claim that failed, and twice as long after each
// further one, up to 5 s.
func (cl *claims) backOff(now time.Time, err error) {
	if err == nil {
		cl.errors, cl.retryAt = 0, time.Time{}
		return
	}
	cl.retryAt = now.Add(min(100*time.Millisecond<<min(cl.errors, 10), 5*time.Second))
	cl.errors++
}

// claim asks for what is due at the endpoints that wait for a claim, those that have
// waited longest first. What was true when an endpoint was enqueued may not be any more,
// so it is checked again; review then enqueues it where it belongs now.
//
// Nothing is claimed while results wait for their commit for a third of the lease
// margin: the leases of their deliveries may end before they are committed, and this node
// would take over from itself and send again what was accepted.
func (cl *claims) claim(now time.Time) {
	c := cl.core
	if cl.underWay || c.draining || c.commits.late(now, c.opts.LeaseMargin/3) || c.shards.lapsed(now) || now.Before(cl.nextAt()) {
		return
	}
	claim := &store.Claim{Token: c.admissions.nextToken()}
	for tried := 0; tried < 2*maxWants && len(claim.Wants)+laneCount <= maxWants && c.slots.prefetchFree() > 0; tried++ {
		q := cl.next()
		if q == nil {
			break
		}
		ep := q.pop()
		if !c.shards.gated(now, ep) && cl.queueOf(now, ep) == q {
			claim.Wants = append(claim.Wants, cl.wants(now, ep)...)
		}
		c.review(now, ep)
	}
	if len(claim.Wants) > 0 {
		cl.underWay = true
		c.actions.Claim = claim
	}
}

// next returns the queue of the class that is claimed for next: the classes take turns, and one
// that may lease nothing waits. So the thousands that wait for a slot for what does not
// respond delay no claim for the others. nil: no class has something to claim.
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

// enqueue puts an endpoint that is not gated into the queue in which it waits to be
// claimed for. Suspects wait in a queue of their own, also beside other deliveries.
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
//   - that of the claims for its class, if a claim is worth its cost: a lane is due, and half of
//     the endpoint's credit is free or it has nothing prefetched;
//   - the queue of what the node lacks, if it lacks capacity for stuck leases, bulk rate,
//     or slots for more than one attempt without a response;
//   - nil, if nothing is due, or the endpoint itself has to go on first.
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

// mayClaim reports whether the rate allows more leases, and the claim under way asks
// for nothing of the endpoint.
func (ep *endpoint) mayClaim(now time.Time) bool {
	return !ep.rateBlocks(now) && ep.asked == [laneCount]int{}
}

// wants divides the endpoint's free credit among its lanes that are due, as
// laneOrder divides the starts, and reserves it. Suspects go before all others.
func (cl *claims) wants(now time.Time, ep *endpoint) []store.Want {
	c := cl.core
	lease := ep.nextLease(c.opts.LeaseMargin) // before credit is taken
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
			ep.lanes[l].occupied = false // work that is found while the claim is under way sets it again
		}
	}
	return wants
}

// apply keeps what a claim brought, and frees the credit of what it did not bring. The
// reply says of each lane whether more of it waits, and from when on; the lane is due
// then. A scan or a commit that named the lane meanwhile is not overruled by a reply
// that saw less.
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
		if ep.lanes[l].low.Equal(w.After) { // otherwise a scan asked for all of the lane meanwhile
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

// reduceBacklog subtracts the first attempts that a claim took. Where the claim
// found that no more of them are due, the backlog is empty, unless some were
// published while the claim was under way.
func (ep *endpoint) reduceBacklog(l int, state store.LaneState) {
	switch {
	case l != firstLane:
	case (!state.Waiting || state.In > 0) && !ep.lanes[l].occupied:
		ep.backlog = 0
	default:
		ep.backlog = max(0, ep.backlog-state.Claimed)
	}
}
