package secrets

import (
	"bytes"
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
)

// ErrUnsigned says that [Vault.Sign] of this installation did not make the text, or that the key of
// the text was dropped.
var ErrUnsigned = errors.New("the text is not signed by this installation")

// A signed text is, in base64: the payload, the id of the key, and the signature.
const (
	signatureSize = 16 // bytes of the truncated HMAC-SHA256 (RFC 2104 allows it)
	signPurpose   = "postrider: signed links"
)

// derive returns a key for the purpose. It is derived from the encryption key, so that no key has two
// purposes.
func (k key) derive(purpose string) []byte {
	derived, err := hkdf.Key(sha256.New, k.bytes[:], nil, purpose, sha256.Size)
	if err != nil {
		panic("derive key: " + err.Error()) // cannot happen: SHA-256 allows this length
	}
	return derived
}

// Sign returns a text for a URL. The text contains the payload, which anyone can read, and a
// signature by the newest key.
func (v *Vault) Sign(ctx context.Context, payload []byte) (string, error) {
	if err := v.Refresh(ctx); err != nil {
		return "", fmt.Errorf("sign link: %w", err)
	}
	keys := v.keys.Load()
	signed := append(bytes.Clone(payload), keys.newest[:]...)
	return base64.RawURLEncoding.EncodeToString(append(signed, sign(keys.signers[keys.newest], signed)...)), nil
}

// Unsign returns the payload of a text from [Vault.Sign]. For any other text, and for a text whose
// key is not in the keyring, the error matches ErrUnsigned. Unsign reads no source, so a forged
// text costs no query.
func (v *Vault) Unsign(text string) ([]byte, error) {
	signed, err := base64.RawURLEncoding.Strict().DecodeString(text)
	payload := len(signed) - len(KeyID{}) - signatureSize
	if err != nil || payload < 0 {
		return nil, ErrUnsigned
	}
	body, signature := signed[:payload+len(KeyID{})], signed[payload+len(KeyID{}):]
	signer, known := v.keys.Load().signers[KeyID(body[payload:])]
	if !known || !hmac.Equal(signature, sign(signer, body)) {
		return nil, ErrUnsigned
	}
	return body[:payload], nil
}

// sign returns the signature of the bytes.
func sign(signer, signed []byte) []byte {
	mac := hmac.New(sha256.New, signer)
	mac.Write(signed)
	return mac.Sum(nil)[:signatureSize]
}
