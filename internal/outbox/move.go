package outbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
)

// Moved is the end of a cycle of a reader: rows that were published, and rows that cannot be.
type Moved struct {
	Source postrider.SourceID
	Cycle  int64     // the cycle of the source from now on
	At     time.Time // of the store of the server
	// Reached is a window of which all rows are moved with these, or were before. A later session begins with it.
	Reached  Window
	Rows     []Row
	Rejected []Rejection
}

// Rejection is why a row is no valid event.
type Rejection struct {
	Row

	Code, Field string // of the first fault
	Message     string
}

// IsFault reports whether an error of a conversion or a publish will always be there for the row.
func IsFault(err error) bool {
	return errors.Is(err, postrider.ErrInvalid) || errors.Is(err, postrider.ErrLoop)
}

// Refuse returns the rejection of a row that has a fault.
func Refuse(row Row, err error) Rejection {
	r := Rejection{Row: row, Code: string(postrider.FaultMalformed)}
	faults := postrider.Faults(err)
	var texts []string // of err, without an error that only says how an API answers
	for _, fault := range faults {
		texts = append(texts, fault.Error())
	}
	if len(faults) > 0 {
		r.Field, r.Code = faults[0].Field, cmp.Or(string(faults[0].Code), r.Code)
	}
	if errors.Is(err, postrider.ErrLoop) {
		r.Code, r.Field, texts = "loop_detected", "hops", append(texts, postrider.ErrLoop.Error())
	}
	r.Message = cmp.Or(strings.Join(texts, "\n"), err.Error())
	if _, taken := errors.AsType[*postrider.KeyTakenError](err); taken {
		r.Code, r.Field, r.Message = "idempotency_conflict", "idempotency_key", "the idempotency key was used for other content"
	}
	r.Field, r.Message = storable(r.Field), storable(r.Message)
	return r
}

// storable replaces what PostgreSQL refuses in a text. A field may be named after a member of the data, whose name may be
// anything.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}

// moveSQL calls reject only if move has found the cycle to be a new one.
const moveSQL = `
select case when postrider.move($1, $2, $3, $4, $5, $6) then postrider.reject($7, $8, $9, $10, $11) is not null else false end`

// Move takes rows out of the outbox, in one transaction. Those that are not there are no error. If the
// source had this cycle or a later one, it changes nothing and returns postrider.ErrFenced.
//
// A table of the producer's own has no cycle: the rows that were published are deleted, those that were rejected
// stay.
func (db *DB) Move(ctx context.Context, m Moved) error {
	if db.own != nil {
		return db.own.move(ctx, m)
	}
	numbers, ids := numbersOf(m.Rows)
	rows := make([]Row, len(m.Rejected))
	codes, fields, messages := make([]string, len(rows)), make([]string, len(rows)), make([]string, len(rows))
	for i, r := range m.Rejected {
		rows[i], codes[i], fields[i], messages[i] = r.Row, r.Code, r.Field, r.Message
	}
	refused, refusedIDs := numbersOf(rows)
	var done bool
	err := db.pool.QueryRow(ctx, moveSQL, pgtype.UUID{Bytes: m.Source, Valid: true}, m.Cycle, m.Reached.text(), m.At, numbers, ids,
		refused, refusedIDs, codes, fields, messages).Scan(&done)
	if err == nil && !done {
		err = postrider.ErrFenced
	}
	if err != nil {
		return fmt.Errorf("move rows of the outbox: %w", err)
	}
	return nil
}

// cycleSQL leaves out the window while the table has few dead rows. Then a session looks at all rows, so that it finds
// those that no snapshot knows, such as rows that were copied with the number of an old transaction.
const cycleSQL = `
select cycle, case when pg_stat_get_dead_tuples('postrider.outbox'::regclass) >= $2 then reached end
from postrider.outbox_cycle
where source = $1
order by cycle desc
limit 1`

// manyDead is how many dead rows are walked through at the beginning of a session at most.
const manyDead = 100_000

// Cycle returns the last cycle of a source; 0: it has had none. Beside many dead rows, it returns the window up to which
// the source was read, too. To walk through all that an old open transaction keeps could take minutes.
func (db *DB) Cycle(ctx context.Context, source postrider.SourceID) (cycle int64, reached Window, err error) {
	if db.own != nil {
		return 0, Window{}, nil
	}
	var text *string
	err = db.pool.QueryRow(ctx, cycleSQL, pgtype.UUID{Bytes: source, Valid: true}, manyDead).Scan(&cycle, &text)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, Window{}, fmt.Errorf("read the cycle of the outbox: %w", err)
	}
	if text != nil {
		reached = windowOf(*text)
	}
	return cycle, reached, nil
}

// ReadRow is a row that was read.
type ReadRow struct {
	ID     postrider.OutboxID
	At     time.Time // Moved.At
	Number int64
}

// Cursor returns the place of the row in the list of [DB.ReadSince].
func (r ReadRow) Cursor() ReadCursor { return ReadCursor{r.At, r.Number} }

// ReadCursor is a place in the list of [DB.ReadSince]. Zero: its beginning.
type ReadCursor struct {
	At     time.Time
	Number int64
}

// ReadSince returns rows that were read at or after a time, newest first: the n rows behind the cursor.
func (db *DB) ReadSince(ctx context.Context, at time.Time, before ReadCursor, n int) ([]ReadRow, error) {
	end := pgtype.Timestamptz{Time: before.At, Valid: true}
	if before == (ReadCursor{}) {
		end = pgtype.Timestamptz{InfinityModifier: pgtype.Infinity, Valid: true}
	}
	found, err := db.pool.Query(ctx, `
select id, read_at, number
from postrider.outbox_read
where read_at >= $1 and read_at <= $2 and (read_at, number) < ($2, $3)
order by read_at desc, number desc
limit $4`, at, end, before.Number, n)
	if err != nil {
		return nil, fmt.Errorf("list read rows of the outbox: %w", err)
	}
	rows, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (r ReadRow, err error) {
		var id pgtype.UUID
		err = row.Scan(&id, &r.At, &r.Number)
		r.ID = id.Bytes
		return r, err
	})
	if err != nil {
		return nil, fmt.Errorf("list read rows of the outbox: %w", err)
	}
	return rows, nil
}

// PutBack makes rows that were read wait again, in their old order, and returns how many there were. A
// window does not have them; the reader begins with a new one.
func (db *DB) PutBack(ctx context.Context, rows []ReadRow) (n int64, err error) {
	numbers, ids, times := make([]int64, len(rows)), make([]postrider.OutboxID, len(rows)), make([]time.Time, len(rows))
	for i, r := range rows {
		numbers[i], ids[i], times[i] = r.Number, r.ID, r.At
	}
	err = db.pool.QueryRow(ctx, "select postrider.put_back($1, $2, $3)", numbers, uuids(ids), times).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("put rows back into the outbox: %w", err)
	}
	return n, nil
}

// Keep makes the partitions of read rows for the hour of now and the next two, and drops those that ended
// before now minus keep. One that is in use is dropped by a later call.
func (db *DB) Keep(ctx context.Context, now time.Time, keep time.Duration) error {
	if db.own != nil {
		return nil
	}
	if _, err := db.pool.Exec(ctx, "select postrider.keep($1, $2)", now, keep); err != nil {
		return fmt.Errorf("keep read rows of the outbox: %w", err)
	}
	return nil
}

// LimitData has publish refuse data that is larger than the server accepts, in bytes. Data of up to 262144 bytes it never
// refuses.
func (db *DB) LimitData(ctx context.Context, most int) error {
	if db.own != nil {
		return nil
	}
	if _, err := db.pool.Exec(ctx, "select postrider.limit_data($1)", most); err != nil {
		return fmt.Errorf("set the limit of the outbox: %w", err)
	}
	return nil
}

// Dropped returns how many rows that were read at or after a time were deleted by Keep, to the hour.
func (db *DB) Dropped(ctx context.Context, since time.Time) (n int64, err error) {
	err = db.pool.QueryRow(ctx, "select coalesce(sum(rows), 0)::bigint from postrider.outbox_dropped where hour > $1::timestamptz - interval '1 hour'",
		since).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count deleted rows of the outbox: %w", err)
	}
	return n, nil
}
