package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// Each lists the stored rows with a part's ids, and whether each may go. They walk the keys of events,
// attempts and attempt_bodies; what needs an event is probed as in forgottenEventsSQL.
const (
	eventsOfPartSQL   = `select id, 0, true` + unneededSQL + ` from events` + ofEventIDs + ` order by id`
	attemptsOfPartSQL = `select delivery, number, true from attempts` + ofDelivery + ` order by delivery, number`
	bodiesOfPartSQL   = `select delivery, number, true from attempt_bodies` + ofDelivery + ` order by delivery, number`
)

// deletions has, for each kind, the part that is being deleted, with its rows. It outlives a call,
// because a part has tens of thousands of rows: counting them for each chunk slowed all other queries.
type deletions struct {
	mu    sync.Mutex
	parts map[store.Kind]partRows
}

// partRows are rows of a part that may be deleted.
type partRows struct {
	part store.ArchivePart // as of the last transaction that deleted some of them
	rows []store.OldRow
}

// take removes and returns the part of a kind. Without rows: there is none.
func (a *deletions) take(kind store.Kind) partRows {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.parts[kind]
	delete(a.parts, kind)
	return taken
}

func (a *deletions) put(kind store.Kind, p partRows) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.parts == nil {
		a.parts = map[store.Kind]partRows{}
	}
	a.parts[kind] = p
}

// forgetArchived deletes up to f.Limit archived rows of the first part that has rows to delete. It
// returns f.Limit even if it deleted fewer, because another part may follow.
//
// After a part was made, a row with an old id can be added, and must not be deleted with the part.
// So the rows of a part are listed in one statement, beside the writer, and are deleted only if they
// are as many as the part has left. Exactly the listed rows are deleted. A row that is added later is
// not in the list.
func (s *Store) forgetArchived(ctx context.Context, f store.DeleteOld) (int, error) {
	latest := f.Before.AddDate(0, 0, -1)
	taken := s.deletions.take(f.Kind)
	if len(taken.rows) == 0 || taken.part.Day.After(latest) {
		var err error
		if taken, err = s.nextPart(ctx, f.Kind, latest); err != nil || len(taken.rows) == 0 {
			return 0, s.fault(err)
		}
	}
	_, err := inPieces(ctx, min(f.Limit, len(taken.rows)), func(size int) (_ int, err error) {
		taken.part, err = s.forgetOfPart(ctx, taken.part, taken.rows[:size])
		taken.rows = taken.rows[size:]
		return size, err
	})
	if errors.Is(err, errPartChanged) {
		return f.Limit, nil
	}
	if err != nil {
		return 0, err
	}
	s.deletions.put(f.Kind, taken)
	return f.Limit, nil
}

// nextPart returns the first part that has rows to delete, with these rows. It looks at days up to
// the latest. Without rows: there is no such part.
func (s *Store) nextPart(ctx context.Context, kind store.Kind, latest time.Time) (partRows, error) {
	parts, err := sqlstore.PartsLeft(ctx, cold{s}, kind, latest)
	if err != nil {
		return partRows{}, err
	}
	for _, p := range parts {
		rows, err := s.rowsOfPart(ctx, kind, p)
		if err != nil || len(rows) > 0 {
			return partRows{p, rows}, err
		}
	}
	return partRows{}, nil
}

// rowsOfPart lists the rows of a part that may be deleted. It lists none while more or fewer rows are
// stored than the part has left. Attempts wait for the bodies of their day, whose accounts are in the
// attempts.
func (s *Store) rowsOfPart(ctx context.Context, kind store.Kind, p store.ArchivePart) ([]store.OldRow, error) {
	if kind == store.OldAttempts { // first: a body that comes afterwards comes with an attempt, which is counted
		bodies, err := list(ctx, s, query{countBodiesSQL, idsOf(p.Day, store.RowID{}, last)},
			func(rows *sql.Rows, n *int64) error { return rows.Scan(n) })
		if err != nil || bodies[0] > 0 {
			return nil, err
		}
	}
	found, err := list(ctx, s, query{archivedKinds[kind].stored, idsOf(p.Day, p.After, p.Last)},
		func(rows *sql.Rows, r *store.ExaminedRow) error {
			return rows.Scan(toID(&r.ID), &r.Number, toFlag(&r.Goes))
		})
	if err != nil || int64(len(found)) != p.Left {
		return nil, err
	}
	var rows []store.OldRow
	for _, r := range found {
		if r.Goes {
			rows = append(rows, r.OldRow)
		}
	}
	return rows, nil
}

// errPartChanged undoes a deletion of rows whose part was made again or changed meanwhile. The next
// call reads the parts again, and lists their rows.
var errPartChanged = errors.New("the part has changed")

// forgetOfPart deletes and counts rows of a part in one transaction. It returns the part with the new
// counts.
func (s *Store) forgetOfPart(ctx context.Context, p store.ArchivePart, rows []store.OldRow) (now store.ArchivePart, err error) {
	remove, of := removeOld(p.Kind), sqlstore.PartsOf{Kind: p.Kind, Day: p.Day, Number: p.Number}
	err = changeInBulk(ctx, s, func(ctx context.Context, tx *tx) error {
		now = p
		n, err := remove.each(ctx, tx, rows)
		if err != nil || n == 0 {
			return err
		}
		return sqlstore.ChangeDay(ctx, coldTx{tx, &s.texts}, of, func(d *store.ArchiveDay) error {
			if !d.Deleted(&now, int64(n)) {
				return errPartChanged
			}
			return nil
		})
	})
	return now, err
}
