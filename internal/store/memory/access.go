package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// PutAccount implements [store.Access].
func (s *Store) PutAccount(_ context.Context, a postrider.Account) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.accounts.get(a.ID)
	if err := checkRevision(ok && was.DeletedAt.IsZero(), was.Revision, a.Revision); err != nil {
		return fmt.Errorf("put account %s: %w", a.ID, err)
	}
	if a.Revision == 0 && ok {
		return fmt.Errorf("put account %s: %w", a.ID, postrider.ErrNotFound)
	}
	for _, other := range s.accounts.rows {
		if a.UID != "" && other.UID == a.UID && other.ID != a.ID && other.DeletedAt.IsZero() {
			return fmt.Errorf("put account %s: uid %q: %w", a.ID, a.UID, postrider.ErrConflict)
		}
	}
	a.CreatedAt, a.DeletedAt, a.Metadata = a.ID.Time(), time.Time{}, ownMetadata(a.Metadata)
	a.Revision++
	s.accounts.put(a.ID, a)
	return nil
}

// checkRevision checks the revision of a change. 0: the row must not exist.
func checkRevision(exists bool, stored, expected int64) error {
	switch {
	case !exists && expected != 0:
		return postrider.ErrNotFound
	case exists && stored != expected:
		return postrider.ErrConflict
	}
	return nil
}

// DeleteAccount implements [store.Access].
func (s *Store) DeleteAccount(_ context.Context, id postrider.AccountID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, ok := s.accounts.get(id)
	if !ok || !a.DeletedAt.IsZero() {
		return fmt.Errorf("delete account %s: %w", id, postrider.ErrNotFound)
	}
	a.DeletedAt = s.wall()
	s.accounts.put(id, a)
	for _, k := range s.keys.rows {
		if k.Account == id && k.RevokedAt.IsZero() {
			k.RevokedAt = a.DeletedAt
			s.keys.put(k.ID, k)
		}
	}
	s.endSessionsLocked(func(session postrider.Session) bool { return session.Account == id })
	for _, d := range slices.Clone(s.destinations.rows) {
		if d.Account == id {
			s.destinations.remove(d.ID)
		}
	}
	return nil
}

// Accounts implements [store.Access].
func (s *Store) Accounts(_ context.Context, q store.AccountQuery) (store.Page[postrider.Account], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.accounts, q.Paging, q.ID, func(a postrider.Account) (postrider.Account, bool) {
		if q.Retention {
			return a, a.Retention != postrider.AccountRetention{}
		}
		a.Metadata = ownMetadata(a.Metadata)
		return a, selects(q.UID, a.UID) && a.Metadata.Has(q.Metadata) && (a.DeletedAt.IsZero() || !q.ID.IsZero() && len(q.Metadata) == 0)
	})
}

// PutKey implements [store.Access].
func (s *Store) PutKey(_ context.Context, k postrider.APIKey) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, other := range s.keys.rows {
		if other.ID == k.ID || other.Hash == k.Hash {
			return fmt.Errorf("put key %s: %w", k.ID, postrider.ErrConflict)
		}
	}
	k.Scopes = slices.Clone(k.Scopes)
	k.CreatedAt = k.ID.Time()
	if !k.ExpiresAt.IsZero() {
		k.ExpiresAt = stored(k.ExpiresAt)
	}
	s.keys.put(k.ID, k)
	return nil
}

// Keys implements [store.Access].
func (s *Store) Keys(_ context.Context, q store.KeyQuery) (store.Page[postrider.APIKey], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.keys, q.Paging, q.ID, func(k postrider.APIKey) (postrider.APIKey, bool) {
		k.Scopes = slices.Clone(k.Scopes)
		return k, selects(q.Hash, k.Hash) && selects(q.Account, k.Account)
	})
}

// RevokeKey implements [store.Access].
func (s *Store) RevokeKey(_ context.Context, key postrider.KeyID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.keys.get(key)
	if !ok {
		return fmt.Errorf("revoke key %s: %w", key, postrider.ErrNotFound)
	}
	if k.RevokedAt.IsZero() {
		k.RevokedAt = s.wall()
	}
	s.keys.put(key, k)
	s.endSessionsLocked(func(session postrider.Session) bool { return session.Key == key })
	return nil
}

// TouchKey implements [store.Access].
func (s *Store) TouchKey(_ context.Context, key postrider.KeyID, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, ok := s.keys.get(key)
	if !ok {
		return fmt.Errorf("touch key %s: %w", key, postrider.ErrNotFound)
	}
	if at = stored(at); at.After(k.LastUsedAt) {
		k.LastUsedAt = at
	}
	s.keys.put(key, k)
	return nil
}

// PutEventType implements [store.Catalogue].
func (s *Store) PutEventType(_ context.Context, t postrider.EventType) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t.CreatedAt, t.Example = s.wall(), slices.Clone(t.Example)
	old, ok := s.types[t.Name]
	if err := checkRevision(ok, old.Revision, t.Revision); err != nil {
		return fmt.Errorf("put event type %s: %w", t.Name, err)
	}
	if ok {
		t.CreatedAt = old.CreatedAt
	}
	t.Revision++
	var changed bool
	if t.Paths, changed = store.IndexPaths(t.Paths, old.Paths, s.wall()); changed {
		s.version++
	}
	s.types[t.Name] = t
	return nil
}

// EventTypes implements [store.Catalogue].
func (s *Store) EventTypes(_ context.Context, q store.EventTypeQuery) (store.Page[postrider.EventType], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after, err := q.Key()
	if err != nil {
		return store.Page[postrider.EventType]{}, err
	}
	var types []postrider.EventType
	for _, name := range slices.Sorted(maps.Keys(s.types)) {
		if t := s.types[name]; name > after && selects(q.Name, name) && (!q.Indexed || len(t.Paths) > 0) {
			if q.Indexed {
				t.Description, t.Example = "", nil
			}
			types = append(types, t)
		}
	}
	return store.Cut(types, q.Paging, func(t postrider.EventType) string { return t.Name }), nil
}

// DeleteEventType implements [store.Catalogue].
func (s *Store) DeleteEventType(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.types[name]
	if !ok {
		return fmt.Errorf("delete event type %q: %w", name, postrider.ErrNotFound)
	}
	if len(t.Paths) > 0 {
		s.version++
	}
	delete(s.types, name)
	return nil
}
