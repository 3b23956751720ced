package sqlstore

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// endedSQL counts the deliveries of the endpoint e.id that ended at began.minute or later. It
// adds three kinds of rollups: whole hours from began.hour on, minutes before began.hour, and
// minutes that are not in their hours yet. It reads at most about 24 hours and 60 minutes. It
// walks rollups_pkey. The conditions compare rows, so that the planner does not choose
// rollups_at, which has all scopes of the range.
const endedSQL = `
		select coalesce(sum(r.delivered), 0)::bigint as delivered, coalesce(sum(r.dead), 0)::bigint as dead
		from (
			select r.delivered, r.dead
			from rollups r
			where (r.scope, r.type, r.step, r.at) >= (e.id, '', 1::smallint, began.hour)
				and (r.scope, r.type, r.step, r.at) < (e.id, '', 1::smallint, 'infinity')
			union all
			select r.delivered, r.dead
			from rollups r
			where (r.scope, r.type, r.step, r.at) >= (e.id, '', 0::smallint, began.minute)
				and (r.scope, r.type, r.step, r.at) < (e.id, '', 0::smallint, began.hour)
			union all
			select r.delivered, r.dead
			from (select p.at, p.scope, p.type from rollup_positions p where p.step = 0) p
			cross join lateral (
				select r.delivered, r.dead
				from rollups r
				where (r.scope, r.type, r.step, r.at) >= (e.id, '', 0::smallint, greatest(began.hour, p.at))
					and (r.scope, r.type, r.step, r.at) < (e.id, '', 0::smallint, 'infinity')
					and (r.at, r.scope, r.type) > (p.at, p.scope, p.type)
			) r
		) r`

// endedOfSQLite is the same for SQLite. It counts for all endpoints of began, because SQLite has no
// lateral joins. It walks the primary key of rollups.
const endedOfSQLite = `ended (id, delivered, dead) as (
		select id, sum(delivered), sum(dead) from (
			select began.id, delivered, dead
			from began cross join rollups on scope = began.id and type = '' and step = 1 and at >= hour
			union all
			select began.id, delivered, dead
			from began cross join rollups on scope = began.id and type = '' and step = 0 and at >= minute and at < hour
			union all
			select began.id, delivered, dead
			from began cross join rollups on scope = began.id and type = '' and step = 0
				and at >= max(hour, (select p.at from rollup_positions p where p.step = 0))
			where (at, scope, type) > (select p.at, p.scope, p.type from rollup_positions p where p.step = 0))
		group by id
	)`

// endpointStatesSQL returns the states of endpoints, in the order of the ids. It reads the last
// change of health by endpoint_health_pkey, circuits by circuits_pkey, pending deliveries as
// backlogOfLookedSQL does, and ended deliveries by endedSQL.
const endpointStatesSQL = `
	select e.id, ended.delivered, ended.dead, pending.n, due.at, h.account, h.number, h.status, h.reason, h.warnings, h.since,
		c.endpoint, c.status, c.reason, c.opened_at, c.probe_at, c.cooldown, c.failing_since, c.paced_until, c.rate_full_at, c.failures,
		c.last_attempt_at, c.last_outcome, c.generation
	from unnest(@ids::uuid[]) with ordinality as e (id, place)
	cross join (select @since::timestamptz as minute, @since::timestamptz as hour) began
	left join lateral (
		select s.*
		from endpoint_health s
		where s.endpoint = e.id
		order by s.number desc
		limit 1
	) h on true
	left join lateral (
		select c.*
		from circuits c
		where c.endpoint = e.id
		limit 1
	) c on true
	cross join lateral (
		select count(*) as n
		from (
			(select from queue q where q.endpoint = e.id and q.due_at < 'infinity')
			union all
			(
				select
				from queue q
				where q.endpoint = e.id and q.ordering_key is not null and q.due_at = 'infinity'
				order by q.endpoint, q.ordering_key, q.sequence
				limit @most
			)
			union all
			(select from queue q where q.endpoint = e.id and q.parked and q.ordering_key is null)
			limit @most
		) q
	) pending
	cross join lateral (
		select min(q.due_at) as at
		from generate_series(0, 3) as n (lane)
		cross join lateral (
			select q.due_at
			from queue q
			where q.endpoint = e.id and q.lane = n.lane and q.due_at < 'infinity'
			order by q.due_at
			limit 1
		) q
	) due
	cross join lateral (` + endedSQL + `
	) ended
	order by e.place`

// endpointStatesOfSQLite is the same for SQLite, without lateral joins. The last change of health and
// the circuit are found by their primary keys, and pending deliveries by queue_due.
const endpointStatesOfSQLite = `
	with began (place, id, minute, hour) as materialized (
		select key, unhex(value), @since, @since from json_each(@ids)
	), ` + endedOfSQLite + `
	select began.id, coalesce(ended.delivered, 0), coalesce(ended.dead, 0),
		(select count(*) from (select 1 from queue where queue.endpoint = began.id limit @most)),
		(select min(due_at) from (
			select (select min(q.due_at) from queue q where q.endpoint = began.id and q.lane = lanes.lane) as due_at
			from (select 0 as lane union all select 1 union all select 2 union all select 3) lanes)),
		h.account, h.number, h.status, h.reason, h.warnings, h.since,
		circuits.endpoint, circuits.status, circuits.reason, opened_at, probe_at, cooldown, failing_since,
		paced_until, rate_full_at, failures, last_attempt_at, last_outcome, generation
	from began
	left join ended using (id)
	left join endpoint_health h on h.endpoint = began.id and h.number = (
		select max(number) from endpoint_health last where last.endpoint = began.id)
	left join circuits on circuits.endpoint = began.id
	order by place`

// EndpointStates returns the states of endpoints; see [store.Rollups].
func (v Verbs) EndpointStates(ctx context.Context, ids ...postrider.EndpointID) (_ []store.EndpointState, err error) {
	defer v.calls.Begin("EndpointStates").End(&err, "read states of endpoints")
	now := v.db.Clock().Now()
	return all(ctx, counting{v.db}, Query{endpointStatesSQL, Args{
		"ids": ids, "since": store.DayBefore(v.db.Clock().Wall()), "most": store.MaxPending,
	}}, func(row Row, e *store.EndpointState) error {
		h := &e.Health
		var due time.Time
		err := row.Scan(append([]any{
			&e.Endpoint, &e.Delivered, &e.Dead, &e.Pending, &due, &h.Account, &h.Number, &h.Status, &h.Reason, &h.Warnings, &h.Since,
		}, circuitInto(&e.Circuit)...)...)
		if h.Number > 0 {
			h.Endpoint = e.Endpoint
		}
		if !due.IsZero() {
			e.DueFor = max(now.Sub(due), 0)
		}
		return err
	})
}

// healthInputsSQL finds the endpoints whose health may have to change by three walks, each up to
// @limit: dying (a delivery became a dead letter within the span), unhealthy (by
// endpoint_health_unhealthy) and failing (by circuits_failing). The walk of dying is a skip scan
// of rollups_dying: each step of the recursion reads the next scope, however many minutes that
// scope has. It skips accounts and deleted endpoints by endpoints_pkey, and does not count them.
const healthInputsSQL = `
	with recursive dying (endpoint, recent, found) as (
		select @after::uuid, false, 0
		union all
		select d.endpoint, d.recent, y.found + d.recent::int
		from dying y
		cross join lateral (
			select r.scope as endpoint, r.at >= now() - @span * interval '1 microsecond' and coalesce(e.lives, false) as recent
			from (
				select r.scope, r.at
				from rollups r
				where r.scope > y.endpoint and r.dead > 0 and r.step = 0 and r.type = ''
				order by r.scope, r.at desc
				limit 1
			) r
			left join lateral (
				select e.status <> 'deleted' as lives
				from endpoints e
				where e.id = r.scope
				limit 1
			) e on true
		) d
		where y.found < @limit
	), unhealthy as (
		select s.endpoint
		from endpoint_health s
		cross join lateral (
			select e.status
			from endpoints e
			where e.id = s.endpoint
			limit 1
		) e
		where s.endpoint > @after and s.last and s.status <> 'healthy' and e.status <> 'deleted'
		order by s.endpoint
		limit @limit
	), failing as (
		select c.endpoint
		from circuits c
		cross join lateral (
			select e.status
			from endpoints e
			where e.id = c.endpoint
			limit 1
		) e
		where c.endpoint > @after and c.failing_since is not null and e.status <> 'deleted'
		order by c.endpoint
		limit @limit
	), suspect as materialized (
		select endpoint from dying where recent
		union
		select endpoint from unhealthy
		union
		select endpoint from failing
		order by endpoint
		limit @limit
	)
	select e.id, e.account, e.status = 'enabled', l.number, l.status, l.reason, l.warnings, l.since, c.failing_since, c.last_attempt_at,
		ended.dead, ended.delivered
	from suspect s
	cross join lateral (
		select e.id, e.account, e.status
		from endpoints e
		where e.id = s.endpoint
		limit 1
	) e
	left join lateral (
		select s.*
		from endpoint_health s
		where s.endpoint = e.id
		order by s.number desc
		limit 1
	) l on true
	left join lateral (
		select c.failing_since, c.last_attempt_at
		from circuits c
		where c.endpoint = e.id
		limit 1
	) c on true
	cross join lateral (
		select greatest(now() - @span * interval '1 microsecond', case l.status when 'healthy' then l.since end) as since
	) span
	cross join lateral (
		select date_trunc('minute', span.since + interval '59.999999 seconds', 'UTC') as minute,
			date_trunc('hour', span.since + interval '59 minutes 59.999999 seconds', 'UTC') as hour
	) began
	cross join lateral (` + endedSQL + `
	) ended
	order by e.id`

// healthInputsOfSQLite is the same for SQLite, without lateral joins. Each walk skips deleted
// endpoints and has the limit itself, so their union has the first @limit endpoints of all.
const healthInputsOfSQLite = `
	with recursive dying (scope) as (
		select (
			select min(scope) from rollups indexed by rollups_dying
			where scope > @after and dead > 0 and step = 0 and type = '')
		union all
		select (
			select min(scope) from rollups indexed by rollups_dying
			where scope > dying.scope and dead > 0 and step = 0 and type = '')
		from dying where dying.scope is not null
	), assessed (id) as (
		select scope from (
			select scope from dying cross join endpoints on endpoints.id = scope
			where endpoints.status <> 'deleted' and (
				select max(at) from rollups indexed by rollups_dying
				where rollups.scope = dying.scope and dead > 0 and step = 0 and type = '') >= @since
			limit @limit)
		union
		select endpoint from (
			select endpoint from circuits cross join endpoints on endpoints.id = endpoint
			where endpoint > @after and failing_since is not null and endpoints.status <> 'deleted'
			order by endpoint limit @limit)
		union
		select endpoint from (
			select endpoint from endpoint_health cross join endpoints on endpoints.id = endpoint
			where endpoint > @after and last and endpoint_health.status <> 'healthy' and endpoints.status <> 'deleted'
			order by endpoint limit @limit)
		order by 1 limit @limit
	), last as materialized (
		select assessed.id, h.*
		from assessed left join endpoint_health h on h.endpoint = assessed.id and h.number = (
			select max(number) from endpoint_health newest where newest.endpoint = assessed.id)
	), minutes (id, minute) as (
		select id, (max(@since, iif(status = 'healthy', since, 0)) + 59999999) / 60000000 * 60000000 from last
	), began (id, minute, hour) as materialized (
		select id, minute, (minute + 3599999999) / 3600000000 * 3600000000 from minutes
	), ` + endedOfSQLite + `
	select last.id, endpoints.account, endpoints.status = 'enabled', last.number, last.status, last.reason, last.warnings, last.since,
		circuits.failing_since, circuits.last_attempt_at, coalesce(ended.dead, 0), coalesce(ended.delivered, 0)
	from last
	cross join endpoints on endpoints.id = last.id
	left join circuits on circuits.endpoint = last.id
	left join ended on ended.id = last.id
	order by last.id`

// HealthInputs returns the inputs for the assessment of endpoints; see [store.Upkeep].
func (v Verbs) HealthInputs(ctx context.Context, after postrider.EndpointID, limit int) (_ []postrider.HealthInput, err error) {
	defer v.calls.Begin("HealthInputs").End(&err, "read health inputs")
	return all(ctx, counting{v.db}, Query{healthInputsSQL, Args{
		"after": after, "limit": limit, "span": postrider.HealthSpan, "since": v.db.Clock().Wall().Add(-postrider.HealthSpan),
	}}, func(row Row, r *postrider.HealthInput) error {
		h := &r.Health
		err := row.Scan(&r.Endpoint, &r.Account, &r.Enabled, &h.Number, &h.Status, &h.Reason, &h.Warnings, &h.Since, &r.FailingSince, &r.FailedAt,
			&r.Dead, &r.Delivered)
		if h.Number > 0 {
			h.Endpoint, h.Account = r.Endpoint, r.Account
		}
		return err
	})
}
