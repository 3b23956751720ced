package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/postrider/postrider"
)

// What is secret of headers, authentication and TLS is read here, and shown
// nowhere. A change that leaves a secret out keeps it, but only for the host
// that it was meant for: else whoever may change an endpoint could have its
// secrets sent to a host of their own.

const (
	maxHeaderBytes = 8 << 10 // of an endpoint's own headers
	maxSecretText  = 4 << 10 // of a password or a client's secret
	maxTLS         = 64 << 10
)

// headerJSON is a header of the endpoint's own.
type headerJSON struct {
	Name      string           `json:"name" example:"X-Tenant"`
	Value     optional[string] `json:"value,omitzero" doc:"In an answer, null for a sensitive header. In a request, null or left out keeps the value of a sensitive header."`
	Sensitive bool             `json:"sensitive,omitempty" doc:"The value is stored encrypted and never shown; default false."`
}

// MarshalJSON writes all three fields.
func (h headerJSON) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Name      string           `json:"name"`
		Value     optional[string] `json:"value"`
		Sensitive bool             `json:"sensitive"`
	}(h))
}

// authJSON is how requests authenticate.
type authJSON struct {
	Type         string   `json:"type" enum:"basic,bearer,api_key,oauth2"`
	Username     string   `json:"username,omitempty" doc:"With basic."`
	Password     *string  `json:"password,omitempty" writeOnly:"true" doc:"With basic."`
	Token        *string  `json:"token,omitempty" writeOnly:"true" doc:"With bearer."`
	Header       string   `json:"header,omitempty" doc:"With api_key: name of the header that holds the key."`
	Key          *string  `json:"key,omitempty" writeOnly:"true" doc:"With api_key."`
	TokenURL     string   `json:"token_url,omitempty" doc:"With oauth2: URL of the token endpoint."`
	ClientID     string   `json:"client_id,omitempty" doc:"With oauth2."`
	ClientSecret *string  `json:"client_secret,omitempty" writeOnly:"true" doc:"With oauth2."`
	Scopes       []string `json:"scopes,omitempty" nullable:"false" doc:"With oauth2."`
	Audience     string   `json:"audience,omitempty" doc:"With oauth2."`
}

// tlsJSON is what an endpoint's connections have of their own, in PEM.
type tlsJSON struct {
	Certificate string  `json:"certificate,omitempty" doc:"Client certificate chain, the leaf first, in PEM."`
	Key         *string `json:"key,omitempty" writeOnly:"true" doc:"Private key of the certificate, in PEM."`
	Authorities string  `json:"authorities,omitempty" doc:"Certificate authorities that must have issued the receiver's certificate, instead of the system's, in PEM."`
}

// namesCredentials reports whether the request says something of what is kept
// encrypted.
func (j PolicyJSON) namesCredentials() bool { return j.Headers.given || j.Auth.given || j.TLS.given }

// applyHeaders sets the headers. c has what is kept of them, and then what
// they need.
func (j PolicyJSON) applyHeaders(p *postrider.Policy, c *postrider.Credentials) error {
	if !j.Headers.given {
		return nil
	}
	kept := c.Headers
	p.Headers, c.Headers = nil, map[string]string{}
	var faults []error
	for i, h := range j.Headers.value {
		header := postrider.Header{Name: h.Name, Secret: h.Sensitive}
		there := h.Value.given && !h.Value.null
		switch {
		case !h.Sensitive && !there: // a value that was sensitive is not shown by saying that it is not
			faults = append(faults, invalid(fmt.Sprintf("headers[%d].value", i), "is required"))
		case !h.Sensitive:
			header.Value = h.Value.value
		case !there:
			c.Headers[h.Name] = keptHeader(kept, h.Name)
		default:
			c.Headers[h.Name] = h.Value.value
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

// applyAuth sets the authentication. c has what is kept of it, and then what
// it needs.
func (j PolicyJSON) applyAuth(p *postrider.Policy, c *postrider.Credentials) error {
	if !j.Auth.given {
		return nil
	}
	was, a := p.Auth, j.Auth.value
	if j.Auth.null {
		p.Auth, c.Auth = postrider.Auth{Kind: postrider.AuthNone}, ""
		return nil
	}
	p.Auth = postrider.Auth{
		Kind: postrider.AuthKind(a.Type), User: a.Username, Header: a.Header,
		TokenURL: a.TokenURL, ClientID: a.ClientID, Scopes: a.Scopes, Audience: a.Audience,
	}
	if p.Auth.Kind != was.Kind || host(was.TokenURL) != host(a.TokenURL) {
		c.Auth = ""
	}
	return a.takeSecret(c)
}

// takeSecret moves the secret of the type into c, if it is there, and returns
// the faults of those that belong to other types.
func (a authJSON) takeSecret(c *postrider.Credentials) error {
	var faults []error
	take := func(field string, secret *string) {
		switch {
		case secret == nil:
		case field == authSecrets[postrider.AuthKind(a.Type)]:
			c.Auth = *secret
		default:
			faults = append(faults, invalid("auth."+field, "must be absent with the type "+a.Type))
		}
	}
	take("password", a.Password)
	take("token", a.Token)
	take("key", a.Key)
	take("client_secret", a.ClientSecret)
	return errors.Join(faults...)
}

// authSecrets are the names of what is secret of each way to authenticate.
var authSecrets = map[postrider.AuthKind]string{
	postrider.AuthBasic: "password", postrider.AuthBearer: "token",
	postrider.AuthAPIKey: "key", postrider.AuthOAuth2: "client_secret",
}

// applyTLS sets the endpoint's own TLS. c has the key that is kept, and then
// the one that it needs.
func (j PolicyJSON) applyTLS(p *postrider.Policy, c *postrider.Credentials) error {
	if !j.TLS.given {
		return nil
	}
	kept, t := c.TLSKey, j.TLS.value
	p.TLS, c.TLSKey = postrider.TLS{}, ""
	if j.TLS.null {
		return nil
	}
	p.TLS = postrider.TLS{Certificate: t.Certificate, Authorities: t.Authorities}
	switch {
	case p.TLS == postrider.TLS{} && t.Key == nil:
		return invalid("tls", "must have a certificate with its key, or authorities, or be null")
	case t.Key != nil:
		c.TLSKey = *t.Key
	case t.Certificate != "":
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
func (s *server) checkCredentials(was, p postrider.Policy, c postrider.Credentials, j PolicyJSON) error {
	faults := []error{checkHeaderSecrets(was, p, c), checkAuthSecret(p.Auth.Kind, c.Auth, was.Auth.Kind == p.Auth.Kind)}
	if !j.TLS.given || p.TLS == (postrider.TLS{}) && c.TLSKey == "" { // a certificate that has ended stops no other change
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

func viewHeaders(list []postrider.Header) []headerJSON {
	views := make([]headerJSON, 0, len(list))
	for _, h := range list {
		views = append(views, headerJSON{Name: h.Name, Value: nullUnless(!h.Secret, h.Value), Sensitive: h.Secret})
	}
	return views
}

func viewAuth(a postrider.Auth) optional[authJSON] {
	return nullUnless(a.Kind != postrider.AuthNone, authJSON{
		Type: string(a.Kind), Username: a.User, Header: a.Header,
		TokenURL: a.TokenURL, ClientID: a.ClientID, Scopes: a.Scopes, Audience: a.Audience,
	})
}

func viewTLS(t postrider.TLS) optional[tlsJSON] {
	return nullUnless(t != postrider.TLS{}, tlsJSON{Certificate: t.Certificate, Authorities: t.Authorities})
}
