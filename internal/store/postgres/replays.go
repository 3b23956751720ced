package postgres

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// ReplayChunk replays or discards the next matches of a job, in one transaction; see
// [store.Replays]. If a repeat finds that the position has moved, replayedChunkSQL decides
// whether the first run moved it.
func (s *Store) ReplayChunk(ctx context.Context, c store.ReplayChunk) (err error) {
	defer s.calls.Begin("ReplayChunk").End(&err, "replay chunk of %s", c.Job)
	r := replaying{ReplayChunk: c, clock: s.clock}
	var heldErr error
	r.from, err = store.EncodeHeld(c.From.Held)
	r.to, heldErr = store.EncodeHeld(c.To.Held)
	if err := errors.Join(err, heldErr); err != nil {
		return err
	}
	return s.repeat(ctx, func(again bool) error {
		r := r
		err := s.withConn(ctx, func(conn *pgxpool.Conn) error { return r.run(ctx, conn, s) })
		if again && errors.Is(err, postrider.ErrFenced) {
			var stored bool
			err = s.pool.QueryRow(ctx, replayedChunkSQL, r.args()).Scan(&stored)
			if errors.Is(err, pgx.ErrNoRows) {
				err = postrider.ErrFenced
			}
		}
		return err
	})
}

// replaying is one run of a chunk.
type replaying struct {
	store.ReplayChunk
	clock    *store.Clock
	from, to string // the stored forms of From.Held and To.Held

	job     postrider.ReplayJob // only its Action, By and Note; set by begin
	skipped map[string]int      // number of matches by reason; "" for the handled ones; set by handle
	resumed []position          // keys whose pause a discard ended; set by handle
}

func (r *replaying) args() pgx.NamedArgs {
	return pgx.NamedArgs{
		"job": someUUID(r.Job), "token": token(r.Token), "from": someUUID(r.From.Cursor), "held": r.from,
		"to": someUUID(r.To.Cursor), "hold": r.to, "end": text(string(r.End)), "error": r.Error, "lease": r.Lease.Microseconds(),
	}
}

// run stores the chunk on the connection, in three round trips. begin moves the position and
// takes the locks, handle replays or discards the matches, and finish makes the heads of ordering
// keys due and commits.
func (r *replaying) run(ctx context.Context, conn *pgxpool.Conn, s *Store) error {
	if err := r.begin(ctx, conn); err != nil {
		return err
	}
	if err := r.handle(ctx, conn); err != nil {
		return err
	}
	return r.finish(ctx, conn, s)
}

// moveReplayJobSQL moves the position only if the job is running and has the token and the
// position of the chunk. It walks replay_jobs_pkey.
const moveReplayJobSQL = `
	update replay_jobs
	set cursor = @to, held = @hold, due_at = @now::timestamptz + @lease * interval '1 microsecond', status = coalesce(@end, status),
		error = @error, ended_at = case when @end::text is not null then now() end
	where id = @job and token = @token and cursor = @from and held = @held and status = 'running'
	returning action, made_by, note`

// replayedChunkSQL decides whether a run whose reply was lost has stored the chunk. That works
// because only the owner of the token moves the position. It walks replay_jobs_pkey.
const replayedChunkSQL = `
	select true
	from replay_jobs j
	where j.id = @job and j.token = @token and j.cursor = @to and j.held = @hold and (@end::text is null or j.status = @end)`

// lockReplayKeysSQL locks the ordering keys that the chunk may change, as lockOrderingKeysSQL
// does: the keys that a match pauses, and the keys of events whose new deliveries are ordered. It
// walks paused_keys_delivery, events_pkey and ordering_keys_pkey.
const lockReplayKeysSQL = `
	select
	from (
		select q.account, q.ordering_key
		from (
			select p.account, p.ordering_key
			from unnest(@matches::uuid[]) as d (id)
			cross join lateral (
				select p.account, p.ordering_key
				from paused_keys p
				where p.delivery = d.id
				limit 1
			) p
			union all
			select e.account, e.ordering_key
			from unnest(@ordered::uuid[]) as d (id)
			cross join lateral (
				select e.account, e.ordering_key
				from all_events e
				where e.id = d.id and e.ordering_key <> ''
				limit 1
			) e
		) q
		group by q.account, q.ordering_key
		order by q.account, q.ordering_key
	) k
	cross join lateral (
		select
		from ordering_keys h
		where h.account = k.account and h.ordering_key = k.ordering_key
		for update
	) h`

// lockDeadLettersSQL makes the chunk, a replay by a person and another job wait for each other.
// It locks the rows in the order of their ids. It walks dead_letters_pkey.
const lockDeadLettersSQL = `
	select
	from (select id from unnest(@matches::uuid[]) as d (id) order by id) d
	cross join lateral (
		select
		from dead_letters l
		where l.delivery = d.id
		for update
	) l`

func (r *replaying) begin(ctx context.Context, conn *pgxpool.Conn) error {
	var matches, ordered uuids
	for _, item := range r.Items {
		matches = append(matches, uuid(item.Match))
		if item.Ordered != "" {
			ordered = append(ordered, someUUID(item.Event))
		}
	}
	b := &pgx.Batch{}
	b.Queue(beginSQL)
	b.Queue(moveReplayJobSQL, at(r.clock.Now(), r.args())).QueryRow(func(row pgx.Row) error {
		return row.Scan(&r.job.Action, &r.job.By, &r.job.Note)
	})
	if len(matches) > 0 {
		b.Queue(replaysLockSQL)
		b.Queue(lockReplayKeysSQL, pgx.NamedArgs{"matches": matches, "ordered": ordered})
		b.Queue(lockDeadLettersSQL, pgx.NamedArgs{"matches": matches})
	}
	err := conn.SendBatch(ctx, b).Close()
	if errors.Is(err, pgx.ErrNoRows) {
		return postrider.ErrFenced
	}
	return err
}

// replayMatchesSQL replays the matches. The part judged decides for each match why it is skipped,
// under the locks of begin; the other parts replay the rest. If a match pauses its ordering key,
// the pause ends (resumed). Its replay gets its sequence, and pauses the key again if it becomes
// a dead letter. No ordered row is due yet: releaseLowestSQL makes one due after all rows of the
// chunk are inserted. In a backfill the matches are null, so there is no dead letter.
//
// The statement returns the number of matches for each reason; null stands for replayed ones. It
// walks queue_pkey, endpoints_pkey, events_pkey, dead_letters_pkey and paused_keys_delivery.
const replayMatchesSQL = `
	with judged as materialized (
		select m.*, e.account, e.type, case when m.pauses is not null then nullif(e.ordering_key, '') end as ordering_key, e.sequence,
			case
				when l.resolution is not null and exists (select from queue q where q.id = l.replay) then 'replay_pending'
				when l.resolution is not null then 'resolved'
				when coalesce((select n.status = 'deleted' from endpoints n where n.id = m.endpoint), true) then 'endpoint_deleted'
				when e.account is null then 'bytes_gone'
			end as skipped
		from unnest(@matches::uuid[], @events::uuid[], @endpoints::uuid[], @ids::uuid[], @expiries::bigint[], @pauses::boolean[])
			as m (match, event, endpoint, id, expiry, pauses)
		left join lateral (
			select l.resolution, l.replay
			from dead_letters l
			where l.delivery = m.match
			limit 1
		) l on true
		left join lateral (
			select e.account, e.type, e.ordering_key, e.sequence
			from all_events e
			where e.id = m.event
			limit 1
		) e on true
	), resumed as (
		delete from paused_keys p
		using judged j
		where p.delivery = j.match and j.skipped is null
		returning p.delivery, p.ordering_key, p.sequence
	), inserted as (
		insert into queue (id, named_event, endpoint, account, type, lane, due_at, claims, step, losses, expires_at, replayed_from,
			replay_job, ordering_key, sequence, pauses)
		select j.id, j.event, j.endpoint, j.account, j.type, 2,
			case when coalesce(r.ordering_key, j.ordering_key) is null then @now::timestamptz else 'infinity' end, 0, 0, 0,
			@now::timestamptz + j.expiry * interval '1 microsecond', j.match, @job, coalesce(r.ordering_key, j.ordering_key),
			case when coalesce(r.ordering_key, j.ordering_key) is not null then coalesce(r.sequence, j.sequence) end,
			case when r.ordering_key is not null then true when j.ordering_key is not null then j.pauses end
		from judged j
		left join resumed r on r.delivery = j.match
		where j.skipped is null
	), resolved as (
		update dead_letters l
		set resolved_at = now(), resolution = 'replayed', resolved_by = @by, replay = j.id
		from judged j
		where l.delivery = j.match and j.skipped is null
	)
	select j.skipped, count(*)
	from judged j
	group by j.skipped`

// discardMatchesSQL discards the matches. It walks dead_letters_pkey and queue_pkey.
const discardMatchesSQL = `
	with judged as materialized (
		select m.match,
			case
				when l.found is null then 'resolved'
				when l.resolution is not null and exists (select from queue q where q.id = l.replay) then 'replay_pending'
				when l.resolution is not null then 'resolved'
			end as skipped
		from unnest(@matches::uuid[]) as m (match)
		left join lateral (
			select true as found, l.resolution, l.replay
			from dead_letters l
			where l.delivery = m.match
			limit 1
		) l on true
	), discarded as (
		update dead_letters l
		set resolved_at = now(), resolution = 'discarded', resolved_by = @by, note = @note
		from judged j
		where l.delivery = j.match and j.skipped is null
	)
	select j.skipped, count(*)
	from judged j
	group by j.skipped`

// resumeMatchesSQL ends the pauses by discarded dead letters. It needs no test of the resolution,
// because a dead letter that pauses a key was not resolved before. It walks paused_keys_delivery.
const resumeMatchesSQL = `
	delete from paused_keys
	where delivery = any (@matches::uuid[])
	returning endpoint, ordering_key`

func (r *replaying) handle(ctx context.Context, conn *pgxpool.Conn) error {
	if len(r.Items) == 0 {
		return nil
	}
	var matches, events, endpoints, ids uuids
	var expiries numbers
	pauses := make(column[pgtype.Bool], 0, len(r.Items))
	for _, item := range r.Items {
		matches, ids = append(matches, uuid(item.Match)), append(ids, someUUID(item.ID))
		events, endpoints = append(events, someUUID(item.Event)), append(endpoints, someUUID(item.Endpoint))
		expiries = append(expiries, micros(item.Expiry))
		pauses = append(pauses, pgtype.Bool{Bool: item.Ordered == postrider.PauseOnDead, Valid: item.Ordered != ""})
	}
	args := pgx.NamedArgs{
		"matches": matches, "events": events, "endpoints": endpoints, "ids": ids, "expiries": expiries, "pauses": pauses,
		"job": someUUID(r.Job), "by": r.job.By, "note": r.job.Note, "now": r.clock.Now(),
	}
	b := &pgx.Batch{}
	if r.job.Action == postrider.ActionDiscard {
		b.Queue(discardMatchesSQL, args).Query(r.countSkipped)
		b.Queue(resumeMatchesSQL, args).Query(func(rows pgx.Rows) (err error) {
			r.resumed, err = pgx.CollectRows(rows, scanResumed)
			return err
		})
	} else {
		b.Queue(replayMatchesSQL, args).Query(r.countSkipped)
		if r.job.Action == postrider.ActionBackfill {
			b.Queue(deferHeadsSQL, args)
		}
		b.Queue(releaseLowestSQL, args)
	}
	return conn.SendBatch(ctx, b).Close()
}

// countSkipped reads the number of matches by reason.
func (r *replaying) countSkipped(rows pgx.Rows) error {
	r.skipped = map[string]int{}
	var reason pgtype.Text
	var n int
	_, err := pgx.ForEachRow(rows, []any{&reason, &n}, func() error {
		r.skipped[reason.String] = n
		return nil
	})
	return err
}

// deferHeadsSQL takes the turn from the head of each ordering key that got rows with lower sequences,
// unless it is leased. A claim at the same time has either leased the head, which then keeps its turn,
// or finds that it is not due. It walks queue_pkey and queue_order_key.
const deferHeadsSQL = `
	update queue q
	set due_at = 'infinity'
	from (
		select n.endpoint, n.ordering_key, min(n.sequence) as lowest
		from unnest(@ids::uuid[]) as d (id)
		cross join lateral (
			select q.endpoint, q.ordering_key, q.sequence
			from queue q
			where q.id = d.id and q.ordering_key is not null
			limit 1
		) n
		group by n.endpoint, n.ordering_key
	) k
	where q.endpoint = k.endpoint and q.ordering_key = k.ordering_key and q.sequence > k.lowest and q.due_at < 'infinity'
		and q.token is null`

// releaseLowestSQL makes a row due for each ordering key that got new rows: the row with the
// lowest sequence. It does nothing for a key that is paused, or that has a row that is due or
// parked. Such a row is found soon: it is the lowest row of the key, or only replays of this job
// are before it. The statement walks queue_pkey, queue_order_key and paused_keys_pkey.
const releaseLowestSQL = `
	with next as materialized (
		select q.at
		from (
			select distinct n.endpoint, n.ordering_key
			from unnest(@ids::uuid[]) as d (id)
			cross join lateral (
				select q.endpoint, q.ordering_key
				from queue q
				where q.id = d.id and q.ordering_key is not null
				limit 1
			) n
		) k
		cross join lateral (
			select q.ctid as at
			from queue q
			where q.endpoint = k.endpoint and q.ordering_key = k.ordering_key
			order by q.sequence
			limit 1
		) q
		where not exists (select from paused_keys p where p.endpoint = k.endpoint and p.ordering_key = k.ordering_key)
			and not exists (
				select
				from queue q
				where q.endpoint = k.endpoint and q.ordering_key = k.ordering_key and (q.due_at < 'infinity' or q.parked))
	)
	update queue q
	set due_at = @now::timestamptz
	from next
	where q.ctid = next.at`

// The statement walks replay_jobs_pkey.
const countReplaysSQL = `
	update replay_jobs
	set handled = handled + @handled, bytes_gone = bytes_gone + @bytes_gone, replay_pending = replay_pending + @replay_pending,
		endpoint_deleted = endpoint_deleted + @endpoint_deleted, resolved = resolved + @resolved
	where id = @job`

func (r *replaying) finish(ctx context.Context, conn *pgxpool.Conn, s *Store) error {
	b := &pgx.Batch{}
	s.queueAdvance(b, r.resumed, nil)
	if len(r.Items) > 0 {
		b.Queue(countReplaysSQL, pgx.NamedArgs{
			"job": someUUID(r.Job), "handled": r.skipped[""], "bytes_gone": r.skipped["bytes_gone"],
			"replay_pending": r.skipped["replay_pending"], "endpoint_deleted": r.skipped["endpoint_deleted"],
			"resolved": r.skipped["resolved"],
		})
	}
	for _, row := range sqlstore.NoticeRows(r.Notices) {
		b.Queue(sqlstore.InsertNoticeSQL, arguments(row))
	}
	b.Queue(commitSQL)
	return conn.SendBatch(ctx, b).Close()
}
