package postgres

import (
	"context"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// archived has the table of a kind, and the statements that read its rows for the archive.
type archived struct {
	table string
	rows  string // reads rows of a day after a position, at most @limit
	only  string // reads single rows
	scan  func(pgx.CollectableRow) (store.ArchivedRow, error)
}

// By the primary keys of the day's partitions, in their order.
const (
	archivedEventsSQL = archivedEvents + `
	where e.id >= @from and e.id < @below and e.id > @after
	order by e.id
	limit @limit`
	archivedAttemptsSQL = archivedAttempts + `
	where a.delivery >= @from and a.delivery < @below and (a.delivery, a.number) > (@after, @number)
	order by a.delivery, a.number
	limit @limit`
	archivedBodiesSQL = archivedBodies + `
	where b.delivery >= @from and b.delivery < @below and (b.delivery, b.number) > (@after, @number)
	order by b.delivery, b.number
	limit @limit`

	onlyEventsSQL   = archivedEvents + ` where e.id = any (@ids::uuid[]) order by e.id`
	onlyAttemptsSQL = archivedAttempts + ` where ` + oneOfAttempts + ` order by a.delivery, a.number`
	onlyBodiesSQL   = archivedBodies + ` where ` + oneOfBodies + ` order by b.delivery, b.number`

	archivedEvents = `
	select e.id, e.account, e.type, e.data, e.api_version, e.ordering_key, e.sequence, e.hops, e.max_attempts, coalesce(e.idempotency_key, ''), e.about
	from events e`
	archivedAttempts = `
	select a.delivery, a.number, postrider_event(a.delivery, a.named_event), a.endpoint, a.outcome, a.status_code, a.error,
		a.retry_after, a.started_at, a.duration, a.stale, a.status_after, a.next_at, coalesce(a.final_url, ''), a.timing,
		` + acceptedHead + `, a.response_start, a.account, a.type, a.replayed_from, a.replay_job
	from attempts a`
	archivedBodies = `
	select b.delivery, b.number, postrider_event(a.delivery, a.named_event), a.endpoint, a.account, coalesce(a.type, ''),
		b.request_head, b.response_head, b.response_body
	from attempt_bodies b
	left join attempts a on a.delivery = b.delivery and a.number = b.number and a.delivery >= @from and a.delivery < @below`
)

// archivedKinds has what is archived.
var archivedKinds = map[store.Kind]archived{
	store.OldEvents:   {"events", archivedEventsSQL, onlyEventsSQL, scanArchivedEvent},
	store.OldAttempts: {"attempts", archivedAttemptsSQL, onlyAttemptsSQL, scanArchivedAttempt},
	store.OldBodies:   {"attempt_bodies", archivedBodiesSQL, onlyBodiesSQL, scanArchivedBody},
}

func scanArchivedEvent(row pgx.CollectableRow) (r store.ArchivedRow, err error) {
	e := &postrider.Event{}
	err = row.Scan(toID(&e.ID), toID(&e.Account), &e.Type, &e.Data, &e.APIVersion, &e.OrderingKey, &e.Sequence, &e.Hops,
		&e.MaxAttempts, &e.IdempotencyKey, toAbout(e))
	e.CreatedAt = e.ID.Time()
	return store.ArchivedRow{Account: e.Account, Event: e}, err
}

func scanArchivedAttempt(row pgx.CollectableRow) (r store.ArchivedRow, err error) {
	var timing []byte
	a := &postrider.Attempt{}
	r.Attempt = a
	err = row.Scan(toID(&a.Delivery), &a.Number, toID(&a.Event), toID(&a.Endpoint), &a.Outcome, &a.StatusCode, &a.Error,
		toWait(&a.RetryAfter), toTime(&a.StartedAt), toWait(&a.Duration), &a.Stale, &a.StatusAfter, toTime(&a.NextAt),
		&a.FinalURL, &timing, &a.ResponseHead, &a.ResponseBody, toID(&r.Account), &r.EventType, toID(&r.ReplayedFrom), toID(&r.ReplayJob))
	if err == nil {
		a.Timing, err = store.DecodeTiming(timing)
	}
	return r, err
}

func scanArchivedBody(row pgx.CollectableRow) (r store.ArchivedRow, err error) {
	a := &postrider.Attempt{}
	r.Attempt = a
	err = row.Scan(toID(&a.Delivery), &a.Number, toID(&a.Event), toID(&a.Endpoint), toID(&r.Account), &r.EventType,
		&a.RequestHead, &a.ResponseHead, &a.ResponseBody)
	return r, err
}

// ArchiveDay finds a day to archive among the partitions. There are few, because a day is deleted soon
// after it is archived. A day is counted by its primary key: 1.2 million rows take a tenth of a second
// after a vacuum.
//
// Another node may drop a partition after it was listed and before it is counted. Then ArchiveDay
// begins again.
func (s *Store) ArchiveDay(ctx context.Context, kind store.Kind, before time.Time) (day store.ArchiveDay, err error) {
	defer s.calls.Begin("ArchiveDay").End(&err, "find a day to archive")
	const tries, undefinedTable = 5, "42P01"
	for range tries {
		err = s.repeat(ctx, func(bool) error {
			return s.tx(ctx, func(tx pgx.Tx) error {
				day, err = archiveDay(ctx, tx, kind, before)
				return err
			})
		})
		if !isCode(err, undefinedTable) {
			break
		}
	}
	return day, err
}

func archiveDay(ctx context.Context, tx pgx.Tx, kind store.Kind, before time.Time) (store.ArchiveDay, error) {
	days, err := daysBefore(ctx, tx, archivedKinds[kind].table, before)
	if err != nil {
		return store.ArchiveDay{}, err
	}
	for _, d := range days {
		if day, err := partsOfDay(ctx, tx, kind, d); err != nil || !day.Complete() {
			return day, err
		}
	}
	return store.ArchiveDay{}, nil
}

// A count of a day takes one processor. With all processors, deliveries would wait.
const countAloneSQL = `set local max_parallel_workers_per_gather = 0`

// partsOfDay counts the rows of a day, and then reads its parts. In the other order, a row could be
// removed in between: the count would lack the row, and the parts would still count it. Then a row
// that was added late would seem to be archived. The statement names the partition, so that it locks
// no other one.
func partsOfDay(ctx context.Context, tx pgx.Tx, kind store.Kind, d partition) (day store.ArchiveDay, err error) {
	var rows int64
	if _, err := tx.Exec(ctx, countAloneSQL); err != nil {
		return day, err
	}
	if err := tx.QueryRow(ctx, `select count(*) from only `+d.table).Scan(&rows); err != nil {
		return day, err
	}
	day, err = sqlstore.ReadDay(ctx, coldTx{tx: tx}, sqlstore.PartsOf{Kind: kind, Day: d.from.UTC()})
	day.Rows = rows
	return day, err
}

// isArchived locks the parts of a day, and reports whether they have all rows of the day. The caller
// holds a lock that keeps rows from being added. Attempts wait for the bodies of their day.
func (s *Store) isArchived(ctx context.Context, tx pgx.Tx, f store.DeleteOld, d partition) (bool, error) {
	if !f.Archived {
		return true, nil
	}
	if f.Kind == store.OldAttempts {
		var bodies bool
		from, below := d.ids()
		if err := tx.QueryRow(ctx, bodiesLeftSQL, pgx.NamedArgs{"from": from, "below": below}).Scan(&bodies); err != nil || bodies {
			return false, err
		}
	}
	// Until the day is deleted, no other node may change its parts. It could find the day incomplete
	// and forget the parts.
	if err := sqlstore.LockDay(ctx, coldTx{tx: tx}, sqlstore.PartsOf{Kind: f.Kind, Day: d.from.UTC()}); err != nil {
		return false, err
	}
	day, err := partsOfDay(ctx, tx, f.Kind, d)
	return err == nil && day.Complete(), err
}

// Walks attempt_bodies_pkey.
const bodiesLeftSQL = `select exists (select from attempt_bodies b where b.delivery >= @from and b.delivery < @below)`

// deletedAll counts all rows of a day as deleted, and checks nothing: isArchived has found the day
// complete, or no archive is set.
func deletedAll(ctx context.Context, tx pgx.Tx, f store.DeleteOld, d partition) error {
	return sqlstore.ChangeDay(ctx, coldTx{tx: tx}, sqlstore.PartsOf{Kind: f.Kind, Day: d.from.UTC()}, func(day *store.ArchiveDay) error {
		day.DeletedAll()
		return nil
	})
}

// A page of rows to archive has at most archivePage rows. A row can have a kilobyte or a megabyte. So
// the next page gets as many rows as would have had pageBytes in this page, and at most twice as many
// as this page. If its rows are much larger, the page ends at pageMost, and the rest of the query is
// read in vain.
const (
	archivePage  = 500
	archiveFirst = 4
	pageBytes    = 2 << 20
	pageMost     = 8 << 20
)

// ArchiveRows reads rows to archive, a page at a time. While yield runs, no query is open, because
// yield rests between rows.
func (s *Store) ArchiveRows(ctx context.Context, q store.ArchiveRows, yield func(store.ArchivedRow) bool) (err error) {
	defer s.calls.Begin("ArchiveRows").End(&err, "read rows to archive")
	kind := archivedKinds[q.Kind]
	args := pgx.NamedArgs{"below": floor(q.Day.AddDate(0, 0, 1), 0)}
	limit := archiveFirst
	if q.Only != nil {
		for left := q.Only; len(left) > 0; {
			only := left[:min(limit, len(left))]
			args["from"], args["ids"], args["numbers"] = floor(q.Day, 0), idsOf(only), numbersOf(only)
			page, size, err := s.readArchivePage(ctx, query{kind.only, args}, kind.scan)
			if err != nil || !each(page, yield) {
				return err
			}
			done := len(only)
			if size >= pageMost {
				last := page[len(page)-1].Name()
				done = 1 + slices.IndexFunc(only, func(r store.OldRow) bool { return store.CompareRows(r, last) == 0 })
			}
			left, limit = left[done:], nextPage(limit, len(page), size)
		}
		return nil
	}
	after, number := q.After, int64(1<<31-1)
	for {
		args["from"] = someUUID(store.Later(store.RowID(floor(q.Day, 0).Bytes), after))
		args["after"], args["number"], args["limit"] = someUUID(after), number, limit
		page, size, err := s.readArchivePage(ctx, query{kind.rows, args}, kind.scan)
		if err != nil || !each(page, yield) || len(page) < limit && size < pageMost {
			return err
		}
		last := page[len(page)-1]
		if after = last.ID(); last.Attempt != nil {
			number = int64(last.Attempt.Number)
		}
		limit = nextPage(limit, len(page), size)
	}
}

// each calls yield with each row until it returns false, and returns what it returned last.
func each(page []store.ArchivedRow, yield func(store.ArchivedRow) bool) bool {
	return !slices.ContainsFunc(page, func(row store.ArchivedRow) bool { return !yield(row) })
}

// nextPage returns the number of rows of the next page. The last page had n rows and size bytes.
func nextPage(limit, n, size int) int {
	return max(1, min(archivePage, 2*limit, n*pageBytes/max(size, 1)))
}

// readArchivePage reads the rows of a query until they have pageMost bytes. It returns their size.
func (s *Store) readArchivePage(
	ctx context.Context, q query, scan func(pgx.CollectableRow) (store.ArchivedRow, error),
) (page []store.ArchivedRow, size int, err error) {
	rows, _ := s.pool.Query(ctx, q.statement, q.args)
	for err == nil && size < pageMost && rows.Next() {
		for _, value := range rows.RawValues() {
			size += len(value)
		}
		var row store.ArchivedRow
		row, err = scan(rows)
		page = append(page, row)
	}
	rows.Close()
	if err == nil {
		err = rows.Err()
	}
	if err != nil {
		return nil, size, fault(err)
	}
	return page, size, nil
}
