package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider/internal/store"
)

// The parts of days that ended before a time, of which rows are left. By the key of
// archive_parts.
const deletablePartsSQL = `
	select ` + partsColumns + ` from archive_parts
	where kind = @kind and day <= @latest and deleted < row_count
	order by day, number`

// Deletes rows that a part has, from the least on. By the keys of attempts and
// attempt_bodies.
const (
	deleteArchivedAttemptsSQL = `
	delete from attempts where (delivery, number) in (
		select delivery, number from attempts` + ofDelivery + ` order by delivery, number limit @limit)`
	deleteArchivedBodiesSQL = `
	delete from attempt_bodies where (delivery, number) in (
		select delivery, number from attempt_bodies` + ofDelivery + ` order by delivery, number limit @limit)`
)

// Finds events of a part that nothing needs. Like forgottenEventsSQL.
const deletableEventsSQL = `
	select id from events` + ofEventIDs + unneededSQL + `
	order by id limit @limit`

const countDeletedSQL = `
	update archive_parts set deleted = deleted + @n where kind = @kind and day = @day and number = @number`

// forgetArchived deletes up to f.Limit rows that are archived: of the first part of which
// rows can go. The rows of the part are counted in the transaction that deletes them: a row
// that was stored after the part was made is never deleted with it.
func (s *Store) forgetArchived(ctx context.Context, doing string, f store.DeleteOld) (int, error) {
	parts, err := list(ctx, s, query{deletablePartsSQL, []any{
		sql.Named("kind", string(f.Kind)), sql.Named("latest", micros(f.Before.AddDate(0, 0, -1))),
	}}, scanPart)
	if err != nil {
		return 0, s.explain(doing, err)
	}
	for _, p := range parts {
		n, err := s.forgetPart(ctx, doing, p, f)
		if err != nil || n > 0 {
			return n, err
		}
	}
	return 0, nil
}

// forgetPart deletes rows of a part. Fewer than f.Limit are counted as f.Limit, because
// another part may follow.
func (s *Store) forgetPart(ctx context.Context, doing string, p store.ArchivePart, f store.DeleteOld) (int, error) {
	ids := idsOf(p.Day, p.After, p.Last)
	var unneeded []store.RowID
	if f.Kind == store.OldEvents { // found beside the writer: it steps over the events that stay
		var err error
		unneeded, err = list(ctx, s, query{deletableEventsSQL, append(ids[:4:4], sql.Named("limit", f.Limit))},
			func(rows *sql.Rows, id *store.RowID) error { return rows.Scan(toID(id)) })
		if err != nil || len(unneeded) == 0 {
			return 0, s.explain(doing, err)
		}
	}
	n, err := writeInBulk(ctx, s, doing, func(ctx context.Context, tx *tx) (_ int, err error) {
		var n int64
		if ok, err := isArchived(ctx, tx, p); err != nil || !ok {
			return 0, err
		}
		limited := append(ids[:4:4], sql.Named("limit", f.Limit))
		if f.Kind == store.OldAttempts {
			n, err = tx.count(ctx, deleteArchivedAttemptsSQL, limited...)
		}
		if f.Kind == store.OldBodies {
			n, err = tx.count(ctx, deleteArchivedBodiesSQL, limited...)
		}
		for _, id := range unneeded {
			deleted, err := tx.count(ctx, forgetEventSQL, sql.Named("id", blob(id)))
			if err != nil {
				return 0, err
			}
			n += deleted
		}
		if err != nil || n == 0 {
			return 0, err
		}
		return int(n), tx.exec(ctx, countDeletedSQL, sql.Named("n", n), sql.Named("kind", string(p.Kind)),
			sql.Named("day", micros(p.Day)), sql.Named("number", p.Number))
	})
	if err != nil || n == 0 {
		return 0, err
	}
	return f.Limit, nil
}

// isArchived reports whether the part has all rows that are stored of its ids. Attempts wait
// for the bodies of their day.
func isArchived(ctx context.Context, tx *tx, p store.ArchivePart) (bool, error) {
	var stored, bodies int64
	if err := tx.row(ctx, archivedKinds[p.Kind].count, idsOf(p.Day, p.After, p.Last)...).Scan(&stored); err != nil {
		return false, err
	}
	if p.Kind == store.OldAttempts {
		if err := tx.row(ctx, countBodiesSQL, idsOf(p.Day, store.RowID{}, last)...).Scan(&bodies); err != nil {
			return false, err
		}
	}
	var expected int64
	err := tx.row(ctx, leftOfPartSQL, sql.Named("kind", string(p.Kind)), sql.Named("day", micros(p.Day)), sql.Named("number", p.Number)).Scan(&expected)
	return err == nil && stored == expected && bodies == 0, err
}

// Read in the transaction: the part may have been archived again since it was listed. By the
// key of archive_parts.
const leftOfPartSQL = `
	select coalesce(max(row_count - deleted), -1) from archive_parts where kind = @kind and day = @day and number = @number`
