package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// One row, which the first call makes.
const leaseArchiveSQL = `
	insert into archive_lease (node, until, single)
	values (@node, @until, true)
	on conflict (single) do update set node = excluded.node, until = excluded.until
	where archive_lease.node = excluded.node or archive_lease.until <= @now`

// LeaseArchive leases the right to archive; see [store.Archive].
func (v Verbs) LeaseArchive(ctx context.Context, node uint64, d time.Duration) (leased bool, err error) {
	defer v.calls.Begin("LeaseArchive").End(&err, "lease the archive")
	err = v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		n, err := tx.Exec(ctx, Query{leaseArchiveSQL, Args{"node": node, "now": tx.Now(), "until": tx.Now().Add(d)}})
		leased = n > 0
		return err
	})
	return leased, err
}

// PartColumns are the columns of a part, in the order of [ScanPart].
const PartColumns = `kind, day, number, object, row_count, deleted, bytes, sha256, after, last, made_at`

// ScanPart reads the columns of a part.
func ScanPart(row Row, p *store.ArchivePart) error {
	return row.Scan(&p.Kind, &p.Day, &p.Number, &p.Object, &p.Rows, &p.Deleted, &p.Bytes, &p.SHA256, &p.After, &p.Last, &p.MadeAt)
}

// Walks the primary key.
const partsOfDaySQL = `
	select ` + PartColumns + `
	from archive_parts
	where kind = @kind and day = @day
	order by number`

// ReadParts reads the parts of a day that are not deleted, and the number of the next one.
func ReadParts(ctx context.Context, db Querier, kind store.Kind, day *store.ArchiveDay) error {
	parts, err := all(ctx, db, Query{partsOfDaySQL, Args{"kind": kind, "day": day.Day}}, ScanPart)
	day.Next = 1
	for _, p := range parts {
		day.Next = p.Number + 1
		if p.Deleted < p.Rows {
			day.Parts = append(day.Parts, p)
		}
	}
	return err
}

// A part is stored if it is the next one of its day, and the rows that are left of others end at
// @follows. Of two at once, the primary key keeps the first.
const putPartSQL = `
	insert into archive_parts (kind, day, number, object, row_count, deleted, bytes, sha256, after, last, made_at)
	select @kind, @day, @number, @object, @rows, @deleted, @bytes, @sha256, @after, @last, @made_at
	where @number::int = 1 + coalesce((select max(p.number) from archive_parts p where p.kind = @kind and p.day = @day), 0)
		and @follows::uuid = coalesce((
			select p.last
			from archive_parts p
			where p.kind = @kind and p.day = @day and p.deleted < p.row_count
			order by p.number desc
			limit 1), @zero::uuid)
	on conflict do nothing`

// PutArchivePart records a part; see [store.Archive].
func (v Verbs) PutArchivePart(ctx context.Context, p store.ArchivePart) (err error) {
	defer v.calls.Begin("PutArchivePart").End(&err, "put archive part")
	n, err := v.db.Exec(ctx, Once, Query{putPartSQL, Args{
		"kind": p.Kind, "day": p.Day, "number": p.Number, "object": p.Object, "rows": p.Rows, "deleted": p.Deleted, "bytes": p.Bytes,
		"sha256": p.SHA256, "after": p.After, "last": p.Last, "made_at": p.MadeAt, "follows": p.Follows(), "zero": store.RowID{},
	}})
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: another part is recorded", postrider.ErrConflict)
	}
	return err
}

// Both walk the primary key.
const (
	forgetPartsSQL = `
	delete from archive_parts
	where kind = @kind and day = @day and deleted = 0
	returning ` + PartColumns
	endPartsSQL = `update archive_parts set row_count = deleted where kind = @kind and day = @day and deleted < row_count`
)

// RedoArchiveDay forgets parts of a day; see [store.Archive].
func (v Verbs) RedoArchiveDay(ctx context.Context, kind store.Kind, day time.Time) (forgotten []store.ArchivePart, err error) {
	defer v.calls.Begin("RedoArchiveDay").End(&err, "archive a day again")
	args := Args{"kind": kind, "day": day}
	err = v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		if forgotten, err = all(ctx, tx, Query{forgetPartsSQL, args}, ScanPart); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, Query{endPartsSQL, args})
		return err
	})
	slices.SortFunc(forgotten, func(a, b store.ArchivePart) int { return cmp.Compare(a.Number, b.Number) })
	return forgotten, err
}

const archivePartsSQL = `
	select ` + PartColumns + `
	from archive_parts`

// ArchiveParts lists parts; see [store.Archive]. Walks the primary key.
func (v Verbs) ArchiveParts(ctx context.Context, q store.ArchiveParts) (_ []store.ArchivePart, err error) {
	defer v.calls.Begin("ArchiveParts").End(&err, "list archive parts")
	l := newList(v.db, archivePartsSQL, "kind, day, number", q.Limit)
	l.and("(kind, day, number) > (@kind_after::text, @day_after::timestamptz, @number_after::int)", Args{
		"kind_after": q.After.Kind, "day_after": cmp.Or(q.After.Day, time.Unix(0, 0)), "number_after": q.After.Number,
	})
	if q.Kind != "" {
		l.and("kind = @kind", Args{"kind": q.Kind})
	}
	if !q.From.IsZero() {
		l.and("day >= @from", Args{"from": q.From})
	}
	if !q.To.IsZero() {
		l.and("day < @to", Args{"to": q.To})
	}
	return all(ctx, v.db, l.query(), ScanPart)
}

// All walk the primary key.
const (
	archiveKeySQL       = `select encrypted from archive_keys where account = @account`
	putArchiveKeySQL    = `insert into archive_keys (account, encrypted) values (@account, @encrypted) on conflict (account) do nothing`
	deleteArchiveKeySQL = `delete from archive_keys where account = @account`
)

// ArchiveKey returns the key of an account's archives; see [store.Archive].
func (v Verbs) ArchiveKey(ctx context.Context, account postrider.AccountID) (_ []byte, err error) {
	defer v.calls.Begin("ArchiveKey").End(&err, "read archive key")
	key, err := archiveKey(ctx, v.db, account)
	return key, err
}

func archiveKey(ctx context.Context, db Querier, account postrider.AccountID) ([]byte, error) {
	return one(ctx, db, Query{archiveKeySQL, Args{"account": account}}, func(row Row, key *[]byte) error { return row.Scan(key) })
}

// PutArchiveKey stores the first key of an account's archives; see [store.Archive]. It reads
// after the insert has waited for a concurrent one.
func (v Verbs) PutArchiveKey(ctx context.Context, account postrider.AccountID, encrypted []byte) (stored []byte, err error) {
	defer v.calls.Begin("PutArchiveKey").End(&err, "put archive key")
	err = v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		if _, err := tx.Exec(ctx, Query{putArchiveKeySQL, Args{"account": account, "encrypted": encrypted}}); err != nil {
			return err
		}
		stored, err = archiveKey(ctx, tx, account)
		return err
	})
	return stored, err
}

// DeleteArchiveKey deletes the key of an account's archives; see [store.Archive].
func (v Verbs) DeleteArchiveKey(ctx context.Context, account postrider.AccountID) (deleted bool, err error) {
	defer v.calls.Begin("DeleteArchiveKey").End(&err, "delete archive key")
	n, err := v.db.Exec(ctx, Once, Query{deleteArchiveKeySQL, Args{"account": account}})
	return n > 0, err
}
