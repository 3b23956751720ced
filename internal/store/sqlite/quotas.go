package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// spendQuotaSQL adds the use of an account. A new row has a full burst minus the spent events, so
// "excluded.burst - excluded.events" is the number of spent events. The clock of the store never
// goes back. The day does not go back either when the time of day is stepped. The statement walks
// the primary key.
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
func (s *Store) SpendQuotas(ctx context.Context, spends []store.QuotaSpend) (_ []store.QuotaState, err error) {
	defer s.calls.Begin("SpendQuotas").End(&err, "spend quotas")
	day, _ := store.QuotaDay(s.wall())
	return write(ctx, s, func(ctx context.Context, tx *tx) ([]store.QuotaState, error) {
		states := make([]store.QuotaState, len(spends))
		for i, p := range spends {
			states[i].Account = p.Account
			err := tx.row(ctx, spendQuotaSQL, sql.Named("account", blob(p.Account)), sql.Named("rate", p.Rate), sql.Named("burst", p.Burst),
				sql.Named("events", p.Events), sql.Named("now", micros(tx.now)), sql.Named("asked", p.Asked),
				sql.Named("day", micros(day)), sql.Named("bytes", p.Bytes)).Scan(&states[i].Events, &states[i].Asked, &states[i].Bytes)
			if err != nil {
				return nil, err
			}
		}
		return states, nil
	})
}

// nextBacklogSQL returns the next endpoint that has pending deliveries or is marked as full. It
// finds the first kind at the start of queue_due after the last endpoint, and the second kind by
// endpoints_full. It also returns the endpoint's row and the limit of its account, by primary
// keys. If no account has a limit, it reads only endpoints_full.
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
func (s *Store) EndpointBacklogs(ctx context.Context, q store.BacklogsQuery) (backlogs []postrider.EndpointBacklog, err error) {
	defer s.calls.Begin("EndpointBacklogs").End(&err, "count the backlogs of endpoints")
	for counted := int64(0); len(backlogs) < q.Max && counted < q.Count; {
		found, err := list(ctx, s, query{nextBacklogSQL, []any{sql.Named("after", blob(q.After)), sql.Named("default", q.Default)}},
			func(rows *sql.Rows, b *postrider.EndpointBacklog) error {
				return rows.Scan(toID(&b.Endpoint), toID(&b.Account), &b.Limit, toTime(&b.Full))
			})
		if err != nil || len(found) == 0 {
			return backlogs, s.fault(err)
		}
		b := found[0]
		if b.Account.IsZero() { // the endpoint is deleted
			b.Limit = 0
		}
		if b.Limit > 0 {
			waiting, err := list(ctx, s, query{countBacklogSQL, []any{sql.Named("endpoint", blob(b.Endpoint)), sql.Named("most", b.Limit)}},
				func(rows *sql.Rows, n *int64) error { return rows.Scan(n) })
			if err != nil {
				return nil, s.fault(err)
			}
			b.Waiting = waiting[0]
		}
		counted += b.Waiting
		q.After = b.Endpoint
		backlogs = append(backlogs, b)
	}
	return backlogs, nil
}
