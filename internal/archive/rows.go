package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
)

// ArchiveRows archives single rows before they are deleted, because their accounts keep rows for a
// shorter time than the server. The rows are in the order of [store.CompareRows], and belong to days
// that Archive does not archive yet. ArchiveRows makes one part, with rows of the first day, and
// sleeps for as long as the work took. It returns the rows that may be deleted now, and the rows
// that are left to archive. If another node archives, all rows are left.
//
// The part has only some of the rows between its first and last id, and the day does not count
// them: the caller deletes these rows by their names ([store.ArchiveDay].Put). If a row is not
// deleted, it is archived again with its day. Nodes with other options may archive the day in
// between; then DeleteRows corrects the counts of the day.
//
// A day can have parts with remaining rows, if it was archived before the server was told to keep rows
// for longer. ArchiveRows neither archives nor returns rows of such a day, because its parts may have
// them.
func (a *Archive) ArchiveRows(ctx context.Context, kind store.Kind, rows []store.OldRow) (archived, left []store.OldRow, err error) {
	begun := time.Now()
	err = a.bounded(ctx, func(ctx context.Context) (err error) {
		archived, left, err = a.apart(ctx, kind, rows)
		return err
	})
	if errors.Is(err, errArchiving) {
		return nil, rows, nil
	}
	if err != nil {
		return nil, rows, fmt.Errorf("archive single %s: %w", kind, err)
	}
	if len(archived) > 0 {
		batch.SleepOr(ctx, time.Since(begun), nil)
	}
	return archived, left, nil
}

// apart archives rows of the first day as one part.
func (a *Archive) apart(ctx context.Context, kind store.Kind, rows []store.OldRow) (archived, left []store.OldRow, err error) {
	day := store.DayOf(rows[0].ID.Time())
	ofDay, left := cut(rows, func(r store.OldRow) bool { return !store.DayOf(r.ID.Time()).Equal(day) })
	parts, err := a.store.ArchiveParts(ctx, store.ArchiveParts{
		Kind: kind, From: day, To: day.AddDate(0, 0, 1), Announced: true, Limit: maxParts,
	})
	d := store.ArchiveDay{Day: day, Parts: parts}
	if err != nil || d.Left() > 0 {
		return nil, left, err
	}
	part, p, err := a.begin(ctx, &d, store.ArchiveRows{Kind: kind, Day: day, Only: ofDay})
	if err != nil || len(p.rows) == 0 { // the rows are deleted already
		return nil, left, err
	}
	if p.full {
		_, left = cut(rows, func(r store.OldRow) bool { return bytes.Compare(r.ID[:], p.last[:]) > 0 })
	}
	part.After = before(p.rows[0].ID)
	if part, err = a.write(ctx, part, p); err != nil {
		return nil, nil, err
	}
	return p.rows, left, a.note(ctx, &d, part)
}

// cut splits rows before the first row for which beyond returns true.
func cut(rows []store.OldRow, beyond func(store.OldRow) bool) (before, after []store.OldRow) {
	if i := slices.IndexFunc(rows, beyond); i >= 0 {
		return rows[:i], rows[i:]
	}
	return rows, nil
}

// maxParts is larger than the number of parts of a kind and day.
const maxParts = 1 << 20

// before returns the largest id that is smaller than id.
func before(id store.RowID) store.RowID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]--; id[i] != 0xff {
			break
		}
	}
	return id
}
