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

// Grant is the response to a list of admissions. Every Grant with a token must be followed by one
// [DeliveriesCommitted], whether or not the commit succeeds, because only that returns the credit
// of the Grant. The dispatcher's Admit calls the commit itself, so no caller can forget it.
type Grant struct {
	Token  postrider.Token // token of all deliveries that this node admitted; zero: none was admitted
	Leases []Lease         // lease of each admission; zero: the delivery must wait in the queue. nil: all must wait
}

// Lease is the lease of a new delivery.
type Lease struct {
	Token postrider.Token // the Token of the Grant, or that of a session of the endpoint's node; see [Handed]
	For   time.Duration
}

// Lease returns the lease of admission i; zero: the delivery must wait.
func (g Grant) Lease(i int) Lease {
	if g.Leases == nil {
		return Lease{}
	}
	return g.Leases[i]
}

// DeliveriesCommitted says that a commit of new deliveries has ended, whether or not it succeeded.
type DeliveriesCommitted struct {
	Token   postrider.Token     // token of the Grant; zero: none was admitted
	Started []postrider.Claimed // the admitted deliveries that were committed; other admitted deliveries were not
	Waiting []store.DueLane     // lanes of committed deliveries that wait in the queue
}

// admissions are the grants whose commits are under way.
type admissions struct {
	token    postrider.Token // the last token that a grant or a claim got
	underWay map[postrider.Token]admission
}

// admission is one grant whose commit is under way. It lives from Admit to [DeliveriesCommitted].
type admission struct {
	asked    time.Time   // when Admit was called; the leases begin later, with the commit
	admitted []Admission // each holds one unit of credit
}

// nextToken returns a token that no other lease has: the node's incarnation followed by a counter of
// 32 bits. The counter begins again when it is full, after months. The leases of its first tokens have
// ended long before, and a counter that went on would be another node's incarnation.
func (a *admissions) nextToken() postrider.Token {
	const counter = 1<<32 - 1
	a.token = a.token&^counter | (a.token+1)&counter
	return a.token
}

// HasRoom reports whether a commit of n new deliveries should be admitted now, and not wait. It is
// false while the processors are saturated and too many leased deliveries of prompt endpoints have
// not started. These and the n may be three eighths of the slots together. So a small commit does not
// wait, and one of three eighths waits until all of them have started. Then its own deliveries can be
// admitted, even if all go to one host.
func (c *Core) HasRoom(now time.Time, n int) bool {
	most := c.slots.limit * 3 / 8
	unstarted := c.slots.creditOf[prompt] - c.slots.inFlightOf[prompt]
	return !c.load.Saturated || unstarted+min(n, most) <= most || c.draining || c.shards.lapsed(now)
}

// Admit grants leases to new deliveries before they are committed, so that they can start without a
// claim. An admitted delivery costs the store half of what a claimed one costs, because its row is
// written once, with its lease, instead of twice.
//
// The life of an admission:
//
//	Admit                  reserves one unit of credit for each delivery that gets a lease
//	the commit             ingest stores the rows, those with a lease under that lease
//	[DeliveriesCommitted]  returns all credit of the grant, and reserves it again for the
//	                       deliveries that were committed, which start like claimed ones
//
// Until DeliveriesCommitted, the core cannot drain, and the shards of the endpoints are busy. The
// core counts the leases from Admit on, although they begin with the commit. So it assumes that a
// lease ends too early, never too late, and sends nothing twice.
//
// Example: an endpoint with a limit of 10 has a credit limit of 20. Of 25 new deliveries 20 are
// admitted, and 10 of these start with the commit. The other 5 wait in the queue. The next claim
// leases them when half of the credit is free. Until then newer deliveries may be admitted before
// them, for at most 4 times MaxBatchDelay: see mayAdmit.
//
// The caller introduces endpoints that the core [Core.Needs] before.
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
			g.Token, g.Leases = c.admissions.nextToken(), make([]Lease, len(ask))
			admitted = make([]Admission, 0, len(ask)-i)
		}
		g.Leases[i] = Lease{g.Token, ep.nextLease(c.opts.LeaseMargin)}
		c.prefetch.reserve(now, ep, l, 1)
		admitted = append(admitted, a)
	}
	if g.Token != 0 {
		c.admissions.underWay[g.Token] = admission{now, admitted}
	}
	return g
}

// mayAdmit reports whether a new delivery may start without waiting in the queue. All of these must
// be true:
//
//   - Its endpoint may be sent to, is not degraded, its class may lease more, and its rate does not
//     block it for more than a second.
//   - No delivery of its lane has waited for longer than 4 times MaxBatchDelay. Otherwise new
//     deliveries would overtake the waiting ones again and again, and starve them.
//   - The endpoint and the node have credit. No endpoint may have more leases that have not started
//     than the node can still prefetch.
//   - A bulk delivery would start soon at the present bulk rate.
//   - If the lease would be stuck, the node has room for more stuck leases (see prefetch).
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

// apply ends the admission. It returns all credit of the grant, and reserves one unit again for
// each committed delivery. So a delivery that was not committed leaves nothing behind, whether its
// commit failed, panicked or found a duplicate.
func (in DeliveriesCommitted) apply(c *Core, now time.Time) {
	a := c.admissions.underWay[in.Token]
	delete(c.admissions.underWay, in.Token)
	for _, d := range a.admitted {
		// The endpoint is in memory because it has credit.
		c.prefetch.free(c.endpoints[d.Endpoint], laneIndex(d.Lane), 1)
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
			if d.In < c.opts.Poll { // otherwise its node polls before the delivery is due
				c.actions.Notify = append(c.actions.Notify, d)
			}
			continue
		}
		if d.In <= 0 && d.Lane == postrider.LaneFirst && !c.shards.gated(now, ep) {
			ep.backlog++ // bulk does not count, because it has its own rate limit
		}
		c.noteLane(now, d)
	}
}

// noteLane records that a row of a lane is due or will be, and reviews the endpoint.
func (c *Core) noteLane(now time.Time, d store.DueLane) {
	if ep := c.owned(d.Endpoint); ep != nil {
		c.noteDue(ep, laneIndex(d.Lane), now.Add(d.In))
		c.review(now, ep)
	}
}

// apply records the lanes of this node's endpoints. A scan of the whole queue (not New) may have
// found a row that is older than the rows claimed last, such as one whose lease ended. So it also
// resets the position at which claims begin. A suspect that was not known before comes from a node
// that died, so the rounds of suspects begin again.
func (in LanesDue) apply(c *Core, now time.Time) {
	for _, d := range in.Lanes {
		ep := c.owned(d.Endpoint)
		if ep == nil {
			continue
		}
		l := laneIndex(d.Lane)
		if !in.New {
			ep.lanes[l].low = time.Time{} // the row may be older than the rows that were claimed
		}
		if l == suspectLane && d.In <= 0 && ep.settings != nil && !ep.lanes[l].occupied && ep.asked[l] == 0 {
			c.suspects.restart()
		}
		c.noteLane(now, d)
	}
}
