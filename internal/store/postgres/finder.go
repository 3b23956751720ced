package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// findSQL finds the objects that match a text. Each branch reads at most 1,000 rows of its index,
// and its first column is a store.FoundBy. A deleted account or endpoint can still have search
// terms, so the last branch checks that the object is not deleted.
//
// The branches walk these indexes: endpoint_secrets_pkey; idempotency_keys_pkey;
// ordering_keys_pkey, and events_order for each account; search_terms_pkey, or
// search_terms_account for one account.
const findSQL = `
	(
		select 0 as by, e.account, e.id as endpoint, null::uuid as event, e.id
		from endpoint_secrets s
		join endpoints e on e.id = s.endpoint
		where s.id = @secret and (@account::uuid is null or e.account = @account)
	)
	union all
	(
		select 1, k.account, null, k.event, k.event
		from (
			select k.account, k.event
			from idempotency_keys k
			where k.key = @text and (@account::uuid is null or k.account = @account)
			limit 1000
		) k
		order by k.event desc
		limit @limit
	)
	union all
	(
		select 2, h.account, null, e.id, e.id
		from (
			select h.account
			from ordering_keys h
			where h.ordering_key = @text and (@account::uuid is null or h.account = @account)
			limit 1000
		) h
		cross join lateral (
			select e.id
			from events e
			where e.account = h.account and e.ordering_key = @text
			order by e.id desc
			limit 1
		) e
		order by e.id desc
		limit @limit
	)
	union all
	(
		select 3, t.account, nullif(t.id, t.account), null, t.id
		from (
			select distinct t.account, t.id
			from (
				select t.account, t.id
				from search_terms t
				where t.term >= @term and t.term < @after and (@account::uuid is null or t.account = @account)
				order by t.term
				limit 1000
			) t
		) t
		cross join lateral (
			select from endpoints e where e.id = t.id and e.status <> 'deleted'
			union all
			select from accounts a where a.id = t.id and a.deleted_at is null
			limit 1
		) live
		order by t.id desc
		limit @limit
	)
	order by 1, 5 desc
	limit @limit`

// Find lists the objects that match a text; see [store.Finder].
func (s *Store) Find(ctx context.Context, q store.FindQuery) (_ []store.Found, err error) {
	defer s.calls.Begin("Find").End(&err, "find")
	term := store.SearchText(q.Text)
	return list(ctx, s, query{findSQL, pgx.NamedArgs{
		"account": uuid(q.Account), "secret": uuid(q.Secret), "text": text(q.Text), "term": text(term),
		"after": store.AfterTerms(term), "limit": min(q.Limit, store.MaxLimit),
	}}, func(row pgx.CollectableRow) (f store.Found, err error) {
		err = row.Scan(&f.By, toID(&f.Account), toID(&f.Endpoint), toID(&f.Event), nil)
		return f, err
	})
}

// deadLetterGroupsSQL is a skip scan. Each step of the recursion finds the next lower endpoint
// and cause, however many dead letters a group has. The scan starts at the group of the cursor,
// or above all groups of the account or endpoint. It counts up to 1,000 dead letters of a group,
// so the cost of a page has a limit.
//
// The cursor is a dead letter of the last group. Its row stays, with the same cause, even if the
// group is gone. The statement walks dead_letters_pkey and dead_letters_unresolved.
const deadLetterGroupsSQL = `
	with recursive groups (account, endpoint, reason, code, error, newest, n) as (
		select l.account, l.endpoint, l.reason, l.last_status_code::int, l.last_error, l.delivery, 0
		from dead_letters l
		where l.delivery = @cursor
		union all
		select @to_account::uuid, @to_endpoint::uuid, '', 0, '', null, 0
		where @cursor::uuid is null
		union all
		select l.account, l.endpoint, l.reason, l.last_status_code::int, l.last_error, l.delivery, g.n + 1
		from groups g
		cross join lateral (
			select l.*
			from dead_letters l
			where l.resolved_at is null
				and (l.account, l.endpoint, l.reason, l.last_status_code, l.last_error)
					< (g.account, g.endpoint, g.reason, g.code::smallint, g.error)
				and (l.account, l.endpoint) >= (@from_account::uuid, @from_endpoint::uuid)
			order by l.account desc, l.endpoint desc, l.reason desc, l.last_status_code desc, l.last_error desc, l.delivery desc
			limit 1
		) l
		where g.n < @limit
	)
	select g.account, g.endpoint, g.reason, g.code, g.error, c.n, o.delivery, g.newest
	from groups g
	cross join lateral (
		select count(*) as n
		from (
			select
			from dead_letters l
			where l.resolved_at is null and l.account = g.account and l.endpoint = g.endpoint and l.reason = g.reason
				and l.last_status_code = g.code::smallint and l.last_error = g.error
			limit 1000
		) l
	) c
	cross join lateral (
		select l.delivery
		from dead_letters l
		where l.resolved_at is null and l.account = g.account and l.endpoint = g.endpoint and l.reason = g.reason
			and l.last_status_code = g.code::smallint and l.last_error = g.error
		order by l.delivery
		limit 1
	) o
	where g.n > 0
	order by g.n`

// DeadLetterGroups lists the unresolved dead letters by endpoint and cause; see [store.Finder].
func (s *Store) DeadLetterGroups(ctx context.Context, q store.DeadLetterGroupQuery) (_ store.Page[store.DeadLetterGroup], err error) {
	defer s.calls.Begin("DeadLetterGroups").End(&err, "list groups of dead letters")
	cursor, _, err := store.IDKey[postrider.DeliveryID](q.Paging)
	if err != nil {
		return store.Page[store.DeadLetterGroup]{}, err
	}
	from, to := q.Bounds()
	groups, err := list(ctx, s, query{deadLetterGroupsSQL, pgx.NamedArgs{
		"cursor": uuid(cursor), "from_account": someUUID(from.Account), "from_endpoint": someUUID(from.Endpoint),
		"to_account": someUUID(to.Account), "to_endpoint": someUUID(to.Endpoint), "limit": q.Size() + 1,
	}}, func(row pgx.CollectableRow) (g store.DeadLetterGroup, err error) {
		err = row.Scan(toID(&g.Account), toID(&g.Endpoint), &g.Reason, &g.LastStatusCode, &g.LastError, &g.Count,
			toID(&g.Oldest), toID(&g.Newest))
		return g, err
	})
	return store.Cut(groups, q.Paging, func(g store.DeadLetterGroup) string { return string(g.Newest[:]) }), err
}
