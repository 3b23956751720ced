package endpoints

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
)

// This file applies the secrets of headers, authentication and TLS. No response shows these
// secrets. If a request omits a secret, the stored secret is kept. For headers and authentication,
// a secret is kept only while the host stays the same. Otherwise anyone who may change an endpoint
// could have its secrets sent to a host of their own. The TLS key is kept for any host, because it
// is never sent.

const (
	// The limits of credentials, in bytes.
	maxHeaderBytes = 8 << 10 // the endpoint's own headers together, names and values
	maxSecretText  = 4 << 10 // a password or a client secret
	maxTLS         = 64 << 10
)

// namesCredentials reports whether the request has a field that can contain credentials.
func namesCredentials(p apitypes.Policy) bool {
	return !p.Headers.IsZero() || !p.Auth.IsZero() || !p.TLS.IsZero()
}

// applyHeaders replaces the headers of p by the headers of the request. An omitted field changes
// nothing, and null removes all headers. On input, c has the stored values of secret headers. On
// return, c has the values of the new secret headers. A secret header without a value keeps the
// stored value.
func applyHeaders(p *postrider.Policy, c *postrider.Credentials, to apitypes.Optional[[]apitypes.Header]) error {
	if to.IsZero() {
		return nil
	}
	kept := c.Headers
	p.Headers, c.Headers = nil, map[string]string{}
	var faults []error
	for i, h := range to.Value() {
		header := postrider.Header{Name: h.Name, Secret: h.Sensitive}
		value, given := h.Value.Get()
		switch {
		case !h.Sensitive && !given:
			// The header may have been sensitive before. Keeping its stored value would make that
			// value readable.
			faults = append(faults, rest.Invalid(fmt.Sprintf("headers[%d].value", i), postrider.FaultRequired, "is required"))
		case !h.Sensitive:
			header.Value = value
		case !given:
			c.Headers[h.Name] = keptHeader(kept, h.Name)
		default:
			c.Headers[h.Name] = value
		}
		p.Headers = append(p.Headers, header)
	}
	return errors.Join(faults...)
}

// keptHeader returns the stored value of a secret header; empty: no value is stored. It compares
// names without regard to case.
func keptHeader(kept map[string]string, name string) string {
	for other, value := range kept {
		if strings.EqualFold(other, name) {
			return value
		}
	}
	return ""
}

// applyAuth replaces the authentication of p by the authentication in the request. If the request
// omits it, nothing changes; null removes the authentication. The stored secret is kept if the type and the host
// of the token URL are unchanged.
func applyAuth(p *postrider.Policy, c *postrider.Credentials, to apitypes.Optional[apitypes.Auth]) error {
	if to.IsZero() {
		return nil
	}
	a, given := to.Get()
	if !given {
		p.Auth, c.Auth = postrider.Auth{Kind: postrider.AuthNone}, ""
		return nil
	}
	was := p.Auth
	p.Auth = postrider.Auth{
		Kind: a.Type, User: a.Username, Header: a.Header, TokenURL: a.TokenURL, ClientID: a.ClientID, Scopes: a.Scopes, Audience: a.Audience,
	}
	if a.Type != was.Kind || host(was.TokenURL) != host(a.TokenURL) {
		c.Auth = ""
	}
	return moveAuthSecret(a, c)
}

// moveAuthSecret stores the secret of the request in c. The API has one field for the secret of
// each type, so that a client cannot send a password as a token. The domain type has a single
// field. A secret in the field of another type is a fault.
func moveAuthSecret(a apitypes.Auth, c *postrider.Credentials) error {
	var faults []error
	for _, field := range []struct{ name, secret string }{
		{"password", a.Password}, {"token", a.Token}, {"key", a.Key}, {"client_secret", a.ClientSecret},
	} {
		switch {
		case field.secret == "":
		case field.name == authSecrets[a.Type]:
			c.Auth = field.secret
		default:
			faults = append(faults, rest.Invalid("auth."+field.name, postrider.FaultNotAllowed, "must be absent with the type "+string(a.Type)))
		}
	}
	return errors.Join(faults...)
}

// authSecrets maps each type of authentication to the field with its secret.
var authSecrets = map[postrider.AuthKind]string{
	postrider.AuthBasic: "password", postrider.AuthBearer: "token",
	postrider.AuthAPIKey: "key", postrider.AuthOAuth2: "client_secret",
}

// applyTLS replaces the TLS settings of p by the settings in the request. An omitted field changes
// nothing, and null removes the settings. If the request has a certificate without a key, the
// stored key is kept.
func applyTLS(p *postrider.Policy, c *postrider.Credentials, to apitypes.Optional[apitypes.TLS]) error {
	if to.IsZero() {
		return nil
	}
	t, given := to.Get()
	kept := c.TLSKey
	p.TLS, c.TLSKey = postrider.TLS{Certificate: t.Certificate, Authorities: t.Authorities}, t.Key
	switch {
	case given && t == apitypes.TLS{}:
		return rest.Invalid("tls", postrider.FaultContradictory, "must have a certificate with its key, or authorities, or be null")
	case t.Key == "" && t.Certificate != "":
		c.TLSKey = kept
	}
	return nil
}

// required returns the text of the fault for a missing secret. If a secret was stored before, the
// text also says that it is kept only for the same host.
func required(given bool) string {
	if given {
		return "is required; what was given before is kept for the same host only"
	}
	return "is required"
}

// checkCredentials returns all faults of the encrypted parts of the policy, and of the TLS settings
// if the request has some. The argument was is the stored policy. For a new endpoint it is zero.
func (s *Routes) checkCredentials(was, p postrider.Policy, c postrider.Credentials, to apitypes.Policy) error {
	faults := []error{checkHeaderSecrets(was, p, c), checkAuthSecret(p.Auth.Kind, c.Auth, was.Auth.Kind == p.Auth.Kind)}
	if to.TLS.IsZero() || p.TLS == (postrider.TLS{}) && c.TLSKey == "" {
		// The stored TLS settings are not checked again: an expired certificate must not block
		// other changes.
		return errors.Join(faults...)
	}
	// The Guard parses certificates, so it gets only texts of an acceptable size.
	err := checkTLS(p.TLS, c.TLSKey)
	if err == nil {
		err = s.Guard.CheckTLS(p.TLS, c.TLSKey)
	}
	return errors.Join(append(faults, err)...)
}

// checkHeaderSecrets checks that every secret header has a valid value. It also checks the size of
// all headers together.
func checkHeaderSecrets(was, p postrider.Policy, c postrider.Credentials) error {
	var faults []error
	size := 0
	for i, h := range p.Headers {
		size += len(h.Name) + len(h.Value) + len(c.Headers[h.Name]) + len(": \r\n")
		switch value := c.Headers[h.Name]; {
		case !h.Secret:
		case value == "":
			given := slices.ContainsFunc(was.Headers, func(o postrider.Header) bool { return o.Secret && strings.EqualFold(o.Name, h.Name) })
			faults = append(faults, rest.Invalid(fmt.Sprintf("headers[%d].value", i), postrider.FaultRequired, required(given)))
		default:
			faults = append(faults, postrider.CheckHeaderValue(fmt.Sprintf("headers[%d].value", i), value))
		}
	}
	if size > maxHeaderBytes {
		faults = append(faults, rest.Invalid("headers", postrider.FaultTooLong, "must be at most 32 of 8 KiB together"))
	}
	return errors.Join(faults...)
}

// checkAuthSecret checks the secret of the authentication. given is true if the type is unchanged,
// so that a secret may have been stored before.
func checkAuthSecret(kind postrider.AuthKind, secret string, given bool) error {
	name, known := authSecrets[kind]
	field := "auth." + name
	switch {
	case !known:
		return nil
	case secret == "":
		return rest.Invalid(field, postrider.FaultRequired, required(given))
	case kind == postrider.AuthBearer || kind == postrider.AuthAPIKey:
		// The secret becomes part of a header.
		return postrider.CheckHeaderValue(field, secret)
	case len(secret) > maxSecretText || !postrider.IsText(secret):
		return rest.TooLong(field, maxSecretText, fmt.Sprintf("must be at most %d bytes of text without control characters", maxSecretText))
	}
	return nil
}

// checkTLS checks the sizes of the TLS settings, and that a certificate has its key and a key its
// certificate. The Guard checks the contents.
func checkTLS(t postrider.TLS, key string) error {
	faults := []error{
		rest.CheckText("tls.certificate", t.Certificate, maxTLS), rest.CheckText("tls.key", key, maxTLS),
		rest.CheckText("tls.authorities", t.Authorities, maxTLS),
	}
	if t.Certificate != "" && key == "" {
		faults = append(faults, rest.Invalid("tls.key", postrider.FaultRequired, "is required"))
	}
	if t.Certificate == "" && key != "" {
		faults = append(faults, rest.Invalid("tls.certificate", postrider.FaultRequired, "is required"))
	}
	return errors.Join(faults...)
}

// host returns the scheme and the host of a URL. It returns an invalid URL unchanged, so the result
// equals no host.
func host(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// viewHeaders returns headers in the form of a response. The value of a secret header is null.
func viewHeaders(list []postrider.Header) []apitypes.Header {
	views := make([]apitypes.Header, 0, len(list))
	for _, h := range list {
		views = append(views, apitypes.Header{Name: h.Name, Value: apitypes.NullUnless(!h.Secret, h.Value), Sensitive: h.Secret})
	}
	return views
}

// viewAuth returns the authentication without its secret, in the form of a response; null: there is
// none.
func viewAuth(a postrider.Auth) apitypes.Optional[apitypes.Auth] {
	return apitypes.NullUnless(a.Kind != postrider.AuthNone, apitypes.Auth{
		Type: a.Kind, Username: a.User, Header: a.Header, TokenURL: a.TokenURL, ClientID: a.ClientID, Scopes: a.Scopes, Audience: a.Audience,
	})
}

// viewTLS returns the TLS settings without the private key, in the form of a response; null: there
// are none.
func viewTLS(t postrider.TLS) apitypes.Optional[apitypes.TLS] {
	return apitypes.NullUnless(t != postrider.TLS{}, apitypes.TLS{Certificate: t.Certificate, Authorities: t.Authorities})
}
