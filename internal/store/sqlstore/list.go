package sqlstore

import (
	"context"
	"maps"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// list is a statement that lists rows, a page of them.
//
// It has a condition for each filter that is set, and for no other, so that each combination
// is a statement of its own, whose plan needs no statistics: it walks the index of the first
// filter, which ends in the columns of the order, or the primary key if there is none. Filters are therefore
// added from the most selective on.
type list struct {
	db      Database
	rows    string // select … from …
	where   []string
	args    Args
	order   string // the columns that the rows are ordered by
	page    store.Paging
	indexed bool // a filter has been added whose index is walked
}

// listOf returns the list of the rows of a span that are behind the cursor of the page.
func listOf[I ~[16]byte](db Database, rows string, span store.Span, p store.Paging) (*list, error) {
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
		return nil, err
	case ok && p.OldestFirst:
		from = store.Later(from, store.NextID(cursor))
	case ok && string(cursor[:]) < string(before[:]):
		before = cursor
	}
	l := newList(db, rows, "id", p.Size()+1)
	if l.page = p; !p.OldestFirst {
		l.order += " desc"
	}
	l.and("id >= @from and id < @before", Args{"from": from, "before": before})
	return l, nil
}

// newList returns the list of the first rows in the order.
func newList(db Database, rows, order string, limit int) *list {
	return &list{db: db, rows: rows, order: order, args: Args{"limit": limit}}
}

// greatest returns the greatest id.
func greatest[I ~[16]byte]() (id I) {
	for i := range id {
		id[i] = 0xff
	}
	return id
}

// firstID returns the least id of the instant or later. Ids have milliseconds, so an
// instant between two of them is rounded up.
func firstID[I ~[16]byte](at time.Time) I {
	return postrider.MakeID[I](at.Add(time.Millisecond-1).Truncate(time.Millisecond), [10]byte{})
}

// by adds the filter of a column that has an index, unless the value is zero.
func by[T comparable](l *list, column string, value T) {
	var zero T
	if value == zero {
		return
	}
	name := column
	if l.indexed {
		column = l.db.Unindexed(column)
	}
	l.indexed = true
	l.and(column+" = @"+name, Args{name: value})
}

// and adds a condition of columns that have no index.
func (l *list) and(condition string, args Args) {
	l.where = append(l.where, condition)
	maps.Copy(l.args, args)
}

// query returns the statement.
func (l *list) query() Query {
	where := ""
	if len(l.where) > 0 {
		where = "\n\twhere " + strings.Join(l.where, " and ")
	}
	return Query{l.rows + where + "\n\torder by " + l.order + "\n\tlimit @limit", l.args}
}

// pageOf runs the list and returns its page. id returns the id of an item.
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
	// Query has read read the rows of a statement.
	Query(ctx context.Context, q Query, read func(Rows) error) error
}

// all reads all rows of a query.
func all[T any](ctx context.Context, db Querier, q Query, scan func(Row, *T) error) (items []T, err error) {
	err = db.Query(ctx, q, func(rows Rows) error {
		items = nil
		for rows.Next() {
			var item T
			if err := scan(rows, &item); err != nil {
				return err
			}
			items = append(items, item)
		}
		return nil
	})
	return items, err
}

// one reads the one row of a query. No row is postrider.ErrNotFound.
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
