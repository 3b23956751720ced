package memory

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type node struct {
	instance [16]byte
	until    time.Time // it is alive
	leaving  bool
}

func (n *node) alive(now time.Time) bool { return now.Before(n.until) }

// Beat implements [store.Nodes].
func (s *Store) Beat(_ context.Context, b store.Beat) (store.Roster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[b.Incarnation]
	switch {
	case n == nil:
		n = &node{instance: b.Instance}
		s.nodes[b.Incarnation] = n
	case n.instance != b.Instance:
		return store.Roster{}, fmt.Errorf("beat of incarnation %d: another instance has it: %w", b.Incarnation, postrider.ErrConflict)
	}
	now := s.now()
	n.until, n.leaving = now.Add(b.TTL), b.Leaving
	for _, shard := range b.Release {
		if s.owners[shard] == n {
			s.owners[shard] = nil
		}
	}
	return s.rosterLocked(n, now), nil
}

// rosterLocked gives the node what it lacks of its share, and says how the
// shards are shared out.
func (s *Store) rosterLocked(n *node, now time.Time) (r store.Roster) {
	for incarnation, other := range s.nodes {
		switch {
		case !other.alive(now):
			r.Dead = append(r.Dead, incarnation)
		case !other.leaving:
			r.Nodes++
		}
	}
	slices.Sort(r.Dead)
	share := 0
	if !n.leaving {
		share = (store.Shards + r.Nodes - 1) / max(r.Nodes, 1)
	}
	lacks := share - s.ownedLocked(n)
	for shard, owner := range s.owners {
		if owner == nil && lacks > 0 {
			s.owners[shard], owner = n, n
			lacks--
		}
		if owner == n {
			r.Shards = append(r.Shards, uint8(shard))
		}
	}
	r.Excess = max(0, len(r.Shards)-share)
	return r
}

func (s *Store) ownedLocked(n *node) (owned int) {
	for _, owner := range s.owners {
		if owner == n {
			owned++
		}
	}
	return owned
}

// Reclaim implements [store.Nodes].
func (s *Store) Reclaim(_ context.Context, incarnation uint32, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	n := s.nodes[incarnation]
	if n == nil || n.alive(now) {
		return 0, nil
	}
	var suspects, others []*delivery
	for _, d := range s.queuedLocked(len(s.deliveries.rows), func(d *delivery) bool {
		return d.token != 0 && uint32(d.token>>32) == incarnation
	}) {
		if d.lane == postrider.LaneSuspect {
			suspects = append(suspects, d)
		} else {
			others = append(others, d)
		}
	}
	if len(suspects) == 1 {
		suspects[0].alone++
	}
	held := slices.Concat(suspects, others[:min(len(others), limit)])
	for _, d := range held {
		d.lose(now)
		s.reclaimLocked(d, now)
	}
	if len(held) < limit {
		s.forgetLocked(incarnation)
	}
	return len(held), nil
}

// reclaimLocked makes a delivery due whose node died, in the lane where it
// belongs by now, or parks it.
func (s *Store) reclaimLocked(d *delivery, now time.Time) {
	if d.alone >= postrider.ParkedAfter {
		s.endLocked(d)
		d.parked = true
		s.parked[d] = struct{}{}
		return
	}
	s.requeueLocked(d, func() {
		d.token, d.due = 0, now
		if d.losses >= postrider.SuspectedAfter {
			d.lane = postrider.LaneSuspect
		}
	})
}

// Forget implements [store.Nodes].
func (s *Store) Forget(_ context.Context, incarnation uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forgetLocked(incarnation)
	return nil
}

func (s *Store) forgetLocked(incarnation uint32) {
	n := s.nodes[incarnation]
	for shard, owner := range s.owners {
		if owner == n {
			s.owners[shard] = nil
		}
	}
	delete(s.nodes, incarnation)
}

// Wake implements [store.Nodes]. A listener that is far behind misses it.
func (s *Store) Wake(_ context.Context, message string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for listener := range s.listeners {
		select {
		case listener <- message:
		default:
		}
	}
	return nil
}

// Listen implements [store.Nodes]. It returns when ctx ends.
func (s *Store) Listen(ctx context.Context, heard func(message string)) error {
	messages := make(chan string, 256)
	s.mu.Lock()
	s.listeners[messages] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.listeners, messages)
	}()
	heard("")
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case message := <-messages:
			heard(message)
		}
	}
}
