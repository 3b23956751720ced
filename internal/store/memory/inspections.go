package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// PutInspection implements [store.Inspections].
func (s *Store) PutInspection(_ context.Context, i postrider.Inspection) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, there := s.inspections.get(i.ID); there {
		return nil
	}
	i.At, i.Header, i.Body, i.Verdicts = i.ID.Time(), slices.Clone(i.Header), bytes.Clone(i.Body), slices.Clone(i.Verdicts)
	s.inspections.put(i.ID, i)
	kept := 0
	for _, id := range slices.Backward(slices.Clone(s.inspections.ids)) {
		if other, _ := s.inspections.get(id); other.Endpoint != i.Endpoint {
			continue
		}
		if kept++; kept > postrider.InspectionsKept {
			s.inspections.remove(id)
		}
	}
	return nil
}

// Inspections implements [store.Inspections].
func (s *Store) Inspections(_ context.Context, q store.InspectionQuery) (store.Page[postrider.Inspection], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.wall().Add(-postrider.InspectionKeptFor)
	return list(&s.inspections, q.Paging, q.ID, func(i postrider.Inspection) (postrider.Inspection, bool) {
		i.Header, i.Body, i.Verdicts = slices.Clone(i.Header), bytes.Clone(i.Body), slices.Clone(i.Verdicts)
		if q.ID.IsZero() {
			i.Body = nil
		}
		return i, i.Endpoint == q.Endpoint && !i.At.Before(since)
	})
}

// ForgetInspections implements [store.Inspections].
func (s *Store) ForgetInspections(_ context.Context, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	since, forgotten := s.wall().Add(-postrider.InspectionKeptFor), 0
	for _, id := range slices.Clone(s.inspections.ids) {
		if forgotten == limit || !id.Time().Before(since) {
			break
		}
		s.inspections.remove(id)
		forgotten++
	}
	return forgotten, nil
}
