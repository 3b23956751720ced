package schedule

import (
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// ttl is how long a heartbeat renews the ownership of shards, in tests.
const ttl = 5 * time.Second

// core drives a [Core] as the dispatcher's loop does: it introduces endpoints before inputs name
// them, with their settings at that time.
type core struct {
	*Core
	lookup func(postrider.EndpointID) (*store.EndpointSnapshot, bool)
}

// The inputs of the loop that are not inputs of a Core, and the two halves of an admission.
type (
	admit struct { // grants tokens and leases to deliveries
		deliveries []*store.NewDelivery
	}
	stored struct { // ends the admission that has the token of the started or dropped deliveries
		started []postrider.Claimed
		waiting []store.DueLane
		dropped []store.NewDelivery
	}
	given struct { // takes deliveries that another node has committed and named
		deliveries []Handed
		refused    []postrider.EndpointID // the response
	}
	changed        struct{ endpoint postrider.EndpointID }
	woken          struct{ endpoint postrider.EndpointID }
	heartbeatReply struct {
		store.Membership
		until    time.Time
		circuits []postrider.Circuit
		losses   int
	}
)

func newCore(opts Options, lookup func(postrider.EndpointID) (*store.EndpointSnapshot, bool)) *core {
	return &core{New(opts), lookup}
}

func (c *core) introduce(lanes ...store.DueLane) {
	for _, l := range lanes {
		if c.Needs(l.Endpoint) {
			c.Introduce(l.Endpoint, c.settings(l.Endpoint))
		}
	}
}

func (c *core) settings(id postrider.EndpointID) *store.EndpointSnapshot {
	if to, ok := c.lookup(id); ok {
		return to
	}
	return nil
}

func (c *core) step(now time.Time, input any) {
	switch in := input.(type) {
	case admit:
		ask := make([]Admission, len(in.deliveries))
		for i, d := range in.deliveries {
			ask[i] = Admission{d.Endpoint, d.Lane}
			c.introduce(store.DueLane{Endpoint: d.Endpoint})
		}
		grant := c.Admit(now, ask)
		for i, d := range in.deliveries {
			l := grant.Lease(i)
			d.Lease, d.Token = l.For, l.Token
		}
	case stored:
		c.introduce(in.waiting...)
		committed := DeliveriesCommitted{Started: in.started, Waiting: in.waiting}
		for _, d := range in.dropped {
			committed.Token = d.Token
		}
		for _, cl := range in.started {
			committed.Token = max(committed.Token, cl.Token)
		}
		c.Apply(now, committed)
	case *given:
		for _, d := range in.deliveries {
			c.introduce(store.DueLane{Endpoint: d.Endpoint})
		}
		in.refused = c.TakeHanded(now, in.deliveries)
	case SessionEnded:
		for _, l := range in.Leases {
			c.introduce(store.DueLane{Endpoint: l.Endpoint})
		}
		c.Apply(now, in)
	case changed:
		c.Apply(now, EndpointChanged{Endpoint: in.endpoint, Settings: c.settings(in.endpoint)})
	case woken:
		c.Apply(now, EndpointChanged{Endpoint: in.endpoint, Settings: c.settings(in.endpoint), Due: true})
	case heartbeatReply:
		c.Apply(now, ShardsAssigned{Shards: in.Shards, Surplus: in.Surplus, Until: in.until, Losses: in.losses, Circuits: in.circuits})
	case LanesDue:
		c.introduce(in.Lanes...)
		c.Apply(now, in)
	case Input:
		c.Apply(now, in)
	}
}

// Decide returns actions that the next Decide does not change.
func (c *core) Decide(now time.Time) Actions {
	do := c.Core.Decide(now)
	do.Send = slices.Clone(do.Send)
	return do
}

// endpoint returns the state of an endpoint, which it introduces if it is not in memory.
func (c *core) endpoint(id postrider.EndpointID) *endpoint {
	c.introduce(store.DueLane{Endpoint: id})
	return c.endpoints[id]
}

// version returns the known version of an endpoint's circuit.
func (c *core) version(id postrider.EndpointID) int64 {
	if ep := c.endpoints[id]; ep != nil {
		return ep.breaker.Generation
	}
	return c.remembered[id].version
}
