package secrets

import (
	"bytes"
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// ErrDamaged says that an encrypted value was changed or cut, or that it was encrypted for another
// row.
var ErrDamaged = errors.New("the encrypted value is damaged, or was encrypted for another row")

// UnknownKeyError says that the keyring does not have the key of an encrypted value.
type UnknownKeyError struct{ Key KeyID }

// Error names the key.
func (e *UnknownKeyError) Error() string {
	return fmt.Sprintf("encrypted with key %s, which is not in the keyring", e.Key)
}

// An encrypted value consists of the format (1 byte), the id of the key, the nonce, the ciphertext
// and the authentication tag.
const (
	format     = 1
	headerSize = 1 + len(KeyID{})
	overhead   = 12 + 16 // nonce and tag
)

const (
	// retryUnknownAfter is the least time between two searches for the same unknown key. Without
	// it, every attempt for the endpoint would read the source again.
	retryUnknownAfter = time.Second
	// readTimeout bounds one read of the keyring.
	readTimeout = 5 * time.Second
)

// Vault encrypts with the newest key of a keyring and decrypts with any of its
// keys. Its methods may be called from any goroutine.
type Vault struct {
	// source reads the current keyring. Nil: the keyring never changes.
	source func(context.Context) (Keyring, error)
	// stored reads an encrypted value as it is stored now; nil bytes if it is no longer stored.
	// Open sets it. Nil: no value is read again.
	stored func(context.Context, store.EncryptedID) ([]byte, error)
	// keys has every key that the vault has read. adopt replaces the set; readers take no lock.
	keys atomic.Pointer[keyset]

	// reading holds one element while a goroutine reads the source. It is a channel and not a
	// mutex, so that waiting for it ends with the context.
	reading chan struct{}
	// missing has the time at which a read of the source ended without the key. Guarded by reading.
	// findKey removes entries that are older than retryUnknownAfter.
	missing map[KeyID]time.Time
}

// keyset has the id of the newest key, the ciphers of all keys that the vault has read, and the keys of
// the current keyring that sign links and make search terms. It never changes.
type keyset struct {
	newest  KeyID
	aeads   map[KeyID]cipher.AEAD
	signers map[KeyID][]byte
	finders map[KeyID][]byte
}

// New returns a vault with a keyring that never changes.
func New(keyring Keyring) *Vault {
	v := &Vault{reading: make(chan struct{}, 1), missing: map[KeyID]time.Time{}}
	v.keys.Store(&keyset{aeads: map[KeyID]cipher.AEAD{}})
	v.adopt(keyring)
	return v
}

// Follow returns a vault with the keyring that source returns. The vault calls source again before
// each encryption, and when it meets an unknown key.
func Follow(ctx context.Context, source func(context.Context) (Keyring, error)) (*Vault, error) {
	keyring, err := source(ctx)
	if err != nil {
		return nil, err
	}
	v := New(keyring)
	v.source = source
	return v, nil
}

// Refresh reads the keyring again. [Vault.Reencrypt] does not, so its caller calls Refresh before
// each batch.
func (v *Vault) Refresh(ctx context.Context) error {
	unlock, err := v.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return v.readLocked(ctx)
}

// lock waits until no other goroutine reads the source, or ctx ends.
func (v *Vault) lock(ctx context.Context) (unlock func(), err error) {
	select {
	case v.reading <- struct{}{}:
		return func() { <-v.reading }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the keyring: %w", context.Cause(ctx))
	}
}

// readLocked reads the keyring from the source. The caller holds the lock. After an
// error the vault keeps the keys that it has.
func (v *Vault) readLocked(ctx context.Context) error {
	if v.source == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	keyring, err := v.source(ctx)
	if err != nil {
		return err
	}
	v.adopt(keyring)
	return nil
}

// adopt makes the newest key of the keyring the one that encrypts. A key that the keyring no longer has
// still decrypts, but verifies no link and makes no search term.
func (v *Vault) adopt(keyring Keyring) {
	next := &keyset{
		newest: keyring.Newest(), aeads: maps.Clone(v.keys.Load().aeads), signers: map[KeyID][]byte{}, finders: map[KeyID][]byte{},
	}
	for _, k := range keyring.keys {
		next.aeads[k.id], next.signers[k.id], next.finders[k.id] = k.aead(), k.derive(signPurpose), k.derive(termPurpose)
	}
	v.keys.Store(next)
}

// Newest returns the id of the key that encrypts.
func (v *Vault) Newest() KeyID { return v.keys.Load().newest }

// EncryptSecret encrypts the text for s.ID and sets s.Encrypted to the result.
func (v *Vault) EncryptSecret(ctx context.Context, s *postrider.Secret, text string) error {
	if err := v.Refresh(ctx); err != nil {
		return fmt.Errorf("encrypt secret %s: %w", s.ID, err)
	}
	s.Encrypted = v.encrypt([]byte(text), store.EncryptedID{Secret: s.ID})
	return nil
}

// DecryptSecret returns the text of a secret.
func (v *Vault) DecryptSecret(ctx context.Context, s postrider.Secret) (string, error) {
	text, err := v.decrypt(ctx, s.Encrypted, store.EncryptedID{Endpoint: s.Endpoint, Secret: s.ID})
	if err != nil {
		return "", fmt.Errorf("decrypt secret %s: %w", s.ID, err)
	}
	return string(text), nil
}

// NewArchiveKey returns a new key for the archives of an account, and the encrypted key for the
// store.
func (v *Vault) NewArchiveKey(ctx context.Context, account postrider.AccountID) (key [32]byte, encrypted []byte, err error) {
	if err := v.Refresh(ctx); err != nil {
		return key, nil, fmt.Errorf("make archive key of %s: %w", account, err)
	}
	rand.Read(key[:])
	return key, v.encrypt(key[:], store.EncryptedID{Archive: account}), nil
}

// DecryptArchiveKey returns the key for the archives of an account.
func (v *Vault) DecryptArchiveKey(ctx context.Context, account postrider.AccountID, encrypted []byte) (key [32]byte, err error) {
	plain, err := v.decrypt(ctx, encrypted, store.EncryptedID{Archive: account})
	if err == nil && len(plain) != len(key) {
		err = ErrDamaged
	}
	if err != nil {
		return key, fmt.Errorf("decrypt archive key of %s: %w", account, err)
	}
	return [32]byte(plain), nil
}

// EncryptSource encrypts the password for s.ID and sets s.Password to the result, or to nil if the password
// is empty.
func (v *Vault) EncryptSource(ctx context.Context, s *postrider.Source, password string) error {
	if s.Password = nil; password == "" {
		return nil
	}
	if err := v.Refresh(ctx); err != nil {
		return fmt.Errorf("encrypt the password of %s: %w", s.ID, err)
	}
	s.Password = v.encrypt([]byte(password), store.EncryptedID{Source: s.ID})
	return nil
}

// DecryptSource returns the password of a source; empty if it has none.
func (v *Vault) DecryptSource(ctx context.Context, s postrider.Source) (string, error) {
	if s.Password == nil {
		return "", nil
	}
	password, err := v.decrypt(ctx, s.Password, store.EncryptedID{Source: s.ID})
	if err != nil {
		return "", fmt.Errorf("decrypt the password of %s: %w", s.ID, err)
	}
	return string(password), nil
}

// credentials is the JSON document into which the credentials of an endpoint are encoded before
// they are encrypted.
type credentials struct {
	Headers map[string]string `json:"headers,omitempty"`
	Auth    string            `json:"auth,omitempty"`
	TLSKey  string            `json:"tls_key,omitempty"`
}

// EncryptCredentials encrypts c for e.ID and sets e.Credentials to the result, or to nil if c is
// empty. The texts in c must be UTF-8.
func (v *Vault) EncryptCredentials(ctx context.Context, e *postrider.Endpoint, c postrider.Credentials) error {
	e.Credentials = nil
	if len(c.Headers) == 0 && c.Auth == "" && c.TLSKey == "" {
		return nil
	}
	if !isUTF8(c) {
		return fmt.Errorf("encrypt credentials of %s: %w", e.ID, errNotUTF8)
	}
	document, err := json.Marshal(credentials(c))
	if err == nil {
		err = v.Refresh(ctx)
	}
	if err != nil {
		return fmt.Errorf("encrypt credentials of %s: %w", e.ID, err)
	}
	e.Credentials = v.encrypt(document, store.EncryptedID{Endpoint: e.ID})
	return nil
}

// errNotUTF8 refuses texts that are not UTF-8. In these, JSON would replace bytes without an error.
var errNotUTF8 = errors.New("they are not UTF-8")

// isUTF8 reports whether all texts of the credentials are UTF-8.
func isUTF8(c postrider.Credentials) bool {
	for name, value := range c.Headers {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return false
		}
	}
	return utf8.ValidString(c.Auth) && utf8.ValidString(c.TLSKey)
}

// DecryptCredentials returns the credentials of an endpoint; the zero value if it has none.
func (v *Vault) DecryptCredentials(ctx context.Context, e postrider.Endpoint) (postrider.Credentials, error) {
	if e.Credentials == nil {
		return postrider.Credentials{}, nil
	}
	document, err := v.decrypt(ctx, e.Credentials, store.EncryptedID{Endpoint: e.ID})
	if err != nil {
		return postrider.Credentials{}, fmt.Errorf("decrypt credentials of %s: %w", e.ID, err)
	}
	c, err := decodeCredentials(document)
	if err != nil {
		return postrider.Credentials{}, fmt.Errorf("decrypt credentials of %s: %w", e.ID, err)
	}
	return postrider.Credentials(c), nil
}

// decodeCredentials reads the document of [Vault.EncryptCredentials]. An unknown field is an error:
// without the field, requests would lack a credential. Errors name fields and never quote a value.
// [format] is the version of the document.
func decodeCredentials(document []byte) (c credentials, err error) {
	fields := map[string]json.RawMessage{}
	if json.Unmarshal(document, &fields) != nil {
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

// Reencrypt returns the bytes of an encrypted value under the newest key of the vault. If that key
// encrypted the value already, it returns the same bytes.
func (v *Vault) Reencrypt(ctx context.Context, value store.EncryptedValue) ([]byte, error) {
	plain, err := v.decrypt(ctx, value.Bytes, value.ID)
	if err != nil {
		return nil, fmt.Errorf("reencrypt: %w", err)
	}
	if id, _ := KeyOf(value.Bytes); id == v.Newest() {
		return bytes.Clone(value.Bytes), nil
	}
	return v.encrypt(plain, value.ID), nil
}

// encrypt returns the bytes to store for the row with this id.
func (v *Vault) encrypt(plain []byte, id store.EncryptedID) []byte {
	keys := v.keys.Load()
	header := make([]byte, 0, headerSize+overhead+len(plain))
	header = append(append(header, format), keys.newest[:]...)
	return keys.aeads[keys.newest].Seal(header, nil, plain, authenticated(header, id))
}

// decrypt returns the plain text of a value of the row with this id. It returns ErrDamaged if the
// tag does not match, and an [UnknownKeyError] if the source does not have the key.
//
// The caller may have read the value long ago. A node keeps the values of its endpoints in memory
// until the endpoint changes, and a rotation does not change the endpoint. If rotations have
// encrypted the stored value again and dropped the key of the caller's value, decrypt reads and
// decrypts the stored value instead.
func (v *Vault) decrypt(ctx context.Context, value []byte, id store.EncryptedID) ([]byte, error) {
	plain, err := v.open(ctx, value, id)
	if _, unknown := errors.AsType[*UnknownKeyError](err); !unknown || v.stored == nil {
		return plain, err
	}
	stored, readErr := v.stored(ctx, id)
	switch {
	case readErr != nil:
		return nil, fmt.Errorf("%w; the stored value could not be read: %w", err, readErr)
	case stored == nil, bytes.Equal(stored, value):
		return nil, err
	}
	return v.open(ctx, stored, id)
}

// open decrypts a value and never reads the stored value.
func (v *Vault) open(ctx context.Context, value []byte, id store.EncryptedID) ([]byte, error) {
	key, err := KeyOf(value)
	if err != nil {
		return nil, err
	}
	aead, known := v.keys.Load().aeads[key]
	if !known {
		if aead, err = v.findKey(ctx, key); err != nil {
			return nil, err
		}
	}
	plain, err := aead.Open(nil, nil, value[headerSize:], authenticated(value[:headerSize], id))
	if err != nil {
		return nil, ErrDamaged
	}
	return plain, nil
}

// authenticated returns the data that the tag covers beside the ciphertext: the header, and the id
// of the row. So a value decrypts only in its own row.
func authenticated(header []byte, id store.EncryptedID) []byte {
	if !id.Source.IsZero() {
		return append(append(bytes.Clone(header), "source"...), id.Source[:]...)
	}
	if !id.Archive.IsZero() {
		return append(append(bytes.Clone(header), "archive"...), id.Archive[:]...)
	}
	if !id.Secret.IsZero() {
		return append(append(bytes.Clone(header), "secret"...), id.Secret[:]...)
	}
	return append(append(bytes.Clone(header), "credentials"...), id.Endpoint[:]...)
}

// findKey looks in the source for a key that the vault does not know yet.
//
// Many attempts can meet the same unknown key at once, while the source is slow or does not
// respond. One of them reads the source. The others wait, each as long as its own context allows,
// and then use the result of that read. The result is the key, or the time at which the key was
// found to be missing. That time is taken after the read. If it were taken before, a read that
// lasts longer than retryUnknownAfter would count as old when it ends, and every waiter would read
// again.
func (v *Vault) findKey(ctx context.Context, id KeyID) (cipher.AEAD, error) {
	unknown := &UnknownKeyError{Key: id}
	unlock, err := v.lock(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", unknown, err)
	}
	defer unlock()
	if aead, known := v.keys.Load().aeads[id]; known { // another goroutine found the key
		return aead, nil
	}
	if at, missing := v.missing[id]; missing && time.Since(at) < retryUnknownAfter {
		return nil, unknown
	}
	err = v.readLocked(ctx)
	if aead, known := v.keys.Load().aeads[id]; known {
		return aead, nil
	}
	if ctx.Err() == nil { // if the caller gave up, the result says nothing about the key
		now := time.Now()
		maps.DeleteFunc(v.missing, func(_ KeyID, at time.Time) bool { return now.Sub(at) >= retryUnknownAfter })
		v.missing[id] = now
	}
	if err != nil {
		return nil, fmt.Errorf("%w, which could not be read again: %w", unknown, err)
	}
	return nil, unknown
}

// KeyOf returns the id of the key that a value is encrypted with.
func KeyOf(value []byte) (id KeyID, err error) {
	switch {
	case len(value) == 0:
		return id, fmt.Errorf("%w: it is empty", ErrDamaged)
	case value[0] != format:
		return id, fmt.Errorf("encrypted in format %d, which this version does not know", value[0])
	case len(value) < headerSize+overhead:
		return id, fmt.Errorf("%w: it is too short", ErrDamaged)
	}
	copy(id[:], value[1:])
	return id, nil
}
