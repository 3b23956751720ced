package web_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

// TestARangeOfAYearWorksInEveryZone opens the longest range, whose days are kept for UTC
// alone.
func TestARangeOfAYearWorksInEveryZone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for _, zone := range []string{"UTC", "Europe/Berlin"} {
		for _, length := range []string{"1h", "24h", "7d", "30d", "1y"} {
			got := w.as("operator", "GET /dashboard?range="+length, nil, &http.Cookie{Name: "postrider-zone", Value: zone})
			if got.status != http.StatusOK {
				t.Errorf("%s in %s = %d", length, zone, got.status)
			}
			if said := strings.Contains(got.html, "The days are UTC days"); said != (length == "1y" && zone != "UTC") {
				t.Errorf("%s in %s says that days are UTC days: %t", length, zone, said)
			}
		}
	}
}

// TestTheTimesOfAChartLeadToTheirDeliveries looks for the links of charts: those of pages of an
// account and an endpoint keep to it, and a chart with too many times to point at has them in
// its table alone.
// The clock of the test stands at a full hour, of which everything is.
func TestTheTimesOfAChartLeadToTheirDeliveries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, web.Options{})
		e, _ := w.dead()
		if _, err := w.store.FoldRollups(t.Context(), store.Fold{Deltas: 100}); err != nil {
			t.Fatal(err)
		}
		from := time.Now().UTC().Truncate(time.Hour)
		span := "from=" + url.QueryEscape(from.Format("2006-01-02T15:04")) + "&amp;to=" +
			url.QueryEscape(from.Add(time.Hour).Format("2006-01-02T15:04"))
		for path, of := range map[string]string{
			"/dashboard": "", "/dashboard/accounts/acme": "account=" + w.account.ID.String() + "&amp;",
			"/dashboard/endpoints/" + e.ID.String(): "endpoint=" + e.ID.String() + "&amp;",
		} {
			link := `href="/dashboard/deliveries?` + of + span + `"`
			got := w.see("operator", path)
			got.says(t, link, `<a class="figures" `+link, "Failed attempts: 1, Dead letters: 1")
			year := w.see("operator", path+"?range=1y")
			year.says(t, `<a class="figures" `)
			year.lacks(t, `class="hits"`)
		}
	})
}
