package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Walks queue_due from the front, and reads each row it takes by its key.
const claimSQL = `
	select id, event, endpoint, account, type, claims, step, losses, token, due_at, expires_at, replayed_from
	from queue
	where endpoint = @endpoint and lane = @lane and due_at >= @after and due_at <= @now
	order by due_at, id
	limit @n`

// By the key of queue; the right sides are the row as it was.
const leaseSQL = `
	with leased (id, token, until) as (values `

const leaseTail = `)
	update queue
	set token = leased.token, due_at = leased.until, claims = claims + 1, losses = losses + (queue.token is not null)
	from leased
	where queue.id = leased.id`

// By the key of queue: takes the lease away from rows that may be what killed
// their node, and moves them to the suspect lane.
const (
	suspectSQL = `
	with suspect (id, due) as (values `
	suspectTail = `)
	update queue
	set token = null, due_at = suspect.due, lane = 3, losses = losses + 1
	from suspect
	where queue.id = suspect.id`
)

// Walks queue_due, stepping over leases that last: never many, an endpoint's
// concurrency and what was prefetched for it. It ends before the rows
// that are due never.
const waitingSQL = `
	select due_at from queue
	where endpoint = @endpoint and lane = @lane and due_at < ` + neverSQL + ` and (token is null or due_at <= @now)
	order by due_at
	limit 1`

// pending is a row of the queue.
type pending struct {
	id           postrider.DeliveryID
	event        postrider.EventID
	endpoint     postrider.EndpointID
	account      postrider.AccountID
	eventType    string
	claims       int
	step         int
	losses       int
	token        postrider.Token
	dueAt        time.Time
	expiresAt    time.Time
	replayedFrom postrider.DeliveryID
}

func scanPending(rows *sql.Rows, p *pending) error {
	return rows.Scan(toID(&p.id), toID(&p.event), toID(&p.endpoint), toID(&p.account), &p.eventType, &p.claims, &p.step,
		&p.losses, toToken(&p.token), toTime(&p.dueAt), toTime(&p.expiresAt), toID(&p.replayedFrom))
}

// removed is a row that was taken out of the queue.
type removed struct {
	pending
	position position
}

const removedColumns = `id, event, endpoint, account, type, claims, step, losses, token, due_at, expires_at, replayed_from,
		ordering_key, pauses, due_at = ` + neverSQL + ` and not parked`

func scanRemoved(rows *sql.Rows, r *removed) error {
	p, q := &r.pending, &r.position
	err := rows.Scan(toID(&p.id), toID(&p.event), toID(&p.endpoint), toID(&p.account), &p.eventType, &p.claims, &p.step,
		&p.losses, toToken(&p.token), toTime(&p.dueAt), toTime(&p.expiresAt), toID(&p.replayedFrom),
		toString(&q.key), toFlag(&q.pauses), toFlag(&q.blocked))
	q.endpoint = p.endpoint
	return err
}

// lost is the record of an attempt whose lease ended with its node. When it
// began is not known: no later than its lease ended.
func (p pending) lost() record {
	return record{
		Attempt: postrider.Attempt{
			Delivery: p.id, Event: p.event, Endpoint: p.endpoint, Number: p.claims, Outcome: postrider.OutcomeLost,
			Error: "node_died", StartedAt: p.dueAt, StatusAfter: postrider.Pending,
		},
		account: p.account, eventType: p.eventType, replayedFrom: p.replayedFrom,
	}
}

// Claim leases deliveries; see [store.Queue].
func (s *Store) Claim(ctx context.Context, c store.Claim) (store.Claims, error) {
	return write(ctx, s, "claim deliveries", func(ctx context.Context, tx *tx) (store.Claims, error) {
		var claims store.Claims
		var lost []any
		for _, want := range c.Wants {
			rows, suspects, err := claimLane(ctx, tx, want, c.Token)
			if err != nil {
				return store.Claims{}, err
			}
			for _, p := range suspects {
				lost = appendAttempt(lost, p.lost())
			}
			for _, p := range rows {
				if p.token != 0 {
					lost = appendAttempt(lost, p.lost())
					p.losses++
				}
				claims.Items = append(claims.Items, postrider.Claimed{
					ID: p.id, Endpoint: p.endpoint, Lane: want.Lane, Attempt: p.claims + 1, Step: p.step, Losses: p.losses,
					Token: c.Token, ExpiresAt: p.expiresAt, ReplayedFrom: p.replayedFrom,
					Event: &postrider.Event{ID: p.event, Account: p.account, Type: p.eventType},
				})
			}
			state, err := laneState(ctx, tx, want)
			if err != nil {
				return store.Claims{}, err
			}
			state.Claimed, state.Suspects = len(rows), len(suspects)
			claims.Lanes = append(claims.Lanes, state)
		}
		err := tx.execAll(ctx, bulk{putAttemptsSQL, "", attemptColumns}, lost)
		if err != nil {
			return store.Claims{}, err
		}
		return claims, attachEvents(ctx, tx, claims.Items)
	})
}

// claimLane leases what one want asks for and returns the rows as they were:
// those that it leased, and those that it moved to the suspect lane instead.
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

// laneState says what is left of a lane once it was claimed from.
func laneState(ctx context.Context, tx *tx, want store.Want) (store.LaneState, error) {
	var next time.Time
	err := tx.row(ctx, waitingSQL, sql.Named("endpoint", blob(want.Endpoint)), sql.Named("lane", laneNumber(want.Lane)),
		sql.Named("now", micros(tx.now))).Scan(toTime(&next))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return store.LaneState{Low: tx.now}, nil
	case err != nil:
		return store.LaneState{}, err
	case next.After(tx.now):
		return store.LaneState{Waiting: true, In: next.Sub(tx.now), Low: tx.now}, nil
	}
	return store.LaneState{Waiting: true, In: next.Sub(tx.now), Low: next}, nil
}

// By the events' key.
const claimedEventsSQL = `
	select id, account, type, data, api_version, ordering_key, sequence, hops, idempotency_key, created_at
	from events where id in (values `

// attachEvents gives the items their events, one for all deliveries of an
// event. An event that is gone leaves what the queue repeats of it.
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
		&e.Hops, toString(&e.IdempotencyKey), toTime(&e.CreatedAt))
}

// By the key of queue. A lease that is no longer held finds no row.
const releaseSQL = `
	update queue set token = null, due_at = @now, claims = claims - 1
	where id = @id and token = @token`

// Release gives leases back; see [store.Queue].
func (s *Store) Release(ctx context.Context, leases []store.Lease) error {
	return change(ctx, s, "release deliveries", func(ctx context.Context, tx *tx) error {
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

// By the key of queue.
const unparkSQL = `
	update queue set parked = 0, losses = 0, deaths_alone = 0, due_at = @now
	where id = @id and parked`

// Unpark lets a parked delivery be attempted again; see [store.Queue].
func (s *Store) Unpark(ctx context.Context, u store.Unpark) (postrider.Delivery, error) {
	return write(ctx, s, "release delivery", func(ctx context.Context, tx *tx) (postrider.Delivery, error) {
		d, err := delivery(ctx, tx, u.Account, u.Delivery)
		if err != nil {
			return postrider.Delivery{}, err
		}
		n, err := tx.count(ctx, unparkSQL, sql.Named("now", micros(tx.now)), sql.Named("id", blob(u.Delivery)))
		if err == nil && n == 0 {
			err = fmt.Errorf("it is not parked: %w", postrider.ErrConflict)
		}
		if err != nil {
			return postrider.Delivery{}, err
		}
		return delivery(ctx, tx, d.Account, d.ID)
	})
}

// A skip scan: queue_due is entered once for each lane that has something, at
// its first entry, and not read between them. The plus takes the affinity of
// the lane away, without which the index would be used for the endpoint only.
const dueSQL = `
	with recursive first (id) as (
		select (
			select id from queue
			where endpoint > @after
			order by endpoint, lane, due_at, id limit 1)
		union all
		select (
			select next.id from queue next
			where (next.endpoint, next.lane) > (at.endpoint, +at.lane)
			order by next.endpoint, next.lane, next.due_at, next.id limit 1)
		from first cross join queue at on at.id = first.id
	)
	select endpoint, lane, due_at
	from first cross join queue on queue.id = first.id
	where due_at < ` + neverSQL + `
	limit @max`

// By the key of queue, from its end: only what came after newer. Grouped in
// one go, it would walk the whole of queue_due.
const dueNewerSQL = `
	with newer as materialized (
		select endpoint, lane, due_at from queue where id > @newer and due_at < ` + neverSQL + `)
	select endpoint, lane, min(due_at)
	from newer
	where endpoint > @after
	group by endpoint, lane
	order by endpoint, lane
	limit @max`

// Due says which lanes have work; see [store.Queue].
func (s *Store) Due(ctx context.Context, d store.Due) ([]store.DueLane, error) {
	statement := dueSQL
	if !d.NewerThan.IsZero() {
		statement = dueNewerSQL
	}
	now := s.now()
	lanes, err := list(ctx, s, query{statement, []any{
		sql.Named("after", blob(d.After)), sql.Named("newer", blob(d.NewerThan)),
		sql.Named("max", d.Max*len(postrider.Lanes)),
	}}, func(rows *sql.Rows, lane *store.DueLane) error {
		var due time.Time
		err := rows.Scan(toID(&lane.Endpoint), toLane(&lane.Lane), toTime(&due))
		lane.In = due.Sub(now)
		return err
	})
	if err != nil {
		return nil, s.explain("find due lanes", err)
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
