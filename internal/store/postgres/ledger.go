package postgres

import (
	"context"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// eventsSQL lists events. The inner select has at most 10,000 events (see examined), and the
// outer one filters by type. Only an event that is asked for by its id or as a whole has its bytes, see [store.Shorten]. The event
// of an idempotency key is found by idempotency_keys_pkey and events_pkey. The list walks one
// index backwards: events_pkey by id and for all events, events_account by account, events_order
// by ordering key.
const eventsSQL = `
	select e.id, e.account, e.type, case when @whole then e.data end, e.api_version, e.ordering_key,
		e.sequence, e.hops, e.max_attempts, coalesce(e.idempotency_key, ''),
		case when @whole then e.about else substring(e.about for 16384) end, @type::text is null or e.type = @type as matches, e.n = 10000 as last
	from (
		select e.*, row_number() over (order by e.id desc) as n
		from events e
		where e.id >= @from and e.id < @before
			and (@id::uuid is null or e.id = @id)
			and (@account::uuid is null or e.account = @account)
			and (@key::text is null or e.id = (
				select k.event from idempotency_keys k where k.account = @account and k.key = @key))
			and (@ordering_key::text is null or e.ordering_key = @ordering_key)
		order by e.id desc
		limit 10000
	) e
	where @type::text is null or e.type = @type or e.n = 10000
	order by e.id desc
	limit @limit`

// keptEventSQL finds an event by its id after its day was dropped. It walks kept_events_pkey.
var keptEventSQL = strings.Replace(eventsSQL, "from events e", "from kept_events e", 1)

// Events lists events, newest first; see [store.Ledger]. Kept events are found only by their id:
// their day is over, and they stay only because a delivery needs them.
func (s *Store) Events(ctx context.Context, q store.EventQuery) (page store.Page[postrider.Event], err error) {
	defer s.calls.Begin("Events").End(&err, "list events")
	from, before, err := within[postrider.EventID](q.Span, q.Paging)
	if err != nil {
		return page, err
	}
	args := pgx.NamedArgs{
		"from": from, "before": before, "id": uuid(q.ID), "account": uuid(q.Account), "type": text(q.Type),
		"key": text(q.IdempotencyKey), "ordering_key": text(q.OrderingKey), "limit": q.Size() + 1, "whole": q.Whole || !q.ID.IsZero(),
	}
	rows, err := read(ctx, s, asked{eventSettingsSQL, inOrder(query{eventsSQL, args}, q.Paging)}, scanEvent)
	if err == nil && len(rows) == 0 && !q.ID.IsZero() {
		rows, err = list(ctx, s, query{keptEventSQL, args}, scanEvent)
	}
	return cutExamined(rows, q.Paging), err
}

func scanEvent(row pgx.CollectableRow) (r examined[postrider.Event], err error) {
	e := &r.item
	err = row.Scan(toID(&e.ID), toID(&e.Account), &e.Type, &e.Data, &e.APIVersion, &e.OrderingKey, &e.Sequence, &e.Hops,
		&e.MaxAttempts, &e.IdempotencyKey, toAbout(e), &r.matches, &r.last)
	r.id, e.CreatedAt = e.ID, e.ID.Time()
	if e.Data == nil { // of a list
		store.Shorten(e)
	}
	return r, err
}

// These statements list deliveries of every status. A delivery is in the table of its status:
// pending ones in queue, dead ones in dead_letters, all others in the attempt that ended them. So
// a statement has three branches. Each branch walks one index from its newest row on, and stops
// after 10,000 rows (see examined). The page is merged from the three. Measured with 3 M rows in
// 30 partitions: under 1 ms; a view over the union took 276 ms.
//
// The branch of the queue walks queue_pkey or queue_event, and filters by account and endpoint
// afterwards, because an index by account would cost every delivery. But the newest 10,000 rows
// of the queue may all belong to other endpoints. So deliveriesOfEndpointSQL finds the pending
// deliveries of its endpoint by the indexes that count the backlog (few), unless there are too
// many to sort.
//
// The branches of attempts and dead letters walk the index that fits the filter. Skipped and
// cancelled deliveries are found by the attempts_decided indexes. The deliveries of a replay job
// are found by queue_replay_job, attempts_replay_job and dead_letters_replay_job. With @last,
// each row that matches the other filters is looked up in queue_replays, attempts_replays and
// dead_letters_replays.
//
// WaitFacts decides why a pending delivery waits. Its facts are looked up only for the rows of
// the page, by primary keys, endpoint_secrets_endpoint and queue_order_key. lastAnswersSQL reads
// the response to the last attempt of a pending or cancelled delivery, because each mention of
// attempts here would be planned for all partitions.
//
// The plan of deliveriesOfEndpointSQL is made for all arguments. It walks attempts_endpoint and
// dead_letters_endpoint, because the condition on the endpoint is always there. The statement
// compares rows of attempts, and orders them by the endpoint too. Otherwise the planner could
// choose attempts_pkey, which has the attempts of all endpoints, while the partition of the day
// is empty. For dead letters this is the only condition on the delivery: with a second one that
// dead_letters_pkey can walk, the planner chose that index, and a page read all 20,000 dead
// letters of a test (2026-11). The statement has no @last, because the subqueries of @last would
// be planned for all partitions too.
const (
	deliveriesSQL = deliveryColumns + pendingBranch + pendingPage + endedBranch + endedOrder + endedColumns + endedLast + endedFrom +
		`(@endpoint::uuid is null or a.endpoint = @endpoint)` +
		endedFilter + endedOrder + endedPage + endedOrder + deadBranch + deadOrder + deadFrom +
		`l.delivery >= @from and l.delivery < @before and (@endpoint::uuid is null or l.endpoint = @endpoint)` +
		deadFilter + deadOrder + deadPage + deadOrder + deliveryLookups
	deliveriesOfEndpointSQL = fewOfEndpoint + deliveryColumns +
		pendingBranch + ` and q.id = any (array(select f.id from few f)) and (select count(*) from few f) <= @few` + pendingPage +
		pendingBranch + ` and (select count(*) from few f) > @few` + pendingPage + endedBranch + endpointOrder + endedColumns + endedFrom +
		`(a.endpoint, a.delivery) >= (@endpoint, @from) and (a.endpoint, a.delivery) < (@endpoint, @before)` +
		endedFilter + endpointOrder + endedPage + endpointOrder + deadBranch + deadOfEndpointOrder + deadFrom +
		`(l.endpoint, l.delivery) >= (@endpoint, @from) and (l.endpoint, l.delivery) < (@endpoint, @before)` +
		deadFilter + deadOfEndpointOrder + deadPage + deadOfEndpointOrder + deliveryLookups

	endedOrder    = `a.delivery desc, a.number desc`
	endpointOrder = `a.endpoint desc, a.delivery desc, a.number desc`

	deadOrder           = `l.delivery desc`
	deadOfEndpointOrder = `l.endpoint desc, l.delivery desc`
)

// fewPending is the greatest number of pending deliveries of an endpoint that
// deliveriesOfEndpointSQL reads and sorts. If there are more, it walks the queue.
const fewPending = 1000

// These are the parts of both statements, in their order.
const (
	fewOfEndpoint = `
	with few as materialized (
		(select q.id from queue q where q.endpoint = @endpoint and q.due_at < 'infinity')
		union all
		(
			select q.id
			from queue q
			where q.endpoint = @endpoint and q.ordering_key is not null and q.due_at = 'infinity'
			order by q.endpoint, q.ordering_key, q.sequence
			limit @few + 1
		)
		union all
		(select q.id from queue q where q.endpoint = @endpoint and q.parked and q.ordering_key is null)
		limit @few + 1
	)`
	deliveryColumns = `
	select d.id, d.event, d.endpoint, d.account, d.type, d.status, d.reason, d.attempts, d.next_at, d.finished_at,
		coalesce(d.status_code, 0), coalesce(d.error, ''), d.status_code is null and (d.attempts > 0 or d.status = 'cancelled'),
		d.replayed_from, d.replay_job, d.suspected, d.parked, coalesce(d.leased, false), d.until, coalesce(e.status, ''),
		coalesce(e.policy, ''), coalesce(e.signs, false), coalesce(c.status, ''), c.probe_at, c.paced_until, first.id, paused.delivery,
		exists (select 1 from hold where since is not null), d.matches, d.last
	from (`
	pendingBranch = `
		(
			select q.id, postrider_event(q.id, q.named_event) as event, q.endpoint, q.account, q.type, 'pending' as status, '' as reason,
				q.claims - (q.token is not null)::int as attempts, case when q.token is null then q.due_at end as next_at,
				null::timestamptz as finished_at, null::smallint as status_code, null as error, q.replayed_from, q.replay_job,
				q.lane = 3 as suspected, q.parked, q.token is not null as leased, q.due_at as until, q.ordering_key,
				q.matches, q.n = 10000 as last
			from (
				select q.*, row_number() over (order by q.id desc) as n,
					(@account::uuid is null or q.account = @account)
						and (@endpoint::uuid is null or q.endpoint = @endpoint)
						and (@type::text is null or q.type = @type) as matches
				from queue q
				where q.id >= @from and q.id < @before
					and (@status::text is null or @status = 'pending')
					and (@id::uuid is null or q.id = @id)
					and (@event::uuid is null or q.id >= @event and q.id <= postrider_last_delivery(@event) or q.named_event = @event)
					and (@job::uuid is null or q.replay_job = @job)`
	pendingPage = `
				order by q.id desc
				limit 10000
			) q
			where q.matches or q.n = 10000
			order by q.id desc
			limit @limit
		)
		union all`
	endedBranch = `
		(
			select a.delivery, postrider_event(a.delivery, a.named_event), a.endpoint, a.account, a.type, a.status_after,
				case when a.outcome = 'none' then a.error else '' end,
				a.number - (a.outcome = 'none' and a.number > 0)::int, null,
				a.started_at + a.duration * interval '1 microsecond',
				case when a.outcome <> 'none' then a.status_code end, case when a.outcome <> 'none' then a.error end,
				a.replayed_from, a.replay_job, false, false, null, null, null, a.matches, a.n = 10000
			from (
				select a.*, row_number() over (order by `
	endedColumns = `) as n,
					a.status_after in ('delivered', 'cancelled', 'skipped') and not a.stale
						and (@status::text is null or a.status_after = @status)
						and (@type::text is null or a.type = @type)`
	endedLast = `
						and not (@last and (
							exists (
								select from attempts r
								where r.named_event = postrider_event(a.delivery, a.named_event) and r.endpoint = a.endpoint
									and r.replayed_from is not null and r.delivery > a.delivery)
							or exists (
								select from dead_letters r
								where r.event = postrider_event(a.delivery, a.named_event) and r.endpoint = a.endpoint
									and r.replayed_from is not null and r.delivery > a.delivery)
							or exists (
								select from queue r
								where r.named_event = postrider_event(a.delivery, a.named_event) and r.endpoint = a.endpoint
									and r.replayed_from is not null and r.id > a.delivery)))`
	endedFrom = ` as matches
				from attempts a
				where a.delivery >= @from and a.delivery < @before
					and (@status::text is null or @status in ('delivered', 'cancelled', 'skipped'))
					and (@id::uuid is null or a.delivery = @id)
					and (@event::uuid is null or a.named_event = @event
						or a.delivery >= @event and a.delivery <= postrider_last_delivery(@event))
					and (@account::uuid is null or a.account = @account)
					and `
	endedFilter = `
					and (@job::uuid is null or a.replay_job = @job)
					and (@status::text is null or @status not in ('cancelled', 'skipped')
						or (a.outcome = 'none' and a.status_after = @status))
				order by `
	endedPage = `
				limit 10000
			) a
			where a.matches or a.n = 10000
			order by `
	deadBranch = `
			limit @limit
		)
		union all
		(
			select l.delivery, l.event, l.endpoint, l.account, l.type, 'dead', l.reason, l.attempts, null, l.died_at,
				l.last_status_code, l.last_error, l.replayed_from, l.replay_job, false, false, null, null, null, l.matches, l.n = 10000
			from (
				select l.*, row_number() over (order by `
	deadFrom = `) as n,
					@type::text is null or l.type = @type as matches
				from dead_letters l
				where (@status::text is null or @status = 'dead')
					and (@id::uuid is null or l.delivery = @id)
					and (@event::uuid is null or l.event = @event)
					and (@account::uuid is null or l.account = @account)
					and `
	deadFilter = `
					and (@job::uuid is null or l.replay_job = @job)
				order by `
	deadPage = `
				limit 10000
			) l
			where l.matches or l.n = 10000
			order by `
	deliveryLookups = `
			limit @limit
		)
		order by 1 desc
		limit @limit
	) d
	left join lateral (
		select e.status, e.policy, exists (
			select from endpoint_secrets s
			where s.endpoint = e.id and (s.expires_at is null or s.expires_at > now())) as signs
		from endpoints e
		where d.status = 'pending' and e.id = d.endpoint
		limit 1
	) e on true
	left join lateral (
		select c.status, c.probe_at, c.paced_until
		from circuits c
		where d.status = 'pending' and c.endpoint = d.endpoint
		limit 1
	) c on true
	left join lateral (
		select q.id
		from queue q
		where d.ordering_key is not null and q.endpoint = d.endpoint and q.ordering_key = d.ordering_key
		order by q.sequence
		limit 1
	) first on true
	left join lateral (
		select p.delivery
		from paused_keys p
		where d.ordering_key is not null and p.endpoint = d.endpoint and p.ordering_key = d.ordering_key
		limit 1
	) paused on true
	order by d.id desc`
)

// Deliveries lists deliveries of every status, newest first; see [store.Ledger].
func (s *Store) Deliveries(ctx context.Context, q store.DeliveryQuery) (_ store.Page[postrider.Delivery], err error) {
	defer s.calls.Begin("Deliveries").End(&err, "list deliveries")
	return s.deliveries(ctx, q)
}

// deliveries lists deliveries with the statement and the plan that fit the query. To plan a
// statement for all partitions takes longer than to run it: 40 ms for 30 days on a new
// connection, whose caches are empty.
//
//   - A delivery that is asked for by its id gets a plan for a range of one id, which has one
//     partition.
//   - The deliveries of an endpoint are listed by deliveriesOfEndpointSQL, with the plan of the
//     pool, which is made once for each connection.
//   - Skipped and cancelled deliveries, and the deliveries of an event or a job, have indexes of
//     their own, which only a plan with the arguments finds.
func (s *Store) deliveries(ctx context.Context, q store.DeliveryQuery) (page store.Page[postrider.Delivery], err error) {
	from, before, err := within[postrider.DeliveryID](q.Span, q.Paging)
	if err != nil {
		return page, err
	}
	read, statement := list[examined[postrider.Delivery]], deliveriesSQL
	id := string(q.ID[:])
	switch {
	case !q.ID.IsZero() && id >= string(from.Bytes[:]) && id < string(before.Bytes[:]):
		from, before = someUUID(q.ID), someUUID(store.NextID(q.ID))
	case !q.Endpoint.IsZero() && q.ID.IsZero() && q.Event.IsZero() && q.ReplayJob.IsZero() && !q.Last &&
		q.Status != postrider.Skipped && q.Status != postrider.Cancelled:
		statement, read = deliveriesOfEndpointSQL, count[examined[postrider.Delivery]]
	}
	var unanswered uuids
	rows, err := read(ctx, s, inOrder(query{statement, pgx.NamedArgs{
		"from": from, "before": before, "id": uuid(q.ID), "event": uuid(q.Event), "account": uuid(q.Account),
		"endpoint": uuid(q.Endpoint), "type": text(q.EventType), "status": text(string(q.Status)), "job": uuid(q.ReplayJob),
		"last": q.Last, "few": fewPending, "limit": q.Size() + 1,
	}}, q.Paging), scanDelivery(s.clock, &unanswered))
	if err == nil && len(unanswered) > 0 {
		err = s.addLastAnswers(ctx, rows, unanswered)
	}
	return cutExamined(rows, q.Paging), err
}

// lastAnswersSQL reads the last status code and the last error of each delivery. Its plan knows
// the ids, so it has only the partitions of their days. It walks attempts_pkey.
const lastAnswersSQL = `
	select a.delivery,
		coalesce((array_agg(a.status_code order by a.number desc) filter (where a.status_code <> 0))[1], 0),
		coalesce((array_agg(a.error order by a.number desc) filter (where a.outcome <> 'none'))[1], '')
	from attempts a
	where a.delivery = any (@ids)
	group by a.delivery`

// addLastAnswers sets the last status code and error of the deliveries with these ids. If a
// delivery gets an attempt between the two statements, it shows the values of that attempt.
func (s *Store) addLastAnswers(ctx context.Context, deliveries []examined[postrider.Delivery], ids uuids) error {
	type answer struct {
		delivery postrider.DeliveryID
		code     int
		text     string
	}
	answers, err := list(ctx, s, query{lastAnswersSQL, pgx.NamedArgs{"ids": ids}}, func(row pgx.CollectableRow) (a answer, err error) {
		err = row.Scan(toID(&a.delivery), &a.code, &a.text)
		return a, err
	})
	of := make(map[postrider.DeliveryID]answer, len(answers))
	for _, a := range answers {
		of[a.delivery] = a
	}
	for i := range deliveries {
		d := &deliveries[i].item
		if a, ok := of[d.ID]; ok {
			d.LastStatusCode, d.LastError = a.code, a.text
		}
	}
	return err
}

// scanDelivery reads a delivery. It converts stored times by the clock Now into times of day. WaitFacts
// decides why a pending delivery waits. It appends to unanswered the ids of the deliveries whose
// last status code and error must be looked up.
func scanDelivery(clock *store.Clock, unanswered *uuids) pgx.RowToFunc[examined[postrider.Delivery]] {
	now, unreadable := clock.Wall(), store.UnreadablePolicies()
	return func(row pgx.CollectableRow) (r examined[postrider.Delivery], err error) {
		d, f, policy, look := &r.item, postrider.WaitFacts{}, "", false
		err = row.Scan(toID(&d.ID), toID(&d.Event), toID(&d.Endpoint), toID(&d.Account), &d.EventType, &d.Status, &d.Reason,
			&d.Attempts, toTime(&d.NextAttemptAt), toTime(&d.FinishedAt), &d.LastStatusCode, &d.LastError,
			&look, toID(&d.ReplayedFrom), toID(&d.ReplayJob), &d.Suspected, &d.Parked, &f.Leased, toTime(&f.DueAt), &f.Endpoint, &policy, &f.Signs,
			&f.Circuit,
			toTime(&f.ProbeAt), toTime(&f.PacedUntil), toID(&f.Head), toID(&f.PausedBy), &f.Held, &r.matches, &r.last)
		r.id = d.ID
		if look {
			*unanswered = append(*unanswered, someUUID(d.ID))
		}
		d.NextAttemptAt, f.DueAt = clock.Shown(d.NextAttemptAt), clock.Shown(f.DueAt)
		f.ProbeAt, f.PacedUntil = clock.Shown(f.ProbeAt), clock.Shown(f.PacedUntil)
		f.Suspected, f.Parked = d.Suspected, d.Parked
		if d.Status == postrider.Pending {
			f.PolicyUnreadable = unreadable(policy)
			d.Waiting = f.Waiting(d.ID, now)
		}
		return r, err
	}
}

// delivery returns one delivery, or postrider.ErrNotFound.
func (s *Store) delivery(ctx context.Context, id postrider.DeliveryID, account postrider.AccountID) (postrider.Delivery, error) {
	page, err := s.deliveries(ctx, store.DeliveryQuery{ID: id, Account: account})
	if err == nil && len(page.Items) == 0 {
		err = postrider.ErrNotFound
	}
	if err != nil {
		return postrider.Delivery{}, err
	}
	return page.Items[0], nil
}

// acceptedHead is the head of an accepted response, which the row a of attempts has or refers to.
// It walks attempts_pkey.
const acceptedHead = `case when octet_length(a.response_head) = 16
			then (
				select h.response_head
				from attempts h
				where h.delivery = encode(a.response_head, 'hex')::uuid and octet_length(h.response_head) <> 16
				order by h.number desc
				limit 1)
			else a.response_head end`

// deadLettersSQL lists dead letters; see examined for the limit of 10,000. It walks the index
// that fits the filter, backwards: dead_letters_event, dead_letters_endpoint,
// dead_letters_account, dead_letters_reason, dead_letters_reason_account or dead_letters_pkey.
const deadLettersSQL = `
	select l.delivery, l.event, l.endpoint, l.account, l.type, l.reason, l.attempts, l.last_status_code, l.last_error,
		l.replayed_from, l.died_at, l.resolved_at, coalesce(l.resolution, ''), l.resolved_by, l.note, l.replay,
		l.matches, l.n = 10000
	from (
		select l.*, row_number() over (order by l.delivery desc) as n,
			(@resolved or l.resolved_at is null or coalesce(l.resolved_at >= @resolved_from::timestamptz, false))
				and (@type::text is null or l.type = @type) as matches
		from dead_letters l
		where l.delivery >= @from and l.delivery < @before
			and (@id::uuid is null or l.delivery = @id)
			and (@event::uuid is null or l.event = @event)
			and (@endpoint::uuid is null or l.endpoint = @endpoint)
			and (@account::uuid is null or l.account = @account)
			and (@reason::text is null or l.reason = @reason)
		order by l.delivery desc
		limit 10000
	) l
	where l.matches or l.n = 10000
	order by l.delivery desc
	limit @limit`

// DeadLetters lists dead letters, newest first; see [store.Ledger].
func (s *Store) DeadLetters(ctx context.Context, q store.DeadLetterQuery) (_ store.Page[postrider.DeadLetter], err error) {
	defer s.calls.Begin("DeadLetters").End(&err, "list dead letters")
	return s.deadLetters(ctx, q)
}

func (s *Store) deadLetters(ctx context.Context, q store.DeadLetterQuery) (page store.Page[postrider.DeadLetter], err error) {
	from, before, err := within[postrider.DeliveryID](q.Span, q.Paging)
	if err != nil {
		return page, err
	}
	rows, err := list(ctx, s, inOrder(query{deadLettersSQL, pgx.NamedArgs{
		"from": from, "before": before, "id": uuid(q.Delivery), "endpoint": uuid(q.Endpoint), "account": uuid(q.Account),
		"type": text(q.EventType), "reason": text(q.Reason), "resolved": q.Resolved, "event": uuid(q.Event),
		"resolved_from": instant(q.ResolvedFrom), "limit": q.Size() + 1,
	}}, q.Paging), scanDeadLetter)
	return cutExamined(rows, q.Paging), err
}

func scanDeadLetter(row pgx.CollectableRow) (r examined[postrider.DeadLetter], err error) {
	l := &r.item
	err = row.Scan(toID(&l.Delivery), toID(&l.Event), toID(&l.Endpoint), toID(&l.Account), &l.EventType, &l.Reason,
		&l.Attempts, &l.LastStatusCode, &l.LastError, toID(&l.ReplayedFrom), toTime(&l.DiedAt), toTime(&l.ResolvedAt),
		&l.Resolution, &l.ResolvedBy, &l.Note, toID(&l.Replay), &r.matches, &r.last)
	r.id = l.Delivery
	return r, err
}
