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

// The rows that are stored of a part's ids, and whether each may go. By the keys of events,
// attempts and attempt_bodies; what needs an event is probed as in forgottenEventsSQL.
const (
	eventsOfPartSQL   = `select id, 0, true` + unneededSQL + ` from events` + ofEventIDs + ` order by id`
	attemptsOfPartSQL = `select delivery, number, true from attempts` + ofDelivery + ` order by delivery, number`
	bodiesOfPartSQL   = `select delivery, number, true from attempt_bodies` + ofDelivery + ` order by delivery, number`
)

// archivedRows has, for each kind, the rows of the part that is being deleted. It lives from
// one call to the next, because a part has tens of thousands of rows: counting them for
// each chunk slowed all other queries.
type archivedRows struct {
	mu    sync.Mutex
	parts map[store.Kind]partRows
}

// partRows are rows that a part has and that may be deleted.
type partRows struct {
	part store.ArchivePart // as of the last transaction that deleted some of them
	rows []store.OldRow
}

// take returns the rows of a kind, which are the caller's then. None: there are none.
func (a *archivedRows) take(kind store.Kind) partRows {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := a.parts[kind]
	delete(a.parts, kind)
	return taken
}

func (a *archivedRows) put(kind store.Kind, p partRows) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.parts == nil {
		a.parts = map[store.Kind]partRows{}
	}
	a.parts[kind] = p
}

// forgetArchived deletes up to f.Limit rows that are archived: of the first part of which
// rows can go. Fewer are counted as f.Limit, because another part may follow.
//
// The problem: a row may be stored with an old id after its part was made, and must not be
// deleted with it. So the rows of a part are listed in one statement, beside the writer, and
// are used only if they are as many as the part has left. Exactly these rows are deleted, and
// one that is stored later is not among them.
func (s *Store) forgetArchived(ctx context.Context, f store.DeleteOld) (int, error) {
	latest := f.Before.AddDate(0, 0, -1)
	taken := s.archived.take(f.Kind)
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
	s.archived.put(f.Kind, taken)
	return f.Limit, nil
}

// nextPart returns the first part, of a day up to the latest, of which rows can go, with these rows.
// Without rows: there is none.
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

// rowsOfPart lists the rows of a part that can go. There are none while rows are stored that
// the part does not have. Attempts wait for the bodies of their day, which have no account of
// their own.
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

// errPartChanged undoes a deletion of rows whose part was made again or changed meanwhile. The
// next call lists the rows of the parts that there are then.
var errPartChanged = errors.New("the part has changed")

// forgetOfPart deletes rows of a part in one transaction, and counts them in it. It returns the part
// as it is then.
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
