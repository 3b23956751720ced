package sqlite

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/batch"
)

// Retention, expiry and bulk cancels change rows in pieces: pieceRows rows, or pages of the file,
// in one transaction, followed by a pause of pieceRest. A publish or a settlement waits for a
// transaction that runs. A piece of 500 rows, with a count of 40,000 others, took 40 ms. A piece
// of 50 rows takes half a millisecond, and the sync of the disk. With 20 rows the wait was not
// shorter. At most 4,000 rows a second are changed, which is 350 million a day.
const (
	pieceRows = 50
	pieceRest = 10 * time.Millisecond
)

// inPieces calls do with the size of each piece, until limit rows are done or a piece was not
// full. It returns the number of rows that are done.
func inPieces(ctx context.Context, limit int, do func(size int) (int, error)) (done int, err error) {
	for done < limit {
		size := min(limit-done, pieceRows)
		n, err := do(size)
		done += n
		if err != nil || n < size || done == limit {
			return done, err
		}
		if !batch.Sleep(ctx, pieceRest) {
			return done, context.Cause(ctx)
		}
	}
	return done, nil
}

// byRow is a function that changes one row, and returns 1 if there was something to change. Its
// methods change many rows.
type byRow[T any] func(context.Context, *tx, T) (int64, error)

// pieces changes the rows in pieces, and returns how many of them had something to change.
func (r byRow[T]) pieces(ctx context.Context, s *Store, rows []T) (changed int, err error) {
	_, err = inPieces(ctx, len(rows), func(size int) (int, error) {
		piece := rows[:size]
		rows = rows[size:]
		n, err := writeInBulk(ctx, s, func(ctx context.Context, tx *tx) (int, error) { return r.each(ctx, tx, piece) })
		changed += n
		return size, err
	})
	return changed, err
}

// each changes the rows in one transaction.
func (r byRow[T]) each(ctx context.Context, tx *tx, rows []T) (changed int, err error) {
	for _, row := range rows {
		n, err := r(ctx, tx, row)
		if err != nil {
			return 0, err
		}
		changed += int(n)
	}
	return changed, nil
}

// counted converts the result of a change to the number that a byRow function returns.
func counted(did bool, err error) (int64, error) {
	if err != nil || !did {
		return 0, err
	}
	return 1, nil
}
