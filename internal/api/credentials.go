package api

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// This file reads the secrets of headers, authentication and TLS. No response
// shows them. A change that leaves a secret out keeps it, but only for the same
// host: otherwise anyone who may change an endpoint could have its secrets sent
// to a host of their own.

const (
	maxHeaderBytes = 8 << 10 // of an endpoint's own headers
	maxSecretText  = 4 << 10 // of a password or a client's secret
	maxTLS         = 64 << 10
)

// namesCredentials reports whether the request has a field that may hold
// credentials.
func namesCredentials(p apitypes.Policy) bool {
	return !p.Headers.IsZero() || !p.Auth.IsZero() || !p.TLS.IsZero()
}

// applyHeaders replaces the headers of p by those of the request, if it has
// any. c has the secret values of the endpoint, and afterwards those that the
// new headers need: a secret header without a value keeps the stored one.
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
		case !h.Sensitive && !given: // calling a secret header plain must not show its stored value
			faults = append(faults, invalid(fmt.Sprintf("headers[%d].value", i), "is required"))
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

func keptHeader(kept map[string]string, name string) string {
	for other, value := range kept {
		if strings.EqualFold(other, name) {
			return value
		}
	}
	return ""
}

// applyAuth replaces the authentication of p by that of the request, if it has
// one. The stored secret is kept for the same type and the same token host.
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

// moveAuthSecret moves the secret of the type into c, if the request has it.
// Secrets of other types are faults.
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
			faults = append(faults, invalid("auth."+field.name, "must be absent with the type "+string(a.Type)))
		}
	}
	return errors.Join(faults...)
}

// authSecrets has, for each type of authentication, the field that holds its
// secret.
var authSecrets = map[postrider.AuthKind]string{
	postrider.AuthBasic: "password", postrider.AuthBearer: "token",
	postrider.AuthAPIKey: "key", postrider.AuthOAuth2: "client_secret",
}

// applyTLS replaces the TLS settings of p by those of the request, if it has
// any. The stored key is kept where the request has a certificate without key.
func applyTLS(p *postrider.Policy, c *postrider.Credentials, to apitypes.Optional[apitypes.TLS]) error {
	if to.IsZero() {
		return nil
	}
	t, given := to.Get()
	kept := c.TLSKey
	p.TLS, c.TLSKey = postrider.TLS{Certificate: t.Certificate, Authorities: t.Authorities}, t.Key
	switch {
	case given && t == apitypes.TLS{}:
		return invalid("tls", "must have a certificate with its key, or authorities, or be null")
	case t.Key == "" && t.Certificate != "":
		c.TLSKey = kept
	}
	return nil
}

// required says that a secret has to be given, and why, if there was one: only
// another host can have ended it.
func required(given bool) string {
	if given {
		return "is required; what was given before is kept for the same host only"
	}
	return "is required"
}

// checkCredentials returns every fault of what the policy keeps encrypted, and
// of the TLS that the request has. Was is the policy before; zero: there was
// none.
func (s *server) checkCredentials(was, p postrider.Policy, c postrider.Credentials, to apitypes.Policy) error {
	faults := []error{checkHeaderSecrets(was, p, c), checkAuthSecret(p.Auth.Kind, c.Auth, was.Auth.Kind == p.Auth.Kind)}
	if to.TLS.IsZero() || p.TLS == (postrider.TLS{}) && c.TLSKey == "" { // a certificate that has ended stops no other change
		return errors.Join(faults...)
	}
	err := checkTLS(p.TLS, c.TLSKey)
	if err == nil {
		err = s.Guard.CheckTLS(p.TLS, c.TLSKey)
	}
	return errors.Join(append(faults, err)...)
}

func checkHeaderSecrets(was, p postrider.Policy, c postrider.Credentials) error {
	var faults []error
	size := 0
	for i, h := range p.Headers {
		size += len(h.Name) + len(h.Value) + len(c.Headers[h.Name]) + len(": \r\n")
		switch value := c.Headers[h.Name]; {
		case !h.Secret:
		case value == "":
			given := slices.ContainsFunc(was.Headers, func(o postrider.Header) bool { return o.Secret && strings.EqualFold(o.Name, h.Name) })
			faults = append(faults, invalid(fmt.Sprintf("headers[%d].value", i), required(given)))
		default:
			faults = append(faults, postrider.CheckHeaderValue(fmt.Sprintf("headers[%d].value", i), value))
		}
	}
	if size > maxHeaderBytes {
		faults = append(faults, invalid("headers", "must be at most 32 of 8 KiB together"))
	}
	return errors.Join(faults...)
}

func checkAuthSecret(kind postrider.AuthKind, secret string, given bool) error {
	name, known := authSecrets[kind]
	field := "auth." + name
	switch {
	case !known:
		return nil
	case secret == "":
		return invalid(field, required(given))
	case kind == postrider.AuthBearer || kind == postrider.AuthAPIKey: // it is a header as it is
		return postrider.CheckHeaderValue(field, secret)
	case len(secret) > maxSecretText || !isText(secret):
		return invalid(field, fmt.Sprintf("must be at most %d bytes of text without control characters", maxSecretText))
	}
	return nil
}

// checkTLS returns the faults of TLS that are no matter of what is in it.
func checkTLS(t postrider.TLS, key string) error {
	faults := []error{
		checkText("tls.certificate", t.Certificate, maxTLS), checkText("tls.key", key, maxTLS),
		checkText("tls.authorities", t.Authorities, maxTLS),
	}
	if t.Certificate != "" && key == "" {
		faults = append(faults, invalid("tls.key", "is required"))
	}
	if t.Certificate == "" && key != "" {
		faults = append(faults, invalid("tls.certificate", "is required"))
	}
	return errors.Join(faults...)
}

// host returns what a URL says of whom it reaches. Of what is no URL it returns
// all, which is like no other.
func host(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

func viewHeaders(list []postrider.Header) []apitypes.Header {
	views := make([]apitypes.Header, 0, len(list))
	for _, h := range list {
		views = append(views, apitypes.Header{Name: h.Name, Value: apitypes.NullUnless(!h.Secret, h.Value), Sensitive: h.Secret})
	}
	return views
}

func viewAuth(a postrider.Auth) apitypes.Optional[apitypes.Auth] {
	return apitypes.NullUnless(a.Kind != postrider.AuthNone, apitypes.Auth{
		Type: a.Kind, Username: a.User, Header: a.Header, TokenURL: a.TokenURL, ClientID: a.ClientID, Scopes: a.Scopes, Audience: a.Audience,
	})
}

func viewTLS(t postrider.TLS) apitypes.Optional[apitypes.TLS] {
	return apitypes.NullUnless(t != postrider.TLS{}, apitypes.TLS{Certificate: t.Certificate, Authorities: t.Authorities})
}
