package app

import (
	"context"
	"net/http"
	"net/netip"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api"
	apiendpoints "github.com/postrider/postrider/internal/api/endpoints"
	"github.com/postrider/postrider/internal/api/notices"
	"github.com/postrider/postrider/internal/api/sessions"
	"github.com/postrider/postrider/internal/live"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/web"
)

// front is the handler of the API listener: the API, and the pages at all other paths.
type front struct {
	*api.Handler

	pages *web.Handler
}

// newFront returns the handler of the API and of the pages, which call it inside the
// process.
func (a *App) newFront(handler *api.Handler) *front {
	sessions := people{handler.Sessions(), a.store}
	return &front{Handler: handler, pages: web.New(web.Deps{
		API: handler.As, Share: handler.Share, Sessions: sessions, Readers: readers{handler.Readers()}, Brand: a.store,
		Standard: apiendpoints.StandardPolicy(), Now: a.store.Clock().Wall, Live: liveAttempts{a.live},
		Identity: a.config.identity(a.config.publicURL(a.Addr()), sessions),
	}, web.Options{
		PublicURL: a.config.publicURL(a.Addr()), AllowHTTP: a.config.allowsHTTP(), Emails: a.config.sendsEmails(a.Addr()),
		TrustedProxies: a.config.TrustedProxies, Version: Version(), Log: logOf(a.log, "web"),
	})}
}

// EndBodies gives up the request bodies that are being read, and ends the streams of
// pages.
func (f *front) EndBodies() {
	f.pages.End()
	f.Handler.EndBodies()
}

// ServeHTTP serves a request of a program or a person.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isAPI(r) {
		f.Handler.ServeHTTP(w, r)
		return
	}
	f.pages.ServeHTTP(w, r)
}

// isAPI reports whether a request is for the API and not for a page.
func isAPI(r *http.Request) bool {
	return strings.HasPrefix(r.URL.Path, "/v1/") || strings.HasPrefix(r.URL.Path, "/.well-known/")
}

// starting is the handler of the API listener until the store is open. Every response is
// a 503: a page for browsers, else a problem.
type starting struct{ api, pages http.Handler }

// ServeHTTP serves a request of a program or a person.
func (s starting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isAPI(r) || !strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, "/static/") {
		s.api.ServeHTTP(w, r)
		return
	}
	s.pages.ServeHTTP(w, r)
}

// liveAttempts is a hub in the form that the pages need.
type liveAttempts struct{ hub *live.Hub }

// Subscribe implements [web.Live].
func (l liveAttempts) Subscribe(ctx context.Context, w observe.Watch) func() ([]observe.Attempted, int, error) {
	s := l.hub.Subscribe(ctx, w)
	return func() ([]observe.Attempted, int, error) { return s.Next(ctx) }
}

// readers gives the pages the links of emails in their own form.
type readers struct{ *notices.Readers }

// Find implements [web.Readers].
func (r readers) Find(ctx context.Context, action postrider.LinkAction, text string) (web.Reader, error) {
	d, link, err := r.Readers.Find(ctx, action, text)
	return web.Reader{Address: d.Address, Kind: link.Kind, Language: d.Language, Operator: d.Account.IsZero()}, err
}

// people gives the pages the sessions of the API in their own form.
type people struct {
	sessions *sessions.Sessions
	settings store.PortalSettings
}

// Login implements [web.Sessions].
func (p people) Login(ctx context.Context, key string, from netip.Addr) (string, web.Session, error) {
	token, made, err := p.sessions.Login(ctx, key, from)
	return p.opened(ctx, token, made, err)
}

// Entry implements [web.Sessions].
func (p people) Entry(ctx context.Context, code string) (web.Session, error) {
	return p.view(ctx)(p.sessions.Entry(ctx, code))
}

// Redeem implements [web.Sessions].
func (p people) Redeem(ctx context.Context, code string, from netip.Addr) (string, web.Session, error) {
	token, made, err := p.sessions.Redeem(ctx, code, from)
	return p.opened(ctx, token, made, err)
}

// Find implements [web.Sessions].
func (p people) Find(ctx context.Context, token string) (web.Session, error) {
	return p.view(ctx)(p.sessions.Find(ctx, token))
}

// Logout implements [web.Sessions].
func (p people) Logout(ctx context.Context, token string) error { return p.sessions.Logout(ctx, token) }

// opened returns a new session with its token.
func (p people) opened(ctx context.Context, token string, made postrider.Session, err error) (string, web.Session, error) {
	session, err := p.view(ctx)(made, err)
	return token, session, err
}

// view returns a function that turns the result of a call into a session for the pages.
// The embedders are the present ones: an origin that the operator removes can no longer
// show sessions that are open.
func (p people) view(ctx context.Context) func(postrider.Session, error) (web.Session, error) {
	return func(s postrider.Session, err error) (web.Session, error) {
		if err != nil {
			return web.Session{}, err
		}
		session := web.Session{Caller: s.Caller(), ExpiresAt: s.ExpiresAt, Language: s.Locale, Portal: s.Kind == postrider.SessionPortal}
		if s.Embedded {
			settings, err := p.settings.Portal(ctx)
			if err != nil {
				return web.Session{}, err
			}
			session.Embedders = settings.FrameOrigins
		}
		return session, nil
	}
}
