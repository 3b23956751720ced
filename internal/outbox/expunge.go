package outbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	expungeTime     = 30 * time.Second
	expungeHourTime = 2 * time.Minute // no index finds the rows of an account that were read in an hour
)

// Expunge deletes all rows of an account, by each of its names, and returns how many. It deletes in several
// transactions. If one fails or takes too long, Expunge goes on with the others and returns the first error.
func (db *DB) Expunge(ctx context.Context, account ...string) (n int64, err error) {
	names := slices.Clone(account) // not nil, which would be null
	if db.own != nil {
		ctx, cancel := context.WithTimeout(ctx, expungeTime)
		defer cancel()
		return db.own.expunge(ctx, names)
	}
	for left := int64(1); left > 0 && err == nil; n += left { // a large backlog takes many transactions
		left, err = db.expungeHour(ctx, nil, names)
	}
	hours, fault := db.readHours(ctx)
	err = cmp.Or(err, fault)
	for _, hour := range hours {
		rows, fault := db.expungeHour(ctx, &hour, names)
		n, err = n+rows, cmp.Or(err, fault)
	}
	return n, err
}

// expungeHour deletes what an account had read in an hour; nil: a part of what waits or was rejected.
func (db *DB) expungeHour(ctx context.Context, hour *time.Time, names []string) (n int64, err error) {
	limit, what := expungeTime, "that wait or were rejected"
	if hour != nil {
		limit, what = expungeHourTime, "that were read in the hour of "+hour.Format(time.RFC3339)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := db.pool.QueryRow(ctx, "select postrider.expunge($1, variadic $2::text[])", hour, names).Scan(&n); err != nil {
		return 0, fmt.Errorf("expunge rows of the outbox %s: %w", what, err)
	}
	return n, nil
}

// readHours returns the hours for which there are rows that were read. Each has a partition with its name.
func (db *DB) readHours(ctx context.Context) ([]time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, expungeTime)
	defer cancel()
	found, _ := db.pool.Query(ctx, `
select c.relname::text
from pg_inherits i
join pg_class c on c.oid = i.inhrelid
where i.inhparent = 'postrider.outbox_read'::regclass
order by c.relname`) // CollectRows returns its error
	hours, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (hour time.Time, err error) {
		var part string
		if err = row.Scan(&part); err == nil {
			hour, err = time.Parse("outbox_read_2006010215", part)
		}
		return hour, err
	})
	if err != nil {
		return nil, fmt.Errorf("list the hours of the outbox: %w", err)
	}
	return hours, nil
}
