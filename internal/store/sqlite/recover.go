package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A process that gets the lock of the directory and finds leased rows knows that the process
// before it died. leftSQL finds these rows once, when the store is opened. It reads the whole
// queue, because an index for it would cost every delivery. recordLostSQL and recoverSQL find each
// row by its primary key.
const (
	leftSQL           = `select id, lane from queue where token is not null`
	releaseFanOutsSQL = `update fanouts set due_at = @now where token is not null and due_at > @now`
	releaseReplaysSQL = `update replay_jobs set due_at = @now where status = 'running' and token is not null and due_at > @now`
	releaseWhatIfsSQL = `update what_ifs set due_at = @now where due_at > @now`
	recordLostSQL     = `
	insert or replace into attempts (delivery, number, named_event, endpoint, account, type, outcome, status_code, error, retry_after,
		started_at, duration, stale, status_after, replayed_from, replay_job)
	select id, claims, named_event, endpoint, account, type, 'lost', 0, 'server_died', 0, @wall, 0, 0, 'pending', replayed_from, replay_job
	from queue where id = @id
	returning number, endpoint, account, type`
	recoverSQL = `
	update queue
	set token = null, losses = losses + 1, deaths_alone = deaths_alone + @alone, parked = deaths_alone + @alone >= @park,
		lane = case when losses + 1 >= @suspect then 3 else lane end,
		due_at = case when deaths_alone + @alone >= @park then ` + neverSQL + ` else @now end
	where id = @id`
)

// recoverChunk is how many rows one transaction recovers. It limits the size of the log, and the
// work that is repeated if the process dies in the meantime.
const recoverChunk = 2000

// recoverLeases makes the deliveries due that the process before this one had leased, and records
// their attempts as lost. It does what [store.Nodes.Reclaim] does for a dead node.
//
// It runs when the store is opened, before anything can be claimed. A token that it finds must
// belong to a dead process, because the lock of the directory proves that this process is alone.
// After a clean stop there are no tokens.
//
// Losses count the processes in a row that died with a delivery. A delivery with SuspectedAfter
// losses may be the one that kills them, and moves to the suspect lane. If exactly one row of
// that lane was leased, it was the only suspect in flight. After ParkedAfter such deaths it is
// parked, so that a delivery that kills its process does not do that forever.
func recoverLeases(ctx context.Context, db *sql.DB, clock *store.Clock, onLost func(int)) error {
	suspects, others, err := leftLeased(ctx, db)
	if err != nil {
		return fmt.Errorf("find the leases of a process that died: %w", err)
	}
	// Jobs have no attempts, so their leases just end.
	for _, statement := range []string{releaseFanOutsSQL, releaseReplaysSQL, releaseWhatIfsSQL} {
		if _, err := db.ExecContext(ctx, statement, sql.Named("now", micros(clock.Now()))); err != nil {
			return fmt.Errorf("release jobs: %w", err)
		}
	}
	alone := 0
	if len(suspects) == 1 {
		alone = 1
	}
	// All suspects are in the first transaction. If the process died between two of them, the next
	// process would find fewer, perhaps one, and take that one for the only suspect.
	if len(suspects) > 0 {
		if err := (recovery{clock, suspects, alone, onLost}).run(ctx, db); err != nil {
			return err
		}
	}
	for chunk := range slices.Chunk(others, recoverChunk) {
		if err := (recovery{clock, chunk, 0, onLost}).run(ctx, db); err != nil {
			return err
		}
	}
	return nil
}

// leftLeased returns the leased rows. suspects has the rows of the suspect lane, others has the
// rest.
func leftLeased(ctx context.Context, db *sql.DB) (suspects, others []postrider.DeliveryID, err error) {
	rows, err := db.QueryContext(ctx, leftSQL)
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id postrider.DeliveryID
		var lane postrider.Lane
		if err := rows.Scan(toID(&id), toLane(&lane)); err != nil {
			return nil, nil, err
		}
		if lane == postrider.LaneSuspect {
			suspects = append(suspects, id)
		} else {
			others = append(others, id)
		}
	}
	return suspects, others, rows.Err()
}

// recovery is one transaction of recoverLeases.
type recovery struct {
	clock *store.Clock
	ids   []postrider.DeliveryID
	alone int // 1 if ids is only the one suspect that was leased, otherwise 0

	onLost func(int) // see [Options.OnLost]
}

// run runs the transaction. It does not use the writer, which is not started yet.
func (r recovery) run(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err == nil {
		if err = r.rows(ctx, tx); err == nil {
			err = tx.Commit()
		} else {
			err = errors.Join(err, tx.Rollback())
		}
	}
	if err != nil {
		return fmt.Errorf("recover the leases of a process that died: %w", err)
	}
	r.onLost(len(r.ids))
	return nil
}

// rows records the lost attempt of each delivery and ends its lease.
func (r recovery) rows(ctx context.Context, tx *sql.Tx) error {
	now, wall := sql.Named("now", micros(r.clock.Now())), sql.Named("wall", micros(r.clock.Wall()))
	var recorded store.Deltas
	for _, id := range r.ids {
		row := sql.Named("id", blob(id))
		var number int
		var of store.DeltaKey
		err := tx.QueryRowContext(ctx, recordLostSQL, wall, row).Scan(&number, toID(&of.Endpoint), toID(&of.Account), &of.Type)
		if err != nil {
			return err
		}
		recorded.Record(of, postrider.OutcomeLost, number, postrider.Pending)
		_, err = tx.ExecContext(ctx, recoverSQL, now, row, sql.Named("alone", r.alone), sql.Named("park", postrider.ParkedAfter),
			sql.Named("suspect", postrider.SuspectedAfter))
		if err != nil {
			return err
		}
	}
	_, err := tx.ExecContext(ctx, insertDeltaSQL, wall, sql.Named("counted", recorded.Bytes()))
	return err
}
