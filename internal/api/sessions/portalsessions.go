package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/store"
)

// capability is a capability of a portal session, with the scope that it gives.
type capability struct {
	name  apitypes.Capability
	scope postrider.Scope
}

// capabilities lists all capabilities, in the order of the OpenAPI document.
var capabilities = []capability{
	{apitypes.CapabilityView, postrider.ScopeWebhooksRead},
	{apitypes.CapabilityOperate, postrider.ScopeWebhooksOperate},
	{apitypes.CapabilityEdit, postrider.ScopeEndpointsWrite},
	{apitypes.CapabilitySecrets, postrider.ScopeSecretsRead},
}

// viewSession returns a session without its hashes, in the form of a response.
func viewSession(s postrider.Session) apitypes.Session {
	return apitypes.Session{
		ID: s.ID, Kind: s.Kind, Name: s.Name, Subject: render.OrNull(s.Subject), Key: render.OrNull(s.Key), Account: render.OrNull(s.Account),
		Scopes: append([]postrider.Scope{}, s.Scopes...), Embedded: s.Embedded, Opened: s.Hash != [32]byte{},
		CreatedAt: render.Instant(s.CreatedAt), ExpiresAt: render.Instant(s.ExpiresAt), LastSeenAt: render.TimeOrNull(s.LastSeenAt),
		RevokedAt: render.TimeOrNull(s.RevokedAt),
	}
}

// sessionPath names a session.
type sessionPath struct {
	Session string `path:"session"`
}

// Register registers the routes of sessions.
func (s *Sessions) Register(rt *rest.Router) {
	admin := postrider.ScopeAdmin
	rest.HandleBody(rt, rest.Route{
		Name: "create-portal-session", Path: "POST /portal-sessions",
		Summary:     "Create a one-time link to an account's customer portal",
		Description: "The link must be opened within 60 s, works once, and begins with the server's --public-url. The session ends with the API key that made it, and with its account.",
		Codes:       []string{"public_url_missing", "too_often"},
		Scope:       postrider.ScopeWebhooksRead, Status: 201,
	}, s.createPortalSession)
	rest.Handle(rt, rest.Route{
		Name: "list-sessions", Path: "GET /sessions",
		Summary:     "List sessions of operators and of the portal, newest first",
		Description: "Sessions that expired more than 30 days ago are deleted.",
		Scope:       admin,
	}, s.listSessions)
	rest.Handle(rt, rest.Route{
		Name: "revoke-session", Path: "DELETE /sessions/{session}",
		Summary: "Revoke a session",
		Scope:   admin, Status: 204,
	}, s.revokeSession)
}

// createPortalSession makes a one-time link. The session of the link has at most the scopes and the
// account of its caller, and ends with the caller's key. A session that is bound to an account
// makes no links, because the sessions of the links would outlive it.
func (s *Sessions) createPortalSession(ctx context.Context, _ *rest.None,
	body apitypes.PortalSessionCreate,
) (*rest.Reply[apitypes.PortalSession], error) {
	caller := rest.InfoOf(ctx).Caller
	if !caller.Session.IsZero() && !caller.Account.IsZero() {
		return nil, &rest.Error{Class: rest.ErrForbidden, Detail: "a session of one account makes no links"}
	}
	account, err := s.Names.RequireAccount(ctx, "account", body.Account)
	scopes, scopesErr := portalScopes(caller, body.Capabilities)
	lasts, lastsErr := portalLasts(body.TTLMS)
	localeErr := checkLocale(body.Locale)
	if err := errors.Join(err, scopesErr, lastsErr, localeErr, rest.CheckText("name", body.Name, rest.MaxName)); err != nil {
		return nil, err
	}
	if s.PublicURL == "" {
		return nil, rest.ErrNoPublicURL
	}
	if err := s.links.Allow(rest.PayerOf(caller)); err != nil {
		return nil, err
	}
	settings, err := s.Store.Portal(ctx)
	if err != nil {
		return nil, err
	}
	code, hash := apikeys.MakeSecret(codePrefix)
	session, err := s.issue(ctx, postrider.Session{
		Kind: postrider.SessionPortal, Name: body.Name, Key: caller.Key, Account: account, Scopes: scopes,
		Options: settings.SessionOptions(), Locale: body.Locale, Embedded: body.Embedded, Code: hash,
	}, lasts)
	if err != nil {
		return nil, err
	}
	return rest.Respond(apitypes.PortalSession{
		ID: session.ID, URL: s.PublicURL + "/portal/enter/" + code,
		CodeExpiresAt: render.Instant(session.CodeExpiresAt), ExpiresAt: render.Instant(session.ExpiresAt),
	}), nil
}

// portalScopes returns the scopes of the wanted capabilities, or of all capabilities if none are
// given. It refuses a capability whose scope the caller lacks.
func portalScopes(caller *postrider.Caller, wanted []apitypes.Capability) ([]postrider.Scope, error) {
	scopes := []postrider.Scope{postrider.ScopeWebhooksRead}
	var faults []error
	for _, c := range capabilities {
		if len(wanted) > 0 && !slices.Contains(wanted, c.name) {
			continue
		}
		if !caller.Allows(c.scope) {
			faults = append(faults, &rest.Error{
				Class: rest.ErrForbidden, Detail: fmt.Sprintf("the capability %s needs a key with the scope %s", c.name, c.scope),
			})
		}
		if !slices.Contains(scopes, c.scope) {
			scopes = append(scopes, c.scope)
		}
	}
	for i, name := range wanted {
		if !slices.ContainsFunc(capabilities, func(c capability) bool { return c.name == name }) {
			faults = append(faults, rest.Invalid(fmt.Sprintf("capabilities[%d]", i), postrider.FaultNotAChoice,
				"must be view, operate, edit or secrets"))
		}
	}
	return scopes, errors.Join(faults...)
}

// portalLasts returns the life time of a portal session.
func portalLasts(ms *int64) (time.Duration, error) {
	if ms == nil {
		return portalTime, nil
	}
	lasts := rest.Millis(*ms)
	if lasts < time.Minute || lasts > portalTime {
		return 0, postrider.OutOfRange("ttl_ms", 60_000, 3_600_000)
	}
	return lasts, nil
}

// checkLocale refuses a text that is not a language tag (RFC 5646), such as de or pt-BR. It does
// not check whether the pages exist in that language.
func checkLocale(locale string) error {
	strange := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}
	if len(locale) > 35 || strings.ContainsFunc(locale, strange) {
		return rest.Invalid("locale", postrider.FaultMalformed, "must be a language tag, such as en or de")
	}
	return nil
}

// listSessions lists sessions. It lists ended sessions only if the request asks for them.
func (s *Sessions) listSessions(ctx context.Context, in *struct {
	Kind    string `query:"kind" enum:"operator,portal"`
	Account string `query:"account" doc:"Id or uid of the account."`
	Ended   bool   `query:"ended" doc:"Whether to list sessions that have ended, too; default false."`
	rest.Paging
},
) (*rest.Reply[apitypes.Page[apitypes.Session]], error) {
	account, err := s.Names.ResolveAccount(ctx, in.Account)
	if err != nil {
		return nil, err
	}
	query := store.SessionQuery{Kind: postrider.SessionKind(in.Kind), Account: account, Paging: in.Paging.Of()}
	if !in.Ended {
		if query.LiveAt, err = s.Store.Now(ctx); err != nil {
			return nil, err
		}
		query.From = query.LiveAt.Add(-operatorTime - clockDrift)
	}
	return rest.RespondPage(viewSession)(s.Store.Sessions(ctx, query))
}

// revokeSession ends a session. The session stops working at once on this node, and within
// apikeys.Fresh on other nodes.
func (s *Sessions) revokeSession(ctx context.Context, in *sessionPath) (*rest.None, error) {
	id, err := rest.ParseID[postrider.SessionID](in.Session)
	if err != nil {
		return nil, err
	}
	session, err := store.First(s.Store.Sessions(ctx, store.SessionQuery{ID: id}))
	if err != nil {
		return nil, err
	}
	rest.InfoOf(ctx).Account = session.Account
	if err := s.Store.RevokeSession(ctx, id); err != nil {
		return nil, err
	}
	s.Forget()
	return nil, nil // 204
}
