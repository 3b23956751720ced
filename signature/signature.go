// Package signature signs webhooks and verifies them.
//
// A receiver needs a few lines:
//
//	secret, err := signature.ParseSecret("whsec_…") // once, at start
//	verifier := signature.Verifier{Scheme: signature.Standard, Keys: []signature.Key{{Secret: secret}}}
//
//	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20)) // in the handler
//	if err := verifier.Verify(r.Header, body, time.Now()); err != nil {
//		http.Error(w, "bad signature", http.StatusUnauthorized)
//		return
//	}
//
// Verify the bytes as they came, before anything parses them: JSON that was
// decoded and encoded again is other bytes. Answer 2xx, and use the event id
// (header Webhook-Id, or X-Event-ID in the plain scheme) to recognise an event
// that was delivered twice.
//
// What holds whatever a request contains:
//
//   - Verify returns nil only if one of the keys made one of the listed
//     signatures for exactly these bytes, this id and this timestamp, as far as
//     the scheme signs them.
//   - How long Verify takes depends on the number of keys, of signatures and of
//     bytes, not on how much of a signature was right or which key made it.
//   - No error text contains a secret, a signature or any byte of the request.
//
// The package reads no clock and does not remember ids: who wants each event
// once keeps the ids it has seen for at least the tolerance.
package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Scheme names a way to sign a request.
type Scheme string

// The schemes. All of them use HMAC-SHA256.
const (
	// Standard is Standard Webhooks v1: the id, the timestamp and the body are
	// signed, with every active key.
	Standard Scheme = "standard"
	// Timestamped signs the timestamp and the body with the newest key and
	// names that key.
	Timestamped Scheme = "timestamped"
	// Plain signs the body alone, with the newest key. A request that was
	// recorded can be sent again: its headers are not signed.
	Plain Scheme = "plain"
)

// DefaultTolerance is how far a timestamp may be from the receiver's clock.
const DefaultTolerance = 5 * time.Minute

// Why a request is not signed, or not verified.
var (
	// ErrNoKey: there is no key, or one of them is empty.
	ErrNoKey = errors.New("signature: no key")
	// ErrScheme: there is no scheme of that name.
	ErrScheme = errors.New("signature: unknown scheme")
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
// visible ASCII can be signed.
type Message struct {
	ID        string // of the event, without a dot; the same in every attempt
	Delivery  string // id of the delivery; only Plain needs it
	Type      string // of the event; only Plain needs it
	Timestamp time.Time
	Body      []byte // exactly what is sent
}

// Key is what both sides know. Standard signs with the bytes of the secret;
// Timestamped and Plain sign with its text, whsec_ included, as a receiver
// without this package would take it: from its configuration, undecoded.
type Key struct {
	ID     string // public name, which Timestamped puts into the header; may be empty
	Secret []byte
}

func (k Key) text() []byte { return []byte(FormatSecret(k.Secret)) }

// Sign sets on h the headers of every scheme named, as [Signer.AppendHeader]
// writes them. Headers of an earlier Sign are replaced. Keys are the active
// ones, newest first.
func Sign(h http.Header, m Message, keys []Key, schemes ...Scheme) error {
	s, err := NewSigner(keys, schemes...)
	if err != nil {
		return err
	}
	var room [512]byte
	head, err := s.AppendHeader(room[:0], m)
	if err != nil {
		return err
	}
	h.Del(headerSignature)
	for line := range strings.SplitSeq(string(head), "\r\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			h[name] = []string{value}
		}
	}
	return nil
}

// Verifier decides whether a request is authentic. It holds no state: copy it,
// share it between goroutines, change the copy.
type Verifier struct {
	Scheme    Scheme
	Keys      []Key         // any of them will do; during a rotation the old one and the new one
	Tolerance time.Duration // of the timestamp, both ways; 0: DefaultTolerance
}

// Verify returns nil if the request with this header and body is authentic,
// and else one of the errors of this package. Plain has no signed timestamp,
// so it never expires. Signatures in the list that are of another scheme or
// malformed are passed over.
func (v Verifier) Verify(h http.Header, body []byte, now time.Time) error {
	if err := checkKeys(v.Keys); err != nil {
		return err
	}
	c, err := readClaim(v.Scheme, h)
	if err != nil {
		return err
	}
	tolerance := v.Tolerance
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	if age := now.Sub(c.sentAt).Abs(); c.timed && age > tolerance {
		return ErrExpired
	}
	if !c.madeBy(v.Keys, body) {
		return ErrMismatch
	}
	return nil
}

// claim is what the headers of a request say of it.
type claim struct {
	prefix  []byte // what is signed in front of the body
	sentAt  time.Time
	timed   bool // sentAt is signed
	textKey bool // signed with the text of the secret
	macs    [][sha256.Size]byte
}

func readClaim(s Scheme, h http.Header) (claim, error) {
	switch s {
	case Standard:
		return readStandard(h)
	case Timestamped:
		return readTimestamped(h)
	case Plain:
		return readPlain(h)
	}
	return claim{}, ErrScheme
}

// madeBy compares every key with every signature, also after one was found
// right, so that its time does not tell which.
func (c claim) madeBy(keys []Key, body []byte) bool {
	found := false
	for _, k := range keys {
		secret := k.Secret
		if c.textKey {
			secret = k.text()
		}
		want := mac(secret, c.prefix, body)
		for i := range c.macs {
			equal := hmac.Equal(want[:], c.macs[i][:])
			found = found || equal
		}
	}
	return found
}

func mac(secret, prefix, body []byte) (sum [sha256.Size]byte) {
	hash := hmac.New(sha256.New, secret)
	hash.Write(prefix)
	hash.Write(body)
	hash.Sum(sum[:0])
	return sum
}

func checkKeys(keys []Key) error {
	for _, k := range keys {
		if len(k.Secret) == 0 {
			return ErrNoKey
		}
	}
	if len(keys) == 0 {
		return ErrNoKey
	}
	return nil
}

// check refuses what would put other bytes on the wire than are meant. A dot
// in the id would let the border between id, timestamp and body move.
func (m Message) check() error {
	switch {
	case m.ID == "" || !visible(m.ID, '.'):
		return fmt.Errorf("%w: id", ErrMessage)
	case !visible(m.Delivery, 0):
		return fmt.Errorf("%w: delivery", ErrMessage)
	case !visible(m.Type, 0):
		return fmt.Errorf("%w: type", ErrMessage)
	case m.Timestamp.Unix() < 0:
		return fmt.Errorf("%w: timestamp before 1970", ErrMessage)
	}
	return nil
}

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

// only returns the value of a header that must be there once.
func only(h http.Header, name string) (string, error) {
	switch values := h[name]; {
	case len(values) == 0 || values[0] == "":
		return "", ErrNoSignature
	case len(values) > 1:
		return "", ErrMalformed
	default:
		return values[0], nil
	}
}

// readTimestamp reads unix seconds: digits alone, since strconv would also
// take a sign, and the text is signed as it is.
func readTimestamp(text string) (time.Time, error) {
	if len(text) > 12 {
		return time.Time{}, ErrMalformed
	}
	var seconds int64
	for i := range len(text) {
		digit := text[i] - '0'
		if digit > 9 {
			return time.Time{}, ErrMalformed
		}
		seconds = seconds*10 + int64(digit)
	}
	return time.Unix(seconds, 0), nil
}
