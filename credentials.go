package postrider

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// Header is a header that the owner of an endpoint adds to every request.
type Header struct {
	Name   string
	Value  string // empty if Secret: [Credentials.Headers] has the value
	Secret bool
}

// Auth is how requests authenticate to an endpoint. Passwords, tokens and keys are
// in the [Credentials].
type Auth struct {
	Kind     AuthKind
	User     string   // AuthBasic
	Header   string   // AuthAPIKey: name of the header that carries the key
	TokenURL string   // AuthOAuth2: where access tokens are requested
	ClientID string   // AuthOAuth2
	Scopes   []string // AuthOAuth2; may be empty
	Audience string   // AuthOAuth2; may be empty
}

// AuthKind is a method of authentication.
type AuthKind string

// The methods of authentication.
const (
	AuthNone   AuthKind = "none"
	AuthBasic  AuthKind = "basic"
	AuthBearer AuthKind = "bearer"
	AuthAPIKey AuthKind = "api_key"
	AuthOAuth2 AuthKind = "oauth2" // client credentials grant, RFC 6749, 4.4
)

// AuthKinds lists every method of authentication.
var AuthKinds = []AuthKind{AuthNone, AuthBasic, AuthBearer, AuthAPIKey, AuthOAuth2}

// TLS has the TLS settings of an endpoint's connections. Both fields are PEM.
type TLS struct {
	Certificate string // client certificate, the leaf first; its key is in [Credentials.TLSKey]; empty: none
	Authorities string // authorities that the receiver's certificate must chain to; empty: the system's authorities
}

// Credentials are the secret values of a policy. They are stored encrypted, and
// the API never returns them.
type Credentials struct {
	Headers map[string]string // values of the headers that are Secret, by header name
	Auth    string            // password, token, key or client secret
	TLSKey  string            // private key of TLS.Certificate, PEM
}

// LogValue logs no value.
func (Credentials) LogValue() slog.Value { return slog.StringValue("credentials") }

// Format prints no value, whatever the verb.
func (Credentials) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "credentials") }

// The limits of an endpoint's own headers.
const (
	maxHeaders     = 32
	maxHeaderBytes = 8 << 10

	tooManyHeaders = "must be at most 32 of 8 KiB together"
)

// checkHeaders returns an [InvalidError] for each fault of an endpoint's headers,
// joined.
func checkHeaders(list []Header) error {
	var faults faults
	if len(list) > maxHeaders {
		faults.add(true, "headers", FaultTooLong, tooManyHeaders)
		return faults.joined()
	}
	size := 0
	for i, h := range list {
		field := fmt.Sprintf("headers[%d]", i)
		faults.join(CheckHeaderName(field+".name", h.Name))
		faults.join(CheckHeaderValue(field+".value", h.Value))
		same := func(other Header) bool { return strings.EqualFold(other.Name, h.Name) }
		faults.add(slices.ContainsFunc(list[:i], same), field+".name", FaultRepeated, "must not repeat a header")
		faults.add(h.Secret && h.Value != "", field+".value", FaultNotAllowed, "must be kept apart")
		size += len(h.Name) + len(h.Value) + len(": \r\n")
	}
	faults.add(size > maxHeaderBytes, "headers", FaultTooLong, tooManyHeaders)
	return faults.joined()
}

// reservedHeaders are headers that frame or route a request. If a customer could set one of them, a
// receiver or a proxy might read a different request.
var reservedHeaders = []string{
	"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "te", "trailer", "connection",
	"keep-alive", "upgrade", "expect", "cookie", "authorization", "user-agent", "via", "forwarded", "date",
}

// reservedPrefixes are prefixes of the names of headers that Postrider or a proxy sets.
var reservedPrefixes = []string{"webhook-", "svix-", "proxy-", "sec-", "x-forwarded-", "x-webhook-", "http2-"}

// reservedSignatures are the headers of the signature schemes.
var reservedSignatures = []string{
	"stripe-signature", "x-hub-signature", "x-hub-signature-256", "x-shopify-hmac-sha256", "x-slack-signature",
	"x-slack-request-timestamp", "x-idempotency-key", "x-event-id", "x-github-event", "x-github-delivery", "x-shopify-topic",
	"x-shopify-webhook-id", "x-shopify-event-id", "x-shopify-triggered-at",
}

// CheckHeaderName returns an [InvalidError] for the field if customers may not set a header with
// the name. They may if the name is a token (RFC 9110, 5.6.2) of at most 128 bytes and is not
// reserved.
func CheckHeaderName(field, name string) error {
	lower := strings.ToLower(name)
	reserved := slices.Contains(reservedHeaders, lower) || slices.Contains(reservedSignatures, lower) ||
		slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(lower, p) })
	switch {
	case !isToken(name):
		return &InvalidError{Field: field, Reason: "must be a header name of at most 128 letters, digits and hyphens"}
	case reserved:
		return &InvalidError{Field: field, Code: FaultNotAllowed, Reason: "must not be a header that is set for every request"}
	}
	return nil
}

// isToken reports whether every server accepts the name. It allows fewer characters than RFC 9110
// does, because some servers read an underscore as a hyphen.
func isToken(name string) bool {
	strange := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}
	return name != "" && len(name) <= 128 && !strings.ContainsFunc(name, strange)
}

// CheckHeaderValue returns an [InvalidError] for the field unless value is at most 4 KiB of
// printable ASCII that neither begins nor ends with a space.
func CheckHeaderValue(field, value string) error {
	strange := func(r rune) bool { return r < ' ' || r > '~' }
	if len(value) > 4<<10 || strings.ContainsFunc(value, strange) || strings.Trim(value, " ") != value {
		return &InvalidError{Field: field, Reason: "must be at most 4096 printable ASCII characters, without spaces at either end"}
	}
	return nil
}

// check returns an [InvalidError] for each fault of the authentication, joined. The egress guard
// checks the token URL, not this function.
func (a Auth) check() error {
	var faults faults
	only := func(set bool, field string, kinds ...AuthKind) {
		faults.add(set && !slices.Contains(kinds, a.Kind), "auth."+field, FaultNotAllowed, "must be absent with the type "+string(a.Kind))
	}
	if !slices.Contains(AuthKinds, a.Kind) {
		faults.add(true, "auth.type", FaultNotAChoice, "must be none, basic, bearer, api_key or oauth2")
		return faults.joined()
	}
	only(a.User != "", "username", AuthBasic)
	only(a.Header != "", "header", AuthAPIKey)
	only(a.TokenURL != "", "token_url", AuthOAuth2)
	only(a.ClientID != "", "client_id", AuthOAuth2)
	only(len(a.Scopes) > 0, "scopes", AuthOAuth2)
	only(a.Audience != "", "audience", AuthOAuth2)
	faults.add(a.Kind == AuthBasic && a.User == "", "auth.username", FaultRequired, "is required")
	faults.add(strings.Contains(a.User, ":"), "auth.username", FaultMalformed, "must not have a colon")
	faults.join(CheckHeaderValue("auth.username", a.User))
	faults.join(CheckHeaderValue("auth.client_id", a.ClientID))
	faults.join(CheckHeaderValue("auth.audience", a.Audience))
	faults.join(CheckHeaderValue("auth.scopes", strings.Join(a.Scopes, " ")))
	if a.Kind == AuthAPIKey && !strings.EqualFold(a.Header, "authorization") {
		faults.join(CheckHeaderName("auth.header", a.Header))
	}
	faults.add(a.Kind == AuthOAuth2 && a.ClientID == "", "auth.client_id", FaultRequired, "is required")
	return faults.joined()
}
