package config

import (
	"net/url"
)

// OIDCConfig names the identity provider at which operators log in, and who may log in. Without an
// issuer there is no provider, and operators log in only with API keys.
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

// check adds the faults of these settings. linked is true if the server has a public URL, with
// which the redirect URL begins.
func (c OIDCConfig) check(f *faultList, linked bool) {
	f.refuseSecret("oidc-client-secret", c.OIDCClientSecret, c.OIDCClientSecretFile)
	_, err := c.Secret()
	f.refuse(err != nil, "oidc-client-secret-file", "cannot be read: "+reasonOf(err))
	if c.OIDCIssuer == "" {
		return
	}
	issuer, err := url.Parse(c.OIDCIssuer)
	f.refuse(err != nil || (issuer.Scheme != "https" && issuer.Scheme != "http") || issuer.Host == "" || issuer.User != nil, "oidc-issuer",
		"must be a URL like https://login.example.com")
	f.refuse(c.OIDCClientID == "", "oidc-client-id", "is required with "+f.named("oidc-issuer"))
	f.refuse(!linked, "public-url", "is required with "+f.named("oidc-issuer")+", for the redirect URL")
	f.refuse(len(c.OIDCViewers)+len(c.OIDCSupport)+len(c.OIDCAdmins) == 0, "oidc-admins",
		"is required with "+f.named("oidc-issuer")+", or "+f.named("oidc-support")+" or "+f.named("oidc-viewers")+": nobody else could log in")
}

// Secret returns the client's secret, from the setting or from its file.
func (c OIDCConfig) Secret() (string, error) {
	return valueOf(c.OIDCClientSecret, c.OIDCClientSecretFile, "client secret")
}
