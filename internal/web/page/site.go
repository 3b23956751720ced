package page

import (
	"cmp"
	"context"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/text"
)

// Deps has the parts that all pages depend on.
type Deps struct {
	// API returns a transport that calls the REST API in this process, as the
	// caller.
	API func(postrider.Caller) http.RoundTripper
	// Share waits until a page of the caller may read and render. The returned function ends
	// the page's turn; the calls of the API with the returned context are a part of it. The
	// error matches [postrider.ErrTooManyReads]. nil: no page waits.
	Share func(context.Context, postrider.Caller) (context.Context, func(), error)
	// Sessions logs people in and out.
	Sessions Sessions
	// Standard has the options of an endpoint that was created without any, as the API
	// shows them.
	Standard apitypes.Policy
	// Now returns the store's time of day, of which the times of pages are so long ago.
	// nil: this machine's.
	Now func() time.Time
	// Brand has the look of the portal. nil: the standard one.
	Brand Branding
}

// Options tunes the pages. The zero value is the default.
type Options struct {
	// PublicURL is the URL of the server, as people reach it. If it is an https
	// URL, all cookies are Secure. Empty: unknown.
	PublicURL string
	// AllowHTTP says that endpoints may have http URLs, too, so that forms say so.
	AllowHTTP bool
	// Emails says that notices can be sent by email: there is a mail server, and a public URL
	// for the links.
	Emails bool
	// TrustedProxies are the networks of proxies whose X-Forwarded-For is believed.
	TrustedProxies []netip.Prefix
	// PageTime is the time limit for the calls of the API that one page makes.
	// After it the response is a 503. Default 10 s.
	PageTime time.Duration
	// Version is shown in the footer. Empty: none.
	Version string
	// Log receives one line for each request. Default: discard.
	Log *slog.Logger
}

// withDefaults replaces the zero fields by their defaults.
func (o Options) withDefaults() Options {
	o.PageTime = cmp.Or(o.PageTime, 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Feature is a part of the site: its pages and forms, with their templates.
type Feature struct {
	// Templates has the templates of the pages, as files that end with .html.
	Templates fs.FS
	// Functions are the functions that only these templates need, beside those of functions.go.
	Functions template.FuncMap
	// The pages and forms, by who has them: people with a session of the dashboard, with one of
	// the portal or with either, and people without a session. The path of a public page is
	// whole; other paths are below the base of each audience.
	Operators, Customers, Everyone, Public Routes
}

// Routes are pages and forms, by their methods and paths. A handler serves one request. An error of
// the API is returned as it is, and becomes an error page.
type Routes map[string]func(*Visit) error

// Site serves the pages of all features. It is safe for concurrent use.
type Site struct {
	Deps
	Options Options
	Texts   *text.Texts
	// Patterns are the sorted routes of all pages.
	Patterns []string

	https   bool // PublicURL is an https URL
	pages   *renderers
	assets  assets
	brands  brands
	brief   *briefCache
	handler http.Handler
}

// New returns the site of the features. It panics if a template or a catalogue of texts cannot
// be parsed, since both are parts of the program.
func New(deps Deps, opts Options, features ...Feature) *Site {
	h := &Site{
		Deps: deps, Options: opts.withDefaults(), Texts: text.New(), assets: newAssets(),
		brands: brands{from: deps.Brand}, brief: &briefCache{answers: map[string]*briefAnswer{}},
	}
	if h.Now == nil {
		h.Now = time.Now
	}
	at, err := url.Parse(h.Options.PublicURL)
	h.https = err == nil && at.Scheme == "https"
	h.pages = newRenderers(h.assets, features)
	h.handler = h.guard(h.mux(features))
	return h
}

// Starting returns the site until the store is open: every page is a 503 that says so.
func Starting(opts Options) http.Handler {
	h := New(Deps{}, opts)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{file}", h.assets.serve)
	mux.HandleFunc("/", h.serve(0, func(*Visit) error { return errStarting }))
	h.handler = h.guard(mux)
	return h
}

// ServeHTTP serves one request.
func (h *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.handler.ServeHTTP(w, r) }

// Audience says who has a page: the operators of the server, or the customers
// that a portal session is for.
type Audience uint8

// The audiences.
const (
	Operators Audience = 1 << iota
	Customers
)

// Base returns the path that all pages of one audience are below.
func (a Audience) Base() string {
	if a == Customers {
		return "/portal"
	}
	return "/dashboard"
}

// mux returns the routes of all pages.
func (h *Site) mux(features []Feature) http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, handler http.HandlerFunc) {
		h.Patterns = append(h.Patterns, pattern)
		mux.HandleFunc(pattern, handler)
	}
	below := func(who Audience, routes Routes) {
		for pattern, serve := range routes {
			method, path, _ := strings.Cut(pattern, " ")
			handle(method+" "+strings.TrimSuffix(who.Base()+path, "/"), h.inSession(who, serve))
		}
	}
	for _, f := range features {
		below(Operators, f.Operators)
		below(Operators, f.Everyone)
		below(Customers, f.Customers)
		below(Customers, f.Everyone)
		for pattern, serve := range f.Public {
			handle(pattern, h.serve(0, serve))
		}
	}
	handle("GET /static/{file}", h.assets.serve)
	handle("GET /portal/brand/{file}", h.serveBrand)
	handle("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, Operators.Base(), http.StatusSeeOther)
	})
	for _, who := range []Audience{Operators, Customers} {
		mux.HandleFunc("GET "+who.Base()+"/{$}", func(w http.ResponseWriter, r *http.Request) {
			to := url.URL{Path: who.Base(), RawQuery: r.URL.RawQuery} // people add the slash by hand
			http.Redirect(w, r, to.String(), http.StatusPermanentRedirect)
		})
		mux.HandleFunc(who.Base()+"/", h.serve(who, func(v *Visit) error { return h.lost(v) }))
	}
	mux.HandleFunc("/", h.serve(0, func(*Visit) error { return ErrNoPage }))
	slices.Sort(h.Patterns)
	return mux
}
