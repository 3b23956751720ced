package memory

import (
	"context"
	"fmt"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// HealthHistory implements [store.Ledger].
func (s *Store) HealthHistory(_ context.Context, q store.HealthQuery) (store.Page[postrider.EndpointHealth], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	below, err := store.HealthBelow(q.Paging)
	if err != nil {
		return store.Page[postrider.EndpointHealth]{}, err
	}
	e, ok := s.endpoints.get(q.Endpoint)
	if !ok || !selects(q.Account, e.Account) {
		return store.Page[postrider.EndpointHealth]{}, nil
	}
	var history []postrider.EndpointHealth
	for _, health := range slices.Backward(e.history) {
		if health.Number < below {
			history = append(history, health)
		}
	}
	return store.Cut(history, q.Paging, store.HealthKey), nil
}

// health returns the last recorded health, or zero if there is none.
func (e *endpoint) health() (now postrider.EndpointHealth) {
	if len(e.history) > 0 {
		now = e.history[len(e.history)-1]
	}
	return now
}

// PutHealth implements [store.Health].
func (s *Store) PutHealth(_ context.Context, health postrider.EndpointHealth, notices ...postrider.Notice) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.endpoints.get(health.Endpoint)
	disables := health.Status == postrider.HealthDisabled
	var err error
	switch {
	case !ok || e.Account != health.Account:
		err = postrider.ErrNotFound
	case health.Number != e.health().Number+1:
		err = fmt.Errorf("number %d after %d: %w", health.Number, e.health().Number, postrider.ErrConflict)
	case disables && !health.Disables(e.Status):
		err = fmt.Errorf("it is %s: %w", e.Status, postrider.ErrConflict)
	}
	if err != nil {
		return fmt.Errorf("put health of endpoint %s: %w", health.Endpoint, err)
	}
	health.Since = stored(health.Since)
	e.history = append(e.history, health)
	s.putNoticesLocked(notices)
	if disables {
		e.Status, e.StatusReason = postrider.EndpointDisabled, health.Reason
		e.Revision++
		e.UpdatedAt = s.wall()
		e.StatusSince = e.UpdatedAt
		s.changeLocked(e)
	}
	return nil
}

// HealthInputs implements [store.Health].
func (s *Store) HealthInputs(_ context.Context, after postrider.EndpointID, limit int) (inputs []postrider.HealthInput, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.wall()
	for _, e := range s.endpoints.after(after) {
		health := e.health()
		_, recent := s.rollups.ended(e.ID, now.Add(-postrider.HealthSpan))
		bad := recent > 0 || !e.circuit.FailingSince.IsZero() || !isHealthy(health)
		if len(inputs) == limit || e.deleted() || !bad {
			continue
		}
		delivered, dead := s.rollups.ended(e.ID, store.HealthSince(now, health))
		inputs = append(inputs, postrider.HealthInput{
			Endpoint: e.ID, Account: e.Account, Enabled: e.Status == postrider.EndpointEnabled, Health: health,
			Delivered: delivered, Dead: dead, FailingSince: e.circuit.FailingSince, FailedAt: e.circuit.LastAttemptAt,
		})
	}
	return inputs, nil
}

func isHealthy(s postrider.EndpointHealth) bool {
	return s.Number == 0 || s.Status == postrider.Healthy
}
