package routing

import (
	"context"
	"maps"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/store"
)

// keepChanged keeps an endpoint for fan-out jobs of events before the change of its subscription.
func (s *subscriptions) keepChanged(to *store.EndpointSnapshot) {
	if to.SubscribedAt.After(s.changedAt) {
		s.changedAt = to.SubscribedAt
	}
	if !to.SubscribedAt.IsZero() && to.Endpoint.Status != postrider.EndpointDeleted {
		s.changed[to.Endpoint.ID] = to
	}
}

// changedSince returns the endpoints up to the last one of a job whose subscription has changed since its
// event was accepted, also if they are deleted now, in any order.
func (s *subscriptions) changedSince(job *store.FanOut) (changed []*store.EndpointSnapshot) {
	if s == nil || !s.changedAt.After(job.AcceptedAt) {
		return nil
	}
	for _, to := range slices.AppendSeq(slices.Clone(s.deleted), maps.Values(s.changed)) {
		if to.SubscribedAt.After(job.AcceptedAt) && to.Endpoint.ID.Compare(job.UpTo) <= 0 {
			changed = append(changed, to)
		}
	}
	return changed
}

// past reads the subscriptions that changed endpoints had when the event of a job was accepted.
func (x *Table) past(
	ctx context.Context, job *store.FanOut, changed []*store.EndpointSnapshot,
) (map[postrider.EndpointID]postrider.Subscription, error) {
	if len(changed) == 0 {
		return nil, nil
	}
	ask := store.PastSubscriptions{At: job.AcceptedAt}
	for _, to := range changed {
		ask.Endpoints = append(ask.Endpoints, to.Endpoint.ID)
	}
	return x.directory.PastSubscriptions(ctx, ask)
}

// selectionOf returns the filter and the condition that select the event of a job for an endpoint; false:
// the endpoint does not subscribe to its type. If the subscription has changed, that of the past counts. If
// that is not known, the present one counts, as events explain says.
func (x *Table) selectionOf(
	to *store.EndpointSnapshot, past map[postrider.EndpointID]postrider.Subscription, job *store.FanOut,
) (p *filter.Pattern, c *conditioned, subscribed bool) {
	if !to.SubscribedAt.After(job.AcceptedAt) {
		return x.filterOf(to), x.conditionOf(to), true
	}
	s, known := past[to.Endpoint.ID]
	if !known {
		s = to.Endpoint.Subscription()
	}
	was := &store.EndpointSnapshot{Endpoint: postrider.Endpoint{EventTypes: s.EventTypes, Policy: postrider.Policy{
		Filter: s.Filter, Channels: s.Channels, Changed: s.Changed, Condition: s.Condition,
	}}}
	if !was.Endpoint.Subscribes(job.Event.Type) {
		return nil, nil, false
	}
	return parsed(was), compiled(was), true
}
