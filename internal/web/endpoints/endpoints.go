// Package endpoints has the pages of endpoints: the list, and for one endpoint what it is sent now and why its
// deliveries wait, its circuit, its secrets, test events, and the replay of what it has missed.
package endpoints

import (
	"embed"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

//go:embed *.html
var templates embed.FS

// Feature returns the pages of endpoints: the list, and what one endpoint is sent, has missed and signs with.
func Feature() page.Feature {
	return page.Feature{
		Templates: templates,
		Everyone: page.Routes{
			"GET /endpoints":                                     listEndpoints,
			"GET /endpoints/{endpoint}":                          showEndpoint,
			"GET /endpoints/{endpoint}/secrets":                  page.OfEndpoint(showSecrets),
			"POST /endpoints/{endpoint}/secrets":                 page.OfEndpoint(revealSecret),
			"GET /endpoints/{endpoint}/secrets/rotate":           page.OfEndpoint(showSecrets), // a refused form is loaded again
			"POST /endpoints/{endpoint}/secrets/rotate":          page.OfEndpoint(rotateSecret),
			"POST /endpoints/{endpoint}/secrets/{secret}/revoke": page.OfEndpoint(revokeSecret),
			"POST /endpoints/{endpoint}/pause":                   page.OfID("endpoint", changeStatus("pause")),
			"POST /endpoints/{endpoint}/resume":                  page.OfID("endpoint", changeStatus("resume")),
			"POST /endpoints/{endpoint}/enable":                  page.OfID("endpoint", changeStatus("enable")),
			"POST /endpoints/{endpoint}/disable":                 page.OfID("endpoint", changeStatus("disable")),
			"POST /endpoints/{endpoint}/circuit":                 page.OfID("endpoint", setCircuit),
			"POST /endpoints/{endpoint}/test":                    page.OfID("endpoint", testEndpoint),
			"POST /endpoints/{endpoint}/verify":                  page.OfID("endpoint", verifyEndpoint),
			"GET /endpoints/{endpoint}/delete":                   page.OfEndpoint(confirmDelete),
			"POST /endpoints/{endpoint}/delete":                  page.OfEndpoint(deleteEndpoint),
			"GET /endpoints/{endpoint}/missed":                   page.OfEndpoint(showMissed),
			"POST /endpoints/{endpoint}/missed":                  page.OfEndpoint(replayMissed),
			"GET /endpoints/{endpoint}/tests":                    page.OfEndpoint(showTests),
			"POST /endpoints/{endpoint}/tests":                   page.OfEndpoint(sendTest),
		},
	}
}

// failing is the choice of the health that selects endpoints by their streak of failures,
// whatever their health is, which follows hours later. A row that is failing does not say
// that it is healthy, so the choice of the healthy leaves these out.
const failing = "failing"

// listEndpoints shows the endpoints, newest first, and how each fares.
func listEndpoints(v *page.Visit) error {
	f := page.Filters{
		v.Choice("status", "status", "enabled", "paused", "disabled"),
		v.Choice("health", "health", failing, "healthy", "warned", "disabled"),
		v.Choice("circuit", "circuit", "open", "half_open", "closed"),
	}
	f = append(f, v.AccountFilter()...)
	ask := client.EndpointFilter{
		Account: v.Query("account"), Status: postrider.EndpointStatus(v.Query("status")),
		Circuit: postrider.CircuitStatus(v.Query("circuit")), Paging: v.Paging(),
	}
	switch health := v.Query("health"); health {
	case failing:
		ask.Failing = new(true)
	case string(postrider.Healthy):
		ask.Health, ask.Failing = postrider.Healthy, new(false)
	default:
		ask.Health = postrider.HealthStatus(health)
	}
	found, err := v.API.Endpoints(v.Context, ask)
	return page.ShowList(v, page.View{Name: "endpoints", Filters: f, Commands: []string{v.Command("endpoints list")}}, found, err)
}
