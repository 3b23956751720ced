package web_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	apiendpoints "github.com/postrider/postrider/internal/api/endpoints"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/internal/web/page"
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

// late is an API whose changes are not in effect yet on one server.
type late struct{ next http.RoundTripper }

func (l late) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodPost {
		response.Header.Set("Not-Yet-Effective", apitypes.NotEffective{Servers: []string{"node-2"}, Until: time.Now()}.Header())
	}
	return response, err
}

// The page that says so is the one that the form leads to, or the response to the form itself.
func TestAFormSaysWhereItsChangeIsNotInEffectYet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.maker()
	w.web = web.New(web.Deps{Deps: page.Deps{
		API:      func(c postrider.Caller) http.RoundTripper { return late{w.api.As(c)} },
		Sessions: w.sessions, Standard: apiendpoints.StandardPolicy(),
	}}, web.Options{})
	path := "/portal/endpoints/" + w.endpoint(apitypes.EndpointCreate{}).ID.String() + "/secrets/rotate"
	form := url.Values{"overlap_ms": {"0"}, "confirmed": {"yes"}}
	const where = "node-2 may still act as before"
	w.submit("customer", path, form).says(t, where)
	w.as("maker", "POST "+path, form).says(t, "whsec_", where)
}
