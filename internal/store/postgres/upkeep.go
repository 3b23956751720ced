package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"
)

// expireSQL turns expired deliveries without an order into dead letters. A delivery under a valid
// lease is left to its node, which refuses or settles it.
//
// It walks queue_pkey from the oldest row on. Most expired deliveries are older than most others,
// so the walk stops soon; an index on expires_at would cost every delivery. If the lease of a
// dead node has ended, the attempt under way is recorded as lost. With "skip locked" it leaves
// rows to a settlement that is under way. Only deleted rows are recorded, not all found rows (see
// cancelDeletedSQL).
const expireSQL = `
	with expired as materialized (
		select q.ctid as at
		from queue q
		where q.expires_at <= @now
			and (q.token is null or q.due_at <= @now)
			and q.ordering_key is null
		order by q.id
		limit @limit
		for update skip locked
	)` + expiredDeadLettersSQL + `
	select count(*), count(token) from ended`

// expiredDeadLettersSQL is the common part of both ways to expire. It deletes the rows, records
// lost attempts, and writes the dead letters with the last status code and error (see
// insertDeadLetterSQL).
const expiredDeadLettersSQL = `, ended as (
		delete from queue q
		using expired
		where q.ctid = expired.at
		returning q.*
	)` + endedLeasesSQL + `, dead_letter as (
		insert into dead_letters (delivery, event, endpoint, account, type, reason, attempts, last_status_code,
			last_error, replayed_from, replay_job, died_at)
		select d.id, postrider_event(d.id, d.named_event), d.endpoint, d.account, d.type, 'expired', d.claims, ` + lastStatusCodeSQL + `,
			case when d.token is not null then 'server_died' else ` + lastErrorSQL + ` end,
			d.replayed_from, d.replay_job, now()
		from ended d
		on conflict (delivery) do nothing
	), counted as (
		` + insertDeltaSQL + `
		select endpoint, account, type, 'none' as outcome, 0 as number, 'dead' as status
		from ended
		union all
		select endpoint, account, type, 'lost', claims, 'pending'
		from ended
		where token is not null
		` + insertDeltaEnd + `
	)`

// endedLeasesSQL records the attempts under way of deleted rows whose lease had ended as lost.
const endedLeasesSQL = `, lost as (
		insert into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error,
			retry_after, started_at, duration, stale, status_after, replayed_from, replay_job)
		select id, claims, named_event, endpoint, account, type, 'lost', 0, 'server_died', 0, now(), 0, false, 'pending',
			replayed_from, replay_job
		from ended
		where token is not null
		on conflict (delivery, number) do nothing
	)`

// expireOrdered does the same for ordered deliveries, in two steps, because their keys must be
// locked before their rows (see order.go). The statement find walks queue_ordered_expires_at:
// behind a paused key many deliveries can wait for long, so a walk by age would not stop soon.
// The statement end walks queue_pkey, and tests again the conditions that find tested before the
// wait for the keys.
var expireOrdered = ending{
	find: `
	select q.id
	from queue q
	where q.pauses is not null
		and q.expires_at <= @now
		and (q.token is null or q.due_at <= @now)
	order by q.expires_at
	limit @limit`,
	end: `
	with expired as materialized (
		select q.at
		from unnest(@ids::uuid[]) as d (id)
		cross join lateral (
			select q.ctid as at
			from queue q
			where q.id = d.id
				and q.expires_at <= @now
				and (q.token is null or q.due_at <= @now)
			limit 1
		) q
	)` + expiredDeadLettersSQL + `
	select id, token is not null from ended`,
	dead: true,
}

// Expire turns expired deliveries into dead letters, those without an order first; see
// [store.Upkeep]. Each of the two kinds is one transaction.
func (s *Store) Expire(ctx context.Context, limit int) (expired, lost int, err error) {
	defer s.calls.Begin("Expire").End(&err, "expire deliveries")
	return s.endBoth(ctx, expireSQL, expireOrdered, limit)
}

// ending says how ordered deliveries end without a settlement: they expire, or their endpoint is
// deleted.
type ending struct {
	find string // selects the ids of at most @limit deliveries, without a lock
	end  string // ends the deliveries of @ids that may still end; returns the id of each, and whether an attempt was recorded as lost
	dead bool   // whether the deliveries become dead letters, which can pause their keys
}

// endOrdered finds up to limit deliveries and ends them in one transaction. It does not run again
// when its reply is lost, because the janitor calls it again anyway.
func (s *Store) endOrdered(ctx context.Context, e ending, limit int) (n, lost int, err error) {
	err = s.once(ctx, func() error {
		return s.withConn(ctx, func(conn *pgxpool.Conn) error {
			rows, _ := conn.Query(ctx, e.find, pgx.NamedArgs{"limit": limit, "now": s.clock.Now()})
			ids, err := pgx.CollectRows(rows, pgx.RowTo[pgtype.UUID])
			if err != nil || len(ids) == 0 {
				return err
			}
			n, lost, err = s.endDeliveries(ctx, conn, e, ids)
			return err
		})
	})
	return n, lost, err
}

// endDeliveries locks the keys of the deliveries, ends those that may still end, and advances
// their keys. A delivery that was settled during the wait for the keys is not among the ended
// ones.
func (s *Store) endDeliveries(ctx context.Context, conn *pgxpool.Conn, e ending, ids uuids) (n, lost int, err error) {
	positions, err := lockPositions(ctx, conn, ids, nil)
	if err != nil {
		return 0, 0, err
	}
	rows, _ := conn.Query(ctx, e.end, pgx.NamedArgs{"ids": ids, "now": s.clock.Now()})
	var id pgtype.UUID
	var isLost bool
	ended := uuids{}
	_, err = pgx.ForEachRow(rows, []any{&id, &isLost}, func() error {
		if ended = append(ended, id); isLost {
			lost++
		}
		return nil
	})
	if err != nil {
		return 0, 0, err
	}
	positions = slices.DeleteFunc(positions, func(p position) bool { return !slices.Contains(ended, someUUID(p.delivery)) })
	var dead []position
	if e.dead {
		dead = positions
	}
	b := &pgx.Batch{}
	s.queueAdvance(b, positions, dead)
	b.Queue(commitSQL)
	return len(ended), lost, conn.SendBatch(ctx, b).Close()
}

// cancelDeletedSQL cancels deliveries without an order of deleted endpoints. A delivery under a
// valid lease is left to its settlement, because its request may be accepted. waiting and parked
// are two walks, because queue_due does not have the parked rows. Pauses of deleted endpoints end
// too, because no delivery waits for them any more.
//
// Only the rows that ended has deleted are recorded. gone can have rows that ended does not
// delete: a claim or a release may commit between the snapshot of the statement and the row's
// lock. The lock then returns the newest version of the row. The snapshot does not have that
// version, so delete finds no row. The next call finds it.
//
// The statement walks endpoints_deleted, and queue_due and queue_parked for each endpoint; and
// paused_keys_pkey for the pauses.
const cancelDeletedSQL = `
	with waiting as materialized (
		select d.at
		from endpoints e
		cross join lateral (
			select q.ctid as at
			from queue q
			where q.endpoint = e.id and q.due_at < 'infinity' and q.ordering_key is null
				and (q.token is null or q.due_at <= @now)
			limit @limit
			for update skip locked
		) d
		where e.status = 'deleted'
		limit @limit
	), parked as materialized (
		select d.at
		from endpoints e
		cross join lateral (
			select q.ctid as at
			from queue q
			where q.endpoint = e.id and q.parked and q.ordering_key is null
			limit @limit
			for update skip locked
		) d
		where e.status = 'deleted'
		limit @limit
	), gone as materialized (
		select at
		from waiting
		union all
		select at
		from parked
		limit @limit
	), resumed as (
		delete from paused_keys p
		using endpoints e
		where e.status = 'deleted' and p.endpoint = e.id
	)` + cancelGoneSQL + `
	select count(*), count(token) from ended`

// cancelGoneSQL is the common part of both ways to cancel. It deletes the rows, and records lost
// attempts and the decisions.
const cancelGoneSQL = `, ended as (
		delete from queue q
		using gone
		where q.ctid = gone.at
		returning q.*
	)` + endedLeasesSQL + `, recorded as (
		insert into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error,
			retry_after, started_at, duration, stale, status_after, replayed_from, replay_job)
		select id, claims + 1, named_event, endpoint, account, type, 'none', 0, 'endpoint_deleted', 0, now(), 0, false,
			'cancelled', replayed_from, replay_job
		from ended
	), counted as (
		` + insertDeltaSQL + `
		select endpoint, account, type, 'none' as outcome, 0 as number, 'cancelled' as status
		from ended
		union all
		select endpoint, account, type, 'lost', claims, 'pending'
		from ended
		where token is not null
		` + insertDeltaEnd + `
	)`

// cancelOrdered cancels the ordered deliveries of deleted endpoints, in two steps for the same
// reason as expireOrdered. The statement find walks endpoints_deleted, and queue_order_key for
// each endpoint. The statement end walks queue_pkey, and tests the lease again. It need not test
// the endpoint, because a deleted endpoint never comes back.
var cancelOrdered = ending{
	find: `
	select d.id
	from endpoints e
	cross join lateral (
		select q.id
		from queue q
		where q.endpoint = e.id and q.ordering_key is not null
			and (q.token is null or q.due_at <= @now)
		limit @limit
	) d
	where e.status = 'deleted'
	limit @limit`,
	end: `
	with gone as materialized (
		select q.at
		from unnest(@ids::uuid[]) as d (id)
		cross join lateral (
			select q.ctid as at
			from queue q
			where q.id = d.id and (q.token is null or q.due_at <= @now)
			limit 1
		) q
	)` + cancelGoneSQL + `
	select id, token is not null from ended`,
}

// CancelDeleted cancels pending deliveries of deleted endpoints, those without an order first;
// see [store.Upkeep]. Each of the two kinds is one transaction.
func (s *Store) CancelDeleted(ctx context.Context, limit int) (cancelled, lost int, err error) {
	defer s.calls.Begin("CancelDeleted").End(&err, "cancel deliveries of deleted endpoints")
	return s.endBoth(ctx, cancelDeletedSQL, cancelOrdered, limit)
}

// endBoth ends deliveries without an order by the statement, and then ordered ones by e.
func (s *Store) endBoth(ctx context.Context, statement string, e ending, limit int) (ended, lost int, err error) {
	ended, lost, err = s.end(ctx, statement, limit)
	if err != nil || ended >= limit {
		return ended, lost, err
	}
	ordered, lostOrdered, err := s.endOrdered(ctx, e, limit-ended)
	if err != nil { // the deliveries without an order have ended and are counted; no ordered delivery has ended
		return ended, lost, err
	}
	return ended + ordered, lost + lostOrdered, nil
}

// end runs a statement that ends deliveries. It returns how many deliveries ended, and how many
// of their attempts were recorded as lost.
func (s *Store) end(ctx context.Context, statement string, limit int) (ended, lost int, err error) {
	err = s.repeat(ctx, func(bool) error {
		return s.pool.QueryRow(ctx, statement, pgx.NamedArgs{"limit": limit, "now": s.clock.Now()}).Scan(&ended, &lost)
	})
	return ended, lost, err
}

// probeWriteSQL writes the same row each time. It walks probe_pkey.
const probeWriteSQL = `
	insert into probe (id, at) values (1, now())
	on conflict (id) do update set at = excluded.at`

// These statements fill a temporary file with @space bytes; each number takes 14 bytes there.
// PostgreSQL deletes the file at once, and no table grows.
const (
	probeMemorySQL = `select set_config('work_mem', '64kB', true)`
	probeSpaceSQL  = `select count(*) from generate_series(1, @space::int / 14)`
)

// ProbeWrite commits a write, to learn whether the database accepts writes: its disk may be full,
// or it may have become a standby. On a full disk the row still fits into its page, but publishes
// need new pages. So the probe asks for as much space as some publishes need.
func (s *Store) ProbeWrite(ctx context.Context, space int) (err error) {
	defer s.calls.Begin("ProbeWrite").End(&err, "probe write")
	return s.repeat(ctx, func(bool) error {
		var b pgx.Batch
		if space > 0 {
			b.Queue(probeMemorySQL)
			b.Queue(probeSpaceSQL, pgx.NamedArgs{"space": space})
		}
		b.Queue(probeWriteSQL)
		return s.pool.SendBatch(ctx, &b).Close()
	})
}

// makePartitionsSQL creates the partitions from yesterday to seven days ahead. The partition of
// yesterday is for ids that were made before midnight, or by a clock that is behind. The seven days
// are a reserve: if the statement fails for a week, inserts fail, because no partition takes their
// ids.
const makePartitionsSQL = `
	select postrider_make_partitions((now() at time zone 'UTC')::date - 1, (now() at time zone 'UTC')::date + 7)`

// MakePartitions creates the daily partitions that are missing.
func (s *Store) MakePartitions(ctx context.Context) (err error) {
	defer s.calls.Begin("MakePartitions").End(&err, "make partitions")
	err = s.repeat(ctx, func(bool) error {
		_, err := s.pool.Exec(ctx, makePartitionsSQL)
		return err
	})
	return err
}
