package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Walks queue_pkey from the oldest row on: whatever is over was made before
// most of what is not, and an index on expires_at would cost every delivery. A
// lease that ended with its node leaves its attempt as lost.
const expireSQL = `
	with over as materialized (
		select q.ctid as at, q.*
		from queue q
		where q.expires_at <= now()
			and (q.token is null or q.due_at <= now())
		order by q.id
		limit @limit
		for update skip locked
	), ended as (
		delete from queue q
		using over
		where q.ctid = over.at
	), lost as (
		insert into attempts (delivery, number, event, endpoint, account, type, outcome, status_code, error,
			retry_after, started_at, duration, stale, status_after, replayed_from)
		select id, claims, event, endpoint, account, type, 'lost', 0, 'node_died', 0, now(), 0, false, 'dead', replayed_from
		from over
		where token is not null
		on conflict (delivery, number) do nothing
	), buried as (
		insert into dead_letters (delivery, event, endpoint, account, type, reason, attempts, last_status_code,
			last_error, replayed_from, died_at)
		select o.id, o.event, o.endpoint, o.account, o.type, 'expired', o.claims,
			coalesce((
				select a.status_code
				from attempts a
				where a.delivery = o.id and a.account = o.account and a.endpoint = o.endpoint and a.status_code <> 0
				order by a.number desc
				limit 1), 0),
			case when o.token is not null then 'node_died' else coalesce((
				select a.error
				from attempts a
				where a.delivery = o.id and a.account = o.account and a.endpoint = o.endpoint and a.outcome <> 'none'
				order by a.number desc
				limit 1), '') end,
			o.replayed_from, now()
		from over o
		on conflict (delivery) do nothing
	)
	select count(*) from over`

// Expire turns deliveries whose time is over into dead letters.
func (s *Store) Expire(ctx context.Context, limit int) (int, error) {
	return s.upkeep(ctx, "expire deliveries", expireSQL, pgx.NamedArgs{"limit": limit})
}

// Walks endpoints_deleted, and for each endpoint queue_due. What is in a
// worker's hands goes too; it settles as stale.
const cancelDeletedSQL = `
	with gone as materialized (
		select d.*
		from endpoints e
		cross join lateral (
			select q.ctid as at, q.*
			from queue q
			where q.endpoint = e.id
			limit @limit
			for update skip locked
		) d
		where e.status = 'deleted'
		limit @limit
	), ended as (
		delete from queue q
		using gone
		where q.ctid = gone.at
	), recorded as (
		insert into attempts (delivery, number, event, endpoint, account, type, outcome, status_code, error,
			retry_after, started_at, duration, stale, status_after, replayed_from)
		select id, claims + 1, event, endpoint, account, type, 'none', 0, 'endpoint_deleted', 0, now(), 0, false,
			'cancelled', replayed_from
		from gone
	)
	select count(*) from gone`

// CancelDeleted cancels pending deliveries of deleted endpoints.
func (s *Store) CancelDeleted(ctx context.Context, limit int) (int, error) {
	return s.upkeep(ctx, "cancel deliveries of deleted endpoints", cancelDeletedSQL, pgx.NamedArgs{"limit": limit})
}

// Walks idempotency_keys_created_at from the oldest on.
const forgetKeysSQL = `
	with old as materialized (
		select k.ctid as at
		from idempotency_keys k
		where k.created_at < now() - @age * interval '1 microsecond'
		order by k.created_at
		limit @limit
		for update skip locked
	), forgotten as (
		delete from idempotency_keys k
		using old
		where k.ctid = old.at
	)
	select count(*) from old`

// ForgetKeys deletes old idempotency keys.
func (s *Store) ForgetKeys(ctx context.Context, age time.Duration, limit int) (int, error) {
	return s.upkeep(ctx, "forget idempotency keys", forgetKeysSQL, pgx.NamedArgs{"age": age.Microseconds(), "limit": limit})
}

func (s *Store) upkeep(ctx context.Context, what, statement string, args pgx.NamedArgs) (int, error) {
	var n int
	err := s.repeat(ctx, func(bool) error { return s.pool.QueryRow(ctx, statement, args).Scan(&n) })
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return n, nil
}

// From yesterday, for ids made before midnight or by a clock that is behind.
const makePartitionsSQL = `
	select postrider_make_partitions((now() at time zone 'UTC')::date - 1, (now() at time zone 'UTC')::date + 7)`

// MakePartitions makes the daily partitions that are missing.
func (s *Store) MakePartitions(ctx context.Context) error {
	_, err := s.upkeep(ctx, "make partitions", makePartitionsSQL, nil)
	return err
}

// Now returns the database's clock.
func (s *Store) Now(ctx context.Context) (time.Time, error) {
	var now time.Time
	err := s.repeat(ctx, func(bool) error {
		return s.pool.QueryRow(ctx, `select clock_timestamp()`).Scan(toTime(&now))
	})
	if err != nil {
		return time.Time{}, fmt.Errorf("read the clock: %w", err)
	}
	return now, nil
}
