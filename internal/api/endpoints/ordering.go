package endpoints

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// viewOrderedKey returns an ordering key in the form of a response. The lag is the time since the
// first delivery of the key was created or, if the key is paused, since it was paused. now is the
// store's time.
func viewOrderedKey(k store.OrderedKey, now time.Time) apitypes.OrderedKey {
	return apitypes.OrderedKey{
		Key: k.Key, Waiting: k.Waiting, Head: render.OrNull(k.Head), Sequence: render.OrNull(k.Sequence),
		Since: render.Instant(k.Since), LagMS: max(0, now.Sub(k.Since).Milliseconds()), PausedBy: render.OrNull(k.PausedBy),
	}
}

// registerOrdering registers the route of an endpoint's ordering keys.
func (s *Routes) registerOrdering(rt *rest.Router) {
	rest.Handle(rt, rest.Route{
		Name: "list-ordering-keys", Path: "GET /endpoints/{endpoint}/ordering-keys",
		Summary: "List an endpoint's ordering keys that have pending deliveries or are paused, by key",
		Scope:   postrider.ScopeWebhooksRead,
	}, s.listOrderingKeys)
}

// listOrderingKeys lists the ordering keys of an endpoint that is not deleted. It measures the lags
// by the store's clock, because that clock set the times.
func (s *Routes) listOrderingKeys(ctx context.Context, in *struct {
	rest.EndpointPath
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.OrderedKey]], error) {
	e, err := s.Names.LiveEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	// The time is read before the keys. So the lag of a key that appears in between is 0.
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	view := func(k store.OrderedKey) apitypes.OrderedKey { return viewOrderedKey(k, now) }
	return rest.RespondPage(view)(s.Store.OrderedKeys(ctx, store.OrderedKeyQuery{Account: e.Account, Endpoint: e.ID, Paging: in.Paging.Of()}))
}
