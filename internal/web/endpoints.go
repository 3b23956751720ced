package web

import (
	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// endpointRoutes lists the pages and forms of endpoints.
func endpointRoutes() []route {
	return []route{
		{"GET /endpoints", everyone, listEndpoints},
		{"GET /endpoints/new", operators, newEndpoint},
		{"POST /endpoints/new", operators, createEndpoint},
		{"GET /endpoints/{endpoint}", everyone, showEndpoint},
		{"GET /endpoints/{endpoint}/options", everyone, showOptions},
		{"POST /endpoints/{endpoint}/options", everyone, changeOptions},
		{"POST /endpoints/{endpoint}/options/undo", everyone, undoOptions},
		{"GET /endpoints/{endpoint}/secrets", everyone, showSecrets},
		{"POST /endpoints/{endpoint}/secrets", everyone, revealSecrets},
		{"POST /endpoints/{endpoint}/secrets/rotate", everyone, rotateSecret},
		{"POST /endpoints/{endpoint}/secrets/{secret}/revoke", everyone, revokeSecret},
		{"POST /endpoints/{endpoint}/pause", everyone, changeStatus("pause")},
		{"POST /endpoints/{endpoint}/resume", everyone, changeStatus("resume")},
		{"POST /endpoints/{endpoint}/enable", everyone, changeStatus("enable")},
		{"POST /endpoints/{endpoint}/disable", everyone, changeStatus("disable")},
		{"POST /endpoints/{endpoint}/circuit", everyone, setCircuit},
		{"POST /endpoints/{endpoint}/test", everyone, testEndpoint},
		{"POST /endpoints/{endpoint}/verify", everyone, verifyEndpoint},
		{"GET /endpoints/{endpoint}/delete", everyone, confirmDelete},
		{"POST /endpoints/{endpoint}/delete", everyone, deleteEndpoint},
	}
}

// endpointRow is an endpoint of the list, with its circuit.
type endpointRow struct {
	apitypes.Endpoint

	Circuit apitypes.Circuit
}

// listEndpoints shows the endpoints, newest first.
func listEndpoints(v *visit) error {
	f := filters{v.choice("status", "status", "enabled", "paused", "disabled")}
	if v.who == operators {
		f = append(f, v.textFilter("account"))
	}
	found, err := v.api.Endpoints(v.ctx, client.EndpointFilter{
		Account: v.query("account"), Status: postrider.EndpointStatus(v.query("status")), Paging: v.paging(),
	})
	if err != nil {
		return err
	}
	rows := apitypes.Page[endpointRow]{NextCursor: found.NextCursor}
	for _, e := range found.Data {
		circuit, err := v.api.Circuit(v.ctx, e.ID)
		if err != nil && statusOf(err) != 404 { // deleted meanwhile
			return err
		}
		rows.Data = append(rows.Data, endpointRow{e, circuit})
	}
	return v.show(page{Name: "endpoints", Data: listOf(v, rows, f), Commands: []string{"endpoints list"}})
}
