package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Only the statements of this file read and write the table archive_parts. [store.ArchiveDay] decides
// what is written. The column deleted is Rows without Left.

// All walk the primary key. A part is changed only if it is as it was read: a node of an earlier
// version changes parts without the lock of ChangeDay.
const (
	partsSQL = `
	select kind, day, number, object, row_count, row_count - deleted, bytes, sha256, after, last, made_at
	from archive_parts`
	partsOfDaySQL = partsSQL + `
	where kind = @kind and day = @day and number >= @least and number <= @most
	order by number`
	partsLeftSQL = partsSQL + `
	where kind = @kind and day <= @latest and deleted < row_count
	order by day, number`
	insertPartSQL = `
	insert into archive_parts (kind, day, number, object, row_count, deleted, bytes, sha256, after, last, made_at)
	values (@kind, @day, @number, @object, @rows, @deleted, @bytes, @sha256, @after, @last, @made_at)
	on conflict do nothing`
	updatePartSQL = `
	update archive_parts
	set object = @object, row_count = @rows, deleted = @deleted, bytes = @bytes, sha256 = @sha256, after = @after, last = @last,
		made_at = @made_at` + samePart
	deletePartSQL = `delete from archive_parts` + samePart

	samePart = `
	where kind = @kind and day = @day and number = @number and object = @old_object and row_count = @old_rows and deleted = @old_deleted`
)

func scanPart(row Row, p *store.ArchivePart) error {
	return row.Scan(&p.Kind, &p.Day, &p.Number, &p.Object, &p.Rows, &p.Left, &p.Bytes, &p.SHA256, &p.After, &p.Last, &p.MadeAt)
}

// partArgs are the arguments that make one part of another.
func partArgs(p, old store.ArchivePart) Args {
	return Args{
		"kind": p.Kind, "day": p.Day, "number": p.Number, "object": p.Object, "rows": p.Rows, "deleted": p.Rows - p.Left, "bytes": p.Bytes,
		"sha256": p.SHA256, "after": p.After, "last": p.Last, "made_at": p.MadeAt,
		"old_object": old.Object, "old_rows": old.Rows, "old_deleted": old.Rows - old.Left,
	}
}

// PartsOf names the parts of a day.
type PartsOf struct {
	Kind   store.Kind
	Day    time.Time
	Number int // of the only part that is looked at; 0: all are
}

// ReadDay reads parts of a day. It does not count the rows that are stored.
func ReadDay(ctx context.Context, db Querier, of PartsOf) (store.ArchiveDay, error) {
	parts, err := all(ctx, db, Query{partsOfDaySQL, Args{
		"kind": of.Kind, "day": of.Day, "least": of.Number, "most": cmp.Or(of.Number, math.MaxInt32),
	}}, scanPart)
	return store.ArchiveDay{Day: of.Day, Parts: parts}, err
}

// PartsLeft reads the parts of days up to the latest of which rows are left, in their order.
func PartsLeft(ctx context.Context, db Querier, kind store.Kind, latest time.Time) ([]store.ArchivePart, error) {
	return all(ctx, db, Query{partsLeftSQL, Args{"kind": kind, "latest": latest}}, scanPart)
}

// LockDay keeps other transactions from changing the parts of a day until this one ends.
func LockDay(ctx context.Context, tx Tx, of PartsOf) error {
	return tx.Lock(ctx, "archive "+string(of.Kind), firstID[[16]byte](of.Day))
}

// ChangeDay has change change parts of a day, and stores those that have changed. Another
// transaction that changes the day waits for the end of this one.
func ChangeDay(ctx context.Context, tx Tx, of PartsOf, change func(*store.ArchiveDay) error) error {
	if err := LockDay(ctx, tx, of); err != nil {
		return err
	}
	day, err := ReadDay(ctx, tx, of)
	if err != nil {
		return err
	}
	old := map[int]store.ArchivePart{}
	for _, p := range day.Parts {
		old[p.Number] = p
	}
	if err := change(&day); err != nil {
		return err
	}
	var inserts, updates, deletes []Args
	for _, p := range day.Parts {
		was, known := old[p.Number]
		switch args := partArgs(p, was); {
		case !known:
			inserts = append(inserts, args)
		case was != p:
			updates = append(updates, args)
		}
		delete(old, p.Number)
	}
	for _, p := range old {
		deletes = append(deletes, partArgs(p, p))
	}
	for statement, rows := range map[string][]Args{insertPartSQL: inserts, updatePartSQL: updates, deletePartSQL: deletes} {
		if n, err := tx.ExecAll(ctx, statement, rows); err != nil {
			return err
		} else if n != int64(len(rows)) {
			return fmt.Errorf("%w: another node has changed a part of %s", postrider.ErrConflict, of.Day.Format(time.DateOnly))
		}
	}
	return nil
}

// CountRemoved counts rows that an expunge, DeleteRows or a DeleteOld without an archive has deleted. All transactions lock days in
// the same order.
func CountRemoved(ctx context.Context, tx Tx, kind store.Kind, rows []store.RowID) error {
	if kind == store.OldKeys { // they are not archived
		return nil
	}
	days := map[time.Time][]store.RowID{}
	for _, id := range rows {
		day := store.DayOf(id.Time())
		days[day] = append(days[day], id)
	}
	for _, day := range slices.SortedFunc(maps.Keys(days), time.Time.Compare) {
		err := ChangeDay(ctx, tx, PartsOf{Kind: kind, Day: day}, func(d *store.ArchiveDay) error {
			for _, id := range days[day] {
				d.Removed(id)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
