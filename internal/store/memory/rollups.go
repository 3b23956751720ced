package memory

import (
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// rollups has the deltas and the rollups of the store. A fold changes the rollups of every step
// at once, so RollUp has nothing to do.
type rollups struct {
	deltas map[delta]*postrider.Counts // counts that are not folded yet
	rows   map[store.Scope]map[store.RollupKey]*store.RollupValue
	wall   func() time.Time
}

// delta identifies the delta of an endpoint, a type and a minute. A durable store has a delta for
// each transaction; this store has one for all transactions of a minute.
type delta struct {
	store.DeltaKey
	minute int64 // Unix time
}

// record counts an attempt or the end of the delivery.
func (r *rollups) record(d *delivery, outcome postrider.Outcome, number int, after postrider.Status) {
	of := delta{
		store.DeltaKey{Account: d.event.Account, Endpoint: d.endpoint, Type: d.event.Type},
		r.wall().Truncate(time.Minute).Unix(),
	}
	if r.deltas[of] == nil {
		r.deltas[of] = &postrider.Counts{}
	}
	r.deltas[of].Record(outcome, number, after)
}

// FoldRollups implements [store.Rollups].
func (s *Store) FoldRollups(_ context.Context, f store.Fold) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(f.Seen)
	folded := 0
	for of, counts := range s.rollups.deltas {
		if folded == f.Deltas {
			break
		}
		folded++
		delete(s.rollups.deltas, of)
		all = append(all, store.Seen{DeltaKey: of.DeltaKey, At: time.Unix(of.minute, 0), RollupValue: store.RollupValue{Counts: *counts}})
	}
	slices.SortStableFunc(all, func(a, b store.Seen) int {
		return keyOf(store.Scope{}, a.Type, store.Minutes, a.At).Compare(keyOf(store.Scope{}, b.Type, store.Minutes, b.At))
	})
	for i := range all {
		if err := s.rollups.fold(&all[i]); err != nil {
			return 0, err
		}
	}
	return folded, nil
}

// keyOf returns the key of the rollup that contains the time.
func keyOf(scope store.Scope, eventType string, step store.Step, at time.Time) store.RollupKey {
	return store.RollupKey{Scope: scope, Type: eventType, Step: step, At: at.UTC().Truncate(step.Duration()).Unix()}
}

// fold adds the values to the rollups of the whole store, of the account and of the endpoint.
func (r *rollups) fold(seen *store.Seen) error {
	for scope, most := range map[store.Scope]int{
		{}: store.MaxAllTypes, store.Scope(seen.Account): store.MaxAllTypes, store.Scope(seen.Endpoint): store.MaxTypes,
	} {
		if r.rows[scope] == nil {
			r.rows[scope] = map[store.RollupKey]*store.RollupValue{}
		}
		for _, eventType := range []string{"", r.typeOf(scope, seen.Type, most)} {
			for _, step := range []store.Step{store.Minutes, store.Hours, store.Days} {
				key := keyOf(scope, eventType, step, seen.At)
				if r.rows[scope][key] == nil {
					r.rows[scope][key] = &store.RollupValue{}
				}
				if err := r.rows[scope][key].Merge(&seen.RollupValue); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// typeOf returns the type under which the scope counts events of eventType. It is eventType, or
// [store.OtherTypes] if eventType is new and the scope has most types already.
func (r *rollups) typeOf(scope store.Scope, eventType string, most int) string {
	known := map[string]bool{}
	for key := range r.rows[scope] {
		if key.Type != "" {
			known[key.Type] = true
		}
	}
	if known[eventType] || len(known) < most {
		return eventType
	}
	return store.OtherTypes
}

// RollUp implements [store.Rollups].
func (s *Store) RollUp(context.Context, int) (int, error) { return 0, nil }

// ForgetRollups implements [store.Rollups].
func (s *Store) ForgetRollups(_ context.Context, limit int) (forgotten int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.wall()
	for _, rows := range s.rollups.rows {
		for key := range rows {
			if forgotten < limit && key.Time().Before(now.Add(-key.Step.Kept())) {
				delete(rows, key)
				forgotten++
			}
		}
	}
	return forgotten, nil
}

// Rollups implements [store.Rollups].
func (s *Store) Rollups(_ context.Context, q store.RollupQuery) ([]store.Rollup, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := q.Key()
	var rows []store.RollupRow
	for key, value := range s.rollups.rows[of.Scope] {
		at := key.Time()
		if key.Type == of.Type && key.Step == of.Step && !at.Before(q.From) && at.Before(q.To) {
			rows = append(rows, store.RollupRow{RollupKey: key, RollupValue: *value})
		}
	}
	return store.JoinRollups(q, rows)
}

// Backlog implements [store.Rollups].
func (s *Store) Backlog(_ context.Context, q store.BacklogQuery) (store.Backlog, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b store.Backlog
	now, waiting := s.now(), map[postrider.EndpointID]bool{}
	for _, d := range s.deliveries.rows {
		if !selects(q.Endpoint, d.endpoint) || q.Endpoint.IsZero() && !selects(q.Account, d.event.Account) {
			continue
		}
		if d.deadLetter != nil && d.deadLetter.Resolution == "" {
			b.DeadLetters = min(b.DeadLetters+1, q.Stop())
		}
		if d.status != postrider.Pending {
			continue
		}
		b.Pending, waiting[d.endpoint] = min(b.Pending+1, q.Stop()), true
		if d.at >= 0 && !d.due.After(now) {
			b.IsDue, b.DueFor = true, max(b.DueFor, now.Sub(d.due))
		}
	}
	looked := len(waiting)
	if !q.Account.IsZero() {
		looked = 0
		for _, e := range s.endpoints.rows {
			if e.Account == q.Account && !e.deleted() {
				looked++
			}
		}
	}
	b.Partial = q.Endpoint.IsZero() && looked > store.MaxLooked
	return b, nil
}

// ended counts the deliveries of an endpoint that ended in the minutes since the given time.
func (r *rollups) ended(e postrider.EndpointID, since time.Time) (delivered, dead int64) {
	for key, value := range r.rows[store.Scope(e)] {
		if key.Type == "" && key.Step == store.Minutes && !key.Time().Before(since) {
			delivered += value.Status(postrider.Delivered)
			dead += value.Status(postrider.Dead)
		}
	}
	return delivered, dead
}

// EndpointStates implements [store.Rollups].
func (s *Store) EndpointStates(_ context.Context, ids ...postrider.EndpointID) (states []store.EndpointState, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		state := store.EndpointState{Endpoint: id}
		if e, ok := s.endpoints.get(id); ok {
			state.Health, state.Circuit = e.health(), e.circuit
		}
		for _, d := range s.deliveries.rows {
			if d.endpoint == id && d.status == postrider.Pending {
				state.Pending = min(state.Pending+1, store.MaxPending)
				if d.at >= 0 && !d.due.After(s.now()) {
					state.DueFor = max(state.DueFor, s.now().Sub(d.due))
				}
			}
		}
		state.Delivered, state.Dead = s.rollups.ended(id, store.DayBefore(s.wall()))
		states = append(states, state)
	}
	return states, nil
}
