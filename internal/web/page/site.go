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
	// API returns a transport that calls the REST API in this process as the caller.
	API func(postrider.Caller) http.RoundTripper
	// Share waits until a page of the caller may read and render. The returned function ends the
	// page's turn. Calls of the API with the returned context belong to the turn. The error
	// matches [postrider.ErrTooManyReads]. Nil: no page waits.
	Share func(context.Context, postrider.Caller) (context.Context, func(), error)
	// Sessions logs people in and out.
	Sessions Sessions
	// Standard has the default options of an endpoint, in the form of the API.
	Standard apitypes.Policy
	// Now returns the time of the store's clock; pages show times relative to it. Nil: the clock
	// of this machine.
	Now func() time.Time
	// Brand has the look of the portal. Nil: the standard look.
	Brand Branding
}

// Options tunes the pages. The zero value is the default.
type Options struct {
	// PublicURL is the URL under which people reach the server. If it is an https URL, all
	// cookies are Secure. Empty: unknown.
	PublicURL string
	// AllowHTTP means that endpoints may have http URLs; forms then say so.
	AllowHTTP bool
	// Emails means that notices can be sent by email, because there is a mail server, and a
	// public URL for the links.
	Emails bool
	// TrustedProxies are the networks of the proxies whose X-Forwarded-For is trusted.
	TrustedProxies []netip.Prefix
	// PageTime limits the calls of the API that one page makes. After this time the response is a
	// 503. Default 10 s.
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
	// Functions are template functions for these templates only, besides those of functions.go.
	Functions template.FuncMap
	// Routes by audience: people with a session of the dashboard (Operators), of the portal
	// (Customers) or of either (Everyone), and people without a session (Public). The path of a
	// public page is whole; other paths are below the base of each audience.
	Operators, Customers, Everyone, Public Routes
}

// Routes has the handlers of pages and forms, by method and path. A handler serves one request.
// It returns an error of the API unchanged; the error becomes an error page.
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

// Starting returns the handler until the store is open. Every page is a 503 that says so.
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

// Audience is the group of people who may open a page: the operators of the server, or the
// customers with a portal session.
type Audience uint8

// The audiences.
const (
	Operators Audience = 1 << iota
	Customers
)

// Base returns the path above all pages of one audience.
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
			to := url.URL{Path: who.Base(), RawQuery: r.URL.RawQuery} // people type the slash by hand
			http.Redirect(w, r, to.String(), http.StatusPermanentRedirect)
		})
		mux.HandleFunc(who.Base()+"/", h.serve(who, func(v *Visit) error { return h.lost(v) }))
	}
	mux.HandleFunc("/", h.serve(0, func(*Visit) error { return ErrNoPage }))
	slices.Sort(h.Patterns)
	return mux
}
