package api

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type standingView struct {
	Number   int64   `json:"number" doc:"Counts the endpoint's standings, from 1."`
	Status   string  `json:"status" enum:"good,warned,disabled" doc:"disabled: it was, for its failures; a person enables it again."`
	Reason   *string `json:"reason" doc:"Why it is not good: failing, dead_letters or gone."`
	Warnings int     `json:"warnings" doc:"How many were given since it was good."`
	Since    string  `json:"since" format:"date-time"`
}

func viewStanding(s postrider.Standing) standingView {
	return standingView{
		Number: s.Number, Status: string(s.Status), Reason: orNull(s.Reason), Warnings: s.Warnings, Since: instant(s.Since),
	}
}

func (rt *router) standings() {
	handle(rt, route{
		name: "list-standings", path: "GET /endpoints/{endpoint}/standings",
		about: "List how an endpoint has stood in the long run, newest first: when it was warned, disabled and good again",
		scope: postrider.ScopeWebhooksRead,
	}, rt.listStandings)
}

// listStandings lists those of a deleted endpoint too: they are history.
func (s *server) listStandings(ctx context.Context, in *struct {
	EndpointPath
	Paging
},
) (*reply[page[standingView]], error) {
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
