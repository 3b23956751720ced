package memory

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Events implements [store.Ledger].
func (s *Store) Events(_ context.Context, q store.EventQuery) (store.Page[postrider.Event], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.events, q.Paging, q.ID, func(e *event) (postrider.Event, bool) {
		item := *e.Event
		item.Data, item.About.Previous = bytes.Clone(e.Data), bytes.Clone(e.About.Previous)
		if q.ID.IsZero() && !q.Whole {
			store.Shorten(&item)
		}
		owner, remembered := s.keyOwners[store.Key{Account: e.Account, Key: q.IdempotencyKey}]
		byKey := q.IdempotencyKey == "" || remembered && owner.Event == e.ID
		return item, byKey && selects(q.Account, e.Account) && selects(q.Type, e.Type) && selects(q.OrderingKey, e.OrderingKey) &&
			within(q.Span, e.ID.Time())
	})
}

// readLocked returns the delivery as people see it.
func (s *Store) readLocked(d *delivery) postrider.Delivery {
	read := postrider.Delivery{
		ID: d.id, Event: d.event.ID, Endpoint: d.endpoint, Account: d.event.Account, EventType: d.event.Type,
		Status: d.status, Reason: d.reason, Attempts: d.requests(), FinishedAt: d.finishedAt, ReplayedFrom: d.replayedFrom,
		ReplayJob: d.replayJob,
	}
	read.LastStatusCode, read.LastError = d.last()
	if d.status != postrider.Pending {
		return read
	}
	read.Suspected, read.Parked = d.lane == postrider.LaneSuspect, d.parked
	if d.at >= 0 && d.token == 0 {
		read.NextAttemptAt = s.clock.Shown(d.due)
	}
	read.Waiting = s.waitFactsLocked(d).Waiting(d.id, s.wall())
	return read
}

// waitFactsLocked returns the facts that decide why the delivery waits.
func (s *Store) waitFactsLocked(d *delivery) postrider.WaitFacts {
	f := postrider.WaitFacts{Leased: d.token != 0, Suspected: d.lane == postrider.LaneSuspect, Parked: d.parked, Held: s.hold.Held()}
	if d.at >= 0 {
		f.DueAt = s.clock.Shown(d.due)
	}
	if e, ok := s.endpoints.get(d.endpoint); ok {
		f.Endpoint, f.Signs = e.Status, len(e.active(s.wall())) > 0
		f.PolicyUnreadable = e.read().PolicyError != ""
		c := s.clock.ShownCircuit(e.circuit)
		f.Circuit, f.ProbeAt, f.PacedUntil = c.Status, c.ProbeAt, c.PacedUntil
	}
	if d.ordered != "" {
		k := s.keyQueueOf(d)
		f.Head = k.positions[0].id
		if k.pausedBy != nil {
			f.PausedBy = k.pausedBy.id
		}
	}
	return f
}

// requests counts the attempts that left or may have left. An attempt under way is counted after
// it is settled.
func (d *delivery) requests() int {
	i, found := d.find(d.claims)
	decided := found && d.attempts[i].Outcome == postrider.OutcomeNone && !d.attempts[i].Stale
	if d.claims > 0 && (decided || d.token != 0) {
		return d.claims - 1
	}
	return d.claims
}

// last returns the status code of the last attempt that got a response, and the error of the last
// attempt.
func (d *delivery) last() (code int, text string) {
	for _, a := range d.attempts {
		if a.Outcome != postrider.OutcomeNone {
			code, text = cmp.Or(a.StatusCode, code), a.Error
		}
	}
	return code, text
}

// Deliveries implements [store.Ledger].
func (s *Store) Deliveries(_ context.Context, q store.DeliveryQuery) (store.Page[postrider.Delivery], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := &s.deliveries
	if e, ok := s.events.get(q.Event); ok {
		rows = &e.deliveries
	}
	return list(rows, q.Paging, q.ID, func(d *delivery) (postrider.Delivery, bool) {
		matches := selects(q.Account, d.event.Account) && selects(q.Event, d.event.ID) && selects(q.Endpoint, d.endpoint) &&
			selects(q.EventType, d.event.Type) && selects(q.Status, d.status) && selects(q.ReplayJob, d.replayJob) &&
			within(q.Span, d.id.Time())
		if !matches || q.Last && d.replayedSince() {
			return postrider.Delivery{}, false
		}
		return s.readLocked(d), true
	})
}

// Attempts implements [store.Ledger].
func (s *Store) Attempts(_ context.Context, q store.AttemptQuery) (store.Page[postrider.Attempt], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after, number, err := store.AttemptsAfter(q.Paging)
	if err != nil {
		return store.Page[postrider.Attempt]{}, err
	}
	var of []*delivery
	if d, ok := s.deliveries.get(q.Delivery); ok {
		of = []*delivery{d}
	} else if e, ok := s.events.get(q.Event); ok && q.Delivery.IsZero() {
		of = e.deliveries.rows
	} else if q.Delivery.IsZero() { // the event is deleted
		of = s.deliveries.rows
	}
	var attempts []postrider.Attempt
	for _, d := range slices.Backward(of) {
		if !selects(q.Account, d.event.Account) || !selects(q.Event, d.event.ID) {
			continue
		}
		for _, a := range d.attempts {
			// The newest delivery comes first.
			if order := after.Compare(a.Delivery); order > 0 || order == 0 && a.Number > number {
				attempts = append(attempts, shown(a, q))
			}
		}
	}
	return store.Cut(attempts, q.Paging, store.AttemptKey), nil
}

// shown returns an attempt with the fields that the query returns.
func shown(a postrider.Attempt, q store.AttemptQuery) postrider.Attempt {
	if q.Delivery.IsZero() {
		a.RequestHead, a.ResponseHead, a.ResponseBody = nil, nil, nil
	}
	return own(a)
}

// DeadLetters implements [store.Ledger].
func (s *Store) DeadLetters(_ context.Context, q store.DeadLetterQuery) (store.Page[postrider.DeadLetter], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.deliveries, q.Paging, q.Delivery, func(d *delivery) (postrider.DeadLetter, bool) {
		if d.deadLetter == nil {
			return postrider.DeadLetter{}, false
		}
		l := *d.deadLetter
		resolved := l.Resolution != "" && (q.ResolvedFrom.IsZero() || l.ResolvedAt.Before(q.ResolvedFrom))
		return l, selects(q.Account, l.Account) && selects(q.Endpoint, l.Endpoint) && selects(q.Event, l.Event) &&
			selects(q.EventType, l.EventType) && selects(q.Reason, l.Reason) &&
			(q.Resolved || !resolved) && within(q.Span, l.Delivery.Time())
	})
}

// findLocked returns a delivery of the account, or ErrNotFound. The zero account stands for any.
func (s *Store) findLocked(account postrider.AccountID, id postrider.DeliveryID) (*delivery, error) {
	d, ok := s.deliveries.get(id)
	if !ok || !selects(account, d.event.Account) {
		return nil, postrider.ErrNotFound
	}
	return d, nil
}

// Replay implements [store.Ledger].
func (s *Store) Replay(_ context.Context, r store.Replay) (postrider.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, err := s.replayableLocked(r)
	if err != nil {
		return postrider.Delivery{}, fmt.Errorf("replay delivery %s: %w", r.Delivery, err)
	}
	d := old.replay(r.ID, s.now(), r.Expiry)
	s.addLocked(d)
	if !s.replaceLocked(old, d) {
		s.laneOf(d).push(d)
	}
	old.resolveReplayed(r.By, d)
	return s.readLocked(d), nil
}

// replay returns a new delivery of the old one. It is due now, and in no lane yet.
func (d *delivery) replay(id postrider.DeliveryID, now time.Time, expiry time.Duration) *delivery {
	return &delivery{
		id: id, event: d.event, endpoint: d.endpoint, lane: postrider.LaneBulk, status: postrider.Pending,
		due: now, expires: now.Add(expiry), replayedFrom: d.id, at: -1,
	}
}

// resolveReplayed resolves the delivery's dead letter, if there is one.
func (d *delivery) resolveReplayed(by string, replay *delivery) {
	if d.deadLetter != nil {
		d.deadLetter.ResolvedAt, d.deadLetter.Resolution = replay.due, postrider.Replayed
		d.deadLetter.ResolvedBy, d.deadLetter.Replay = by, replay.id
	}
}

// replayedSince reports whether the event was replayed later to the delivery's endpoint.
func (d *delivery) replayedSince() bool {
	return slices.ContainsFunc(d.event.deliveries.after(d.id), func(later *delivery) bool {
		return later.endpoint == d.endpoint && !later.replayedFrom.IsZero()
	})
}

func (s *Store) replayableLocked(r store.Replay) (*delivery, error) {
	d, err := s.findLocked(r.Account, r.Delivery)
	if err != nil {
		return nil, err
	}
	e, ok := s.endpoints.get(d.endpoint)
	switch {
	case d.status == postrider.Pending:
		return nil, fmt.Errorf("it is pending: %w", postrider.ErrConflict)
	case !ok || e.deleted():
		return nil, fmt.Errorf("endpoint %s is deleted: %w", d.endpoint, postrider.ErrConflict)
	case d.event.Data == nil:
		return nil, postrider.ErrGone
	case d.deadLetter == nil:
		return d, nil
	case d.deadLetter.Resolution == postrider.Discarded:
		return nil, store.ErrDiscarded
	}
	if replay, made := s.deliveries.get(d.deadLetter.Replay); made && replay.status == postrider.Pending {
		return nil, &store.ReplayPendingError{Replay: replay.id}
	}
	return d, nil
}

// Cancel implements [store.Ledger].
func (s *Store) Cancel(_ context.Context, c store.Cancel) (postrider.Delivery, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.findLocked(c.Account, c.Delivery)
	if err == nil && d.status != postrider.Pending {
		err = fmt.Errorf("it is %s: %w", d.status, postrider.ErrConflict)
	}
	if err != nil {
		return postrider.Delivery{}, fmt.Errorf("cancel delivery %s: %w", c.Delivery, err)
	}
	s.cancelLocked(d, postrider.ReasonCancelled, s.now())
	return s.readLocked(d), nil
}

func (s *Store) cancelLocked(d *delivery, reason string, now time.Time) {
	s.endLocked(d)
	d.decide(postrider.Cancelled, reason, now)
	s.advanceLocked(d, now)
}

// Discard implements [store.Ledger].
func (s *Store) Discard(_ context.Context, q store.Discard) (postrider.DeadLetter, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, err := s.findLocked(q.Account, q.Delivery)
	switch {
	case err != nil:
	case d.deadLetter == nil:
		err = postrider.ErrNotFound
	case d.deadLetter.Resolution != "":
		err = fmt.Errorf("it is %s: %w", d.deadLetter.Resolution, postrider.ErrConflict)
	}
	if err != nil {
		return postrider.DeadLetter{}, fmt.Errorf("discard dead letter %s: %w", q.Delivery, err)
	}
	s.discardLocked(d, q.By, q.Note, s.now())
	return *d.deadLetter, nil
}

func (s *Store) discardLocked(d *delivery, by, note string, now time.Time) {
	d.deadLetter.ResolvedAt, d.deadLetter.Resolution = now, postrider.Discarded
	d.deadLetter.ResolvedBy, d.deadLetter.Note = by, note
	s.resumeLocked(d, now)
}
