package postgres

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Walks standings_pkey backwards.
const standingsSQL = `
	select s.endpoint, s.account, s.number, s.status, s.reason, s.warnings, s.since
	from standings s
	where s.endpoint = @endpoint and s.number < @before
		and (@account::uuid is null or s.account = @account)
	order by s.number desc
	limit @limit`

// Standings lists an endpoint's standings, newest first.
func (s *Store) Standings(ctx context.Context, q store.StandingQuery) (store.Page[postrider.Standing], error) {
	before := int64(math.MaxInt64)
	key, err := q.Key()
	switch {
	case err == nil && len(key) == 8:
		before = int64(binary.BigEndian.Uint64([]byte(key)))
	case err == nil && key != "":
		err = &postrider.InvalidError{Field: "cursor", Reason: "must be a next_cursor of the same list"}
	}
	if err != nil {
		return store.Page[postrider.Standing]{}, err
	}
	standings, err := list(ctx, s, query{standingsSQL, pgx.NamedArgs{
		"endpoint": someUUID(q.Endpoint), "account": uuid(q.Account), "before": before, "limit": q.Size() + 1,
	}}, scanStanding)
	if err != nil {
		return store.Page[postrider.Standing]{}, fmt.Errorf("list standings of %s: %w", q.Endpoint, err)
	}
	return store.Cut(standings, q.Paging, func(s postrider.Standing) string {
		return string(binary.BigEndian.AppendUint64(nil, uint64(s.Number)))
	}), nil
}

func scanStanding(row pgx.CollectableRow) (s postrider.Standing, err error) {
	err = row.Scan(toID(&s.Endpoint), toID(&s.Account), &s.Number, &s.Status, &s.Reason, &s.Warnings, toTime(&s.Since))
	return s, err
}

// Walks endpoints_pkey.
const disableSQL = `
	update endpoints
	set status = 'disabled', status_reason = @reason, revision = revision + 1, version = @version, updated_at = now()
	where id = @endpoint and account = @account and status = 'enabled'`

// Two nodes that judge at once meet at standings_pkey. Walks endpoints_pkey, and
// standings_pkey backwards.
const insertStandingSQL = `
	insert into standings (endpoint, number, account, status, reason, warnings, since)
	select e.id, @number, e.account, @status, @reason, @warnings, @since
	from endpoints e
	where e.id = @endpoint and e.account = @account
		and @number = 1 + coalesce((
			select s.number
			from standings s
			where s.endpoint = e.id
			order by s.number desc
			limit 1), 0)`

// Tells why nothing was put. Walks endpoints_pkey.
const knownEndpointSQL = `select exists (select from endpoints where id = @endpoint and account = @account)`

// PutStanding records a standing, and disables the endpoint if it says so.
func (s *Store) PutStanding(ctx context.Context, standing postrider.Standing) error {
	args := pgx.NamedArgs{
		"endpoint": someUUID(standing.Endpoint), "account": someUUID(standing.Account), "number": standing.Number,
		"status": string(standing.Status), "reason": standing.Reason, "warnings": standing.Warnings, "since": standing.Since,
	}
	err := s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error { return putStanding(ctx, tx, standing.Status, args) })
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
	if isCode(err, codeUnique) {
		err = postrider.ErrConflict
	}
	if err != nil {
		return fmt.Errorf("put standing of endpoint %s: %w", standing.Endpoint, err)
	}
	return nil
}

// errUnchanged says that a conditional statement met no row.
var errUnchanged = errors.New("no row is as it was expected")

func putStanding(ctx context.Context, tx pgx.Tx, status postrider.StandingStatus, args pgx.NamedArgs) error {
	statements := []string{insertStandingSQL}
	if status == postrider.StandingDisabled {
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

// Three skip scans, of dead_letters_died_at, circuits_failing and
// standings_pkey, find the endpoints; each ends at the limit, and steps over the
// deleted ones, which count for nothing, by endpoints_pkey. What an endpoint
// costs has bounds too: its deliveries are counted from the youngest on, by
// attempts_endpoint, at most StandingLook attempts of what was made within
// StandingReach; rows are compared, since no other index of an empty partition can seem
// as good then.
const recordsSQL = `
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
	), judged (endpoint, bad, found) as (
		select @after::uuid, false, 0
		union all
		select s.endpoint, s.bad, y.found + s.bad::int
		from judged y
		cross join lateral (
			select s.endpoint
			from standings s
			where s.endpoint > y.endpoint
			order by s.endpoint
			limit 1
		) n
		cross join lateral (
			select s.endpoint, s.status <> 'good' and e.lives as bad
			from (
				select s.endpoint, s.status
				from standings s
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
		select endpoint from judged where bad
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
		from standings s
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
		select greatest(now() - @span * interval '1 microsecond', case l.status when 'good' then l.since end) as began
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
			limit greatest(20, 3 * dead.n)
		) a
	) delivered
	order by e.id
	limit @limit`

// Records returns what is needed to judge endpoints.
func (s *Store) Records(ctx context.Context, after postrider.EndpointID, limit int) ([]postrider.Record, error) {
	var records []postrider.Record
	err := s.repeat(ctx, func(bool) (err error) {
		rows, _ := s.pool.Query(ctx, recordsSQL, pgx.NamedArgs{
			"after": someUUID(after), "limit": limit, "span": postrider.StandingSpan.Microseconds(),
			"reach": postrider.StandingReach.Microseconds(), "look": postrider.StandingLook,
		})
		records, err = pgx.CollectRows(rows, scanRecord)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read records: %w", err)
	}
	return records, nil
}

func scanRecord(row pgx.CollectableRow) (r postrider.Record, err error) {
	s := &r.Standing
	err = row.Scan(toID(&r.Endpoint), toID(&r.Account), &r.Enabled, &s.Number, &s.Status, &s.Reason, &s.Warnings,
		toTime(&s.Since), toTime(&r.FailingSince), &r.Dead, &r.Delivered)
	if s.Number > 0 {
		s.Endpoint, s.Account = r.Endpoint, r.Account
	}
	return r, err
}
