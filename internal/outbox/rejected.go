package outbox

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
)

// RejectedQuery selects rejected rows. An empty field selects all.
type RejectedQuery struct {
	Account, Code string
	Limit         int    // 0: 100
	Cursor        string // of the page before; "": the first page
}

// RejectedRow is a row that waits for a person, because it is no valid event.
type RejectedRow struct {
	Row

	RejectedAt  time.Time // by the producer's clock
	Code, Field string    // of the first fault
	Message     string
	Producer    string // role that published it
}

const rejectedSQL = `
select o.rejected_at, o.code, o.field, o.message, o.producer::text, ` + columns + `
from postrider.outbox_rejected o
where ($1::text = '' or o.account = $1) and ($2::text = '' or o.code = $2)
  and ($3::timestamptz is null or (o.rejected_at, o.number) < ($3, $4))
order by o.rejected_at desc, o.number desc
limit $5`

// Rejected returns a page of rejected rows, newest first, and the cursor of the next page; "": there is
// none.
func (db *DB) Rejected(ctx context.Context, q RejectedQuery) (rows []RejectedRow, next string, err error) {
	q.Limit = cmp.Or(q.Limit, 100)
	var before pgtype.Timestamptz
	var micros, number int64
	if q.Cursor != "" {
		if _, err := fmt.Sscanf(q.Cursor, "%d.%d", &micros, &number); err != nil {
			return nil, "", &postrider.InvalidError{Field: "cursor", Reason: "must be the cursor of a page of this list"}
		}
		before = pgtype.Timestamptz{Time: time.UnixMicro(micros), Valid: true}
	}
	found, err := db.pool.Query(ctx, rejectedSQL, q.Account, q.Code, before, number, q.Limit)
	if err != nil {
		return nil, "", fmt.Errorf("list rejected rows of the outbox: %w", err)
	}
	defer found.Close()
	for found.Next() {
		var r RejectedRow
		var s stored
		if err := found.Scan(append([]any{&r.RejectedAt, &r.Code, &r.Field, &r.Message, &r.Producer}, s.dest()...)...); err != nil {
			return nil, "", fmt.Errorf("read a rejected row of the outbox: %w", err)
		}
		r.Row = s.row()
		rows = append(rows, r)
	}
	if err := found.Err(); err != nil {
		return nil, "", fmt.Errorf("list rejected rows of the outbox: %w", err)
	}
	if len(rows) == q.Limit {
		last := rows[len(rows)-1]
		next = fmt.Sprintf("%d.%d", last.RejectedAt.UnixMicro(), last.Number)
	}
	return rows, next, nil
}

// RejectedRows selects rejected rows to change. All fields that are set must hold, and one must be set.
type RejectedRows struct {
	IDs           []postrider.OutboxID
	Account, Code string
}

// filter returns the arguments of a function: ids, account and code. Null selects all.
func (r RejectedRows) filter() ([]any, error) {
	if r.IDs == nil && r.Account == "" && r.Code == "" {
		return nil, &postrider.InvalidError{Field: "ids", Code: postrider.FaultRequired, Reason: "must be there, or account or code"}
	}
	var ids []pgtype.UUID
	if r.IDs != nil {
		ids = uuids(r.IDs)
	}
	return []any{ids, some(r.Account), some(r.Code)}, nil
}

// some returns nil for an empty text.
func some(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// RetryRejected makes rejected rows wait again, perhaps with another account or type.
type RetryRejected struct {
	RejectedRows

	SetAccount, SetType string // empty: as before
}

// Retry makes rejected rows wait again, in their old order, as if they were published now. It returns how
// many. A row that has no account, type or data stays.
func (db *DB) Retry(ctx context.Context, r RetryRejected) (n int64, err error) {
	args, err := r.filter()
	if err != nil {
		return 0, err
	}
	args = append(args, some(r.SetAccount), some(r.SetType))
	err = db.pool.QueryRow(ctx, "select postrider.retry_rejected($1, $2, $3, $4, $5)", args...).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("retry rejected rows of the outbox: %w", err)
	}
	return n, nil
}

// Discard deletes rejected rows and returns how many.
func (db *DB) Discard(ctx context.Context, r RejectedRows) (n int64, err error) {
	args, err := r.filter()
	if err != nil {
		return 0, err
	}
	if err := db.pool.QueryRow(ctx, "select postrider.discard_rejected($1, $2, $3)", args...).Scan(&n); err != nil {
		return 0, fmt.Errorf("discard rejected rows of the outbox: %w", err)
	}
	return n, nil
}

// Place says where a row is.
type Place struct {
	Where                string // waiting or rejected; empty: there is no such row, or it was read
	Code, Field, Message string // of a rejected one
}

// Row says where a row is. It does not look for rows that were read, because the server has their events.
func (db *DB) Row(ctx context.Context, id postrider.OutboxID) (p Place, err error) {
	if db.own != nil {
		return db.own.row(ctx, id)
	}
	err = db.pool.QueryRow(ctx, `
select coalesce(x.place, ''), coalesce(x.code, ''), coalesce(x.field, ''), coalesce(x.message, '')
from (select) one
left join lateral (
  (select 'rejected' as place, r.code, r.field, r.message from postrider.outbox_rejected r where r.id = $1)
  union all
  (select 'waiting', '', '', '' from postrider.outbox o where o.id = $1)
  limit 1
) x on true`, pgtype.UUID{Bytes: id, Valid: true}).Scan(&p.Where, &p.Code, &p.Field, &p.Message)
	if err != nil {
		return Place{}, fmt.Errorf("find a row of the outbox: %w", err)
	}
	return p, nil
}

// Stats are numbers of an outbox for people.
type Stats struct {
	Waiting       int64     // rows that wait; an estimate for a large table
	Oldest        time.Time // when the oldest waiting row was published; zero: none waits, or it would take long to find
	OpenSince     time.Time // start of the oldest open transaction of the database; zero: none, or the roles may not see it
	Rejected      int64     // at most 10,001
	AsyncReplicas int       // replicas to which commits are copied later
	Version       int
}

// Stats returns numbers for people.
func (db *DB) Stats(ctx context.Context) (Stats, error) {
	if db.own != nil {
		return db.own.stats(ctx)
	}
	s := Stats{Version: Version}
	var oldest, open pgtype.Timestamptz
	err := db.pool.QueryRow(ctx, "select waiting, oldest, open_since, rejected, async_replicas from postrider.stats()").
		Scan(&s.Waiting, &oldest, &open, &s.Rejected, &s.AsyncReplicas)
	if err != nil {
		return Stats{}, fmt.Errorf("count rows of the outbox: %w", err)
	}
	s.Oldest, s.OpenSince = moment(oldest), moment(open)
	return s, nil
}
