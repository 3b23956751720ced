package web_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web"
)

// TestOnlyThePageOfAFormShowsItsMessage lets other tabs load their pages, and renew
// theirs, between a form and the page that it leads to.
func TestOnlyThePageOfAFormShowsItsMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	e := w.endpoint(apitypes.EndpointCreate{})
	const message = "The endpoint is paused. Its deliveries wait."
	form := w.as("operator", "POST /dashboard/endpoints/"+e.ID.String()+"/pause", nil)
	get := func(path string, header http.Header) response {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost"+path, nil)
		r.AddCookie(&http.Cookie{Name: "postrider-dashboard", Value: "operator"})
		for _, c := range form.cookie {
			r.AddCookie(c)
		}
		maps.Copy(r.Header, header)
		return w.send(r)
	}
	leads := form.header.Get("Location")
	for name, other := range map[string]response{
		"the page of another tab":             get("/dashboard/endpoints", nil),
		"the same page, which renews itself,": get(leads, http.Header{"Postrider-Renewal": {"yes"}}),
	} {
		if other.status != http.StatusOK || strings.Contains(other.html, message) {
			t.Errorf("%s is %d and shows the message of the form", name, other.status)
		}
		for _, c := range other.cookie {
			if strings.Contains(c.Name, "flash") {
				t.Errorf("%s takes the message of the form", name)
			}
		}
	}
	got := get(leads, nil)
	says(t, got, message)
	if len(got.cookie) != 1 || got.cookie[0].MaxAge >= 0 {
		t.Errorf("the page of the form sets the cookies %v, want the message deleted", got.cookie)
	}
}
