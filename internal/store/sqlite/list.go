package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// query is a statement that reads, with its named arguments.
type query struct {
	text string
	args []any
}

const (
	// engineReaders is the number of read-only connections of the engine. One of them is for
	// runCheckpoints.
	engineReaders = 3
	// listTime is the time limit of a statement for a request that only reads.
	listTime = 2 * time.Second
)

// errListTime is the cause when a statement is ended after listTime.
var errListTime = fmt.Errorf("the statement took longer than %v: %w", listTime, context.DeadlineExceeded)

// readPool has read-only connections and their prepared statements.
type readPool struct {
	*sql.DB

	statements sync.Map // values are *sql.Stmt, by text; filled by prepared
}

// openReads opens a pool of conns connections.
func openReads(file string, conns int) (*readPool, error) {
	db, err := sql.Open("sqlite", source(file, reading))
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return &readPool{DB: db}, nil
}

// end closes the statements and the connections.
func (p *readPool) end() error {
	var err error
	for _, statement := range p.statements.Range {
		err = errors.Join(err, statement.(*sql.Stmt).Close()) //nolint:errcheck // the map has no other type
	}
	return errors.Join(err, p.Close())
}

// reader returns the pool and the context for a call. Requests that only read may be many and
// slow. They have a separate pool, so that the engine never waits for them.
func (s *Store) reader(ctx context.Context) (*readPool, context.Context, context.CancelFunc) {
	if !store.IsForReader(ctx) {
		return s.reads, ctx, func() {}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, listTime, errListTime)
	return s.people, ctx, cancel
}

// list runs a query on a read-only connection, beside the writer, and reads all its rows. It sees
// the last commit. Readers and the writer do not wait for each other, because of the write-ahead
// log.
func list[T any](ctx context.Context, s *Store, q query, scan func(*sql.Rows, *T) error) ([]T, error) {
	pool, ctx, cancel := s.reader(ctx)
	defer cancel()
	statement, err := pool.prepared(ctx, q.text) //nolint:sqlclosecheck // lives as long as the store
	if err != nil {
		return nil, err
	}
	rows, err := statement.QueryContext(ctx, q.args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

// prepared returns the prepared statement for a text, for the connections of the pool. Parsing a
// text takes longer than most lists do. There are few texts, so no statement is ever dropped. If
// two callers prepare one text at once, the second uses the statement of the first.
func (p *readPool) prepared(ctx context.Context, text string) (*sql.Stmt, error) {
	if statement, ok := p.statements.Load(text); ok {
		return statement.(*sql.Stmt), nil //nolint:errcheck // the map has no other type
	}
	statement, err := p.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	if first, loaded := p.statements.LoadOrStore(text, statement); loaded {
		return first.(*sql.Stmt), statement.Close() //nolint:errcheck,sqlclosecheck // the map has no other type
	}
	return statement, nil
}

// fault wraps the error of a list in ErrBusy, ErrFull or ErrConflict. If a list finds damage in
// the file, all writing ends too, because the writer would build on damaged pages.
func (s *Store) fault(err error) error {
	if cause := s.writer.distrust(err); cause != nil {
		err = cause
	}
	return explained(err)
}

// last is the greatest id. A list without a cursor starts below it.
var last = [16]byte{
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
}

// oldestFirst reverses the order of a list whose statement is written newest first, so that each
// statement is written once.
var oldestFirst = strings.NewReplacer("order by id desc", "order by id", "order by delivery desc", "order by delivery")

// inOrder returns the query of a list in the order that the page asks for.
func inOrder(q query, p store.Paging) query {
	if p.OldestFirst {
		q.text = oldestFirst.Replace(q.text)
	}
	return q
}

// These parts end the statements that return where a page stops: at one of the first rows of its
// walk.
const (
	idStops       = ` and id < @below and id >= @from order by id desc limit 1 offset @most - 1`
	deliveryStops = ` and delivery < @below and delivery >= @from order by delivery desc limit 1 offset @most - 1`
)

// fewRows and mostRows are the numbers of rows of each walk that a filtered page reads. Most pages
// are full after fewRows. Only a page that is not full reads mostRows.
const fewRows, mostRows = 250, 10_000

// bounded is a list whose statement filters the rows of walks.
type bounded[T any, I ~[16]byte] struct {
	query

	walks []string // statements that return where the page stops
	page  store.Paging
	scan  func(*sql.Rows, *T) error
	id    func(T) I
}

// list returns a page. If a walk has more than mostRows rows, the page ends at the row after
// these. Such a page can be short or empty, and still have a next page.
func (l bounded[T, I]) list(ctx context.Context, s *Store) (page store.Page[T], err error) {
	window := slices.Clone(l.args)
	for _, most := range []int{fewRows, mostRows} {
		copy(l.args, window)
		stop, err := l.bound(ctx, s, most)
		if err != nil {
			return page, s.fault(err)
		}
		items, err := list(ctx, s, inOrder(l.query, l.page), l.scan)
		if err != nil {
			return page, s.fault(err)
		}
		page = store.Cut(items, l.page, func(item T) string { return key(l.id(item)) })
		if page.Next != "" || stop == (I{}) {
			return page, nil
		}
		page.Next = store.EncodeCursor(key(stop))
	}
	return page, nil
}

// bound limits the page to the first rows of each walk. If a walk is longer, the window of the
// page ends at the row after these. bound moves the end of the window in the arguments. It returns
// the id of that row, or zero if no walk is that long.
func (l bounded[T, I]) bound(ctx context.Context, s *Store, most int) (stop I, err error) {
	for _, walk := range l.walks {
		args := append(slices.Clip(l.args), sql.Named("most", most))
		stops, err := list(ctx, s, inOrder(query{walk, args}, l.page), func(rows *sql.Rows, id *I) error { return rows.Scan(toID(id)) })
		if err != nil {
			return stop, err
		}
		for _, stop = range stops {
			if l.page.OldestFirst {
				l.args[belowArg] = sql.Named("below", blob(store.NextID(stop)))
			} else {
				l.args[fromArg] = sql.Named("from", blob(stop))
			}
		}
	}
	return stop, nil
}

// fromArg and belowArg are the indexes of @from and @below in the arguments of window.
const fromArg, belowArg = 0, 1

// window returns the arguments @from, @below and @limit of a list by id: the ids of the span,
// after the cursor. The limit is one more than the size of the page, which shows whether there is
// a next page.
func window[I ~[16]byte](span store.Span, p store.Paging) ([]any, error) {
	below := I(last)
	if !span.To.IsZero() {
		below = firstID[I](span.To)
	}
	cursor, ok, err := store.IDKey[I](p)
	if err != nil {
		return nil, err
	}
	from := I{}
	if !span.From.IsZero() {
		from = firstID[I](span.From)
	}
	// The cursor is the last id of the page before. The page continues after it, in its own order.
	switch {
	case ok && p.OldestFirst:
		from = store.Later(from, store.NextID(cursor))
	case ok && string(cursor[:]) < string(below[:]):
		below = cursor
	}
	return []any{
		sql.Named("from", blob(from)), sql.Named("below", blob(below)), sql.Named("limit", p.Size()+1),
	}, nil
}

// firstID returns the least id that is made at the given time or later. Ids have a precision of
// one millisecond, so the time is rounded up.
func firstID[I ~[16]byte](at time.Time) I {
	return postrider.MakeID[I](at.Add(time.Millisecond-1).Truncate(time.Millisecond), [10]byte{})
}

// key returns an id as the key of a cursor.
func key[I ~[16]byte](id I) string { return string(id[:]) }
