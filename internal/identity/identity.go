// Package identity authenticates operators at the platform's identity provider, by OpenID Connect.
//
// [Provider.Begin] returns the URL of the provider for the browser, and a text that the browser
// must keep. [Provider.Finish] takes that text and the parameters with which the provider sends the
// browser back. It returns the name and the scopes of the person.
//
//   - Only the browser that began a login can finish it. The text has the state, the nonce
//     of the id token and the verifier of PKCE (RFC 7636, S256).
//   - Package go-oidc checks the issuer, the audience, the signature, the expiry and the
//     nonce of the id token.
//   - A person without a role, or of another domain, gets no session.
//   - The provider is asked for its configuration at the first login, not at the start: a
//     server must start while its provider is down.
package identity

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
)

// Options says who may log in. The operator sets all fields.
type Options struct {
	Issuer       string // URL of the provider
	ClientID     string
	ClientSecret string   // empty: a public client, which PKCE protects
	RedirectURL  string   // URL of this server, as registered at the provider
	RoleClaim    string   // name of the claim with the roles; each dot leads into a nested object
	Viewers      []string // values of the claim that make a viewer
	Supporters   []string // values of the claim that make a supporter
	Admins       []string // values of the claim that make an admin
	Audiences    []string // further audiences that an id token may have besides the client
	Domains      []string // domains of the verified email addresses that may log in; empty: any
}

// Provider is an identity provider. It is safe for concurrent use.
type Provider struct {
	opts Options
	// found is nil until the provider was reached. Until then each login runs discovery itself,
	// so that none waits for another's time-out.
	found atomic.Pointer[oidc.Provider]
}

// New returns a provider. It makes no request.
func New(opts Options) *Provider { return &Provider{opts: opts} }

// provider returns the configuration that the provider publishes. If the provider does not respond,
// the error matches postrider.ErrBusy, and the next login asks again.
func (p *Provider) provider(ctx context.Context) (*oidc.Provider, oauth2.Config, error) {
	found := p.found.Load()
	if found == nil {
		var err error
		if found, err = oidc.NewProvider(oidc.ClientContext(ctx, egress.OperatorClient()), p.opts.Issuer); err != nil {
			return nil, oauth2.Config{}, fmt.Errorf("discover identity provider: %w: %w", postrider.ErrBusy, err)
		}
		p.found.Store(found)
	}
	return found, oauth2.Config{
		ClientID: p.opts.ClientID, ClientSecret: p.opts.ClientSecret, RedirectURL: p.opts.RedirectURL,
		Endpoint: found.Endpoint(), Scopes: []string{oidc.ScopeOpenID, "profile", "email"},
	}, nil
}

// Discover reads the provider's configuration now, which the first login would do otherwise.
func (p *Provider) Discover(ctx context.Context) error {
	_, _, err := p.provider(ctx)
	return err
}

// Begin starts a login. It returns the URL at the provider, and a text for Finish: attempt. The
// caller keeps attempt only in a cookie of this browser.
func (p *Provider) Begin(ctx context.Context) (to, attempt string, err error) {
	_, config, err := p.provider(ctx)
	if err != nil {
		return "", "", err
	}
	state, nonce, verifier := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	to = config.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier))
	return to, state + "." + nonce + "." + verifier, nil
}

// Finish ends a login with the parameters with which the provider sent the browser back. It returns
// the name, the subject and the scopes of the person's session. If the person gets no session, the
// error matches postrider.ErrNotFound. If the provider does not respond, the error matches
// postrider.ErrBusy.
func (p *Provider) Finish(ctx context.Context, attempt string, query url.Values) (postrider.Session, error) {
	ctx = oidc.ClientContext(ctx, egress.OperatorClient())
	parts := strings.Split(attempt, ".")
	if len(parts) != 3 || parts[0] == "" || subtle.ConstantTimeCompare([]byte(parts[0]), []byte(query.Get("state"))) != 1 {
		return postrider.Session{}, refused("the login was begun by another browser, or too long ago")
	}
	if code := query.Get("error"); code != "" {
		return postrider.Session{}, refused("the provider says " + code)
	}
	found, config, err := p.provider(ctx)
	if err != nil {
		return postrider.Session{}, err
	}
	tokens, err := config.Exchange(ctx, query.Get("code"), oauth2.VerifierOption(parts[2]))
	if rejected := (*oauth2.RetrieveError)(nil); errors.As(err, &rejected) && rejected.Response.StatusCode < 500 {
		return postrider.Session{}, refused("the provider refused the code: " + rejected.ErrorCode)
	}
	if err != nil {
		return postrider.Session{}, fmt.Errorf("exchange code: %w: %w", postrider.ErrBusy, err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	token, err := found.Verifier(&oidc.Config{ClientID: p.opts.ClientID}).Verify(ctx, raw)
	if err != nil {
		return postrider.Session{}, fmt.Errorf("verify id token: %w: %w", postrider.ErrNotFound, err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(parts[1])) != 1 {
		return postrider.Session{}, refused("the id token has another nonce")
	}
	if err := p.checkToken(token); err != nil {
		return postrider.Session{}, err
	}
	claims, err := p.claims(ctx, found, token, tokens)
	if err != nil {
		return postrider.Session{}, err
	}
	return p.person(token, claims)
}

// checkToken checks the rules of OpenID Connect Core, 2 and 3.1.3.7, that go-oidc leaves to its
// callers: the subject, further audiences and the authorized party.
func (p *Provider) checkToken(token *oidc.IDToken) error {
	var also struct {
		AuthorizedParty *string `json:"azp"`
	}
	if err := token.Claims(&also); err != nil {
		return fmt.Errorf("read id token: %w: %w", postrider.ErrNotFound, err)
	}
	trusted := append([]string{p.opts.ClientID}, p.opts.Audiences...)
	foreign := func(audience string) bool { return !slices.Contains(trusted, audience) }
	switch {
	case token.Subject == "" || len(token.Subject) > maxSubject || strings.ContainsFunc(token.Subject, unicode.IsControl):
		return refused("the id token has no subject of OpenID Connect")
	case slices.ContainsFunc(token.Audience, foreign):
		return refused("the id token has an audience that is neither this client nor one of --oidc-audiences")
	case also.AuthorizedParty != nil && *also.AuthorizedParty != p.opts.ClientID:
		return refused("the id token was issued to another client (azp)")
	}
	return nil
}

// claims returns the claims of the id token. If the email or the roles are missing there, it adds
// the claims of the user info: many providers put the email and the groups only there.
func (p *Provider) claims(ctx context.Context, found *oidc.Provider, token *oidc.IDToken, tokens *oauth2.Token) (map[string]any, error) {
	claims := map[string]any{}
	if err := token.Claims(&claims); err != nil {
		return nil, fmt.Errorf("read id token: %w", err)
	}
	if claims["email"] != nil && lookUp(claims, p.opts.RoleClaim) != nil || found.UserInfoEndpoint() == "" {
		return claims, nil
	}
	user, err := found.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return nil, fmt.Errorf("read user info: %w: %w", postrider.ErrBusy, err)
	}
	if user.Subject != token.Subject { // OpenID Connect Core, 5.3.2
		return nil, refused("the user info is of another person")
	}
	more := map[string]any{}
	if err := user.Claims(&more); err != nil {
		return nil, fmt.Errorf("read user info: %w", err)
	}
	for name, value := range more {
		if claims[name] == nil {
			claims[name] = value
		}
	}
	return claims, nil
}

// person returns the session of a person, if the options allow them to log in.
func (p *Provider) person(token *oidc.IDToken, claims map[string]any) (postrider.Session, error) {
	email, _ := claims["email"].(string)
	name, _ := claims["name"].(string)
	if email != "" {
		name = email
	}
	if name == "" {
		name = token.Subject
	}
	if len(p.opts.Domains) > 0 {
		user, host, _ := strings.Cut(email, "@") // with a second @, host is no domain
		inDomain := func(domain string) bool { return user != "" && strings.EqualFold(host, domain) }
		if claims["email_verified"] != true || !slices.ContainsFunc(p.opts.Domains, inDomain) {
			return postrider.Session{}, refused("the person has no verified email address of an allowed domain")
		}
	}
	scopes := p.scopes(texts(lookUp(claims, p.opts.RoleClaim)))
	if scopes == nil {
		return postrider.Session{}, refused("the person has no role")
	}
	return postrider.Session{Name: shown(name), Subject: token.Issuer + " " + token.Subject, Scopes: scopes}, nil
}

const (
	// maxName is the longest name of a session, in bytes. At many providers people choose their own
	// names.
	maxName = 256
	// maxSubject is the longest subject, in bytes (OpenID Connect Core, 2).
	maxSubject = 255
)

// shown returns the first maxName bytes of a name without its control characters. A store need not
// keep control characters.
func shown(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, name)
	return strings.ToValidUTF8(name[:min(len(name), maxName)], "")
}

// scopes returns the scopes of the highest role among the values; nil if there is none.
func (p *Provider) scopes(values []string) []postrider.Scope {
	has := func(role []string) bool {
		return slices.ContainsFunc(values, func(value string) bool { return slices.Contains(role, value) })
	}
	switch {
	case has(p.opts.Admins):
		return []postrider.Scope{postrider.ScopeAdmin}
	case has(p.opts.Supporters):
		return []postrider.Scope{postrider.ScopeWebhooksRead, postrider.ScopeWebhooksOperate}
	case has(p.opts.Viewers):
		return []postrider.Scope{postrider.ScopeWebhooksRead}
	}
	return nil
}

// lookUp returns the claim with the name. If there is none, each dot in the name leads into a
// nested object, as in realm_access.roles.
func lookUp(claims map[string]any, name string) any {
	if value, ok := claims[name]; ok {
		return value
	}
	first, rest, nested := strings.Cut(name, ".")
	inner, ok := claims[first].(map[string]any)
	if !nested || !ok {
		return nil
	}
	return lookUp(inner, rest)
}

// texts returns the texts of a claim, which is a text or a list of texts.
func texts(claim any) (all []string) {
	switch claim := claim.(type) {
	case string:
		return []string{claim}
	case []any:
		for _, value := range claim {
			if text, ok := value.(string); ok {
				all = append(all, text)
			}
		}
	}
	return all
}

// refused returns the error for a person who gets no session.
func refused(why string) error { return fmt.Errorf("%s: %w", why, postrider.ErrNotFound) }
