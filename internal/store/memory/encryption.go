package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Keyring implements [store.Encryption].
func (s *Store) Keyring(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Clone(s.keyring), nil
}

// SwapKeyring implements [store.Encryption].
func (s *Store) SwapKeyring(_ context.Context, old, next []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(s.keyring, old) {
		s.keyring = bytes.Clone(next)
	}
	return bytes.Clone(s.keyring), nil
}

// EncryptedValues implements [store.Encryption].
func (s *Store) EncryptedValues(_ context.Context, after store.EncryptedID, limit int) (list []store.EncryptedValue, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	add := func(id store.EncryptedID) {
		if value := *s.encryptedLocked(id); len(value) > 0 && id.Compare(after) > 0 && len(list) < limit {
			list = append(list, store.EncryptedValue{ID: id, Bytes: bytes.Clone(value)})
		}
	}
	for _, source := range s.sources.ids {
		add(store.EncryptedID{Source: source})
	}
	for _, key := range s.archiveKeys.ids {
		add(store.EncryptedID{Archive: key})
	}
	for _, e := range s.endpoints.rows {
		add(store.EncryptedID{Endpoint: e.ID})
		for _, secret := range slices.Backward(e.secrets) {
			add(store.EncryptedID{Endpoint: e.ID, Secret: secret.ID})
		}
	}
	return list, nil
}

// Reencrypt implements [store.Encryption].
func (s *Store) Reencrypt(_ context.Context, list []store.Reencryption) (replaced int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		if value := s.encryptedLocked(r.ID); value != nil && len(r.Old) > 0 && bytes.Equal(*value, r.Old) {
			*value = bytes.Clone(r.New)
			replaced++
		}
	}
	return replaced, nil
}

// encryptedLocked returns a pointer to the stored value, or nil if the endpoint, secret or
// archive key does not exist.
func (s *Store) encryptedLocked(id store.EncryptedID) *[]byte {
	if !id.Source.IsZero() {
		at, ok := s.sources.find(id.Source)
		if !ok {
			return nil
		}
		return &s.sources.rows[at].Password
	}
	if !id.Archive.IsZero() {
		key, _ := s.archiveKeys.get(id.Archive)
		return key
	}
	e, ok := s.endpoints.get(id.Endpoint)
	if !ok {
		return nil
	}
	if id.Secret.IsZero() {
		return &e.Credentials
	}
	at := slices.IndexFunc(e.secrets, func(s postrider.Secret) bool { return s.ID == id.Secret })
	if at < 0 {
		return nil
	}
	return &e.secrets[at].Encrypted
}
