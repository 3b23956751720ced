package schedule

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Admission asks whether a new delivery may start as soon as it is committed.
type Admission struct {
	Endpoint postrider.EndpointID
	Lane     postrider.Lane
}

// Grant is the response to a list of admissions. Every Grant with a token must be
// ended by one [DeliveriesCommitted], whether or not the commit succeeds: the credit that it
// took is returned only by that. The dispatcher's Admit calls the commit itself, so
// that no caller can forget it.
type Grant struct {
	Token  postrider.Token // of all admitted deliveries; zero: none was admitted
	Leases []time.Duration // of each admission; zero: it must wait in the queue. nil: all must
}

// Lease returns the lease of an admission; zero: it was not admitted.
func (g Grant) Lease(i int) time.Duration {
	if g.Leases == nil {
		return 0
	}
	return g.Leases[i]
}

// DeliveriesCommitted says that a commit of new deliveries is over, whether or not it
// succeeded.
type DeliveriesCommitted struct {
	Token   postrider.Token     // of the Grant; zero: none was admitted
	Started []postrider.Claimed // the admitted deliveries that were committed; those that are missing were not
	Waiting []store.DueLane     // committed deliveries that wait in the queue
}

// admissions are the grants whose commits are under way.
type admissions struct {
	token    postrider.Token // the last one that was used, by a grant or a claim
	underWay map[postrider.Token]admission
}

// admission is one of them. It lives from Admit to [DeliveriesCommitted].
type admission struct {
	asked    time.Time   // the leases begin later, with the commit
	admitted []Admission // each has taken one credit
}

// nextToken returns a token that no other lease has: the node's incarnation and a count.
func (a *admissions) nextToken() postrider.Token {
	a.token++
	return a.token
}

// Admit grants leases to new deliveries before they are committed, so that they can
// start without a claim. An admitted delivery costs the store half of what a claimed
// one does: its row is written once under its lease instead of twice.
//
// The life of an admission:
//
//	Admit                  one credit is reserved for each delivery that gets a lease
//	the commit             ingest stores the rows, those with a lease under it
//	[DeliveriesCommitted]  all credit of the grant is freed, and reserved again for the
//	                       deliveries that were committed, which start like claimed ones
//
// In between, the core cannot drain and the shards of the endpoints are busy. The
// leases are counted from Admit on, though they begin with the commit: a node that
// believes in a lease for too short a time sends nothing twice.
//
// Example: an endpoint with a limit of 10 has a credit limit of 20. Of 25 new
// deliveries 20 are admitted, and 10 of these start with the commit. The other 5
// wait in the queue; the next claim brings them when half of the credit is free.
// Meanwhile new ones may be admitted past them, for at most 4 times
// MaxBatchDelay: see mayAdmit.
//
// Endpoints that the core [Core.Needs] are introduced before.
func (c *Core) Admit(now time.Time, ask []Admission) Grant {
	if c.draining || c.shards.lapsed(now) {
		return Grant{}
	}
	var g Grant
	var admitted []Admission
	for i, a := range ask {
		if c.slots.prefetchFree() <= 0 || c.commits.unsettled >= c.opts.MaxUnsettled {
			break
		}
		ep, l := c.owned(a.Endpoint), laneIndex(a.Lane)
		if ep == nil || !c.mayAdmit(now, ep, l) {
			continue
		}
		if g.Leases == nil {
			g.Token, g.Leases = c.admissions.nextToken(), make([]time.Duration, len(ask))
			admitted = make([]Admission, 0, len(ask)-i)
		}
		g.Leases[i] = ep.nextLease(c.opts.LeaseMargin)
		c.prefetch.reserve(now, ep, l, 1)
		admitted = append(admitted, a)
	}
	if g.Token != 0 {
		c.admissions.underWay[g.Token] = admission{now, admitted}
	}
	return g
}

// mayAdmit reports whether a new delivery may start before it was ever queued:
//
//   - Its endpoint may be sent to, is not degraded, its class may lease more, and its rate does not block it
//     for more than a second.
//   - It does not overtake deliveries of its lane that have waited for longer than a
//     claim and the delay before it take: overtaking those would starve them.
//   - There is credit, of the endpoint and of the node. No endpoint has more
//     leases that have not started than the node has left.
//   - Bulk starts soon at its present rate.
//   - Not too many leases are stuck already, if it would be stuck, too.
func (c *Core) mayAdmit(now time.Time, ep *endpoint, l int) bool {
	c.updateClass(now, ep)
	lane := &ep.lanes[l]
	switch {
	case c.shards.gated(now, ep), ep.class > slow, c.slots.leasable(ep.class) <= 0, ep.rateBlocks(now):
		return false
	case (ep.asked[l] > 0 || lane.occupied) && now.Sub(lane.dueAt) > 4*MaxBatchDelay:
		return false
	case ep.credit >= c.slots.creditLimit(now, ep), ep.credit-ep.inFlight >= c.slots.prefetchFree():
		return false
	case l == bulkLane && !c.bulk.mayPrefetch(now, ep):
		return false
	}
	return c.prefetch.allows(now, ep)
}

// apply ends the admission: all of its credit is returned, and each committed
// delivery takes one again. So deliveries that were not committed, because the
// commit failed, was a duplicate or panicked, leave nothing behind.
func (in DeliveriesCommitted) apply(c *Core, now time.Time) {
	a := c.admissions.underWay[in.Token]
	delete(c.admissions.underWay, in.Token)
	for _, d := range a.admitted {
		c.prefetch.free(c.endpoints[d.Endpoint], laneIndex(d.Lane), 1) // it is in memory: it has credit
	}
	for _, cl := range in.Started {
		ep := c.endpoints[cl.Endpoint]
		c.prefetch.reserve(now, ep, laneIndex(cl.Lane), 1)
		c.keep(now, ep, &Delivery{Claimed: cl, leasedUntil: a.asked.Add(ep.lease)})
	}
	if len(in.Started) < len(a.admitted) {
		for _, d := range a.admitted {
			c.review(now, c.endpoints[d.Endpoint])
		}
	}
	for _, d := range in.Waiting {
		ep := c.owned(d.Endpoint)
		if ep == nil {
			if d.In < c.opts.Poll { // otherwise its node will have polled
				c.actions.Notify = append(c.actions.Notify, d)
			}
			continue
		}
		if d.In <= 0 && d.Lane == postrider.LaneFirst && !c.shards.gated(now, ep) {
			ep.backlog++ // bulk has a rate limit instead
		}
		c.noteLane(now, d)
	}
}

// noteLane notes that a row of a lane is due, or will be, and reviews its endpoint.
func (c *Core) noteLane(now time.Time, d store.DueLane) {
	if ep := c.owned(d.Endpoint); ep != nil {
		c.noteDue(ep, laneIndex(d.Lane), now.Add(d.In))
		c.review(now, ep)
	}
}

// apply notes the lanes of this node's endpoints. A scan of the whole queue (not New) also
// resets where claims begin: it may have found a row that is older than those
// claimed last, such as one whose lease ended. A suspect that was not known before
// comes from a node that died, so the rounds begin again.
func (in LanesDue) apply(c *Core, now time.Time) {
	for _, d := range in.Lanes {
		ep := c.owned(d.Endpoint)
		if ep == nil {
			continue
		}
		l := laneIndex(d.Lane)
		if !in.New {
			ep.lanes[l].low = time.Time{} // the row may be older than those that were claimed
		}
		if l == suspectLane && d.In <= 0 && ep.settings != nil && !ep.lanes[l].occupied && ep.asked[l] == 0 {
			c.suspects.restart()
		}
		c.noteLane(now, d)
	}
}
