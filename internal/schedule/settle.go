package schedule

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// commits has the attempts that have ended but are not committed.
type commits struct {
	unsettled int
	groups    []finished // in the order in which the attempts ended, which is also the order of the commits
}

// finished has the number of attempts that ended at the same time.
type finished struct {
	at time.Time
	n  int
}

func (cs *commits) add(now time.Time) {
	cs.unsettled++
	if last := len(cs.groups) - 1; last >= 0 && cs.groups[last].at.Equal(now) {
		cs.groups[last].n++
		return
	}
	cs.groups = append(cs.groups, finished{now, 1})
}

// remove records that the n oldest attempts are committed.
func (cs *commits) remove(n int) {
	cs.unsettled -= n
	for n > 0 {
		some := min(n, cs.groups[0].n)
		cs.groups[0].n -= some
		n -= some
		if cs.groups[0].n == 0 {
			cs.groups = cs.groups[1:]
		}
	}
}

// late reports whether an attempt has waited for its commit for longer than limit, so that its
// lease may end first. Until it is committed, nothing is claimed: a claim of this node would take
// over its own lease, and send an accepted delivery again.
func (cs *commits) late(now time.Time, limit time.Duration) bool {
	return len(cs.groups) > 0 && now.Sub(cs.groups[0].at) > limit
}

// apply frees the slot and decides what the attempt does to the delivery and to the endpoint. An
// attempt that sent nothing changes neither: its lease is given back.
func (in Attempted) apply(c *Core, now time.Time) {
	d := in.Delivery
	// The sender may have made a second attempt under the same lease: see Queue.Continue.
	d.Attempt = max(d.Attempt, d.Result.Number)
	ep := c.endpoints[d.Endpoint]
	c.moved = true
	c.slots.addInFlight(ep, -1)
	c.hosts.notFull(ep.host)
	c.slots.addCredit(ep, -1)
	if d.Result.Outcome == postrider.OutcomePostponed || d.Result.Outcome == postrider.OutcomeNone {
		c.giveBackUnmade(now, ep, d)
		c.review(now, ep)
		c.reviewHost(now, ep.host)
		return
	}
	ep.noteLatency(d.Result.Duration)
	ep.waitsSince = now

	t := postrider.Settle(d.Claimed, d.Result, d.To.Endpoint.Policy)
	c.recordAttempt(now, ep, d, t.Pace)
	if t.DisableEndpoint && !ep.gone { // otherwise an earlier response is disabling it already
		ep.enabled, ep.gone = false, true
		c.actions.Disable = append(c.actions.Disable, Disable{ep.id, t.Reason})
	}
	c.settle(now, ep, d, t)
	c.review(now, ep)
	c.reviewHost(now, ep.host)
}

// settle asks for the commit of the attempt and of its effect on the delivery.
func (c *Core) settle(now time.Time, ep *endpoint, d *Delivery, t postrider.Transition) {
	a := &d.Result
	a.Delivery, a.Event, a.Endpoint, a.Number = d.ID, d.Event.ID, d.Endpoint, d.Attempt
	c.commits.add(now)
	ep.unsettled++
	c.shards.busy[ep.shard]++
	c.actions.Settle = append(c.actions.Settle, store.Settlement{Claimed: d.Claimed, Attempt: *a, Transition: t})
}

// apply records when retried deliveries are due again, and that the next delivery of an ordering
// key is due.
func (in SettlementsCommitted) apply(c *Core, now time.Time) {
	c.pressure.settled += len(in.Settlements)
	c.commits.remove(len(in.Settlements))
	c.moved = true
	for i, s := range in.Settlements {
		ep := c.endpoints[s.Claimed.Endpoint]
		ep.unsettled--
		ep.idle = false
		delete(c.suspects.recent, s.Claimed.ID)
		delete(c.handed, s.Claimed.ID)
		c.shards.busy[ep.shard]--
		result := in.Results[i]
		switch {
		case result.Next != "":
			c.noteLane(now, store.DueLane{Endpoint: ep.id, Lane: result.Next})
		case s.Transition.To == postrider.Pending && !result.Stale:
			l := postrider.LaneRetry
			if s.Claimed.Lane == postrider.LaneBulk {
				l = postrider.LaneBulk
			}
			// The store added the wait to the time of the settlement, which is before now. So the
			// row is due by then.
			c.noteLane(now, store.DueLane{Endpoint: ep.id, Lane: l, In: s.Transition.After})
		}
	}
}

// apply records that leases were given back. A claim made in the meantime did not find their rows,
// so their lanes are due again.
func (in LeasesReleased) apply(c *Core, now time.Time) {
	for _, r := range in.Releases {
		c.shards.busy[r.shard]--
		delete(c.handed, r.Delivery)
		if !c.shards.owns(r.shard) { // it was handed to this node, or its shard is another's now
			c.actions.Notify = append(c.actions.Notify, store.DueLane{Endpoint: r.endpoint, Lane: postrider.Lanes[r.lane]})
			continue
		}
		if ep := c.endpoints[r.endpoint]; ep != nil {
			c.noteDue(ep, r.lane, now)
			c.review(now, ep)
		}
	}
}
