package web_test

import (
	"net/http"
	"strings"
	"testing"

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
