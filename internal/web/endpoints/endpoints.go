// Package endpoints has the pages of endpoints. The list shows all endpoints. The pages of one
// endpoint show what is sent now and why deliveries wait, its circuit, its secrets, test events,
// and a replay of the events that it missed.
package endpoints

import (
	"embed"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/web/page"
)

//go:embed *.html
var templates embed.FS

// Feature returns the pages of endpoints.
func Feature() page.Feature {
	return page.Feature{
		Templates: templates,
		Everyone: page.Routes{
			"GET /endpoints":                                     listEndpoints,
			"GET /endpoints/{endpoint}":                          showEndpoint,
			"GET /endpoints/{endpoint}/secrets":                  page.OfEndpoint(showSecrets),
			"POST /endpoints/{endpoint}/secrets":                 page.OfEndpoint(revealSecret),
			"GET /endpoints/{endpoint}/secrets/rotate":           page.OfEndpoint(showSecrets), // for people who reload a refused form
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
			"GET /endpoints/{endpoint}/why-not":                  page.OfEndpoint(showWhyNot),
			"GET /endpoints/{endpoint}/tests":                    page.OfEndpoint(showTests),
			"POST /endpoints/{endpoint}/tests":                   page.OfEndpoint(sendTest),
		},
	}
}

// failing is a choice of the filter by health. It selects endpoints whose last attempts failed in
// a row. Their stored health changes only hours later, so they may be healthy by it. A row of a
// failing endpoint does not say healthy, so the choice healthy leaves these endpoints out.
const failing = "failing"

// listEndpoints shows the endpoints with their states, newest first.
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
