package postgres

import (
	"context"
	"encoding/binary"
	"math"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider/internal/store"
)

// listSettingsSQL has the settings of lists for people. A list may be slower than the hot
// statements, but must not delay anything, so it gets 2 s. It is planned each time with its
// arguments. Then the planner reduces "@account::uuid is null or account = @account" to one of
// its sides, and one static statement walks the right index for every filter. With the pool's own
// settings there would be one plan for all arguments; see setParams.
const listSettingsSQL = eventSettingsSQL + `,
		set_config('enable_seqscan', 'on', true), set_config('enable_bitmapscan', 'on', true),
		set_config('enable_hashjoin', 'on', true), set_config('enable_mergejoin', 'on', true)`

// eventSettingsSQL has the settings of lists of events. They are planned with their arguments too, but from index scans
// only. A table that was filled a moment ago has no statistics: with a bitmap, a page of 250 events would read
// and sort all 100,000 of an account.
const eventSettingsSQL = `
	select set_config('statement_timeout', '2s', true), set_config('plan_cache_mode', 'force_custom_plan', true)`

// query is a statement and its arguments.
type query struct {
	statement string
	args      pgx.NamedArgs
}

// countSettingsSQL has the settings of counts, and of the deliveries of an endpoint. They get as
// much time as lists, and keep the plans of the pool, which walk only indexes. A plan that sorts
// or makes a bitmap would read all pending deliveries.
const countSettingsSQL = `select set_config('statement_timeout', '2s', true)`

// list runs a statement with the settings of lists.
func list[T any](ctx context.Context, s *Store, q query, scan pgx.RowToFunc[T]) ([]T, error) {
	return read(ctx, s, asked{listSettingsSQL, q}, scan)
}

// count runs a statement with the settings of counts.
func count[T any](ctx context.Context, s *Store, q query, scan pgx.RowToFunc[T]) ([]T, error) {
	return read(ctx, s, asked{countSettingsSQL, q}, scan)
}

// asked is a query and the statement that makes its settings.
type asked struct {
	settings string
	query
}

// read runs a query together with its settings, in one pipeline. The pipeline is one transaction,
// and the settings end with it.
func read[T any](ctx context.Context, s *Store, q asked, scan pgx.RowToFunc[T]) ([]T, error) {
	var items []T
	err := s.repeat(ctx, func(bool) error {
		b := &pgx.Batch{}
		b.Queue(q.settings) // the settings last until the end of the batch's transaction
		b.Queue(q.statement, q.args).Query(func(rows pgx.Rows) (err error) {
			items, err = pgx.CollectRows(rows, scan)
			return err
		})
		return s.readPool(ctx).SendBatch(ctx, b).Close()
	})
	return items, err
}

// examined is a row of a list that filters after an inner limit.
//
// Example: somebody asks for the deliveries of one event type, and there is no index by type.
// Each branch of the statement reads at most 10,000 rows, however few of them match, so the cost
// of a page has a limit for every filter. The last row that a branch reads is returned even if it
// does not match, with last set: the page must end there.
type examined[T any] struct {
	item    T
	id      [16]byte // the id of the item: the cursor of a page that ends here
	matches bool     // whether the row passes the filter
	last    bool     // whether a branch of the statement stopped at this row
}

// cutExamined makes a page of rows. The page ends when it is full, or at a row where a branch of
// the statement stopped, because rows of that branch may be missing behind it. Such a page can be
// short or empty, and still have a next page.
func cutExamined[T any](rows []examined[T], p store.Paging) store.Page[T] {
	var page store.Page[T]
	var before [16]byte
	for _, row := range rows {
		if len(page.Items) == p.Size() {
			page.Next = store.EncodeCursor(string(before[:]))
			break
		}
		if row.matches {
			page.Items = append(page.Items, row.item)
		}
		if row.last {
			page.Next = store.EncodeCursor(string(row.id[:]))
			break
		}
		before = row.id
	}
	return page
}

// within returns the half-open range of ids of a page: the ids of the span, after the cursor.
func within[I ~[16]byte](span store.Span, p store.Paging) (from, before pgtype.UUID, err error) {
	from, before = floor(span.From, 0), floor(span.To, math.MaxUint64)
	cursor, ok, err := store.IDKey[I](p)
	switch {
	case ok && p.OldestFirst:
		from = someUUID(store.Later(I(from.Bytes), store.NextID(cursor)))
	case ok && string(cursor[:]) < string(before.Bytes[:]):
		before = someUUID(cursor)
	}
	return from, before, err
}

// oldestFirst reverses the order of a list whose statement is written newest first. So each list
// has one statement; a second copy of deliveriesSQL would be another 100 lines to keep equal.
var oldestFirst = strings.NewReplacer(
	"order by e.id desc", "order by e.id", "order by q.id desc", "order by q.id", "order by d.id desc", "order by d.id",
	"order by a.delivery desc, a.number desc", "order by a.delivery, a.number",
	"order by a.endpoint desc, a.delivery desc, a.number desc", "order by a.endpoint, a.delivery, a.number",
	"order by l.delivery desc", "order by l.delivery",
	"order by l.endpoint desc, l.delivery desc", "order by l.endpoint, l.delivery",
	"order by n.id desc", "order by n.id", "order by 1 desc", "order by 1")

// inOrder returns the query of a list in the order that the page asks for.
func inOrder(q query, p store.Paging) query {
	if p.OldestFirst {
		q.statement = oldestFirst.Replace(q.statement)
	}
	return q
}

// floor returns the least id that is made at the given time or later. For the zero time it
// returns an id that begins with otherwise.
func floor(at time.Time, otherwise uint64) pgtype.UUID {
	id := pgtype.UUID{Valid: true}
	if at.IsZero() {
		binary.BigEndian.PutUint64(id.Bytes[:8], otherwise)
		return id
	}
	ms := max(at.Add(time.Millisecond-time.Nanosecond).UnixMilli(), 0)
	binary.BigEndian.PutUint64(id.Bytes[:8], uint64(ms)<<16)
	return id
}
