package app

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api"
	apiendpoints "github.com/postrider/postrider/internal/api/endpoints"
	apinotices "github.com/postrider/postrider/internal/api/notices"
	"github.com/postrider/postrider/internal/api/sessions"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/identity"
	"github.com/postrider/postrider/internal/live"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/web"
	"github.com/postrider/postrider/internal/web/access"
	"github.com/postrider/postrider/internal/web/notices"
	"github.com/postrider/postrider/internal/web/page"
)

// front is the handler of the API listener. It serves the API, and the pages at all other paths.
type front struct {
	*api.Handler

	pages *web.Handler
}

// newFront returns the handler of the API and of the pages. The pages call the API inside the
// process.
func newFront(b base, k *kept, handler *api.Handler) *front {
	return &front{Handler: handler, pages: web.New(web.Deps{
		Deps: page.Deps{
			API: handler.As, Share: handler.Share, Sessions: handler.Sessions(), Brand: k.store,
			Standard: apiendpoints.StandardPolicy(), Now: k.store.Clock().Wall,
		},
		Readers: readers{handler.Readers()}, Live: liveAttempts{b.watchers.live},
		Identity: identityOf(b.config.OIDCConfig, b.publicURL, handler.Sessions()),
	}, web.Options{
		PublicURL: b.publicURL, AllowHTTP: b.config.AllowsHTTP(), Emails: b.sendsEmails(),
		TrustedProxies: b.config.TrustedProxies, Version: Version(), Log: b.logOf("web"),
	})}
}

// newAPI returns the handler of the API.
func newAPI(b base, k *kept, s *sending, p *publishing) *api.Handler {
	deps := api.Deps{
		Stores: storesOf(k.store), Clock: k.store.Clock(), Publisher: p.quotas, Guard: s.egress, Verifier: s.sender, Describer: s.sender,
		Vault:       k.secrets,
		Reencrypter: reencrypter{k.secrets}, Notifier: s.table, Effects: s.dispatcher, Pacer: s.dispatcher, Canceller: k.janitor,
		Expunger: k.expunger, Replayer: p.replays, Cluster: k.nodes, IDs: k.ids, Outboxes: k.outboxes, Sources: p.sources,
	}
	// A nil pointer in the interface would count as an archive.
	if archive := k.archive.Archive; archive != nil {
		deps.Archive = archive
	}
	handler := api.New(deps, api.Options{
		MaxData: b.config.MaxData, BodyBudget: int64(b.config.BodyBudget), AnswerTime: b.config.AnswerTimeout,
		Verify: b.config.VerifyMethod(), Ping: b.config.PingEndpoints, PublicURL: b.publicURL, Host: config.Hostname(), Quotas: b.config.Quotas(),
		Retention: b.config.Retention(), FilesHeld: b.config.SQLiteDir() == "", Mail: b.config.SMTPURL != "", Hooks: b.hooks(),
		Log: b.logOf("api"),
	})
	s.forget = handler.Forget
	return handler
}

// EndBodies aborts the reading of request bodies, and ends the streams of pages.
func (f *front) EndBodies() {
	f.pages.End()
	f.Handler.EndBodies()
}

// ServeHTTP serves a request for the API or for a page.
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

// starting is the handler of the API listener until the store is open. Every response is a 503: a
// page for browsers, otherwise a problem.
type starting struct{ api, pages http.Handler }

// ServeHTTP serves a request for the API or for a page.
func (s starting) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isAPI(r) || !strings.Contains(r.Header.Get("Accept"), "text/html") && !strings.HasPrefix(r.URL.Path, "/static/") {
		s.api.ServeHTTP(w, r)
		return
	}
	s.pages.ServeHTTP(w, r)
}

// liveAttempts adapts a hub to the interface of the pages.
type liveAttempts struct{ hub *live.Hub }

// Subscribe implements [web.Deps].Live.
func (l liveAttempts) Subscribe(ctx context.Context, w observe.Watch) func() ([]observe.Attempted, int, error) {
	s := l.hub.Subscribe(ctx, w)
	return func() ([]observe.Attempted, int, error) { return s.Next(ctx) }
}

// readers adapts the links in emails to the interface of the pages.
type readers struct{ *apinotices.Readers }

// Find implements [notices.Readers].
func (r readers) Find(ctx context.Context, action postrider.LinkAction, text string) (notices.Reader, error) {
	d, link, err := r.Readers.Find(ctx, action, text)
	return notices.Reader{Address: d.Address, Kind: link.Kind, Language: d.Language, Operator: d.Account.IsZero()}, err
}

// identityOf returns the login at the identity provider. nil: there is no provider.
func identityOf(c config.OIDCConfig, publicURL string, sessions *sessions.Sessions) access.Identity {
	if c.OIDCIssuer == "" {
		return nil
	}
	secret, _ := c.Secret() // Validate has read it
	return directory{sessions, identity.New(identity.Options{
		Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: secret, RedirectURL: publicURL + "/login/oidc/callback",
		RoleClaim: c.OIDCRoleClaim, Viewers: c.OIDCViewers, Supporters: c.OIDCSupport, Admins: c.OIDCAdmins, Audiences: c.OIDCAudiences,
		Domains: c.OIDCDomains,
	})}
}

// directory adapts the identity provider to the interface of the pages. It makes the sessions of
// people that the provider authenticated.
type directory struct {
	sessions *sessions.Sessions
	provider *identity.Provider
}

// Begin implements [access.Identity].
func (d directory) Begin(ctx context.Context, from netip.Addr) (to, attempt string, err error) {
	if err := d.sessions.BeginLogin(from); err != nil {
		return "", "", err
	}
	return d.provider.Begin(ctx)
}

// Finish implements [access.Identity].
func (d directory) Finish(ctx context.Context, attempt string, query url.Values, from netip.Addr) (string, postrider.Session, error) {
	return d.sessions.LoginAs(ctx, from, func(ctx context.Context) (postrider.Session, error) {
		return d.provider.Finish(ctx, attempt, query)
	})
}

// reencrypter adapts [secrets.Secrets] to the interface of the API, which has its own type for the
// result.
type reencrypter struct{ *secrets.Secrets }

// Reencrypt implements the Reencrypter of the API.
func (r reencrypter) Reencrypt(ctx context.Context) (apitypes.Reencrypted, error) {
	done, err := r.Secrets.Reencrypt(ctx)
	return apitypes.Reencrypted(done), err
}
