// Package web serves the pages: the operator's dashboard under /dashboard, the customer's portal
// under /portal, and the login.
//
// The pages are a client of the REST API, inside the process. A handler calls the API through
// package client, as the person of the session, and renders the response. So validation,
// authorization, the audit and the separation of accounts exist once, in package api, and a page
// shows only what the API allows.
//
// Package page has the parts that all pages share, and package text has the languages. Packages
// payload and traffic are parts of several pages. Each feature is a folder with its handlers, its
// forms and its templates. A feature imports no other feature.
//
// To add a page:
//
//  1. Find the folder of its feature. For a new feature, copy a small folder such as audit, list its
//     Feature in [New], and add it to navigation in page/layout.go, with an icon in page/icons.go and
//     the text nav.NAME. If the API has no route for what the page shows, add the route first; see
//     ARCHITECTURE.md.
//  2. Add its route to Feature. The path is below the base of each audience.
//  3. Write the handler, func(*page.Visit) error. The handler calls v.API. It ends with v.Show for a
//     page, or with v.Done for a form. It returns errors of the API unchanged; they become error
//     pages. A form shows the faults of its fields itself: see v.Faulty.
//  4. Write {{define "NAME"}} in an HTML file of the folder. NAME is a name of navigation, or such a
//     name, a dash and the page: api_keys-new. The template gets the data of the page as dot, and the
//     functions of page/functions.go: {{t "key"}} for every text, {{path "endpoints" .ID}} for every
//     link, {{time .CreatedAt}} for every time. The partials of page/templates are a head, filters, a
//     pager, key and value, badges, forms.
//  5. Add its texts to text/en.json and text/de.json, sorted by key. The text NAME.title is its title.
//  6. Add its state to one of the tables that TestPages in pages_test.go joins. TestPages checks every
//     page in the same way.
//
// Every page works without JavaScript: a form sends a POST, and the response redirects to a page
// that says what was done. app.js only enhances pages: it swaps <main> instead of loading a page,
// and reloads the elements with data-live when an attempt was settled.
package web

import (
	"github.com/postrider/postrider/internal/web/access"
	"github.com/postrider/postrider/internal/web/accounts"
	"github.com/postrider/postrider/internal/web/archive"
	"github.com/postrider/postrider/internal/web/audit"
	"github.com/postrider/postrider/internal/web/deliveries"
	"github.com/postrider/postrider/internal/web/endpoints"
	"github.com/postrider/postrider/internal/web/events"
	"github.com/postrider/postrider/internal/web/home"
	"github.com/postrider/postrider/internal/web/live"
	"github.com/postrider/postrider/internal/web/notices"
	"github.com/postrider/postrider/internal/web/options"
	"github.com/postrider/postrider/internal/web/overview"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/payload"
	"github.com/postrider/postrider/internal/web/replays"
	"github.com/postrider/postrider/internal/web/search"
	"github.com/postrider/postrider/internal/web/sources"
	"github.com/postrider/postrider/internal/web/start"
	"github.com/postrider/postrider/internal/web/traffic"
)

// Deps has the parts that the pages depend on.
type Deps struct {
	page.Deps

	// Identity logs operators in by an identity provider. Nil: there is no provider.
	Identity access.Identity
	// Readers confirms and unsubscribes the readers of emails, by the links in the emails.
	Readers notices.Readers
	// Live hands out settled attempts. Nil: there is no live tail, and pages do not reload by
	// themselves.
	Live live.Attempts
}

// Options tunes the pages. The zero value is the default.
type Options = page.Options

// Handler serves all pages. It is safe for concurrent use.
type Handler struct {
	*page.Site

	live *live.Streams
}

// New returns the handler of all pages. It panics if a template or a catalogue of
// texts cannot be parsed, since both are parts of the program.
func New(deps Deps, opts Options) *Handler {
	streams := live.New(deps.Live)
	return &Handler{page.New(deps.Deps, opts,
		overview.Feature(),
		search.Feature(),
		endpoints.Feature(),
		options.Feature(start.Created),
		start.Feature(),
		events.Feature(),
		deliveries.Feature(),
		replays.Feature(),
		accounts.Feature(),
		access.Feature(deps.Identity),
		notices.Feature(deps.Readers),
		sources.Feature(),
		archive.Feature(),
		audit.Feature(),
		home.Feature(),
		streams.Feature(),
		page.Feature{Templates: payload.Templates},
		page.Feature{Templates: traffic.Templates},
	), streams}
}

// End ends all open streams, and refuses new ones. Call it when the server shuts down.
func (h *Handler) End() { h.live.End() }
