package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// query is a statement that reads, with its arguments.
type query struct {
	text string
	args []any
}

// list runs a query beside the writer and reads all that it answers with.
func list[T any](ctx context.Context, s *Store, q query, scan func(*sql.Rows, *T) error) ([]T, error) {
	rows, err := s.reads.QueryContext(ctx, q.text, q.args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scan)
}

// explain says what was being done, and of which kind the error is. Damage
// that a list meets ends all writing too.
func (s *Store) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if cause := s.writer.distrust(err); cause != nil {
		err = cause
	}
	return fmt.Errorf("%s: %w", doing, explained(err))
}

// last is greater than every id: a list without a cursor starts below it.
var last = [16]byte{
	0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
}

// window returns the arguments @from, @below and @limit of a list of ids,
// newest first: those made in the span and older than the cursor, and one more
// than the page has.
func window[I ~[16]byte](span store.Span, p store.Paging) ([]any, error) {
	below := I(last)
	if !span.To.IsZero() {
		below = firstID[I](span.To)
	}
	cursor, ok, err := store.IDKey[I](p)
	if err != nil {
		return nil, err
	}
	if ok && string(cursor[:]) < string(below[:]) {
		below = cursor
	}
	from := I{}
	if !span.From.IsZero() {
		from = firstID[I](span.From)
	}
	return []any{
		sql.Named("from", blob(from)), sql.Named("below", blob(below)), sql.Named("limit", p.Size()+1),
	}, nil
}

// firstID returns the least id of the instant; ids know milliseconds only.
func firstID[I ~[16]byte](at time.Time) I {
	return postrider.MakeID[I](at.Add(time.Millisecond-1).Truncate(time.Millisecond), [10]byte{})
}

// key returns an id as the key of a cursor.
func key[I ~[16]byte](id I) string { return string(id[:]) }
