package postgres

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// One row, which the first call makes. Walks archive_lease_pkey.
const leaseArchiveSQL = `
	insert into archive_lease (node, until)
	values (@node, @now::timestamptz + @lease * interval '1 microsecond')
	on conflict (single) do update
	set node = excluded.node, until = excluded.until
	where archive_lease.node = excluded.node or archive_lease.until <= @now`

// LeaseArchive leases the right to archive.
func (s *Store) LeaseArchive(ctx context.Context, node uint64, d time.Duration) (leased bool, err error) {
	err = s.repeat(ctx, func(bool) error {
		tag, err := s.pool.Exec(ctx, leaseArchiveSQL, pgx.NamedArgs{
			"node": int64(node), "now": s.clock.Now(), "lease": d.Microseconds(), //nolint:gosec // the bits of node count
		})
		leased = tag.RowsAffected() > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("lease the archive: %w", err)
	}
	return leased, nil
}

// archived has the table of a kind that is archived, and how its rows are read.
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
	select e.id, e.account, e.type, e.data, e.api_version, e.ordering_key, e.sequence, e.hops, e.max_attempts, coalesce(e.idempotency_key, ''), e.trace_context
	from events e`
	archivedAttempts = `
	select a.delivery, a.number, a.event, a.endpoint, a.outcome, a.status_code, a.error, a.retry_after, a.started_at,
		a.duration, a.stale, a.status_after, a.next_at, coalesce(a.final_url, ''), a.timing, ` + acceptedHead + `, a.response_start,
		a.account, a.type, a.replayed_from, a.replay_job
	from attempts a`
	archivedBodies = `
	select b.delivery, b.number, a.event, a.endpoint, a.account, coalesce(a.type, ''), b.request_head, b.response_head, b.response_body
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
		&e.MaxAttempts, &e.IdempotencyKey, toTrace(e))
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

// Walks archive_parts_pkey.
const partsOfDaySQL = `
	select p.kind, p.day, p.number, p.object, p.row_count, p.deleted, p.bytes, p.sha256, p.after, p.last, p.made_at
	from archive_parts p
	where p.kind = @kind and p.day = @day
	order by p.number`

func scanPart(row pgx.CollectableRow) (p store.ArchivePart, err error) {
	var sum []byte
	err = row.Scan(&p.Kind, toTime(&p.Day), &p.Number, &p.Object, &p.Rows, &p.Deleted, &p.Bytes, &sum, toID(&p.After), toID(&p.Last), toTime(&p.MadeAt))
	copy(p.SHA256[:], sum)
	return p, err
}

// ArchiveDay finds a day to archive among the partitions that are left: few, because a day
// goes soon after it is archived. A day is counted by its primary key: 1.2 M rows take a
// tenth of a second if vacuum has seen them.
//
// Another node may drop a day between its being listed and counted. Then all is read anew.
func (s *Store) ArchiveDay(ctx context.Context, kind store.Kind, before time.Time) (day store.ArchiveDay, err error) {
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
	if err != nil {
		return store.ArchiveDay{}, fmt.Errorf("find a day to archive: %w", err)
	}
	return day, nil
}

func archiveDay(ctx context.Context, tx pgx.Tx, kind store.Kind, before time.Time) (store.ArchiveDay, error) {
	days, err := daysBefore(ctx, tx, archivedKinds[kind].table, before)
	if err != nil {
		return store.ArchiveDay{}, err
	}
	for _, d := range days {
		if day, err := partsOfDay(ctx, tx, kind, d); err != nil || day.Rows != day.Archived() {
			return day, err
		}
	}
	return store.ArchiveDay{}, nil
}

// A count of a day takes one processor, and not all, for which deliveries would wait.
const countAloneSQL = `set local max_parallel_workers_per_gather = 0`

// partsOfDay reads a day with its parts. It names the partition, so that the statement locks
// no other one.
func partsOfDay(ctx context.Context, tx pgx.Tx, kind store.Kind, d partition) (day store.ArchiveDay, err error) {
	day = store.ArchiveDay{Day: d.from.UTC(), Next: 1}
	if _, err := tx.Exec(ctx, countAloneSQL); err != nil {
		return day, err
	}
	if err := tx.QueryRow(ctx, `select count(*) from only `+d.table).Scan(&day.Rows); err != nil {
		return day, err
	}
	rows, _ := tx.Query(ctx, partsOfDaySQL, pgx.NamedArgs{"kind": string(kind), "day": d.from})
	parts, err := pgx.CollectRows(rows, scanPart)
	for _, p := range parts {
		day.Next = p.Number + 1
		if p.Deleted < p.Rows {
			day.Parts = append(day.Parts, p)
		}
	}
	return day, err
}

// isArchived reports whether the parts of a day have all its rows. The caller holds a lock
// under which none is added. Attempts wait for the bodies of their day.
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
	day, err := partsOfDay(ctx, tx, f.Kind, d)
	return err == nil && day.Rows == day.Archived(), err
}

// Walks attempt_bodies_pkey.
const bodiesLeftSQL = `select exists (select from attempt_bodies b where b.delivery >= @from and b.delivery < @below)`

// Walks archive_parts_pkey.
const partsDeletedSQL = `update archive_parts set deleted = row_count where kind = @kind and day = @day and deleted < row_count`

// noteDeleted notes that all rows of a day were deleted.
func noteDeleted(ctx context.Context, tx pgx.Tx, f store.DeleteOld, d partition) error {
	_, err := tx.Exec(ctx, partsDeletedSQL, pgx.NamedArgs{"kind": string(f.Kind), "day": d.from})
	return err
}

// A page of rows to archive has at most archivePage rows. Rows can have a kilobyte or a megabyte:
// the next page has as many as had pageBytes before, and at most twice as many. Where rows are much
// larger than those before, a page ends at pageMost, and the rest of its query is read in vain.
const (
	archivePage  = 500
	archiveFirst = 4
	pageBytes    = 2 << 20
	pageMost     = 8 << 20
)

// ArchiveRows reads rows to archive, a page at a time. No query is open while yield runs: it
// rests between rows. When it wants no more, at most the rest of a page was read in vain.
func (s *Store) ArchiveRows(ctx context.Context, q store.ArchiveRows, yield func(store.ArchivedRow) bool) error {
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
				done = 1 + slices.Index(only, page[len(page)-1].Name())
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

// nextPage returns how many rows the page after one of n rows and size bytes has.
func nextPage(limit, n, size int) int {
	return max(1, min(archivePage, 2*limit, n*pageBytes/max(size, 1)))
}

// readArchivePage reads the rows of a query up to pageMost, and returns how many bytes they have.
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
		return nil, size, fmt.Errorf("read rows to archive: %w", fault(err))
	}
	return page, size, nil
}

// A part is stored if it is the next one of its day, and the rows that are left of others end at
// @follows. Of two at once, archive_parts_pkey keeps the first.
const putPartSQL = `
	insert into archive_parts (kind, day, number, object, row_count, deleted, bytes, sha256, after, last, made_at)
	select @kind, @day, @number, @object, @rows, @deleted, @bytes, @sha256, @after, @last, @made_at
	where @number::int = 1 + coalesce((select max(p.number) from archive_parts p where p.kind = @kind and p.day = @day), 0)
		and @follows::uuid = coalesce((
			select p.last
			from archive_parts p
			where p.kind = @kind and p.day = @day and p.deleted < p.row_count
			order by p.number desc
			limit 1), @zero::uuid)
	on conflict do nothing`

// PutArchivePart records a part.
func (s *Store) PutArchivePart(ctx context.Context, p store.ArchivePart) error {
	err := s.once(ctx, func() error {
		tag, err := s.pool.Exec(ctx, putPartSQL, pgx.NamedArgs{
			"kind": string(p.Kind), "day": p.Day, "number": p.Number, "object": p.Object, "rows": p.Rows, "deleted": p.Deleted, "bytes": p.Bytes,
			"sha256": p.SHA256[:], "after": someUUID(p.After), "last": someUUID(p.Last), "made_at": p.MadeAt,
			"follows": someUUID(p.Follows()), "zero": someUUID(store.RowID{}),
		})
		if err == nil && tag.RowsAffected() == 0 {
			return fmt.Errorf("%w: another part is recorded", postrider.ErrConflict)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("put archive part: %w", err)
	}
	return nil
}

// Both walk archive_parts_pkey.
const (
	forgetPartsSQL = `
	delete from archive_parts p
	where p.kind = @kind and p.day = @day and p.deleted = 0
	returning p.kind, p.day, p.number, p.object, p.row_count, p.deleted, p.bytes, p.sha256, p.after, p.last, p.made_at`
	endPartsSQL = `update archive_parts set row_count = deleted where kind = @kind and day = @day and deleted < row_count`
)

// RedoArchiveDay forgets parts of a day.
func (s *Store) RedoArchiveDay(ctx context.Context, kind store.Kind, day time.Time) (forgotten []store.ArchivePart, err error) {
	args := pgx.NamedArgs{"kind": string(kind), "day": day}
	err = s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			rows, _ := tx.Query(ctx, forgetPartsSQL, args)
			if forgotten, err = pgx.CollectRows(rows, scanPart); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, endPartsSQL, args)
			return err
		})
	})
	if err != nil {
		return nil, fmt.Errorf("archive a day again: %w", err)
	}
	return forgotten, nil
}

// Walks archive_parts_pkey.
const archivePartsSQL = `
	select p.kind, p.day, p.number, p.object, p.row_count, p.deleted, p.bytes, p.sha256, p.after, p.last, p.made_at
	from archive_parts p
	where (p.kind, p.day, p.number) > (@kind_after, @day_after::timestamptz, @number_after::int)
		and (@kind::text = '' or p.kind = @kind)
		and (@from::timestamptz is null or p.day >= @from)
		and (@to::timestamptz is null or p.day < @to)
	order by p.kind, p.day, p.number
	limit @limit`

// ArchiveParts lists parts.
func (s *Store) ArchiveParts(ctx context.Context, q store.ArchiveParts) ([]store.ArchivePart, error) {
	parts, err := list(ctx, s, query{archivePartsSQL, pgx.NamedArgs{
		"kind": string(q.Kind), "from": instant(q.From), "to": instant(q.To), "kind_after": string(q.After.Kind),
		"day_after": pgtype.Timestamptz{Time: q.After.Day, Valid: true}, "number_after": q.After.Number, "limit": q.Limit,
	}}, scanPart)
	if err != nil {
		return nil, fmt.Errorf("list archive parts: %w", err)
	}
	return parts, nil
}

// All walk archive_keys_pkey.
const (
	archiveKeySQL       = `select k.encrypted from archive_keys k where k.account = @account`
	putArchiveKeySQL    = `insert into archive_keys (account, encrypted) values (@account, @encrypted) on conflict (account) do nothing`
	deleteArchiveKeySQL = `delete from archive_keys where account = @account`
)

// ArchiveKey returns the key of an account's archives.
func (s *Store) ArchiveKey(ctx context.Context, account postrider.AccountID) ([]byte, error) {
	found, err := list(ctx, s, query{archiveKeySQL, pgx.NamedArgs{"account": someUUID(account)}}, pgx.RowTo[[]byte])
	if err == nil && len(found) == 0 {
		err = postrider.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("read archive key: %w", err)
	}
	return found[0], nil
}

// PutArchiveKey stores the first key of an account's archives. The read is a statement of its
// own: its snapshot begins after the insert has waited for a concurrent one.
func (s *Store) PutArchiveKey(ctx context.Context, account postrider.AccountID, encrypted []byte) (stored []byte, err error) {
	err = s.repeat(ctx, func(bool) error {
		b := &pgx.Batch{}
		b.Queue(putArchiveKeySQL, pgx.NamedArgs{"account": someUUID(account), "encrypted": encrypted})
		b.Queue(archiveKeySQL, pgx.NamedArgs{"account": someUUID(account)}).QueryRow(func(row pgx.Row) error { return row.Scan(&stored) })
		return s.pool.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return nil, fmt.Errorf("put archive key: %w", err)
	}
	return stored, nil
}

// DeleteArchiveKey deletes the key of an account's archives.
func (s *Store) DeleteArchiveKey(ctx context.Context, account postrider.AccountID) (deleted bool, err error) {
	err = s.once(ctx, func() error {
		tag, err := s.pool.Exec(ctx, deleteArchiveKeySQL, pgx.NamedArgs{"account": someUUID(account)})
		deleted = tag.RowsAffected() > 0
		return err
	})
	if err != nil {
		return false, fmt.Errorf("delete archive key: %w", err)
	}
	return deleted, nil
}
