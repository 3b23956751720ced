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
		{"POST /endpoints/{endpoint}/secrets", everyone, revealSecret},
		{"GET /endpoints/{endpoint}/secrets/rotate", everyone, showSecrets}, // a refused form is loaded again
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

// failing is the choice of the health that selects endpoints by their streak of failures,
// whatever their health is, which follows hours later. A row that is failing does not say
// that it is healthy, so the choice of the healthy leaves these out.
const failing = "failing"

// listEndpoints shows the endpoints, newest first, and how each fares.
func listEndpoints(v *visit) error {
	f := filters{
		v.choice("status", "status", "enabled", "paused", "disabled"),
		v.choice("health", "health", failing, "healthy", "warned", "disabled"),
		v.choice("circuit", "circuit", "open", "half_open", "closed"),
	}
	if v.who == operators {
		f = append(f, v.accountFilter())
	}
	ask := client.EndpointFilter{
		Account: v.query("account"), Status: postrider.EndpointStatus(v.query("status")),
		Circuit: postrider.CircuitStatus(v.query("circuit")), Paging: v.paging(),
	}
	switch health := v.query("health"); health {
	case failing:
		ask.Failing = new(true)
	case string(postrider.Healthy):
		ask.Health, ask.Failing = postrider.Healthy, new(false)
	default:
		ask.Health = postrider.HealthStatus(health)
	}
	found, err := v.api.Endpoints(v.ctx, ask)
	return showList(v, page{Name: "endpoints", Commands: []string{v.command("endpoints list")}}, listed[apitypes.Endpoint]{items: found, filters: f, err: err})
}
