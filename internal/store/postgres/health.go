package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Walks endpoint_health_pkey backwards.
const healthHistorySQL = `
	select s.endpoint, s.account, s.number, s.status, s.reason, s.warnings, s.since
	from endpoint_health s
	where s.endpoint = @endpoint and s.number < @before
		and (@account::uuid is null or s.account = @account)
	order by s.number desc
	limit @limit`

// HealthHistory lists the changes of an endpoint's health, newest first.
func (s *Store) HealthHistory(ctx context.Context, q store.HealthQuery) (store.Page[postrider.EndpointHealth], error) {
	before, err := store.HealthBelow(q.Paging)
	if err != nil {
		return store.Page[postrider.EndpointHealth]{}, err
	}
	history, err := list(ctx, s, query{healthHistorySQL, pgx.NamedArgs{
		"endpoint": someUUID(q.Endpoint), "account": uuid(q.Account), "before": before, "limit": q.Size() + 1,
	}}, scanHealth)
	if err != nil {
		return store.Page[postrider.EndpointHealth]{}, fmt.Errorf("list health of %s: %w", q.Endpoint, err)
	}
	return store.Cut(history, q.Paging, store.HealthKey), nil
}

func scanHealth(row pgx.CollectableRow) (s postrider.EndpointHealth, err error) {
	err = row.Scan(toID(&s.Endpoint), toID(&s.Account), &s.Number, &s.Status, &s.Reason, &s.Warnings, toTime(&s.Since))
	return s, err
}

// A person may have paused or disabled the endpoint meanwhile: then no row is met, and the
// health is not recorded either. Walks endpoints_pkey.
const disableSQL = `
	update endpoints
	set status = 'disabled', status_reason = @reason, revision = revision + 1, version = @version, updated_at = now()
	where id = @endpoint and account = @account and status = 'enabled'`

// Appends a health, if its number is the next one of the endpoint. If two nodes assess an
// endpoint at once, both may see the same last number; endpoint_health_pkey refuses the
// second. Walks endpoints_pkey, and endpoint_health_pkey backwards.
const insertHealthSQL = `
	insert into endpoint_health (endpoint, number, account, status, reason, warnings, since)
	select e.id, @number, e.account, @status, @reason, @warnings, @since
	from endpoints e
	where e.id = @endpoint and e.account = @account
		and @number = 1 + coalesce((
			select s.number
			from endpoint_health s
			where s.endpoint = e.id
			order by s.number desc
			limit 1), 0)`

// Tells a conflict from an endpoint that does not exist. Walks endpoints_pkey.
const knownEndpointSQL = `select exists (select from endpoints where id = @endpoint and account = @account)`

// PutHealth records a health, and disables the endpoint if the health is disabled.
func (s *Store) PutHealth(ctx context.Context, health postrider.EndpointHealth) error {
	args := pgx.NamedArgs{
		"endpoint": someUUID(health.Endpoint), "account": someUUID(health.Account), "number": health.Number,
		"status": string(health.Status), "reason": health.Reason, "warnings": health.Warnings, "since": health.Since,
	}
	err := s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error { return putHealth(ctx, tx, health.Status, args) })
	})
	if errors.Is(err, errUnchanged) {
		var known bool
		err = s.pool.QueryRow(ctx, knownEndpointSQL, args).Scan(&known)
		switch {
		case err != nil:
			err = fault(err)
		case known:
			err = postrider.ErrConflict
		default:
			err = postrider.ErrNotFound
		}
	}
	if err != nil {
		return fmt.Errorf("put health of endpoint %s: %w", health.Endpoint, err)
	}
	return nil
}

// errUnchanged says that a statement with a condition met no row. PutHealth finds the
// reason.
var errUnchanged = errors.New("no row met the condition")

// putHealth runs the statements; each must meet its row, or the whole transaction is
// undone.
func putHealth(ctx context.Context, tx pgx.Tx, status postrider.HealthStatus, args pgx.NamedArgs) error {
	statements := []string{insertHealthSQL}
	if status == postrider.HealthDisabled {
		if err := raiseVersion(ctx, tx, args); err != nil {
			return err
		}
		statements = append(statements, disableSQL)
	}
	for _, statement := range statements {
		switch tag, err := tx.Exec(ctx, statement, args); {
		case err != nil:
			return err
		case tag.RowsAffected() == 0:
			return errUnchanged
		}
	}
	return nil
}

// Three walks find the endpoints that may have to change: dying (a recent dead
// letter, by dead_letters_died_at), unhealthy (the last row of endpoint_health is
// not healthy, by endpoint_health_pkey) and failing (by circuits_failing). The
// first two are skip scans: each step of the recursion reads the next endpoint of
// the index, however many rows the endpoint has. A walk ends when it has found
// @limit endpoints. Deleted endpoints are stepped over by endpoints_pkey and do not
// count.
//
// The cost of an endpoint is bounded too. Its delivered ones are counted by
// attempts_endpoint, newest first, in at most @look attempts of deliveries made
// within @reach. The conditions compare rows, (a.endpoint, a.delivery) >= (…), and
// the order names both columns, so that no other index of an empty partition can
// look as cheap to the planner.
const healthInputsSQL = `
	with recursive dying (endpoint, recent, found) as (
		select @after::uuid, false, 0
		union all
		select d.endpoint, d.recent, y.found + d.recent::int
		from dying y
		cross join lateral (
			select d.endpoint, d.died_at >= now() - @span * interval '1 microsecond' and e.lives as recent
			from (
				select d.endpoint, d.died_at
				from dead_letters d
				where d.endpoint > y.endpoint
				order by d.endpoint, d.died_at desc
				limit 1
			) d
			cross join lateral (
				select e.status <> 'deleted' as lives
				from endpoints e
				where e.id = d.endpoint
				limit 1
			) e
		) d
		where y.found < @limit
	), unhealthy (endpoint, bad, found) as (
		select @after::uuid, false, 0
		union all
		select s.endpoint, s.bad, y.found + s.bad::int
		from unhealthy y
		cross join lateral (
			select s.endpoint
			from endpoint_health s
			where s.endpoint > y.endpoint
			order by s.endpoint
			limit 1
		) n
		cross join lateral (
			select s.endpoint, s.status <> 'healthy' and e.lives as bad
			from (
				select s.endpoint, s.status
				from endpoint_health s
				where s.endpoint = n.endpoint
				order by s.number desc
				limit 1
			) s
			cross join lateral (
				select e.status <> 'deleted' as lives
				from endpoints e
				where e.id = s.endpoint
				limit 1
			) e
		) s
		where y.found < @limit
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
		select endpoint from unhealthy where bad
		union
		select endpoint from failing
		order by endpoint
	)
	select e.id, e.account, e.status = 'enabled', coalesce(l.number, 0), coalesce(l.status, ''), coalesce(l.reason, ''),
		coalesce(l.warnings, 0), l.since, c.failing_since, dead.n, delivered.n
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
		select greatest(now() - @span * interval '1 microsecond', case l.status when 'healthy' then l.since end) as began
	) span
	cross join lateral (
		select count(*) as n
		from dead_letters d
		where d.endpoint = e.id and d.died_at >= span.began
	) dead
	cross join lateral (
		select count(*) as n
		from (
			select
			from (
				select a.status_after, a.stale, a.started_at, a.duration
				from attempts a
				where (a.endpoint, a.delivery) >= (e.id, postrider_id_floor(now() - @reach * interval '1 microsecond'))
					and (a.endpoint, a.delivery) <= (e.id, postrider_id_floor('9999-12-31'))
				order by a.endpoint desc, a.delivery desc
				limit @look
			) a
			where a.status_after = 'delivered' and not a.stale
				and a.started_at + a.duration * interval '1 microsecond' >= span.began
			limit greatest(@least, 3 * dead.n)
		) a
	) delivered
	order by e.id
	limit @limit`

// HealthInputs returns what the assessment of endpoints needs.
func (s *Store) HealthInputs(ctx context.Context, after postrider.EndpointID, limit int) ([]postrider.HealthInput, error) {
	var inputs []postrider.HealthInput
	err := s.repeat(ctx, func(bool) (err error) {
		rows, _ := s.pool.Query(ctx, healthInputsSQL, pgx.NamedArgs{
			"after": someUUID(after), "limit": limit, "span": postrider.HealthSpan.Microseconds(),
			"reach": postrider.HealthReach.Microseconds(), "look": postrider.HealthAttempts, "least": postrider.MinHealthDeliveries,
		})
		inputs, err = pgx.CollectRows(rows, scanHealthInput)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read health inputs: %w", err)
	}
	return inputs, nil
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
