package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

type lineKey struct {
	endpoint postrider.EndpointID
	key      string
}

// line is the pending ordered deliveries of one endpoint and ordering key, by
// sequence. Only the first of them is ever in its lane, and none while the
// line is paused.
type line struct {
	rows     []*delivery
	pausedBy *delivery // nil: it is not paused
	since    time.Time // pausedBy: when it paused the line
}

func (l *line) find(d *delivery) (int, bool) {
	return slices.BinarySearchFunc(l.rows, d, func(a, b *delivery) int {
		return cmp.Or(cmp.Compare(a.event.Sequence, b.event.Sequence), a.id.Compare(b.id))
	})
}

func (l *line) insert(d *delivery) {
	i, _ := l.find(d)
	l.rows = slices.Insert(l.rows, i, d)
}

func (l *line) remove(d *delivery) {
	switch i, found := l.find(d); {
	case !found:
	case i == 0: // nearly always
		l.rows[0] = nil
		l.rows = l.rows[1:]
	default:
		l.rows = slices.Delete(l.rows, i, i+1)
	}
}

// moving reports whether the first of the line has its turn, parked or not.
func (l *line) moving() bool { return len(l.rows) > 0 && (l.rows[0].at >= 0 || l.rows[0].parked) }

// blocked returns those whose turn has not come.
func (l *line) blocked() []*delivery {
	if l.moving() {
		return l.rows[1:]
	}
	return l.rows
}

// lineOf returns the line of an ordered delivery.
func (s *Store) lineOf(d *delivery) *line {
	key := lineKey{d.endpoint, d.event.OrderingKey}
	if s.lines[key] == nil {
		s.lines[key] = &line{}
	}
	return s.lines[key]
}

// hasTurnLocked puts a new delivery into its line, if it has one, and reports
// whether it need not wait there.
func (s *Store) hasTurnLocked(d *delivery) bool {
	if d.ordered == "" {
		return true
	}
	l := s.lineOf(d)
	l.insert(d)
	return len(l.rows) == 1 && l.pausedBy == nil
}

// nextLocked lets the line of a delivery that has ended go on, and returns the
// lane of the one whose turn has come by that.
func (s *Store) nextLocked(d *delivery, now time.Time) postrider.Lane {
	if d.ordered == "" {
		return ""
	}
	l := s.lineOf(d)
	l.remove(d)
	switch {
	case l.pausedBy != nil, l.moving(): // it was not its turn
		return ""
	case d.status == postrider.Dead && d.ordered == postrider.PauseOnDead:
		l.pausedBy, l.since = d, now
		return ""
	}
	return s.turnLocked(l, now)
}

// turnLocked makes the first of a line due.
func (s *Store) turnLocked(l *line, now time.Time) postrider.Lane {
	if len(l.rows) == 0 {
		return ""
	}
	first := l.rows[0]
	first.due = now
	s.laneOf(first).push(first)
	return first.lane
}

// pausedLocked returns the line that the delivery pauses, or nil.
func (s *Store) pausedLocked(d *delivery) *line {
	if d.ordered == "" {
		return nil
	}
	if l := s.lineOf(d); l.pausedBy == d {
		return l
	}
	return nil
}

// replaceLocked puts a replay into the place of what pauses the line, and
// reports whether that does.
func (s *Store) replaceLocked(old, replay *delivery) bool {
	l := s.pausedLocked(old)
	if l == nil {
		return false
	}
	l.pausedBy, replay.ordered = nil, old.ordered
	l.insert(replay)
	s.turnLocked(l, replay.due)
	return true
}

// resumeLocked lets the line that the delivery pauses go on without it.
func (s *Store) resumeLocked(d *delivery, now time.Time) {
	if l := s.pausedLocked(d); l != nil {
		l.pausedBy = nil
		s.turnLocked(l, now)
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
	for of, l := range s.lines {
		if of.endpoint == q.Endpoint && of.key > after && (len(l.rows) > 0 || l.pausedBy != nil) {
			keys = append(keys, l.read(of.key))
		}
	}
	slices.SortFunc(keys, func(a, b store.OrderedKey) int { return cmp.Compare(a.Key, b.Key) })
	return store.Cut(keys, q.Paging, func(k store.OrderedKey) string { return k.Key }), nil
}

// read returns the line as a person sees it.
func (l *line) read(key string) store.OrderedKey {
	read := store.OrderedKey{Key: key, Waiting: min(len(l.rows), 1000)}
	if len(l.rows) > 0 {
		first := l.rows[0]
		read.Head, read.Sequence, read.Since = first.id, first.event.Sequence, first.id.Time()
	}
	if l.pausedBy != nil {
		read.PausedBy, read.Since = l.pausedBy.id, l.since
	}
	return read
}
