package postgres

import (
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// spendQuotasSQL adds the use of accounts. A new row has a full burst minus the spent events, so
// "excluded.burst - excluded.events" is the number of spent events. The day never goes back:
// around midnight, or after a step of the clock, a node with the earlier day would otherwise
// start that day again. The rows are locked in the order of the arguments, which all nodes sort,
// so two calls never wait for each other. The statement walks quota_use_pkey.
const spendQuotasSQL = `
	insert into quota_use as u (account, rate, burst, events, at, asked, day, bytes)
	select s.account, s.rate, s.burst, s.burst - s.events, @now::timestamptz, s.asked, @day::date, s.bytes
	from unnest(@accounts::uuid[], @rates::bigint[], @bursts::bigint[], @events::bigint[], @asked::bigint[], @bytes::bigint[])
		as s (account, rate, burst, events, asked, bytes)
	on conflict (account) do update set
		rate = excluded.rate, burst = excluded.burst,
		events = least(excluded.burst, u.events + excluded.rate * greatest(0, extract(epoch from excluded.at - u.at)::double precision))
			- (excluded.burst - excluded.events),
		at = greatest(u.at, excluded.at), asked = u.asked + excluded.asked,
		bytes = excluded.bytes + case when u.day >= excluded.day then u.bytes else 0 end, day = greatest(u.day, excluded.day)
	returning u.account, u.events, u.asked, u.bytes`

// SpendQuotas adds what accounts have used; see [store.Quotas]. It does not run again when its
// reply is lost, because the use would be counted twice.
func (s *Store) SpendQuotas(ctx context.Context, spends []store.QuotaSpend) (_ []store.QuotaState, err error) {
	defer s.calls.Begin("SpendQuotas").End(&err, "spend quotas")
	args := spendColumns(spends)
	day, _ := store.QuotaDay(s.clock.Wall())
	args["day"] = pgtype.Date{Time: day, Valid: true}
	spent := map[postrider.AccountID]store.QuotaState{}
	err = s.once(ctx, func() error {
		args["now"] = s.clock.Now()
		rows, _ := s.pool.Query(ctx, spendQuotasSQL, args)
		states, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (q store.QuotaState, err error) {
			err = row.Scan(toID(&q.Account), &q.Events, &q.Asked, &q.Bytes)
			return q, err
		})
		for _, state := range states {
			spent[state.Account] = state
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	states := make([]store.QuotaState, len(spends))
	for i, p := range spends {
		states[i] = spent[p.Account]
	}
	return states, nil
}

// spendColumns returns the arguments of spendQuotasSQL, sorted by account.
func spendColumns(spends []store.QuotaSpend) pgx.NamedArgs {
	sorted := slices.Clone(spends)
	slices.SortFunc(sorted, func(a, b store.QuotaSpend) int { return a.Account.Compare(b.Account) })
	accounts := uuids{}
	rates, bursts, events, asked, bytes := numbers{}, numbers{}, numbers{}, numbers{}, numbers{}
	for _, p := range sorted {
		accounts, rates, bursts = append(accounts, someUUID(p.Account)), append(rates, number(p.Rate)), append(bursts, number(p.Burst))
		events, asked, bytes = append(events, number(p.Events)), append(asked, number(p.Asked)), append(bytes, number(p.Bytes))
	}
	return pgx.NamedArgs{
		"accounts": accounts, "rates": rates, "bursts": bursts, "events": events, "asked": asked, "bytes": bytes, "now": nil, "day": nil,
	}
}

// endpointBacklogsSQL returns the backlogs of the next endpoints. Each step of the recursion
// finds the next endpoint of four indexes, however many rows are between: queue_due,
// queue_order_key for endpoints whose rows all wait for their keys, queue_parked, and
// endpoints_full. Then the step counts as endpointStatesSQL does, and stops at the limit of the
// endpoint's account. After @count counted rows there is no further step. So a call reads at most
// @count rows, and in addition the rows of its last endpoint. If no account has a limit, only
// endpoints_full is read. The statement walks endpoints_pkey and quotas_pkey for each endpoint.
// The "offset 0" keeps the planner from searching the next endpoint six times, once for each use
// of its id.
const endpointBacklogsSQL = `
	with recursive limited (yes) as materialized (
		select @default::bigint > 0 or exists (select from quotas q where q.backlog > 0)
	), looked (id, account, most, waiting, full_since, place, counted) as (
		select @after::uuid, null::uuid, 0::bigint, 0::bigint, null::timestamptz, 0, 0::bigint
		union all
		select next.id, e.account, e.most, c.waiting, e.full_since, l.place + 1, l.counted + c.waiting
		from looked l
		cross join lateral (
			select least(
				(
					select q.endpoint
					from queue q
					where (select yes from limited) and q.endpoint > l.id and q.due_at < 'infinity'
					order by q.endpoint, q.lane, q.due_at
					limit 1
				),
				(
					select q.endpoint
					from queue q
					where (select yes from limited) and q.endpoint > l.id and q.ordering_key is not null
					order by q.endpoint, q.ordering_key, q.sequence
					limit 1
				),
				(
					select q.endpoint
					from queue q
					where (select yes from limited) and q.endpoint > l.id and q.parked
					order by q.endpoint
					limit 1
				),
				(
					select f.id
					from endpoints f
					where f.id > l.id and f.full_since is not null and f.status <> 'deleted'
					order by f.id
					limit 1
				)) as id
			offset 0
		) next
		left join lateral (
			select e.account, e.full_since, greatest(0, coalesce(
				(select nullif(a.backlog, 0) from quotas a where a.account = e.account limit 1), @default::bigint)) as most
			from endpoints e
			where e.id = next.id and e.status <> 'deleted'
			limit 1
		) e on true
		cross join lateral (
			select count(*) as waiting
			from (
				(select from queue q where q.endpoint = next.id and q.due_at < 'infinity')
				union all
				(select from queue q where q.endpoint = next.id and q.ordering_key is not null and q.due_at = 'infinity')
				union all
				(select from queue q where q.endpoint = next.id and q.parked and q.ordering_key is null)
				limit coalesce(e.most, 0)
			) q
		) c
		where next.id is not null and l.place < @max and l.counted < @count
	)
	select id, account, coalesce(most, 0), waiting, full_since
	from looked
	where place > 0
	order by place`

// EndpointBacklogs returns the backlogs of the next endpoints; see [store.Quotas].
func (s *Store) EndpointBacklogs(ctx context.Context, q store.BacklogsQuery) (backlogs []postrider.EndpointBacklog, err error) {
	defer s.calls.Begin("EndpointBacklogs").End(&err, "count the backlogs of endpoints")
	err = s.repeat(ctx, func(bool) error {
		rows, _ := s.pool.Query(ctx, endpointBacklogsSQL, pgx.NamedArgs{
			"after": someUUID(q.After), "max": q.Max, "default": q.Default, "count": q.Count,
		})
		backlogs, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (b postrider.EndpointBacklog, err error) {
			err = row.Scan(toID(&b.Endpoint), toID(&b.Account), &b.Limit, &b.Waiting, toTime(&b.Full))
			return b, err
		})
		return err
	})
	return backlogs, err
}
