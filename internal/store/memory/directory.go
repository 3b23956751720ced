package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type endpoint struct {
	postrider.Endpoint
	version int64              // version of the subscriptions at the last change of the endpoint
	secrets []postrider.Secret // newest first, including expired ones
	circuit postrider.Circuit
	history []postrider.EndpointHealth // oldest first
	// Earlier subscriptions, oldest first, and when the present one began; zero: with the endpoint.
	past         []postrider.SubscriptionRevision
	subscribedAt time.Time

	// document replaces the policy on every read, unless it is nil. SetPolicyDocument sets it, and
	// the next PutEndpoint with a policy removes it.
	document []byte
}

func (e *endpoint) deleted() bool { return e.Status == postrider.EndpointDeleted }

// changeLocked raises the version of the subscriptions for a change of e.
func (s *Store) changeLocked(e *endpoint) {
	s.version++
	e.version = s.version
}

// PutEndpoint implements [store.Directory].
func (s *Store) PutEndpoint(_ context.Context, p store.PutEndpoint) (postrider.Endpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := ownEndpoint(p.Endpoint)
	next.Kind = cmp.Or(next.Kind, postrider.KindHTTP)
	if err := s.checkPutLocked(next); err != nil {
		return postrider.Endpoint{}, fmt.Errorf("put endpoint %s: %w", next.ID, err)
	}
	e, ok := s.endpoints.get(next.ID)
	if !ok && p.Most > 0 && s.endpointsOfLocked(next.Account) >= p.Most {
		return postrider.Endpoint{}, fmt.Errorf("put endpoint %s: %w", next.ID,
			&postrider.QuotaError{Account: next.Account, Quota: postrider.QuotaEndpoints, Limit: p.Most})
	}
	if !ok {
		e = &endpoint{}
		s.endpoints.put(next.ID, e)
	}
	now := s.wall()
	next.StatusSince, next.FullSince = now, e.FullSince
	if ok {
		if next.Kind = e.Kind; next.Status == e.Status {
			next.StatusSince = e.StatusSince
		}
		e.endSubscription(next, now)
	}
	next.Revision++
	next.CreatedAt, next.UpdatedAt = next.ID.Time(), now
	next.VerifiedAt = stored(next.VerifiedAt)
	if next.PolicyError == "" || next.ConditionFailed {
		e.document = nil
	}
	if next.ConditionFailed {
		e.document, _ = store.PolicyDocument(next)
	}
	e.Endpoint = next
	for _, secret := range p.Secrets {
		e.add(secret)
	}
	if p.CloseCircuit {
		e.closeCircuit()
	}
	s.changeLocked(e)
	return e.read(), nil
}

// SetPolicyDocument replaces the stored policy of an endpoint without a check. The change does
// not appear in [store.Changes]. A person with a database client could do the same to a durable
// store.
func (s *Store) SetPolicyDocument(_ context.Context, id postrider.EndpointID, document string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.endpoints.get(id)
	if !ok {
		return postrider.ErrNotFound
	}
	e.document = []byte(document)
	return nil
}

// read returns the endpoint as callers of the store get it.
func (e *endpoint) read() postrider.Endpoint {
	read := ownEndpoint(e.Endpoint)
	if e.document != nil {
		store.SetPolicy(&read, e.document)
	}
	return read
}

func (s *Store) checkPutLocked(next postrider.Endpoint) error {
	e, exists := s.endpoints.get(next.ID)
	switch {
	case exists && (e.deleted() || e.Account != next.Account), !exists && next.Revision != 0:
		return postrider.ErrNotFound
	case exists && e.Revision != next.Revision:
		return postrider.ErrConflict
	case next.UID == "" || next.Status == postrider.EndpointDeleted:
		return nil
	}
	for _, other := range s.endpoints.rows {
		if other.ID != next.ID && other.Account == next.Account && other.UID == next.UID && !other.deleted() {
			return fmt.Errorf("uid %q: %w", next.UID, postrider.ErrConflict)
		}
	}
	return nil
}

// closeCircuit closes the endpoint's circuit, unless it is closed.
func (e *endpoint) closeCircuit() {
	if closed, changed := e.circuit.ClosedByHand(); changed {
		e.circuit = closed
		e.circuit.Generation++
	}
}

// add stores a secret. A secret that is stored already stays as it is, because the call is a
// repeat.
func (e *endpoint) add(secret postrider.Secret) {
	secret.Endpoint = e.ID
	secret.Encrypted = bytes.Clone(secret.Encrypted)
	secret.CreatedAt = secret.ID.Time()
	if !secret.ExpiresAt.IsZero() {
		secret.ExpiresAt = stored(secret.ExpiresAt)
	}
	if !slices.ContainsFunc(e.secrets, func(s postrider.Secret) bool { return s.ID == secret.ID }) {
		e.secrets = append(e.secrets, secret)
	}
	slices.SortFunc(e.secrets, newestSecret)
}

// active returns the secrets that sign at the time now.
func (e *endpoint) active(now time.Time) (active []postrider.Secret) {
	for _, secret := range e.secrets {
		if secret.ActiveAt(now) {
			secret.Encrypted = bytes.Clone(secret.Encrypted)
			active = append(active, secret)
		}
	}
	return active
}

// ownEndpoint returns the endpoint with copies of its slices.
func ownEndpoint(e postrider.Endpoint) postrider.Endpoint {
	e.EventTypes, e.Metadata = slices.Clone(e.EventTypes), ownMetadata(e.Metadata)
	e.Policy.Retry.Delays = slices.Clone(e.Policy.Retry.Delays)
	e.Policy.Signatures = slices.Clone(e.Policy.Signatures)
	e.Policy.Headers = slices.Clone(e.Policy.Headers)
	e.Policy.Auth.Scopes = slices.Clone(e.Policy.Auth.Scopes)
	e.Credentials = bytes.Clone(e.Credentials)
	return e
}

// ownMetadata returns a copy of the metadata; nil: it is empty.
func ownMetadata(m postrider.Metadata) postrider.Metadata {
	if len(m) == 0 {
		return nil
	}
	return maps.Clone(m)
}

// Endpoints implements [store.Directory].
func (s *Store) Endpoints(_ context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.endpoints, q.Paging, q.ID, func(e *endpoint) (postrider.Endpoint, bool) {
		return e.read(), selects(q.Account, e.Account) && selects(q.UID, e.UID) && selects(q.Status, e.Status) &&
			selects(q.Circuit, cmp.Or(e.circuit.At(s.now()).Status, postrider.CircuitClosed)) &&
			(q.Failing == nil || *q.Failing != e.circuit.FailingSince.IsZero()) &&
			selects(q.Health, cmp.Or(e.health().Status, postrider.Healthy)) &&
			(len(q.IDs) == 0 || slices.Contains(q.IDs, e.ID)) && e.Metadata.Has(q.Metadata) &&
			(!e.deleted() || len(q.Metadata) == 0 && (!q.ID.IsZero() || len(q.IDs) > 0))
	})
}

// Secrets implements [store.Directory].
func (s *Store) Secrets(_ context.Context, endpoints ...postrider.EndpointID) (secrets []postrider.Secret, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range endpoints {
		if e, ok := s.endpoints.get(id); ok {
			secrets = append(secrets, e.active(s.wall())...)
		}
	}
	return secrets, nil
}

// RotateSecret implements [store.Directory].
func (s *Store) RotateSecret(_ context.Context, r store.RotateSecret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.endpoints.get(r.Secret.Endpoint)
	if !ok || e.deleted() {
		return fmt.Errorf("rotate the secret of endpoint %s: %w", r.Secret.Endpoint, postrider.ErrNotFound)
	}
	until := s.wall().Add(r.Overlap)
	for i := range e.secrets {
		if old := &e.secrets[i]; old.ActiveAt(until) && old.ID != r.Secret.ID {
			old.ExpiresAt = until
		}
	}
	e.add(r.Secret)
	s.changeLocked(e)
	return nil
}

// RevokeSecret implements [store.Directory].
func (s *Store) RevokeSecret(_ context.Context, r store.RevokeSecret) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.revokeLocked(r, s.wall()); err != nil {
		return fmt.Errorf("revoke secret %s of endpoint %s: %w", r.Secret, r.Endpoint, err)
	}
	return nil
}

func (s *Store) revokeLocked(r store.RevokeSecret, now time.Time) error {
	e, ok := s.endpoints.get(r.Endpoint)
	if !ok || e.deleted() {
		return postrider.ErrNotFound
	}
	at := slices.IndexFunc(e.secrets, func(s postrider.Secret) bool { return s.ID == r.Secret && s.ActiveAt(now) })
	switch {
	case at < 0:
		return postrider.ErrNotFound
	case !slices.ContainsFunc(e.secrets, func(s postrider.Secret) bool { return s.ID != r.Secret && s.ExpiresAt.IsZero() }):
		return fmt.Errorf("every other secret expires: %w", postrider.ErrConflict)
	}
	e.secrets[at].ExpiresAt = now
	s.changeLocked(e)
	return nil
}

// PublicKeys implements [store.Directory].
func (s *Store) PublicKeys(_ context.Context, q store.PublicKeyQuery) (store.Page[postrider.Secret], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, paged, err := store.IDKey[postrider.SecretID](q.Paging)
	if err != nil {
		return store.Page[postrider.Secret]{}, err
	}
	var keys []postrider.Secret
	for _, e := range s.endpoints.rows {
		if e.deleted() || !selects(q.Endpoint, e.ID) {
			continue
		}
		for _, secret := range e.active(s.wall()) {
			if secret.Encrypted = nil; secret.Public != "" && (!paged || secret.ID.Compare(before) < 0) {
				keys = append(keys, secret)
			}
		}
	}
	slices.SortFunc(keys, newestSecret)
	return store.Cut(keys, q.Paging, func(s postrider.Secret) string { return string(s.ID[:]) }), nil
}

func newestSecret(a, b postrider.Secret) int { return b.ID.Compare(a.ID) }

// Changes implements [store.Directory].
func (s *Store) Changes(_ context.Context, since int64, limit int) (store.Changes, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var changed []*endpoint
	for _, e := range s.endpoints.rows {
		if e.version > since && (since > 0 || !e.deleted()) {
			changed = append(changed, e)
		}
	}
	slices.SortFunc(changed, func(a, b *endpoint) int { return cmp.Compare(a.version, b.version) })
	changes := store.Changes{Version: s.version, Hold: s.hold}
	if len(changed) > limit {
		changed = changed[:limit]
		changes.Version = changed[limit-1].version
	}
	if s.version > since {
		changes.Paths = map[string][]string{}
		for name, t := range s.types {
			for _, p := range t.Paths {
				changes.Paths[name] = append(changes.Paths[name], p.Path)
			}
		}
	}
	now := s.wall()
	for _, e := range changed {
		changes.Endpoints = append(changes.Endpoints, store.EndpointSnapshot{
			Endpoint: e.read(), Secrets: e.active(now), Circuit: e.circuit, SubscribedAt: e.subscribedAt,
		})
	}
	return changes, nil
}
