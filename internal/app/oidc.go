package app

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/identity"
	"github.com/postrider/postrider/internal/web"
)

// OIDCConfig says which identity provider logs operators in, and who may. Without an
// issuer there is none, and operators log in only with API keys.
type OIDCConfig struct {
	OIDCIssuer           string   `name:"oidc-issuer" setting:"" group:"Login" placeholder:"URL" help:"Identity provider by which operators log in to the dashboard (OpenID Connect), for example https://login.example.com. It must know the redirect URL: --public-url and /login/oidc/callback. Default: none, and operators log in with API keys."`
	OIDCClientID         string   `name:"oidc-client-id" setting:"" group:"Login" placeholder:"ID" help:"This server's client id at the identity provider."`
	OIDCClientSecret     string   `name:"oidc-client-secret" setting:"" group:"Login" placeholder:"SECRET" help:"The client's secret. Set it in the environment or use --oidc-client-secret-file; as a flag it is refused. Default: none, for a public client."`
	OIDCClientSecretFile string   `name:"oidc-client-secret-file" setting:"" group:"Login" placeholder:"FILE" help:"File with the client's secret."`
	OIDCRoleClaim        string   `name:"oidc-role-claim" setting:"" group:"Login" default:"groups" help:"Claim with a person's roles, a text or a list; dots lead into objects, as in realm_access.roles."`
	OIDCViewers          []string `name:"oidc-viewers" setting:"" group:"Login" placeholder:"VALUE" help:"Values of the claim whose people may look, separated by commas."`
	OIDCSupport          []string `name:"oidc-support" setting:"" group:"Login" placeholder:"VALUE" help:"Values of the claim whose people may look, pause, test and replay, separated by commas."`
	OIDCAdmins           []string `name:"oidc-admins" setting:"" group:"Login" placeholder:"VALUE" help:"Values of the claim whose people may do everything, separated by commas."`
	OIDCAudiences        []string `name:"oidc-audiences" setting:"" group:"Login" placeholder:"ID" help:"Audiences that the provider's id tokens may name beside this client, separated by commas. Some providers add the id of a project. Default: none, and such tokens are refused."`
	OIDCDomains          []string `name:"oidc-domains" setting:"" group:"Login" placeholder:"DOMAIN" help:"Domains of the verified email addresses that may log in, separated by commas. Default: any."`
}

// validate returns every fault of the settings, joined. linked says that the server
// knows its public URL, which the redirect URL begins with.
func (c OIDCConfig) validate(named func(setting string) string, linked bool) error {
	var faults []error
	refuse := func(wrong bool, setting, reason string) {
		if wrong {
			faults = append(faults, &Fault{Key: named(setting), Reason: reason})
		}
	}
	refuse(named("oidc-client-secret") == "--oidc-client-secret" && c.OIDCClientSecret != "", "oidc-client-secret",
		"must not be a flag, which every user of this machine can read; use POSTRIDER_OIDC_CLIENT_SECRET or --oidc-client-secret-file")
	refuse(c.OIDCClientSecret != "" && c.OIDCClientSecretFile != "", "oidc-client-secret-file", "must not be given together with "+named("oidc-client-secret"))
	_, err := c.secret()
	refuse(err != nil, "oidc-client-secret-file", "cannot be read: "+reasonOf(err))
	if c.OIDCIssuer == "" {
		return errors.Join(faults...)
	}
	issuer, err := url.Parse(c.OIDCIssuer)
	refuse(err != nil || (issuer.Scheme != "https" && issuer.Scheme != "http") || issuer.Host == "" || issuer.User != nil, "oidc-issuer", "must be a URL like https://login.example.com")
	refuse(c.OIDCClientID == "", "oidc-client-id", "is required with "+named("oidc-issuer"))
	refuse(!linked, "public-url", "is required with "+named("oidc-issuer")+", for the redirect URL")
	refuse(len(c.OIDCViewers)+len(c.OIDCSupport)+len(c.OIDCAdmins) == 0, "oidc-admins",
		"is required with "+named("oidc-issuer")+", or "+named("oidc-support")+" or "+named("oidc-viewers")+": nobody else could log in")
	return errors.Join(faults...)
}

// secret returns the client's secret, from the setting or from its file.
func (c OIDCConfig) secret() (string, error) {
	if c.OIDCClientSecretFile == "" {
		return c.OIDCClientSecret, nil
	}
	text, err := os.ReadFile(c.OIDCClientSecretFile)
	if err != nil {
		return "", fmt.Errorf("read client secret: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// identity returns the login by the identity provider. nil: there is no provider.
func (c OIDCConfig) identity(publicURL string, sessions people) web.Identity {
	if c.OIDCIssuer == "" {
		return nil
	}
	secret, _ := c.secret() // validate has read it
	return directory{sessions, identity.New(identity.Options{
		Issuer: c.OIDCIssuer, ClientID: c.OIDCClientID, ClientSecret: secret, RedirectURL: publicURL + "/login/oidc/callback",
		RoleClaim: c.OIDCRoleClaim, Viewers: c.OIDCViewers, Supporters: c.OIDCSupport, Admins: c.OIDCAdmins, Audiences: c.OIDCAudiences, Domains: c.OIDCDomains,
	})}
}

// directory gives the pages the identity provider, with sessions for its people.
type directory struct {
	people   people
	provider *identity.Provider
}

// Begin implements [web.Identity].
func (d directory) Begin(ctx context.Context, from netip.Addr) (to, attempt string, err error) {
	if err := d.people.sessions.BeginLogin(from); err != nil {
		return "", "", err
	}
	return d.provider.Begin(ctx)
}

// Finish implements [web.Identity].
func (d directory) Finish(ctx context.Context, attempt string, query url.Values, from netip.Addr) (string, web.Session, error) {
	token, made, err := d.people.sessions.LoginAs(ctx, from, func(ctx context.Context) (postrider.Session, error) {
		return d.provider.Finish(ctx, attempt, query)
	})
	return d.people.opened(ctx, token, made, err)
}
