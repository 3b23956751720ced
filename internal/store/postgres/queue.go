package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// One index range of queue_due for each want, from its low watermark on:
// without that bound a claim under an old snapshot steps over every index
// entry that was claimed or settled since (measured on PostgreSQL 15: 0.8 ms
// flat with it, 5.5 ms and rising without). skip locked steps over what another
// node is taking. The claim itself takes leases that ended and records their
// attempts as lost, so that no second statement can disagree with it; a row
// that it takes over once too often goes to the suspect lane instead, without a
// token. Rows are
// updated where they were locked, by ctid: a join by id may be planned the
// other way round while the queue is empty, and then read all of it when it no
// longer is.
const claimSQL = `
	with want as materialized (
		select w.endpoint, w.lane, w.n, w.lease * interval '1 microsecond' as lease, w.after, w.place
		from unnest(@endpoints::uuid[], @lanes::smallint[], @ns::int[], @leases::bigint[], @afters::timestamptz[])
			with ordinality as w (endpoint, lane, n, lease, after, place)
	), due as materialized (
		select w.place, w.lease, d.*
		from want w
		cross join lateral (
			select q.ctid as at, q.id, q.due_at, q.token, q.claims, q.event, q.endpoint, q.account, q.type, q.replayed_from,
				q.token is not null and q.lane <> 3 and q.losses + 1 >= @suspected as suspect
			from queue q
			where q.endpoint = w.endpoint
				and q.lane = w.lane
				and q.due_at >= w.after
				and q.due_at <= @now
				and q.due_at < 'infinity'
			order by q.due_at, q.id
			limit w.n
			for update skip locked
		) d
	), lost as (
		insert into attempts (delivery, number, event, endpoint, account, type, outcome, status_code, error,
			retry_after, started_at, duration, stale, status_after, replayed_from)
		select id, claims, event, endpoint, account, type, 'lost', 0, 'node_died', 0, now(), 0, false, 'pending', replayed_from
		from due
		where token is not null
		on conflict (delivery, number) do nothing
	), claimed as (
		update queue q
		set token = case when due.suspect then null else @token::bigint end,
			due_at = case when due.suspect then @now::timestamptz else @now::timestamptz + due.lease end,
			lane = case when due.suspect then 3 else q.lane end,
			claims = q.claims + (not due.suspect)::int,
			losses = q.losses + (due.token is not null)::int
		from due
		where q.ctid = due.at
		returning due.suspect, due.place, due.due_at, q.id, q.event, q.endpoint, q.account, q.type, q.lane, q.claims, q.step, q.losses,
			q.expires_at, q.replayed_from, q.ordering_key, q.sequence
	)
	select c.suspect, c.place, c.due_at, c.id, c.event, c.endpoint, c.account, c.type, c.lane, c.claims, c.step, c.losses,
		c.expires_at, c.replayed_from,
		e.data, coalesce(e.api_version, ''), coalesce(e.ordering_key, c.ordering_key, ''), coalesce(e.sequence, c.sequence, 0),
		coalesce(e.hops, 0), coalesce(e.idempotency_key, '')
	from claimed c
	left join lateral (
		select e.*
		from events e
		where e.id = c.event and e.account = c.account
		limit 1
	) e on true
	order by c.place, c.due_at, c.id`

// In the claim's transaction, so that it sees what is left after it. Walks
// queue_due, past what the claim itself took.
const lanesSQL = `
	select (extract(epoch from q.due_at - @now::timestamptz) * 1e6)::bigint
	from unnest(@endpoints::uuid[], @lanes::smallint[], @afters::timestamptz[])
		with ordinality as w (endpoint, lane, after, place)
	left join lateral (
		select q.due_at
		from queue q
		where q.endpoint = w.endpoint
			and q.lane = w.lane
			and q.due_at >= w.after
			and q.due_at < 'infinity'
			and q.token is distinct from @token
		order by q.due_at, q.id
		limit 1
	) q on true
	order by w.place`

// claimSlack is how far below the least due_at claimed the next claim looks:
// longer than a transaction that made a row due takes to commit.
const claimSlack = 10 * time.Second

// Claim leases deliveries that are due, in one round trip.
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claims, error) {
	var claims store.Claims
	args := claimColumns(c)
	err := s.repeat(ctx, func(again bool) error {
		claims = store.Claims{Lanes: make([]store.LaneState, len(c.Wants))}
		args["now"] = s.clock.Now()
		for i, w := range c.Wants {
			claims.Lanes[i].Low = w.After
		}
		b := &pgx.Batch{}
		if again {
			b.Queue(unclaimSQL, args)
		}
		b.Queue(claimSQL, args).Query(func(rows pgx.Rows) error { return collectClaimed(rows, c.Token, &claims) })
		b.Queue(lanesSQL, args).Query(func(rows pgx.Rows) error { return collectLanes(rows, &claims) })
		return s.pool.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return store.Claims{}, fmt.Errorf("claim: %w", err)
	}
	return claims, nil
}

// Gives back what a claim took whose reply was lost: its token is in no
// worker's hands. Walks queue_due.
const unclaimSQL = `
	update queue q
	set token = null, due_at = @now::timestamptz, claims = q.claims - 1
	from unnest(@endpoints::uuid[], @lanes::smallint[]) as w (endpoint, lane)
	where q.endpoint = w.endpoint and q.lane = w.lane and q.due_at < 'infinity' and q.token = @token`

func claimColumns(c store.Claim) pgx.NamedArgs {
	var endpoints uuids
	var lanes, ns, leases numbers
	var afters times
	for _, w := range c.Wants {
		after := pgtype.Timestamptz{InfinityModifier: pgtype.NegativeInfinity, Valid: true}
		if !w.After.IsZero() {
			after = instant(w.After)
		}
		endpoints, lanes = append(endpoints, someUUID(w.Endpoint)), append(lanes, number(laneNumber(w.Lane)))
		ns, leases, afters = append(ns, number(w.N)), append(leases, micros(w.Lease)), append(afters, after)
	}
	return pgx.NamedArgs{
		"endpoints": endpoints, "lanes": lanes, "ns": ns, "leases": leases, "afters": afters, "token": token(c.Token),
		"suspected": postrider.SuspectedAfter,
	}
}

func collectClaimed(rows pgx.Rows, t postrider.Token, claims *store.Claims) error {
	var suspect bool
	var place int
	var due time.Time
	var event postrider.Event
	var c postrider.Claimed
	events := map[postrider.EventID]*postrider.Event{}
	_, err := pgx.ForEachRow(rows, []any{
		&suspect, &place, toTime(&due), toID(&c.ID), toID(&event.ID), toID(&c.Endpoint), toID(&event.Account), &event.Type,
		toLane(&c.Lane), &c.Attempt, &c.Step, &c.Losses, toTime(&c.ExpiresAt), toID(&c.ReplayedFrom),
		&event.Data, &event.APIVersion, &event.OrderingKey, &event.Sequence, &event.Hops, &event.IdempotencyKey,
	}, func() error {
		lane := &claims.Lanes[place-1]
		if lane.Claimed+lane.Suspects == 0 {
			lane.Low = due.Add(-claimSlack)
		}
		if suspect {
			lane.Suspects++
			return nil
		}
		shared, known := events[event.ID]
		if !known {
			shared = new(event)
			shared.CreatedAt = event.ID.Time()
			events[event.ID] = shared
		}
		c.Event, c.Token = shared, t
		claims.Items = append(claims.Items, c)
		lane.Claimed++
		return nil
	})
	return err
}

func collectLanes(rows pgx.Rows, claims *store.Claims) error {
	var in pgtype.Int8
	place := 0
	_, err := pgx.ForEachRow(rows, []any{&in}, func() error {
		lane := &claims.Lanes[place]
		lane.Waiting, lane.In = in.Valid, time.Duration(in.Int64)*time.Microsecond
		place++
		return nil
	})
	return err
}

// Walks queue_pkey, as settleSQL does. The attempt was never made, so its number is free again.
const releaseSQL = `
	update queue q
	set token = null, due_at = @now::timestamptz, claims = q.claims - 1
	from unnest(@ids::uuid[], @tokens::bigint[]) as l (id, token)
	cross join lateral (
		select f.ctid as at
		from queue f
		where f.id = l.id and f.token = l.token
		limit 1
	) f
	where q.ctid = f.at and q.token = l.token`

// Release gives leases back unused.
func (s *Store) Release(ctx context.Context, leases []store.Lease) error {
	var ids uuids
	var tokens []int64
	for _, l := range leases {
		ids, tokens = append(ids, someUUID(l.Delivery)), append(tokens, int64(l.Token))
	}
	err := s.repeat(ctx, func(bool) error {
		_, err := s.pool.Exec(ctx, releaseSQL, pgx.NamedArgs{"ids": ids, "tokens": tokens, "now": s.clock.Now()})
		return err
	})
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// Walks queue_pkey.
const unparkSQL = `
	update queue q
	set parked = false, losses = 0, deaths_alone = 0, due_at = @now::timestamptz
	where q.id = @id and q.parked and (@account::uuid is null or q.account = @account)`

// Unpark lets a parked delivery be attempted again.
func (s *Store) Unpark(ctx context.Context, u store.Unpark) (postrider.Delivery, error) {
	var d postrider.Delivery
	err := s.repeat(ctx, func(again bool) error {
		tag, err := s.pool.Exec(ctx, unparkSQL, pgx.NamedArgs{
			"id": someUUID(u.Delivery), "account": uuid(u.Account), "now": s.clock.Now(),
		})
		if err != nil {
			return err
		}
		if d, err = s.delivery(ctx, u.Delivery, u.Account); err != nil {
			return err
		}
		if released := tag.RowsAffected() > 0 || again && !d.Parked; !released {
			return fmt.Errorf("it is not parked: %w", postrider.ErrConflict)
		}
		return nil
	})
	if err != nil {
		return postrider.Delivery{}, fmt.Errorf("release delivery %s: %w", u.Delivery, err)
	}
	return d, nil
}

// A skip scan: each step takes the first row of the next lane from queue_due,
// so that a million rows of one lane cost as much as one.
const dueSQL = `
	with recursive lane (endpoint, lane, due_at, endpoints) as (
		(
			select q.endpoint, q.lane, q.due_at, 1
			from queue q
			where q.endpoint > @after and q.due_at < 'infinity'
			order by q.endpoint, q.lane, q.due_at
			limit 1
		)
		union all
		select n.endpoint, n.lane, n.due_at, l.endpoints + (n.endpoint <> l.endpoint)::int
		from lane l
		cross join lateral (
			select q.endpoint, q.lane, q.due_at
			from queue q
			where (q.endpoint, q.lane) > (l.endpoint, l.lane) and q.due_at < 'infinity'
			order by q.endpoint, q.lane, q.due_at
			limit 1
		) n
		where l.endpoints + (n.endpoint <> l.endpoint)::int <= @max
	)
	select endpoint, lane, (extract(epoch from due_at - @now::timestamptz) * 1e6)::bigint
	from lane
	where @max > 0
	order by endpoint, lane`

// Walks the young end of queue_pkey; materialized, or else it would rather walk
// all of queue_due.
const dueNewerSQL = `
	with young as materialized (
		select q.endpoint, q.lane, q.due_at
		from queue q
		where q.id > @newer and q.due_at < 'infinity'
	)
	select endpoint, lane, (extract(epoch from due_at - @now::timestamptz) * 1e6)::bigint
	from (
		select y.endpoint, y.lane, min(y.due_at) as due_at, dense_rank() over (order by y.endpoint) as endpoints
		from young y
		where y.endpoint > @after
		group by y.endpoint, y.lane
	) lane
	where endpoints <= @max
	order by endpoint, lane`

// Due says which lanes have something waiting.
func (s *Store) Due(ctx context.Context, d store.Due) ([]store.DueLane, error) {
	statement := dueSQL
	args := pgx.NamedArgs{"after": someUUID(d.After), "max": d.Max}
	if !d.NewerThan.IsZero() {
		statement, args["newer"] = dueNewerSQL, someUUID(d.NewerThan)
	}
	var lanes []store.DueLane
	err := s.repeat(ctx, func(bool) (err error) {
		args["now"] = s.clock.Now()
		rows, _ := s.pool.Query(ctx, statement, args)
		lanes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l store.DueLane, err error) {
			err = row.Scan(toID(&l.Endpoint), toLane(&l.Lane), toWait(&l.In))
			return l, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find due lanes: %w", err)
	}
	return lanes, nil
}
