package web_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

func TestAPausedEndpointSaysWhy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for reason, shown := range map[string]string{
		"moving to another region": "moving to another region",
		postrider.ReasonGone:       "it responded 410 Gone",
	} {
		e := w.endpoint(apitypes.EndpointCreate{})
		if _, err := w.admin.PauseEndpoint(t.Context(), e.ID, reason); err != nil {
			t.Fatal(err)
		}
		if page := w.see("operator", "/dashboard/endpoints/"+e.ID.String()); !strings.Contains(page.html, shown) {
			t.Errorf("paused because of %q, the page does not say %q", reason, shown)
		}
	}
}

func TestTheListOfEndpointsShowsAndFiltersHowTheyFare(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.endpoint(apitypes.EndpointCreate{URL: "https://fine.example/"})
	failing := w.endpoint(apitypes.EndpointCreate{URL: "https://failing.example/"})
	warned := w.endpoint(apitypes.EndpointCreate{URL: "https://warned.example/"})
	paused := w.endpoint(apitypes.EndpointCreate{URL: "https://paused.example/"})
	w.publish("order.created", `{}`)
	w.settle(warned.ID, postrider.Attempt{StatusCode: 200}, postrider.DefaultPolicy())
	w.settle(paused.ID, postrider.Attempt{StatusCode: 404}, postrider.Policy{ClientErrors: postrider.DeadLetterClientErrors})
	if _, err := w.store.FoldRollups(t.Context(), store.Fold{Deltas: 100}); err != nil {
		t.Fatal(err)
	}
	_, err := w.store.PutCircuit(t.Context(), store.PutCircuit{Circuit: postrider.Circuit{
		Endpoint: failing.ID, Status: postrider.CircuitClosed, FailingSince: time.Now().Add(-time.Hour),
	}})
	if err != nil {
		t.Fatal(err)
	}
	err = w.store.PutHealth(t.Context(), postrider.EndpointHealth{
		Endpoint: warned.ID, Account: warned.Account, Number: 1, Status: postrider.HealthWarned, Reason: postrider.ReasonFailing,
		Since: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.admin.PauseEndpoint(t.Context(), paused.ID, ""); err != nil {
		t.Fatal(err)
	}
	all := []string{"fine", "failing", "warned", "paused"}
	for query, want := range map[string]string{
		"": "fine failing warned paused", "?status=paused": "paused", "?health=warned": "warned", "?health=failing": "failing",
		"?circuit=open": "", "?health=healthy": "fine paused", "?circuit=closed&health=healthy&status=enabled": "fine",
	} {
		for person, base := range map[string]string{"operator": "/dashboard", "customer": "/portal"} {
			html := w.see(person, base+"/endpoints"+query).html
			var listed []string
			for _, name := range all {
				if strings.Contains(html, name+".example") {
					listed = append(listed, name)
				}
			}
			if got := strings.Join(listed, " "); got != want {
				t.Errorf("%s at %q is shown %q, want %q", person, query, got, want)
			}
		}
	}
	for person, path := range map[string]string{"operator": "/dashboard/accounts/acme", "customer": "/portal"} { // no column of successes
		if list := w.see(person, path).html; strings.Count(list, "one ended dead") != 1 {
			t.Errorf("%s does not say that one delivery died\n%s", path, list)
		}
	}
	w.see("operator", "/dashboard/endpoints?health=healthy").says(t, "endpoints list --failing=false --health=healthy<")
	html := w.see("operator", "/dashboard/endpoints?health=warned").html
	for _, text := range []string{"Warned", "100\u00a0%", `<option value="warned" selected>`} {
		if !strings.Contains(html, text) {
			t.Errorf("the row of the warned endpoint has no %q", text)
		}
	}
	got := w.see("operator", "/dashboard/endpoints?health=failing")
	got.says(t, "First failure", "</svg>Failing<", "<b>failing.example</b>", `title="https://failing.example/"`)
	got.lacks(t, "</svg>No warning<", "Sending normally")
	// Nobody says that an endpoint is healthy whose first failure is too young to be known.
	fine := w.see("operator", "/dashboard/endpoints?health=healthy")
	fine.says(t, "<b>fine.example</b>", `<span class="dot">Sending normally</span>`, `<option value="healthy" selected>No warning</option>`)
	fine.lacks(t, "Healthy", "</svg>Failing<")
	got = w.as("operator", "GET /dashboard/endpoints?health=bogus", nil)
	got.says(t, "This filter cannot be used", "<strong>Health</strong>")
	got.lacks(t, "Not saved")
	if got.status != http.StatusUnprocessableEntity {
		t.Errorf("a filter that is none = %d", got.status)
	}
}
