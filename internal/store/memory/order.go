package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// orderedKey names an ordering key at one endpoint. Each endpoint has its own order, so an
// endpoint that fails does not delay the same key at other endpoints.
type orderedKey struct {
	endpoint postrider.EndpointID
	key      string
}

// keyQueue has the pending ordered deliveries of one endpoint and ordering key. The first of them
// is the head. Only the head is ever in a lane, where it is due; while the key is paused, no
// delivery of the key is. A head that is due stays the head when a replay job inserts lower
// sequences; in a backfill, only if it is leased.
type keyQueue struct {
	positions []*delivery // sorted by sequence
	pausedBy  *delivery   // the dead letter that pauses the key; nil if there is none
	since     time.Time   // when pausedBy became a dead letter
}

// find returns the index of the delivery, and whether the queue has it. Two deliveries can have
// the same sequence, because a replay has that of its original.
func (k *keyQueue) find(d *delivery) (int, bool) {
	return slices.BinarySearchFunc(k.positions, d, func(a, b *delivery) int {
		return cmp.Or(cmp.Compare(a.event.Sequence, b.event.Sequence), a.id.Compare(b.id))
	})
}

func (k *keyQueue) insert(d *delivery) {
	i, _ := k.find(d)
	k.positions = slices.Insert(k.positions, i, d)
}

func (k *keyQueue) remove(d *delivery) {
	switch i, found := k.find(d); {
	case !found:
	case i == 0: // nearly always
		k.positions[0] = nil
		k.positions = k.positions[1:]
	default:
		k.positions = slices.Delete(k.positions, i, i+1)
	}
}

// headReleased reports whether a delivery of the key is in a lane, or is parked after it was in
// one. It is false if the key is paused or has no positions.
func (k *keyQueue) headReleased() bool { return len(k.blocked()) < len(k.positions) }

// blocked returns the deliveries of the key that must not be due yet.
func (k *keyQueue) blocked() []*delivery {
	released := slices.IndexFunc(k.positions, func(d *delivery) bool { return d.at >= 0 || d.parked })
	switch {
	case released < 0:
		return k.positions
	case released == 0: // nearly always
		return k.positions[1:]
	}
	return slices.Concat(k.positions[:released], k.positions[released+1:])
}

// keyQueueOf returns the queue of the delivery's ordering key, and creates it if needed.
func (s *Store) keyQueueOf(d *delivery) *keyQueue {
	key := orderedKey{d.endpoint, d.event.OrderingKey}
	if s.keyQueues[key] == nil {
		s.keyQueues[key] = &keyQueue{}
	}
	return s.keyQueues[key]
}

// mayBeDueLocked adds a new ordered delivery to the queue of its key, and reports whether the
// delivery may be due at once. A delivery without an order always may.
func (s *Store) mayBeDueLocked(d *delivery) bool {
	if d.ordered == "" {
		return true
	}
	k := s.keyQueueOf(d)
	k.insert(d)
	return len(k.positions) == 1 && k.pausedBy == nil
}

// advanceLocked removes a delivery that has ended from its key's queue. Then it makes the next
// head due and returns its lane. If the delivery became a dead letter that pauses the key, it
// pauses the key instead. If the delivery was not the head, nothing else changes.
func (s *Store) advanceLocked(d *delivery, now time.Time) postrider.Lane {
	if d.ordered == "" {
		return ""
	}
	k := s.keyQueueOf(d)
	k.remove(d)
	switch {
	case k.pausedBy != nil, k.headReleased(): // the delivery was not the head
		return ""
	case d.status == postrider.Dead && d.ordered == postrider.PauseOnDead:
		k.pausedBy, k.since = d, now
		return ""
	}
	return s.releaseHeadLocked(k, now)
}

// releaseHeadLocked makes the head due and returns its lane.
func (s *Store) releaseHeadLocked(k *keyQueue, now time.Time) postrider.Lane {
	if len(k.positions) == 0 {
		return ""
	}
	head := k.positions[0]
	head.due = now
	s.laneOf(head).push(head)
	return head.lane
}

// pausedLocked returns the queue of the key that the dead letter pauses, or nil.
func (s *Store) pausedLocked(d *delivery) *keyQueue {
	if d.ordered == "" {
		return nil
	}
	if k := s.keyQueueOf(d); k.pausedBy == d {
		return k
	}
	return nil
}

// replaceLocked gives a replay the position of a dead letter that pauses its key, and ends the
// pause. It reports whether the dead letter paused its key.
func (s *Store) replaceLocked(old, replay *delivery) bool {
	k := s.pausedLocked(old)
	if k == nil {
		return false
	}
	k.pausedBy, replay.ordered = nil, old.ordered
	k.insert(replay)
	s.laneOf(replay).push(replay)
	return true
}

// resumeLocked ends the pause of the dead letter's key, if there is one.
func (s *Store) resumeLocked(d *delivery, now time.Time) {
	if k := s.pausedLocked(d); k != nil {
		k.pausedBy = nil
		s.releaseHeadLocked(k, now)
	}
}

// OrderedKeys implements [store.Ledger].
func (s *Store) OrderedKeys(_ context.Context, q store.OrderedKeyQuery) (store.Page[store.OrderedKey], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after, err := q.Key()
	if err != nil {
		return store.Page[store.OrderedKey]{}, err
	}
	if e, ok := s.endpoints.get(q.Endpoint); !ok || !selects(q.Account, e.Account) {
		return store.Page[store.OrderedKey]{}, nil
	}
	var keys []store.OrderedKey
	for of, k := range s.keyQueues {
		if of.endpoint == q.Endpoint && of.key > after && (len(k.positions) > 0 || k.pausedBy != nil) {
			keys = append(keys, k.read(of.key))
		}
	}
	slices.SortFunc(keys, func(a, b store.OrderedKey) int { return cmp.Compare(a.Key, b.Key) })
	return store.Cut(keys, q.Paging, func(k store.OrderedKey) string { return k.Key }), nil
}

// read returns the state of the key as people see it.
func (k *keyQueue) read(key string) store.OrderedKey {
	read := store.OrderedKey{Key: key, Waiting: min(len(k.positions), 1000)}
	if len(k.positions) > 0 {
		head := k.positions[0]
		read.Head, read.Sequence, read.Since = head.id, head.event.Sequence, head.id.Time()
	}
	if k.pausedBy != nil {
		read.PausedBy, read.Since = k.pausedBy.id, k.since
	}
	return read
}
