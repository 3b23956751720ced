package api

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type standingView struct {
	Number   int64   `json:"number" doc:"Number of the standing, from 1."`
	Status   string  `json:"status" enum:"good,warned,disabled" doc:"good: attempts succeed. warned: it has failed for hours. disabled: it was disabled for its failures, until a person enables it."`
	Reason   *string `json:"reason" enum:"failing,dead_letters,gone" doc:"Why the endpoint is not in good standing. Null: it is."`
	Warnings int     `json:"warnings" doc:"Number of warnings since the endpoint was last in good standing."`
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
