package endpoints

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// viewHealth returns a change of health in the form of a response.
func viewHealth(s postrider.EndpointHealth) apitypes.EndpointHealth {
	return apitypes.EndpointHealth{
		Number: s.Number, Status: s.Status, Reason: render.OrNull(s.Reason), Warnings: s.Warnings, Since: render.Instant(s.Since),
	}
}

// registerHealth registers the route of an endpoint's health.
func (s *Routes) registerHealth(rt *rest.Router) {
	rest.Handle(rt, rest.Route{
		Name: "list-endpoint-health", Path: "GET /endpoints/{endpoint}/health",
		Summary:     "List the changes of an endpoint's health, newest first",
		Description: "An entry says since when an endpoint is healthy, was warned, or was disabled for its failures.",
		Scope:       postrider.ScopeWebhooksRead,
	}, s.listHealth)
}

// listHealth lists the health changes of an endpoint. The endpoint may be deleted.
func (s *Routes) listHealth(ctx context.Context, in *struct {
	rest.EndpointPath
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.EndpointHealth]], error) {
	e, err := s.Names.Endpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	return rest.RespondPage(viewHealth)(s.Store.HealthHistory(ctx, store.HealthQuery{
		Account: e.Account, Endpoint: e.ID, Paging: in.Paging.Of(),
	}))
}
