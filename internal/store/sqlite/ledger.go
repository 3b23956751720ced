package sqlite

import (
	"context"
	"database/sql"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// eventsFilter ends each statement that lists events.
const eventsFilter = ` and id < @below and id >= @from
		and (@type = '' or type = @type)
		and (@ordering_key = '' or ordering_key = @ordering_key)
	order by id desc limit @limit`

// eventsSelect begins each statement that lists events. It does not read their bytes, see
// [store.Shorten]; only eventSQL and the statements of wholeEvents do.
const eventsSelect = `
	select id, account, type, null, api_version, ordering_key, sequence, hops, max_attempts, idempotency_key, substr(about, 1, 16384), created_at
	from events where `

// wholeEvents makes a statement that begins with eventsSelect read the bytes of the events.
var wholeEvents = strings.NewReplacer("null, api_version", "data, api_version", "substr(about, 1, 16384)", "about")

// These statements walk the following indexes:
//
//   - eventSQL, for one event with its bytes: the primary key
//   - eventOfKeySQL, for the event of an idempotency key: the primary keys of idempotency_keys
//     and of events
//   - eventsOfOrderSQL, for the events of an ordering key: events_order
//   - eventsOfAccountSQL, for the events of an account: events_account
//   - eventsSQL, for all events: the primary key from its end
const (
	eventSQL = `
	select id, account, type, data, api_version, ordering_key, sequence, hops, max_attempts, idempotency_key, about, created_at
	from events where id = @id and (@account is null or account = @account)
		and (@key = '' or idempotency_key = @key)` + eventsFilter
	eventOfKeySQL = eventsSelect + `account = @account
		and id = (select event from idempotency_keys where account = @account and key = @key)` + eventsFilter
	eventsOfOrderSQL   = eventsSelect + `account = @account and ordering_key = @ordering_key and ordering_key <> ''` + eventsFilter
	eventsOfAccountSQL = eventsSelect + `account = @account` + eventsFilter
	eventsSQL          = eventsSelect + `true` + eventsFilter
)

// These statements return the id of the row at which a page of events of one type must stop. They
// walk the same indexes as the statements above.
const (
	eventsStopSQL          = `select id from events where true` + idStops
	eventsOfAccountStopSQL = `select id from events where account = @account` + idStops
	eventsOfOrderStopSQL   = `select id from events where account = @account and ordering_key = @ordering_key and ordering_key <> ''` + idStops
)

// eventWalks returns the walk that must be bounded for a page of one type, because there is no
// index by type.
func eventWalks(q store.EventQuery) []string {
	switch {
	case q.Type == "" || !q.ID.IsZero() || q.IdempotencyKey != "":
		return nil
	case q.OrderingKey != "":
		return []string{eventsOfOrderStopSQL}
	case !q.Account.IsZero():
		return []string{eventsOfAccountStopSQL}
	}
	return []string{eventsStopSQL}
}

// Events lists events; see [store.Ledger].
func (s *Store) Events(ctx context.Context, q store.EventQuery) (_ store.Page[postrider.Event], err error) {
	defer s.calls.Begin("Events").End(&err, "list events")
	args, err := window[postrider.EventID](q.Span, q.Paging)
	if err != nil {
		return store.Page[postrider.Event]{}, err
	}
	statement, scan := eventsSQL, scanShortened
	switch {
	case !q.ID.IsZero():
		statement, scan = eventSQL, scanEvent
	case q.IdempotencyKey != "":
		statement = eventOfKeySQL
	case q.OrderingKey != "":
		statement = eventsOfOrderSQL
	case !q.Account.IsZero():
		statement = eventsOfAccountSQL
	}
	if q.Whole {
		statement, scan = wholeEvents.Replace(statement), scanEvent
	}
	args = append(args, sql.Named("id", blobOrNull(q.ID)), sql.Named("account", blobOrNull(q.Account)),
		sql.Named("type", q.Type), sql.Named("key", q.IdempotencyKey), sql.Named("ordering_key", q.OrderingKey))
	return bounded[postrider.Event, postrider.EventID]{
		query{statement, args}, eventWalks(q), q.Paging, scan, func(e postrider.Event) postrider.EventID { return e.ID },
	}.list(ctx, s)
}

func scanShortened(rows *sql.Rows, e *postrider.Event) error {
	err := scanEvent(rows, e)
	store.Shorten(e)
	return err
}

// attemptsColumns are the columns of scanAttempt without heads and bodies.
const attemptsColumns = `delivery, attempts.number, event, endpoint, outcome, status_code, retry_after, started_at, duration,
		error, stale, status_after, next_at, final_url, timing`

// acceptedHead is the head of an accepted response, which the attempt's own row has or refers to.
// It walks the primary key of attempts.
const acceptedHead = `case when length(attempts.response_head) = 16
		then (select h.response_head from attempts h where h.delivery = attempts.response_head and length(h.response_head) <> 16 limit 1)
		else attempts.response_head end`

// deadLettersSelect begins each statement that lists dead letters, with the columns of
// scanDeadLetter.
const deadLettersSelect = `
	select delivery, event, endpoint, account, type, reason, attempts, last_status_code, last_error, replayed_from,
		died_at, resolved_at, resolution, resolved_by, note, replay
	from dead_letters
	where `

// deadLettersFilter ends each statement that lists dead letters.
const deadLettersFilter = `
		and delivery < @below and delivery >= @from
		and (@account is null or account = @account)
		and (@endpoint is null or endpoint = @endpoint)
		and (@type = '' or type = @type)
		and (@reason = '' or reason = @reason)
		and (@event is null or event = @event)
		and (@resolved or resolved_at is null or resolved_at >= @resolved_from)
	order by delivery desc limit @limit`

// DeadLetters lists dead letters; see [store.Ledger].
func (s *Store) DeadLetters(ctx context.Context, q store.DeadLetterQuery) (_ store.Page[postrider.DeadLetter], err error) {
	defer s.calls.Begin("DeadLetters").End(&err, "list dead letters")
	args, err := window[postrider.DeliveryID](q.Span, q.Paging)
	if err != nil {
		return store.Page[postrider.DeadLetter]{}, err
	}
	which := deadLettersWhere(q)
	args = append(args, sql.Named("delivery", blob(q.Delivery)), sql.Named("endpoint", blobOrNull(q.Endpoint)),
		sql.Named("account", blobOrNull(q.Account)), sql.Named("type", q.EventType), sql.Named("reason", q.Reason),
		sql.Named("resolved", q.Resolved), sql.Named("event", blobOrNull(q.Event)), sql.Named("resolved_from", microsOrNull(q.ResolvedFrom)))
	return bounded[postrider.DeadLetter, postrider.DeliveryID]{
		query{deadLettersSelect + which + deadLettersFilter, args},
		[]string{deadLettersStopSelect + which + deliveryStops},
		q.Paging,
		scanDeadLetter, func(l postrider.DeadLetter) postrider.DeliveryID { return l.Delivery },
	}.list(ctx, s)
}

// deadLettersWhere returns the condition of a query. The condition decides which index SQLite
// walks:
//
//   - for a delivery: the primary key
//   - for an event: dead_letters_event
//   - for an endpoint: dead_letters_endpoint
//   - for an account: dead_letters_account
//   - for a reason: dead_letters_reason, or, with an account, dead_letters_reason_account
//   - without a condition: the primary key
//
// These indexes also have the resolved dead letters.
func deadLettersWhere(q store.DeadLetterQuery) string {
	switch {
	case !q.Delivery.IsZero():
		return `delivery = @delivery`
	case !q.Event.IsZero():
		return `event = @event`
	case !q.Endpoint.IsZero():
		return `endpoint = @endpoint`
	case !q.Account.IsZero() && q.Reason != "":
		return `account = @account and reason = @reason`
	case !q.Account.IsZero():
		return `account = @account`
	case q.Reason != "":
		return `reason = @reason`
	}
	return `true`
}

// deadLettersStopSelect begins each statement that returns the id of the row at which a page of
// dead letters must stop.
const deadLettersStopSelect = `select delivery from dead_letters where `

func scanDeadLetter(rows *sql.Rows, l *postrider.DeadLetter) error {
	return rows.Scan(toID(&l.Delivery), toID(&l.Event), toID(&l.Endpoint), toID(&l.Account), &l.EventType, &l.Reason,
		&l.Attempts, &l.LastStatusCode, &l.LastError, toID(&l.ReplayedFrom), toTime(&l.DiedAt), toTime(&l.ResolvedAt),
		toString(&l.Resolution), &l.ResolvedBy, &l.Note, toID(&l.Replay))
}
