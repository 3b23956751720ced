// Package web serves the pages: the operator's dashboard under /dashboard, the
// customer's portal under /portal, and the login.
//
// The pages are a client of the REST API, inside the process. A handler asks the
// API through package client, as the person of the session, and renders what it
// gets. So validation, authorization, the audit and the separation of accounts
// exist once, in package api, and no page can show what the API would refuse.
//
// What all pages share is package page, with text for the languages; payload and traffic are parts
// of several pages. A feature is a folder: its handlers, its forms and its templates. It imports no
// other feature.
//
// To add a page:
//
//  1. Find the folder of its feature. For a new one, copy a small one such as audit, and list its
//     Feature in [New].
//  2. Add its route to Feature. The path is below the base of each audience.
//  3. Write the handler, func(*page.Visit) error. It calls v.API and ends with v.Show, for a page,
//     or with v.Done, for a form. It returns the errors of the API as they are; they become error
//     pages. A form shows the faults of its fields itself: see v.Faulty.
//  4. Write {{define "NAME"}} in an HTML file of the folder. It gets the data of the page as dot. The
//     functions of page/functions.go give it the rest: {{t "key"}} for every text,
//     {{path "endpoints" .ID}} for every link, {{time .CreatedAt}} for every time. The partials of
//     page/templates are a head, filters, a pager, key and value, badges, forms.
//  5. Add its texts to text/en.json and text/de.json, sorted by key.
//  6. Add its state to the table of pages_test.go, which checks every page alike.
//
// Every page works without JavaScript: forms POST, do what they say, and redirect
// to a page that says what was done. app.js only enhances: it swaps <main> instead
// of loading a page, and reloads the elements with data-live when something has
// happened.
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
	"github.com/postrider/postrider/internal/web/start"
	"github.com/postrider/postrider/internal/web/traffic"
)

// Deps has the parts that the pages depend on.
type Deps struct {
	page.Deps

	// Identity logs operators in by an identity provider. nil: there is none.
	Identity access.Identity
	// Readers acts on the links in emails.
	Readers notices.Readers
	// Live hands out the attempts that are settled. nil: there is no live tail, and pages do
	// not renew themselves.
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
		archive.Feature(),
		audit.Feature(),
		home.Feature(),
		streams.Feature(),
		page.Feature{Templates: payload.Templates},
		page.Feature{Templates: traffic.Templates},
	), streams}
}

// End ends all streams at once, and those that begin later. Call it when the server
// shuts down.
func (h *Handler) End() { h.live.End() }
