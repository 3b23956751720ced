// Package snippets writes the code that verifies webhooks, for receivers that do not use
// Postrider's Go packages. Each snippet is one function. There are snippets in eight languages, for
// each scheme of package signature. The portal shows them beside an endpoint.
//
// Every snippet does the following, and a test runs it to check that:
//
//   - It signs the raw bytes of the body, and compares in constant time.
//   - It refuses a timestamp outside the tolerance, if the scheme signs one.
//   - It accepts any of the listed signatures, and any of the receiver's secrets. So in a
//     rotation the two sides need not change at the same moment.
//   - It accepts nothing if the secret is empty, that is, not configured.
//   - Its first lines name the libraries that it needs besides the standard library.
//
// A snippet contains no secret. It reads the secret from the environment.
package snippets

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/template"

	"github.com/postrider/postrider/signature"
)

//go:embed templates/*.tmpl
var files embed.FS

// Language is a programming language of snippets.
type Language struct {
	Name  string // in URLs, and in the name of the template
	Title string // name for people
	File  string // name of the snippet's file
	quote string // the character around its strings
}

var languages = []Language{
	{"javascript", "JavaScript", "verify.mjs", `'`},
	{"python", "Python", "verify.py", `"`},
	{"go", "Go", "verify.go", `"`},
	{"php", "PHP", "verify.php", `'`},
	{"ruby", "Ruby", "verify.rb", `'`},
	{"java", "Java", "Webhooks.java", `"`},
	{"csharp", "C#", "Webhooks.cs", `"`},
	{"rust", "Rust", "verify.rs", `"`},
}

// Languages returns the languages, the most used first.
func Languages() []Language { return languages }

// ErrNone means that there is no snippet for this language, scheme and kind of secret.
var ErrNone = errors.New("snippets: there is no snippet for this")

// Use says which requests a snippet verifies.
type Use struct {
	Format    signature.Format // zero: signature.Standard
	PublicKey bool             // verify with an ed25519 public key; only Standard and Svix
}

// layout says where a scheme puts its signature, and which text it signs. With a timestamp, that is
// the ID, Before, the timestamp, After and the body; without one, only the body. layout is a part
// of the data of a template.
type layout struct {
	ID        string // header of the event's id, if it is signed
	Timestamp string // header of the timestamp; empty: no timestamp, or InList
	InList    bool   // the timestamp is the item t= of the header Signature
	Before    string // signed before the timestamp
	After     string // signed after the timestamp

	Signature string // header of the signatures
	Split     string // characters that separate the items of the header Signature; empty: only one item
	Prefix    string // of an item, before the encoded signature
	Base64    bool   // the signature is in base64; false: in hexadecimal
	Hash      string // hash of the HMAC, by the name that most languages use
	Decoded   bool   // the HMAC key is the text after whsec_, decoded from base64
}

var layouts = map[signature.Scheme]layout{
	signature.Standard: {
		ID: "Webhook-Id", Timestamp: "Webhook-Timestamp", After: ".",
		Signature: "Webhook-Signature", Split: " ", Prefix: "v1,", Base64: true, Hash: "sha256", Decoded: true,
	},
	signature.Svix: {
		ID: "Svix-Id", Timestamp: "Svix-Timestamp", After: ".",
		Signature: "Svix-Signature", Split: " ", Prefix: "v1,", Base64: true, Hash: "sha256", Decoded: true,
	},
	signature.Timestamped: {
		Timestamp: "Webhook-Timestamp", After: ".",
		// The header is sha256=…,keyId=…. If the endpoint has Standard too, v1,… follows.
		Signature: "Webhook-Signature", Split: " ,", Prefix: "sha256=", Hash: "sha256",
	},
	signature.Stripe: {InList: true, After: ".", Signature: "Stripe-Signature", Split: ",", Prefix: "v1=", Hash: "sha256"},
	signature.Slack: {
		Timestamp: "X-Slack-Request-Timestamp", Before: "v0:", After: ":", Signature: "X-Slack-Signature", Prefix: "v0=",
		Hash: "sha256",
	},
	signature.GitHub:     {Signature: "X-Hub-Signature-256", Prefix: "sha256=", Hash: "sha256"},
	signature.GitHubSHA1: {Signature: "X-Hub-Signature", Prefix: "sha1=", Hash: "sha1"},
	signature.Shopify:    {Signature: "X-Shopify-Hmac-Sha256", Base64: true, Hash: "sha256"},
	signature.Plain:      {Signature: "X-Webhook-Signature", Prefix: "sha256=", Hash: "sha256"},
}

// Variable returns the name of the environment variable from which a snippet reads the secret or
// key.
func Variable(use Use) string {
	if use.PublicKey {
		return "WEBHOOK_PUBLIC_KEY"
	}
	return "WEBHOOK_SECRET"
}

// Headers returns the names of the headers that a receiver needs to verify a request: the id and
// the timestamp, if they are signed, and the signatures.
func Headers(use Use) []string {
	l := layouts[cmp.Or(use.Format.Scheme, signature.Standard)]
	l.Signature = cmp.Or(use.Format.Header, l.Signature)
	return slices.DeleteFunc([]string{l.ID, l.Timestamp, l.Signature}, func(name string) bool { return name == "" })
}

// Expires reports whether a receiver refuses an old recorded request of the scheme, because the
// timestamp is signed.
func Expires(use Use) bool {
	return layouts[cmp.Or(use.Format.Scheme, signature.Standard)].After != ""
}

// snippet is the data of a template.
type snippet struct {
	layout
	Scheme    signature.Scheme
	Timed     bool   // the timestamp is signed
	Tolerance int    // tolerance of the timestamp, in seconds
	Ed25519   bool   // verify with public keys instead of secrets
	Keys      string // name of the parameter with the secrets or public keys
	Variable  string // environment variable with one of them
}

// Write returns the snippet in a language; its last line ends with a line feed. It returns
// [ErrNone] for an unknown language or scheme. It also returns ErrNone where public keys cannot be
// used: the class library of C# has no ed25519, and only Standard and Svix have public keys.
func Write(language string, use Use) (string, error) {
	scheme := cmp.Or(use.Format.Scheme, signature.Standard)
	l, found := layouts[scheme]
	if !found || use.PublicKey && (!l.Decoded || language == "csharp") {
		return "", ErrNone
	}
	s := snippet{
		layout: l, Scheme: scheme, Timed: l.After != "", Tolerance: int(signature.DefaultTolerance.Seconds()),
		Ed25519: use.PublicKey, Keys: "secrets", Variable: Variable(use),
	}
	if use.Format.Header != "" {
		s.Signature, s.Prefix = use.Format.Header, use.Format.Prefix
	}
	if use.PublicKey {
		s.Prefix, s.Keys = "v1a,", "keys"
	}
	for i := range languages {
		if languages[i].Name == language {
			return languages[i].execute(s)
		}
	}
	return "", ErrNone
}

func (l Language) execute(s snippet) (string, error) {
	name := l.Name + ".tmpl"
	t, err := template.New(name).Option("missingkey=error").Funcs(l.functions()).ParseFS(files, "templates/"+name)
	if err != nil {
		return "", fmt.Errorf("snippets: parse the template of %s: %w", l.Title, err)
	}
	var b strings.Builder
	if err := t.Execute(&b, s); err != nil {
		return "", fmt.Errorf("snippets: write for %s: %w", l.Title, err)
	}
	return b.String(), nil
}

// functions returns the functions of the language's template. The endpoint's owner may choose
// headers and prefixes, so they are always quoted. All eight languages escape the backslash and the
// quote with a backslash, and interpolate nothing into strings with their quote.
func (l Language) functions() template.FuncMap {
	return template.FuncMap{
		"quote": func(s string) string {
			return l.quote + strings.NewReplacer(`\`, `\\`, l.quote, `\`+l.quote).Replace(s) + l.quote
		},
		"lower": strings.ToLower,
		"upper": strings.ToUpper,
		"chars": func(s string) []string { return strings.Split(s, "") },
		// env returns the name of a header in the environment of CGI, as PHP and Rack have it.
		"env": func(header string) string { return "HTTP_" + strings.ToUpper(strings.ReplaceAll(header, "-", "_")) },
	}
}
