package memory

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// cloned returns the session with copies of its slices.
func cloned(session postrider.Session) postrider.Session {
	session.Scopes, session.Options = slices.Clone(session.Scopes), slices.Clone(session.Options)
	return session
}

// PutSession implements [store.Sessions].
func (s *Store) PutSession(_ context.Context, session postrider.Session) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.sessions.get(session.ID); there {
		return fmt.Errorf("put session %s: %w", session.ID, postrider.ErrConflict)
	}
	session = cloned(session)
	session.CreatedAt, session.ExpiresAt = session.ID.Time(), stored(session.ExpiresAt)
	if !session.CodeExpiresAt.IsZero() {
		session.CodeExpiresAt = stored(session.CodeExpiresAt)
	}
	s.sessions.put(session.ID, session)
	return nil
}

// RedeemCode implements [store.Sessions].
func (s *Store) RedeemCode(_ context.Context, r store.RedeemCode) (postrider.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.wall()
	for _, session := range s.sessions.rows {
		if session.Code != r.Code || session.Code == [32]byte{} {
			continue
		}
		unused := session.Hash == [32]byte{} && now.Before(session.CodeExpiresAt)
		if (!unused && session.Hash != r.Token) || !session.RevokedAt.IsZero() || !now.Before(session.ExpiresAt) {
			break
		}
		session.Hash = r.Token
		s.sessions.put(session.ID, session)
		return cloned(session), nil
	}
	return postrider.Session{}, fmt.Errorf("redeem code: %w", postrider.ErrNotFound)
}

// Sessions implements [store.Sessions].
func (s *Store) Sessions(_ context.Context, q store.SessionQuery) (store.Page[postrider.Session], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.sessions, q.Paging, q.ID, func(session postrider.Session) (postrider.Session, bool) {
		live := q.LiveAt.IsZero() || session.RevokedAt.IsZero() && session.ExpiresAt.After(q.LiveAt)
		return cloned(session), live && within(q.Span, session.CreatedAt) && selects(q.Hash, session.Hash) && selects(q.Code, session.Code) &&
			selects(q.Kind, session.Kind) && selects(q.Account, session.Account)
	})
}

// RevokeSession implements [store.Sessions].
func (s *Store) RevokeSession(_ context.Context, id postrider.SessionID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.sessions.get(id); !there {
		return fmt.Errorf("revoke session %s: %w", id, postrider.ErrNotFound)
	}
	s.endSessionsLocked(func(session postrider.Session) bool { return session.ID == id })
	return nil
}

// endSessionsLocked revokes the sessions that match and are not revoked.
func (s *Store) endSessionsLocked(match func(postrider.Session) bool) {
	for i, session := range s.sessions.rows {
		if match(session) && session.RevokedAt.IsZero() {
			s.sessions.rows[i].RevokedAt = s.wall()
		}
	}
}

// TouchSession implements [store.Sessions].
func (s *Store) TouchSession(_ context.Context, id postrider.SessionID, at time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, there := s.sessions.get(id)
	if !there {
		return fmt.Errorf("touch session %s: %w", id, postrider.ErrNotFound)
	}
	if at = stored(at); at.After(session.LastSeenAt) {
		session.LastSeenAt = at
	}
	s.sessions.put(id, session)
	return nil
}

// AppendAudit implements [store.Audit].
func (s *Store) AppendAudit(_ context.Context, e postrider.AuditEntry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.audit.get(e.ID); !there {
		e.At, e.Details = e.ID.Time(), maps.Clone(e.Details)
		s.audit.put(e.ID, e)
	}
	return nil
}

// AuditEntries implements [store.Audit].
func (s *Store) AuditEntries(_ context.Context, q store.AuditQuery) (store.Page[postrider.AuditEntry], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.audit, q.Paging, postrider.AuditID{}, func(e postrider.AuditEntry) (postrider.AuditEntry, bool) {
		e.Details = maps.Clone(e.Details)
		return e, within(q.Span, e.At) && selects(q.Account, e.Account) && selects(q.Key, e.Key) && selects(q.Session, e.Session) &&
			selects(q.Action, e.Action) && selects(q.ObjectID, e.ObjectID)
	})
}

// PutPortal implements [store.PortalSettings].
func (s *Store) PutPortal(_ context.Context, p postrider.Portal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.Logo, p.UpdatedAt = s.portal.Logo, s.wall()
	p.FrameOrigins, p.Options = slices.Clone(p.FrameOrigins), slices.Clone(p.Options)
	s.portal = p
	return nil
}

// Portal implements [store.PortalSettings].
func (s *Store) Portal(context.Context) (postrider.Portal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.portal
	p.FrameOrigins, p.Options = slices.Clone(p.FrameOrigins), slices.Clone(p.Options)
	return p, nil
}

// PutLogo implements [store.PortalSettings].
func (s *Store) PutLogo(_ context.Context, png []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logo, s.portal.Logo = nil, [32]byte{}
	if len(png) > 0 {
		s.logo, s.portal.Logo = slices.Clone(png), sha256.Sum256(png)
	}
	s.portal.UpdatedAt = s.wall()
	return nil
}

// Logo implements [store.PortalSettings].
func (s *Store) Logo(context.Context) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.logo == nil {
		return nil, fmt.Errorf("read logo: %w", postrider.ErrNotFound)
	}
	return slices.Clone(s.logo), nil
}
