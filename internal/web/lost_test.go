package web_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/internal/web/page"
)

// A path that no page has keeps the menu of a person who is logged in, and shows nothing
// of it to others.
func TestAnUnknownPathKeepsTheMenu(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for _, test := range []struct {
		person, path string
		menu         bool
	}{
		{"operator", "/dashboard/nothing", true},
		{"viewer", "/dashboard/endpoints/x/y/z", true},
		{"customer", "/portal/nothing", true},
		{"customer", "/portal/accounts", true},
		{"customer", "/dashboard/nothing", false},
		{"operator", "/portal/nothing", false},
		{"nobody", "/dashboard/nothing", false},
		{"nobody", "/portal/nothing", false},
		{"operator", "/nothing", false},
	} {
		got := w.as(test.person, "GET "+test.path, nil)
		if got.status != http.StatusNotFound {
			t.Errorf("GET %s as %s = %d, want 404", test.path, test.person, got.status)
		}
		got.says(t, "Not found")
		if test.menu {
			got.says(t, `<header class="sidebar">`)
		} else {
			got.lacks(t, `<header class="sidebar">`)
		}
		checkHTML(t, got)
	}
}

// The first page of each audience is also found with a slash behind its path. Whatever else
// is in the URL, the browser stays at this server.
func TestASlashLeadsToTheFirstPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for path, want := range map[string]string{
		"/dashboard/": "/dashboard", "/portal/": "/portal", "/dashboard/?range=7d": "/dashboard?range=7d",
		"/portal/?//example.com": "/portal?//example.com",
	} {
		for _, person := range []string{"operator", "nobody"} {
			got := w.as(person, "GET "+path, nil)
			if to := got.header.Get("Location"); got.status != http.StatusPermanentRedirect || to != want {
				t.Errorf("GET %s as %s = %d to %q, want %q", path, person, got.status, to, want)
			}
		}
	}
	if got := w.as("operator", "GET /dashboard//example.com/", nil); strings.HasPrefix(got.header.Get("Location"), "//") {
		t.Errorf("a path with two slashes leads to %q", got.header.Get("Location"))
	}
}

// While the store is not open, every page is a 503 that says so, with its stylesheet.
func TestEveryPageSaysThatTheServerStarts(t *testing.T) {
	t.Parallel()
	starting := page.Starting(web.Options{})
	get := func(method, path, language string) response {
		r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
		r.Header.Set("Accept-Language", language)
		rec := httptest.NewRecorder()
		starting.ServeHTTP(rec, r)
		return response{status: rec.Code, header: rec.Header(), html: rec.Body.String()}
	}
	for _, route := range []string{"GET /", "GET /dashboard/endpoints", "GET /portal", "POST /login", "GET /portal/enter/code"} {
		method, path, _ := strings.Cut(route, " ")
		got := get(method, path, "en")
		if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" {
			t.Errorf("%s = %d with Retry-After %q, want 503", route, got.status, got.header.Get("Retry-After"))
		}
		got.says(t, "The server is starting")
		checkHTML(t, got)
	}
	get("GET", "/dashboard", "de").says(t, "Der Server startet")
	style := regexp.MustCompile(`/static/app\.[0-9a-f]+\.css`).FindString(get("GET", "/", "en").html)
	if got := get("GET", style, "en"); got.status != http.StatusOK {
		t.Errorf("GET %s = %d", style, got.status)
	}
}
