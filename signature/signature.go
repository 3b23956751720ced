// Package signature signs webhooks and verifies them, in nine schemes: Standard
// Webhooks, with shared secrets or ed25519 keys, the schemes of Stripe, GitHub (two),
// Shopify, Slack and Svix, and two that belong to no vendor.
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
// Verify the unchanged bytes of the body, before anything parses them: JSON that was
// decoded and encoded again has other bytes. The following holds for every request:
//
//   - Verify returns nil only if one of the keys made one of the listed
//     signatures for exactly these bytes, this id and this timestamp, as far as
//     the scheme signs them.
//   - How long Verify takes depends on the number of keys, of signatures and of
//     bytes, not on how much of a signature was right or which key made it.
//   - No error text contains a secret, a signature or any byte of the request.
//
// The package reads no clock and remembers no ids. A sender repeats an event
// until it gets a 2xx, with the same id (in the header Webhook-Id, or in the header
// that the scheme has for it). A receiver that must process each event once stores
// the ids for as long as the sender may repeat an event. For implementations in other
// languages, testdata has test vectors.
package signature

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Scheme names a way to sign a request. The comment of each scheme has its headers
// and the signed content.
type Scheme string

// The schemes. All except [Standard] and [Svix] need symmetric secrets. They use HMAC
// with SHA-256 unless their comment says otherwise.
const (
	// Standard is Standard Webhooks: the id, the timestamp and the body are
	// signed with every active key, v1a with the private ones and v1 with the
	// symmetric ones. Headers Webhook-Id, Webhook-Timestamp, Webhook-Signature.
	Standard Scheme = "standard"
	// Stripe signs the timestamp and the body with every active key: header
	// Stripe-Signature.
	Stripe Scheme = "stripe"
	// GitHub signs only the body, with the newest key: header
	// X-Hub-Signature-256, besides X-GitHub-Event and X-GitHub-Delivery.
	GitHub Scheme = "github"
	// GitHubSHA1 is GitHub with SHA-1, in header X-Hub-Signature, for receivers
	// that know no other.
	GitHubSHA1 Scheme = "github-sha1"
	// Shopify signs only the body, with the newest key: header
	// X-Shopify-Hmac-Sha256, besides X-Shopify-Topic and other companions.
	Shopify Scheme = "shopify"
	// Slack signs the timestamp and the body with the newest key: headers
	// X-Slack-Signature and X-Slack-Request-Timestamp.
	Slack Scheme = "slack"
	// Svix is Standard in headers Svix-Id, Svix-Timestamp and Svix-Signature.
	Svix Scheme = "svix"
	// Timestamped signs the timestamp and the body with the newest key and
	// names that key. Headers as of Standard.
	Timestamped Scheme = "timestamped"
	// Plain signs only the body, with the newest key: header
	// X-Webhook-Signature, besides X-Webhook-ID, X-Event-ID and others.
	Plain Scheme = "plain"
)

// Schemes returns every scheme there is.
func Schemes() []Scheme {
	return []Scheme{Standard, Stripe, GitHub, GitHubSHA1, Shopify, Slack, Svix, Timestamped, Plain}
}

// Format is a scheme and, for those that are a plain HMAC over the body
// ([GitHub], [GitHubSHA1], [Shopify], [Plain]), where its signature goes. A
// request of these schemes that was recorded can be sent again: nothing but the
// body is signed.
type Format struct {
	Scheme Scheme // empty: Standard
	Header string // for the signature, instead of the scheme's own; other headers stay as they are
	Prefix string // of the signature in that header; empty: none. Only with Header
}

// DefaultTolerance is how far a timestamp may be from the receiver's clock.
const DefaultTolerance = 5 * time.Minute

// Why a request is not signed, or not verified.
var (
	// ErrNoKey: there is no key, or none that the scheme can use, or one of
	// them is empty or public where it should sign.
	ErrNoKey = errors.New("signature: no key")
	// ErrScheme: there is no scheme of that name, or nothing to sign by.
	ErrScheme = errors.New("signature: unknown scheme")
	// ErrFormat: the scheme has no place for a header or prefix, or they are
	// not of their form, or two formats would use the same header.
	ErrFormat = errors.New("signature: impossible format")
	// ErrMessage: the message cannot be signed, see [Message].
	ErrMessage = errors.New("signature: message cannot be signed")
	// ErrNoSignature: a header that the scheme needs is missing.
	ErrNoSignature = errors.New("signature: not signed")
	// ErrMalformed: a header that the scheme needs is there more than once or
	// has another form.
	ErrMalformed = errors.New("signature: malformed header")
	// ErrExpired: the timestamp is further from now than the tolerance, in the
	// past or in the future.
	ErrExpired = errors.New("signature: timestamp outside tolerance")
	// ErrMismatch: no listed signature is by one of the keys.
	ErrMismatch = errors.New("signature: mismatch")
)

// Message is a request to be signed. Its texts become header values: only
// visible ASCII can be signed. A header whose value would be empty is left out.
type Message struct {
	ID        string    // of the event, without a dot; the same in every attempt
	Delivery  string    // id of the delivery, for GitHub, Shopify and Plain
	Type      string    // of the event, for GitHub, Shopify and Plain
	Occurred  time.Time // when the event happened, for Shopify; may be zero
	Timestamp time.Time // of this attempt
	Body      []byte    // exactly what is sent
}

// Key is a secret and its name. [Standard] and [Svix] sign with the decoded
// bytes of a whsec_ secret; the other schemes with its text, whsec_ included,
// because a receiver without this package uses the text of its configuration
// undecoded.
type Key struct {
	ID     string // public name, which Timestamped puts into the header; may be empty
	Secret Secret
}

// Sign sets on h the headers of every format, as [Signer.AppendHeader] writes
// them. Headers of an earlier Sign are replaced. Keys are the active ones,
// newest first.
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

// check returns the format with its scheme, unless there is no such format.
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

// check refuses texts that would change the meaning of the signed bytes or of the
// header. The signed content of Standard is id.timestamp.body. With a dot in the id,
// two messages could have the same content: "a.1" at time 2 and "a" at time 1 with
// the body "2.…".
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

// maxTimestamp is the last second that is written with four digits of a year.
const maxTimestamp = 253402300799

// visible reports whether s is printable ASCII without spaces and without the
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
