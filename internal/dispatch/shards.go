package dispatch

import (
	"slices"
	"time"

	"github.com/postrider/postrider/internal/store"
)

// shardSet is a set of shards.
type shardSet [store.Shards]bool

// shards is which endpoints are this node's. What a node says of others'
// endpoints is nothing: it neither claims for them nor starts anything.
type shards struct {
	alone     bool // there is one node
	owned     shardSet
	leaving   shardSet                // owned, and to be given up once nothing of it is in hand
	until     time.Time               // the ownership ends then, unless it is said again
	busy      [store.Shards]int       // what is in hand, not settled or not released
	gainedAt  [store.Shards]time.Time // when this node got them
	startedAt time.Time
}

// has reports whether the shard is this node's.
func (s *shards) has(shard uint8) bool { return s.alone || s.owned[shard] }

// serves reports whether it is, and stays so.
func (s *shards) serves(shard uint8) bool { return s.alone || s.owned[shard] && !s.leaving[shard] }

// isNew reports whether the shard has been this node's since after an instant.
func (s *shards) isNew(shard uint8, after time.Time) bool {
	return later(s.gainedAt[shard], s.startedAt).After(after)
}

// lapsed reports whether the ownership may have ended: this node was not able
// to say that it lives.
func (s *shards) lapsed(now time.Time) bool { return !s.alone && !now.Before(s.until) }

// share takes up how the shards are shared out. Those above this node's share
// are to be given up, and those that are not its own any more are forgotten.
func (c *core) share(now time.Time, in roster) {
	before, leaving := c.shards.owned, c.shards.leaving
	c.shards.owned, c.shards.until = shardSet{}, in.until
	for _, shard := range in.Shards {
		c.shards.owned[shard] = true
		if !before[shard] {
			c.shards.gainedAt[shard] = now
		}
	}
	excess := in.Excess
	if c.draining {
		excess = len(in.Shards)
	}
	c.shards.leaving = shardSet{}
	for _, again := range []bool{true, false} { // those that are leaving already first
		for _, shard := range slices.Backward(in.Shards) {
			if excess > 0 && leaving[shard] == again {
				c.shards.leaving[shard] = true
				excess--
			}
		}
	}
	c.learnCircuits(now, in.circuits)
	if before == c.shards.owned && leaving == c.shards.leaving {
		return
	}
	for _, ep := range c.sorted() {
		switch {
		case before[ep.shard] && !c.shards.owned[ep.shard]:
			c.lose(now, ep)
		case leaving[ep.shard] != c.shards.leaving[ep.shard]:
			c.review(now, ep)
		}
	}
}

// lose forgets what was known of an endpoint that is another node's now. What
// is in flight ends as it does: its token tells whether it counts.
func (c *core) lose(now time.Time, ep *endpoint) {
	c.setStage(ep, noProbe)
	was := ep.class
	c.reclass(ep, healthy)
	if was != healthy && c.lines[was].remove(ep) {
		ep.startable = false
	}
	ep.trouble = trouble{}
	ep.lanes = [laneCount]lane{}
	c.review(now, ep)
}

// drainedShards returns the shards that can be given up now.
func (c *core) drainedShards() []uint8 {
	var drained []uint8
	for shard, leaving := range c.shards.leaving {
		if leaving && c.shards.busy[shard] == 0 {
			drained = append(drained, uint8(shard))
		}
	}
	return drained
}
