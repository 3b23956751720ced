package signature

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The sizes of a secret, in bytes.
const (
	MinSecretSize = 24
	MaxSecretSize = 64
)

const secretPrefix = "whsec_"

// ErrSecret says that a text is no secret, without the text.
var ErrSecret = errors.New("signature: secret must be whsec_ and the padded base64 of 24 to 64 bytes")

// NewSecret returns 32 bytes from random, which is rand.Reader of crypto/rand
// but in tests.
func NewSecret(random io.Reader) ([]byte, error) {
	secret := make([]byte, 32)
	if _, err := io.ReadFull(random, secret); err != nil {
		return nil, fmt.Errorf("draw secret: %w", err)
	}
	return secret, nil
}

// ParseSecret reads the text that [FormatSecret] writes, with or without its
// whsec_. Any other text is ErrSecret.
func ParseSecret(text string) ([]byte, error) {
	secret, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(text, secretPrefix))
	if err != nil || len(secret) < MinSecretSize || len(secret) > MaxSecretSize || strings.ContainsAny(text, "\r\n") {
		return nil, ErrSecret
	}
	return secret, nil
}

// FormatSecret returns the secret as people pass it on: whsec_ and base64.
func FormatSecret(secret []byte) string {
	return secretPrefix + base64.StdEncoding.EncodeToString(secret)
}
