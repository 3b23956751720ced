package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// KeepRing implements [store.Seals].
func (s *Store) KeepRing(_ context.Context, was, ring []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bytes.Equal(s.ring, was) {
		s.ring = bytes.Clone(ring)
	}
	return bytes.Clone(s.ring), nil
}

// Sealed implements [store.Seals].
func (s *Store) Sealed(_ context.Context, after store.SealedID, limit int) (list []store.Sealed, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	note := func(id store.SealedID) {
		if sealed := *s.sealedLocked(id); len(sealed) > 0 && id.Compare(after) > 0 && len(list) < limit {
			list = append(list, store.Sealed{ID: id, Bytes: bytes.Clone(sealed)})
		}
	}
	for _, e := range s.endpoints.rows {
		note(store.SealedID{Endpoint: e.ID})
		for _, secret := range slices.Backward(e.secrets) {
			note(store.SealedID{Endpoint: e.ID, Secret: secret.ID})
		}
	}
	return list, nil
}

// Reseal implements [store.Seals].
func (s *Store) Reseal(_ context.Context, list []store.Reseal) (resealed int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		if sealed := s.sealedLocked(r.ID); sealed != nil && len(r.Was) > 0 && bytes.Equal(*sealed, r.Was) {
			*sealed = bytes.Clone(r.Now)
			resealed++
		}
	}
	return resealed, nil
}

// sealedLocked returns where something sealed is kept; nil: nowhere.
func (s *Store) sealedLocked(id store.SealedID) *[]byte {
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
	return &e.secrets[at].Sealed
}
