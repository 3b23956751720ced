package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// archived has the statements of a kind that is archived.
type archived struct {
	first  string // reads the least id from @from on
	count  string // counts the rows from @from on and before @below, that are after @after and not after @last
	stored string // lists their ids, and whether each may go
	rows   string // reads rows of the day after a position, at most @limit
	only   string // reads one row
	scan   func(*sql.Rows, *store.ArchivedRow) error
}

// Each chooses the rows of a day that are after one id and up to another, by the key of the table.
const (
	ofEventIDs = ` where id >= @from and id < @below and id > @after and id <= @last`
	ofDelivery = ` where delivery >= @from and delivery < @below and delivery > @after and delivery <= @last`
)

// By the keys of events, attempts and attempt_bodies.
const (
	firstEventSQL    = `select id from events where id >= @from order by id limit 1`
	firstAttemptSQL  = `select delivery from attempts where delivery >= @from order by delivery limit 1`
	firstBodySQL     = `select delivery from attempt_bodies where delivery >= @from order by delivery limit 1`
	countEventsSQL   = `select count(*) from events` + ofEventIDs
	countAttemptsSQL = `select count(*) from attempts` + ofDelivery
	countBodiesSQL   = `select count(*) from attempt_bodies` + ofDelivery

	archivedEventsSQL = archivedEvents + ` where id >= @from and id < @below and id > @after
	order by id limit @limit`
	archivedAttemptsSQL = archivedAttempts + `
	where delivery >= @from and delivery < @below and (delivery, attempts.number) > (@after, @number)
	order by delivery, attempts.number limit @limit`
	archivedBodiesSQL = archivedBodies + `
	where b.delivery >= @from and b.delivery < @below and (b.delivery, b.number) > (@after, @number)
	order by b.delivery, b.number limit @limit`

	onlyEventSQL   = archivedEvents + ` where id = @id`
	onlyAttemptSQL = archivedAttempts + ` where delivery = @id and attempts.number = @number`
	onlyBodySQL    = archivedBodies + ` where b.delivery = @id and b.number = @number`

	archivedEvents = `
	select id, account, type, data, api_version, ordering_key, sequence, hops, max_attempts, idempotency_key, about, created_at
	from events`
	archivedAttempts = `
	select ` + attemptsColumns + `, null, ` + acceptedHead + `, response_start, account, type, replayed_from, replay_job
	from attempts`
	archivedBodies = `
	select b.delivery, b.number, a.event, a.endpoint, a.account, coalesce(a.type, ''), b.request_head, b.response_head, b.response_body
	from attempt_bodies b left join attempts a on a.delivery = b.delivery and a.number = b.number`
)

// archivedKinds has what is archived.
var archivedKinds = map[store.Kind]archived{
	store.OldEvents:   {firstEventSQL, countEventsSQL, eventsOfPartSQL, archivedEventsSQL, onlyEventSQL, scanArchivedEvent},
	store.OldAttempts: {firstAttemptSQL, countAttemptsSQL, attemptsOfPartSQL, archivedAttemptsSQL, onlyAttemptSQL, scanArchivedAttempt},
	store.OldBodies:   {firstBodySQL, countBodiesSQL, bodiesOfPartSQL, archivedBodiesSQL, onlyBodySQL, scanArchivedBody},
}

func scanArchivedEvent(rows *sql.Rows, r *store.ArchivedRow) error {
	r.Event = &postrider.Event{}
	err := scanEvent(rows, r.Event)
	r.Account = r.Event.Account
	return err
}

func scanArchivedAttempt(rows *sql.Rows, r *store.ArchivedRow) error {
	r.Attempt = &postrider.Attempt{}
	var timing []byte
	a := r.Attempt
	err := rows.Scan(toID(&a.Delivery), &a.Number, toID(&a.Event), toID(&a.Endpoint), toString(&a.Outcome), &a.StatusCode,
		toWait(&a.RetryAfter), toTime(&a.StartedAt), toWait(&a.Duration), &a.Error, &a.Stale, toString(&a.StatusAfter),
		toTime(&a.NextAt), toString(&a.FinalURL), &timing, &a.RequestHead, &a.ResponseHead, &a.ResponseBody,
		toID(&r.Account), &r.EventType, toID(&r.ReplayedFrom), toID(&r.ReplayJob))
	if err == nil {
		a.Timing, err = store.DecodeTiming(timing)
	}
	return err
}

func scanArchivedBody(rows *sql.Rows, r *store.ArchivedRow) error {
	r.Attempt = &postrider.Attempt{}
	a := r.Attempt
	return rows.Scan(toID(&a.Delivery), &a.Number, toID(&a.Event), toID(&a.Endpoint), toID(&r.Account), &r.EventType,
		&a.RequestHead, &a.ResponseHead, &a.ResponseBody)
}

// idsOf returns the arguments of ofEventIDs and ofDelivery for the ids of a day between two positions.
// The walk of the key begins at @from, which is the day's first id or, if it is later, the position.
func idsOf(day time.Time, after, upTo store.RowID) []any {
	return []any{
		sql.Named("from", blob(store.Later(store.RowID(floor(day)), after))), sql.Named("below", blob(floor(day.AddDate(0, 0, 1)))),
		sql.Named("after", blob(after)), sql.Named("last", blob(upTo)),
	}
}

// ArchiveDay finds a day to archive; see [store.Archive]. It steps from day to day: the first
// row after a day tells the next one.
func (s *Store) ArchiveDay(ctx context.Context, kind store.Kind, before time.Time) (_ store.ArchiveDay, err error) {
	defer s.calls.Begin("ArchiveDay").End(&err, "find a day to archive")
	day, err := s.archiveDay(ctx, kind, before)
	return day, s.fault(err)
}

func (s *Store) archiveDay(ctx context.Context, kind store.Kind, before time.Time) (store.ArchiveDay, error) {
	statements := archivedKinds[kind]
	for from := (time.Time{}); ; from = from.AddDate(0, 0, 1) {
		least := store.RowID{}
		if !from.IsZero() {
			least = store.RowID(floor(from))
		}
		found, err := list(ctx, s, query{statements.first, []any{sql.Named("from", blob(least))}},
			func(rows *sql.Rows, id *store.RowID) error { return rows.Scan(toID(id)) })
		if err != nil || len(found) == 0 {
			return store.ArchiveDay{}, err
		}
		from = store.DayOf(found[0].Time())
		if from.AddDate(0, 0, 1).After(before) {
			return store.ArchiveDay{}, nil
		}
		day, err := s.partsOfDay(ctx, kind, from)
		if err != nil || !day.Complete() {
			return day, err
		}
	}
}

// partsOfDay counts the rows of a day, and then reads its parts. In the other order, a row could be
// removed in between: the count would lack the row, and the parts would still count it. Then a row
// that was added late would seem to be archived.
func (s *Store) partsOfDay(ctx context.Context, kind store.Kind, at time.Time) (day store.ArchiveDay, err error) {
	counts, err := list(ctx, s, query{archivedKinds[kind].count, idsOf(at, store.RowID{}, last)},
		func(rows *sql.Rows, n *int64) error { return rows.Scan(n) })
	if err != nil {
		return day, err
	}
	day, err = sqlstore.ReadDay(ctx, cold{s}, sqlstore.PartsOf{Kind: kind, Day: at})
	day.Rows = counts[0]
	return day, err
}

// archivePage is how many rows are read at once to be archived.
const archivePage = 500

// ArchiveRows reads rows to archive, a page at a time; see [store.Archive]. It passes on each row at
// once, because a page can have hundreds of megabytes.
func (s *Store) ArchiveRows(ctx context.Context, q store.ArchiveRows, yield func(store.ArchivedRow) bool) (err error) {
	defer s.calls.Begin("ArchiveRows").End(&err, "read rows to archive")
	kind := archivedKinds[q.Kind]
	if q.Only != nil {
		wants := true
		for _, r := range q.Only {
			err := s.eachArchived(ctx, query{kind.only, rowArgs(r)}, kind.scan, func(r store.ArchivedRow) bool {
				wants = yield(r)
				return wants
			})
			if err != nil || !wants {
				return s.fault(err)
			}
		}
		return nil
	}
	after, number := q.After, int64(1<<31)
	for {
		n, wants := 0, true
		err := s.eachArchived(ctx, query{kind.rows, append(idsOf(q.Day, after, last)[:3],
			sql.Named("number", number), sql.Named("limit", archivePage))},
			kind.scan, func(r store.ArchivedRow) bool {
				n++
				if after = r.ID(); r.Attempt != nil {
					number = int64(r.Attempt.Number)
				}
				wants = yield(r)
				return wants
			})
		if err != nil || !wants || n < archivePage {
			return s.fault(err)
		}
	}
}

// eachArchived calls yield with each row of a query until it returns false.
func (s *Store) eachArchived(
	ctx context.Context, q query, scan func(*sql.Rows, *store.ArchivedRow) error, yield func(store.ArchivedRow) bool,
) (err error) {
	statement, err := s.reads.prepared(ctx, q.text) //nolint:sqlclosecheck // it lives as long as the store
	if err != nil {
		return err
	}
	rows, err := statement.QueryContext(ctx, q.args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var r store.ArchivedRow
		if err := scan(rows, &r); err != nil {
			return err
		}
		if !yield(r) {
			return nil
		}
	}
	return rows.Err()
}
