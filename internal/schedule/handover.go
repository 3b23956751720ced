package schedule

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Handed is a new delivery that another node has committed under a lease of this node.
//
// A node that commits deliveries for the endpoints of another node can lease them for that node, under
// the token of a session. So they need no claim. The life of a session:
//
//	[Core.NextSession]   this node gives a node that has connected a token
//	the commit           the other node stores deliveries that are leased under that token
//	[Core.TakeHanded]    it names them on the connection, and they start as admitted ones do
//	[SessionEnded]       the connection has ended: what the store has under the token and was not
//	                     named is given back
//
// If this node dies, these leases are reclaimed like its others, because the token is one of its own.
type Handed struct {
	postrider.Claimed

	Until time.Time // end of the lease at the earliest, by the clock of the store
}

// Session is what a node may lease of another node's slots.
type Session struct {
	Token postrider.Token // zero: nothing
	// Greatest number of deliveries that are leased, or are being committed, and not yet named.
	Budget int
}

// NextSession returns a session for one of the other nodes. All of them together may lease a quarter of
// this node's slots.
func (c *Core) NextSession(nodes int) Session {
	return Session{c.admissions.nextToken(), max(1, c.opts.Concurrency/4/max(1, nodes))}
}

// TakeHanded keeps those of the handed deliveries that would be admitted now, and gives the leases of
// the others back. It returns the endpoints of these, to which nothing should be handed for a while; a
// zero one stands for all endpoints of the node.
//
// The caller introduces endpoints that the core [Core.Needs] before.
func (c *Core) TakeHanded(now time.Time, deliveries []Handed) (refused []postrider.EndpointID) {
	for _, d := range deliveries {
		ep, l := c.owned(d.Endpoint), laneIndex(d.Lane)
		full := c.draining || c.shards.lapsed(now) || c.slots.prefetchFree() <= 0 || c.commits.unsettled >= c.opts.MaxUnsettled
		if ep == nil || full || !c.mayAdmit(now, ep, l) {
			giveBackUnused(c, now, store.SessionLease{
				Lease: store.Lease{Delivery: d.ID, Token: d.Token}, Endpoint: d.Endpoint, Lane: d.Lane,
			})
			if full {
				d.Endpoint = postrider.EndpointID{}
			}
			refused = append(refused, d.Endpoint)
			continue
		}
		c.handed[d.ID] = struct{}{}
		ep.nextLease(c.opts.LeaseMargin)
		c.prefetch.reserve(now, ep, l, 1)
		c.keep(now, ep, &Delivery{Claimed: d.Claimed, leasedUntil: d.Until.Add(-c.ahead)})
	}
	return refused
}

// giveBackUnused gives back a lease that no delivery of the core has. The endpoint's lane is due, as
// after every release, so that the core does not forget the endpoint.
func giveBackUnused(c *Core, now time.Time, lease store.SessionLease) {
	shard, l := store.Shard(lease.Endpoint), laneIndex(lease.Lane)
	c.actions.Release = append(c.actions.Release, Release{lease.Lease, lease.Endpoint, l, shard})
	c.shards.busy[shard]++ // until the release is committed
	if ep := c.owned(lease.Endpoint); ep != nil {
		c.noteDue(ep, l, now)
		c.review(now, ep)
	}
}

// SessionEnded says that a session has ended. At the node that gave the token, it is posted after the
// last TakeHanded of the session, and Leases are the deliveries that the store has under the token. At
// the other node, they are those that it has committed and not sent. The caller introduces endpoints
// that the core [Core.Needs] before.
type SessionEnded struct{ Leases []store.SessionLease }

// apply gives back the leases of deliveries that were never named. The others are under way.
func (in SessionEnded) apply(c *Core, now time.Time) {
	for _, l := range in.Leases {
		if _, taken := c.handed[l.Delivery]; !taken {
			giveBackUnused(c, now, l)
		}
	}
}
