package web

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// overviewRoutes lists the start page of operators.
func overviewRoutes() []route {
	return []route{{"GET /", operators, showOverview}}
}

// overviewPage is the data of the overview.
type overviewPage struct {
	Traffic  *traffic
	Troubled apitypes.TroubledEndpoints
	Nodes    []apitypes.Node // nil: the person may not see them
}

// showOverview shows whether webhooks are healthy, and what needs a person.
func showOverview(v *visit) (err error) {
	var p overviewPage
	if p.Troubled, err = v.api.TroubledEndpoints(v.ctx); err != nil {
		return err
	}
	if p.Traffic, err = v.traffic(v.api.Stats); err != nil {
		return err
	}
	commands := []string{"stats", "endpoints troubled"}
	if v.can(postrider.ScopeAdmin) {
		if p.Nodes, err = v.api.Nodes(v.ctx); err != nil {
			return err
		}
		commands = append(commands, "nodes")
	}
	return v.show(page{Name: "overview", Data: p, Commands: commands})
}
