package signature

import (
	"crypto"
	"crypto/ed25519"
	"crypto/hmac"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// maxListed limits how many signatures of a request are read, and so the work that a request can
// cause. Senders list one signature for each active key.
const maxListed = 64

// Verifier decides whether a request is authentic. It has no state, so it can be copied and shared
// by goroutines.
type Verifier struct {
	Format Format // the zero Format is [Standard]
	Keys   []Key  // a signature by any of them is enough; during a rotation, the old key and the new key
	// Greatest difference of the timestamp from now, in both directions; 0: [DefaultTolerance].
	Tolerance time.Duration
}

// Verify returns nil if the request with this header and body is authentic, and otherwise one of
// the errors of this package. All keys are the receiver's own: symmetric secrets, and for
// [Standard] and [Svix] also public keys. The request can neither choose nor provide a key.
//
// One listed signature by one of the keys is enough. Signatures of another version or form are
// ignored, and so are all after the first 64. A request of a scheme that signs no timestamp never
// expires.
//
// The cheapest checks, which reveal the least, come first: the configuration, the form of the
// headers, the timestamp, and last the signatures. So an old or malformed request is refused
// without hashing its body.
func (v Verifier) Verify(h http.Header, body []byte, now time.Time) error {
	if err := checkKeys(v.Keys); err != nil {
		return err
	}
	f, err := v.Format.check()
	if err != nil {
		return err
	}
	c, err := f.read(h)
	if err != nil {
		return err
	}
	if !c.decoded && !anySymmetric(v.Keys) {
		return fmt.Errorf("%w: scheme %s needs a symmetric secret", ErrNoKey, f.Scheme)
	}
	tolerance := v.Tolerance
	if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	if c.timed && now.Sub(c.sentAt).Abs() > tolerance {
		return ErrExpired
	}
	if !c.madeBy(v.Keys, body) {
		return ErrMismatch
	}
	return nil
}

// claim has what the headers of a request say about its signature. Do not trust any of its fields
// before madeBy has returned true.
type claim struct {
	prefix    string // what is signed before the body
	timed     bool   // a timestamp is present and signed
	timestamp string
	sentAt    time.Time
	hash      crypto.Hash // 0: SHA-256
	decoded   bool        // signed with the decoded secret instead of its text, and perhaps with ed25519
	listed    [][]byte    // MACs and ed25519 signatures, which have different lengths
}

func (f Format) read(h http.Header) (claim, error) {
	switch f.Scheme {
	case Standard, Svix:
		return listForms[f.Scheme].read(h)
	case Timestamped:
		return readTimestamped(h)
	case Stripe:
		return readStripe(h)
	case Slack:
		return readSlack(h)
	default:
		return bodyFormOf(f).read(h)
	}
}

// madeBy reports whether one of the keys made one of the listed signatures. It compares every key
// with every signature even after a match, so that its duration does not reveal which key or
// signature matched.
func (c *claim) madeBy(keys []Key, body []byte) bool {
	content := []byte(nil) // prefix and body in one piece; only ed25519 needs it
	found := false
	for _, k := range keys {
		made := false
		switch public := k.Secret.publicKey(); {
		case public == nil:
			made = c.hasMAC(c.mac(k, body))
		case c.decoded:
			if content == nil {
				content = append([]byte(c.prefix), body...)
			}
			made = c.hasSignature(public, content)
		}
		found = found || made
	}
	return found
}

func (c *claim) hasMAC(want []byte) bool {
	found := false
	for _, got := range c.listed {
		equal := hmac.Equal(want, got)
		found = found || equal
	}
	return found
}

func (c *claim) hasSignature(key ed25519.PublicKey, content []byte) bool {
	found := false
	for _, got := range c.listed {
		made := len(got) == ed25519.SignatureSize && ed25519.Verify(key, content, got)
		found = found || made
	}
	return found
}

func (c *claim) mac(k Key, body []byte) []byte {
	key, hash := []byte(k.Secret.Text()), crypto.SHA256
	if c.decoded {
		key = k.Secret.open().key
	}
	if c.hash != 0 {
		hash = c.hash
	}
	mac := hmac.New(hash.New, key)
	mac.Write([]byte(c.prefix))
	mac.Write(body)
	return mac.Sum(nil)
}

// addHex adds a MAC that is written as hexadecimal digits after the prefix. It ignores an item of
// any other form, because a list may contain versions that are not known yet.
func (c *claim) addHex(item, prefix string, hash crypto.Hash) {
	text, ok := strings.CutPrefix(item, prefix)
	if !ok || len(text) != 2*hash.Size() || len(c.listed) == maxListed {
		return
	}
	if sum, err := hex.DecodeString(text); err == nil {
		c.listed = append(c.listed, sum)
	}
}

// addBase64 adds a signature of size bytes. It ignores any other form, so that each signature has
// exactly one text. That includes texts with line breaks, which the decoder would skip.
func (c *claim) addBase64(text string, size int) {
	if len(text) != base64.StdEncoding.EncodedLen(size) || len(c.listed) == maxListed {
		return
	}
	sum, err := base64.StdEncoding.Strict().DecodeString(text)
	if err == nil && len(sum) == size {
		c.listed = append(c.listed, sum)
	}
}

func checkKeys(keys []Key) error {
	for _, k := range keys {
		if k.Secret.IsZero() {
			return fmt.Errorf("%w: empty secret", ErrNoKey)
		}
	}
	if len(keys) == 0 {
		return ErrNoKey
	}
	return nil
}

func anySymmetric(keys []Key) bool {
	for _, k := range keys {
		if k.Secret.is(symmetric) {
			return true
		}
	}
	return false
}

// only returns the value of a header that must occur exactly once. If it occurred twice, this
// package and the rest of the program could read different values.
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
