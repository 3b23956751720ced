package api

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// viewOrderedKey returns an ordering key in the form of a response. The lag is
// the time since its head was created or, if the key is paused, since it was
// paused. The time now is the store's.
func viewOrderedKey(k store.OrderedKey, now time.Time) apitypes.OrderedKey {
	return apitypes.OrderedKey{
		Key: k.Key, Waiting: k.Waiting, Head: orNull(k.Head), Sequence: orNull(k.Sequence),
		Since: instant(k.Since), LagMS: max(0, now.Sub(k.Since).Milliseconds()), PausedBy: orNull(k.PausedBy),
	}
}

// registerOrdering registers the route of an endpoint's ordering keys.
func (s *endpointsRoutes) registerOrdering(rt *router) {
	handle(rt, route{
		name: "list-ordering-keys", path: "GET /endpoints/{endpoint}/ordering-keys",
		summary: "List an endpoint's ordering keys that have pending deliveries or are paused, by key",
		scope:   postrider.ScopeWebhooksRead,
	}, s.listOrderingKeys)
}

// listOrderingKeys lists the ordering keys of an endpoint that is not deleted.
// The lags are measured by the store's clock, which also set the times.
func (s *endpointsRoutes) listOrderingKeys(ctx context.Context, in *struct {
	EndpointPath
	Paging
},
) (*reply[apitypes.Page[apitypes.OrderedKey]], error) {
	e, err := s.Names.LiveEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	// The time is read first. The lag of a key that appears in between is then 0.
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	view := func(k store.OrderedKey) apitypes.OrderedKey { return viewOrderedKey(k, now) }
	return respondPage(view)(s.Store.OrderedKeys(ctx, store.OrderedKeyQuery{Account: e.Account, Endpoint: e.ID, Paging: in.Paging.of()}))
}
