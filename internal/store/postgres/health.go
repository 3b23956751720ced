package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
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
	select e.id, e.account, e.status = 'enabled', coalesce(l.number, 0), coalesce(l.status, ''), coalesce(l.reason, ''),
		coalesce(l.warnings, 0), l.since, c.failing_since, ended.dead, ended.delivered
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
		select c.failing_since
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

// HealthInputs returns the inputs for the assessment of endpoints; see [store.Upkeep].
func (s *Store) HealthInputs(ctx context.Context, after postrider.EndpointID, limit int) (inputs []postrider.HealthInput, err error) {
	defer s.calls.Begin("HealthInputs").End(&err, "read health inputs")
	err = s.repeat(ctx, func(bool) (err error) {
		rows, _ := s.pool.Query(ctx, healthInputsSQL, pgx.NamedArgs{
			"after": someUUID(after), "limit": limit, "span": postrider.HealthSpan.Microseconds(),
		})
		inputs, err = pgx.CollectRows(rows, scanHealthInput)
		return err
	})
	return inputs, err
}

func scanHealthInput(row pgx.CollectableRow) (r postrider.HealthInput, err error) {
	s := &r.Health
	err = row.Scan(toID(&r.Endpoint), toID(&r.Account), &r.Enabled, &s.Number, &s.Status, &s.Reason, &s.Warnings,
		toTime(&s.Since), toTime(&r.FailingSince), &r.Dead, &r.Delivered)
	if s.Number > 0 {
		s.Endpoint, s.Account = r.Endpoint, r.Account
	}
	return r, err
}
