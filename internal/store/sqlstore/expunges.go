package sqlstore

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A repeat finds the row of the first try.
const putExpungeSQL = `
	insert into expunges (id, event, endpoint, account, made_by, created_at)
	values (@id, @event, @endpoint, @account, @by, @created_at)
	on conflict (id) do nothing`

// PutExpunge stores a new expunge; see [store.Expunges].
func (v Verbs) PutExpunge(ctx context.Context, e postrider.Expunge) (err error) {
	defer v.calls.Begin("PutExpunge").End(&err, "put expunge %s", e.ID)
	return v.exec(ctx, Repeatable, Query{putExpungeSQL, Args{
		"id": e.ID, "event": OrNull(e.Event), "endpoint": OrNull(e.Endpoint), "account": e.Account, "by": e.By, "created_at": e.CreatedAt,
	}})
}

const (
	expungesSQL = `
	select id, event, endpoint, account, made_by, events, attempts, dead_letters, terms, subscriptions, other, archived, digest, empty_since,
		archive_day, archive_done, archive_held, archive_fault, outbox_uid, outbox_rows, outbox_fault, created_at, ended_at
	from expunges`

	runningExpungesSQL = expungesSQL + ` /* indexed by expunges_running */`
)

func scanExpunge(row Row, e *postrider.Expunge) error {
	removed, archive := &e.Removed, &e.Archive
	return row.Scan(&e.ID, &e.Event, &e.Endpoint, &e.Account, &e.By, &removed.Events, &removed.Attempts, &removed.DeadLetters,
		&removed.Terms, &removed.Subscriptions, &removed.Other, &removed.Archived, &e.Digest, &e.EmptySince,
		&archive.Day, &archive.Done, &archive.Held, &archive.Fault, &e.Outbox.UID, &e.Outbox.Removed, &e.Outbox.Fault, &e.CreatedAt, &e.EndedAt)
}

// Expunges lists expunges, newest first; see [store.Expunges].
func (v Verbs) Expunges(ctx context.Context, q store.ExpungeQuery) (page store.Page[postrider.Expunge], err error) {
	defer v.calls.Begin("Expunges").End(&err, "list expunges")
	rows := expungesSQL
	if q.Running {
		rows = runningExpungesSQL
	}
	l, err := listOf[postrider.ExpungeID](v.db, rows, store.Span{}, q.Paging)
	if err != nil {
		return page, err
	}
	by(l, "id", q.ID)
	if q.Running {
		l.and("ended_at is null", nil)
	}
	return pageOf(ctx, l, scanExpunge, func(e *postrider.Expunge) postrider.ExpungeID { return e.ID })
}

// All walk the primary key. The lock has another node wait for its chunk.
const (
	lockExpungeSQL = expungesSQL + `
	where id = @id
	for update`
	updateExpungeSQL = `
	update expunges
	set events = @events, attempts = @attempts, dead_letters = @dead_letters, terms = @terms, subscriptions = @subscriptions, other = @other,
		digest = @digest, empty_since = @empty_since, ended_at = @ended_at, outbox_uid = @outbox_uid
	where id = @id`
	noteExpungeSQL = `
	update expunges
	set archive_day = @day, archive_done = @done, archive_held = @held, archive_fault = @fault
	where id = @id and ended_at is null and empty_since is not distinct from @empty_since`
	noteOutboxSQL = `
	update expunges
	set outbox_uid = case when @uid = '' then outbox_uid else @uid end, outbox_rows = outbox_rows + @rows, outbox_fault = @fault
	where id = @id and ended_at is null`
	countArchivedSQL = `update expunges set archived = archived + @fewer where id = @id`
)

// noteExpunge returns the query that stores how far an expunge has got in the archive.
func noteExpunge(e postrider.Expunge) Query {
	return Query{noteExpungeSQL, Args{
		"id": e.ID, "day": e.Archive.Day, "done": e.Archive.Done, "held": e.Archive.Held, "fault": e.Archive.Fault, "empty_since": e.EmptySince,
	}}
}

// NoteExpunge stores how far an expunge has got in the archive; see [store.Expunges].
func (v Verbs) NoteExpunge(ctx context.Context, e postrider.Expunge) (err error) {
	defer v.calls.Begin("NoteExpunge").End(&err, "note expunge %s", e.ID)
	return v.exec(ctx, Repeatable, noteExpunge(e))
}

// NoteOutbox stores what an expunge has done in the outboxes of producers; see [store.Expunges].
func (v Verbs) NoteOutbox(ctx context.Context, id postrider.ExpungeID, o postrider.ExpungeOutbox) (err error) {
	defer v.calls.Begin("NoteOutbox").End(&err, "note expunge %s", id)
	return v.exec(ctx, Once, Query{noteOutboxSQL, Args{"id": id, "uid": o.UID, "rows": o.Removed, "fault": o.Fault}})
}

// ExpungeRows removes rows of what an expunge is about; see [store.Expunges]. It is not repeated when
// its fate is unknown: the next call goes on from what is stored.
func (v Verbs) ExpungeRows(ctx context.Context, r store.ExpungeRows) (e postrider.Expunge, err error) {
	defer v.calls.Begin("ExpungeRows").End(&err, "expunge %s", r.ID)
	e, keys, err := v.expungeChunk(ctx, r, nil)
	if err != nil || !keys {
		return e, err
	}
	removed, err := v.expungeKeys(ctx, e, r.Limit)
	if err != nil {
		return e, err
	}
	e, _, err = v.expungeChunk(ctx, r, &removed)
	return e, err
}

// expungeChunk removes rows in one transaction. removed is the number of rows that expungeKeys has removed
// before. If it is nil, and the chunk is the first one that finds no row, expungeChunk stores nothing, and
// reports that expungeKeys is next.
func (v Verbs) expungeChunk(ctx context.Context, r store.ExpungeRows, removed *int) (e postrider.Expunge, keys bool, err error) {
	err = v.db.Change(ctx, Bulk, func(ctx context.Context, tx Tx) error {
		keys = false
		e, err = one(ctx, tx, Query{lockExpungeSQL, Args{"id": r.ID}}, scanExpunge)
		if err != nil || !e.EndedAt.IsZero() {
			return err
		}
		x := expunging{expungePlan: planExpunge(e), tx: tx, eventTables: v.db.EventTables(), expunge: &e, left: r.Limit}
		if err := x.run(ctx); err != nil {
			return err
		}
		if removed != nil {
			x.removed.Other += *removed
		}
		var waits bool
		if x.removed.Total() == 0 {
			waits, err = one(ctx, tx, Query{`select exists (` + x.waits + `)`, Args{"object": x.object}},
				func(row Row, waits *bool) error { return row.Scan(waits) })
			if err != nil {
				return err
			}
		}
		if keys = removed == nil && x.events != "" && x.removed.Total() == 0 && !waits && e.EmptySince.IsZero(); keys {
			return nil
		}
		e.Found(x.removed, waits, tx.Wall(), r.Settled)
		return putExpunged(ctx, tx, e)
	})
	return e, keys, err
}

// putExpunged stores what an expunge has removed.
func putExpunged(ctx context.Context, tx Tx, e postrider.Expunge) error {
	_, err := tx.Exec(ctx, Query{updateExpungeSQL, Args{
		"id": e.ID, "events": e.Removed.Events, "attempts": e.Removed.Attempts, "dead_letters": e.Removed.DeadLetters,
		"terms": e.Removed.Terms, "subscriptions": e.Removed.Subscriptions, "other": e.Removed.Other, "digest": e.Digest,
		"empty_since": e.EmptySince, "ended_at": e.EndedAt, "outbox_uid": e.Outbox.UID,
	}})
	if err == nil && e.EndedAt.IsZero() {
		_, err = tx.Exec(ctx, noteExpunge(e))
	}
	return err
}

// ReplaceArchivePart records an object in place of a part's; see [store.Archive]. It is not repeated
// when its fate is unknown: the next look finds which object is recorded. The expunge is locked
// before the day, as ExpungeRows does.
func (v Verbs) ReplaceArchivePart(ctx context.Context, r store.ReplaceArchivePart) (err error) {
	defer v.calls.Begin("ReplaceArchivePart").End(&err, "replace archive part")
	return v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		if _, err := tx.Exec(ctx, Query{countArchivedSQL, Args{"fewer": r.Fewer, "id": r.Expunge}}); err != nil {
			return err
		}
		return ChangeDay(ctx, tx, PartsOf{Kind: r.Part.Kind, Day: r.Part.Day}, func(d *store.ArchiveDay) error { return d.Replace(r) })
	})
}
