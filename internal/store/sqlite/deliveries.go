package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A delivery is in the table of its status: pending ones in queue, dead ones in dead_letters, all
// others in the attempt that ended them. A list reads the newest rows of each of the three
// tables, by an index that fits the filter, and merges them. So it reads at most three pages; a
// view over the three tables would read and sort all of them.
//
// SQLite plans a statement once, for all arguments. So each filter that needs another index is a
// separate statement, made of the parts below.

// lastCode and lastError return the last status code and the last error of a delivery whose own
// row does not have them. They come from the newest attempt that got a response, or that was
// made. Both walk the primary key of attempts.
const (
	lastCode = `coalesce((
			select last.status_code from attempts last
			where last.delivery = this.id and last.status_code > 0
			order by last.number desc limit 1), 0)`
	lastError = `coalesce((
			select last.error from attempts last
			where last.delivery = this.id and last.outcome <> 'none'
			order by last.number desc limit 1), '')`
)

// Each branch has the columns that scanDelivery reads: id, event, endpoint, account, type,
// status, reason, attempts, next_at, finished_at, replayed_from, replay_job, last_code,
// last_error, suspected, parked. Then follow the [postrider.WaitFacts] of pending deliveries:
// leased, until, endpoint_status, policy, signs, circuit_status, probe_at, paced_until, head,
// paused_by, held. Branches of ended deliveries have nulls or zeros there.
//
// The inner select of a branch finds the rows of the page, and the outer one looks up the other
// columns only for these rows.
//
// Each filter has a term that depends only on @status. SQLite evaluates it before the walk, so a
// list of one status skips the branches that cannot have that status. Without the term a list of
// dead deliveries would read all of attempts.
const (
	selectPending = pendingFrom + `queue where `
	pendingFrom   = `
	select id, event, endpoint, account, type, status, reason, attempts, next_at, finished_at, replayed_from, replay_job,
		` + lastCode + ` as last_code, ` + lastError + ` as last_error, suspected, parked, leased, until,
		(select status from endpoints where endpoints.id = this.endpoint) as endpoint_status,
		(select policy from endpoints where endpoints.id = this.endpoint) as policy,
		exists (
			select 1 from endpoint_secrets
			where endpoint_secrets.endpoint = this.endpoint and (expires_at is null or expires_at > @wall)) as signs,
		(select status from circuits where circuits.endpoint = this.endpoint) as circuit_status,
		(select probe_at from circuits where circuits.endpoint = this.endpoint) as probe_at,
		(select paced_until from circuits where circuits.endpoint = this.endpoint) as paced_until,
		case when ordering_key is not null then (
			select first.id from queue first
			where first.endpoint = this.endpoint and first.ordering_key = this.ordering_key
			order by first.sequence limit 1) end as head,
		case when ordering_key is not null then (
			select delivery from paused_keys
			where paused_keys.endpoint = this.endpoint and paused_keys.ordering_key = this.ordering_key) end as paused_by,
		exists (select 1 from hold where since is not null) as held
	from (
		select id, event, endpoint, account, type, 'pending' as status, '' as reason,
			claims - (token is not null) as attempts,
			case when token is null and due_at < ` + neverSQL + ` then due_at end as next_at, null as finished_at, replayed_from, replay_job,
			lane = 3 as suspected, parked, token is not null as leased,
			case when due_at < ` + neverSQL + ` then due_at end as until, ordering_key
		from `
	filterPending = `
			and id < @below and id >= @from and @status in ('', 'pending')
			and (@account is null or account = @account)
			and (@event is null or event = @event)
			and (@endpoint is null or endpoint = @endpoint)
			and (@job is null or replay_job = @job)
			and (@type = '' or type = @type)
		order by id desc limit @limit
	) this`

	selectDead = `
	union all
	select id, event, endpoint, account, type, status, reason, attempts, next_at, finished_at, replayed_from, replay_job,
		last_code, last_error, 0, 0, 0, null, null, null, 0, null, null, null, null, null, 0
	from (
		select delivery as id, event, endpoint, account, type, 'dead' as status, reason, attempts, null as next_at,
			died_at as finished_at, replayed_from, replay_job, last_status_code as last_code, last_error
		from dead_letters where `
	filterDead = `
			and delivery < @below and delivery >= @from and @status in ('', 'dead')
			and (@account is null or account = @account)
			and (@event is null or event = @event)
			and (@endpoint is null or endpoint = @endpoint)
			and (@job is null or replay_job = @job)
			and (@type = '' or type = @type)
		order by delivery desc limit @limit
	)`

	selectEnded = endedFrom + `attempts where `
	endedFrom   = `
	union all
	select id, event, endpoint, account, type, status, reason, attempts, next_at, finished_at, replayed_from, replay_job,
		` + lastCode + `, ` + lastError + `, 0, 0, 0, null, null, null, 0, null, null, null, null, null, 0
	from (
		select delivery as id, event, endpoint, account, type, status_after as status,
			case outcome when 'none' then error else '' end as reason,
			case outcome when 'none' then max(number - 1, 0) else number end as attempts, null as next_at,
			started_at + duration as finished_at, replayed_from, replay_job
		from `
	filterEnded = `
			and delivery < @below and delivery >= @from
			and @status not in ('pending', 'dead') and status_after in ('delivered', 'cancelled', 'skipped')
			and @status in ('', status_after)
			and (@account is null or account = @account)
			and (@event is null or event = @event)
			and (@endpoint is null or endpoint = @endpoint)
			and (@job is null or replay_job = @job)
			and (@type = '' or type = @type)
			and (not @last or not ` + replayedSince + `)
		order by delivery desc limit @limit
	) this
	order by id desc limit @limit`
)

// replayedSince is true if the event was replayed later to the endpoint of an attempt. It walks
// the indexes of replays.
const replayedSince = `(
				exists (select 1 from attempts r where r.named_event = attempts.event and r.endpoint = attempts.endpoint
					and r.replayed_from is not null and r.delivery > attempts.delivery)
				or exists (select 1 from dead_letters r where r.event = attempts.event and r.endpoint = attempts.endpoint
					and r.replayed_from is not null and r.delivery > attempts.delivery)
				or exists (select 1 from queue r where r.named_event = attempts.event and r.endpoint = attempts.endpoint
					and r.replayed_from is not null and r.id > attempts.delivery))`

// The branches of these statements walk, in the order queue, dead_letters and attempts:
//
//   - for one delivery: the primary keys
//   - for an event: a range of the primary keys, and queue_event and attempts_event; dead_letters_event
//   - for a replay job: queue_replay_job, dead_letters_replay_job, attempts_replay_job
//   - for an endpoint: queue_due, whose rows are sorted, or, if the endpoint has many pending
//     deliveries, the primary key of queue from its end; dead_letters_endpoint, attempts_endpoint
//   - for an account: the primary key of queue from its end, because an index by account would
//     cost every delivery; dead_letters_account, attempts_account
//   - for all deliveries: the primary keys from their ends
//   - for skipped and cancelled deliveries: the attempts_decided indexes of attempts, which have
//     no requests
const (
	deliverySQL = selectPending + `id = @id` + filterPending + selectDead + `delivery = @id` + filterDead + selectEnded +
		`delivery = @id` + filterEnded
	deliveriesOfEventSQL = pendingFrom + `(
			select q.* from queue q where id >= @event and id <= ` + lastOfEvent + `
			union all
			select q.* from queue q where named_event = @event
		) queue where true` + filterPending + selectDead + `event = @event` + filterDead + endedFrom + `(
			select a.* from attempts a where delivery >= @event and delivery <= ` + lastOfEvent + `
			union all
			select a.* from attempts a where named_event = @event
		) attempts where true` + filterEnded
	deliveriesOfJobSQL = selectPending + `replay_job = @job` + filterPending + selectDead + `replay_job = @job` + filterDead +
		selectEnded + `replay_job = @job` + filterEnded
	deliveriesOfEndpointSQL = selectPending + `endpoint = @endpoint` + filterPending + selectDead + `endpoint = @endpoint` + filterDead +
		selectEnded + `endpoint = @endpoint` + filterEnded
	bareOfEndpointSQL = `
	select id, event from (` + deliveriesOfEndpointSQL + `) order by id desc`
	deliveriesOfQueuedSQL = selectPending + `true` + filterPending + selectDead + `endpoint = @endpoint` + filterDead + selectEnded +
		`endpoint = @endpoint` + filterEnded
	deliveriesOfAccountSQL = selectPending + `account = @account` + filterPending + selectDead + `account = @account` + filterDead +
		selectEnded + `account = @account` + filterEnded
	decidedOfEndpointSQL = selectPending + `true` + filterPending + selectDead + `endpoint = @endpoint` + filterDead +
		selectEnded + decided + ` and endpoint = @endpoint` + filterEnded
	decidedOfAccountSQL = selectPending + `account = @account` + filterPending + selectDead + `account = @account` + filterDead + selectEnded +
		decided + ` and account = @account` + filterEnded
	decidedSQL    = selectPending + `true` + filterPending + selectDead + `true` + filterDead + selectEnded + decided + filterEnded
	deliveriesSQL = selectPending + `true` + filterPending + selectDead + `true` + filterDead + selectEnded + `true` + filterEnded
)

// lastOfEvent is the greatest id of a delivery that carries @event.
const lastOfEvent = `cast(substr(@event, 1, 13) || x'ffffff' as blob)`

// decided selects the deliveries that ended with @status and without a request.
const decided = `outcome = 'none' and status_after = @status`

// Deliveries lists deliveries of every status; see [store.Ledger]. The statement sees one commit,
// so a delivery that ends while the list is read is listed once.
func (s *Store) Deliveries(ctx context.Context, q store.DeliveryQuery) (_ store.Page[postrider.Delivery], err error) {
	defer s.calls.Begin("Deliveries").End(&err, "list deliveries")
	queued, err := s.isQueued(ctx, q)
	if err != nil {
		return store.Page[postrider.Delivery]{}, s.fault(err)
	}
	ask, err := deliveriesQuery(q, queued)
	if err != nil {
		return store.Page[postrider.Delivery]{}, err
	}
	ask.args = append(ask.args, sql.Named("wall", micros(s.wall())))
	walks, scan := deliveryWalks(q), scanDelivery(s.clock)
	if ask.text == bareOfEndpointSQL {
		scan = scanBare
	}
	if queued {
		walks = append(walks, pendingStopSQL)
	}
	return bounded[postrider.Delivery, postrider.DeliveryID]{
		ask, walks, q.Paging, scan, func(d postrider.Delivery) postrider.DeliveryID { return d.ID },
	}.list(ctx, s)
}

// isQueuedSQL returns whether an endpoint has more than 1,000 pending deliveries. It walks
// queue_due.
const isQueuedSQL = `
	select count(*) > 1000 from (select 1 from queue where endpoint = @endpoint limit 1001)`

// isQueued reports whether the list is for an endpoint with a long queue. No index has the
// pending deliveries of an endpoint by id, because it would cost every delivery. To sort 1,000
// takes 3 ms, but 50,000 took 60 ms (2026-11). So with a long queue the list walks the primary
// key of queue. It soon finds the rows of an endpoint that has many, and stops after 10,000 rows.
func (s *Store) isQueued(ctx context.Context, q store.DeliveryQuery) (bool, error) {
	pending := q.Status == "" || q.Status == postrider.Pending
	if q.Endpoint.IsZero() || !pending || !q.ID.IsZero() || !q.Event.IsZero() || !q.ReplayJob.IsZero() {
		return false, nil
	}
	queued, err := list(ctx, s, query{isQueuedSQL, []any{sql.Named("endpoint", blob(q.Endpoint))}},
		func(rows *sql.Rows, many *bool) error { return rows.Scan(many) })
	return err == nil && queued[0], err
}

// Each of these statements returns the id of the row at which one branch of a page of deliveries must
// stop. They walk the same indexes as the statements above. The pending deliveries of an endpoint
// are sorted and have no such statement.
const (
	pendingStopSQL          = `select id from queue where @status in ('', 'pending')` + idStops
	deadStopSQL             = deadLettersStopSelect + `@status in ('', 'dead')` + deliveryStops
	deadOfAccountStopSQL    = deadLettersStopSelect + `account = @account and @status in ('', 'dead')` + deliveryStops
	deadOfEndpointStopSQL   = deadLettersStopSelect + `endpoint = @endpoint and @status in ('', 'dead')` + deliveryStops
	endedStop               = `select delivery from attempts where @status not in ('pending', 'dead')`
	endedStopSQL            = endedStop + deliveryStops
	endedOfAccountStopSQL   = endedStop + ` and account = @account` + deliveryStops
	endedOfEndpointStopSQL  = endedStop + ` and endpoint = @endpoint` + deliveryStops
	pendingOfJobStopSQL     = `select id from queue where replay_job = @job and @status in ('', 'pending')` + idStops
	deadOfJobStopSQL        = deadLettersStopSelect + `replay_job = @job and @status in ('', 'dead')` + deliveryStops
	endedOfJobStopSQL       = endedStop + ` and replay_job = @job` + deliveryStops
	decidedStopSQL          = endedStop + ` and ` + decided + deliveryStops
	decidedOfAccountStopSQL = endedStop + ` and ` + decided + ` and account = @account` + deliveryStops
)

// deliveryWalks returns the walks that must be bounded for a page. A list of one type or account
// needs them, because there is no index by type, and queue has no index by account. Lists of one
// job need them, because the filters have no index with the job. Lists of one event need none,
// because its deliveries are few.
func deliveryWalks(q store.DeliveryQuery) []string {
	skips := q.Status == postrider.Skipped || q.Status == postrider.Cancelled
	switch {
	case !q.ID.IsZero(), !q.Event.IsZero(), q.Bare:
		return nil
	case !q.ReplayJob.IsZero():
		return []string{pendingOfJobStopSQL, deadOfJobStopSQL, endedOfJobStopSQL}
	case q.EventType == "" && q.Account.IsZero():
		return nil
	case !q.Endpoint.IsZero() && skips:
		return nil
	case !q.Endpoint.IsZero():
		return []string{deadOfEndpointStopSQL, endedOfEndpointStopSQL}
	case !q.Account.IsZero() && skips:
		return []string{decidedOfAccountStopSQL}
	case !q.Account.IsZero():
		return []string{pendingStopSQL, deadOfAccountStopSQL, endedOfAccountStopSQL}
	case skips:
		return []string{decidedStopSQL}
	}
	return []string{pendingStopSQL, deadStopSQL, endedStopSQL}
}

// deliveriesQuery returns the statement for the most selective filter of q. Every statement has
// the other filters as conditions. The parameter queued is the result of isQueued.
func deliveriesQuery(q store.DeliveryQuery, queued bool) (query, error) {
	args, err := window[postrider.DeliveryID](q.Span, q.Paging)
	if err != nil {
		return query{}, err
	}
	decided := q.Status == postrider.Skipped || q.Status == postrider.Cancelled
	statement := deliveriesSQL
	switch {
	case !q.ID.IsZero():
		statement = deliverySQL
	case !q.Event.IsZero():
		statement = deliveriesOfEventSQL
	case !q.ReplayJob.IsZero():
		statement = deliveriesOfJobSQL
	case !q.Endpoint.IsZero() && decided:
		statement = decidedOfEndpointSQL
	case queued:
		statement = deliveriesOfQueuedSQL
	case !q.Endpoint.IsZero() && q.Bare:
		statement = bareOfEndpointSQL
	case !q.Endpoint.IsZero():
		statement = deliveriesOfEndpointSQL
	case !q.Account.IsZero() && decided:
		statement = decidedOfAccountSQL
	case !q.Account.IsZero():
		statement = deliveriesOfAccountSQL
	case decided:
		statement = decidedSQL
	}
	return query{statement, append(args, sql.Named("id", blobOrNull(q.ID)), sql.Named("event", blobOrNull(q.Event)),
		sql.Named("endpoint", blobOrNull(q.Endpoint)), sql.Named("account", blobOrNull(q.Account)),
		sql.Named("type", q.EventType), sql.Named("status", string(q.Status)), sql.Named("job", blobOrNull(q.ReplayJob)),
		sql.Named("last", q.Last))}, nil
}

// scanDelivery reads a delivery. It converts stored times by the clock Now into times of day. WaitFacts
// decides why a pending delivery waits.
func scanDelivery(clock *store.Clock) func(*sql.Rows, *postrider.Delivery) error {
	now, unreadable := clock.Wall(), store.UnreadablePolicies()
	return func(rows *sql.Rows, d *postrider.Delivery) error {
		var f postrider.WaitFacts
		var policy string
		err := rows.Scan(toID(&d.ID), toID(&d.Event), toID(&d.Endpoint), toID(&d.Account), &d.EventType, toString(&d.Status),
			&d.Reason, &d.Attempts, toTime(&d.NextAttemptAt), toTime(&d.FinishedAt), toID(&d.ReplayedFrom), toID(&d.ReplayJob),
			&d.LastStatusCode, &d.LastError, toFlag(&d.Suspected), toFlag(&d.Parked),
			toFlag(&f.Leased), toTime(&f.DueAt), toString(&f.Endpoint), toString(&policy), toFlag(&f.Signs), toString(&f.Circuit),
			toTime(&f.ProbeAt), toTime(&f.PacedUntil), toID(&f.Head), toID(&f.PausedBy), toFlag(&f.Held))
		d.NextAttemptAt, f.DueAt = clock.Shown(d.NextAttemptAt), clock.Shown(f.DueAt)
		f.ProbeAt, f.PacedUntil = clock.Shown(f.ProbeAt), clock.Shown(f.PacedUntil)
		f.Suspected, f.Parked = d.Suspected, d.Parked
		if d.Status == postrider.Pending {
			f.PolicyUnreadable = unreadable(policy)
			d.Waiting = f.Waiting(d.ID, now)
		}
		return err
	}
}

func scanBare(rows *sql.Rows, d *postrider.Delivery) error {
	return rows.Scan(toID(&d.ID), toID(&d.Event))
}

// delivery reads one delivery inside a job, with the job's own changes. If account is not zero
// and the delivery belongs to another account, the error is ErrNotFound.
func delivery(ctx context.Context, tx *tx, account postrider.AccountID, id postrider.DeliveryID) (postrider.Delivery, error) {
	ask, err := deliveriesQuery(store.DeliveryQuery{ID: id, Account: account}, false)
	if err != nil {
		return postrider.Delivery{}, err
	}
	rows, err := tx.query(ctx, ask.text, append(ask.args, sql.Named("wall", micros(tx.wall)))...)
	if err != nil {
		return postrider.Delivery{}, err
	}
	found, err := collect(rows, scanDelivery(tx.clock))
	if err != nil {
		return postrider.Delivery{}, err
	}
	if len(found) == 0 {
		return postrider.Delivery{}, postrider.ErrNotFound
	}
	return found[0], nil
}
