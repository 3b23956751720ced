package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// replaySourceSQL finds the delivery to be replayed: among the dead letters, in the queue, or in
// the attempt that ended it. It also returns every fact that can refuse the replay. If there is a
// dead letter, lockDeadLetterSQL has locked it before. The statement probes one index of each
// table.
const replaySourceSQL = `
	select d.event, d.endpoint, d.account, d.type,
		exists (select from queue q where q.id = @id) as pending,
		coalesce((select e.status = 'deleted' from endpoints e where e.id = d.endpoint), true) as deleted,
		exists (select from all_events e where e.id = d.event and e.account = d.account) as has_bytes,
		(select q.id from queue q where q.id = d.replay) as pending_replay,
		d.discarded
	from (
		select l.event, l.endpoint, l.account, l.type, l.replay, coalesce(l.resolution = 'discarded', false) as discarded
		from dead_letters l
		where l.delivery = @id
		union all
		select postrider_event(q.id, q.named_event), q.endpoint, q.account, q.type, null, false
		from queue q
		where q.id = @id
		union all
		select postrider_event(a.delivery, a.named_event), a.endpoint, a.account, a.type, null, false
		from attempts a
		where a.delivery = @id and a.status_after in ('delivered', 'cancelled', 'skipped') and not a.stale
	) d
	where @account::uuid is null or d.account = @account
	limit 1`

// lockDeadLetterSQL makes two replays of one dead letter wait for each other. The second one then
// sees the replay of the first as pending, and is refused. It walks dead_letters_pkey.
const lockDeadLetterSQL = `select delivery from dead_letters where delivery = @id for update`

// insertReplaySQL inserts the replay. If the dead letter pauses its ordering key, the pause ends,
// and the replay gets the sequence of the dead letter. So the replay is the head and due at once,
// and pauses the key again if it becomes a dead letter. Any other replay has no order, because
// the deliveries behind it were sent long ago. The statement walks paused_keys_delivery.
const insertReplaySQL = `
	with resumed as (
		delete from paused_keys
		where delivery = @id
		returning ordering_key, sequence
	)
	insert into queue (id, named_event, endpoint, account, type, lane, due_at, claims, step, losses, expires_at, replayed_from,
		ordering_key, sequence, pauses)
	select @replay, @event, @endpoint, @of, @type, 2, @now::timestamptz, 0, 0, 0, @now::timestamptz + @expiry * interval '1 microsecond',
		@id, r.ordering_key, r.sequence, case when r.sequence is not null then true end
	from (select) replay
	left join resumed r on true`

// The statement walks dead_letters_pkey.
const resolveReplayedSQL = `
	update dead_letters
	set resolved_at = now(), resolution = 'replayed', resolved_by = @by, replay = @replay
	where delivery = @id`

// Replay makes a new delivery of one that has ended. The caller makes the new id. So a run that
// repeats one with a lost reply finds the replay of the first run, and returns it.
func (s *Store) Replay(ctx context.Context, r store.Replay) (_ postrider.Delivery, err error) {
	defer s.calls.Begin("Replay").End(&err, "replay %s", r.Delivery)
	err = s.repeat(ctx, func(again bool) error {
		if again {
			if _, err := s.delivery(ctx, r.ID, r.Account); !errors.Is(err, postrider.ErrNotFound) {
				return err // nil: the first run made the replay
			}
		}
		return s.tx(ctx, func(tx pgx.Tx) error { return s.replay(ctx, tx, r) })
	})
	if err != nil {
		return postrider.Delivery{}, err
	}
	return s.delivery(ctx, r.ID, r.Account)
}

// replay locks the ordering key first and the dead letter second, like every transaction that
// ends or resumes an ordered delivery (see order.go). It reads the time at which the replay is
// due after both locks.
func (s *Store) replay(ctx context.Context, tx pgx.Tx, r store.Replay) error {
	args := pgx.NamedArgs{
		"id": someUUID(r.Delivery), "account": uuid(r.Account), "replay": someUUID(r.ID),
		"expiry": r.Expiry.Microseconds(), "by": r.By,
	}
	b := &pgx.Batch{}
	b.Queue(replaysLockSQL)
	b.Queue(lockOrderingKeysSQL, pgx.NamedArgs{"ids": uuids{someUUID(r.Delivery)}})
	b.Queue(lockDeadLetterSQL, args)
	if err := tx.SendBatch(ctx, b).Close(); err != nil {
		return err
	}
	source, err := replaySource(ctx, tx, args)
	if err != nil {
		return err
	}
	args["event"], args["endpoint"], args["of"], args["type"] =
		someUUID(source.event), someUUID(source.endpoint), someUUID(source.account), source.eventType
	args["now"] = s.clock.Now()
	b = &pgx.Batch{}
	b.Queue(insertReplaySQL, args)
	b.Queue(resolveReplayedSQL, args)
	return tx.SendBatch(ctx, b).Close()
}

// source has the values that a replay copies from the old delivery.
type source struct {
	event     postrider.EventID
	endpoint  postrider.EndpointID
	account   postrider.AccountID
	eventType string
}

// replaySource finds the delivery to be replayed, or returns why it must not be replayed. The
// caller has locked the dead letter.
func replaySource(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) (source, error) {
	var from source
	var pending, deleted, hasBytes, discarded bool
	var other postrider.DeliveryID
	err := tx.QueryRow(ctx, replaySourceSQL, args).Scan(toID(&from.event), toID(&from.endpoint), toID(&from.account),
		&from.eventType, &pending, &deleted, &hasBytes, toID(&other), &discarded)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return from, postrider.ErrNotFound
	case err != nil:
		return from, err
	case pending, deleted:
		return from, postrider.ErrConflict
	case discarded:
		return from, store.ErrDiscarded
	case !other.IsZero():
		return from, &store.ReplayPendingError{Replay: other}
	case !hasBytes:
		return from, postrider.ErrGone
	}
	return from, nil
}

// cancelSQL removes the delivery from the queue and records the decision. The record
// gets the number after the last attempt's. If an attempt is under way, its settlement finds no
// row and is recorded as stale, with its own number. The statement walks queue_pkey.
const cancelSQL = `
	with ended as (
		delete from queue
		where id = @id and (@account::uuid is null or account = @account)
		returning id, claims, named_event, endpoint, account, type, replayed_from, replay_job
	), counted as (
		` + insertDeltaSQL + `
		select endpoint, account, type, 'none' as outcome, 0 as number, 'cancelled' as status
		from ended
		` + insertDeltaEnd + `
	)
	insert into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error,
		retry_after, started_at, duration, stale, status_after, replayed_from, replay_job)
	select id, claims + 1, named_event, endpoint, account, type, 'none', 0, 'cancelled', 0, now(), 0, false, 'cancelled',
		replayed_from, replay_job
	from ended`

// Cancel ends a pending delivery. A run that repeats one with a lost reply and finds the delivery
// cancelled is a success. Without an earlier run that is a conflict, because another caller has
// ended the delivery.
func (s *Store) Cancel(ctx context.Context, c store.Cancel) (d postrider.Delivery, err error) {
	defer s.calls.Begin("Cancel").End(&err, "cancel %s", c.Delivery)
	err = s.repeat(ctx, func(again bool) error {
		ended, err := s.cancel(ctx, c)
		if err != nil {
			return err
		}
		if d, err = s.delivery(ctx, c.Delivery, c.Account); err != nil {
			return err
		}
		if cancelled := ended || again && d.Status == postrider.Cancelled; !cancelled {
			return postrider.ErrConflict
		}
		return nil
	})
	return d, err
}

// cancel removes the delivery from the queue, and advances its ordering key if it has one. It
// reports whether the delivery was pending.
func (s *Store) cancel(ctx context.Context, c store.Cancel) (ended bool, err error) {
	id := someUUID(c.Delivery)
	err = s.withConn(ctx, func(conn *pgxpool.Conn) error {
		positions, err := lockPositions(ctx, conn, uuids{id}, nil)
		if err != nil {
			return err
		}
		b := &pgx.Batch{}
		b.Queue(cancelSQL, pgx.NamedArgs{"id": id, "account": uuid(c.Account)}).Exec(func(tag pgconn.CommandTag) error {
			ended = tag.RowsAffected() > 0
			return nil
		})
		s.queueAdvance(b, positions, nil)
		b.Queue(commitSQL)
		return conn.SendBatch(ctx, b).Close()
	})
	return ended, err
}

// The statement walks dead_letters_pkey.
const discardSQL = `
	update dead_letters
	set resolved_at = now(), resolution = 'discarded', resolved_by = @by, note = @note
	where delivery = @id and (@account::uuid is null or account = @account) and resolved_at is null`

// resumeSQL ends the pause of an ordering key by the dead letter. It returns the key, so that
// queueAdvance can make the next head due. It walks paused_keys_delivery.
const resumeSQL = `
	delete from paused_keys
	where delivery = @id and (@account::uuid is null or account = @account)
	returning endpoint, ordering_key`

// Discard resolves a dead letter without a replay. A run that repeats one with a lost reply and
// finds the dead letter discarded is a success.
func (s *Store) Discard(ctx context.Context, d store.Discard) (deadLetter postrider.DeadLetter, err error) {
	defer s.calls.Begin("Discard").End(&err, "discard %s", d.Delivery)
	err = s.repeat(ctx, func(again bool) error {
		resolved, err := s.discard(ctx, d)
		if err != nil {
			return err
		}
		page, err := s.deadLetters(ctx, store.DeadLetterQuery{Delivery: d.Delivery, Account: d.Account, Resolved: true})
		switch {
		case err != nil:
			return err
		case len(page.Items) == 0:
			return postrider.ErrNotFound
		}
		deadLetter = page.Items[0]
		if discarded := resolved || again && deadLetter.Resolution == postrider.Discarded; !discarded {
			return postrider.ErrConflict
		}
		return nil
	})
	return deadLetter, err
}

// discard resolves the dead letter, and resumes the ordering key that the dead letter pauses,
// under the lock of the key. It reports whether the dead letter was unresolved.
func (s *Store) discard(ctx context.Context, d store.Discard) (resolved bool, err error) {
	args := pgx.NamedArgs{"id": someUUID(d.Delivery), "account": uuid(d.Account), "by": d.By, "note": d.Note}
	err = s.withConn(ctx, func(conn *pgxpool.Conn) error {
		var resumed []position
		b := &pgx.Batch{}
		b.Queue(beginSQL)
		b.Queue(lockOrderingKeysSQL, pgx.NamedArgs{"ids": uuids{someUUID(d.Delivery)}})
		b.Queue(discardSQL, args).Exec(func(tag pgconn.CommandTag) error {
			resolved = tag.RowsAffected() > 0
			return nil
		})
		b.Queue(resumeSQL, args).Query(func(rows pgx.Rows) (err error) {
			resumed, err = pgx.CollectRows(rows, scanResumed)
			return err
		})
		if err := conn.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		b = &pgx.Batch{}
		s.queueAdvance(b, resumed, nil)
		b.Queue(commitSQL)
		return conn.SendBatch(ctx, b).Close()
	})
	return resolved, err
}

// scanResumed reads a row of resumeSQL.
func scanResumed(row pgx.CollectableRow) (p position, err error) {
	err = row.Scan(toID(&p.endpoint), &p.key)
	return p, err
}
