package sqlstore

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// attemptColumns are the columns of scanAttempt without heads and bodies.
const attemptColumns = `a.delivery, a.number, postrider_event(a.delivery, a.named_event), a.endpoint, a.outcome, a.status_code, a.error,
		a.retry_after, a.started_at, a.duration, a.stale, a.status_after, a.next_at, a.final_url, a.timing`

// These statements list attempts. Only the attempts of one delivery have heads and bodies, because
// a page of large bodies would have hundreds of megabytes. The head of an accepted response is in
// the attempt's own row, or in the row of the delivery that it refers to.
const (
	attemptsSQL = `
	select ` + attemptColumns + `, null::bytea, null::bytea, null::bytea
	from attempts a`
	attemptsOfEventSQL = `
	select ` + attemptColumns + `, null::bytea, null::bytea, null::bytea
	from (
		select a.* from attempts a where delivery >= @event and delivery <= postrider_last_delivery(@event)
		union all
		select a.* from attempts a where named_event = @event
	) a`
	attemptsOfDeliverySQL = `
	select ` + attemptColumns + `, b.request_head,
		coalesce(b.response_head, case when length(a.response_head) = 16
			then (
				select h.response_head
				from attempts h
				where h.delivery = encode(a.response_head, 'hex')::uuid and length(h.response_head) <> 16
				order by h.number desc
				limit 1)
			else a.response_head end),
		coalesce(b.response_body, a.response_start)
	from attempts a
	left join attempt_bodies b on b.delivery = a.delivery and b.number = a.number`
)

// Attempts lists attempts by delivery, newest first; see [store.Ledger]. The attempts of a
// delivery are in the order of their numbers. The cursor has both. The statement walks the primary
// key by delivery. By event it walks a range of the primary key, and attempts_event.
func (v Verbs) Attempts(ctx context.Context, q store.AttemptQuery) (page store.Page[postrider.Attempt], err error) {
	defer v.calls.Begin("Attempts").End(&err, "list attempts")
	before, after, err := store.AttemptsAfter(q.Paging)
	if err != nil {
		return page, err
	}
	l := newList(v.db, attemptsSQL, "a.delivery desc, a.number", q.Size()+1)
	switch {
	case !q.Delivery.IsZero():
		l.rows = attemptsOfDeliverySQL
		by(l, "a.delivery", q.Delivery)
		if !q.Event.IsZero() {
			l.and("postrider_event(a.delivery, a.named_event) = @event", Args{"event": q.Event})
		}
	case !q.Event.IsZero():
		l.rows, l.indexed, l.args["event"] = attemptsOfEventSQL, true, q.Event
	}
	by(l, "a.account", q.Account)
	l.and("a.delivery <= @before and (a.delivery < @before or a.number > @after)", Args{"before": before, "after": after})
	attempts, err := all(ctx, v.db, l.query(), scanAttempt)
	return store.Cut(attempts, q.Paging, store.AttemptKey), err
}

func scanAttempt(row Row, a *postrider.Attempt) error {
	var timing []byte
	err := row.Scan(&a.Delivery, &a.Number, &a.Event, &a.Endpoint, &a.Outcome, &a.StatusCode, &a.Error, &a.RetryAfter, &a.StartedAt,
		&a.Duration, &a.Stale, &a.StatusAfter, &a.NextAt, &a.FinalURL, &timing, &a.RequestHead, &a.ResponseHead, &a.ResponseBody)
	if err == nil {
		a.Timing, err = store.DecodeTiming(timing)
	}
	return err
}

// lastFailuresSQL reads the last failures of endpoints, in the order of the ids. It walks
// attempts_endpoint from its end for the newest attempts, and attempt_bodies_pkey for the body of
// the chosen one. It compares rows, and orders them by the
// endpoint too, so that PostgreSQL does not choose attempts_pkey.
const lastFailuresSQL = `
	select ` + attemptColumns + `, null::bytea, b.response_head, substr(coalesce(b.response_body, a.response_start), 1, @bytes::int)
	from unnest(@ids::uuid[]) with ordinality as e (id, place)
	cross join lateral (
		select n.*
		from (
			select a.*
			from attempts a
			where (a.endpoint, a.delivery) >= (e.id, '00000000-0000-0000-0000-000000000000'::uuid)
				and (a.endpoint, a.delivery) <= (e.id, 'ffffffff-ffff-ffff-ffff-ffffffffffff'::uuid)
			order by a.endpoint desc, a.delivery desc, a.number desc
			limit @looked
		) n
		where n.outcome not in ('accepted', 'lost', 'none')
		order by n.started_at desc
		limit 1
	) a
	left join lateral (
		select b.*
		from attempt_bodies b
		where b.delivery = a.delivery and b.number = a.number
		limit 1
	) b on true
	order by e.place`

// lastFailuresOfSQLite is the same for SQLite, which has no lateral joins.
const lastFailuresOfSQLite = `
	select ` + attemptColumns + `, null, b.response_head, substr(coalesce(b.response_body, a.response_start), 1, @bytes)
	from (select key as place, unhex(value) as id from json_each(@ids)) asked
	join attempts a on (a.delivery, a.number) = (
		select n.delivery, n.number
		from (
			select delivery, number, outcome, started_at
			from attempts newest
			where newest.endpoint = asked.id
			order by delivery desc, number desc
			limit @looked
		) n
		where n.outcome not in ('accepted', 'lost', 'none')
		order by n.started_at desc
		limit 1)
	left join attempt_bodies b on b.delivery = a.delivery and b.number = a.number
	order by asked.place`

// LastFailures returns the last failed request of each endpoint; see [store.Rollups].
func (v Verbs) LastFailures(ctx context.Context, ids ...postrider.EndpointID) (_ []postrider.Attempt, err error) {
	defer v.calls.Begin("LastFailures").End(&err, "read last failures")
	return all(ctx, counting{v.db}, Query{lastFailuresSQL, Args{
		"ids": ids, "looked": store.FailuresLooked, "bytes": store.FailureBody,
	}}, scanAttempt)
}
