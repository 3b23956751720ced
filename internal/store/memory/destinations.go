package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// destination is a destination together with its lease.
type destination struct {
	postrider.Destination

	token postrider.Token // zero if the destination is not leased
	due   time.Time       // the time of the next message, or the end of the lease
}

// view returns the destination with copies of its lists.
func (d destination) view() postrider.Destination {
	d.Kinds, d.Unsubscribed = slices.Clone(d.Kinds), slices.Clone(d.Unsubscribed)
	return d.Destination
}

// PutDestination implements [store.Destinations].
func (s *Store) PutDestination(_ context.Context, d postrider.Destination, most int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := 0
	for _, other := range s.destinations.rows {
		if other.Account != d.Account {
			continue
		}
		if have++; other.ID == d.ID || other.Channel == d.Channel && other.Address == d.Address {
			return fmt.Errorf("put destination %s: %w", d.ID, postrider.ErrConflict)
		}
	}
	if have >= most {
		return fmt.Errorf("put destination %s: %w", d.ID, store.ErrTooMany)
	}
	d = destination{Destination: d}.view()
	d.CreatedAt = d.ID.Time()
	if !d.ConfirmedAt.IsZero() {
		d.ConfirmedAt, d.ToldUntil = s.wall(), store.FirstNotice(s.wall())
	}
	s.destinations.put(d.ID, destination{Destination: d, due: s.now()})
	return nil
}

// Destinations implements [store.Destinations].
func (s *Store) Destinations(_ context.Context, q store.DestinationQuery) (store.Page[postrider.Destination], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(&s.destinations, q.Paging, q.ID, func(d destination) (postrider.Destination, bool) {
		return d.view(), selects(q.Account, d.Account) && (!q.Operator || d.Account.IsZero())
	})
}

// ChangeDestination implements [store.Destinations].
func (s *Store) ChangeDestination(_ context.Context, c store.ChangeDestination) (postrider.Destination, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.destinations.get(c.ID)
	if !ok {
		return postrider.Destination{}, fmt.Errorf("change destination %s: %w", c.ID, postrider.ErrNotFound)
	}
	c.Apply(&d.Destination, s.wall())
	if c.Ask != "" && d.token == 0 {
		d.due = s.now()
	}
	s.destinations.put(d.ID, d)
	return d.view(), nil
}

// DeleteDestination implements [store.Destinations].
func (s *Store) DeleteDestination(_ context.Context, id postrider.DestinationID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.destinations.get(id); !ok {
		return fmt.Errorf("delete destination %s: %w", id, postrider.ErrNotFound)
	}
	s.destinations.remove(id)
	return nil
}

// ClaimDestinations implements [store.Destinations].
func (s *Store) ClaimDestinations(_ context.Context, c store.ClaimDestinations) ([]postrider.Destination, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := s.now(), store.FirstNotice(s.wall().Add(-c.Wait))
	var due []destination
	for _, d := range s.destinations.rows {
		untold := func(n postrider.Notice) bool {
			return selects(d.Account, n.Account) && n.ID.Compare(d.ToldUntil) >= 0 && n.ID.Compare(before) < 0
		}
		needs := d.Ask != "" || !d.ConfirmedAt.IsZero() && slices.ContainsFunc(s.notices.rows, untold)
		if !s.hold.Held() && d.Channel == c.Channel && d.RefusedAt.IsZero() && !d.due.After(now) && needs {
			due = append(due, d)
		}
	}
	slices.SortStableFunc(due, func(a, b destination) int {
		switch {
		case a.Account.IsZero() == b.Account.IsZero():
			return a.due.Compare(b.due)
		case a.Account.IsZero():
			return -1
		}
		return 1
	})
	var claimed []postrider.Destination
	for _, d := range due[:min(len(due), c.Max)] {
		d.token, d.due = c.Token, now.Add(c.Lease)
		s.destinations.put(d.ID, d)
		claimed = append(claimed, d.view())
	}
	return claimed, nil
}

// SettleDestination implements [store.Destinations].
func (s *Store) SettleDestination(_ context.Context, c store.SettleDestination) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	d, ok := s.destinations.get(c.ID)
	if !ok || d.token != c.Token {
		return fmt.Errorf("settle destination %s: %w", c.ID, postrider.ErrFenced)
	}
	d.token, d.due = 0, s.now().Add(c.Apply(&d.Destination, s.wall()))
	s.destinations.put(d.ID, d)
	return nil
}
