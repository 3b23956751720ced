package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// endSubscription keeps the subscription of e if next has another one.
func (e *endpoint) endSubscription(next postrider.Endpoint, now time.Time) {
	was := e.read().Subscription()
	if store.EncodeSubscription(was) == store.EncodeSubscription(next.Subscription()) {
		return
	}
	e.past = append(e.past, postrider.SubscriptionRevision{Subscription: was, Since: e.subscribed(), Until: now})
	e.subscribedAt = now
}

// subscribed returns since when the endpoint has its present subscription.
func (e *endpoint) subscribed() time.Time { return cmp.Or(e.subscribedAt, e.CreatedAt) }

// Subscription implements [store.Directory].
func (s *Store) Subscription(_ context.Context, q store.SubscriptionQuery) (postrider.SubscriptionRevision, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.endpoints.get(q.Endpoint)
	if ok && !q.At.Before(e.subscribed()) {
		r := postrider.SubscriptionRevision{Subscription: e.read().Subscription(), Since: e.subscribed()}
		if e.deleted() {
			r.Until = e.StatusSince
		}
		return r, nil
	}
	if ok {
		for _, r := range e.past {
			if !q.At.Before(r.Since) && q.At.Before(r.Until) {
				r.EventTypes, r.Changed = slices.Clone(r.EventTypes), slices.Clone(r.Changed)
				return r, nil
			}
		}
	}
	return postrider.SubscriptionRevision{}, fmt.Errorf("find the subscription of endpoint %s: %w", q.Endpoint, postrider.ErrNotFound)
}

// PastSubscriptions implements [store.Directory].
func (s *Store) PastSubscriptions(
	_ context.Context, p store.PastSubscriptions,
) (map[postrider.EndpointID]postrider.Subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	past := map[postrider.EndpointID]postrider.Subscription{}
	for _, id := range p.Endpoints {
		e, _ := s.endpoints.get(id)
		for i := 0; e != nil && i < len(e.past); i++ {
			if r := e.past[i]; !p.At.Before(r.Since) && p.At.Before(r.Until) {
				past[id] = store.SalvageSubscription([]byte(store.EncodeSubscription(r.Subscription)))
			}
		}
	}
	return past, nil
}

// forgetSubscriptionsLocked removes subscriptions that ended before f.Before, and counts them.
func (s *Store) forgetSubscriptionsLocked(f store.DeleteOld) (removed int) {
	for _, e := range s.endpoints.rows {
		e.past = slices.DeleteFunc(e.past, func(r postrider.SubscriptionRevision) bool {
			old := r.Until.Before(f.Before) && removed < f.Limit
			if old {
				removed++
			}
			return old
		})
	}
	return removed
}

// expungeSubscriptionsLocked removes the earlier subscriptions of the endpoints that an expunge removes,
// and counts them.
func (s *Store) expungeSubscriptionsLocked(x postrider.Expunge) (removed int) {
	for _, e := range s.endpoints.rows {
		if s.expungesEndpointLocked(x, e.ID) {
			removed, e.past = removed+len(e.past), nil
		}
	}
	return removed
}
