package memory

import (
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider"
)

// queuedLocked returns up to limit pending deliveries that match, oldest first, including the
// blocked and the parked ones.
func (s *Store) queuedLocked(limit int, matches func(*delivery) bool) (found []*delivery) {
	look := func(d *delivery) {
		if matches(d) {
			found = append(found, d)
		}
	}
	for _, l := range s.lanes {
		for _, d := range *l {
			look(d)
		}
	}
	for _, k := range s.keyQueues {
		for _, d := range k.blocked() {
			look(d)
		}
	}
	for d := range s.parked {
		look(d)
	}
	slices.SortFunc(found, func(a, b *delivery) int { return a.id.Compare(b.id) })
	return found[:min(limit, len(found))]
}

// Expire implements [store.Upkeep].
func (s *Store) Expire(_ context.Context, limit int) (n, lost int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	expired := s.queuedLocked(limit, func(d *delivery) bool { return !d.leased(now) && !d.expires.After(now) })
	for _, d := range expired {
		if d.token != 0 {
			d.lose(now)
			lost++
		}
		s.endLocked(d)
		d.count(postrider.OutcomeNone, 0, postrider.Dead)
		d.die(postrider.ReasonExpired, now)
		s.advanceLocked(d, now)
	}
	return len(expired), lost, nil
}

// DeleteEndpoints implements [store.Upkeep].
func (s *Store) DeleteEndpoints(_ context.Context, limit int) (deleted int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints.rows {
		account, ok := s.accounts.get(e.Account)
		if deleted == limit || e.deleted() || !ok || account.DeletedAt.IsZero() {
			continue
		}
		e.Status, e.StatusReason = postrider.EndpointDeleted, ""
		e.Revision++
		e.UpdatedAt = s.wall()
		e.StatusSince = e.UpdatedAt
		s.changeLocked(e)
		deleted++
	}
	return deleted, nil
}

// CancelDeleted implements [store.Upkeep].
func (s *Store) CancelDeleted(_ context.Context, limit int) (cancelled, lost int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	deleted := func(id postrider.EndpointID) bool {
		e, ok := s.endpoints.get(id)
		return ok && e.deleted()
	}
	for key, k := range s.keyQueues {
		if deleted(key.endpoint) {
			k.pausedBy = nil
		}
	}
	orphans := s.queuedLocked(limit, func(d *delivery) bool { return !d.leased(now) && deleted(d.endpoint) })
	for _, d := range orphans {
		if d.token != 0 {
			d.lose(now)
			lost++
		}
		s.cancelLocked(d, postrider.ReasonEndpointDeleted, now)
	}
	return len(orphans), lost, nil
}

// ForgetKeys implements [store.Upkeep].
func (s *Store) ForgetKeys(_ context.Context, age time.Duration, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.now().Add(-age)
	forgotten := 0
	for key, owner := range s.keyOwners {
		if forgotten < limit && owner.at.Before(before) {
			delete(s.keyOwners, key)
			forgotten++
		}
	}
	return forgotten, nil
}

// MakePartitions does nothing, because memory has no partitions.
func (s *Store) MakePartitions(context.Context) error { return nil }

// CheckTables does nothing, because memory has no tables.
func (s *Store) CheckTables(context.Context) error { return nil }

// ProbeWrite does nothing, because memory can always be written.
func (s *Store) ProbeWrite(context.Context, int) error { return nil }

// Now implements [store.Time].
func (s *Store) Now(context.Context) (time.Time, error) { return s.wall(), nil }
