package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// These parts make the statements that find the objects that match a text. Each branch reads at
// most 1,000 rows of its index, and its first column is a store.FoundBy. A deleted account or
// endpoint can still have search terms, so the last branch checks that the object is not deleted.
const (
	findKeysSQL = `
	select 0 as by, e.account, e.id as endpoint, null as event, e.id
	from endpoint_secrets s join endpoints e on e.id = s.endpoint
	where s.id = @secret and (@account is null or e.account = @account)
	union all
	select by, account, endpoint, event, id from (
		select 1 as by, account, null as endpoint, event, event as id from (
			select account, event from idempotency_keys
			where key = @text and (@account is null or account = @account) limit 1000)
		order by event desc limit @limit)
	union all
	select by, account, endpoint, event, id from (
		select 2 as by, h.account, null as endpoint, h.event, h.event as id from (
			select account, (
				select id from events e
				where e.account = o.account and e.ordering_key = @text and e.ordering_key <> ''
				order by id desc limit 1) as event
			from ordering_keys o
			where o.ordering_key = @text and (@account is null or o.account = @account) limit 1000) h
		where h.event is not null
		order by h.event desc limit @limit)
	union all
	select by, account, endpoint, event, id from (
		select distinct 3 as by, t.account, nullif(t.id, t.account) as endpoint, null as event, t.id
		from (
			select account, id from search_terms
			where `
	findNamesSQL = ` and term >= @term and term < @after and @term <> ''
			order by term limit 1000) t
		where exists (select 1 from endpoints where endpoints.id = t.id and status <> 'deleted')
			or exists (select 1 from accounts where accounts.id = t.id and deleted_at is null)
		order by t.id desc limit @limit)
	order by 1, 5 desc limit @limit`
)

// The statements walk the primary keys of endpoint_secrets, idempotency_keys and ordering_keys,
// and events_order for each account. For names they walk the primary key of search_terms, or
// search_terms_account for one account.
const (
	findSQL          = findKeysSQL + `true` + findNamesSQL
	findOfAccountSQL = findKeysSQL + `account = @account` + findNamesSQL
)

// Find lists the objects that match a text; see [store.Finder].
func (s *Store) Find(ctx context.Context, q store.FindQuery) (_ []store.Found, err error) {
	defer s.calls.Begin("Find").End(&err, "find")
	statement, term := findSQL, store.SearchText(q.Text)
	if !q.Account.IsZero() {
		statement = findOfAccountSQL
	}
	found, err := list(ctx, s, query{statement, []any{
		sql.Named("account", blobOrNull(q.Account)), sql.Named("secret", blob(q.Secret)), sql.Named("text", q.Text),
		sql.Named("term", term), sql.Named("after", store.AfterTerms(term)), sql.Named("limit", min(q.Limit, store.MaxLimit)),
	}}, func(rows *sql.Rows, f *store.Found) error {
		var id postrider.EventID
		return rows.Scan(&f.By, toID(&f.Account), toID(&f.Endpoint), toID(&f.Event), toID(&id))
	})
	return found, s.fault(err)
}

// deadLetterGroupsSQL is a skip scan of dead_letters_unresolved. Each step of the recursion
// enters the index once, and finds the newest dead letter of the next lower endpoint and cause.
// The scan starts at the group of the cursor, or above all groups of the account or endpoint. It
// counts up to 1,000 dead letters of a group, so the cost of a page has a limit. The cursor is a
// dead letter of the last group; its row stays, with the same cause.
//
// Each step must begin below its group. SQLite enters an index behind all entries that equal the
// compared row. So the row has an empty delivery, which no dead letter has. The plus signs remove
// the affinity of the columns of groups; with the affinity SQLite does not use the index for
// texts and numbers. Without one of these, a step walks over all dead letters of the endpoint
// (2026-11: 104 ms for a page, 200,000 dead letters).
const deadLetterGroupsSQL = `
	with recursive groups (newest, account, endpoint, reason, code, error) as (
		select null, account, endpoint, reason, last_status_code, last_error from dead_letters where delivery = @cursor
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

// DeadLetterGroups lists unresolved dead letters by endpoint and cause; see [store.Finder].
func (s *Store) DeadLetterGroups(ctx context.Context, q store.DeadLetterGroupQuery) (_ store.Page[store.DeadLetterGroup], err error) {
	defer s.calls.Begin("DeadLetterGroups").End(&err, "list groups of dead letters")
	cursor, _, err := store.IDKey[postrider.DeliveryID](q.Paging)
	if err != nil {
		return store.Page[store.DeadLetterGroup]{}, err
	}
	from, to := q.Bounds()
	groups, err := list(ctx, s, query{deadLetterGroupsSQL, []any{
		sql.Named("cursor", blobOrNull(cursor)), sql.Named("limit", q.Size()+1),
		sql.Named("from_account", blob(from.Account)), sql.Named("from_endpoint", blob(from.Endpoint)),
		sql.Named("to_account", blob(to.Account)), sql.Named("to_endpoint", blob(to.Endpoint)),
	}}, func(rows *sql.Rows, g *store.DeadLetterGroup) error {
		return rows.Scan(toID(&g.Account), toID(&g.Endpoint), &g.Reason, &g.LastStatusCode, &g.LastError, &g.Count,
			toID(&g.Oldest), toID(&g.Newest))
	})
	return store.Cut(groups, q.Paging, func(g store.DeadLetterGroup) string { return string(g.Newest[:]) }),
		s.fault(err)
}
