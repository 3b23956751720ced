package sqlstore

import (
	"cmp"
	"context"
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

// PutArchivePart announces or records a part; see [store.Archive].
func (v Verbs) PutArchivePart(ctx context.Context, p store.ArchivePart) (err error) {
	defer v.calls.Begin("PutArchivePart").End(&err, "put archive part")
	return v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		return ChangeDay(ctx, tx, PartsOf{Kind: p.Kind, Day: p.Day}, func(d *store.ArchiveDay) error { return d.Put(p) })
	})
}

// RedoArchiveDay forgets parts of a day; see [store.Archive].
func (v Verbs) RedoArchiveDay(ctx context.Context, kind store.Kind, day time.Time) (forgotten []store.ArchivePart, err error) {
	defer v.calls.Begin("RedoArchiveDay").End(&err, "archive a day again")
	err = v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		return ChangeDay(ctx, tx, PartsOf{Kind: kind, Day: day}, func(d *store.ArchiveDay) error {
			forgotten = d.Redo()
			return nil
		})
	})
	return forgotten, err
}

// ArchiveParts lists parts; see [store.Archive]. Walks the primary key.
func (v Verbs) ArchiveParts(ctx context.Context, q store.ArchiveParts) (_ []store.ArchivePart, err error) {
	defer v.calls.Begin("ArchiveParts").End(&err, "list archive parts")
	l := newList(v.db, partsSQL, "kind, day, number", q.Limit)
	l.and("(kind, day, number) > (@kind_after::text, @day_after::timestamptz, @number_after::int)", Args{
		"kind_after": q.After.Kind, "day_after": cmp.Or(q.After.Day, time.Unix(0, 0)), "number_after": q.After.Number,
	})
	if !q.Announced {
		l.and("bytes > 0", nil)
	}
	if q.Kind != "" {
		l.and("kind = @kind", Args{"kind": q.Kind})
	}
	if !q.From.IsZero() {
		l.and("day >= @from", Args{"from": q.From})
	}
	if !q.To.IsZero() {
		l.and("day < @to", Args{"to": q.To})
	}
	return all(ctx, v.db, l.query(), scanPart)
}

// All walk the primary key.
const (
	archiveKeySQL       = `select encrypted from archive_keys where account = @account`
	putArchiveKeySQL    = `insert into archive_keys (account, encrypted) values (@account, @encrypted) on conflict (account) do nothing`
	deleteArchiveKeySQL = `delete from archive_keys where account = @account`
)

// ArchiveKey returns the key of an account's archives; see [store.ArchiveKeys].
func (v Verbs) ArchiveKey(ctx context.Context, account postrider.AccountID) (_ []byte, err error) {
	defer v.calls.Begin("ArchiveKey").End(&err, "read archive key")
	key, err := archiveKey(ctx, v.db, account)
	return key, err
}

func archiveKey(ctx context.Context, db Querier, account postrider.AccountID) ([]byte, error) {
	return one(ctx, db, Query{archiveKeySQL, Args{"account": account}}, func(row Row, key *[]byte) error { return row.Scan(key) })
}

// PutArchiveKey stores the first key of an account's archives; see [store.ArchiveKeys]. It reads
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

// DeleteArchiveKey deletes the key of an account's archives; see [store.ArchiveKeys].
func (v Verbs) DeleteArchiveKey(ctx context.Context, account postrider.AccountID) (deleted bool, err error) {
	defer v.calls.Begin("DeleteArchiveKey").End(&err, "delete archive key")
	n, err := v.db.Exec(ctx, Once, Query{deleteArchiveKeySQL, Args{"account": account}})
	return n > 0, err
}
