package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/client"
)

// connectionFlags are how an endpoint's requests are sent. What is secret comes
// from files or stdin: every user of the machine can see a command line.
type connectionFlags struct {
	Header       []string `sep:"none" placeholder:"NAME=VALUE" help:"A header of the endpoint's own, again for each. They replace all that it had."`
	SecretHeader []string `sep:"none" placeholder:"NAME=FILE" help:"A header whose value is secret and in a file (- is stdin), again for each. NAME alone keeps the value that it has."`
	NoHeaders    bool     `help:"No headers of its own."`

	Auth           string   `enum:",none,basic,bearer,api_key,oauth2" default:"" placeholder:"TYPE" help:"How requests authenticate: none, basic, bearer, api_key or oauth2. Default: none."`
	AuthUser       string   `placeholder:"NAME" help:"User, with basic."`
	AuthHeader     string   `placeholder:"NAME" help:"Header that the key goes into, with api_key."`
	AuthTokenURL   string   `placeholder:"URL" help:"Where tokens come from, with oauth2."`
	AuthClientID   string   `placeholder:"ID" help:"Client, with oauth2."`
	AuthScopes     []string `placeholder:"SCOPE" help:"Scopes, with oauth2."`
	AuthAudience   string   `placeholder:"NAME" help:"Audience, with oauth2."`
	AuthSecretFile string   `placeholder:"FILE" help:"File with the password, token, key or client secret; - reads stdin. Default: the one that it has."`

	TLSCert        string `placeholder:"FILE" help:"PEM file of the certificate that is shown to the receiver."`
	TLSKey         string `placeholder:"FILE" help:"PEM file of its key; - reads stdin. Default: the one that it has."`
	TLSAuthorities string `placeholder:"FILE" help:"PEM file of the authorities that the receiver's certificate must come from."`
	NoTLS          bool   `name:"no-tls" help:"No certificate and authorities of its own."`

	MaxRedirects *int                  `placeholder:"N" help:"Redirects that are followed, 0 to 3. Default: 0."`
	Compression  postrider.Compression `enum:",none,gzip" default:"" placeholder:"none|gzip" help:"How the body is compressed. Default: none."`
}

// connection is what the flags say, in the API's shapes; what they do not say
// is nil.
type connection struct {
	headers []client.Header
	auth    *client.Auth
	tls     *client.TLS
}

// read reads the flags. Others are the other files that the command takes a
// secret from.
func (f *connectionFlags) read(t terminal, others ...string) (c connection, err error) {
	sources := slices.Concat([]string{f.AuthSecretFile, f.TLSKey}, f.SecretHeader, others)
	fromStdin := func(name string) bool { return name == "-" || strings.HasSuffix(name, "=-") }
	if len(slices.DeleteFunc(sources, func(name string) bool { return !fromStdin(name) })) > 1 {
		return c, misused("only one secret may come from stdin")
	}
	if c.headers, err = f.readHeaders(t); err != nil {
		return c, err
	}
	if c.auth, err = f.readAuth(t); err != nil {
		return c, err
	}
	c.tls, err = f.readTLS(t)
	return c, err
}

func (f *connectionFlags) readHeaders(t terminal) ([]client.Header, error) {
	if f.NoHeaders {
		if len(f.Header)+len(f.SecretHeader) > 0 {
			return nil, misused("--no-headers: must not be given together with headers")
		}
		return []client.Header{}, nil
	}
	var headers []client.Header
	for _, text := range f.Header {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, misused("--header: must be like X-Tenant=acme")
		}
		headers = append(headers, client.Header{Name: name, Value: value})
	}
	for _, text := range f.SecretHeader {
		name, file, _ := strings.Cut(text, "=")
		value, err := readSecretFile(t, file)
		if err != nil {
			return nil, err
		}
		headers = append(headers, client.Header{Name: name, Value: value, Sensitive: true})
	}
	return headers, nil
}

func (f *connectionFlags) readAuth(t terminal) (*client.Auth, error) {
	secret, err := readSecretFile(t, f.AuthSecretFile)
	if err != nil {
		return nil, err
	}
	a := client.Auth{
		Type: postrider.AuthKind(f.Auth), Username: f.AuthUser, Header: f.AuthHeader, TokenURL: f.AuthTokenURL,
		ClientID: f.AuthClientID, Scopes: f.AuthScopes, Audience: f.AuthAudience,
	}
	detail, needs := f.authDetail()
	switch a.Type {
	case "":
		if detail != "" {
			return nil, misused("%s needs --auth %s", detail, needs)
		}
		return nil, nil //nolint:nilnil // nothing is said of it
	case postrider.AuthNone:
		if detail != "" {
			return nil, misused("--auth none: must not be given together with other --auth flags")
		}
		return &client.Auth{}, nil
	case postrider.AuthBasic:
		a.Password = secret
	case postrider.AuthBearer:
		a.Token = secret
	case postrider.AuthAPIKey:
		a.Key = secret
	case postrider.AuthOAuth2:
		a.ClientSecret = secret
	}
	return &a, nil
}

// authDetail returns the first flag that says more of the authentication than
// its type, and the type that it is for.
func (f *connectionFlags) authDetail() (flag string, needs postrider.AuthKind) {
	switch {
	case f.AuthUser != "":
		return "--auth-user", postrider.AuthBasic
	case f.AuthHeader != "":
		return "--auth-header", postrider.AuthAPIKey
	case f.AuthTokenURL != "":
		return "--auth-token-url", postrider.AuthOAuth2
	case f.AuthClientID != "":
		return "--auth-client-id", postrider.AuthOAuth2
	case len(f.AuthScopes) > 0:
		return "--auth-scopes", postrider.AuthOAuth2
	case f.AuthAudience != "":
		return "--auth-audience", postrider.AuthOAuth2
	case f.AuthSecretFile != "":
		return "--auth-secret-file", "TYPE"
	}
	return "", ""
}

func (f *connectionFlags) readTLS(t terminal) (*client.TLS, error) {
	if f.TLSCert+f.TLSKey+f.TLSAuthorities == "" {
		if f.NoTLS {
			return &client.TLS{}, nil
		}
		return nil, nil //nolint:nilnil // nothing is said of it
	}
	if f.NoTLS {
		return nil, misused("--no-tls: must not be given together with other --tls flags")
	}
	if f.TLSKey != "" && f.TLSCert == "" {
		return nil, misused("--tls-key needs --tls-cert")
	}
	var own client.TLS
	for _, part := range []struct {
		file string
		to   *string
	}{{f.TLSCert, &own.Certificate}, {f.TLSKey, &own.Key}, {f.TLSAuthorities, &own.Authorities}} {
		if part.file == "" {
			continue
		}
		text, err := readSource(t, part.file)
		if err != nil {
			return nil, fmt.Errorf("read PEM: %w", err)
		}
		*part.to = string(text)
	}
	return &own, nil
}

// partial reports whether the flags say only some of what a change replaces as
// a whole.
func (c connection) partial() bool {
	return optional(c.auth).Type != "" || optional(c.tls) != (client.TLS{})
}

// keep adds what the endpoint has and no flag names. The server keeps secrets
// that are left out.
func (c connection) keep(has client.Endpoint) {
	if a, was := c.auth, optional(has.Auth); a != nil && a.Type == was.Type {
		a.Username = cmp.Or(a.Username, was.Username)
		a.Header = cmp.Or(a.Header, was.Header)
		a.TokenURL = cmp.Or(a.TokenURL, was.TokenURL)
		a.ClientID = cmp.Or(a.ClientID, was.ClientID)
		a.Audience = cmp.Or(a.Audience, was.Audience)
		if len(a.Scopes) == 0 {
			a.Scopes = was.Scopes
		}
	}
	if own, was := c.tls, optional(has.TLS); own != nil && *own != (client.TLS{}) {
		own.Certificate = cmp.Or(own.Certificate, was.Certificate)
		own.Authorities = cmp.Or(own.Authorities, was.Authorities)
	}
}

// readSecretFile returns what a file holds, without the end of its line; of no
// file, nothing.
func readSecretFile(t terminal, file string) (string, error) {
	if file == "" {
		return "", nil
	}
	text, err := readSource(t, file)
	if err != nil {
		return "", fmt.Errorf("read secret: %w", err)
	}
	secret := strings.TrimRight(string(text), "\r\n")
	if strings.TrimSpace(secret) == "" {
		return "", misused("%s holds no secret", file)
	}
	return secret, nil
}

// headersText returns headers as --header takes them, without what is secret.
func headersText(headers []client.Header) string {
	var texts []string
	for _, h := range headers {
		value := h.Value
		if h.Sensitive {
			value = "(secret)"
		}
		texts = append(texts, h.Name+"="+value)
	}
	return strings.Join(texts, ", ")
}

// authText says how requests authenticate.
func authText(a *client.Auth) string {
	if a == nil {
		return string(postrider.AuthNone)
	}
	var parts []string
	for _, part := range []string{a.Username, a.Header, a.TokenURL, a.ClientID, strings.Join(a.Scopes, ","), a.Audience} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(append([]string{string(a.Type)}, parts...), " ")
}

// tlsText says what connections have of their own.
func tlsText(own *client.TLS) string {
	var parts []string
	if optional(own).Certificate != "" {
		parts = append(parts, "certificate")
	}
	if optional(own).Authorities != "" {
		parts = append(parts, "authorities")
	}
	return strings.Join(parts, ", ")
}

// connectionDetails are the rows of an endpoint's connection.
func connectionDetails(e client.Endpoint) details {
	return details{
		{"headers", headersText(e.Headers)},
		{"auth", authText(e.Auth)},
		{"tls", tlsText(e.TLS)},
		{"max redirects", strconv.Itoa(e.MaxRedirects)},
		{"compression", string(e.Compression)},
		{"verified", moment(optional(e.VerifiedAt))},
	}
}

type endpointsVerifyCmd struct {
	one

	Method string `enum:",challenge,cloudevents" default:"" placeholder:"challenge|cloudevents" help:"How the receiver is asked: challenge or cloudevents. Default: as the server's --verify-endpoints says."`
}

// Run asks the endpoint's receiver whether it wants events.
func (c *endpointsVerifyCmd) Run(ctx context.Context, t terminal) error {
	return c.show(ctx, t, func(api *client.Client, ctx context.Context, id postrider.EndpointID) (client.Endpoint, error) {
		return api.VerifyEndpoint(ctx, id, c.Method)
	})
}
