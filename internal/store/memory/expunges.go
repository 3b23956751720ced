package memory

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// PutExpunge implements [store.Expunges].
func (s *Store) PutExpunge(_ context.Context, e postrider.Expunge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, repeated := s.expunges.get(e.ID); !repeated {
		s.expunges.put(e.ID, e)
	}
	return nil
}

// Expunges implements [store.Expunges].
func (s *Store) Expunges(_ context.Context, q store.ExpungeQuery) (store.Page[postrider.Expunge], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.expunges, q.Paging, q.ID, func(e postrider.Expunge) (postrider.Expunge, bool) {
		return e, !q.Running || e.EndedAt.IsZero()
	})
}

// ExpungeRows implements [store.Expunges].
func (s *Store) ExpungeRows(_ context.Context, r store.ExpungeRows) (postrider.Expunge, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.expunges.get(r.ID)
	switch {
	case !ok:
		return e, fmt.Errorf("expunge %s: %w", r.ID, postrider.ErrNotFound)
	case !e.EndedAt.IsZero():
		return e, nil
	}
	removed, left := s.expungeHistoryLocked(&e, r.Limit)
	if removed.Total() == 0 && e.Event.IsZero() {
		removed.Subscriptions, removed.Other = s.expungeSubscriptionsLocked(e), s.expungeRestLocked(e)
	}
	if removed.Total() == 0 {
		removed.Other = s.expungeKeysLocked(e)
	}
	e.Found(removed, left, stored(s.wall()), r.Settled)
	s.expunges.put(r.ID, e)
	return e, nil
}

// NoteExpunge implements [store.Expunges].
func (s *Store) NoteExpunge(_ context.Context, e postrider.Expunge) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, ok := s.expunges.get(e.ID)
	if ok && was.EndedAt.IsZero() && was.EmptySince.Equal(e.EmptySince) {
		was.Archive = e.Archive
		s.expunges.put(e.ID, was)
	}
	return nil
}

// NoteOutbox implements [store.Expunges].
func (s *Store) NoteOutbox(_ context.Context, id postrider.ExpungeID, o postrider.ExpungeOutbox) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if was, ok := s.expunges.get(id); ok && was.EndedAt.IsZero() {
		o.Removed += was.Outbox.Removed
		o.UID = cmp.Or(o.UID, was.Outbox.UID)
		was.Outbox = o
		s.expunges.put(id, was)
	}
	return nil
}

// Scrub does nothing: memory has no files.
func (s *Store) Scrub(context.Context) error { return nil }

// ReplaceArchivePart implements [store.Archive].
func (s *Store) ReplaceArchivePart(_ context.Context, r store.ReplaceArchivePart) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r.With.MadeAt = stored(r.With.MadeAt)
	err := s.changeDayLocked(r.Part.Kind, r.Part.Day, func(d *store.ArchiveDay) error { return d.Replace(r) })
	if err != nil {
		return err
	}
	if e, ok := s.expunges.get(r.Expunge); ok {
		e.Removed.Archived += int(r.Fewer)
		s.expunges.put(r.Expunge, e)
	}
	return nil
}

// countRemovedLocked counts a row that an expunge, DeleteRows or a DeleteOld without an archive removes.
func (s *Store) countRemovedLocked(kind store.Kind, id store.RowID) {
	_ = s.changeDayLocked(kind, store.DayOf(id.Time()), func(d *store.ArchiveDay) error {
		d.Removed(id)
		return nil
	})
}

// expungeHistoryLocked removes up to limit deliveries that have ended, then as many events,
// and reports whether something is left that the caller must end.
func (s *Store) expungeHistoryLocked(e *postrider.Expunge, limit int) (removed postrider.ExpungeCounts, left bool) {
	about := func(d *delivery) bool {
		return selects(e.Event, d.event.ID) && selects(e.Endpoint, d.endpoint) && d.event.Account == e.Account
	}
	for _, d := range slices.Clone(s.deliveries.rows) {
		if !about(d) {
			continue
		}
		unresolved := d.deadLetter != nil && d.deadLetter.Resolution == "" && !e.Event.IsZero()
		if d.status == postrider.Pending || unresolved {
			left = true
			continue
		}
		if removed.Total() >= limit {
			return removed, true
		}
		removed.Attempts += len(d.attempts)
		for _, a := range d.attempts {
			s.countRemovedLocked(store.OldAttempts, store.RowID(d.id))
			if sizeOfBodies(forgottenBodies(a)) != sizeOfBodies(a) {
				s.countRemovedLocked(store.OldBodies, store.RowID(d.id))
			}
		}
		if d.deadLetter != nil {
			removed.DeadLetters++
		}
		if d.ordered != "" && s.keyQueueOf(d).pausedBy == d {
			s.keyQueueOf(d).pausedBy = nil
		}
		s.removeLocked(d)
	}
	for _, at := range slices.Clone(s.inspections.rows) {
		if selects(e.Event, at.Event) && (e.Event == at.Event || s.expungesEndpointLocked(*e, at.Endpoint)) {
			s.inspections.remove(at.ID)
			removed.Other++
		}
	}
	for key, r := range s.restored {
		if r.Account == e.Account && selects(e.Event, r.Event) && selects(e.Endpoint, r.Endpoint) {
			delete(s.restored, key)
			removed.Other++
		}
	}
	if w, ok := s.whatIfs[e.Account]; ok && selects(e.Endpoint, w.Endpoint) {
		delete(s.whatIfs, e.Account)
		removed.Other++
	}
	if !e.Endpoint.IsZero() && e.Event.IsZero() {
		return removed, left
	}
	for _, ev := range slices.Clone(s.events.rows) {
		if ev.Account == e.Account && selects(e.Event, ev.ID) && removed.Total() < limit {
			s.expungeEventLocked(e, ev)
			removed.Events, removed.Terms = removed.Events+1, removed.Terms+len(ev.terms)
		}
	}
	return removed, left
}

// expungesEndpointLocked reports whether the expunge removes the endpoint.
func (s *Store) expungesEndpointLocked(e postrider.Expunge, id postrider.EndpointID) bool {
	endpoint, ok := s.endpoints.get(id)
	return ok && e.Event.IsZero() && endpoint.Account == e.Account && selects(e.Endpoint, id)
}

func (s *Store) expungeEventLocked(e *postrider.Expunge, ev *event) {
	e.Digest.Add(ev.ID, ev.Data)
	for key, owner := range s.keyOwners {
		if owner.Event == ev.ID {
			delete(s.keyOwners, key)
		}
	}
	if e.Event.IsZero() {
		delete(s.sequences, orderingKey{ev.Account, ev.OrderingKey})
		delete(s.outboxRows, ev.Row)
	}
	s.fanOuts.remove(ev.ID)
	s.events.remove(ev.ID)
	s.countRemovedLocked(store.OldEvents, store.RowID(ev.ID))
	gone := *ev.Event // claims share the old one
	gone.Data, gone.About, gone.Endpoints = nil, postrider.About{}, nil
	ev.Event = &gone
}

// expungeRestLocked removes what is stored of deleted endpoints and of the account, and counts
// the rows that were not empty.
func (s *Store) expungeRestLocked(e postrider.Expunge) (removed int) {
	for _, endpoint := range s.endpoints.rows {
		if !s.expungesEndpointLocked(e, endpoint.ID) || !endpoint.deleted() || endpoint.Description == "" && endpoint.expunged() {
			continue
		}
		removed += 1 + len(endpoint.secrets) + len(endpoint.history)
		endpoint.secrets, endpoint.history, endpoint.circuit = nil, nil, postrider.Circuit{}
		endpoint.UID, endpoint.Description, endpoint.StatusReason, endpoint.EventTypes, endpoint.Metadata = "", "", "", nil, nil
		endpoint.Policy, endpoint.document = postrider.DefaultPolicy(), nil
		if endpoint.Kind == postrider.KindHTTP {
			endpoint.URL = postrider.ExpungedURL
		}
		s.rollups.remove([16]byte(endpoint.ID))
		removed += s.expungeNoticesLocked(func(n postrider.Notice) bool { return n.Object == endpoint.ID.String() })
	}
	a, _ := s.accounts.get(e.Account)
	if !e.Endpoint.IsZero() || a.DeletedAt.IsZero() {
		return removed
	}
	if a.Name != "" || a.UID != "" || a.Metadata != nil {
		a.Name, a.UID, a.Metadata = "", "", nil
		s.accounts.put(a.ID, a)
		removed++
	}
	for _, k := range s.keys.rows {
		if k.Account == a.ID && k.Name != "" {
			k.Name = ""
			s.keys.put(k.ID, k)
			removed++
		}
	}
	removed += s.expungeNoticesLocked(func(n postrider.Notice) bool { return n.Account == a.ID })
	delete(s.quotas, a.ID)
	delete(s.quotaUse, a.ID)
	for i, destination := range slices.Backward(s.destinations.rows) {
		if destination.Account == a.ID {
			s.destinations.remove(s.destinations.ids[i])
			removed++
		}
	}
	for _, session := range slices.Clone(s.sessions.rows) {
		if session.Account == a.ID {
			s.sessions.remove(session.ID)
			removed++
		}
	}
	for _, job := range slices.Clone(s.replayJobs.rows) {
		if job.Filter.Account == a.ID {
			s.replayJobs.remove(job.ID)
			removed++
		}
	}
	return removed + s.rollups.remove([16]byte(a.ID))
}

// expungeKeysLocked removes the idempotency keys of events that retention has deleted.
func (s *Store) expungeKeysLocked(e postrider.Expunge) (removed int) {
	for key, owner := range s.keyOwners {
		if owner.Event == e.Event || key.Account == e.Account && e.Event.IsZero() && e.Endpoint.IsZero() {
			delete(s.keyOwners, key)
			removed++
		}
	}
	return removed
}

func (s *Store) expungeNoticesLocked(about func(postrider.Notice) bool) (removed int) {
	for _, n := range slices.Clone(s.notices.rows) {
		if about(n) {
			s.notices.remove(n.ID)
			removed++
		}
	}
	return removed
}

func (e *endpoint) expunged() bool {
	return len(e.secrets)+len(e.history)+len(e.EventTypes) == 0 && (e.URL == postrider.ExpungedURL || e.Kind != postrider.KindHTTP)
}

// remove deletes the rollups of a scope, and counts them.
func (r *rollups) remove(scope store.Scope) (removed int) {
	for of := range r.deltas {
		if [16]byte(of.Endpoint) == scope || [16]byte(of.Account) == scope {
			delete(r.deltas, of)
		}
	}
	removed = len(r.rows[scope])
	delete(r.rows, scope)
	return removed
}
