package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// By the key of expunges.
const putExpungeSQL = `
	insert into expunges (id, event, endpoint, account, made_by, created_at)
	values (@id, @event, @endpoint, @account, @by, @created_at)
	on conflict do nothing`

// PutExpunge stores a new expunge; see [store.Expunges].
func (s *Store) PutExpunge(ctx context.Context, e postrider.Expunge) error {
	return change(ctx, s, "put expunge", func(ctx context.Context, tx *tx) error {
		return tx.exec(ctx, putExpungeSQL, sql.Named("id", blob(e.ID)), sql.Named("event", blobOrNull(e.Event)),
			sql.Named("endpoint", blobOrNull(e.Endpoint)), sql.Named("account", blob(e.Account)), sql.Named("by", e.By),
			sql.Named("created_at", micros(e.CreatedAt)))
	})
}

// Both by the key, or expunges_running, from the end.
const (
	expungeColumns = `id, event, endpoint, account, made_by, events, attempts, dead_letters, other, archived, digest, empty_since,
		archive_day, archive_done, archive_held, archive_fault, created_at, ended_at`
	expungesSQL = `
	select ` + expungeColumns + ` from expunges
	where id < @below and (@id is null or id = @id)
	order by id desc limit @limit`
	expungesRunningSQL = `
	select ` + expungeColumns + ` from expunges
	where ended_at is null and id < @below and (@id is null or id = @id)
	order by id desc limit @limit`
)

// Expunges lists expunges; see [store.Expunges].
func (s *Store) Expunges(ctx context.Context, q store.ExpungeQuery) (store.Page[postrider.Expunge], error) {
	args, err := window[postrider.ExpungeID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.Expunge]{}, err
	}
	statement := expungesSQL
	if q.Running {
		statement = expungesRunningSQL
	}
	found, err := list(ctx, s, query{statement, append(args, sql.Named("id", blobOrNull(q.ID)))}, scanExpunge)
	return store.Cut(found, q.Paging, func(e postrider.Expunge) string { return key(e.ID) }), s.explain("list expunges", err)
}

func scanExpunge(rows *sql.Rows, e *postrider.Expunge) error { return scanExpungeColumns(rows, e) }

// scanExpungeColumns reads expungeColumns.
func scanExpungeColumns(from interface{ Scan(...any) error }, e *postrider.Expunge) error {
	var digest []byte
	err := from.Scan(toID(&e.ID), toID(&e.Event), toID(&e.Endpoint), toID(&e.Account), &e.By, &e.Removed.Events, &e.Removed.Attempts,
		&e.Removed.DeadLetters, &e.Removed.Other, &e.Removed.Archived, &digest, toTime(&e.EmptySince),
		toTime(&e.Archive.Day), &e.Archive.Done, &e.Archive.Held, &e.Archive.Fault, toTime(&e.CreatedAt), toTime(&e.EndedAt))
	copy(e.Digest[:], digest)
	return err
}

// By the key of expunges.
const (
	expungeSQL       = `select ` + expungeColumns + ` from expunges where id = @id`
	updateExpungeSQL = `
	update expunges
	set events = @events, attempts = @attempts, dead_letters = @dead_letters, other = @other, digest = @digest,
		empty_since = @empty_since, ended_at = @ended_at
	where id = @id`
	noteExpungeSQL = `
	update expunges
	set archive_day = @day, archive_done = @done, archive_held = @held, archive_fault = @fault
	where id = @id and ended_at is null and empty_since is @empty_since`
)

// noteExpunge stores how far an expunge has got in the archive.
func noteExpunge(ctx context.Context, tx *tx, e postrider.Expunge) error {
	return tx.exec(ctx, noteExpungeSQL, sql.Named("id", blob(e.ID)), sql.Named("day", microsOrNull(e.Archive.Day)), sql.Named("done", e.Archive.Done),
		sql.Named("held", e.Archive.Held), sql.Named("fault", e.Archive.Fault), sql.Named("empty_since", microsOrNull(e.EmptySince)))
}

// NoteExpunge stores how far an expunge has got in the archive; see [store.Expunges].
func (s *Store) NoteExpunge(ctx context.Context, e postrider.Expunge) error {
	return change(ctx, s, "note expunge", func(ctx context.Context, tx *tx) error { return noteExpunge(ctx, tx, e) })
}

// By the keys of archive_parts and expunges.
const (
	replacePartSQL = `
	update archive_parts
	set object = @object, bytes = @bytes, sha256 = @sha256, made_at = @made_at,
		row_count = max(row_count - @fewer, 0), deleted = max(deleted - @fewer, 0)
	where kind = @kind and day = @day and number = @number and object = @old`
	forgetPartSQL    = `delete from archive_parts where kind = @kind and day = @day and number = @number and object = @old`
	countArchivedSQL = `update expunges set archived = archived + @fewer where id = @id`
)

// ReplaceArchivePart records a part in place of another; see [store.Expunges].
func (s *Store) ReplaceArchivePart(ctx context.Context, r store.ReplaceArchivePart) error {
	return change(ctx, s, "replace archive part", func(ctx context.Context, tx *tx) error {
		statement, args := forgetPartSQL, []any{
			sql.Named("kind", string(r.Part.Kind)), sql.Named("day", micros(r.Part.Day)), sql.Named("number", r.Part.Number), sql.Named("old", r.Part.Object),
		}
		if r.With.Object != "" {
			statement, args = replacePartSQL, append(args, sql.Named("object", r.With.Object), sql.Named("bytes", r.With.Bytes),
				sql.Named("sha256", r.With.SHA256[:]), sql.Named("made_at", micros(r.With.MadeAt)), sql.Named("fewer", r.Fewer))
		}
		n, err := tx.count(ctx, statement, args...)
		switch {
		case err != nil:
			return err
		case n == 0:
			return fmt.Errorf("%w: another object is recorded", postrider.ErrConflict)
		}
		return tx.exec(ctx, countArchivedSQL, sql.Named("fewer", r.Fewer), sql.Named("id", blob(r.Expunge)))
	})
}

// ExpungeRows removes rows of what an expunge is about; see [store.Expunges].
func (s *Store) ExpungeRows(ctx context.Context, r store.ExpungeRows) (e postrider.Expunge, err error) {
	err = changeInBulk(ctx, s, "expunge", func(ctx context.Context, tx *tx) error {
		e = postrider.Expunge{}
		err := scanExpungeColumns(tx.row(ctx, expungeSQL, sql.Named("id", blob(r.ID))), &e)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return postrider.ErrNotFound
		case err != nil || !e.EndedAt.IsZero():
			return err
		}
		x := expunging{tx: tx, ExpungePlan: store.PlanExpunge(e), expunge: &e, left: r.Limit}
		removed, err := x.run(ctx)
		if err != nil {
			return err
		}
		var waits bool
		if removed.Total() == 0 {
			if err := tx.row(ctx, `select exists (`+x.Waits+`)`, x.object()).Scan(&waits); err != nil {
				return err
			}
		}
		e.Found(removed, waits, tx.wall, r.Settled)
		err = tx.exec(ctx, updateExpungeSQL, sql.Named("id", blob(r.ID)), sql.Named("events", e.Removed.Events),
			sql.Named("attempts", e.Removed.Attempts), sql.Named("dead_letters", e.Removed.DeadLetters), sql.Named("other", e.Removed.Other),
			sql.Named("digest", e.Digest[:]), sql.Named("empty_since", microsOrNull(e.EmptySince)), sql.Named("ended_at", microsOrNull(e.EndedAt)))
		if err != nil || !e.EndedAt.IsZero() {
			return err
		}
		return noteExpunge(ctx, tx, e)
	})
	return e, err
}

// expunging is one chunk of an expunge.
type expunging struct {
	store.ExpungePlan

	tx      *tx
	expunge *postrider.Expunge
	left    int // rows that the chunk may still remove
}

func (x *expunging) object() any { return sql.Named("object", blob(x.Object)) }

// run removes rows until the chunk is full.
func (x *expunging) run(ctx context.Context) (removed postrider.ExpungeCounts, err error) {
	took := func(counter *int, n int, err error) bool {
		*counter += n
		x.left -= n
		return err == nil && x.left > 0
	}
	n, err := x.attempts(ctx)
	if !took(&removed.Attempts, n, err) {
		return removed, err
	}
	for _, step := range x.Steps {
		n, err := x.tx.count(ctx, `delete from `+step.Table+` where (`+step.Key+`) in (select `+step.Key+` from `+step.Table+
			` where `+step.Where+` limit @limit)`, x.object(), sql.Named("name", x.Name), sql.Named("limit", x.left))
		if !took(step.Count(&removed), int(n), err) {
			return removed, err
		}
	}
	if x.Events != "" {
		n, err = x.events(ctx)
		if !took(&removed.Events, n, err) {
			return removed, err
		}
	}
	policy, err := store.EncodePolicy(postrider.DefaultPolicy())
	if err != nil {
		return removed, err
	}
	for _, statement := range x.Blank {
		n, err := x.tx.count(ctx, statement, x.object(), sql.Named("policy", string(policy)), sql.Named("no_types", "[]"))
		if !took(&removed.Other, int(n), err) {
			return removed, err
		}
	}
	return removed, nil
}

// expungeBodySQL deletes by the key of attempt_bodies.
const expungeBodySQL = `delete from attempt_bodies where delivery = @delivery and number = @number`

// attempts removes attempts with their heads and bodies.
func (x *expunging) attempts(ctx context.Context) (int, error) {
	type attempt struct {
		delivery postrider.DeliveryID
		number   int
	}
	rows, err := x.tx.query(ctx, `delete from attempts where (delivery, number) in (select delivery, number from attempts where `+
		x.Attempts+` limit @limit) returning delivery, number`, x.object(), sql.Named("limit", x.left))
	if err != nil {
		return 0, err
	}
	removed, err := collect(rows, func(rows *sql.Rows, a *attempt) error { return rows.Scan(toID(&a.delivery), &a.number) })
	if err != nil {
		return 0, err
	}
	for _, a := range removed {
		bodies, err := x.tx.count(ctx, expungeBodySQL, sql.Named("delivery", blob(a.delivery)), sql.Named("number", a.number))
		if err == nil && bodies > 0 {
			err = x.countInPart(ctx, store.OldBodies, store.RowID(a.delivery))
		}
		if err == nil {
			err = x.countInPart(ctx, store.OldAttempts, store.RowID(a.delivery))
		}
		if err != nil {
			return 0, err
		}
	}
	return len(removed), nil
}

// By the key of archive_parts. Of the parts of a day, at most one that is not deleted has an id.
const countExpungedSQL = `
	update archive_parts set deleted = deleted + 1
	where kind = @kind and day = @day and after < @id and last >= @id and deleted < row_count`

// countInPart counts a row that was removed as deleted, if a part of the archive has it:
// otherwise rows that are added later could stand for it, and be deleted without a copy.
func (x *expunging) countInPart(ctx context.Context, kind store.Kind, id store.RowID) error {
	return x.tx.exec(ctx, countExpungedSQL, sql.Named("kind", string(kind)), sql.Named("day", micros(store.DayOf(id.Time()))), sql.Named("id", blob(id)))
}

// By the keys of idempotency_keys and ordering_keys.
const (
	expungeKeySQL      = `delete from idempotency_keys where key = @key and account = @account and event = @event`
	expungeSequenceSQL = `delete from ordering_keys where ordering_key = @key and account = @account`
)

// events removes events with their idempotency keys, and with those of an account their
// ordering keys. The digest has them in the order of their ids.
func (x *expunging) events(ctx context.Context) (int, error) {
	rows, err := x.tx.query(ctx, `select id, data, coalesce(idempotency_key, ''), ordering_key from events where `+x.Events+
		` order by id limit @limit`, x.object(), sql.Named("limit", x.left))
	if err != nil {
		return 0, err
	}
	found, err := collect(rows, func(rows *sql.Rows, e *postrider.Event) error {
		return rows.Scan(toID(&e.ID), &e.Data, &e.IdempotencyKey, &e.OrderingKey)
	})
	if err != nil {
		return 0, err
	}
	account := sql.Named("account", blob(x.expunge.Account))
	for _, e := range found {
		err := x.tx.exec(ctx, `delete from events where id = @id`, sql.Named("id", blob(e.ID)))
		if err == nil {
			err = x.countInPart(ctx, store.OldEvents, store.RowID(e.ID))
		}
		if err == nil && e.IdempotencyKey != "" {
			err = x.tx.exec(ctx, expungeKeySQL, sql.Named("key", e.IdempotencyKey), account, sql.Named("event", blob(e.ID)))
		}
		if err == nil && e.OrderingKey != "" && x.expunge.Event.IsZero() {
			err = x.tx.exec(ctx, expungeSequenceSQL, sql.Named("key", e.OrderingKey), account)
		}
		if err != nil {
			return 0, fmt.Errorf("event %s: %w", e.ID, err)
		}
		x.expunge.Digest.Add(e.ID, e.Data)
	}
	return len(found), nil
}
