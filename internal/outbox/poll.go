package outbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// Row is a row of the outbox: an event that a producer's committed transaction published.
type Row struct {
	ID     postrider.OutboxID
	Number int64
	Key    string // text of the id in a table of the producer's own
	sum    string // hash of its content there
	// Create is the event in the form of the API, with Hops, TraceParent and TraceState. Its Data has the
	// bytes of the row: PostgreSQL checked that they are JSON, or nobody did.
	Create      apitypes.EventCreate
	OccurredAt  time.Time // by the producer's clock; zero: the row has none
	PublishedAt time.Time // by the producer's clock
	// Fault says why the row cannot be an event. Only rows that were written by hand have one.
	Fault error
}

// pageBytes is the size of the data at which a page ends, so that it fits into memory.
const pageBytes = 8 << 20

// maxData is the largest data that a server can be set to accept.
const maxData = 1 << 20

// columns are the columns of a row o, in the order of stored.dest.
const columns = `o.number, o.id, o.account, o.type, case when octet_length(o.data) <= 1048576 then o.data end, octet_length(o.data),
  o.content_type, o.idempotency_key, o.ordering_key, o.api_version, o.max_attempts, o.subject, o.channels,
  o.metadata::text, o.internal::text, o.previous::text, o.changed_paths, o.endpoints, o.hops, o.traceparent,
  o.tracestate, o.occurred_at, o.published_at`

// Window is how far a reader has read. It lies between two snapshots of the database: it has the rows that
// are to be seen in the later one and were not to be seen in the earlier one. The zero Window has all rows;
// a reader begins with it, or with that of [DB.Cycle]. One goroutine uses it.
type Window struct {
	// Held are accounts whose rows a poll of a table of the producer's own leaves out. Such a table has no snapshots
	// and no numbers: a poll returns all rows that are there but for these and rows that were rejected lately. The
	// rows of the last poll must be moved before the next one.
	Held []string

	server string // what the snapshots are from, see serverSQL
	seen   string // the earlier snapshot; "": none, so the window has all rows
	until  string // the later snapshot, while the window has more pages; "": the present
	last   int64  // the number of the last row that was returned of the window; 0: none
	drawn  int64  // last number that any transaction had drawn
	// The next Poll is a transaction with an id. Snapshots list an open transaction only if one with a
	// greater id has ended. Without it, polls of an otherwise idle database would look again and again at
	// all rows of a large transaction that is open.
	count bool
}

// All reports whether the window has all rows.
func (w *Window) All() bool { return w.seen == "" && w.until == "" }

// place is a Window as the producer's database keeps it.
type place struct {
	Server, Seen, Until string
	Last                int64
}

// text returns the window as a text.
func (w *Window) text() string {
	text, _ := json.Marshal(place{w.server, w.seen, w.until, w.last}) // it can always be
	return string(text)
}

// windowOf returns the window of a text. One that cannot be read has all rows.
func windowOf(text string) Window {
	var p place
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return Window{}
	}
	return Window{server: p.Server, seen: p.Seen, until: p.Until, last: p.Last}
}

// serverSQL is the database, and when the server was started, or recovered after a crash of one of its processes. Snapshots
// of before mean nothing then: transactions that ended shortly before may be lost, and others get their ids. A crash resets
// all statistics. A person may do so, too; then all rows are read again, which does no harm. Behind a pooler, another
// database may get the name while the connection stays.
const serverSQL = `(select d.oid || ' ' || extract(epoch from greatest(pg_postmaster_start_time(), pg_stat_get_bgwriter_stat_reset_time()))
  from pg_database d where d.datname = current_database())`

// pollSQL reads a page and the snapshot that it was read in. If the page has no rows, there is one row with
// a number that is null.
const pollSQL = `
select s.server, s.snapshot, s.drawn, ` + columns + `
from (
  select ` + serverSQL + ` as server, pg_current_snapshot()::text as snapshot, q.last_value as drawn
  from postrider.outbox_number q
  where not $6 or pg_current_xact_id() is not null
) s
left join postrider.poll(nullif($1::text, '')::pg_snapshot, $2, nullif($3::text, '')::pg_snapshot, $4, $5) o on true`

// Poll returns the next page of the window, at most n rows, ordered by number. If more is false, the window
// ends, and the next Poll reads a new one.
//
// If the server was restarted or is another one, Poll reads all rows again.
func (db *DB) Poll(ctx context.Context, w *Window, n int) (rows []Row, more bool, err error) {
	if db.own != nil {
		return db.own.head(ctx, w.Held, "", n)
	}
	for most, n := 20_000, 20_000; w.All() && n == most; { // numbers of transactions may be from another database
		if err := db.pool.QueryRow(ctx, "select postrider.adopt($1)", most).Scan(&n); err != nil {
			return nil, false, fmt.Errorf("poll the outbox: %w", err)
		}
	}
	var server, snapshot string
	var drawn int64
	rows, size, err := db.rows(ctx, []any{&server, &snapshot, &drawn}, pollSQL, w.seen, w.last, w.until, n, pageBytes, w.count)
	if err != nil {
		return nil, false, fmt.Errorf("poll the outbox: %w", err)
	}
	if w.server != "" && w.server != server {
		*w = Window{}
		return db.Poll(ctx, w, n)
	}
	w.server, w.until = server, cmp.Or(w.until, snapshot)
	w.drawn, w.count = drawn, len(rows) == 0 && drawn != w.drawn
	if len(rows) == n || size >= pageBytes {
		w.last = rows[len(rows)-1].Number
		return rows, true, nil
	}
	w.seen, w.until, w.last = w.until, "", 0
	return rows, false, nil
}

// ofAccountSQL reads a page and, unless the page is full, where its walk ended.
//
//nolint:unqueryvet // the columns are named below
const ofAccountSQL = `
with page as materialized (
  select * from postrider.of_account($1, $2, nullif($3::text, '')::pg_snapshot, nullif($4::text, '')::pg_snapshot, $5, $6, $7)
)
select w.next, ` + columns + `
from (select case when (select count(*) from page) < $6 then postrider.walk_end($2) end as next) w
left join page o on true
where ` + serverSQL + ` = $8`

// OfAccount returns at most n rows of an account that Poll has returned to the window and that still wait,
// ordered by number, from the given one on. It looks at a bounded number of rows. If more is true, there may be others from
// the number next on. If the server is another one since Poll, it returns none: the next Poll returns all.
//
//nolint:revive // one argument more than the limit, and one caller
func (db *DB) OfAccount(ctx context.Context, w *Window, account string, from int64, n int) (rows []Row, next int64, more bool, err error) {
	if db.own != nil {
		rows, more, err := db.own.head(ctx, nil, account, n)
		return rows, 0, more, err
	}
	var end *int64
	rows, size, err := db.rows(ctx, []any{&end}, ofAccountSQL, account, from, w.seen, w.until, w.last, n, pageBytes, w.server)
	if err != nil {
		return nil, 0, false, fmt.Errorf("read the outbox of an account: %w", err)
	}
	switch {
	case len(rows) == n || size >= pageBytes:
		return rows, rows[len(rows)-1].Number + 1, true, nil
	case end != nil:
		return rows, *end, true, nil
	}
	return rows, 0, false, nil
}

// rows returns the rows of a query, ordered by number, and the size of their data and previous. before are the places
// of the columns in front.
func (db *DB) rows(ctx context.Context, before []any, query string, args ...any) (rows []Row, size int, err error) {
	found, err := db.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, 0, err
	}
	defer found.Close()
	for found.Next() {
		var s stored
		if err := found.Scan(append(slices.Clone(before), s.dest()...)...); err != nil {
			return nil, 0, err
		}
		if s.number != nil {
			rows = append(rows, s.row())
			size += int(s.size.Int32) + len(s.previous)
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return cmp.Compare(a.Number, b.Number) })
	return rows, size, found.Err()
}

// stored is a row as the database has it.
type stored struct {
	number                              *int64
	id                                  pgtype.UUID
	account, eventType                  *string
	data                                []byte      // nil: larger than maxData, or null
	size                                pgtype.Int4 // of data
	contentType, key, order, apiVersion *string
	attempts                            *int32
	subject                             *string
	channels                            []*string
	metadata, internal, previous        []byte
	paths, endpoints                    []*string
	hops                                *int32
	traceParent, traceState             *string
	occurredAt, publishedAt             pgtype.Timestamptz
}

// dest returns the places for columns.
func (s *stored) dest() []any {
	return []any{
		&s.number, &s.id, &s.account, &s.eventType, &s.data, &s.size, &s.contentType, &s.key, &s.order, &s.apiVersion, &s.attempts,
		&s.subject, &s.channels, &s.metadata, &s.internal, &s.previous, &s.paths, &s.endpoints, &s.hops,
		&s.traceParent, &s.traceState, &s.occurredAt, &s.publishedAt,
	}
}

// row returns the row in the form of the API, with its faults.
func (s *stored) row() Row {
	r := Row{ID: s.id.Bytes, Number: *s.number, OccurredAt: moment(s.occurredAt), PublishedAt: moment(s.publishedAt)}
	c := &r.Create
	c.Account, c.Type, c.IdempotencyKey, c.OrderingKey = text(s.account), text(s.eventType), text(s.key), text(s.order)
	c.APIVersion, c.Subject, c.ContentType = text(s.apiVersion), text(s.subject), text(s.contentType)
	c.TraceParent, c.TraceState = text(s.traceParent), text(s.traceState)
	c.Previous = bytes.TrimSpace(s.previous)
	if s.attempts != nil {
		attempts := int(*s.attempts)
		c.MaxAttempts = &attempts
	}
	if s.hops != nil {
		c.Hops = int(*s.hops)
	}
	var faults [8]error
	c.Channels, faults[0] = texts("channels", s.channels)
	c.ChangedPaths, faults[1] = texts("changed_paths", s.paths)
	c.Endpoints, faults[2] = texts("endpoints", s.endpoints)
	c.Metadata, faults[3] = object("metadata", s.metadata)
	c.Internal, faults[4] = object("internal", s.internal)
	if s.data == nil {
		faults[5] = &postrider.InvalidError{
			Field: "data", Code: postrider.FaultTooLong, Reason: fmt.Sprintf("must be at most %d bytes", maxData), Max: maxData,
		}
	}
	if s.contentType != nil && *s.contentType == "" { // the row would become JSON
		faults[6] = &postrider.InvalidError{Field: "content_type", Code: postrider.FaultRequired, Reason: "must not be empty"}
	}
	if s.id.Valid && r.ID.IsZero() { // the store cannot record it
		faults[7] = &postrider.InvalidError{Field: "id", Code: postrider.FaultMalformed, Reason: "must not be zero"}
	}
	e := postrider.Event{Data: s.data, About: postrider.About{ContentType: c.ContentType}}
	c.Data, c.DataEncoding = e.JSONData()
	r.Fault = errors.Join(faults[:]...)
	return r
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// moment returns a time of which JSON can be made; zero: there is none.
func moment(t pgtype.Timestamptz) time.Time {
	if !t.Valid || t.InfinityModifier != pgtype.Finite || t.Time.Year() < 1 || t.Time.Year() > 9999 {
		return time.Time{}
	}
	return t.Time.UTC()
}

// texts returns the elements of a list. A nil element is a fault.
func texts(field string, list []*string) ([]string, error) {
	var all []string
	for i, element := range list {
		if element == nil {
			return nil, &postrider.InvalidError{Field: fmt.Sprintf("%s[%d]", field, i), Reason: "must not be null"}
		}
		all = append(all, *element)
	}
	return all, nil
}

// object returns an object of texts.
func object(field string, document []byte) (all map[string]string, err error) {
	if document != nil && json.Unmarshal(document, &all) != nil {
		return nil, &postrider.InvalidError{Field: field, Reason: "must be an object of strings"}
	}
	return all, nil
}

// uuids returns ids as PostgreSQL has them.
func uuids(ids []postrider.OutboxID) []pgtype.UUID {
	all := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		all[i] = pgtype.UUID{Bytes: id, Valid: true}
	}
	return all
}

// numbersOf returns the numbers and the ids of rows, by which statements find them.
func numbersOf(rows []Row) (numbers []int64, ids []pgtype.UUID) {
	numbers, ids = make([]int64, len(rows)), make([]pgtype.UUID, len(rows))
	for i := range rows {
		numbers[i], ids[i] = rows[i].Number, pgtype.UUID{Bytes: rows[i].ID, Valid: true}
	}
	return numbers, ids
}
