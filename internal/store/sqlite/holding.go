package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// held reads the hold inside a job.
func held(ctx context.Context, tx *tx) (h postrider.Hold, err error) {
	err = tx.row(ctx, sqlstore.HeldSQL).Scan(toTime(&h.Since), &h.Reason)
	return h, err
}

// raiseSequencesSQL sets hold.sequences to the present time; new sequences are above it. It keeps
// a higher value, because the clock may have been set back.
const raiseSequencesSQL = `update hold set sequences = max(sequences, @now)`

// holdSQL holds the store, unless it is held. Its max reads the end of the primary key of events.
const holdSQL = `
	update hold
	set since = @now, reason = @reason, last_event = (select max(id) from events)
	where since is null`

// PutHold holds the store; see [store.Holding].
func (s *Store) PutHold(ctx context.Context, reason string) (_ postrider.Hold, err error) {
	defer s.calls.Begin("PutHold").End(&err, "hold the store")
	return write(ctx, s, func(ctx context.Context, tx *tx) (h postrider.Hold, err error) {
		if err := tx.exec(ctx, raiseSequencesSQL, sql.Named("now", micros(tx.wall))); err != nil {
			return h, err
		}
		n, err := tx.count(ctx, holdSQL, sql.Named("now", micros(tx.wall)), sql.Named("reason", reason))
		if err != nil {
			return h, err
		}
		if n > 0 {
			if _, err := sqlstore.RaiseVersion(ctx, coldTx{tx, &s.texts}); err != nil {
				return h, err
			}
		}
		return held(ctx, tx)
	})
}

const endHoldSQL = `update hold set since = null, reason = '', last_event = null`

// Resume ends the hold; see [store.Holding].
func (s *Store) Resume(ctx context.Context) (_ store.HeldWork, err error) {
	defer s.calls.Begin("Resume").End(&err, "resume the store")
	return write(ctx, s, func(ctx context.Context, tx *tx) (work store.HeldWork, err error) {
		if err := tx.row(ctx, heldWorkSQL).Scan(&work.Deliveries, &work.FanOuts); err != nil {
			return work, err
		}
		return work, tx.exec(ctx, endHoldSQL)
	})
}

// heldWorkSQL reads the whole queue. If the store is not held, last_event is null and both counts
// are 0.
const heldWorkSQL = `
	select (select count(*) from queue where event <= h.last_event), (select count(*) from fanouts where event <= h.last_event)
	from hold h`

// HeldWork counts the deliveries and jobs of events from before the hold; see [store.Holding].
func (s *Store) HeldWork(ctx context.Context) (_ store.HeldWork, err error) {
	defer s.calls.Begin("HeldWork").End(&err, "count what is held")
	found, err := list(ctx, s, query{text: heldWorkSQL}, func(rows *sql.Rows, w *store.HeldWork) error {
		return rows.Scan(&w.Deliveries, &w.FanOuts)
	})
	if err != nil {
		return store.HeldWork{}, s.fault(err)
	}
	return found[0], nil
}
