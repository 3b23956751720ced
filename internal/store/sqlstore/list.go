package sqlstore

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// list builds a statement that returns one page of rows.
//
// The statement has conditions only for the filters that are set, so each combination of filters
// is a separate statement. Its plan needs no statistics: it walks the index of the first filter,
// which ends in the columns of the order. Without a filter it walks the primary key. So the most
// selective filter must be added first.
type list struct {
	db      Database
	rows    string // select … from …
	where   []string
	args    Args
	order   string // the columns by which the rows are ordered
	page    store.Paging
	indexed bool // whether a filter with an index has been added
}

// listOf returns a list of the rows in the span, after the cursor of the page.
func listOf[I ~[16]byte](db Database, rows string, span store.Span, p store.Paging) (*list, error) {
	l := newList(db, rows, "id", p.Size()+1)
	return l, paged[I](l, span, p)
}

// paged makes a list that is ordered by an id return the rows in the span, after the cursor of the
// page.
func paged[I ~[16]byte](l *list, span store.Span, p store.Paging) error {
	from, before := I{}, greatest[I]()
	if !span.From.IsZero() {
		from = firstID[I](span.From)
	}
	if !span.To.IsZero() {
		before = firstID[I](span.To)
	}
	cursor, ok, err := store.IDKey[I](p)
	switch {
	case err != nil:
		return err
	case ok && p.OldestFirst:
		from = store.Later(from, store.NextID(cursor))
	case ok && string(cursor[:]) < string(before[:]):
		before = cursor
	}
	l.and(l.order+" >= @from and "+l.order+" < @before", Args{"from": from, "before": before})
	if l.page = p; !p.OldestFirst {
		l.order += " desc"
	}
	return nil
}

// newList returns a list of the first limit rows in the order.
func newList(db Database, rows, order string, limit int) *list {
	return &list{db: db, rows: rows, order: order, args: Args{"limit": limit}}
}

// greatest returns the greatest possible id.
func greatest[I ~[16]byte]() (id I) {
	for i := range id {
		id[i] = 0xff
	}
	return id
}

// firstID returns the least id that is made at the given time or later. Ids have a precision of
// one millisecond, so the time is rounded up.
func firstID[I ~[16]byte](at time.Time) I {
	return postrider.MakeID[I](at.Add(time.Millisecond-1).Truncate(time.Millisecond), [10]byte{})
}

// by adds a filter by a column that has an index. The column may have the alias of its table. A
// zero value adds no filter.
func by[T comparable](l *list, column string, value T) {
	var zero T
	if value == zero {
		return
	}
	name := column[strings.LastIndexByte(column, '.')+1:]
	if l.indexed {
		column = l.db.Unindexed(column)
	}
	l.indexed = true
	l.and(column+" = @"+name, Args{name: value})
}

// and adds a condition by columns without an index.
func (l *list) and(condition string, args Args) {
	l.where = append(l.where, condition)
	maps.Copy(l.args, args)
}

// query returns the complete statement.
func (l *list) query() Query {
	where := ""
	if len(l.where) > 0 {
		where = "\n\twhere " + strings.Join(l.where, " and ")
	}
	return Query{l.rows + where + "\n\torder by " + l.order + "\n\tlimit @limit", l.args}
}

// pageOf runs the list and returns its page. The function id returns the id of an item.
func pageOf[T any, I ~[16]byte](ctx context.Context, l *list, scan func(Row, *T) error, id func(*T) I) (store.Page[T], error) {
	items, err := all(ctx, l.db, l.query(), scan)
	if err != nil {
		return store.Page[T]{}, err
	}
	return store.Cut(items, l.page, func(item T) string {
		key := id(&item)
		return string(key[:])
	}), nil
}

// Querier is a [Database] or a [Tx].
type Querier interface {
	// Query runs a statement and calls read with its rows.
	Query(ctx context.Context, q Query, read func(Rows) error) error
}

// counting is a database whose Query is [Database.Count].
type counting struct{ Database }

// Query counts.
func (c counting) Query(ctx context.Context, q Query, read func(Rows) error) error {
	return c.Count(ctx, q, read)
}

// all returns all rows of a query.
func all[T any](ctx context.Context, db Querier, q Query, scan func(Row, *T) error) (items []T, err error) {
	err = db.Query(ctx, q, func(rows Rows) error {
		items = nil
		return collect(rows, &items, scan)
	})
	return items, err
}

// collect appends the rows to items.
func collect[T any](rows Rows, items *[]T, scan func(Row, *T) error) error {
	for rows.Next() {
		var item T
		if err := scan(rows, &item); err != nil {
			return err
		}
		*items = append(*items, item)
	}
	return nil
}

// one returns the single row of a query. If there is no row, the error is postrider.ErrNotFound.
func one[T any](ctx context.Context, db Querier, q Query, scan func(Row, *T) error) (item T, err error) {
	items, err := all(ctx, db, q, scan)
	if err == nil && len(items) == 0 {
		err = postrider.ErrNotFound
	}
	if err != nil {
		return item, err
	}
	return items[0], nil
}
