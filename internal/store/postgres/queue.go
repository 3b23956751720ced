package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// claimSQL leases due deliveries. The statement does five steps at once, so that nothing can
// change between them: it finds the rows for each want, locks them, records the attempts of
// leases that ended as lost, assigns the new leases, and reads the events.
//
// want and due: the lateral join gives each want its own index scan on queue_due, in the order of
// due_at and only for n rows. A plain join with one sort over all wants would read every due row
// of every lane, which can be millions, to return a few.
//
// q.due_at >= w.after is the low watermark of the lane (see claimSlack). Claimed and settled rows
// leave dead entries at the front of queue_due until a vacuum removes them. Without the bound a
// claim steps over all of them (PostgreSQL 15: 0.8 ms constant with the bound, 5.5 ms and rising
// without it).
//
// skip locked: another node may be claiming the same rows, because it owned the shard a moment
// ago. This claim takes the rows behind them and does not wait. So two claims never return the
// same row, and neither waits for the other.
//
// A row is either free, or it has a token and its due_at is the end of the lease. The condition
// due_at <= now finds both. In the second case the node that had the lease is dead or too late,
// and this statement takes the lease over: the attempt under way is recorded as lost, and the row
// gets the new token, so that a late settlement of the old node is recognised as stale. Take-over
// and claim are one statement, so a row is never lost without being claimed.
//
// While the store is held, each want gets no rows.
//
// suspect: a delivery that lost its node SuspectedAfter times in a row may be the one that kills
// nodes. It is not leased together with others, which would die with it. It moves to lane 3
// without a token, and is due there at once.
//
// on conflict do nothing: a late settlement of the old node may have recorded this attempt
// already, and that record has more information than lost.
//
// The update finds the rows by their ctid, where they were locked. A join by id would have the
// same result. But the planner may reverse the join while the queue is empty, and the generic
// plan then reads the whole queue when it is long.
//
// left join all_events: if the event of a delivery is missing, against all promises, the delivery
// has no bytes and the dispatcher ends it. The delivery must not disappear from the result. With
// limit 1, kept_events is read only for events that are not in events.
const claimSQL = `
	with want as materialized (
		select w.endpoint, w.lane, w.lease * interval '1 microsecond' as lease, w.after, w.place,
			case when (select h.since from hold h where h.single) is null then w.n else 0 end as n
		from unnest(@endpoints::uuid[], @lanes::smallint[], @ns::int[], @leases::bigint[], @afters::timestamptz[])
			with ordinality as w (endpoint, lane, n, lease, after, place)
	), due as materialized (
		select w.place, w.lease, d.*
		from want w
		cross join lateral (
			select q.ctid as at, q.id, q.due_at, q.token, q.claims, q.named_event, q.endpoint, q.account, q.type, q.replayed_from,
				q.replay_job, q.token is not null and q.lane <> 3 and q.losses + 1 >= @suspected as suspect
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
		insert into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error,
			retry_after, started_at, duration, stale, status_after, replayed_from, replay_job)
		select id, claims, named_event, endpoint, account, type, 'lost', 0, 'server_died', 0, now(), 0, false, 'pending',
			replayed_from, replay_job
		from due
		where token is not null
		on conflict (delivery, number) do nothing
	), counted as (
		` + insertDeltaSQL + `
		select endpoint, account, type, 'lost' as outcome, claims as number, 'pending' as status
		from due
		where token is not null
		` + insertDeltaEnd + `
	), claimed as (
		update queue q
		set token = case when due.suspect then null else @token::bigint end,
			due_at = case when due.suspect then @now::timestamptz else @now::timestamptz + due.lease end,
			lane = case when due.suspect then 3 else q.lane end,
			claims = q.claims + (not due.suspect)::int,
			losses = q.losses + (due.token is not null)::int
		from due
		where q.ctid = due.at
		returning due.token is not null as lost, due.suspect, due.place, due.due_at, q.id, postrider_event(q.id, q.named_event) as event,
			q.endpoint, q.account, q.type, q.lane, q.claims, q.step, q.losses, q.expires_at, q.replayed_from, q.replay_job,
			q.ordering_key, q.sequence
	)
	select c.lost, c.suspect, c.place, c.due_at, c.id, c.event, c.endpoint, c.account, c.type, c.lane, c.claims, c.step, c.losses,
		c.expires_at, c.replayed_from, c.replay_job,
		e.data, coalesce(e.api_version, ''), coalesce(e.ordering_key, c.ordering_key, ''), coalesce(e.sequence, c.sequence, 0),
		coalesce(e.hops, 0), coalesce(e.max_attempts, 0), coalesce(e.idempotency_key, ''), e.about
	from claimed c
	left join lateral (
		select e.*
		from all_events e
		where e.id = c.event and e.account = c.account
		limit 1
	) e on true
	order by c.place, c.due_at, c.id`

// lanesSQL returns, for each lane, how long until the first row is due that this claim did not
// lease. It runs in the transaction of claimSQL, so it sees that statement's changes. It skips
// the rows of this claim by their token, because they are in the index with the ends of their
// leases.
//
// Without this statement the dispatcher would have to claim again to learn that a lane is empty.
// It walks queue_due.
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

// claimSlack is the overlap between two claims of a lane: the next claim starts at the least
// due_at of this claim minus claimSlack.
//
// The problem is that due_at is read before a transaction commits. A row that became due at
// 12:00:01 may become visible at 12:00:03. A claim at 12:00:02 does not see it, and leases rows
// that were due at 12:00:02. If the next claim started at 12:00:02, it would miss the row until a
// scan looks at the whole lane. So it starts at 12:00:02 minus claimSlack.
//
// Transactions that make rows due take one or two round trips after the time is read, and ingest
// and the dispatcher give them up after 10 s. A row can still become visible later, if its caller
// gave up while the server committed. The next scan of the queue (30 s) finds it, and then the
// claim looks at the whole lane.
//
// A claim skips rows that another transaction has locked, and these may be due for much longer.
// They are not missed: lanesSQL sees them, and collectLanes lowers the watermark.
const claimSlack = 10 * time.Second

// Claim leases deliveries that are due, in one round trip; see [store.Queue].
//
// When the reply is lost, nobody knows which deliveries have the token. The repeat first gives
// back what the token leased and then claims again, in one transaction. Otherwise those
// deliveries would wait for the end of leases that no worker has.
func (s *Store) Claim(ctx context.Context, c store.Claim) (claims store.Claims, err error) {
	defer s.calls.Begin("Claim").End(&err, "claim")
	args := claimColumns(c)
	err = s.repeat(ctx, func(again bool) error {
		claims = store.Claims{Lanes: make([]store.LaneState, len(c.Wants))}
		now := s.clock.Now()
		args["now"] = now
		for i, w := range c.Wants {
			claims.Lanes[i].Low = w.After
		}
		b := &pgx.Batch{}
		if again {
			b.Queue(unclaimSQL, args)
		}
		b.Queue(claimSQL, args).Query(func(rows pgx.Rows) error { return collectClaimed(rows, c.Token, &claims) })
		b.Queue(lanesSQL, args).Query(func(rows pgx.Rows) error { return collectLanes(rows, now, &claims) })
		return s.pool.SendBatch(ctx, b).Close()
	})
	return claims, err
}

// unclaimSQL gives back the leases of a claim whose reply was lost. The token belongs only to
// that claim and no worker has got it. So no attempt can have begun, and the attempt's number is
// free again. Losses that the claim counted stay, because the attempts before it were lost. The
// statement walks queue_due.
const unclaimSQL = `
	update queue q
	set token = null, due_at = @now::timestamptz, claims = q.claims - 1
	from unnest(@endpoints::uuid[], @lanes::smallint[]) as w (endpoint, lane)
	where q.endpoint = w.endpoint and q.lane = w.lane and q.due_at < 'infinity' and q.token = @token`

// claimColumns returns the wants as columns. A want without a low watermark looks at its whole
// lane, from -infinity on.
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

// collectClaimed reads the rows of claimSQL, which are in the order of the wants and of due_at.
// The first row of a lane has the least due_at and sets the low watermark. Deliveries of one
// event share one copy of it, so an event for 200 endpoints has its bytes in memory once.
func collectClaimed(rows pgx.Rows, t postrider.Token, claims *store.Claims) error {
	var lost, suspect bool
	var place int
	var due time.Time
	var event postrider.Event
	var c postrider.Claimed
	events := map[postrider.EventID]*postrider.Event{}
	_, err := pgx.ForEachRow(rows, []any{
		&lost, &suspect, &place, toTime(&due), toID(&c.ID), toID(&event.ID), toID(&c.Endpoint), toID(&event.Account), &event.Type,
		toLane(&c.Lane), &c.Attempt, &c.Step, &c.Losses, toTime(&c.ExpiresAt), toID(&c.ReplayedFrom), toID(&c.ReplayJob),
		&event.Data, &event.APIVersion, &event.OrderingKey, &event.Sequence, &event.Hops, &event.MaxAttempts,
		&event.IdempotencyKey, toAbout(&event),
	}, func() error {
		lane := &claims.Lanes[place-1]
		if lane.Claimed+lane.Suspects == 0 {
			lane.Low = due.Add(-claimSlack)
		}
		if lost {
			lane.Lost++
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

// collectLanes reads the rows of lanesSQL: one for each want, in their order. A null says that
// the lane is empty. If the first remaining row is due for longer than the claimed rows, another
// transaction had locked it; the next claim looks at it again.
func collectLanes(rows pgx.Rows, now time.Time, claims *store.Claims) error {
	var in pgtype.Int8
	place := 0
	_, err := pgx.ForEachRow(rows, []any{&in}, func() error {
		lane := &claims.Lanes[place]
		lane.Waiting, lane.In = in.Valid, time.Duration(in.Int64)*time.Microsecond
		if first := now.Add(lane.In); lane.Waiting && first.Before(lane.Low) {
			lane.Low = first
		}
		place++
		return nil
	})
	return err
}

// releaseSQL gives back leases that were never used. The attempt was not made, so its number is
// free again: claims goes back by one. The token is the fence: if another node has taken the
// lease over, no row has this token and nothing changes. The statement walks queue_pkey, and
// updates by ctid as claimSQL does.
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

// Release gives unused leases back; see [store.Queue].
func (s *Store) Release(ctx context.Context, leases []store.Lease) (err error) {
	defer s.calls.Begin("Release").End(&err, "release")
	var ids uuids
	var tokens []int64
	for _, l := range leases {
		ids, tokens = append(ids, someUUID(l.Delivery)), append(tokens, int64(l.Token))
	}
	return s.repeat(ctx, func(bool) error {
		_, err := s.pool.Exec(ctx, releaseSQL, pgx.NamedArgs{"ids": ids, "tokens": tokens, "now": s.clock.Now()})
		return err
	})
}

// releaseParkedSQL sets losses and deaths_alone to 0, because a person has decided that the
// delivery gets another chance. The delivery stays in the suspect lane, so if it kills a node
// again, no other delivery dies with it. The statement walks queue_pkey.
const releaseParkedSQL = `
	update queue q
	set parked = false, losses = 0, deaths_alone = 0, due_at = @now::timestamptz
	where q.id = @id and q.parked and (@account::uuid is null or q.account = @account)`

// makeDueSQL changes only a delivery that waits for its time. A leased delivery has a token; a
// delivery that is parked or waits for its ordering key has due_at = infinity. The statement
// walks queue_pkey.
const makeDueSQL = `
	update queue q
	set due_at = @now::timestamptz
	where q.id = @id and q.token is null and q.due_at > @now::timestamptz and q.due_at < 'infinity'
		and (@account::uuid is null or q.account = @account)`

// MakeDue makes a pending delivery due at once; see [store.Queue]. A run that repeats one with a
// lost reply and finds that the delivery no longer waits is a success.
func (s *Store) MakeDue(ctx context.Context, m store.MakeDue) (d postrider.Delivery, err error) {
	defer s.calls.Begin("MakeDue").End(&err, "make delivery %s due", m.Delivery)
	query := makeDueSQL
	if m.Parked {
		query = releaseParkedSQL
	}
	err = s.repeat(ctx, func(again bool) error {
		tag, err := s.pool.Exec(ctx, query, pgx.NamedArgs{
			"id": someUUID(m.Delivery), "account": uuid(m.Account), "now": s.clock.Now(),
		})
		if err != nil {
			return err
		}
		if d, err = s.delivery(ctx, m.Delivery, m.Account); err != nil {
			return err
		}
		if made := tag.RowsAffected() > 0 || again && !d.Parked; !made {
			return store.NotWaitingError(m)
		}
		return nil
	})
	return d, err
}

// These statements list the lanes with pending deliveries, and when the first row of each is due.
//
// dueLanesSQL is a skip scan: each step of the recursion enters queue_due at the first row of the
// next lane, (endpoint, lane) > the last one. A group by would read every row; here a lane with a
// million rows costs as much as a lane with one row. endpoints counts the endpoints found, so
// that the scan stops after @max of them.
const (
	dueLanesSQL = `
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
	)`
	dueSQL = dueLanesSQL + `
	select endpoint, lane, (extract(epoch from due_at - @now::timestamptz) * 1e6)::bigint, 0, 0, 0
	from lane
	where @max > 0
	order by endpoint, lane`
)

// dueCountedSQL lists the lanes like dueSQL, and counts the deliveries of each. The lateral join
// walks queue_due from the lane's first row, and ends after @count rows. Rows that are due come
// first.
const dueCountedSQL = dueLanesSQL + `
	select l.endpoint, l.lane, (extract(epoch from l.due_at - @now::timestamptz) * 1e6)::bigint, c.waiting, c.due,
		(extract(epoch from coalesce(c.last, @now::timestamptz) - @now::timestamptz) * 1e6)::bigint
	from lane l
	cross join lateral (
		select count(*) as waiting, count(*) filter (where w.due_at <= @now) as due, max(w.due_at) filter (where w.due_at <= @now) as last
		from (
			select q.due_at
			from queue q
			where q.endpoint = l.endpoint and q.lane = l.lane and q.due_at < 'infinity'
			order by q.due_at
			limit @count
		) w
	) c
	where @max > 0
	order by l.endpoint, l.lane`

// dueNewerSQL lists the lanes of deliveries whose id is greater than @newer. The dispatcher runs
// it every second, and dueSQL only every now and then. Ids grow with time, so the new rows are at
// the end of queue_pkey. The word materialized, and a condition that queue_due does not imply,
// keep the planner from walking all of queue_due, which has the order of the group by.
const dueNewerSQL = `
	with young as materialized (
		select q.endpoint, q.lane, q.due_at
		from queue q
		where q.id > @newer and q.due_at <> 'infinity'
	)
	select endpoint, lane, (extract(epoch from due_at - @now::timestamptz) * 1e6)::bigint, 0, 0, 0
	from (
		select y.endpoint, y.lane, min(y.due_at) as due_at, dense_rank() over (order by y.endpoint) as endpoints
		from young y
		where y.endpoint > @after
		group by y.endpoint, y.lane
	) lane
	where endpoints <= @max
	order by endpoint, lane`

// Due lists the lanes with pending deliveries; see [store.Queue].
func (s *Store) Due(ctx context.Context, d store.Due) (lanes []store.DueLane, err error) {
	defer s.calls.Begin("Due").End(&err, "find due lanes")
	statement := dueSQL
	args := pgx.NamedArgs{"after": someUUID(d.After), "max": d.Max}
	switch {
	case !d.NewerThan.IsZero():
		statement, args["newer"] = dueNewerSQL, someUUID(d.NewerThan)
	case d.Count > 0:
		statement, args["count"] = dueCountedSQL, d.Count
	}
	err = s.repeat(ctx, func(bool) (err error) {
		args["now"] = s.clock.Now()
		rows, _ := s.readPool(ctx).Query(ctx, statement, args)
		lanes, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (l store.DueLane, err error) {
			err = row.Scan(toID(&l.Endpoint), toLane(&l.Lane), toWait(&l.In), &l.Waiting, &l.Due, toWait(&l.LastIn))
			return l, err
		})
		return err
	})
	return lanes, err
}
