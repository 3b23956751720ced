package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// checkStdin refuses a command that reads more than one secret from stdin. The first secret would
// read all of stdin, and the others would look like empty files. others are further files from
// which the command reads a secret.
func (f *policyFlags) checkStdin(others []string) error {
	sources := slices.Concat([]string{f.AuthSecretFile, f.TLSKey}, f.SecretHeader, others)
	fromStdin := func(name string) bool { return name == "-" || strings.HasSuffix(name, "=-") }
	if len(slices.DeleteFunc(sources, func(name string) bool { return !fromStdin(name) })) > 1 {
		return misused("only one secret may come from stdin")
	}
	return nil
}

// headers returns the headers of the request. They replace all headers of the endpoint. Without a
// header flag, the option is left out and the endpoint keeps its headers; --no-headers removes
// them.
//
// A secret header without a file has no value, and the server keeps its stored value. Plain headers
// come first. flagNames.of relies on that order when it translates headers[2] of a fault into the
// flag of that header.
func (f *policyFlags) headers(t terminal) (none apitypes.Optional[[]apitypes.Header], _ error) {
	if f.NoHeaders {
		if len(f.Header)+len(f.SecretHeader) > 0 {
			return none, misused("--no-headers: must not be given together with headers")
		}
		return apitypes.Null[[]apitypes.Header](), nil
	}
	var headers []apitypes.Header
	for _, text := range f.Header {
		name, value, ok := strings.Cut(text, "=")
		if !ok {
			return none, misused("--header: must be like X-Tenant=acme")
		}
		headers = append(headers, apitypes.Header{Name: name, Value: apitypes.Of(value)})
	}
	for _, text := range f.SecretHeader {
		name, file, _ := strings.Cut(text, "=")
		value, err := readSecretFile(t, file)
		if err != nil {
			return none, err
		}
		h := apitypes.Header{Name: name, Sensitive: true}
		if value != "" { // without a value, the server keeps the stored one
			h.Value = apitypes.Of(value)
		}
		headers = append(headers, h)
	}
	if len(headers) == 0 {
		return none, nil
	}
	return apitypes.Of(headers), nil
}

// auth returns the authentication of the request. It replaces the whole authentication of the
// endpoint; keepParts adds the parts that no flag names. Without --auth the option is left out, and
// a flag for a part of it is an error.
func (f *policyFlags) auth(t terminal) (none apitypes.Optional[apitypes.Auth], _ error) {
	secret, err := readSecretFile(t, f.AuthSecretFile)
	if err != nil {
		return none, err
	}
	a := apitypes.Auth{
		Type: postrider.AuthKind(f.Auth), Username: f.AuthUser, Header: f.AuthHeader, TokenURL: f.AuthTokenURL,
		ClientID: f.AuthClientID, Scopes: f.AuthScopes, Audience: f.AuthAudience,
	}
	// A part without a type is refused. The endpoint's type is not known here, and a wrong guess
	// could send a password as a token.
	detail, needs := f.authDetail()
	switch a.Type {
	case "":
		if detail != "" {
			return none, misused("%s needs --auth %s", detail, needs)
		}
		return none, nil
	case postrider.AuthNone:
		if detail != "" {
			return none, misused("--auth none: must not be given together with other --auth flags")
		}
		return apitypes.Null[apitypes.Auth](), nil
	case postrider.AuthBasic:
		a.Password = secret
	case postrider.AuthBearer:
		a.Token = secret
	case postrider.AuthAPIKey:
		a.Key = secret
	case postrider.AuthOAuth2:
		a.ClientSecret = secret
	}
	return apitypes.Of(a), nil
}

// authDetail returns the first flag for a part of the authentication, and the type with this part.
// They are for an error such as "--auth-user needs --auth basic". Both are empty if no such flag is
// given. The server checks whether a part fits the given type.
func (f *policyFlags) authDetail() (flag string, needs postrider.AuthKind) {
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
		return "--auth-secret-file", "TYPE" // every type has a secret
	}
	return "", ""
}

// tls returns the certificates of the request. They replace all certificates of the endpoint;
// keepParts adds the parts that no flag names. The files are sent unchanged: the server checks that
// they are PEM and that the key belongs to the certificate.
func (f *policyFlags) tls(t terminal) (none apitypes.Optional[apitypes.TLS], _ error) {
	if f.TLSCert+f.TLSKey+f.TLSAuthorities == "" {
		if f.NoTLS {
			return apitypes.Null[apitypes.TLS](), nil
		}
		return none, nil
	}
	if f.NoTLS {
		return none, misused("--no-tls: must not be given together with other --tls flags")
	}
	if f.TLSKey != "" && f.TLSCert == "" {
		return none, misused("--tls-key needs --tls-cert")
	}
	var own apitypes.TLS
	for _, part := range []struct {
		file string
		to   *string
	}{{f.TLSCert, &own.Certificate}, {f.TLSKey, &own.Key}, {f.TLSAuthorities, &own.Authorities}} {
		if part.file == "" {
			continue
		}
		text, err := readSource(t, part.file)
		if err != nil {
			return none, fmt.Errorf("read PEM: %w", err)
		}
		*part.to = string(text)
	}
	return apitypes.Of(own), nil
}

// isPartial reports whether the flags name parts of the authentication or of the certificates. The
// API replaces each of the two as a whole, so the command must read the endpoint first.
func isPartial(p apitypes.Policy) bool {
	_, auth := p.Auth.Get()
	_, tls := p.TLS.Get()
	return auth || tls
}

// keepParts adds the parts of the endpoint that no flag names. So "endpoints update ID --auth basic
// --auth-user new" keeps the password, and "--tls-cert FILE" keeps the authorities. Parts of
// another type of authentication are not kept. The API returns no secrets; the server keeps a
// secret that the request leaves out.
func keepParts(p *apitypes.Policy, stored apitypes.Policy) {
	a, ok := p.Auth.Get()
	// A new type starts empty: a header name, for example, means nothing to oauth2.
	if old := stored.Auth.Value(); ok && a.Type == old.Type {
		a.Username = cmp.Or(a.Username, old.Username)
		a.Header = cmp.Or(a.Header, old.Header)
		a.TokenURL = cmp.Or(a.TokenURL, old.TokenURL)
		a.ClientID = cmp.Or(a.ClientID, old.ClientID)
		a.Audience = cmp.Or(a.Audience, old.Audience)
		if len(a.Scopes) == 0 {
			a.Scopes = old.Scopes
		}
		p.Auth = apitypes.Of(a)
	}
	// The key is not copied: the API does not return it, and the server keeps it.
	if own, ok := p.TLS.Get(); ok {
		old := stored.TLS.Value()
		own.Certificate = cmp.Or(own.Certificate, old.Certificate)
		own.Authorities = cmp.Or(own.Authorities, old.Authorities)
		p.TLS = apitypes.Of(own)
	}
}

// readSecretFile returns the contents of a file without the line breaks at its end, which editors
// add and no secret has. Without a file name it returns an empty text. An empty file is an error,
// because the server would read an empty secret as "keep the stored one".
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

type endpointsVerifyCmd struct {
	oneEndpoint

	Method string `enum:",challenge,cloudevents" default:"" placeholder:"challenge|cloudevents" help:"The kind of verification: challenge or cloudevents. Default: the server's --verify-endpoints."`
}

// Run asks the receiver of the endpoint whether it wants events, and prints the
// endpoint.
func (c *endpointsVerifyCmd) Run(ctx context.Context, t terminal) error {
	return c.show(ctx, t, func(api *client.Client, ctx context.Context, id postrider.EndpointID) (apitypes.Endpoint, error) {
		return api.VerifyEndpoint(ctx, id, c.Method)
	})
}
