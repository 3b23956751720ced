// Package vault seals what stores must not be able to read: the secrets that
// requests are signed with, and the credentials of endpoints.
//
//	v := vault.New(ring)
//	err := v.SealSecret(&secret, "whsec_…") // secret.Sealed is what is stored
//	text, err := v.OpenSecret(secret)
//
// What it promises:
//
//   - Sealed is AES-256-GCM under the newest key of a [Ring], with a nonce of its
//     own, and names that key. Any key of the ring opens.
//   - What was sealed for one id, as a secret or as credentials, opens for that
//     alone: bytes that were swapped between rows, cut or changed are an error.
//   - A vault that follows a source seals only with a ring that it has just
//     read there, and asks the source before it calls a key unknown. So a key
//     that is added to the source is in use from then on, and nothing is ever
//     sealed with a key that exists in a process alone.
//   - A key that a vault has seen once opens for as long as the vault lives.
//   - No error, and no text of a Ring or a KeyID, holds a byte of a key or of
//     what is sealed.
//
// It is no protection from who has the ring, nor from who can read the memory
// of the process. Lengths are not hidden.
package vault

import (
	"bytes"
	"crypto/cipher"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider"
)

// ErrDamaged says that something sealed was changed, cut, or belongs elsewhere.
var ErrDamaged = errors.New("what is sealed is damaged, or was sealed for something else")

// UnknownKeyError says that a ring lacks the key that something is sealed with.
type UnknownKeyError struct{ Key KeyID }

// Error names the key.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("sealed with key %s, which is not in the ring", e.Key)
}

// format is the first byte of everything sealed. After it come the key's id,
// the nonce, the ciphertext and the tag.
const format = 1

const (
	headSize = 1 + len(KeyID{})
	overhead = 12 + 16 // nonce and tag
)

// missTime is how long an unknown key is not asked for again: what is sealed
// with it is met at every attempt.
const missTime = time.Second

// Vault seals with the newest key of a ring and opens with any. Its methods may
// be called from any goroutine.
type Vault struct {
	source func() (Ring, error) // nil: the ring never changes
	keys   atomic.Pointer[keyset]

	asking sync.Mutex // held while the source is asked
	missed map[KeyID]time.Time
}

// keyset is a ring that is ready to be used. It never changes.
type keyset struct {
	newest KeyID
	aeads  map[KeyID]cipher.AEAD
}

// New returns a vault of a ring that never changes.
func New(ring Ring) *Vault {
	v := &Vault{missed: map[KeyID]time.Time{}}
	v.keys.Store(&keyset{})
	v.adopt(ring)
	return v
}

// Follow returns a vault of the ring that source returns. It asks again before
// each sealing, and when it meets a key that it does not know.
func Follow(source func() (Ring, error)) (*Vault, error) {
	ring, err := source()
	if err != nil {
		return nil, err
	}
	v := New(ring)
	v.source = source
	return v, nil
}

// Refresh asks the source for the ring. Who seals much at once with
// [Vault.ResealSecret] and [Vault.ResealCredentials] calls it before each batch.
func (v *Vault) Refresh() error {
	v.asking.Lock()
	defer v.asking.Unlock()
	return v.refresh()
}

func (v *Vault) refresh() error {
	if v.source == nil {
		return nil
	}
	ring, err := v.source()
	if err != nil {
		return err
	}
	v.adopt(ring)
	return nil
}

// adopt makes the ring's newest key the one that seals. Keys that were known
// stay known.
func (v *Vault) adopt(ring Ring) {
	was := v.keys.Load()
	next := &keyset{newest: ring.Newest(), aeads: maps.Clone(was.aeads)}
	if next.aeads == nil {
		next.aeads = map[KeyID]cipher.AEAD{}
	}
	for _, k := range ring.keys {
		next.aeads[k.id] = k.aead()
	}
	v.keys.Store(next)
}

// Newest returns the id of the key that seals.
func (v *Vault) Newest() KeyID { return v.keys.Load().newest }

// SealSecret sets s.Sealed to the text, sealed for s.ID.
func (v *Vault) SealSecret(s *postrider.Secret, text string) error {
	if err := v.Refresh(); err != nil {
		return fmt.Errorf("seal secret %s: %w", s.ID, err)
	}
	s.Sealed = v.seal([]byte(text), forSecret(s.ID))
	return nil
}

// OpenSecret returns the text of a secret.
func (v *Vault) OpenSecret(s postrider.Secret) (string, error) {
	text, err := v.open(s.Sealed, forSecret(s.ID))
	if err != nil {
		return "", fmt.Errorf("open secret %s: %w", s.ID, err)
	}
	return string(text), nil
}

// ResealSecret returns a secret's sealed bytes under the newest key that the
// vault knows: the same bytes, where they are already.
func (v *Vault) ResealSecret(id postrider.SecretID, sealed []byte) ([]byte, error) {
	again, err := v.reseal(sealed, forSecret(id))
	if err != nil {
		return nil, fmt.Errorf("reseal secret %s: %w", id, err)
	}
	return again, nil
}

// sealedCredentials is what credentials look like inside.
type sealedCredentials struct {
	Headers map[string]string `json:"headers,omitempty"`
	Auth    string            `json:"auth,omitempty"`
	TLSKey  string            `json:"tls_key,omitempty"`
}

// SealCredentials sets e.Credentials to c, sealed for e.ID, or to nil where c
// holds nothing. Its texts are UTF-8.
func (v *Vault) SealCredentials(e *postrider.Endpoint, c postrider.Credentials) error {
	e.Credentials = nil
	if len(c.Headers) == 0 && c.Auth == "" && c.TLSKey == "" {
		return nil
	}
	if !isUTF8(c) {
		return fmt.Errorf("seal credentials of %s: %w", e.ID, errNoText)
	}
	inside, err := json.Marshal(sealedCredentials(c))
	if err == nil {
		err = v.Refresh()
	}
	if err != nil {
		return fmt.Errorf("seal credentials of %s: %w", e.ID, err)
	}
	e.Credentials = v.seal(inside, forCredentials(e.ID))
	return nil
}

var errNoText = errors.New("they are not UTF-8") // JSON would change them

func isUTF8(c postrider.Credentials) bool {
	for name, value := range c.Headers {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return utf8.ValidString(c.Auth) && utf8.ValidString(c.TLSKey)
}

// OpenCredentials returns the credentials of an endpoint, the zero ones where
// it has none.
func (v *Vault) OpenCredentials(e postrider.Endpoint) (postrider.Credentials, error) {
	if e.Credentials == nil {
		return postrider.Credentials{}, nil
	}
	inside, err := v.open(e.Credentials, forCredentials(e.ID))
	if err != nil {
		return postrider.Credentials{}, fmt.Errorf("open credentials of %s: %w", e.ID, err)
	}
	c, err := decodeCredentials(inside)
	if err != nil {
		return postrider.Credentials{}, fmt.Errorf("open credentials of %s: %w", e.ID, err)
	}
	return postrider.Credentials(c), nil
}

// decodeCredentials reads the document of [Vault.SealCredentials]. A field that
// it does not know is an error: without the field, requests would lack a
// credential. Errors name fields and never quote a value. The version of the
// document is [format].
func decodeCredentials(inside []byte) (c sealedCredentials, err error) {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(inside, &fields) != nil {
		return c, ErrDamaged
	}
	for name, value := range fields {
		var to any
		switch name {
		case "headers":
			to = &c.Headers
		case "auth":
			to = &c.Auth
		case "tls_key":
			to = &c.TLSKey
		default:
			return c, fmt.Errorf("the field %q is unknown to this program", name)
		}
		if json.Unmarshal(value, to) != nil {
			return c, fmt.Errorf("the field %q has another type than this program reads", name)
		}
	}
	return c, nil
}

// ResealCredentials is [Vault.ResealSecret] for the credentials of an endpoint.
func (v *Vault) ResealCredentials(id postrider.EndpointID, sealed []byte) ([]byte, error) {
	again, err := v.reseal(sealed, forCredentials(id))
	if err != nil {
		return nil, fmt.Errorf("reseal credentials of %s: %w", id, err)
	}
	return again, nil
}

// What something is sealed for goes into its tag.

func forSecret(id postrider.SecretID) []byte { return append([]byte("secret"), id[:]...) }

func forCredentials(id postrider.EndpointID) []byte { return append([]byte("credentials"), id[:]...) }

func (v *Vault) seal(plain, owner []byte) []byte {
	keys := v.keys.Load()
	sealed := make([]byte, 0, headSize+overhead+len(plain))
	sealed = append(sealed, format)
	sealed = append(sealed, keys.newest[:]...)
	return keys.aeads[keys.newest].Seal(sealed, nil, plain, bound(sealed, owner))
}

func (v *Vault) open(sealed, owner []byte) ([]byte, error) {
	id, err := KeyOf(sealed)
	if err != nil {
		return nil, err
	}
	aead, known := v.keys.Load().aeads[id]
	if !known {
		if aead, err = v.learn(id); err != nil {
			return nil, err
		}
	}
	head, body := sealed[:headSize], sealed[headSize:]
	plain, err := aead.Open(nil, nil, body, bound(head, owner))
	if err != nil {
		return nil, ErrDamaged
	}
	return plain, nil
}

func (v *Vault) reseal(sealed, owner []byte) ([]byte, error) {
	plain, err := v.open(sealed, owner)
	if err != nil {
		return nil, err
	}
	if id, _ := KeyOf(sealed); id == v.Newest() {
		return bytes.Clone(sealed), nil
	}
	return v.seal(plain, owner), nil
}

// bound returns what the tag covers beside the ciphertext.
func bound(head, owner []byte) []byte { return append(bytes.Clone(head), owner...) }

// learn asks the source for a key, unless it was in vain a moment ago.
func (v *Vault) learn(id KeyID) (cipher.AEAD, error) {
	v.asking.Lock()
	defer v.asking.Unlock()
	unknown := &UnknownKeyError{Key: id}
	if aead, known := v.keys.Load().aeads[id]; known { // another goroutine asked
		return aead, nil
	}
	now := time.Now()
	if at, missed := v.missed[id]; missed && now.Sub(at) < missTime {
		return nil, unknown
	}
	if err := v.refresh(); err != nil {
		v.miss(id, now)
		return nil, fmt.Errorf("%w, which could not be read again: %w", unknown, err)
	}
	if aead, known := v.keys.Load().aeads[id]; known {
		return aead, nil
	}
	v.miss(id, now)
	return nil, unknown
}

// miss notes that id is unknown, and forgets those of long ago.
func (v *Vault) miss(id KeyID, now time.Time) {
	maps.DeleteFunc(v.missed, func(_ KeyID, at time.Time) bool { return now.Sub(at) >= missTime })
	v.missed[id] = now
}

// KeyOf returns the id of the key that something was sealed with.
func KeyOf(sealed []byte) (id KeyID, err error) {
	switch {
	case len(sealed) == 0:
		return id, fmt.Errorf("%w: it is empty", ErrDamaged)
	case sealed[0] != format:
		return id, fmt.Errorf("sealed in format %d, which this version does not know", sealed[0])
	case len(sealed) < headSize+overhead:
		return id, fmt.Errorf("%w: it is too short", ErrDamaged)
	}
	copy(id[:], sealed[1:])
	return id, nil
}
