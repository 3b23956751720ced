package web_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

// hostile is in every field that a tenant or a receiver writes.
const hostile = `"'><script>alert(1)</script><img src=x onerror=alert(2)>{{.}}`

// state is a page in a state that the world of the test is brought into.
type state struct {
	name    string
	path    string // below the base of the audience; {endpoint} is the id of the world's endpoint
	people  string // who sees it
	prepare func(w *world, path string) string
	want    []string // texts that the English page has
}

// states lists the pages in all their states. A new page has its rows here.
var states = []state{
	{name: "overview of nothing", path: "", people: "operator viewer", want: []string{"Nothing needs attention"}},
	{name: "overview", path: "", people: "operator viewer", prepare: (*world).trouble, want: []string{"Circuit open", "The one that fails"}},
	{name: "no endpoints", path: "/endpoints", people: "operator customer viewer", want: []string{"No endpoints yet"}},
	{
		name: "endpoints", path: "/endpoints", people: "operator customer viewer", prepare: (*world).hostileEndpoint,
		want: []string{"Enabled", "Closed"},
	},
	{
		name: "an endpoint", path: "/endpoints/{endpoint}", people: "operator customer viewer", prepare: (*world).hostileEndpoint,
		want: []string{"Latest deliveries", "Requests are sent, but the latest was not accepted.", "waits for its retry"},
	},
	{
		name: "options", path: "/endpoints/{endpoint}/options", people: "operator customer viewer", prepare: (*world).hostileEndpoint,
		want: []string{"For a whole attempt", `value="10s"`},
	},
	{
		name: "a subscription to try", path: "/endpoints/{endpoint}/try", people: "operator customer viewer", prepare: (*world).hostileEndpoint,
		want: []string{"Of one event, 1 would be sent.", "One delivery waits. It is not touched."},
	},
	{
		name: "secrets", path: "/endpoints/{endpoint}/secrets", people: "operator customer viewer", prepare: (*world).hostileEndpoint,
		want: []string{"Signing secrets"},
	},
	{
		name: "delete an endpoint", path: "/endpoints/{endpoint}/delete", people: "operator customer", prepare: (*world).hostileEndpoint,
		want: []string{"Delete this endpoint?"},
	},
	{name: "a new endpoint", path: "/endpoints/new", people: "operator", want: []string{"Add endpoint"}},
	{name: "the first page of a new customer", path: "", people: "customer", want: []string{"Receive your first event", "Add an endpoint."}},
	{
		name: "the first page of a customer", path: "", people: "customer", prepare: (*world).hostileEndpoint,
		want: []string{"Did you get it?", "Your first delivery is on its way"},
	},
	{
		name: "the guided form", path: "/endpoints/new", people: "customer", prepare: (*world).hostileEndpoint,
		want: []string{"2. Which events?", "Latest example"},
	},
	{
		name: "the first steps of an endpoint", path: "/endpoints/{endpoint}/start", people: "operator customer viewer",
		prepare: (*world).hostileEndpoint, want: []string{"1. Keep the secret", "timingSafeEqual"},
	},
	{
		name: "snippets", path: "/endpoints/{endpoint}/snippets?code=python", people: "operator customer viewer",
		prepare: (*world).hostileEndpoint, want: []string{"hmac.compare_digest", "Webhook-Signature"},
	},
	{
		name: "test events", path: "/endpoints/{endpoint}/tests", people: "operator customer viewer", prepare: (*world).hostileEndpoint,
		want: []string{"No test event was sent"},
	},
	{
		name: "requests of an inspector", path: "/endpoints/{endpoint}/requests", people: "operator customer viewer",
		prepare: (*world).hostileInspector, want: []string{"Standard Webhooks: verifies", "Slack: does not verify"},
	},
	{
		name: "a request of an inspector", path: "/endpoints/{endpoint}/requests/{request}", people: "operator customer viewer",
		prepare: (*world).hostileInspector, want: []string{"About this request"},
	},
	{
		name: "an inspector", path: "/endpoints/{endpoint}", people: "operator customer", prepare: (*world).hostileInspector,
		want: []string{"<h1 class=\"long\">Inspector</h1>"},
	},
	{
		name: "what was missed", path: "/endpoints/{endpoint}/missed", people: "operator customer viewer", prepare: (*world).hostileEndpoint,
		want: []string{"Replay what was missed"},
	},
	{
		name: "nothing was missed", path: "/endpoints/{endpoint}/missed?from=2026-01-31T09:30&pace=50", people: "operator customer",
		prepare: (*world).hostileEndpoint, want: []string{"Nothing was missed since then"},
	},
	{
		name: "a test event", path: "/endpoints/{endpoint}/tests?event={event}", people: "operator customer viewer",
		prepare: (*world).hostileEndpoint, want: []string{"Attempt 1", "500", "&lt;html&gt;"},
	},
	{name: "filtered endpoints", path: "/endpoints?status=paused", people: "operator customer", want: []string{"Nothing matches"}},
}

// hostileEndpoint creates an endpoint whose texts are hostile, with an event whose
// receiver's response is hostile.
func (w *world) hostileEndpoint(path string) string {
	w.Helper()
	e := w.endpoint(apitypes.EndpointCreate{
		URL: "https://acme.example/hooks?x=" + url.QueryEscape(hostile) + hostile, Description: hostile, UID: hostile, EventTypes: []string{"*"},
	})
	receipt := w.publish("order.created", `{"text": "<script>alert(3)</script>"}`)
	w.settle(e.ID, postrider.Attempt{
		StatusCode: 500, Error: hostile, Duration: 83 * time.Millisecond,
		ResponseHead: []byte("HTTP/1.1 500 Oh\r\nX-Bad: " + hostile + "\r\n"), ResponseBody: []byte("<html>" + hostile),
		Timing: postrider.Timing{
			DNS: time.Millisecond, Connect: 10 * time.Millisecond, TLS: 20 * time.Millisecond,
			FirstByte: 50 * time.Millisecond,
		},
	}, postrider.DefaultPolicy())
	return w.fill(path, e, receipt)
}

// fill replaces the ids in a path.
func (w *world) fill(path string, e apitypes.Endpoint, event apitypes.Receipt) string {
	w.Helper()
	return strings.NewReplacer(
		"{endpoint}", e.ID.String(), "{event}", event.ID.String(), "{account}", w.account.ID.String(), "{delivery}",
		w.deliveryOf(event).ID.String(),
	).Replace(path)
}

// trouble opens the circuit of an endpoint that fails.
func (w *world) trouble(path string) string {
	path = w.hostileEndpoint(path)
	found, err := w.admin.Endpoints(w.Context(), client.EndpointFilter{})
	if err != nil {
		w.Fatal(err)
	}
	c := postrider.Circuit{
		Endpoint: found.Data[0].ID, Status: postrider.CircuitOpen, FailingSince: time.Now().Add(-time.Hour), ProbeAt: time.Now().Add(time.Minute),
	}
	if _, err := w.store.PutCircuit(w.Context(), store.PutCircuit{Circuit: c}); err != nil {
		w.Fatal(err)
	}
	return path
}

func TestPages(t *testing.T) {
	t.Parallel()
	for _, s := range slices.Concat(states, ledgerStates, replayStates, auditStates, noticeStates, destinationStates, archiveStates,
		tailStates, whyNotStates, sourceStates) {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, web.Options{})
			path := s.path
			if s.prepare != nil {
				path = s.prepare(w, path)
			}
			for person := range strings.FieldsSeq(s.people) {
				base := "/dashboard"
				if person == "customer" {
					base = "/portal"
				}
				for _, language := range []string{"en", "de"} {
					got := w.as(person, "GET "+base+path, nil, &http.Cookie{Name: "postrider-language", Value: language})
					if got.status != http.StatusOK {
						t.Fatalf("%s as %s in %s = %d\n%s", path, person, language, got.status, got.html)
					}
					checkHTML(t, got)
					for _, text := range s.want {
						if language == "en" && !strings.Contains(got.html, text) {
							t.Errorf("%s as %s does not say %q\n%s", path, person, text, got.html)
						}
					}
				}
			}
		})
	}
}

var (
	inline = regexp.MustCompile(`(?i)<[^>]*\s(style|on[a-z]+)\s*=\s*["'][^>]*>`)
	// script is any script but the one of the layout.
	script = regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|javascript:`)
)

// checkHTML checks what holds for every page.
func checkHTML(t *testing.T, p response) {
	t.Helper()
	for _, found := range append(inline.FindAllString(p.html, -1), script.FindAllString(p.html, -1)...) {
		t.Errorf("the page has inline code: %s", found)
	}
	for _, raw := range []string{"<script>", "<img src=x", "&amp;lt;", "ZgotmplZ", "<no value>", "{{"} {
		if i := strings.Index(strings.ReplaceAll(p.html, "{{.}}", ""), raw); i >= 0 {
			t.Errorf("the page has %s: …%s…", raw, p.html[max(0, i-80):min(len(p.html), i+80)])
		}
	}
	csp := p.header.Get("Content-Security-Policy")
	for _, part := range []string{
		"default-src 'none'", "script-src 'self';", "style-src 'self';", "frame-ancestors 'none'",
		"base-uri 'none'",
	} {
		if !strings.Contains(csp, part) {
			t.Errorf("the policy %q lacks %s", csp, part)
		}
	}
	if got := p.header.Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control = %q", got)
	}
	if n := strings.Count(p.html, "<h1"); n != 1 {
		t.Errorf("the page has %d headings of the first level", n)
	}
	checkIDs(t, p.html)
}

var idAttribute = regexp.MustCompile(`\sid="([^"]*)"`)

// checkIDs wants every id once.
func checkIDs(t *testing.T, html string) {
	t.Helper()
	seen := map[string]bool{}
	for _, id := range idAttribute.FindAllStringSubmatch(html, -1) {
		if seen[id[1]] {
			t.Errorf("the id %s is there twice", id[1])
		}
		seen[id[1]] = true
	}
}

func TestPagesNeedASession(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	fill := regexp.MustCompile(`\{[a-z_]+\}`)
	for _, pattern := range w.web.Patterns {
		method, path, _ := strings.Cut(fill.ReplaceAllString(pattern, "x"), " ")
		if !strings.HasPrefix(path, "/dashboard") && (!strings.HasPrefix(path, "/portal") || strings.HasPrefix(path, "/portal/enter") ||
			strings.HasPrefix(path, "/portal/brand")) {
			continue
		}
		for _, person := range []string{"nobody", ""} {
			got := w.as(person, method+" "+path, nil)
			switch {
			case strings.HasPrefix(path, "/dashboard"):
				if got.status != http.StatusSeeOther || !strings.HasPrefix(got.header.Get("Location"), "/login?next=") {
					t.Errorf("%s %s without a session = %d to %s", method, path, got.status, got.header.Get("Location"))
				}
			case got.status != http.StatusUnauthorized:
				t.Errorf("%s %s without a session = %d", method, path, got.status)
			}
		}
		if other := map[bool]string{true: "customer", false: "operator"}[strings.HasPrefix(path, "/dashboard")]; true {
			if got := w.as(other, method+" "+path, nil); got.status != http.StatusSeeOther && got.status != http.StatusUnauthorized {
				t.Errorf("%s %s as %s = %d", method, path, other, got.status)
			}
		}
	}
}

func TestFormsOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for _, header := range []map[string]string{
		{"Sec-Fetch-Site": "cross-site"},
		{"Sec-Fetch-Site": "same-site"},
		{"Origin": "https://evil.example"},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/dashboard/preferences",
			strings.NewReader("language=de"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		for name, value := range header {
			r.Header.Set(name, value)
		}
		r.AddCookie(&http.Cookie{Name: "postrider-dashboard", Value: "operator"})
		if got := w.send(r); got.status != http.StatusForbidden {
			t.Errorf("a form with %v = %d, want 403", header, got.status)
		}
	}
}

func TestLogin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	checkHTML(t, w.see("nobody", "/login"))
	for key, status := range map[string]int{"wrong": 403, "too often": 429} {
		got := w.as("nobody", "POST /login", url.Values{"key": {key}})
		if got.status != status || !strings.Contains(got.html, `role="alert"`) {
			t.Errorf("login with the key %q = %d", key, got.status)
		}
	}
	for next, want := range map[string]string{
		"/dashboard/endpoints?status=paused": "/dashboard/endpoints?status=paused",
		"https://evil.example/":              "/dashboard", "//evil.example": "/dashboard", "/dashboardevil": "/dashboard",
		`/\evil`:                      "/dashboard",
		`/dashboard/../\evil.example`: "/dashboard", "/dashboard/..//evil.example": "/dashboard",
		"/dashboard/%2e%2e/%5cevil.example": "/dashboard",
		"/dashboard//evil.example":          "/dashboard", `/dashboard\..\\evil.example`: "/dashboard", "/dashboard/./x": "/dashboard",
	} {
		got := w.as("nobody", "POST /login", url.Values{"key": {"key of operator"}, "next": {next}})
		if got.status != http.StatusSeeOther || got.header.Get("Location") != want {
			t.Errorf("login for %s leads to %q, want %q", next, got.header.Get("Location"), want)
		}
		if c := got.cookie[0]; c.Name != "postrider-dashboard" || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" {
			t.Errorf("the session cookie is %v", c)
		}
	}
	if got := w.as("operator", "POST /logout", url.Values{"from": {"/dashboard"}}); got.header.Get("Location") != "/login" ||
		got.cookie[0].MaxAge >= 0 {
		t.Errorf("logout = %d to %s with %v", got.status, got.header.Get("Location"), got.cookie)
	}
	if got := w.as("operator", "GET /dashboard/endpoints", nil); got.status != http.StatusSeeOther {
		t.Errorf("a page after the logout = %d", got.status)
	}
}

// A login over plain HTTP from another machine would send the key as plain text, and
// browsers would not keep the cookie.
func TestLoginNeedsHTTPS(t *testing.T) {
	t.Parallel()
	for origin, secure := range map[string]bool{"http://hooks.example": false, "https://hooks.example": true} {
		w := newWorld(t, web.Options{})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://hooks.example/login", strings.NewReader("key=key+of+operator"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", origin)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		got := w.send(r)
		switch {
		case !secure && got.status != http.StatusForbidden:
			t.Errorf("login over %s = %d", origin, got.status)
		case secure && (got.status != http.StatusSeeOther || got.cookie[0].Name != "__Host-postrider-dashboard" || !got.cookie[0].Secure):
			t.Errorf("login over %s = %d with %v", origin, got.status, got.cookie)
		}
	}
}

func TestTheClientBehindATrustedProxyIsKnown(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")}
	for _, tt := range []struct {
		connection, forwarded, want string
	}{
		{"127.0.0.1:4711", "203.0.113.7", "203.0.113.7"},
		{"127.0.0.1:4711", "198.51.100.1, 203.0.113.7,10.1.2.3", "203.0.113.7"}, // the client wrote the first
		{"127.0.0.1:4711", "2001:db8::7", "2001:db8::7"},
		{"127.0.0.1:4711", "10.0.0.1, 10.0.0.2", "10.0.0.1"},
		{"127.0.0.1:4711", "", "127.0.0.1"},
		{"127.0.0.1:4711", "203.0.113.7, unknown", "127.0.0.1"},
		{"192.0.2.1:4711", "203.0.113.7", "192.0.2.1"}, // no trusted proxy
	} {
		w := newWorld(t, web.Options{TrustedProxies: proxies})
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/login", strings.NewReader("key=wrong"))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("X-Forwarded-For", tt.forwarded)
		r.RemoteAddr = tt.connection
		w.send(r)
		if w.sessions.from.String() != tt.want {
			t.Errorf("%s through %s comes from %s, want %s", tt.forwarded, tt.connection, w.sessions.from, tt.want)
		}
	}
}

// Behind a proxy that ends TLS, a session cookie without __Host- is one that another host of the
// domain has planted, so that a person works in the session of somebody else.
func TestAPlantedSessionCookieIsIgnored(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for cookie, status := range map[string]int{"postrider-dashboard": http.StatusSeeOther, "__Host-postrider-dashboard": http.StatusOK} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://hooks.example/dashboard/endpoints", nil)
		r.AddCookie(&http.Cookie{Name: cookie, Value: "operator"})
		if got := w.send(r); got.status != status {
			t.Errorf("a page with the cookie %s = %d, want %d", cookie, got.status, status)
		}
	}
}

func TestPortalLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{PublicURL: "https://hooks.example"})
	s := w.sessions.of["customer"]
	s.Embedded = true
	w.sessions.of["customer"] = s
	if err := w.store.PutPortal(t.Context(), postrider.Portal{FrameOrigins: []string{"https://app.example"}}); err != nil {
		t.Fatal(err)
	}
	const link = "/portal/enter/code-of-customer"
	for range 2 { // a scanner of mails opens it, too
		got := w.see("nobody", link)
		if csp := got.header.Get("Content-Security-Policy"); !strings.HasSuffix(csp, "frame-ancestors https://app.example") {
			t.Errorf("the policy is %q", csp)
		}
	}
	got := w.as("nobody", "POST "+link, nil)
	if got.status != http.StatusSeeOther || got.header.Get("Location") != "/portal" {
		t.Fatalf("the button = %d to %s", got.status, got.header.Get("Location"))
	}
	if c := got.cookie[0]; c.Name != "__Host-postrider-portal" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteNoneMode ||
		!c.Partitioned {
		t.Errorf("the cookie of an embedded session is %v", c)
	}
	for _, again := range []string{"GET ", "POST "} {
		if got := w.as("nobody", again+link, nil); got.status != http.StatusGone {
			t.Errorf("%s of a used link = %d", again, got.status)
		}
	}
}

func TestDatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	w.sessions.fail = postrider.ErrBusy
	got := w.as("operator", "GET /dashboard/endpoints?status=paused", nil)
	if got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") == "" ||
		!strings.Contains(got.html, `href="/dashboard/endpoints?status=paused"`) {
		t.Errorf("a page = %d\n%s", got.status, got.html)
	}
	checkHTML(t, got)
	login := w.as("nobody", "POST /login", url.Values{"key": {"key of operator"}})
	if login.status != http.StatusServiceUnavailable || strings.Contains(login.html, "Too many tries") {
		t.Errorf("a login = %d\n%s", login.status, login.html)
	}
}

func TestUnknownPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	for _, path := range []string{"/dashboard/nothing", "/portal/nothing", "/nothing"} {
		got := w.as("operator", "GET "+path, nil)
		if got.status != http.StatusNotFound {
			t.Errorf("GET %s = %d", path, got.status)
		}
		checkHTML(t, got)
	}
}

func TestPreferences(t *testing.T) {
	t.Parallel()
	w := newWorld(t, web.Options{})
	got := w.submit("operator", "/dashboard/preferences",
		url.Values{"language": {"de"}, "zone": {"Europe/Berlin"}, "back": {"/dashboard/endpoints"}})
	if !strings.Contains(got.html, "Zeiten sind jetzt in Europe/Berlin") || !strings.Contains(got.html, `<html lang="de"`) {
		t.Errorf("the page after the choice is %s", got.html)
	}
}

// Every language has every text, and no more.
func TestCataloguesAreComplete(t *testing.T) {
	t.Parallel()
	catalogues := newWorld(t, web.Options{}).web.Catalogues()
	for language, keys := range catalogues {
		for _, key := range catalogues["en"] {
			if !slices.Contains(keys, key) {
				t.Errorf("%s.json lacks %s", language, key)
			}
		}
		for _, key := range keys {
			if !slices.Contains(catalogues["en"], key) {
				t.Errorf("%s.json has %s, en.json does not", language, key)
			}
		}
		text, err := os.ReadFile("text/" + language + ".json")
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^  "([^"]+)"`).FindAllStringSubmatch(string(text), -1)
		for i := 1; i < len(found); i++ {
			if found[i-1][1] >= found[i][1] {
				t.Errorf("%s.json: %s must come before %s", language, found[i][1], found[i-1][1])
			}
		}
	}
}
