package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A repeat finds the row of the first try.
const putExpungeSQL = `
	insert into expunges (id, event, endpoint, account, made_by, created_at)
	values (@id, @event, @endpoint, @account, @by, @created_at)
	on conflict (id) do nothing`

// PutExpunge stores a new expunge.
func (s *Store) PutExpunge(ctx context.Context, e postrider.Expunge) error {
	err := s.repeat(ctx, func(bool) error {
		_, err := s.pool.Exec(ctx, putExpungeSQL, pgx.NamedArgs{
			"id": someUUID(e.ID), "event": uuid(e.Event), "endpoint": uuid(e.Endpoint), "account": someUUID(e.Account), "by": e.By,
			"created_at": e.CreatedAt,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("put expunge %s: %w", e.ID, err)
	}
	return nil
}

// Lists expunges. Walks expunges_pkey, or expunges_running.
const expungesSQL = `
	select id, event, endpoint, account, made_by, events, attempts, dead_letters, other, archived, digest, empty_since,
		archive_day, archive_done, archive_held, archive_fault, created_at, ended_at
	from expunges
	where id < @before
		and (@id::uuid is null or id = @id)
		and (not @running::bool or ended_at is null)
	order by id desc
	limit @limit`

// Expunges lists expunges, newest first.
func (s *Store) Expunges(ctx context.Context, q store.ExpungeQuery) (store.Page[postrider.Expunge], error) {
	_, before, err := within[postrider.ExpungeID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.Expunge]{}, err
	}
	found, err := list(ctx, s, query{expungesSQL, pgx.NamedArgs{
		"before": before, "id": uuid(q.ID), "running": q.Running, "limit": q.Size() + 1,
	}}, func(row pgx.CollectableRow) (postrider.Expunge, error) { return scanExpunge(row) })
	if err != nil {
		return store.Page[postrider.Expunge]{}, fmt.Errorf("list expunges: %w", err)
	}
	return store.Cut(found, q.Paging, func(e postrider.Expunge) string { return string(e.ID[:]) }), nil
}

// scanExpunge reads the columns of an expunge.
func scanExpunge(row pgx.Row) (e postrider.Expunge, err error) {
	var digest []byte
	err = row.Scan(toID(&e.ID), toID(&e.Event), toID(&e.Endpoint), toID(&e.Account), &e.By, &e.Removed.Events, &e.Removed.Attempts,
		&e.Removed.DeadLetters, &e.Removed.Other, &e.Removed.Archived, &digest, toTime(&e.EmptySince),
		toTime(&e.Archive.Day), &e.Archive.Done, &e.Archive.Held, &e.Archive.Fault, toTime(&e.CreatedAt), toTime(&e.EndedAt))
	copy(e.Digest[:], digest)
	return e, err
}

// Both by expunges_pkey. The lock has another node wait for its chunk.
const (
	lockExpungeSQL = `
	select id, event, endpoint, account, made_by, events, attempts, dead_letters, other, archived, digest, empty_since,
		archive_day, archive_done, archive_held, archive_fault, created_at, ended_at
	from expunges
	where id = @id
	for update`
	updateExpungeSQL = `
	update expunges
	set events = @events, attempts = @attempts, dead_letters = @dead_letters, other = @other, digest = @digest,
		empty_since = @empty_since, ended_at = @ended_at
	where id = @id`
	noteExpungeSQL = `
	update expunges
	set archive_day = @day, archive_done = @done, archive_held = @held, archive_fault = @fault
	where id = @id
		and ended_at is null
		and empty_since is not distinct from @empty_since`
)

// noted returns the parameters of noteExpungeSQL.
func noted(e postrider.Expunge) pgx.NamedArgs {
	return pgx.NamedArgs{
		"id": someUUID(e.ID), "day": instant(e.Archive.Day), "done": e.Archive.Done, "held": e.Archive.Held, "fault": e.Archive.Fault,
		"empty_since": instant(e.EmptySince),
	}
}

// NoteExpunge stores how far an expunge has got in the archive.
func (s *Store) NoteExpunge(ctx context.Context, e postrider.Expunge) error {
	err := s.repeat(ctx, func(bool) error {
		_, err := s.pool.Exec(ctx, noteExpungeSQL, noted(e))
		return err
	})
	if err != nil {
		return fmt.Errorf("note expunge %s: %w", e.ID, err)
	}
	return nil
}

// By archive_parts_pkey and expunges_pkey.
const (
	replacePartSQL = `
	update archive_parts
	set object = @object, bytes = @bytes, sha256 = @sha256, made_at = @made_at,
		row_count = greatest(row_count - @fewer::bigint, 0), deleted = greatest(deleted - @fewer::bigint, 0)
	where kind = @kind and day = @day and number = @number and object = @old`
	forgetPartSQL    = `delete from archive_parts where kind = @kind and day = @day and number = @number and object = @old`
	countArchivedSQL = `update expunges set archived = archived + @fewer where id = @id`
)

// Scrub does nothing: deleted rows stay in the files of the database until it is vacuumed, in
// its log, and on its standbys. The API says so.
func (s *Store) Scrub(context.Context) error { return nil }

// ReplaceArchivePart records a part in place of another. It is not repeated when its fate is
// unknown: the next look finds which object is recorded.
func (s *Store) ReplaceArchivePart(ctx context.Context, r store.ReplaceArchivePart) error {
	statement, args := forgetPartSQL, pgx.NamedArgs{
		"kind": string(r.Part.Kind), "day": r.Part.Day, "number": r.Part.Number, "old": r.Part.Object,
	}
	if r.With.Object != "" {
		statement = replacePartSQL
		args["object"], args["bytes"], args["sha256"], args["made_at"], args["fewer"] = r.With.Object, r.With.Bytes, r.With.SHA256[:], r.With.MadeAt, r.Fewer
	}
	err := s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			done, err := tx.Exec(ctx, statement, args)
			switch {
			case err != nil:
				return err
			case done.RowsAffected() == 0:
				return fmt.Errorf("%w: another object is recorded", postrider.ErrConflict)
			}
			_, err = tx.Exec(ctx, countArchivedSQL, pgx.NamedArgs{"fewer": r.Fewer, "id": someUUID(r.Expunge)})
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("replace archive part: %w", err)
	}
	return nil
}

// ExpungeRows removes rows of what an expunge is about. It is not repeated when its fate is
// unknown: the next call goes on from what is stored.
func (s *Store) ExpungeRows(ctx context.Context, r store.ExpungeRows) (e postrider.Expunge, err error) {
	err = s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			e, err = scanExpunge(tx.QueryRow(ctx, lockExpungeSQL, pgx.NamedArgs{"id": someUUID(r.ID)}))
			switch {
			case errors.Is(err, pgx.ErrNoRows):
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
				if err := tx.QueryRow(ctx, `select exists (`+x.Waits+`)`, x.args()).Scan(&waits); err != nil {
					return err
				}
			}
			e.Found(removed, waits, s.clock.Wall(), r.Settled)
			_, err = tx.Exec(ctx, updateExpungeSQL, pgx.NamedArgs{
				"id": someUUID(r.ID), "events": e.Removed.Events, "attempts": e.Removed.Attempts, "dead_letters": e.Removed.DeadLetters,
				"other": e.Removed.Other, "digest": e.Digest[:], "empty_since": instant(e.EmptySince), "ended_at": instant(e.EndedAt),
			})
			if err != nil || !e.EndedAt.IsZero() {
				return err
			}
			_, err = tx.Exec(ctx, noteExpungeSQL, noted(e))
			return err
		})
	})
	if err != nil {
		return e, fmt.Errorf("expunge %s: %w", r.ID, err)
	}
	return e, nil
}

// expunging is one chunk of an expunge.
type expunging struct {
	store.ExpungePlan

	tx      pgx.Tx
	expunge *postrider.Expunge
	left    int // rows that the chunk may still remove
}

// args returns the parameters of the plan's statements.
func (x *expunging) args() pgx.NamedArgs {
	return pgx.NamedArgs{"object": someUUID(x.Object), "name": x.Name, "limit": x.left}
}

// run removes rows until the chunk is full.
func (x *expunging) run(ctx context.Context) (removed postrider.ExpungeCounts, err error) {
	steps := []func() error{func() error { return x.attempts(ctx, &removed.Attempts) }}
	for _, step := range x.Steps {
		steps = append(steps, func() error { return x.count(ctx, step.Count(&removed), expungeStepSQL(step), x.args()) })
	}
	if x.Events != "" {
		steps = append(steps, func() error { return x.events(ctx, &removed.Events) })
	}
	for _, statement := range x.Blank {
		steps = append(steps, func() error { return x.blank(ctx, &removed.Other, statement) })
	}
	for _, step := range steps {
		if err := step(); err != nil || x.left <= 0 {
			return removed, err
		}
	}
	return removed, nil
}

// count runs a statement that returns how many rows it has removed.
func (x *expunging) count(ctx context.Context, counter *int, statement string, args pgx.NamedArgs) error {
	var n int
	err := x.tx.QueryRow(ctx, statement, args).Scan(&n)
	*counter += n
	x.left -= n
	return err
}

// attempts removes attempts with their heads and bodies.
func (x *expunging) attempts(ctx context.Context, counter *int) error {
	rows, _ := x.tx.Query(ctx, expungeAttemptsSQL(x.Attempts), x.args())
	var deliveries, bodies []store.RowID
	var of store.RowID
	var body bool
	_, err := pgx.ForEachRow(rows, []any{toID(&of), &body}, func() error {
		if deliveries = append(deliveries, of); body {
			bodies = append(bodies, of)
		}
		return nil
	})
	*counter += len(deliveries)
	x.left -= len(deliveries)
	if err != nil {
		return err
	}
	return errors.Join(x.countInParts(ctx, store.OldAttempts, deliveries), x.countInParts(ctx, store.OldBodies, bodies))
}

// By archive_parts_pkey. Of the parts of a day, at most one that is not deleted has an id.
const countExpungedSQL = `
	update archive_parts p
	set deleted = least(p.deleted + gone.n, p.row_count)
	from (
		select q.day, q.number, count(*) as n
		from unnest(@days::timestamptz[], @ids::uuid[]) as r (day, id)
		join archive_parts q on q.kind = @kind and q.day = r.day and q.after < r.id and q.last >= r.id and q.deleted < q.row_count
		group by q.day, q.number
	) gone
	where p.kind = @kind and p.day = gone.day and p.number = gone.number`

// countInParts counts rows that were removed as deleted, if parts of the archive have them:
// otherwise rows that are added later could stand for them, and be deleted without a copy.
func (x *expunging) countInParts(ctx context.Context, kind store.Kind, ids []store.RowID) error {
	if len(ids) == 0 {
		return nil
	}
	days, keys := make([]time.Time, len(ids)), make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		days[i], keys[i] = store.DayOf(id.Time()), someUUID(id)
	}
	_, err := x.tx.Exec(ctx, countExpungedSQL, pgx.NamedArgs{"kind": string(kind), "days": days, "ids": keys})
	return err
}

// expungeAttemptsSQL deletes attempts with their heads and bodies, each by its key. It returns
// their deliveries, and which had a body.
func expungeAttemptsSQL(where string) string {
	return `
	with gone as materialized (
		select delivery, number from attempts where ` + where + ` limit @limit
	), bodies as (
		delete from attempt_bodies b using gone where b.delivery = gone.delivery and b.number = gone.number
		returning b.delivery, b.number
	), rows as (
		delete from attempts a using gone where a.delivery = gone.delivery and a.number = gone.number
	)
	select gone.delivery, bodies.number is not null
	from gone
	left join bodies on bodies.delivery = gone.delivery and bodies.number = gone.number`
}

// expungeStepSQL deletes the rows of a step, each by its key.
func expungeStepSQL(step store.ExpungeStep) string {
	same := make([]string, 0, 4)
	for column := range strings.SplitSeq(step.Key, ", ") {
		same = append(same, "t."+column+" = gone."+column)
	}
	return `
	with gone as materialized (
		select ` + step.Key + ` from ` + step.Table + ` where ` + step.Where + ` limit @limit
	), rows as (
		delete from ` + step.Table + ` t using gone where ` + strings.Join(same, " and ") + `
	)
	select count(*) from gone`
}

// blank runs a statement that removes texts of rows that stay.
func (x *expunging) blank(ctx context.Context, counter *int, statement string) error {
	policy, err := store.EncodePolicy(postrider.DefaultPolicy())
	if err != nil {
		return err
	}
	done, err := x.tx.Exec(ctx, statement, pgx.NamedArgs{"object": someUUID(x.Object), "policy": string(policy), "no_types": []string{}})
	*counter += int(done.RowsAffected())
	x.left -= int(done.RowsAffected())
	return err
}

// By idempotency_keys_pkey and ordering_keys_pkey.
const (
	expungeKeysSQL = `
	delete from idempotency_keys k
	using unnest(@keys::text[], @events::uuid[]) as gone (key, event)
	where k.key = gone.key and k.account = @account and k.event = gone.event`
	expungeSequencesSQL = `delete from ordering_keys where ordering_key = any (@keys::text[]) and account = @account`
)

// events removes events with their idempotency keys, and with those of an account their
// ordering keys. The digest has them in the order of their ids; kept events come last.
func (x *expunging) events(ctx context.Context, counter *int) error {
	for _, table := range []string{"events", "kept_events"} {
		if x.left <= 0 {
			return nil
		}
		rows, _ := x.tx.Query(ctx, `
			with gone as materialized (
				select id from `+table+` where `+x.Events+` order by id limit @limit
			)
			delete from `+table+` e using gone where e.id = gone.id
			returning e.id, e.data, coalesce(e.idempotency_key, ''), e.ordering_key`, x.args())
		found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (e postrider.Event, err error) {
			return e, row.Scan(toID(&e.ID), &e.Data, &e.IdempotencyKey, &e.OrderingKey)
		})
		if err != nil {
			return err
		}
		slices.SortFunc(found, func(a, b postrider.Event) int { return a.ID.Compare(b.ID) })
		if err := x.forgetKeys(ctx, found); err != nil {
			return err
		}
		if table == "events" { // kept events were counted when their day was deleted
			ids := make([]store.RowID, len(found))
			for i, e := range found {
				ids[i] = store.RowID(e.ID)
			}
			if err := x.countInParts(ctx, store.OldEvents, ids); err != nil {
				return err
			}
		}
		*counter += len(found)
		x.left -= len(found)
	}
	return nil
}

// forgetKeys removes the keys of events that were removed.
func (x *expunging) forgetKeys(ctx context.Context, of []postrider.Event) error {
	var keys, sequences []string
	var events []pgtype.UUID
	for _, e := range of {
		x.expunge.Digest.Add(e.ID, e.Data)
		if e.IdempotencyKey != "" {
			keys, events = append(keys, e.IdempotencyKey), append(events, someUUID(e.ID))
		}
		if e.OrderingKey != "" && x.expunge.Event.IsZero() {
			sequences = append(sequences, e.OrderingKey)
		}
	}
	account := someUUID(x.expunge.Account)
	_, err := x.tx.Exec(ctx, expungeKeysSQL, pgx.NamedArgs{"keys": keys, "events": events, "account": account})
	if err == nil && len(sequences) > 0 {
		_, err = x.tx.Exec(ctx, expungeSequencesSQL, pgx.NamedArgs{"keys": sequences, "account": account})
	}
	return err
}
