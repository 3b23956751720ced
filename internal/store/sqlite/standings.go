package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

const standingColumns = `endpoint, number, account, status, reason, warnings, since`

// Both by the key of standings, from its end.
const (
	standingsSQL = `
	select ` + standingColumns + ` from standings
	where endpoint = @endpoint and (@account is null or account = @account) and number < @below
	order by number desc limit @limit`
	lastStandingSQL = `
	select ` + standingColumns + ` from standings
	where endpoint = @endpoint
	order by number desc limit 1`
)

// Standings lists an endpoint's standings; see [store.Ledger].
func (s *Store) Standings(ctx context.Context, q store.StandingQuery) (store.Page[postrider.Standing], error) {
	below, err := standingCursor(q.Paging)
	if err != nil {
		return store.Page[postrider.Standing]{}, err
	}
	standings, err := list(ctx, s, query{standingsSQL, []any{
		sql.Named("endpoint", blob(q.Endpoint)), sql.Named("account", blobOrNull(q.Account)),
		sql.Named("below", below), sql.Named("limit", q.Size()+1),
	}}, scanStanding)
	return store.Cut(standings, q.Paging, standingKey), s.explain("list standings", err)
}

func scanStanding(rows *sql.Rows, s *postrider.Standing) error {
	return rows.Scan(toID(&s.Endpoint), &s.Number, toID(&s.Account), toString(&s.Status), &s.Reason, &s.Warnings,
		toTime(&s.Since))
}

// standingKey is a standing's number.
func standingKey(s postrider.Standing) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(s.Number)))
}

func standingCursor(p store.Paging) (below int64, err error) {
	k, err := p.Key()
	switch {
	case err != nil:
		return 0, err
	case k == "":
		return never, nil
	case len(k) != 8:
		_, _, err := store.IDKey[postrider.EndpointID](store.Paging{Cursor: store.EncodeCursor("?")})
		return 0, err
	}
	return int64(binary.BigEndian.Uint64([]byte(k))), nil
}

// By the key of endpoints.
const (
	endpointStatusSQL = `select status from endpoints where id = @id and account = @account`
	disableSQL        = `
	update endpoints
	set status = 'disabled', status_reason = @reason, revision = revision + 1, version = @version, updated_at = @now
	where id = @id`
)

const insertStandingSQL = `
	insert into standings (` + standingColumns + `)
	values (@endpoint, @number, @account, @status, @reason, @warnings, @since)`

// PutStanding records a standing; see [store.Upkeep].
func (s *Store) PutStanding(ctx context.Context, p postrider.Standing) error {
	return change(ctx, s, "put standing", func(ctx context.Context, tx *tx) error {
		if err := refuseStanding(ctx, tx, p); err != nil {
			return err
		}
		if p.Status == postrider.StandingDisabled {
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
		return tx.exec(ctx, insertStandingSQL, sql.Named("endpoint", blob(p.Endpoint)), sql.Named("number", p.Number),
			sql.Named("account", blob(p.Account)), sql.Named("status", string(p.Status)), sql.Named("reason", p.Reason),
			sql.Named("warnings", p.Warnings), sql.Named("since", micros(p.Since)))
	})
}

// refuseStanding returns why the standing may not be recorded.
func refuseStanding(ctx context.Context, tx *tx, p postrider.Standing) error {
	var status postrider.EndpointStatus
	err := tx.row(ctx, endpointStatusSQL, sql.Named("id", blob(p.Endpoint)), sql.Named("account", blob(p.Account))).Scan(toString(&status))
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return postrider.ErrNotFound
	case err != nil:
		return err
	case p.Status == postrider.StandingDisabled && status != postrider.EndpointEnabled:
		return fmt.Errorf("the endpoint is %s: %w", status, postrider.ErrConflict)
	}
	rows, err := tx.query(ctx, lastStandingSQL, sql.Named("endpoint", blob(p.Endpoint)))
	if err != nil {
		return err
	}
	last, err := collect(rows, scanStanding)
	if err != nil {
		return err
	}
	if was := append(last, postrider.Standing{})[0]; p.Number != was.Number+1 {
		return fmt.Errorf("the last standing is number %d: %w", was.Number, postrider.ErrConflict)
	}
	return nil
}

// Three walks in the order of endpoints, each to the limit: a skip scan of
// dead_letters_died_at, circuits_failing and standings_not_good. What is not
// good any more, or deleted, is stepped over.
const judgedSQL = `
	with recursive dying (endpoint) as (
		select (
			select min(endpoint) from dead_letters
			where endpoint > @after)
		union all
		select (
			select min(endpoint) from dead_letters
			where endpoint > dying.endpoint)
		from dying where dying.endpoint is not null
	), judged (id) as (
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
			select distinct endpoint from standings once cross join endpoints on endpoints.id = endpoint
			where endpoint > @after and once.status <> 'good' and endpoints.status <> 'deleted'
				and (
					select status from standings last
					where last.endpoint = once.endpoint
					order by number desc limit 1) <> 'good'
			order by endpoint limit @limit)
		order by 1 limit @limit
	)
	select id, endpoints.account, endpoints.status = 'enabled', circuits.failing_since,
		standings.number, standings.status, standings.reason, standings.warnings, standings.since
	from judged
	cross join endpoints using (id)
	left join circuits on circuits.endpoint = id
	left join standings on standings.endpoint = id and standings.number = (
		select max(number) from standings last where last.endpoint = id)
	order by id`

// By dead_letters_died_at, and by attempts_endpoint from its end, each row
// looked up.
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

// Records returns what is needed to judge endpoints; see [store.Upkeep].
func (s *Store) Records(ctx context.Context, after postrider.EndpointID, limit int) ([]postrider.Record, error) {
	records, err := s.records(ctx, after, limit)
	return records, s.explain("list records", err)
}

func (s *Store) records(ctx context.Context, after postrider.EndpointID, limit int) ([]postrider.Record, error) {
	since := s.wall().Add(-postrider.StandingSpan)
	snapshot, err := s.snapshot(ctx, judgedSQL, deadSinceSQL, deliveredSinceSQL)
	if err != nil {
		return nil, err
	}
	defer snapshot.end()
	records, err := listIn(ctx, snapshot, query{judgedSQL, []any{
		sql.Named("after", blob(after)), sql.Named("since", micros(since)), sql.Named("limit", limit),
	}}, scanRecord)
	if err != nil {
		return nil, err
	}
	for i := range records {
		if err := snapshot.count(ctx, &records[i], since); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func scanRecord(rows *sql.Rows, r *postrider.Record) error {
	st := &r.Standing
	err := rows.Scan(toID(&r.Endpoint), toID(&r.Account), &r.Enabled, toTime(&r.FailingSince),
		toNumber(&st.Number), toString(&st.Status), toString(&st.Reason), toNumber(&st.Warnings), toTime(&st.Since))
	if st.Number > 0 {
		st.Endpoint, st.Account = r.Endpoint, r.Account
	}
	return err
}

// leastCounted is how many deliveries are counted where few are dead.
const leastCounted = 20

// count counts an endpoint's deliveries of the span, those since its standing
// became good.
func (v snapshot) count(ctx context.Context, r *postrider.Record, span time.Time) error {
	reach := span.Add(postrider.StandingSpan - postrider.StandingReach)
	since := span
	if st := r.Standing; st.Status == postrider.StandingGood && st.Since.After(since) {
		since = st.Since
	}
	endpoint, at := sql.Named("endpoint", blob(r.Endpoint)), sql.Named("since", micros(since))
	dead, err := v.number(ctx, query{deadSinceSQL, []any{endpoint, at}})
	if err != nil {
		return err
	}
	delivered, err := v.number(ctx, query{deliveredSinceSQL, []any{
		endpoint, at, sql.Named("from", blob(firstID[postrider.DeliveryID](reach))), sql.Named("look", postrider.StandingLook),
		sql.Named("limit", max(leastCounted, 3*dead)),
	}})
	r.Dead, r.Delivered = int(dead), int(delivered)
	return err
}
