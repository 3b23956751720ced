package postrider

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
)

// Header is a header that an endpoint's owner wants on every request.
type Header struct {
	Name   string
	Value  string // empty where Secret: it is in the [Credentials]
	Secret bool
}

// Auth is how requests authenticate towards an endpoint. What of it is secret
// is in the [Credentials].
type Auth struct {
	Kind     AuthKind
	User     string   // AuthBasic
	Header   string   // AuthAPIKey: the header that the key goes into
	TokenURL string   // AuthOAuth2, like the rest
	ClientID string   //
	Scopes   []string // may be none
	Audience string   // may be empty
}

// AuthKind names a way to authenticate.
type AuthKind string

// The ways to authenticate.
const (
	AuthNone   AuthKind = "none"
	AuthBasic  AuthKind = "basic"
	AuthBearer AuthKind = "bearer"
	AuthAPIKey AuthKind = "api_key"
	AuthOAuth2 AuthKind = "oauth2" // client credentials, RFC 6749, 4.4
)

// AuthKinds lists every way to authenticate.
var AuthKinds = []AuthKind{AuthNone, AuthBasic, AuthBearer, AuthAPIKey, AuthOAuth2}

// TLS is what an endpoint's connections have of their own. Both are PEM.
type TLS struct {
	Certificate string // shown to the receiver, the leaf first; its key is in the [Credentials]
	Authorities string // whom the receiver's certificate must come from, instead of the system's
}

// Credentials are the parts of a policy that nobody is shown again. They are
// at rest only encrypted.
type Credentials struct {
	Headers map[string]string // values of the headers that are Secret, by their name in the policy
	Auth    string            // password, token, key or client secret
	TLSKey  string            // PEM
}

// LogValue keeps the credentials out of every log.
func (Credentials) LogValue() slog.Value { return slog.StringValue("credentials") }

// Format keeps the credentials out of every text, whatever the verb.
func (Credentials) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, "credentials") }

// The bounds of an endpoint's own headers.
const (
	maxHeaders     = 32
	maxHeaderBytes = 8 << 10

	tooManyHeaders = "must be at most 32 of 8 KiB together"
)

// checkHeaders returns every fault of an endpoint's headers, joined.
func checkHeaders(list []Header) error {
	var faults faults
	if len(list) > maxHeaders {
		faults.add(true, "headers", tooManyHeaders)
		return faults.joined()
	}
	size := 0
	for i, h := range list {
		field := fmt.Sprintf("headers[%d]", i)
		faults.join(CheckHeaderName(field+".name", h.Name))
		faults.join(CheckHeaderValue(field+".value", h.Value))
		same := func(other Header) bool { return strings.EqualFold(other.Name, h.Name) }
		faults.add(slices.ContainsFunc(list[:i], same), field+".name", "must not repeat a header")
		faults.add(h.Secret && h.Value != "", field+".value", "must be kept apart")
		size += len(h.Name) + len(h.Value) + len(": \r\n")
	}
	faults.add(size > maxHeaderBytes, "headers", tooManyHeaders)
	return faults.joined()
}

// reservedHeaders say what a request is or where it goes: one of a tenant's own
// would make receivers, and proxies on the way, read another request.
var reservedHeaders = []string{
	"host", "content-length", "content-type", "content-encoding", "transfer-encoding", "te", "trailer", "connection",
	"keep-alive", "upgrade", "expect", "cookie", "authorization", "user-agent", "via", "forwarded", "date",
}

// reservedPrefixes begin the names that are ours or an intermediary's.
var reservedPrefixes = []string{"webhook-", "svix-", "proxy-", "sec-", "x-forwarded-", "x-webhook-", "http2-"}

// reservedSignatures are what our schemes write.
var reservedSignatures = []string{
	"stripe-signature", "x-hub-signature", "x-hub-signature-256", "x-shopify-hmac-sha256", "x-slack-signature",
	"x-slack-request-timestamp", "x-idempotency-key", "x-event-id", "x-github-event", "x-github-delivery", "x-shopify-topic",
	"x-shopify-webhook-id", "x-shopify-event-id", "x-shopify-triggered-at",
}

// CheckHeaderName returns an [InvalidError] for the field unless name is a
// token (RFC 9110, 5.6.2) of at most 128 bytes that a tenant may set.
func CheckHeaderName(field, name string) error {
	lower := strings.ToLower(name)
	reserved := slices.Contains(reservedHeaders, lower) || slices.Contains(reservedSignatures, lower) ||
		slices.ContainsFunc(reservedPrefixes, func(p string) bool { return strings.HasPrefix(lower, p) })
	switch {
	case !isToken(name):
		return &InvalidError{Field: field, Reason: "must be a header name of at most 128 letters, digits and hyphens"}
	case reserved:
		return &InvalidError{Field: field, Reason: "must not be a header that is set for every request"}
	}
	return nil
}

// isToken takes of the token's alphabet what every server takes, which leaves
// out the underscore: some read it as a hyphen.
func isToken(name string) bool {
	strange := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-'
	}
	return name != "" && len(name) <= 128 && !strings.ContainsFunc(name, strange)
}

// CheckHeaderValue returns an [InvalidError] for the field unless value is at
// most 4 KiB of printable ASCII that begins and ends with no space.
func CheckHeaderValue(field, value string) error {
	strange := func(r rune) bool { return r < ' ' || r > '~' }
	if len(value) > 4<<10 || strings.ContainsFunc(value, strange) || strings.Trim(value, " ") != value {
		return &InvalidError{Field: field, Reason: "must be at most 4096 printable ASCII characters, without spaces at either end"}
	}
	return nil
}

// check returns every fault of the authentication, joined. Its token URL is
// judged by whoever judges URLs.
func (a Auth) check() error {
	var faults faults
	only := func(set bool, field string, kinds ...AuthKind) {
		faults.add(set && !slices.Contains(kinds, a.Kind), "auth."+field, "must be absent with the type "+string(a.Kind))
	}
	if !slices.Contains(AuthKinds, a.Kind) {
		faults.add(true, "auth.type", "must be none, basic, bearer, api_key or oauth2")
		return faults.joined()
	}
	only(a.User != "", "username", AuthBasic)
	only(a.Header != "", "header", AuthAPIKey)
	only(a.TokenURL != "", "token_url", AuthOAuth2)
	only(a.ClientID != "", "client_id", AuthOAuth2)
	only(len(a.Scopes) > 0, "scopes", AuthOAuth2)
	only(a.Audience != "", "audience", AuthOAuth2)
	faults.add(a.Kind == AuthBasic && a.User == "", "auth.username", "is required")
	faults.add(strings.Contains(a.User, ":"), "auth.username", "must not have a colon")
	faults.join(CheckHeaderValue("auth.username", a.User))
	faults.join(CheckHeaderValue("auth.client_id", a.ClientID))
	faults.join(CheckHeaderValue("auth.audience", a.Audience))
	faults.join(CheckHeaderValue("auth.scopes", strings.Join(a.Scopes, " ")))
	if a.Kind == AuthAPIKey && !strings.EqualFold(a.Header, "authorization") {
		faults.join(CheckHeaderName("auth.header", a.Header))
	}
	faults.add(a.Kind == AuthOAuth2 && a.ClientID == "", "auth.client_id", "is required")
	return faults.joined()
}
