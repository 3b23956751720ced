package api

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

func viewStanding(s postrider.Standing) apitypes.Standing {
	return apitypes.Standing{
		Number: s.Number, Status: s.Status, Reason: orNull(s.Reason), Warnings: s.Warnings, Since: instant(s.Since),
	}
}

func (rt *router) standings() {
	handle(rt, route{
		name: "list-standings", path: "GET /endpoints/{endpoint}/standings",
		about: "List an endpoint's standings, newest first",
		tells: "A standing says since when an endpoint has done well, was warned, or was disabled for its failures.",
		scope: postrider.ScopeWebhooksRead,
	}, rt.listStandings)
}

// listStandings lists those of a deleted endpoint too: they are history.
func (s *server) listStandings(ctx context.Context, in *struct {
	EndpointPath
	Paging
},
) (*reply[apitypes.Page[apitypes.Standing]], error) {
	e, err := s.findEndpoint(ctx, in.Endpoint)
	if err != nil {
		return nil, err
	}
	standings, err := s.Store.Standings(ctx, store.StandingQuery{Account: e.Account, Endpoint: e.ID, Paging: in.Paging.of()})
	if err != nil {
		return nil, err
	}
	return pageOf(standings, viewStanding), nil
}
