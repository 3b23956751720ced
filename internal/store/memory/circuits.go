package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// PutCircuit implements [store.Queue].
func (s *Store) PutCircuit(_ context.Context, p store.PutCircuit) (postrider.Circuit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := p.Circuit
	e, ok := s.endpoints.get(next.Endpoint)
	if !ok || e.deleted() {
		return postrider.Circuit{}, fmt.Errorf("put circuit of endpoint %s: %w", next.Endpoint, postrider.ErrNotFound)
	}
	if e.circuit.Generation != next.Generation {
		return e.circuit, fmt.Errorf("put circuit of endpoint %s: %w", next.Endpoint, postrider.ErrConflict)
	}
	for _, at := range []*time.Time{&next.OpenedAt, &next.ProbeAt, &next.FailingSince} {
		if !at.IsZero() {
			*at = stored(*at)
		}
	}
	next.Generation++
	e.circuit = next
	if p.Announce {
		s.changeLocked(e)
	}
	return next, nil
}

// Circuits implements [store.Queue].
func (s *Store) Circuits(_ context.Context, q store.CircuitQuery) (circuits []postrider.Circuit, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.endpoints.after(q.After) {
		c := e.circuit
		failing := !c.FailingSince.IsZero() && e.Status != postrider.EndpointDeleted && selects(q.Account, e.Account)
		if c.Generation > 0 && selects(q.Endpoint, c.Endpoint) && (failing || !q.Failing) && len(circuits) < q.Limit {
			circuits = append(circuits, c)
		}
	}
	return circuits, nil
}
