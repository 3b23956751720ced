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

// recordedRow is the record of a row of an outbox.
type recordedRow struct {
	event postrider.EventID
	at    time.Time
}

// PutSource implements [store.Sources].
func (s *Store) PutSource(_ context.Context, put postrider.Source) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	put.State, put.CreatedAt = postrider.SourceState{}, stored(put.CreatedAt)
	others := 0
	for _, other := range s.sources.rows {
		switch {
		case other.ID == put.ID:
			put.State, put.CreatedAt, put.Paused = other.State, other.CreatedAt, other.Paused
			continue
		case other.Name == put.Name:
			return fmt.Errorf("put source %s: %w", put.ID, postrider.ErrConflict)
		}
		others++
	}
	if others >= store.MaxSources {
		return fmt.Errorf("put source %s: %w", put.ID, store.ErrTooMany)
	}
	s.sources.put(put.ID, sourceOf(put))
	return nil
}

// sourceOf returns the source with copies of its bytes and its mapping.
func sourceOf(source postrider.Source) postrider.Source {
	source.Password = bytes.Clone(source.Password)
	if source.Table != nil {
		table := *source.Table
		source.Table = &table
	}
	return source
}

// Sources implements [store.Sources].
func (s *Store) Sources(context.Context) (all []postrider.Source, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, source := range s.sources.rows {
		all = append(all, sourceOf(source))
	}
	slices.SortFunc(all, func(a, b postrider.Source) int { return cmp.Compare(a.Name, b.Name) })
	return all, nil
}

// DeleteSource implements [store.Sources].
func (s *Store) DeleteSource(_ context.Context, id postrider.SourceID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.sources.get(id); !ok {
		return fmt.Errorf("delete source %s: %w", id, postrider.ErrNotFound)
	}
	s.sources.remove(id)
	return nil
}

// PauseSource implements [store.Sources].
func (s *Store) PauseSource(_ context.Context, id postrider.SourceID, paused bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	source, ok := s.sources.get(id)
	if !ok {
		return fmt.Errorf("pause source %s: %w", id, postrider.ErrNotFound)
	}
	source.Paused = paused
	s.sources.put(id, source)
	return nil
}

// AdvanceSource implements [store.Sources].
func (s *Store) AdvanceSource(_ context.Context, a store.AdvanceSource) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	source, ok := s.sources.get(a.ID)
	unknown := func(id postrider.OutboxID) bool { _, ok := s.outboxRows[id]; return !ok }
	if !ok || source.State.Cycle != a.Cycle || slices.ContainsFunc(a.Rows, unknown) {
		return fmt.Errorf("advance source %s: %w", a.ID, postrider.ErrFenced)
	}
	source.State.Cycle, source.State.MovedUntil = a.Next, stored(a.MovedUntil)
	s.sources.put(a.ID, source)
	return nil
}

// NoteSource implements [store.Sources].
func (s *Store) NoteSource(_ context.Context, id postrider.SourceID, state postrider.SourceState) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	source, ok := s.sources.get(id)
	if !ok {
		return fmt.Errorf("note source %s: %w", id, postrider.ErrNotFound)
	}
	state.Cycle, state.MovedUntil = source.State.Cycle, source.State.MovedUntil
	for _, at := range []*time.Time{&state.At, &state.ErrorSince, &state.Oldest, &state.OpenSince} {
		*at = stored(*at)
	}
	source.State = state
	s.sources.put(id, source)
	return nil
}

// OutboxRows implements [store.Sources].
func (s *Store) OutboxRows(_ context.Context, rows []postrider.OutboxID) (map[postrider.OutboxID]postrider.EventID, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	events := map[postrider.OutboxID]postrider.EventID{}
	for _, id := range rows {
		if row, ok := s.outboxRows[id]; ok {
			events[id] = row.event
		}
	}
	return events, nil
}

// ForgetRows implements [store.Sources].
func (s *Store) ForgetRows(_ context.Context, before time.Time, n int) (forgotten int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, source := range s.sources.rows {
		if !source.State.MovedUntil.After(before) {
			return 0, nil
		}
	}
	for id, row := range s.outboxRows {
		if row.at.Before(before) && forgotten < n {
			delete(s.outboxRows, id)
			forgotten++
		}
	}
	return forgotten, nil
}
