package api

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// viewHealth returns a change of health in the form of a response.
func viewHealth(s postrider.EndpointHealth) apitypes.EndpointHealth {
	return apitypes.EndpointHealth{
		Number: s.Number, Status: s.Status, Reason: orNull(s.Reason), Warnings: s.Warnings, Since: instant(s.Since),
	}
}

// registerHealth registers the route of an endpoint's health.
func (s *endpointsRoutes) registerHealth(rt *router) {
	handle(rt, route{
		name: "list-endpoint-health", path: "GET /endpoints/{endpoint}/health",
		summary:     "List the changes of an endpoint's health, newest first",
		description: "An entry says since when an endpoint is healthy, was warned, or was disabled for its failures.",
		scope:       postrider.ScopeWebhooksRead,
	}, s.listHealth)
}

// listHealth lists the health changes of an endpoint, also of a deleted one.
func (s *endpointsRoutes) listHealth(ctx context.Context, in *struct {
	EndpointPath
	Paging
},
) (*reply[apitypes.Page[apitypes.EndpointHealth]], error) {
	e, err := s.Names.Endpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	return respondPage(viewHealth)(s.Store.HealthHistory(ctx, store.HealthQuery{Account: e.Account, Endpoint: e.ID, Paging: in.Paging.of()}))
}
