package memory

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// LeaseArchive implements [store.Archive].
func (s *Store) LeaseArchive(_ context.Context, node uint64, d time.Duration) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.archiver != node && s.now().Before(s.archivesUntil) {
		return false, nil
	}
	s.archiver, s.archivesUntil = node, s.now().Add(d)
	return true, nil
}

// archivedRowsLocked returns the rows of a kind that are stored, by id and number.
func (s *Store) archivedRowsLocked(kind store.Kind) (rows []store.ArchivedRow) {
	if kind == store.OldEvents {
		for _, e := range s.events.rows {
			item := *e.Event
			item.Data = bytes.Clone(e.Data)
			rows = append(rows, store.ArchivedRow{Account: e.Account, Event: &item})
		}
		return rows
	}
	for _, d := range s.deliveries.rows {
		for _, a := range d.attempts {
			row := store.ArchivedRow{
				Account: d.event.Account, EventType: d.event.Type, ReplayedFrom: d.replayedFrom, ReplayJob: d.replayJob,
			}
			without := forgottenBodies(a)
			if kind == store.OldBodies && sizeOfBodies(without) == sizeOfBodies(a) {
				continue
			}
			a.Delivery, a.Event, a.Endpoint, without.Delivery, without.Event, without.Endpoint = d.id, d.event.ID, d.endpoint, d.id, d.event.ID,
				d.endpoint
			row.Attempt = &without
			if kind == store.OldBodies {
				row.Attempt = &postrider.Attempt{
					Delivery: d.id, Event: d.event.ID, Endpoint: d.endpoint, Number: a.Number,
					RequestHead: a.RequestHead, ResponseHead: a.ResponseHead, ResponseBody: a.ResponseBody,
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// ArchiveDay implements [store.Archive].
func (s *Store) ArchiveDay(_ context.Context, kind store.Kind, before time.Time) (store.ArchiveDay, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	stored := map[time.Time]int64{}
	for _, row := range s.archivedRowsLocked(kind) {
		stored[store.DayOf(row.ID().Time())]++
	}
	for _, day := range slices.SortedFunc(maps.Keys(stored), time.Time.Compare) {
		found := s.archiveDayLocked(kind, day)
		found.Rows = stored[day]
		if !day.AddDate(0, 0, 1).After(before) && !found.Complete() {
			return found, nil
		}
	}
	return store.ArchiveDay{}, nil
}

// archiveDayLocked returns a day with its parts.
func (s *Store) archiveDayLocked(kind store.Kind, at time.Time) store.ArchiveDay {
	day := store.ArchiveDay{Day: at}
	for _, p := range s.parts {
		if p.Kind == kind && p.Day.Equal(at) {
			day.Parts = append(day.Parts, p)
		}
	}
	return day
}

// changeDayLocked changes the parts of a day.
func (s *Store) changeDayLocked(kind store.Kind, at time.Time, change func(*store.ArchiveDay) error) error {
	day := s.archiveDayLocked(kind, at)
	if err := change(&day); err != nil {
		return err
	}
	s.parts = slices.DeleteFunc(s.parts, func(p store.ArchivePart) bool { return p.Kind == kind && p.Day.Equal(at) })
	s.parts = append(s.parts, day.Parts...)
	slices.SortFunc(s.parts, comparePartIDs)
	return nil
}

// ArchiveRows implements [store.Archive].
func (s *Store) ArchiveRows(_ context.Context, q store.ArchiveRows, yield func(store.ArchivedRow) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, row := range s.archivedRowsLocked(q.Kind) {
		id := row.ID()
		if store.DayOf(id.Time()).Equal(q.Day) && bytes.Compare(id[:], q.After[:]) > 0 &&
			(q.Only == nil || slices.ContainsFunc(q.Only, named(row))) && !yield(row) {
			return nil
		}
	}
	return nil
}

// named returns a function that reports whether a name is the row's.
func named(row store.ArchivedRow) func(store.OldRow) bool {
	return func(name store.OldRow) bool { return store.CompareRows(name, row.Name()) == 0 }
}

// PutArchivePart implements [store.Archive].
func (s *Store) PutArchivePart(_ context.Context, p store.ArchivePart) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.MadeAt = stored(p.MadeAt)
	return s.changeDayLocked(p.Kind, p.Day, func(d *store.ArchiveDay) error { return d.Put(p) })
}

func comparePartIDs(a, b store.ArchivePart) int {
	return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), a.Day.Compare(b.Day), cmp.Compare(a.Number, b.Number))
}

// RedoArchiveDay implements [store.Archive].
func (s *Store) RedoArchiveDay(_ context.Context, kind store.Kind, day time.Time) (forgotten []store.ArchivePart, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err = s.changeDayLocked(kind, day, func(d *store.ArchiveDay) error {
		forgotten = d.Redo()
		return nil
	})
	return forgotten, err
}

// ArchiveParts implements [store.Archive].
func (s *Store) ArchiveParts(_ context.Context, q store.ArchiveParts) (parts []store.ArchivePart, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.parts {
		if selects(q.Kind, p.Kind) && within(store.Span{From: q.From, To: q.To}, p.Day) && comparePartIDs(p, q.After) > 0 &&
			(q.Announced || !p.IsAnnounced()) && len(parts) < q.Limit {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// deletable are the parts that DeleteOld may delete rows of.
type deletable struct {
	store *Store
	kind  store.Kind
	any   bool // it may delete any row
	parts []store.ArchivePart
}

// deletableLocked returns the parts of which as many rows are stored as are left.
func (s *Store) deletableLocked(f store.DeleteOld) *deletable {
	may := &deletable{store: s, kind: f.Kind, any: !f.Archived}
	if may.any {
		return may
	}
	bodies := map[time.Time]bool{}
	for _, row := range s.archivedRowsLocked(store.OldBodies) {
		bodies[store.DayOf(row.ID().Time())] = f.Kind == store.OldAttempts
	}
	for _, p := range s.parts {
		found := int64(0)
		for _, row := range s.archivedRowsLocked(f.Kind) {
			if p.Has(row.ID()) {
				found++
			}
		}
		if p.Kind == f.Kind && found > 0 && found == p.Left && !bodies[p.Day] && !p.Day.AddDate(0, 0, 1).After(f.Before) {
			may.parts = append(may.parts, p)
		}
	}
	return may
}

// part returns the part that has the id; nil: none of these.
func (d *deletable) part(id store.RowID) *store.ArchivePart {
	for i, p := range d.parts {
		if p.Left > 0 && p.Has(id) {
			return &d.parts[i]
		}
	}
	return nil
}

// allows reports whether a row with the id may be deleted.
func (d *deletable) allows(id store.RowID) bool { return d.any || d.part(id) != nil }

// deleted counts rows that were deleted.
func (d *deletable) deleted(id store.RowID, rows int) {
	if d.any {
		for range rows {
			d.store.countRemovedLocked(d.kind, id)
		}
	}
	p := d.part(id)
	if p == nil {
		return
	}
	_ = d.store.changeDayLocked(p.Kind, p.Day, func(day *store.ArchiveDay) error {
		day.Deleted(p, int64(rows))
		return nil
	})
}

// ArchiveKey implements [store.ArchiveKeys].
func (s *Store) ArchiveKey(_ context.Context, account postrider.AccountID) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key, ok := s.archiveKeys.get(account)
	if !ok {
		return nil, postrider.ErrNotFound
	}
	return bytes.Clone(*key), nil
}

// PutArchiveKey implements [store.ArchiveKeys].
func (s *Store) PutArchiveKey(_ context.Context, account postrider.AccountID, encrypted []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key, ok := s.archiveKeys.get(account); ok {
		return bytes.Clone(*key), nil
	}
	key := bytes.Clone(encrypted)
	s.archiveKeys.put(account, &key)
	return encrypted, nil
}

// DeleteArchiveKey implements [store.ArchiveKeys].
func (s *Store) DeleteArchiveKey(_ context.Context, account postrider.AccountID) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.archiveKeys.get(account)
	s.archiveKeys.remove(account)
	return ok, nil
}

// restoredKey names a restored record.
type restoredKey struct {
	id     store.RowID
	number int
	kind   store.Kind
}

// PutRestored implements [store.Restored].
func (s *Store) PutRestored(_ context.Context, records []store.RestoredRecord) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range records {
		r.Record, r.At = bytes.Clone(r.Record), stored(r.At)
		s.restored[restoredKey{r.ID, r.Number, r.Kind}] = r
	}
	return nil
}

// RestoredRecords implements [store.Restored].
func (s *Store) RestoredRecords(_ context.Context, q store.RestoredQuery) (store.Page[store.RestoredRecord], error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after, err := store.RestoredAfter(q.Paging)
	if err != nil {
		return store.Page[store.RestoredRecord]{}, err
	}
	compare := func(a, b restoredKey) int {
		return cmp.Or(bytes.Compare(a.id[:], b.id[:]), cmp.Compare(a.number, b.number), cmp.Compare(a.kind, b.kind))
	}
	var found []store.RestoredRecord
	for _, key := range slices.SortedFunc(maps.Keys(s.restored), compare) {
		r := s.restored[key]
		if compare(key, restoredKey{after.ID, after.Number, after.Kind}) > 0 && selects(q.Account, r.Account) && selects(q.Event, r.Event) &&
			selects(q.Endpoint, r.Endpoint) {
			r.Record = bytes.Clone(r.Record)
			found = append(found, r)
		}
	}
	if len(found) > q.Size()+1 {
		found = found[:q.Size()+1]
	}
	return store.Cut(found, q.Paging, store.RestoredKey), nil
}

// ForgetRestored implements [store.Retention].
func (s *Store) ForgetRestored(_ context.Context, before time.Time, limit int) (forgotten int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, r := range s.restored {
		if r.At.Before(before) && forgotten < limit {
			delete(s.restored, key)
			forgotten++
		}
	}
	return forgotten, nil
}
