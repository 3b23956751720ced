package schedule

import (
	"slices"
	"time"

	"github.com/postrider/postrider/internal/store"
)

// ShardSet is a set of shards.
type ShardSet [store.Shards]bool

// shards says which endpoints this node owns. An endpoint belongs to the shard that the last byte
// of its id names, and a shard to one node. So the limits of an endpoint hold for all nodes
// together. A node does nothing for shards that it does not own: it neither claims nor starts
// deliveries of their endpoints.
//
// A shard moves from node A to node B, which has just joined, like this:
//
//	A's heartbeat   the reply says that A has 128 shards too many (Surplus)
//	A               marks 128 shards as leaving: starts nothing more for them, gives
//	                back leases that have not started, and waits for attempts in flight
//	A's heartbeats  give up each leaving shard once it is not busy any more
//	B's heartbeat   the reply has the shard; B loads its circuits, owns it, and scans
//
// So no delivery of the shard is under way when its owner changes, and nothing is sent twice. What
// other nodes hand to A in the meantime, A gives back ([Handed]). If A
// dies or hangs, B gets the shard without any action of A. A starts nothing more from then on,
// because its ownership ended (until) before B's began. And B sends no delivery that A had leased
// before that lease has ended or A is reclaimed.
type shards struct {
	alone    bool                    // this is the only node, and it owns all shards; never changes
	owned    ShardSet                // shards of the last Membership of the store
	leaving  ShardSet                // owned shards that must be given up when they are no longer busy
	held     bool                    // the store is held, so the node serves no shard; set by HoldChanged
	until    time.Time               // end of the ownership, unless a ShardsAssigned renews it
	losses   int                     // how often the node's lock was lost: the highest count of all inputs
	busy     [store.Shards]int       // for each shard: credit, unsettled attempts and releases under way, also of shards that others own
	gainedAt [store.Shards]time.Time // when this node got the shard; kept when it loses the shard
}

func (s *shards) owns(shard uint8) bool { return s.alone || s.owned[shard] }

// serves reports whether this node owns the shard and will keep it.
func (s *shards) serves(shard uint8) bool { return s.alone || s.owned[shard] && !s.leaving[shard] }

// isNew reports whether this node got the shard, or started, after a time.
func (s *shards) isNew(shard uint8, startedAt, after time.Time) bool {
	return later(s.gainedAt[shard], startedAt).After(after)
}

// lapsed reports whether the ownership may have ended because no heartbeat renewed it.
func (s *shards) lapsed(now time.Time) bool { return !s.alone && !now.Before(s.until) }

// renew sets when the ownership ends. losses is how often the lock had been lost when the input was
// made. If that is less than the known losses, the input is older than the last loss and renews
// nothing. This must be decided here, because only here all inputs are in one order. An example:
//
//	0 s  a heartbeat is sent and replied to: the node owns new shards, until 5 s. Their
//	     circuits are loaded, which takes a while
//	1 s  the lock is lost: LockLost ends the ownership, and another node may take over
//	2 s  the circuits are loaded. ShardsAssigned says until 5 s, which does not count
//
// The reverse order is harmless, too. A LockLost can arrive after a heartbeat that was sent after
// the loss. It ends nothing, because the store knew of the loss.
func (s *shards) renew(until time.Time, losses int) {
	if losses < s.losses {
		until = time.Time{}
	}
	s.until, s.losses = until, max(losses, s.losses)
}

func (in LockLost) apply(c *Core, _ time.Time) {
	if in.Losses > c.shards.losses {
		c.shards.renew(time.Time{}, in.Losses)
	}
}

func (s *shards) surplus() []uint8 {
	var empty []uint8
	for shard, leaving := range s.leaving {
		if leaving && s.busy[shard] == 0 {
			empty = append(empty, uint8(shard))
		}
	}
	return empty
}

// assign sets which shards this node owns. It marks the surplus ones as leaving: first the shards
// that are leaving already, so that a shard that began to leave also goes, and then the shards with
// the highest numbers.
func (s *shards) assign(now time.Time, owned []uint8, surplus int) {
	before, leaving := s.owned, s.leaving
	s.owned, s.leaving = ShardSet{}, ShardSet{}
	for _, shard := range owned {
		s.owned[shard] = true
		if !before[shard] {
			s.gainedAt[shard] = now
		}
	}
	for _, again := range []bool{true, false} {
		for _, shard := range slices.Backward(owned) {
			if surplus > 0 && leaving[shard] == again {
				s.leaving[shard] = true
				surplus--
			}
		}
	}
}

// apply takes over the shards that the store assigned. It forgets the state of endpoints that this
// node no longer owns, and reviews endpoints of shards that begin or cease to leave.
func (in ShardsAssigned) apply(c *Core, now time.Time) {
	before, leaving := c.shards.owned, c.shards.leaving
	surplus := in.Surplus
	if c.draining {
		surplus = len(in.Shards)
	}
	c.shards.renew(in.Until, in.Losses)
	c.shards.assign(now, in.Shards, surplus)
	c.circuits.learn(now, in.Circuits)
	if before == c.shards.owned && leaving == c.shards.leaving {
		return
	}
	for _, ep := range sortedByID(c.endpoints) {
		switch {
		case before[ep.shard] && !c.shards.owned[ep.shard]:
			c.disown(now, ep)
		case leaving[ep.shard] != c.shards.leaving[ep.shard]:
			c.review(now, ep)
		}
	}
	for id := range c.remembered {
		if !c.shards.owns(store.Shard(id)) {
			delete(c.remembered, id)
		}
	}
}

// disown forgets the state of an endpoint that another node owns now. Its attempts in flight go on:
// their tokens tell the store whether their settlements count.
func (c *Core) disown(now time.Time, ep *endpoint) {
	c.circuits.setProbe(ep, noProbe)
	was := ep.class
	c.slots.reclass(ep, unproven)
	if was != unproven {
		c.ready.queues[was].remove(ep)
	}
	ep.condition = condition{class: unproven}
	ep.lanes = [laneCount]lane{}
	c.review(now, ep)
}
