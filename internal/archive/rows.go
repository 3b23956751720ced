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

// ArchiveRows archives rows that are about to be deleted one by one: those of accounts that keep
// less than the server. rows are in the order of [store.CompareRows], and of days that Archive
// does not archive yet. It makes one part, of the first of these days. It returns which rows may
// be deleted then, and which are left to do, after it has rested as long as that took. If another
// node archives, all are left.
//
// Such a part has some of the rows of its ids, and the day does not count them: the caller deletes
// them by their names ([store.ArchiveDay].Record). A row that survives is archived twice.
//
// A day may have parts already, if the server was told to keep its rows for longer after they were
// archived. Rows of such a day are neither archived nor deleted here: its parts may have them.
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

// apart archives the first rows as a part.
func (a *Archive) apart(ctx context.Context, kind store.Kind, rows []store.OldRow) (archived, left []store.OldRow, err error) {
	day := store.DayOf(rows[0].ID.Time())
	ofDay, left := cut(rows, func(r store.OldRow) bool { return !store.DayOf(r.ID.Time()).Equal(day) })
	parts, err := a.store.ArchiveParts(ctx, store.ArchiveParts{Kind: kind, From: day, To: day.AddDate(0, 0, 1), Limit: maxParts})
	d := store.ArchiveDay{Day: day, Parts: parts}
	if err != nil || d.Left() > 0 {
		return nil, left, err
	}
	p, err := a.read(ctx, store.ArchiveRows{Kind: kind, Day: day, Only: ofDay})
	if err != nil || len(p.rows) == 0 { // they are gone
		return nil, left, err
	}
	if p.full {
		_, left = cut(rows, func(r store.OldRow) bool { return bytes.Compare(r.ID[:], p.last[:]) > 0 })
	}
	part, err := a.write(ctx, store.ArchivePart{Kind: kind, Day: day, Number: d.Next(), After: before(p.rows[0].ID)}, p)
	if err != nil {
		return nil, nil, err
	}
	return p.rows, left, a.record(ctx, &d, part)
}

// cut splits rows before the first one that is beyond the end.
func cut(rows []store.OldRow, beyond func(store.OldRow) bool) (before, after []store.OldRow) {
	if i := slices.IndexFunc(rows, beyond); i >= 0 {
		return rows[:i], rows[i:]
	}
	return rows, nil
}

// maxParts is more than the parts of a kind and day.
const maxParts = 1 << 20

// before returns the id that precedes one. With it as After, no node takes the part for one of
// all rows from the end of the last part on, and adopts it.
func before(id store.RowID) store.RowID {
	for i := len(id) - 1; i >= 0; i-- {
		if id[i]--; id[i] != 0xff {
			break
		}
	}
	return id
}
