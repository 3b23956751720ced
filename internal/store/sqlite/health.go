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

// The columns of scanHealth, in its order.
const healthColumns = `endpoint, number, account, status, reason, warnings, since`

// Both by the key of endpoint_health, from its end.
const (
	healthHistorySQL = `
	select ` + healthColumns + ` from endpoint_health
	where endpoint = @endpoint and (@account is null or account = @account) and number < @below
	order by number desc limit @limit`
	lastHealthSQL = `
	select ` + healthColumns + ` from endpoint_health
	where endpoint = @endpoint
	order by number desc limit 1`
)

// HealthHistory lists the changes of an endpoint's health; see [store.Ledger].
func (s *Store) HealthHistory(ctx context.Context, q store.HealthQuery) (store.Page[postrider.EndpointHealth], error) {
	below, err := store.HealthBelow(q.Paging)
	if err != nil {
		return store.Page[postrider.EndpointHealth]{}, err
	}
	history, err := list(ctx, s, query{healthHistorySQL, []any{
		sql.Named("endpoint", blob(q.Endpoint)), sql.Named("account", blobOrNull(q.Account)),
		sql.Named("below", below), sql.Named("limit", q.Size()+1),
	}}, scanHealth)
	return store.Cut(history, q.Paging, store.HealthKey), s.explain("list health", err)
}

func scanHealth(rows *sql.Rows, s *postrider.EndpointHealth) error {
	return rows.Scan(toID(&s.Endpoint), &s.Number, toID(&s.Account), toString(&s.Status), &s.Reason, &s.Warnings,
		toTime(&s.Since))
}

// By the key of endpoints.
const (
	endpointStatusSQL = `select status from endpoints where id = @id and account = @account`
	disableSQL        = `
	update endpoints
	set status = 'disabled', status_reason = @reason, revision = revision + 1, version = @version, updated_at = @now
	where id = @id`
)

// refuseHealth has checked the number, so the key never refuses it.
const insertHealthSQL = `
	insert into endpoint_health (` + healthColumns + `)
	values (@endpoint, @number, @account, @status, @reason, @warnings, @since)`

// PutHealth records a health, and disables the endpoint if the health is disabled; see
// [store.Upkeep].
func (s *Store) PutHealth(ctx context.Context, p postrider.EndpointHealth) error {
	return change(ctx, s, "put health", func(ctx context.Context, tx *tx) error {
		if err := refuseHealth(ctx, tx, p); err != nil {
			return err
		}
		if p.Status == postrider.HealthDisabled {
			version, err := raiseVersion(ctx, tx)
			if err != nil {
				return err
			}
			err = tx.exec(ctx, disableSQL, sql.Named("id", blob(p.Endpoint)), sql.Named("reason", p.Reason),
				sql.Named("version", version), sql.Named("now", micros(tx.wall)))
			if err != nil {
				return err
			}
		}
		return tx.exec(ctx, insertHealthSQL, sql.Named("endpoint", blob(p.Endpoint)), sql.Named("number", p.Number),
			sql.Named("account", blob(p.Account)), sql.Named("status", string(p.Status)), sql.Named("reason", p.Reason),
			sql.Named("warnings", p.Warnings), sql.Named("since", micros(p.Since)))
	})
}

// refuseHealth returns why the health must not be recorded; nil: it may. A person may have
// changed the endpoint since the health was assessed, or the assessment may be a repeat.
func refuseHealth(ctx context.Context, tx *tx, p postrider.EndpointHealth) error {
	var status postrider.EndpointStatus
	err := tx.row(ctx, endpointStatusSQL, sql.Named("id", blob(p.Endpoint)), sql.Named("account", blob(p.Account))).Scan(toString(&status))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return postrider.ErrNotFound
	case err != nil:
		return err
	case p.Status == postrider.HealthDisabled && status != postrider.EndpointEnabled:
		return fmt.Errorf("the endpoint is %s: %w", status, postrider.ErrConflict)
	}
	rows, err := tx.query(ctx, lastHealthSQL, sql.Named("endpoint", blob(p.Endpoint)))
	if err != nil {
		return err
	}
	last, err := collect(rows, scanHealth)
	if err != nil {
		return err
	}
	if was := append(last, postrider.EndpointHealth{})[0]; p.Number != was.Number+1 {
		return fmt.Errorf("the last health is number %d: %w", was.Number, postrider.ErrConflict)
	}
	return nil
}

// Finds the endpoints whose health may have to change, in the order of their ids, up to
// the limit. Three walks find them:
//
//   - dying: a skip scan of dead_letters_died_at, one step for each endpoint however
//     many dead letters it has, which keeps those with a recent one.
//   - failing: circuits_failing.
//   - unhealthy: endpoint_health_not_healthy; an endpoint that is healthy again by its
//     last row is stepped over.
//
// Deleted endpoints are stepped over in each. Each walk has the limit of its own, so their
// union has the first @limit endpoints of all.
const healthInputsSQL = `
	with recursive dying (endpoint) as (
		select (
			select min(endpoint) from dead_letters
			where endpoint > @after)
		union all
		select (
			select min(endpoint) from dead_letters
			where endpoint > dying.endpoint)
		from dying where dying.endpoint is not null
	), assessed (id) as (
		select endpoint from (
			select endpoint from dying cross join endpoints on endpoints.id = endpoint
			where endpoints.status <> 'deleted'
				and (select max(died_at) from dead_letters where dead_letters.endpoint = dying.endpoint) >= @since
			limit @limit)
		union
		select endpoint from (
			select endpoint from circuits cross join endpoints on endpoints.id = endpoint
			where endpoint > @after and failing_since is not null and endpoints.status <> 'deleted'
			order by endpoint limit @limit)
		union
		select endpoint from (
			select distinct endpoint from endpoint_health once cross join endpoints on endpoints.id = endpoint
			where endpoint > @after and once.status <> 'healthy' and endpoints.status <> 'deleted'
				and (
					select status from endpoint_health last
					where last.endpoint = once.endpoint
					order by number desc limit 1) <> 'healthy'
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

// Count what has ended since a time: dead letters by dead_letters_died_at; delivered
// ones by attempts_endpoint from its end, at most @look attempts, and no further
// than @limit, because more cannot change the assessment.
const (
	deadSinceSQL = `
	select count(*) from dead_letters where endpoint = @endpoint and died_at >= @since`
	deliveredSinceSQL = `
	select count(*) from (
		select 1 from (
			select status_after, stale, started_at + duration as ended_at from attempts
			where endpoint = @endpoint and delivery >= @from
			order by delivery desc limit @look)
		where status_after = 'delivered' and not stale and ended_at >= @since
		limit @limit)`
)

// HealthInputs returns what the assessment of endpoints needs; see [store.Upkeep].
func (s *Store) HealthInputs(ctx context.Context, after postrider.EndpointID, limit int) ([]postrider.HealthInput, error) {
	inputs, err := s.healthInputs(ctx, after, limit)
	return inputs, s.explain("list health inputs", err)
}

// healthInputs reads the endpoints and their counts from one snapshot.
func (s *Store) healthInputs(ctx context.Context, after postrider.EndpointID, limit int) ([]postrider.HealthInput, error) {
	since := s.wall().Add(-postrider.HealthSpan)
	snapshot, err := s.snapshot(ctx, healthInputsSQL, deadSinceSQL, deliveredSinceSQL)
	if err != nil {
		return nil, err
	}
	defer snapshot.end()
	inputs, err := listIn(ctx, snapshot, query{healthInputsSQL, []any{
		sql.Named("after", blob(after)), sql.Named("since", micros(since)), sql.Named("limit", limit),
	}}, scanHealthInput)
	if err != nil {
		return nil, err
	}
	for i := range inputs {
		if err := snapshot.count(ctx, &inputs[i], since); err != nil {
			return nil, err
		}
	}
	return inputs, nil
}

// scanHealthInput reads a row of healthInputsSQL. An endpoint without a health has number
// 0 and keeps the zero health.
func scanHealthInput(rows *sql.Rows, r *postrider.HealthInput) error {
	st := &r.Health
	err := rows.Scan(toID(&r.Endpoint), toID(&r.Account), &r.Enabled, toTime(&r.FailingSince),
		toNumber(&st.Number), toString(&st.Status), toString(&st.Reason), toNumber(&st.Warnings), toTime(&st.Since))
	if st.Number > 0 {
		st.Endpoint, st.Account = r.Endpoint, r.Account
	}
	return err
}

// count counts the deliveries of an endpoint that ended within the span. Those that ended
// before the endpoint was last recorded as healthy do not count: a person who enables it
// gives it a fresh start.
func (v snapshot) count(ctx context.Context, r *postrider.HealthInput, span time.Time) error {
	// Ended within the span, but perhaps created long before it: retries take days.
	reach := span.Add(postrider.HealthSpan - postrider.HealthReach)
	since := span
	if st := r.Health; st.Status == postrider.Healthy && st.Since.After(since) {
		since = st.Since
	}
	endpoint, at := sql.Named("endpoint", blob(r.Endpoint)), sql.Named("since", micros(since))
	dead, err := v.number(ctx, query{deadSinceSQL, []any{endpoint, at}})
	if err != nil {
		return err
	}
	delivered, err := v.number(ctx, query{deliveredSinceSQL, []any{
		endpoint, at, sql.Named("from", blob(firstID[postrider.DeliveryID](reach))), sql.Named("look", postrider.HealthAttempts),
		sql.Named("limit", max(postrider.MinHealthDeliveries, 3*dead)),
	}})
	r.Dead, r.Delivered = int(dead), int(delivered)
	return err
}
