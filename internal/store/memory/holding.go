package memory

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Held implements [store.Holding].
func (s *Store) Held(context.Context) (postrider.Hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hold, nil
}

// PutHold implements [store.Holding].
func (s *Store) PutHold(_ context.Context, reason string) (postrider.Hold, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lowest = max(s.lowest, s.wall().UnixMicro())
	if s.hold.Held() {
		return s.hold, nil
	}
	s.hold = postrider.Hold{Since: s.wall(), Reason: reason}
	s.heldUpTo = postrider.EventID{}
	if n := len(s.events.ids); n > 0 {
		s.heldUpTo = s.events.ids[n-1]
	}
	s.version++
	return s.hold, nil
}

// Resume implements [store.Holding].
func (s *Store) Resume(context.Context) (store.HeldWork, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	work := s.heldWorkLocked()
	s.hold = postrider.Hold{}
	return work, nil
}

// HeldWork implements [store.Holding].
func (s *Store) HeldWork(context.Context) (store.HeldWork, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.heldWorkLocked(), nil
}

func (s *Store) heldWorkLocked() (work store.HeldWork) {
	if !s.hold.Held() {
		return work
	}
	held := func(id postrider.EventID) bool { return id.Compare(s.heldUpTo) <= 0 }
	work.Deliveries = len(s.queuedLocked(len(s.deliveries.ids), func(d *delivery) bool { return held(d.event.ID) }))
	for _, id := range s.fanOuts.ids {
		if held(id) {
			work.FanOuts++
		}
	}
	return work
}
