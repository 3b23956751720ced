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

// This file applies the secrets of headers, authentication and TLS. No response
// shows them. A request that omits a secret keeps the stored one. For headers
// and authentication this holds only while the host stays the same: otherwise
// anyone who may change an endpoint could have its secrets sent to a host of
// their own. The TLS key is kept for any host, because it is never sent.

const (
	// The limits of credentials, in bytes.
	maxHeaderBytes = 8 << 10 // all own headers of an endpoint, names and values
	maxSecretText  = 4 << 10 // a password or a client secret
	maxTLS         = 64 << 10
)

// namesCredentials reports whether the request has a field that can contain
// credentials.
func namesCredentials(p apitypes.Policy) bool {
	return !p.Headers.IsZero() || !p.Auth.IsZero() || !p.TLS.IsZero()
}

// applyHeaders replaces the headers of p by those of the request. An omitted
// field changes nothing, and null removes all headers. On input c has the
// stored values of secret headers; on return it has the values of the new ones.
// A secret header without a value keeps the stored value.
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
			// Keeping the stored value here would reveal it: the header was sensitive
			// and would be readable now.
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

// keptHeader returns the stored value of a secret header. Names match in any
// case. Empty: there is none.
func keptHeader(kept map[string]string, name string) string {
	for other, value := range kept {
		if strings.EqualFold(other, name) {
			return value
		}
	}
	return ""
}

// applyAuth replaces the authentication of p by that of the request. An omitted
// field changes nothing, and null removes it. The stored secret is kept if the
// type and the host of the token URL are unchanged.
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

// moveAuthSecret stores the secret of the request in c. The API has a field for the
// secret of each type, so that a client cannot send a password as a token; the domain
// has one secret. A secret in the field of another type is a fault.
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

// applyTLS replaces the TLS settings of p by those of the request. An omitted
// field changes nothing, and null removes them. If the request has a
// certificate without a key, the stored key is kept.
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

// required returns the reason of a fault for a missing secret. If there was a
// stored secret, the reason also says why it was not kept: the host changed.
func required(given bool) string {
	if given {
		return "is required; what was given before is kept for the same host only"
	}
	return "is required"
}

// checkCredentials returns all faults of the encrypted parts of the policy, and
// of the TLS settings if the request has some. The argument was is the stored
// policy; zero: the endpoint is new.
func (s *Routes) checkCredentials(was, p postrider.Policy, c postrider.Credentials, to apitypes.Policy) error {
	faults := []error{checkHeaderSecrets(was, p, c), checkAuthSecret(p.Auth.Kind, c.Auth, was.Auth.Kind == p.Auth.Kind)}
	if to.TLS.IsZero() || p.TLS == (postrider.TLS{}) && c.TLSKey == "" {
		// An expired certificate must not block other changes.
		return errors.Join(faults...)
	}
	// The Guard parses certificates, so it gets only texts of acceptable size.
	err := checkTLS(p.TLS, c.TLSKey)
	if err == nil {
		err = s.Guard.CheckTLS(p.TLS, c.TLSKey)
	}
	return errors.Join(append(faults, err)...)
}

// checkHeaderSecrets checks that every secret header has a valid value, and the
// size of all headers together.
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

// checkAuthSecret checks the secret of the authentication type. Given says that
// the type is unchanged, so a secret was stored.
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
	case len(secret) > maxSecretText || !rest.IsText(secret):
		return rest.TooLong(field, maxSecretText, fmt.Sprintf("must be at most %d bytes of text without control characters", maxSecretText))
	}
	return nil
}

// checkTLS checks the sizes of the TLS settings, and that a certificate and its
// key come together. The Guard checks the contents.
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

// host returns the scheme and the host of a URL. An invalid URL is returned
// unchanged, so it equals no host.
func host(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// viewHeaders returns headers in the form of a response. The value of a secret
// header is null.
func viewHeaders(list []postrider.Header) []apitypes.Header {
	views := make([]apitypes.Header, 0, len(list))
	for _, h := range list {
		views = append(views, apitypes.Header{Name: h.Name, Value: apitypes.NullUnless(!h.Secret, h.Value), Sensitive: h.Secret})
	}
	return views
}

// viewAuth returns the authentication in the form of a response, without its
// secret. Null: there is none.
func viewAuth(a postrider.Auth) apitypes.Optional[apitypes.Auth] {
	return apitypes.NullUnless(a.Kind != postrider.AuthNone, apitypes.Auth{
		Type: a.Kind, Username: a.User, Header: a.Header, TokenURL: a.TokenURL, ClientID: a.ClientID, Scopes: a.Scopes, Audience: a.Audience,
	})
}

// viewTLS returns the TLS settings in the form of a response, without the
// private key. Null: there are none.
func viewTLS(t postrider.TLS) apitypes.Optional[apitypes.TLS] {
	return apitypes.NullUnless(t != postrider.TLS{}, apitypes.TLS{Certificate: t.Certificate, Authorities: t.Authorities})
}
