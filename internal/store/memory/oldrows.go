package memory

import (
	"context"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// OldRows implements [store.Retention].
func (s *Store) OldRows(_ context.Context, q store.OldRows) ([]store.OldRow, store.RowID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var found []store.ExaminedRow
	var last store.RowID
	examined := 0
	examine := func(id store.RowID, number int, key string, goes bool) {
		if id != last {
			last, examined = id, examined+1
		}
		if examined <= q.Limit {
			row := store.OldRow{ID: id, Number: number, Key: store.Key{Account: q.Account, Key: key}}
			found = append(found, store.ExaminedRow{OldRow: row, Goes: goes})
		}
	}
	if q.Kind == store.OldAttempts || q.Kind == store.OldBodies {
		for _, d := range s.deliveries.after(postrider.DeliveryID(q.After)) {
			for _, a := range d.attempts {
				if d.event.Account == q.Account && d.id.Time().Before(q.Before) {
					examine(store.RowID(d.id), a.Number, "", hasBodies(a) == (q.Kind == store.OldBodies))
				}
			}
		}
	} else {
		if q.Kind == store.OldEvents {
			q.Before = s.eventsBeforeLocked(q.Before)
		}
		for _, e := range s.events.after(postrider.EventID(q.After)) {
			owner, remembered := s.keyOwners[store.Key{Account: e.Account, Key: e.IdempotencyKey}]
			goes := !s.isNeededLocked(e)
			if q.Kind == store.OldKeys {
				goes = remembered && owner.Event == e.ID
			}
			if e.Account == q.Account && e.ID.Time().Before(q.Before) {
				examine(store.RowID(e.ID), 0, e.IdempotencyKey, goes)
			}
		}
	}
	rows, end := q.Examined(found)
	return rows, end, nil
}

// DeleteRows implements [store.Retention].
func (s *Store) DeleteRows(_ context.Context, kind store.Kind, rows []store.OldRow) (deleted int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rows {
		if s.deleteRowLocked(kind, r) {
			deleted++
			s.countRemovedLocked(kind, r.ID)
		}
	}
	return deleted, nil
}

// deleteRowLocked deletes a row, and reports whether it was there and could go.
func (s *Store) deleteRowLocked(kind store.Kind, r store.OldRow) bool {
	if kind == store.OldKeys {
		owner, ok := s.keyOwners[r.Key]
		if ok = ok && owner.Event == postrider.EventID(r.ID); ok {
			delete(s.keyOwners, r.Key)
		}
		return ok
	}
	if kind == store.OldEvents {
		e, ok := s.events.get(postrider.EventID(r.ID))
		if ok = ok && !s.isNeededLocked(e); ok {
			s.forgetEventLocked(e)
		}
		return ok
	}
	d, ok := s.deliveries.get(postrider.DeliveryID(r.ID))
	if !ok {
		return false
	}
	i := slices.IndexFunc(d.attempts, func(a postrider.Attempt) bool { return a.Number == r.Number })
	switch {
	case i < 0 || kind == store.OldBodies && !hasBodies(d.attempts[i]):
		return false
	case kind == store.OldBodies:
		d.attempts[i] = forgottenBodies(d.attempts[i])
	default:
		s.keepAttemptsLocked(d, slices.Delete(d.attempts, i, i+1))
	}
	return true
}
