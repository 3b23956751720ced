package memory

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
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
		if c.Generation > 0 && selects(q.Endpoint, c.Endpoint) && len(circuits) < q.Limit {
			circuits = append(circuits, c)
		}
	}
	return circuits, nil
}

// Standings implements [store.Ledger].
func (s *Store) Standings(_ context.Context, q store.StandingQuery) (store.Page[postrider.Standing], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, err := q.Key()
	if err == nil && key != "" && len(key) != 8 {
		err = &postrider.InvalidError{Field: "cursor", Reason: "must be a next_cursor of the same list"}
	}
	if err != nil {
		return store.Page[postrider.Standing]{}, err
	}
	e, ok := s.endpoints.get(q.Endpoint)
	if !ok || !selects(q.Account, e.Account) {
		return store.Page[postrider.Standing]{}, nil
	}
	var standings []postrider.Standing
	for _, standing := range slices.Backward(e.standings) {
		if key == "" || encodeStanding(standing) < key {
			standings = append(standings, standing)
		}
	}
	return store.Cut(standings, q.Paging, encodeStanding), nil
}

func encodeStanding(s postrider.Standing) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(s.Number)))
}

// standing returns how the endpoint stands now.
func (e *endpoint) standing() (now postrider.Standing) {
	if len(e.standings) > 0 {
		now = e.standings[len(e.standings)-1]
	}
	return now
}

// PutStanding implements [store.Upkeep].
func (s *Store) PutStanding(_ context.Context, standing postrider.Standing) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.endpoints.get(standing.Endpoint)
	disables := standing.Status == postrider.StandingDisabled
	var err error
	switch {
	case !ok || e.Account != standing.Account:
		err = postrider.ErrNotFound
	case standing.Number != e.standing().Number+1:
		err = fmt.Errorf("number %d after %d: %w", standing.Number, e.standing().Number, postrider.ErrConflict)
	case disables && e.Status != postrider.EndpointEnabled:
		err = fmt.Errorf("it is %s: %w", e.Status, postrider.ErrConflict)
	}
	if err != nil {
		return fmt.Errorf("put standing of endpoint %s: %w", standing.Endpoint, err)
	}
	standing.Since = stored(standing.Since)
	e.standings = append(e.standings, standing)
	if disables {
		e.Status, e.StatusReason = postrider.EndpointDisabled, standing.Reason
		e.Revision++
		e.UpdatedAt = s.wall()
		s.changeLocked(e)
	}
	return nil
}

// settled counts an endpoint's deliveries of the last day that have ended.
type settled struct {
	delivered, dead int
	letters         bool // there are dead letters, counted or not
}

// Records implements [store.Upkeep].
func (s *Store) Records(_ context.Context, after postrider.EndpointID, limit int) (records []postrider.Record, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := s.settledLocked(s.wall().Add(-postrider.StandingSpan))
	for _, e := range s.endpoints.after(after) {
		n, standing := counts[e.ID], e.standing()
		bad := n.letters || !e.circuit.FailingSince.IsZero() || !isGood(standing)
		if len(records) == limit || e.deleted() || !bad {
			continue
		}
		records = append(records, postrider.Record{
			Endpoint: e.ID, Account: e.Account, Enabled: e.Status == postrider.EndpointEnabled, Standing: standing,
			Delivered: min(n.delivered, max(20, 3*n.dead)), Dead: n.dead, FailingSince: e.circuit.FailingSince,
		})
	}
	return records, nil
}

func isGood(s postrider.Standing) bool { return s.Number == 0 || s.Status == postrider.StandingGood }

// settledLocked counts what has ended since the span began, and since the
// endpoint's standing became good: the dead letters, and of what was delivered
// as much as [store.Upkeep] looks at.
func (s *Store) settledLocked(span time.Time) map[postrider.EndpointID]settled {
	counts := map[postrider.EndpointID]settled{}
	reach, looked := s.wall().Add(-postrider.StandingReach), map[postrider.EndpointID]int{}
	for _, d := range slices.Backward(s.deliveries.rows) {
		looked[d.endpoint] += len(d.attempts)
		ended := d.finishedAt
		if d.letter != nil {
			ended = d.letter.DiedAt
		}
		e, ok := s.endpoints.get(d.endpoint)
		if !ok || ended.Before(span) {
			continue
		}
		n := counts[d.endpoint]
		n.letters = n.letters || d.letter != nil
		standing := e.standing()
		switch again := standing.Number > 0 && isGood(standing); {
		case again && ended.Before(standing.Since):
		case d.status == postrider.Dead:
			n.dead++
		case d.status == postrider.Delivered && !d.id.Time().Before(reach) && looked[d.endpoint] <= postrider.StandingLook:
			n.delivered++
		}
		counts[d.endpoint] = n
	}
	return counts
}
