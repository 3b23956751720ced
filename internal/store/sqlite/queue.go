package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// claimSQL finds the due rows of one lane; those that have been due for longest come first. It
// walks queue_due from @after, the low watermark of the lane, and stops after @n rows. Then it
// reads each row by its primary key.
//
// A row is either free, or it has a token and its due_at is the end of its lease. The condition
// due_at <= @now finds both, so a lease that ended is claimed like a free row. No lock is needed,
// because no other job runs between this statement and the update.
const claimSQL = `
	select id, event, endpoint, account, type, claims, step, losses, token, due_at, expires_at, replayed_from, replay_job
	from queue
	where endpoint = @endpoint and lane = @lane and due_at >= @after and due_at <= @now
	order by due_at, id
	limit @n`

// leaseSQL leases the rows that were found. In an update the right sides have the old values of
// the row. So losses grows by one if the row still had a token, because its lease ended without a
// settlement. The statement walks the primary key of queue.
const leaseSQL = `
	with leased (id, token, until) as (values `

// leaseTail ends leaseSQL.
const leaseTail = `)
	update queue
	set token = leased.token, due_at = leased.until, claims = claims + 1, losses = losses + (queue.token is not null)
	from leased
	where queue.id = leased.id`

// suspectSQL moves rows that may have killed their process to the suspect lane, due at once and
// without a lease. It walks the primary key of queue.
const (
	suspectSQL = `
	with suspect (id, due) as (values `
	suspectTail = `)
	update queue
	set token = null, due_at = suspect.due, lane = 3, losses = losses + 1
	from suspect
	where queue.id = suspect.id`
)

// waitingSQL returns when the next row of a lane is due, after a claim. It walks queue_due, and
// skips rows under a valid lease. There are never many such rows: the deliveries that the
// endpoint may have in flight, and the prefetched ones. The walk ends before the rows with due_at
// = never.
const waitingSQL = `
	select due_at from queue
	where endpoint = @endpoint and lane = @lane and due_at < ` + neverSQL + ` and (token is null or due_at <= @now)
	order by due_at
	limit 1`

// pending is a row of the queue before a job changed it.
type pending struct {
	id           postrider.DeliveryID
	event        postrider.EventID
	endpoint     postrider.EndpointID
	account      postrider.AccountID
	eventType    string
	claims       int // the number of the attempt under way, or of the last attempt
	step         int // step of the retry schedule
	losses       int // number of leases in a row that ended without a settlement
	token        postrider.Token
	dueAt        time.Time // the end of the lease, if there is a token
	expiresAt    time.Time
	replayedFrom postrider.DeliveryID
	replayJob    postrider.ReplayID
}

// scanPending reads the columns of claimSQL.
func scanPending(rows *sql.Rows, p *pending) error {
	return rows.Scan(toID(&p.id), toID(&p.event), toID(&p.endpoint), toID(&p.account), &p.eventType, &p.claims, &p.step,
		&p.losses, toToken(&p.token), toTime(&p.dueAt), toTime(&p.expiresAt), toID(&p.replayedFrom), toID(&p.replayJob))
}

// removed is a row that a job has deleted from the queue, with its position in the order of its
// key. The job must advance the key.
type removed struct {
	pending
	position position
}

// removedColumns are the columns of scanRemoved. The last column says whether the position was
// blocked.
const removedColumns = `id, event, endpoint, account, type, claims, step, losses, token, due_at, expires_at, replayed_from, replay_job,
		ordering_key, pauses, due_at = ` + neverSQL + ` and not parked`

func scanRemoved(rows *sql.Rows, r *removed) error {
	p, q := &r.pending, &r.position
	err := rows.Scan(toID(&p.id), toID(&p.event), toID(&p.endpoint), toID(&p.account), &p.eventType, &p.claims, &p.step,
		&p.losses, toToken(&p.token), toTime(&p.dueAt), toTime(&p.expiresAt), toID(&p.replayedFrom), toID(&p.replayJob),
		toString(&q.key), toFlag(&q.pauses), toFlag(&q.blocked))
	q.endpoint = p.endpoint
	return err
}

// lost returns the record of an attempt whose lease ended without a settlement. Nobody knows when
// the attempt began, so its time is the present, when the loss is noticed.
func (p pending) lost(now time.Time) record {
	return record{
		Attempt: postrider.Attempt{
			Delivery: p.id, Event: p.event, Endpoint: p.endpoint, Number: p.claims, Outcome: postrider.OutcomeLost,
			Error: "server_died", StartedAt: now, StatusAfter: postrider.Pending,
		},
		account: p.account, eventType: p.eventType, replayedFrom: p.replayedFrom, replayJob: p.replayJob,
	}
}

// Claim leases deliveries; see [store.Queue]. It is one job, so nothing can change between
// finding the due rows and leasing them.
//
// For each want it finds the due rows, leases them or moves them to the suspect lane, and finds
// out when the next row of the lane is due. A lease that ended is taken over in the same job, and
// its attempt is recorded as lost, so a delivery is never lost without being leased. The records
// of all wants are one bulk insert at the end, and the events are read once for all items.
func (s *Store) Claim(ctx context.Context, c store.Claim) (_ store.Claims, err error) {
	defer s.calls.Begin("Claim").End(&err, "claim deliveries")
	return write(ctx, s, func(ctx context.Context, tx *tx) (store.Claims, error) {
		var claims store.Claims
		var lost []any
		hold, err := held(ctx, tx)
		if err != nil {
			return store.Claims{}, err
		}
		for _, want := range c.Wants {
			if hold.Held() {
				want.N = 0
			}
			rows, suspects, err := claimLane(ctx, tx, want, c.Token)
			if err != nil {
				return store.Claims{}, err
			}
			losses := len(suspects)
			for _, p := range suspects {
				lost = appendAttempt(lost, p.lost(tx.wall))
				tx.tally(p.lost(tx.wall))
			}
			for _, p := range rows {
				if p.token != 0 { // the row had a lease that has ended; p has the old values of the row
					lost = appendAttempt(lost, p.lost(tx.wall))
					tx.tally(p.lost(tx.wall))
					losses++
					p.losses++
				}
				claims.Items = append(claims.Items, postrider.Claimed{
					ID: p.id, Endpoint: p.endpoint, Lane: want.Lane, Attempt: p.claims + 1, Step: p.step, Losses: p.losses,
					Token: c.Token, ExpiresAt: p.expiresAt, ReplayedFrom: p.replayedFrom, ReplayJob: p.replayJob,
					Event: &postrider.Event{ID: p.event, Account: p.account, Type: p.eventType},
				})
			}
			state, err := laneState(ctx, tx, want)
			if err != nil {
				return store.Claims{}, err
			}
			state.Claimed, state.Suspects, state.Lost = len(rows), len(suspects), losses
			claims.Lanes = append(claims.Lanes, state)
		}
		if err := tx.execAll(ctx, bulk{putAttemptsSQL, "", attemptColumns}, lost); err != nil {
			return store.Claims{}, err
		}
		return claims, attachEvents(ctx, tx, claims.Items)
	})
}

// claimLane leases the rows for one want. It returns the leased rows, and the rows that it moved
// to the suspect lane, all with their old values. A row is suspect if it lost its process
// SuspectedAfter times in a row. It must not be leased again together with others, because they
// would die with it.
func claimLane(ctx context.Context, tx *tx, want store.Want, token postrider.Token) (leased, suspects []pending, err error) {
	after := int64(0)
	if !want.After.IsZero() {
		after = micros(want.After)
	}
	rows, err := tx.query(ctx, claimSQL, sql.Named("endpoint", blob(want.Endpoint)), sql.Named("lane", laneNumber(want.Lane)),
		sql.Named("after", after), sql.Named("now", micros(tx.now)), sql.Named("n", want.N))
	if err != nil {
		return nil, nil, err
	}
	due, err := collect(rows, scanPending)
	if err != nil {
		return nil, nil, err
	}
	lease, suspect := make([]any, 0, 3*len(due)), []any(nil)
	for _, p := range due {
		if p.token != 0 && want.Lane != postrider.LaneSuspect && p.losses+1 >= postrider.SuspectedAfter {
			suspects, suspect = append(suspects, p), append(suspect, blob(p.id), micros(tx.now))
			continue
		}
		leased, lease = append(leased, p), append(lease, blob(p.id), int64(token), micros(tx.now.Add(want.Lease)))
	}
	return leased, suspects, errors.Join(
		tx.execAll(ctx, bulk{leaseSQL, leaseTail, 3}, lease),
		tx.execAll(ctx, bulk{suspectSQL, suspectTail, 2}, suspect),
	)
}

// laneState returns the state of a lane after a claim. Low is the least due_at that a row of the
// lane can still have: the due_at of the next row if that row is due already, otherwise now. In
// PostgreSQL Low needs some slack; here it needs none, because every change is visible before the next job
// begins.
func laneState(ctx context.Context, tx *tx, want store.Want) (store.LaneState, error) {
	var next time.Time
	err := tx.row(ctx, waitingSQL, sql.Named("endpoint", blob(want.Endpoint)), sql.Named("lane", laneNumber(want.Lane)),
		sql.Named("now", micros(tx.now))).Scan(toTime(&next))
	switch {
	case errors.Is(err, sql.ErrNoRows): // the lane is empty, or all its rows are leased
		return store.LaneState{Low: tx.now}, nil
	case err != nil:
		return store.LaneState{}, err
	case next.After(tx.now):
		return store.LaneState{Waiting: true, In: next.Sub(tx.now), Low: tx.now}, nil
	}
	return store.LaneState{Waiting: true, In: next.Sub(tx.now), Low: next}, nil
}

// The statement walks the primary key of events.
const claimedEventsSQL = `
	select id, account, type, data, api_version, ordering_key, sequence, hops, max_attempts, idempotency_key, about, created_at
	from events where id in (values `

// attachEvents sets the events of the items. All deliveries of an event share one copy, so its
// bytes are in memory once. If an event was deleted, its copy has only the account and the type,
// which the queue repeats, and no bytes; the dispatcher ends its deliveries.
func attachEvents(ctx context.Context, tx *tx, items []postrider.Claimed) error {
	shared := make(map[postrider.EventID]*postrider.Event, len(items))
	var ids []any
	for i := range items {
		e := items[i].Event
		if first, ok := shared[e.ID]; ok {
			items[i].Event = first
			continue
		}
		shared[e.ID] = e
		ids = append(ids, blob(e.ID))
	}
	events, err := queryAll(ctx, tx, bulkQuery[postrider.Event]{
		bulk: bulk{claimedEventsSQL, ")", 1}, args: ids, scan: scanEvent,
	})
	for _, e := range events {
		*shared[e.ID] = e
	}
	return err
}

func scanEvent(rows *sql.Rows, e *postrider.Event) error {
	return rows.Scan(toID(&e.ID), toID(&e.Account), &e.Type, &e.Data, &e.APIVersion, &e.OrderingKey, &e.Sequence,
		&e.Hops, &e.MaxAttempts, toString(&e.IdempotencyKey), toAbout(e), toTime(&e.CreatedAt))
}

// The token is the fence: a lease that was taken over or settled finds no row. The attempt was
// not made, so its number is free again. The statement walks the primary key of queue.
const releaseSQL = `
	update queue set token = null, due_at = @now, claims = claims - 1
	where id = @id and token = @token`

// Release gives unused leases back; see [store.Queue].
func (s *Store) Release(ctx context.Context, leases []store.Lease) (err error) {
	defer s.calls.Begin("Release").End(&err, "release deliveries")
	return change(ctx, s, func(ctx context.Context, tx *tx) error {
		for _, l := range leases {
			err := tx.exec(ctx, releaseSQL, sql.Named("now", micros(tx.now)), sql.Named("id", blob(l.Delivery)),
				sql.Named("token", int64(l.Token)))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// releaseParkedSQL sets the losses of a parked delivery to 0, because a person has decided that
// the delivery gets another chance. The delivery stays in the suspect lane. The statement walks
// the primary key of queue.
const releaseParkedSQL = `
	update queue set parked = 0, losses = 0, deaths_alone = 0, due_at = @now
	where id = @id and parked`

// makeDueSQL changes only a delivery that waits for its time. A leased delivery has a token; a
// delivery that is parked or waits for its ordering key has due_at = never. The statement walks
// the primary key of queue.
const makeDueSQL = `
	update queue set due_at = @now
	where id = @id and token is null and due_at > @now and due_at < ` + neverSQL

// MakeDue makes a pending delivery due at once; see [store.Queue].
func (s *Store) MakeDue(ctx context.Context, m store.MakeDue) (_ postrider.Delivery, err error) {
	defer s.calls.Begin("MakeDue").End(&err, "make delivery due")
	return write(ctx, s, func(ctx context.Context, tx *tx) (postrider.Delivery, error) {
		d, err := delivery(ctx, tx, m.Account, m.Delivery)
		if err != nil {
			return postrider.Delivery{}, err
		}
		query := makeDueSQL
		if m.Parked {
			query = releaseParkedSQL
		}
		n, err := tx.count(ctx, query, sql.Named("now", micros(tx.now)), sql.Named("id", blob(m.Delivery)))
		if err == nil && n == 0 {
			err = store.NotWaitingError(m)
		}
		if err != nil {
			return postrider.Delivery{}, err
		}
		return delivery(ctx, tx, d.Account, d.ID)
	})
}

// These statements list the lanes with pending deliveries, and when the first row of each is due.
//
// dueLanesSQL is a skip scan. Each step of the recursion enters queue_due at the first entry of
// the next lane, and reads nothing between two of them. So a lane with a million rows costs as
// much as a lane with one row.
//
// SQLite enters the index at the first entry that equals the compared row, and passes over its
// equals one by one. So the row ends with a time and an id that no entry has: the id has 17 bytes.
// Without them a step walks over its lane (2026-11: 300,000 steps instead of 3,500, 27,000 rows).
// The plus sign removes the affinity of the lane; with the affinity SQLite would use the index
// only for the endpoint.
const (
	dueLanesSQL = `
	with recursive first (id) as (
		select (
			select id from queue
			where endpoint > @after
			order by endpoint, lane, due_at, id limit 1)
		union all
		select (
			select next.id from queue next
			where (next.endpoint, next.lane, next.due_at, next.id) > (at.endpoint, +at.lane, ` + neverSQL + `, x'ffffffffffffffffffffffffffffffffff')
			order by next.endpoint, next.lane, next.due_at, next.id limit 1)
		from first cross join queue at on at.id = first.id
	)`
	dueSQL = dueLanesSQL + `
	select endpoint, lane, due_at, 0, 0, null
	from first cross join queue on queue.id = first.id
	where due_at < ` + neverSQL + `
	limit @max`
)

// dueCountedSQL lists the lanes like dueSQL, and counts the deliveries of each. Each of its three
// selects walks queue_due from the lane's first entry, and ends after @count entries.
const dueCountedSQL = dueLanesSQL + `
	select l.endpoint, l.lane, l.due_at,
		(select count(*) from (
			select 1 from queue q where q.endpoint = l.endpoint and q.lane = l.lane and q.due_at < ` + neverSQL + `
			order by q.due_at limit @count)),
		(select count(*) from (
			select 1 from queue q where q.endpoint = l.endpoint and q.lane = l.lane and q.due_at <= @now
			order by q.due_at limit @count)),
		(select max(d.due_at) from (
			select q.due_at from queue q where q.endpoint = l.endpoint and q.lane = l.lane and q.due_at <= @now
			order by q.due_at limit @count) d)
	from first cross join queue l on l.id = first.id
	where l.due_at < ` + neverSQL + `
	limit @max`

// dueNewerSQL lists the lanes of deliveries whose id is greater than @newer. They are at the end
// of the primary key of queue. Without materialized, SQLite would walk all of queue_due, which
// has the order of the group by.
const dueNewerSQL = `
	with newer as materialized (
		select endpoint, lane, due_at from queue where id > @newer and due_at < ` + neverSQL + `)
	select endpoint, lane, min(due_at), 0, 0, null
	from newer
	where endpoint > @after
	group by endpoint, lane
	order by endpoint, lane
	limit @max`

// Due lists the lanes with pending deliveries; see [store.Queue]. A page is limited by endpoints,
// but the statement by lanes. So Due asks for all lanes of that many endpoints, and cuts off the
// rest.
func (s *Store) Due(ctx context.Context, d store.Due) (_ []store.DueLane, err error) {
	defer s.calls.Begin("Due").End(&err, "find due lanes")
	statement := dueSQL
	switch {
	case !d.NewerThan.IsZero():
		statement = dueNewerSQL
	case d.Count > 0:
		statement = dueCountedSQL
	}
	now := s.now()
	lanes, err := list(ctx, s, query{statement, []any{
		sql.Named("after", blob(d.After)), sql.Named("newer", blob(d.NewerThan)),
		sql.Named("max", d.Max*len(postrider.Lanes)), sql.Named("count", d.Count), sql.Named("now", micros(now)),
	}}, func(rows *sql.Rows, lane *store.DueLane) error {
		var due, last time.Time
		err := rows.Scan(toID(&lane.Endpoint), toLane(&lane.Lane), toTime(&due), &lane.Waiting, &lane.Due, toTime(&last))
		lane.In = due.Sub(now)
		if !last.IsZero() {
			lane.LastIn = last.Sub(now)
		}
		return err
	})
	if err != nil {
		return nil, s.fault(err)
	}
	endpoints := 0
	for i := range lanes {
		if i == 0 || lanes[i].Endpoint != lanes[i-1].Endpoint {
			endpoints++
		}
		if endpoints > d.Max {
			return lanes[:i], nil
		}
	}
	return lanes, nil
}
