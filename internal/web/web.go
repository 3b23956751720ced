// Package web serves the pages: the operator's dashboard under /dashboard, the
// customer's portal under /portal, and the login.
//
// The pages are a client of the REST API, inside the process. A handler asks the
// API through package client, as the person of the session, and renders what it
// gets. So validation, authorization, the audit and the separation of accounts
// exist once, in package api, and no page can show what the API would refuse.
//
// To add a page:
//
//  1. Add its routes to the list of its file (see endpointRoutes) and that list
//     to [Handler].routes. The path is below the base of each audience.
//  2. Write the handler, func(*visit) error. It calls v.api and ends with v.show,
//     for a page, or with v.done, for a form. It returns the errors of the API as
//     they are; they become error pages. A form shows the faults of its fields
//     itself: see v.faulty.
//  3. Write templates/NAME.html with {{define "NAME"}}. It gets the data of the
//     page as dot. The functions of view.go give it the rest: {{t "key"}} for every
//     text, {{path "endpoints" .ID}} for every link, {{time .CreatedAt}} for every
//     time. The partials of templates/parts.html are a head, filters, a pager, key
//     and value, badges, forms.
//  4. Add its texts to text/en.json and text/de.json, sorted by key.
//  5. Add its state to the table of pages_test.go, which checks every page alike.
//
// Every page works without JavaScript: forms POST, do what they say, and redirect
// to a page that says what was done. app.js only enhances: it swaps <main> instead
// of loading a page, and reloads the elements with data-live when something has
// happened.
package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// Deps has the parts that the pages depend on.
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
	// Identity logs operators in by an identity provider. nil: there is none.
	Identity Identity
	// Standard has the options of an endpoint that was created without any, as the API
	// shows them.
	Standard apitypes.Policy
	// Now returns the store's time of day, of which the times of pages are so long ago.
	// nil: this machine's.
	Now func() time.Time
	// Readers acts on the links in emails.
	Readers Readers
	// Brand has the look of the portal. nil: the standard one.
	Brand Branding
	// Live hands out the attempts that are settled. nil: there is no live tail, and pages do
	// not renew themselves.
	Live Live
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

// Handler serves all pages. It is safe for concurrent use.
type Handler struct {
	Deps
	opts     Options
	https    bool // PublicURL is an https URL
	texts    *texts
	pages    *renderers
	assets   assets
	brands   brands
	streams  *streams
	tails    tails
	brief    *briefCache
	handler  http.Handler
	patterns []string // of mux, for tests
}

// New returns the handler of all pages. It panics if a template or a catalogue of
// texts cannot be parsed, since both are parts of the program.
func New(deps Deps, opts Options) *Handler {
	h := &Handler{
		Deps: deps, opts: opts.withDefaults(), texts: newTexts(), assets: newAssets(),
		streams: newStreams(), tails: tails{of: map[tailKey]*tail{}}, brief: &briefCache{answers: map[string]*briefAnswer{}},
	}
	if h.Now == nil {
		h.Now = time.Now
	}
	at, err := url.Parse(h.opts.PublicURL)
	h.brands.from = deps.Brand
	h.https = err == nil && at.Scheme == "https"
	h.pages = newRenderers(h.assets)
	h.handler = h.guard(h.mux())
	return h
}

// Starting returns the handler of all pages until the store is open: every page is a 503
// that says so.
func Starting(opts Options) http.Handler {
	h := New(Deps{}, opts)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /static/{file}", h.assets.serve)
	mux.HandleFunc("/", h.inPublic(func(*visit) error { return errStarting }))
	h.handler = h.guard(mux)
	return h
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.handler.ServeHTTP(w, r) }

// audience says who has a page: the operators of the server, or the customers
// that a portal session is for.
type audience uint8

const (
	operators audience = 1 << iota
	customers

	everyone = operators | customers
)

// base returns the path that all pages of one audience are below.
func (a audience) base() string {
	if a == customers {
		return "/portal"
	}
	return "/dashboard"
}

// route is a page or a form.
type route struct {
	// pattern is the method and the path below the base of the audience.
	pattern string
	who     audience
	// handle serves a request of a person who is logged in.
	handle func(*visit) error
}

// routes lists the pages and forms that need a session.
func (h *Handler) routes() []route {
	lists := [][]route{
		overviewRoutes(),
		endpointRoutes(),
		searchRoutes(),
		eventRoutes(),
		deliveryRoutes(),
		deadLetterRoutes(),
		replayRoutes(),
		accountRoutes(),
		eventTypeRoutes(),
		keyRoutes(),
		archiveRoutes(),
		noticeRoutes(),
		destinationRoutes(),
		auditRoutes(),
		tailRoutes(),
		portalRoutes(),
		startRoutes(),
		missedRoutes(),
		inspectorRoutes(),
		preferenceRoutes(),
		liveRoutes(),
	}
	var all []route
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

// mux returns the routes of all pages.
func (h *Handler) mux() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, handler http.HandlerFunc) {
		h.patterns = append(h.patterns, pattern)
		mux.HandleFunc(pattern, handler)
	}
	for _, r := range h.routes() {
		method, path, _ := strings.Cut(r.pattern, " ")
		for _, who := range []audience{operators, customers} {
			if r.who&who != 0 {
				handle(method+" "+strings.TrimSuffix(who.base()+path, "/"), h.inSession(who, r.handle))
			}
		}
	}
	for _, r := range slices.Concat(h.publicRoutes(), readerRoutes(), h.identityRoutes()) {
		handle(r.pattern, h.inPublic(r.handle))
	}
	handle("GET /static/{file}", h.assets.serve)
	handle("GET /portal/brand/{file}", h.serveBrand)
	handle("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, operators.base(), http.StatusSeeOther)
	})
	for _, who := range []audience{operators, customers} {
		mux.HandleFunc("GET "+who.base()+"/{$}", func(w http.ResponseWriter, r *http.Request) {
			to := url.URL{Path: who.base(), RawQuery: r.URL.RawQuery} // people add the slash by hand
			http.Redirect(w, r, to.String(), http.StatusPermanentRedirect)
		})
		mux.HandleFunc(who.base()+"/", h.serve(who, func(v *visit) error { return v.lost() }))
	}
	mux.HandleFunc("/", h.inPublic(func(*visit) error { return errNoPage }))
	return mux
}
