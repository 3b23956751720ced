package sqlstore

import (
	"context"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// findSQL finds the objects that match a text. Each branch reads at most 1,000 rows of its index,
// and its first column is a store.FoundBy. A deleted account or endpoint can still have search
// terms, so the last branch checks that the object is not deleted. Its subqueries are scalar, so
// that PostgreSQL does not read all endpoints for them.
//
// With an account, Find replaces each "/* of */ true" by a condition on the account. The branches
// walk these indexes: the primary key of endpoint_secrets; that of idempotency_keys; that of
// ordering_keys, and events_order for each account; the primary key of search_terms, or
// search_terms_account for one account.
const findSQL = `
	select 0 as found, e.account, e.id as endpoint, null::uuid as event, e.id
	from endpoint_secrets s
	join endpoints e on e.id = s.endpoint
	where s.id = @secret and /* of */ true
	union all
	select found, account, endpoint, event, id
	from (
		select 1 as found, k.account, null::uuid as endpoint, k.event, k.event as id
		from (
			select account, event
			from idempotency_keys
			where key = @text and /* of */ true
			limit 1000
		) k
		order by k.event desc
		limit @limit
	) k
	union all
	select found, account, endpoint, event, id
	from (
		select 2 as found, o.account, null::uuid as endpoint, o.event, o.event as id
		from (
			select h.account, (
					select e.id
					from events e
					where e.account = h.account and e.ordering_key = @text and e.ordering_key <> ''
					order by e.id desc
					limit 1
				) as event
			from ordering_keys h
			where ordering_key = @text and /* of */ true
			limit 1000
		) o
		where o.event is not null
		order by o.event desc
		limit @limit
	) o
	union all
	select found, account, endpoint, event, id
	from (
		select distinct 3 as found, t.account, nullif(t.id, t.account) as endpoint, null::uuid as event, t.id
		from (
			select account, id
			from search_terms
			where term >= @term and term < @after and @term <> '' and /* of */ true
			order by term
			limit 1000
		) t
		where (select e.id from endpoints e where e.id = t.id and e.status <> 'deleted') is not null
			or (select a.id from accounts a where a.id = t.id and a.deleted_at is null) is not null
		order by t.id desc
		limit @limit
	) t
	order by 1, 5 desc
	limit @limit`

// Find lists the objects that match a text; see [store.Finder].
func (v Verbs) Find(ctx context.Context, q store.FindQuery) (_ []store.Found, err error) {
	defer v.calls.Begin("Find").End(&err, "find")
	statement, term := findSQL, store.SearchText(q.Text)
	if !q.Account.IsZero() {
		statement = strings.ReplaceAll(findSQL, "/* of */ true", "account = @account")
	}
	return all(ctx, v.db, Query{statement, Args{
		"account": q.Account, "secret": q.Secret, "text": q.Text, "term": term, "after": store.AfterTerms(term),
		"limit": min(q.Limit, store.MaxLimit),
	}}, func(row Row, f *store.Found) error {
		var id [16]byte
		return row.Scan(&f.By, &f.Account, &f.Endpoint, &f.Event, &id)
	})
}

// FindEvents lists the events that have one of the terms; see [store.Finder]. For each term it walks the
// primary key of event_terms.
func (v Verbs) FindEvents(ctx context.Context, q store.TermQuery) (_ store.Page[postrider.EventID], err error) {
	defer v.calls.Begin("FindEvents").End(&err, "find events")
	var ids []postrider.EventID
	for _, term := range q.Terms {
		l, err := listOf[postrider.EventID](v.db, `select id from event_terms`, q.Span, q.Paging)
		if err != nil {
			return store.Page[postrider.EventID]{}, err
		}
		l.and("term = @term", Args{"term": term})
		found, err := all(ctx, v.db, l.query(), func(row Row, id *postrider.EventID) error { return row.Scan(id) })
		if err != nil {
			return store.Page[postrider.EventID]{}, err
		}
		ids = append(ids, found...)
	}
	return store.MergeEvents(ids, q.Paging), nil
}

// RemoveTerms removes the terms of events that are deleted, and returns their number. It walks
// event_terms_id.
func RemoveTerms(ctx context.Context, tx Tx, events []store.RowID) (int64, error) {
	return tx.Exec(ctx, Query{`delete from event_terms where id = any(@events::uuid[])`, Args{"events": events}})
}

// deadLetterGroupsSQL is a skip scan. Each step of the recursion finds the next lower endpoint
// and cause, however many dead letters a group has. The scan starts at the group of the cursor,
// or above all groups of the account or endpoint. It counts up to 1,000 dead letters of a group,
// so the cost of a page has a limit.
//
// The cursor is a dead letter of the last group. Its row stays, with the same cause, even if the
// group is gone. A caller can send any cursor, and each step has only a lower bound, so the scan
// starts only at a group that the query selects. The statement walks dead_letters_pkey and
// dead_letters_unresolved.
const deadLetterGroupsSQL = `
	with recursive groups (account, endpoint, reason, code, error, newest, n) as (
		select l.account, l.endpoint, l.reason, l.last_status_code::int, l.last_error, l.delivery, 0
		from dead_letters l
		where l.delivery = @cursor
			and (l.account, l.endpoint) >= (@from_account::uuid, @from_endpoint::uuid)
			and (l.account, l.endpoint) < (@to_account::uuid, @to_endpoint::uuid)
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

// deadLetterGroupsOfSQLite is the same for SQLite, which has no lateral joins.
//
// Each step must begin below its group. SQLite enters an index behind all entries that equal the
// compared row. So the row has an empty delivery, which no dead letter has. The plus signs remove
// the affinity of the columns of groups; with the affinity SQLite does not use the index for
// texts and numbers. Without one of these, a step walks over all dead letters of the endpoint
// (2026-11: 104 ms for a page, 200,000 dead letters).
const deadLetterGroupsOfSQLite = `
	with recursive groups (newest, account, endpoint, reason, code, error) as (
		select null, account, endpoint, reason, last_status_code, last_error
		from dead_letters
		where delivery = @cursor
			and (account, endpoint) >= (@from_account, @from_endpoint) and (account, endpoint) < (@to_account, @to_endpoint)
		union all
		select null, @to_account, @to_endpoint, '', 0, '' where @cursor is null
		union all
		select l.delivery, l.account, l.endpoint, l.reason, l.last_status_code, l.last_error
		from groups g join dead_letters l on l.delivery = (
			select delivery from dead_letters
			where resolved_at is null
				and (account, endpoint, reason, last_status_code, last_error, delivery) < (g.account, g.endpoint, +g.reason, +g.code, +g.error, x'')
				and (account, endpoint) >= (@from_account, @from_endpoint)
			order by account desc, endpoint desc, reason desc, last_status_code desc, last_error desc, delivery desc
			limit 1)
		limit @limit + 1
	)
	select account, endpoint, reason, code, error,
		(select count(*) from (
			select 1 from dead_letters l
			where l.resolved_at is null and l.account = g.account and l.endpoint = g.endpoint and l.reason = g.reason
				and l.last_status_code = g.code and l.last_error = g.error
			limit 1000)),
		(select l.delivery from dead_letters l
			where l.resolved_at is null and l.account = g.account and l.endpoint = g.endpoint and l.reason = g.reason
				and l.last_status_code = g.code and l.last_error = g.error
			order by l.delivery limit 1),
		newest
	from groups g
	where newest is not null`

// DeadLetterGroups lists the unresolved dead letters by endpoint and cause; see [store.Finder].
func (v Verbs) DeadLetterGroups(ctx context.Context, q store.DeadLetterGroupQuery) (page store.Page[store.DeadLetterGroup], err error) {
	defer v.calls.Begin("DeadLetterGroups").End(&err, "list groups of dead letters")
	cursor, _, err := store.IDKey[postrider.DeliveryID](q.Paging)
	if err != nil {
		return page, err
	}
	from, to := q.Bounds()
	groups, err := all(ctx, v.db, Query{deadLetterGroupsSQL, Args{
		"cursor": OrNull(cursor), "from_account": from.Account, "from_endpoint": from.Endpoint,
		"to_account": to.Account, "to_endpoint": to.Endpoint, "limit": q.Size() + 1,
	}}, func(row Row, g *store.DeadLetterGroup) error {
		return row.Scan(&g.Account, &g.Endpoint, &g.Reason, &g.LastStatusCode, &g.LastError, &g.Count, &g.Oldest, &g.Newest)
	})
	return store.Cut(groups, q.Paging, func(g store.DeadLetterGroup) string { return string(g.Newest[:]) }), err
}
