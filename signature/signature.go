// Package signature signs and verifies webhooks in nine schemes: Standard Webhooks, with shared
// secrets or ed25519 keys, the schemes of Stripe, GitHub (two), Shopify, Slack and Svix, and two
// schemes that belong to no vendor.
//
//	secret, err := signature.ParseSecret("whsec_…") // once, at start
//	verifier := signature.Verifier{Keys: []signature.Key{{Secret: secret}}}
//
//	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20)) // in the handler
//	if err := verifier.Verify(r.Header, body, time.Now()); err != nil {
//		http.Error(w, "bad signature", http.StatusUnauthorized)
//		return
//	}
//
// Verify the unchanged bytes of the body, before any parser sees them: JSON that was decoded and
// encoded again has other bytes. The promises:
//
//   - Verify returns nil only if one of the keys made one of the listed
//     signatures for exactly these bytes, this id and this timestamp, as far as
//     the scheme signs them.
//   - The time that Verify takes depends on the number of keys, of signatures
//     and of bytes. It does not depend on how much of a signature was right or
//     which key made it.
//   - No error text contains a secret, a signature or any byte of the request.
//
// The package reads no clock and remembers no ids. A sender repeats an event until it gets a 2xx,
// always with the same id (in the header Webhook-Id, or in the corresponding header of the scheme).
// A receiver that must process each event once stores the ids for as long as the sender may repeat
// an event. The folder testdata has test vectors for implementations in other languages.
package signature

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Scheme names a way to sign a request. The comment of each scheme lists its headers and the signed
// content.
type Scheme string

// The schemes. All except [Standard] and [Svix] need a symmetric secret. They use HMAC with SHA-256
// unless their comment says otherwise.
const (
	// Standard is Standard Webhooks. It signs the id, the timestamp and the body with every active
	// key: private keys make signatures of version v1a, symmetric keys of version v1. Headers:
	// Webhook-Id, Webhook-Timestamp, Webhook-Signature.
	Standard Scheme = "standard"
	// Stripe signs the timestamp and the body with every active key. Header: Stripe-Signature.
	Stripe Scheme = "stripe"
	// GitHub signs only the body, with the newest key. Headers: X-Hub-Signature-256,
	// X-GitHub-Event, X-GitHub-Delivery.
	GitHub Scheme = "github"
	// GitHubSHA1 is GitHub with SHA-1, in the header X-Hub-Signature, for receivers that support
	// only SHA-1.
	GitHubSHA1 Scheme = "github-sha1"
	// Shopify signs only the body, with the newest key. Headers: X-Shopify-Hmac-Sha256,
	// X-Shopify-Topic and others.
	Shopify Scheme = "shopify"
	// Slack signs the timestamp and the body with the newest key. Headers: X-Slack-Signature,
	// X-Slack-Request-Timestamp.
	Slack Scheme = "slack"
	// Svix is Standard with the headers Svix-Id, Svix-Timestamp and Svix-Signature.
	Svix Scheme = "svix"
	// Timestamped signs the timestamp and the body with the newest key and names that key. Headers:
	// the same as Standard.
	Timestamped Scheme = "timestamped"
	// Plain signs only the body, with the newest key. Headers: X-Webhook-Signature, X-Webhook-ID,
	// X-Event-ID and others.
	Plain Scheme = "plain"
)

// Schemes returns every scheme.
func Schemes() []Scheme {
	return []Scheme{Standard, Stripe, GitHub, GitHubSHA1, Shopify, Slack, Svix, Timestamped, Plain}
}

// Format is a scheme and the place of its signature. Only a scheme that is a plain HMAC of the body
// ([GitHub], [GitHubSHA1], [Shopify], [Plain]) allows another place. A recorded request of such a
// scheme can be sent again at any time, because nothing but the body is signed.
type Format struct {
	Scheme Scheme // empty: Standard
	Header string // name of the header of the signature, instead of the scheme's own; other headers keep their names
	Prefix string // text before the signature in Header; empty: none; allowed only with Header
}

// DefaultTolerance is how far a timestamp may be from the receiver's clock.
const DefaultTolerance = 5 * time.Minute

// The errors of a request that cannot be signed or verified.
var (
	// ErrNoKey: there is no key that the scheme can use, or a key is empty, or a public key should
	// sign.
	ErrNoKey = errors.New("signature: no key")
	// ErrScheme: no scheme has that name, or no format was given.
	ErrScheme = errors.New("signature: unknown scheme")
	// ErrFormat: the scheme allows no other header or prefix, or their form is not valid, or two
	// formats would use the same header.
	ErrFormat = errors.New("signature: impossible format")
	// ErrMessage: the message cannot be signed, see [Message].
	ErrMessage = errors.New("signature: message cannot be signed")
	// ErrNoSignature: a header that the scheme needs is missing.
	ErrNoSignature = errors.New("signature: not signed")
	// ErrMalformed: a header that the scheme needs occurs more than once or has another form.
	ErrMalformed = errors.New("signature: malformed header")
	// ErrExpired: the timestamp differs from now by more than the tolerance, in the past or in the
	// future.
	ErrExpired = errors.New("signature: timestamp outside tolerance")
	// ErrMismatch: none of the keys made one of the listed signatures.
	ErrMismatch = errors.New("signature: mismatch")
)

// Message is a request to be signed. Its texts become header values, so they must be visible ASCII.
// A header whose value would be empty is left out.
type Message struct {
	ID        string    // id of the event, without a dot; the same in every attempt
	Delivery  string    // id of the delivery; used by GitHub, Shopify and Plain
	Type      string    // type of the event; used by GitHub, Shopify and Plain
	Occurred  time.Time // when the event happened; used by Shopify; may be zero
	Timestamp time.Time // time of this attempt
	Body      []byte    // the signed body
}

// Key is a secret and its name. [Standard] and [Svix] sign with the decoded bytes of a whsec_
// secret. The other schemes sign with its text, including whsec_, because a receiver without this
// package uses the text from its configuration without decoding it.
type Key struct {
	ID     string // public name of the key, which Timestamped sends in the header; may be empty
	Secret Secret
}

// Sign sets the headers of every format on h, with the values of [Signer.AppendHeader]. It replaces
// headers of an earlier Sign. keys are the active keys, newest first.
func Sign(h http.Header, m Message, keys []Key, formats ...Format) error {
	s, err := NewSigner(keys, formats...)
	if err != nil {
		return err
	}
	var buffer [512]byte
	head, err := s.AppendHeader(buffer[:0], m)
	if err != nil {
		return err
	}
	for _, f := range s.fields {
		h.Del(f.name)
	}
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			h.Set(name, value)
		}
	}
	return nil
}

// check returns the format with its scheme set, or an error if the format is not valid.
func (f Format) check() (Format, error) {
	if f.Scheme == "" {
		f.Scheme = Standard
	}
	_, bends := bodyForms[f.Scheme]
	switch {
	case !slices.Contains(Schemes(), f.Scheme):
		return f, ErrScheme
	case f.Header == "" && f.Prefix != "":
		return f, fmt.Errorf("%w: prefix without header", ErrFormat)
	case f.Header != "" && !bends:
		return f, fmt.Errorf("%w: scheme %s has its own header", ErrFormat, f.Scheme)
	case !isToken(f.Header):
		return f, fmt.Errorf("%w: header name", ErrFormat)
	case !visible(f.Prefix, 0):
		return f, fmt.Errorf("%w: prefix", ErrFormat)
	}
	return f, nil
}

// check refuses texts that would change the meaning of the signed bytes or of the header. For
// example, the signed content of Standard is id.timestamp.body. If an id could contain a dot, two
// messages could have the same content: "a.1" at time 2, and "a" at time 1 with the body "2.…".
func (m *Message) check() error {
	switch {
	case m.ID == "" || !visible(m.ID, '.'):
		return fmt.Errorf("%w: id", ErrMessage)
	case !visible(m.Delivery, 0):
		return fmt.Errorf("%w: delivery", ErrMessage)
	case !visible(m.Type, 0):
		return fmt.Errorf("%w: type", ErrMessage)
	case m.Timestamp.Unix() < 0 || m.Timestamp.Unix() > maxTimestamp:
		return fmt.Errorf("%w: timestamp outside the years 1970 to 9999", ErrMessage)
	case !m.Occurred.IsZero() && (m.Occurred.Unix() < 0 || m.Occurred.Unix() > maxTimestamp):
		return fmt.Errorf("%w: occurrence outside the years 1970 to 9999", ErrMessage)
	}
	return nil
}

// maxTimestamp is the last second whose year has four digits.
const maxTimestamp = 253402300799

// visible reports whether s consists of printable ASCII characters other than space and the
// character not.
func visible(s string, not byte) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' || s[i] == not {
			return false
		}
	}
	return true
}

// isToken reports whether name is empty or a token of RFC 9110, 5.6.2.
func isToken(name string) bool {
	return visible(name, 0) && !strings.ContainsAny(name, "\"(),/:;<=>?@[\\]{}")
}
