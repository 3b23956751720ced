package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// healthInputsSQL finds the endpoints whose health may have to change, in the order of their ids,
// up to the limit. It uses three walks:
//
//   - dying: a skip scan of rollups_dying, with one step for each scope, however many minutes
//     that scope has. It keeps the endpoints with a recent minute.
//   - failing: circuits_failing
//   - unhealthy: endpoint_health_unhealthy
//
// Each walk skips deleted endpoints and has the limit itself, so their union has the first @limit
// endpoints of all.
const healthInputsSQL = `
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
	)
	select id, endpoints.account, endpoints.status = 'enabled', circuits.failing_since,
		endpoint_health.number, endpoint_health.status, endpoint_health.reason, endpoint_health.warnings, endpoint_health.since
	from assessed
	cross join endpoints using (id)
	left join circuits on circuits.endpoint = id
	left join endpoint_health on endpoint_health.endpoint = id and endpoint_health.number = (
		select max(number) from endpoint_health last where last.endpoint = id)
	order by id`

// endedSQL returns the deliveries of an endpoint that ended at @minute or later, from three kinds
// of rollups: whole hours from @hour on, minutes before @hour, and minutes that are not in their
// hours yet. It reads at most about 24 hours and 60 minutes, by the primary key of rollups.
const (
	endedSQL = `
	select delivered, dead from rollups
	where scope = @endpoint and type = '' and step = 1 and at >= @hour
	union all
	select delivered, dead from rollups
	where scope = @endpoint and type = '' and step = 0 and at >= @minute and at < @hour
	union all
	select delivered, dead from rollups
	where scope = @endpoint and type = '' and step = 0 and at >= max(@hour, (select p.at from rollup_positions p where p.step = 0))
		and (at, scope, type) > (select p.at, p.scope, p.type from rollup_positions p where p.step = 0)`
	endedSinceSQL = `select coalesce(sum(delivered), 0), coalesce(sum(dead), 0) from (` + endedSQL + `)`
)

// HealthInputs returns the inputs for the assessment of endpoints; see [store.Upkeep].
func (s *Store) HealthInputs(ctx context.Context, after postrider.EndpointID, limit int) (_ []postrider.HealthInput, err error) {
	defer s.calls.Begin("HealthInputs").End(&err, "list health inputs")
	inputs, err := s.healthInputs(ctx, after, limit)
	return inputs, s.fault(err)
}

// healthInputs reads the endpoints and their counts from one snapshot.
func (s *Store) healthInputs(ctx context.Context, after postrider.EndpointID, limit int) ([]postrider.HealthInput, error) {
	now := s.wall()
	snapshot, err := s.snapshot(ctx, healthInputsSQL, endedSinceSQL)
	if err != nil {
		return nil, err
	}
	defer snapshot.end()
	inputs, err := listIn(ctx, snapshot, query{healthInputsSQL, []any{
		sql.Named("after", blob(after)), sql.Named("since", micros(now.Add(-postrider.HealthSpan))), sql.Named("limit", limit),
	}}, scanHealthInput)
	if err != nil {
		return nil, err
	}
	for i := range inputs {
		if err := snapshot.count(ctx, &inputs[i], now); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// scanHealthInput reads a row of healthInputsSQL. An endpoint without a recorded health keeps the
// zero health, with the number 0.
func scanHealthInput(rows *sql.Rows, r *postrider.HealthInput) error {
	st := &r.Health
	err := rows.Scan(toID(&r.Endpoint), toID(&r.Account), &r.Enabled, toTime(&r.FailingSince),
		toNumber(&st.Number), toString(&st.Status), toString(&st.Reason), toNumber(&st.Warnings), toTime(&st.Since))
	if st.Number > 0 {
		st.Endpoint, st.Account = r.Endpoint, r.Account
	}
	return err
}

// count counts the deliveries of an endpoint that ended within the span. It leaves out those that
// ended before the endpoint was last recorded as healthy, because a person who enables an
// endpoint gives it a fresh start.
func (v snapshot) count(ctx context.Context, r *postrider.HealthInput, now time.Time) error {
	minute := store.HealthSince(now, r.Health)
	_, err := listIn(ctx, v, query{endedSinceSQL, []any{
		sql.Named("endpoint", blob(r.Endpoint)), sql.Named("minute", micros(minute)),
		sql.Named("hour", micros(minute.Add(time.Hour-1).Truncate(time.Hour))),
	}}, func(rows *sql.Rows, _ *struct{}) error { return rows.Scan(&r.Delivered, &r.Dead) })
	return err
}
