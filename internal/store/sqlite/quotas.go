package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// By the keys of accounts and quotas.
const (
	liveAccountSQL = `select count(*) from accounts where id = @account and deleted_at is null`
	putQuotasSQL   = `
	insert into quotas (account, events_per_second, burst, bytes_per_day, endpoints, backlog, version)
	values (@account, @events, @burst, @bytes, @endpoints, @backlog, @version)
	on conflict (account) do update set events_per_second = excluded.events_per_second, burst = excluded.burst,
		bytes_per_day = excluded.bytes_per_day, endpoints = excluded.endpoints, backlog = excluded.backlog, version = excluded.version`
)

// PutQuotas replaces the quotas of an account; see [store.Quotas].
func (s *Store) PutQuotas(ctx context.Context, account postrider.AccountID, q postrider.Quotas) error {
	return change(ctx, s, "put quotas", func(ctx context.Context, tx *tx) error {
		var live int
		if err := tx.row(ctx, liveAccountSQL, sql.Named("account", blob(account))).Scan(&live); err != nil {
			return err
		}
		if live == 0 {
			return postrider.ErrNotFound
		}
		version, err := raiseVersion(ctx, tx)
		if err != nil {
			return err
		}
		return tx.exec(ctx, putQuotasSQL, sql.Named("account", blob(account)), sql.Named("events", q.EventsPerSecond),
			sql.Named("burst", q.Burst), sql.Named("bytes", q.BytesPerDay), sql.Named("endpoints", q.Endpoints),
			sql.Named("backlog", q.Backlog), sql.Named("version", version))
	})
}

// By the key of quotas, or by quotas_version.
const (
	quotasOfAccountSQL = `
	select account, events_per_second, burst, bytes_per_day, endpoints, backlog, version from quotas
	where account = @account and version > @after`
	quotasSQL = `
	select account, events_per_second, burst, bytes_per_day, endpoints, backlog, version from quotas
	where version > @after
	order by version limit @limit`
)

// Quotas lists the quotas of accounts; see [store.Quotas].
func (s *Store) Quotas(ctx context.Context, q store.QuotaQuery) ([]store.AccountQuotas, error) {
	limit := q.Limit
	if limit <= 0 {
		limit = -1 // which SQLite takes for no limit
	}
	asked := query{quotasSQL, []any{sql.Named("after", q.After), sql.Named("limit", limit)}}
	if !q.Account.IsZero() {
		asked = query{quotasOfAccountSQL, []any{sql.Named("account", blob(q.Account)), sql.Named("after", q.After)}}
	}
	found, err := list(ctx, s, asked, func(rows *sql.Rows, a *store.AccountQuotas) error {
		return rows.Scan(toID(&a.Account), &a.Quotas.EventsPerSecond, &a.Quotas.Burst, &a.Quotas.BytesPerDay, &a.Quotas.Endpoints,
			&a.Quotas.Backlog, &a.Version)
	})
	return found, s.explain("list quotas", err)
}

// A row that is new holds a full burst, less what was spent; so "excluded.burst -
// excluded.events" is what was spent. The clock of the store never
// goes back, nor does the day, when the time of day is stepped. By the key.
const spendQuotaSQL = `
	insert into quota_use as u (account, rate, burst, events, at, asked, day, bytes)
	values (@account, @rate, @burst, @burst - @events, @now, @asked, @day, @bytes)
	on conflict (account) do update set
		rate = excluded.rate, burst = excluded.burst,
		events = min(excluded.burst, u.events + excluded.rate * max(0, excluded.at - u.at) / 1e6) - (excluded.burst - excluded.events),
		at = excluded.at, asked = u.asked + excluded.asked,
		bytes = excluded.bytes + case when u.day >= excluded.day then u.bytes else 0 end, day = max(u.day, excluded.day)
	returning events, asked, bytes`

// SpendQuotas adds what accounts have used; see [store.Quotas].
func (s *Store) SpendQuotas(ctx context.Context, spends []store.QuotaSpend) ([]store.QuotaState, error) {
	return write(ctx, s, "spend quotas", func(ctx context.Context, tx *tx) ([]store.QuotaState, error) {
		states := make([]store.QuotaState, len(spends))
		for i, p := range spends {
			states[i].Account = p.Account
			err := tx.row(ctx, spendQuotaSQL, sql.Named("account", blob(p.Account)), sql.Named("rate", p.Rate), sql.Named("burst", p.Burst),
				sql.Named("events", p.Events), sql.Named("now", micros(tx.now)), sql.Named("asked", p.Asked),
				sql.Named("day", dayNumber(tx.wall)), sql.Named("bytes", p.Bytes)).Scan(&states[i].Events, &states[i].Asked, &states[i].Bytes)
			if err != nil {
				return nil, err
			}
		}
		return states, nil
	})
}

// dayNumber returns the day of a time as quota_use has it, in days since 1970.
func dayNumber(wall time.Time) int64 {
	day, _ := store.QuotaDay(wall)
	return day.Unix() / 86400
}

// By the key of quota_use, and by endpoints_account.
const (
	quotaUseSQL = `
	select max(0, burst - events - rate * max(0, @now - at) / 1e6), case when day >= @day then bytes else 0 end
	from quota_use where account = @account`
	countEndpointsSQL = `select count(*) from endpoints where account = @account and status <> 'deleted'`
)

// QuotaUse returns what an account uses; see [store.Quotas].
func (s *Store) QuotaUse(ctx context.Context, account postrider.AccountID) (use postrider.QuotaUse, err error) {
	_, use.DayEnds = store.QuotaDay(s.wall())
	used, err := list(ctx, s, query{quotaUseSQL, []any{
		sql.Named("account", blob(account)), sql.Named("now", micros(s.clock.Now())), sql.Named("day", dayNumber(s.wall())),
	}}, func(rows *sql.Rows, u *postrider.QuotaUse) error { return rows.Scan(&u.Missing, &u.Bytes) })
	if err == nil && len(used) > 0 {
		use.Missing, use.Bytes = used[0].Missing, used[0].Bytes
	}
	counted, countErr := list(ctx, s, query{countEndpointsSQL, []any{sql.Named("account", blob(account))}},
		func(rows *sql.Rows, n *int64) error { return rows.Scan(n) })
	if err = errors.Join(err, countErr); err == nil {
		use.Endpoints = counted[0]
	}
	return use, s.explain("read the use of quotas", err)
}

// checkMost refuses a new endpoint of an account that has as many as it may have. All
// changes run one after the other, so parallel calls are counted too.
func checkMost(ctx context.Context, tx *tx, p store.PutEndpoint) error {
	if p.Most == 0 || p.Endpoint.Revision > 0 {
		return nil
	}
	var n int64
	err := tx.row(ctx, countEndpointsSQL, sql.Named("account", blob(p.Endpoint.Account))).Scan(&n)
	if err == nil && n >= p.Most {
		err = &postrider.QuotaError{Account: p.Endpoint.Account, Quota: postrider.QuotaEndpoints, Limit: p.Most}
	}
	return err
}

// The next endpoint with pending deliveries, by the start of queue_due behind the last one, or
// with the mark, by endpoints_full; then its row, and the limit of its account, by their keys.
// Without any limit only endpoints_full is read.
const (
	nextBacklogSQL = `
	select n.id, e.account, max(0, coalesce(nullif(a.backlog, 0), @default)), e.full_since
	from (
		select min(id) as id from (
			select (select min(endpoint) from queue where endpoint > @after) as id
			where @default > 0 or exists (select 1 from quotas where backlog > 0)
			union all
			select (select min(id) from endpoints where id > @after and full_since is not null and status <> 'deleted'))
	) n
	left join endpoints e on e.id = n.id and e.status <> 'deleted'
	left join quotas a on a.account = e.account
	where n.id is not null`
	countBacklogSQL = `select count(*) from (select 1 from queue where endpoint = @endpoint limit @most)`
)

// EndpointBacklogs returns the backlogs of the next endpoints; see [store.Quotas].
func (s *Store) EndpointBacklogs(ctx context.Context, q store.BacklogsQuery) ([]postrider.EndpointBacklog, error) {
	const doing = "count the backlogs of endpoints"
	var backlogs []postrider.EndpointBacklog
	for counted := int64(0); len(backlogs) < q.Max && counted < q.Count; {
		found, err := list(ctx, s, query{nextBacklogSQL, []any{sql.Named("after", blob(q.After)), sql.Named("default", q.Default)}},
			func(rows *sql.Rows, b *postrider.EndpointBacklog) error {
				return rows.Scan(toID(&b.Endpoint), toID(&b.Account), &b.Limit, toTime(&b.Full))
			})
		if err != nil || len(found) == 0 {
			return backlogs, s.explain(doing, err)
		}
		b := found[0]
		if b.Account.IsZero() { // its endpoint is deleted
			b.Limit = 0
		}
		if b.Limit > 0 {
			waiting, err := list(ctx, s, query{countBacklogSQL, []any{sql.Named("endpoint", blob(b.Endpoint)), sql.Named("most", b.Limit)}},
				func(rows *sql.Rows, n *int64) error { return rows.Scan(n) })
			if err != nil {
				return nil, s.explain(doing, err)
			}
			b.Waiting = waiting[0]
		}
		counted += b.Waiting
		q.After = b.Endpoint
		backlogs = append(backlogs, b)
	}
	return backlogs, nil
}

// By the key of endpoints.
const (
	markFullSQL = `
	update endpoints set full_since = coalesce(full_since, @now), version = @version
	where id = @id and status <> 'deleted'`
	markFreeSQL = `update endpoints set full_since = null, version = @version where id = @id and status <> 'deleted'`
)

// MarkFull marks endpoints as full, or takes the mark from them; see [store.Quotas].
func (s *Store) MarkFull(ctx context.Context, m store.MarkFull) ([]postrider.Notice, error) {
	return write(ctx, s, "mark full endpoints", func(ctx context.Context, tx *tx) ([]postrider.Notice, error) {
		for i, id := range slices.Concat(m.Full, m.Free) {
			version, err := raiseVersion(ctx, tx)
			if err != nil {
				return nil, err
			}
			statement, args := markFreeSQL, []any{sql.Named("id", blob(id)), sql.Named("version", version)}
			if i < len(m.Full) {
				statement, args = markFullSQL, append(args, sql.Named("now", micros(tx.wall)))
			}
			if err := tx.exec(ctx, statement, args...); err != nil {
				return nil, err
			}
		}
		return putNotices(ctx, tx, m.Notices)
	})
}
