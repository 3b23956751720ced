package signature

import (
	"bytes"
	"crypto/ed25519"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
)

// The sizes of a symmetric secret, in bytes.
const (
	MinSecretSize = 24
	MaxSecretSize = 64
)

// The prefixes of secrets in text form.
const (
	symmetricPrefix = "whsec_"
	privatePrefix   = "whsk_"
	publicPrefix    = "whpk_"
)

// The errors of a text that is no secret. None of them contains the text.
var (
	// ErrSecret: the text has none of the forms that [ParseSecret] accepts.
	ErrSecret = errors.New("signature: secret must be whsec_, whsk_ or whpk_ and padded base64 " +
		"of 24 to 64 bytes, an ed25519 key pair or an ed25519 public key")
	// ErrTextSecret: [TextSecret] does not accept the text.
	ErrTextSecret = errors.New("signature: text of a secret must be 24 to 64 visible ASCII characters, " +
		"and not begin with whsec_, whsk_ or whpk_")
)

// Secret is a key that signs or verifies requests. There are four kinds:
//
//   - symmetric, whsec_ and base64: 24 to 64 random bytes that sender and
//     receiver know;
//   - symmetric text, made by another sender: the bytes of the text are the key;
//   - private, whsk_ and base64: an ed25519 seed and its public key, which only
//     the sender knows;
//   - public, whpk_ and base64: only that public key, which verifies and cannot
//     sign.
//
// A Secret is never printed: packages fmt, encoding/json and log/slog print a placeholder or an
// address, also for a struct that contains a Secret. Only [Secret.Text] returns the text, and
// [Secret.Equal] compares it. The zero Secret is no secret and can neither sign nor verify.
type Secret struct {
	// The field is a closure because no printer can look into one, not even by reflection. A string
	// field would appear in the %+v output of a struct that contains it.
	open func() material
}

// material has the parts of a secret.
type material struct {
	kind kind
	text string // text form, which people exchange
	key  []byte // the decoded key; for a symmetric text, its bytes
}

type kind int

const (
	symmetric kind = iota
	private
	public
)

// NewSecret returns a symmetric secret of 32 bytes read from random. Outside of tests, random is
// rand.Reader of crypto/rand.
func NewSecret(random io.Reader) (Secret, error) {
	key := make([]byte, 32)
	if _, err := io.ReadFull(random, key); err != nil {
		return Secret{}, fmt.Errorf("draw secret: %w", err)
	}
	return encoded(symmetric, symmetricPrefix, key), nil
}

// NewPrivateKey returns a private key with a seed read from random. Outside of tests, random is
// rand.Reader of crypto/rand.
func NewPrivateKey(random io.Reader) (Secret, error) {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(random, seed); err != nil {
		return Secret{}, fmt.Errorf("draw private key: %w", err)
	}
	return encoded(private, privatePrefix, ed25519.NewKeyFromSeed(seed)), nil
}

// ParseSecret reads whsec_, whsk_ or whpk_ with the standard, padded base64 of a key. For any other
// text the error is [ErrSecret]. That includes a private key whose public half does not belong to
// its seed, because no receiver could verify its signatures. [Secret.Text] of the result is text.
func ParseSecret(text string) (Secret, error) {
	prefix, encoding, _ := strings.Cut(text, "_")
	key, err := base64.StdEncoding.Strict().DecodeString(encoding)
	if err != nil || strings.ContainsAny(encoding, "\r\n") {
		return Secret{}, ErrSecret
	}
	switch prefix + "_" {
	case symmetricPrefix:
		if len(key) >= MinSecretSize && len(key) <= MaxSecretSize {
			return hold(material{kind: symmetric, text: text, key: key}), nil
		}
	case privatePrefix:
		if len(key) == ed25519.PrivateKeySize && bytes.Equal(ed25519.NewKeyFromSeed(key[:ed25519.SeedSize]), key) {
			return hold(material{kind: private, text: text, key: key}), nil
		}
	case publicPrefix:
		if len(key) == ed25519.PublicKeySize {
			return hold(material{kind: public, text: text, key: key}), nil
		}
	}
	return Secret{}, ErrSecret
}

// TextSecret accepts a secret that another sender made and that [ParseSecret] does not read: 24 to
// 64 visible ASCII characters, whose bytes are the key in every scheme. It refuses a text with a
// prefix of ParseSecret. Such a text is a misspelt secret or a public key, which everybody may
// know.
func TextSecret(text string) (Secret, error) {
	prefix, _, _ := strings.Cut(text, "_")
	switch prefix + "_" {
	case symmetricPrefix, privatePrefix, publicPrefix:
		return Secret{}, ErrTextSecret
	}
	if len(text) < MinSecretSize || len(text) > MaxSecretSize || !visible(text, 0) {
		return Secret{}, ErrTextSecret
	}
	return hold(material{kind: symmetric, text: text, key: []byte(text)}), nil
}

func hold(m material) Secret { return Secret{open: func() material { return m }} }

func encoded(k kind, prefix string, key []byte) Secret {
	return hold(material{kind: k, text: prefix + base64.StdEncoding.EncodeToString(key), key: key})
}

// Text returns the secret in the form that [ParseSecret] or [TextSecret] accepts. It
// is empty for the zero Secret.
func (s Secret) Text() string {
	if s.open == nil {
		return ""
	}
	return s.open().text
}

// Public returns the public key of a private key, and a public key unchanged. For any other secret
// it returns the zero Secret.
func (s Secret) Public() Secret {
	switch {
	case s.is(private):
		return encoded(public, publicPrefix, s.open().key[ed25519.SeedSize:])
	case s.is(public):
		return s
	}
	return Secret{}
}

// IsZero reports whether s is no secret.
func (s Secret) IsZero() bool { return s.open == nil }

// Equal reports whether both are the same secret. The time that it takes does not depend on where
// they differ.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Text()), []byte(other.Text())) == 1
}

// redacted is printed instead of a secret.
const redacted = "[secret]"

// String returns a placeholder.
func (Secret) String() string { return redacted }

// Format writes a placeholder for every verb.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }

// MarshalText returns a placeholder, which therefore also stands in JSON.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// LogValue returns a placeholder.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

func (s Secret) is(k kind) bool { return s.open != nil && s.open().kind == k }

// publicKey returns the key that verifies the signatures of an asymmetric key; nil for other kinds.
func (s Secret) publicKey() ed25519.PublicKey {
	switch {
	case s.is(private):
		return s.open().key[ed25519.SeedSize:]
	case s.is(public):
		return s.open().key
	}
	return nil
}
