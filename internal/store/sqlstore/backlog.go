package sqlstore

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/store"
)

// These statements count the backlog of an endpoint or an account. SQLite has statements of its own,
// because its queue_due has all pending deliveries, and PostgreSQL's only those with a time.
//
// looked has the endpoints that are read: at most @looked, and one more, which says that there
// are more. pending has their pending deliveries, up to @most: first by queue_due, then the
// ordered ones that are not due by queue_order_key, then the parked ones by queue_parked. The
// second walk skips the heads of keys, which the first one has counted, so all three end after
// @most rows each.
//
// Each walk has a limit of its own. Otherwise the planner joins, and while one endpoint has
// nearly all pending deliveries, it reads the whole of queue_due for another one. The second walk
// is ordered. Otherwise the planner may walk queue_ordered_expires_at, which has the deliveries
// of all endpoints. The oldest due time is the least of the lanes' first due times, by queue_due.
// Dead letters are counted by dead_letters_unresolved.
const (
	backlogOfEndpointSQL = `
	with looked as materialized (
		select @endpoint::uuid as id
	)` + backlogOfLookedSQL + `
			where l.account = @account and l.endpoint = @endpoint and` + backlogEnd
	backlogOfAccountSQL = `
	with looked as materialized (
		select e.id
		from endpoints e
		where e.account = @account and e.status <> 'deleted'
		limit @looked + 1
	)` + backlogOfLookedSQL + `
			where l.account = @account and` + backlogEnd
	backlogOfLookedSQL = `, pending as (
		select
		from looked
		cross join lateral (
			(select from queue q where q.endpoint = looked.id and q.due_at < 'infinity' limit @most)
			union all
			(
				select
				from queue q
				where q.endpoint = looked.id and q.ordering_key is not null and q.due_at = 'infinity'
				order by q.endpoint, q.ordering_key, q.sequence
				limit @most
			)
			union all
			(select from queue q where q.endpoint = looked.id and q.parked and q.ordering_key is null limit @most)
		) q
		limit @most
	)` + backlogSQL
)

// backlogOfAllSQL counts the backlog of the whole store. looked is a skip scan of queue_due: each
// step enters the index at the next endpoint, however many deliveries an endpoint has. All
// pending deliveries are counted by queue_pkey.
const backlogOfAllSQL = `
	with recursive waiting (id, n) as (
		(
			select q.endpoint, 1
			from queue q
			where q.due_at < 'infinity'
			order by q.endpoint, q.lane, q.due_at
			limit 1
		)
		union all
		select n.endpoint, w.n + 1
		from waiting w
		cross join lateral (
			select q.endpoint
			from queue q
			where q.endpoint > w.id and q.due_at < 'infinity'
			order by q.endpoint, q.lane, q.due_at
			limit 1
		) n
		where w.n <= @looked
	), looked as materialized (
		select id from waiting
	), pending as (
		select from (select q.id from queue q order by q.id limit @most) q
	)` + backlogSQL + `
			where` + backlogEnd

const (
	backlogSQL = `
	select (select count(*) from looked), (select count(*) from pending),
		(
			select min(q.due_at)
			from looked
			cross join generate_series(0, 3) as n (lane)
			cross join lateral (
				select q.due_at
				from queue q
				where q.endpoint = looked.id and q.lane = n.lane and q.due_at < 'infinity'
				order by q.due_at
				limit 1
			) q
		),
		(select count(*) from (
			select
			from dead_letters l`
	backlogEnd = ` l.resolved_at is null
			order by l.account, l.endpoint
			limit @most) dead)`
)

// These are the statements for SQLite. looked has the endpoints that are read: at most @looked, and
// one more, which says that there are more. Pending deliveries are counted by queue_due, up to
// @most. The oldest due time is the least of the lanes' first due times. For the backlog of the whole
// store all pending deliveries are counted, and looked is a skip scan of queue_due. Dead letters
// are counted by dead_letters_unresolved.
const (
	backlogOfEndpointOfSQLite = `
	with looked (id) as (select @endpoint)` + lookedOfSQLite + `
		where l.account = @account and l.endpoint = @endpoint and` + backlogEndOfSQLite
	backlogOfAccountOfSQLite = `
	with looked (id) as (
		select id from endpoints where account = @account and status <> 'deleted' limit @looked + 1
	)` + lookedOfSQLite + `
		where l.account = @account and` + backlogEndOfSQLite
	backlogOfAllOfSQLite = `
	with recursive waiting (id) as (
		select (select min(endpoint) from queue)
		union all
		select (select min(endpoint) from queue where endpoint > waiting.id)
		from waiting where waiting.id is not null
		limit @looked + 1
	), looked (id) as (select id from waiting where id is not null),
	pending (n) as (select count(*) from (select 1 from queue limit @most))` + backlogOfSQLite + `
		where` + backlogEndOfSQLite
	lookedOfSQLite = `,
	pending (n) as (
		select count(*) from (
			select 1 from looked cross join queue q on q.endpoint = looked.id
			limit @most))` + backlogOfSQLite
	backlogOfSQLite = `
	select (select count(*) from looked), (select n from pending),
		(select min(due_at) from (
			select (select min(q.due_at) from queue q where q.endpoint = looked.id and q.lane = lanes.lane) as due_at
			from looked cross join (select 0 as lane union all select 1 union all select 2 union all select 3) lanes)),
		(select count(*) from (
		select 1 from dead_letters l indexed by dead_letters_unresolved`
	backlogEndOfSQLite = ` l.resolved_at is null limit @most))`
)

// Backlog counts pending deliveries and dead letters; see [store.Rollups].
func (v Verbs) Backlog(ctx context.Context, q store.BacklogQuery) (_ store.Backlog, err error) {
	defer v.calls.Begin("Backlog").End(&err, "count the backlog")
	statement := backlogOfAllSQL
	switch {
	case !q.Endpoint.IsZero():
		statement = backlogOfEndpointSQL
	case !q.Account.IsZero():
		statement = backlogOfAccountSQL
	}
	now := v.db.Clock().Now()
	return one(ctx, counting{v.db}, Query{statement, Args{
		"account": q.Account, "endpoint": q.Endpoint, "looked": store.MaxLooked, "most": q.Stop(),
	}}, func(row Row, b *store.Backlog) error {
		var looked int
		var due time.Time
		err := row.Scan(&looked, &b.Pending, &due, &b.DeadLetters)
		b.Partial = looked > store.MaxLooked
		if !due.IsZero() && !due.After(now) {
			b.IsDue, b.DueFor = true, now.Sub(due)
		}
		return err
	})
}
