package memory

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// DeleteOld implements [store.Retention].
func (s *Store) DeleteOld(_ context.Context, f store.DeleteOld) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.Kind {
	case store.OldEvents:
		return s.forgetEventsLocked(f), nil
	case store.OldAttempts:
		return s.forgetAttemptsLocked(f), nil
	case store.OldBodies:
		return s.forgetBodiesLocked(f), nil
	case store.OldDeadLetters:
		return removeWhere(s.deliveries.rows, f.Limit, func(d *delivery) bool {
			return d.deadLetter != nil && d.deadLetter.Resolution != "" && d.deadLetter.ResolvedAt.Before(f.Before)
		}, s.removeLocked), nil
	case store.OldReplayJobs:
		return removeWhere(s.replayJobs.rows, f.Limit, func(job *replayJob) bool {
			return !job.EndedAt.IsZero() && job.EndedAt.Before(f.Before)
		}, func(job *replayJob) { s.replayJobs.remove(job.ID) }), nil
	case store.OldHealth:
		return s.forgetHealthLocked(f), nil
	case store.OldSubscriptions:
		return s.forgetSubscriptionsLocked(f), nil
	case store.OldAudit:
		return removeWhere(s.audit.ids, f.Limit, func(id postrider.AuditID) bool { return id.Time().Before(f.Before) }, s.audit.remove), nil
	case store.OldNotices:
		return removeWhere(s.notices.rows, f.Limit, func(n postrider.Notice) bool { return n.CreatedAt.Before(f.Before) },
			func(n postrider.Notice) {
				s.notices.remove(n.ID)
				delete(s.noticed, noticeKeyOf(n))
			}), nil
	case store.OldSessions:
		return removeWhere(s.sessions.rows, f.Limit, func(session postrider.Session) bool { return session.ExpiresAt.Before(f.Before) },
			func(session postrider.Session) { s.sessions.remove(session.ID) }), nil
	case store.OldWhatIfs:
		return removeWhere(slices.Collect(maps.Values(s.whatIfs)), f.Limit, func(w whatIf) bool { return w.ChangedAt.Before(f.Before) },
			func(w whatIf) { delete(s.whatIfs, w.Account) }), nil
	case store.OldKeys: // ForgetKeys deletes the keys of all accounts
	}
	return 0, nil
}

// removeWhere calls remove for the first rows that match, up to limit, and counts them.
func removeWhere[R any](rows []R, limit int, matches func(R) bool, remove func(R)) (removed int) {
	for _, row := range slices.Clone(rows) {
		if removed < limit && matches(row) {
			remove(row)
			removed++
		}
	}
	return removed
}

// removeLocked removes a delivery that has ended.
func (s *Store) removeLocked(d *delivery) {
	s.deliveries.remove(d.id)
	d.event.deliveries.remove(d.id)
}

func (s *Store) forgetEventsLocked(f store.DeleteOld) int {
	before := s.eventsBeforeLocked(f.Before)
	may := s.deletableLocked(f)
	return removeWhere(s.events.rows, f.Limit, func(e *event) bool {
		return e.ID.Time().Before(before) && may.allows(store.RowID(e.ID)) && !s.isNeededLocked(e)
	}, func(e *event) {
		may.deleted(store.RowID(e.ID), 1)
		s.forgetEventLocked(e)
	})
}

// eventsBeforeLocked returns the time before which events are old. While a replay job runs, they
// stay for longer.
func (s *Store) eventsBeforeLocked(before time.Time) time.Time {
	running := func(job *replayJob) bool { return job.Status == postrider.ReplayRunning }
	if slices.ContainsFunc(s.replayJobs.rows, running) {
		return before.Add(-store.ReplayGrace)
	}
	return before
}

// isNeededLocked reports whether something needs the event.
func (s *Store) isNeededLocked(e *event) bool {
	_, fansOut := s.fanOuts.get(e.ID)
	return fansOut || slices.ContainsFunc(e.deliveries.rows, func(d *delivery) bool {
		return d.status == postrider.Pending || d.deadLetter != nil && d.deadLetter.Resolution == ""
	})
}

func (s *Store) forgetEventLocked(e *event) {
	s.events.remove(e.ID)
	gone := *e.Event // claims share the old one
	gone.Data, gone.About, gone.Endpoints = nil, postrider.About{}, nil
	e.Event = &gone
}

// forgetAttemptsLocked removes the attempts of old deliveries.
func (s *Store) forgetAttemptsLocked(f store.DeleteOld) int {
	may := s.deletableLocked(f)
	return removeWhere(s.deliveries.rows, f.Limit, func(d *delivery) bool {
		return d.id.Time().Before(f.Before) && len(d.attempts) > 0 && may.allows(store.RowID(d.id))
	}, func(d *delivery) {
		may.deleted(store.RowID(d.id), len(d.attempts))
		s.keepAttemptsLocked(d, nil)
	})
}

// keepAttemptsLocked leaves these of a delivery's attempts. The attempt that ended a delivery is
// all that is known of it, unless it is pending or has a dead letter.
func (s *Store) keepAttemptsLocked(d *delivery, attempts []postrider.Attempt) {
	d.attempts = attempts
	if len(attempts) == 0 && d.status != postrider.Pending && d.deadLetter == nil {
		s.removeLocked(d)
	}
}

// forgetBodiesLocked removes the heads and bodies of old attempts. The beginning of an
// accepted response stays: it is part of the attempt.
func (s *Store) forgetBodiesLocked(f store.DeleteOld) int {
	may := s.deletableLocked(f)
	return removeWhere(s.deliveries.rows, f.Limit, func(d *delivery) bool {
		return d.id.Time().Before(f.Before) && slices.ContainsFunc(d.attempts, hasBodies) && may.allows(store.RowID(d.id))
	}, func(d *delivery) {
		bodies := 0
		for i, a := range d.attempts {
			if hasBodies(a) {
				d.attempts[i] = forgottenBodies(a)
				bodies++
			}
		}
		may.deleted(store.RowID(d.id), bodies)
	})
}

func hasBodies(a postrider.Attempt) bool { return sizeOfBodies(forgottenBodies(a)) < sizeOfBodies(a) }

// forgottenBodies returns an attempt without its heads and its body, unless they are in the
// attempt's own row.
func forgottenBodies(a postrider.Attempt) postrider.Attempt {
	if store.InOneRow(&a) {
		return a
	}
	a.RequestHead, a.ResponseHead = nil, nil
	if a.Outcome == postrider.OutcomeAccepted {
		a.ResponseBody = a.ResponseBody[:min(len(a.ResponseBody), store.MaxAcceptedBody)]
	} else {
		a.ResponseBody = nil
	}
	return a
}

func sizeOfBodies(a postrider.Attempt) int {
	return len(a.RequestHead) + len(a.ResponseHead) + len(a.ResponseBody)
}

func (s *Store) forgetHealthLocked(f store.DeleteOld) (forgotten int) {
	for _, e := range s.endpoints.rows {
		for len(e.history) > 1 && forgotten < f.Limit && e.history[0].Since.Before(f.Before) {
			e.history = e.history[1:]
			forgotten++
		}
	}
	return forgotten
}

// ForgetOrderingKeys implements [store.Retention].
func (s *Store) ForgetOrderingKeys(_ context.Context, after store.OrderingKey, limit int) (last store.OrderingKey, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	compare := func(a, b orderingKey) int { return cmp.Or(cmp.Compare(a.key, b.key), a.account.Compare(b.account)) }
	examined := 0
	for _, key := range slices.SortedFunc(maps.Keys(s.sequences), compare) {
		if compare(key, orderingKey{after.Account, after.Key}) <= 0 {
			continue
		}
		if examined++; examined > limit {
			return last, nil
		}
		last = store.OrderingKey{Key: key.key, Account: key.account}
		if !slices.ContainsFunc(s.events.rows, func(e *event) bool { return e.Account == key.account && e.OrderingKey == key.key }) {
			delete(s.sequences, key)
		}
	}
	return store.OrderingKey{}, nil
}

// Shrink does nothing: there is no file.
func (s *Store) Shrink(context.Context, int) (int, error) { return 0, nil }
