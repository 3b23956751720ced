package dispatch

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// giveBack releases what an endpoint holds and has not started.
func (c *core) giveBack(now time.Time, ep *endpoint) {
	for l, items := range ep.held {
		for _, it := range items {
			c.release(ep, it)
			c.expect(ep, l, now)
		}
		ep.held[l] = nil
	}
}

// dropUncovered releases what an endpoint holds under leases that no longer
// cover an attempt: another may have it before that one ends.
func (c *core) dropUncovered(now time.Time, ep *endpoint) {
	for l, items := range ep.held {
		for len(items) > 0 && items[0].leasedUntil.Before(now.Add(ep.policy.Timeout)) {
			c.release(ep, items[0])
			c.expect(ep, l, now)
			items = items[1:]
		}
		ep.held[l] = items
	}
}

func (c *core) release(ep *endpoint, it *item) {
	c.do.release = append(c.do.release, release{store.Lease{Delivery: it.ID, Token: it.Token}, ep.id, laneIndex(it.Lane), ep.shard})
	c.credit(ep, -1)
	c.unstocked(ep, 1)
	c.leased[laneIndex(it.Lane)]--
	c.shards.busy[ep.shard]++ // until it is committed
}

func (c *core) credit(ep *endpoint, n int) {
	ep.credit += n
	c.inClass[ep.class] += n
	c.inHand += n
	c.shards.busy[ep.shard] += n
}

// grant returns how long the next lease of the endpoint is. Until all of its
// credit is free again, its leases are taken to be as short as the shortest:
// its timeout may change while they run.
func (c *core) grant(ep *endpoint) time.Duration {
	lease := ep.policy.Timeout + c.opts.LeaseMargin
	if ep.credit == 0 {
		ep.granted = lease
	}
	ep.granted = min(ep.granted, lease)
	return lease
}

func (c *core) nextToken() postrider.Token {
	c.token++
	return c.token
}
