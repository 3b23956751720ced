package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// Sets hold.sequences to the present time; new sequences are above it. It keeps a higher value,
// because the clock may have been set back. Walks hold_pkey.
const raiseSequencesSQL = `
	update hold
	set sequences = greatest(sequences, (extract(epoch from now()) * 1000000)::bigint)
	where single`

// Holds the store, unless it is held. Walks hold_pkey, and events_pkey of each partition
// for its last id.
const holdSQL = `
	update hold
	set since = now(), reason = @reason, last_event = (select e.id from events e order by e.id desc limit 1)
	where single and since is null`

// PutHold holds the store. It raises the version first, as every change does that nodes
// must hear of. So a publish that was matched before the hold fails, and one that is
// matched afterwards knows of the hold.
func (s *Store) PutHold(ctx context.Context, reason string) (h postrider.Hold, err error) {
	defer s.calls.Begin("PutHold").End(&err, "hold the store")
	err = s.repeat(ctx, func(bool) error {
		b := &pgx.Batch{}
		b.Queue(sqlstore.RaiseVersionsSQL, pgx.NamedArgs{"n": 1})
		b.Queue(raiseSequencesSQL)
		b.Queue(holdSQL, pgx.NamedArgs{"reason": reason})
		b.Queue(sqlstore.HeldSQL).QueryRow(func(row pgx.Row) error { return row.Scan(toTime(&h.Since), &h.Reason) })
		return s.pool.SendBatch(ctx, b).Close()
	})
	return h, err
}

// Walks hold_pkey.
const endHoldSQL = `update hold set since = null, reason = '', last_event = null where single`

// Resume ends the hold. It is not repeated after a lost reply: the count would be of a
// store that is not held any more.
func (s *Store) Resume(ctx context.Context) (work store.HeldWork, err error) {
	defer s.calls.Begin("Resume").End(&err, "resume the store")
	err = s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			b := &pgx.Batch{}
			b.Queue(`set local enable_seqscan = on`)
			b.Queue(heldWorkSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&work.Deliveries, &work.FanOuts) })
			b.Queue(endHoldSQL)
			return tx.SendBatch(ctx, b).Close()
		})
	})
	return work, err
}

// Reads the whole queue, and counts nothing if the store is not held: last_event is null.
const heldWorkSQL = `
	select (select count(*) from queue q where q.event <= h.last_event), (select count(*) from fanouts f where f.event <= h.last_event)
	from hold h
	where h.single`

// HeldWork counts what was there before the hold.
func (s *Store) HeldWork(ctx context.Context) (_ store.HeldWork, err error) {
	defer s.calls.Begin("HeldWork").End(&err, "count what is held")
	found, err := list(ctx, s, query{heldWorkSQL, pgx.NamedArgs{}}, func(row pgx.CollectableRow) (w store.HeldWork, err error) {
		err = row.Scan(&w.Deliveries, &w.FanOuts)
		return w, err
	})
	if err != nil {
		return store.HeldWork{}, err
	}
	return found[0], nil
}

// The server's timeline, and whether it has a target of a recovery. The timeline is the
// start of the name of each file of the log. A recovery and the promotion of a standby
// both begin a new timeline. Only a recovery to a point in time has a target, and the
// target stays in the server's configuration until somebody removes it.
const timelineSQL = `
	select left(pg_walfile_name(pg_current_wal_lsn()), 8),
		concat(current_setting('recovery_target', true), current_setting('recovery_target_lsn', true),
			current_setting('recovery_target_name', true), current_setting('recovery_target_time', true),
			current_setting('recovery_target_xid', true)) <> ''`

// The timeline at the last start, and the note of another one. Both walk hold_pkey.
const (
	knownTimelineSQL = `select coalesce(timeline, '') from hold where single`
	noteTimelineSQL  = `update hold set timeline = @timeline where single and timeline is distinct from @timeline`
)

// noticeRecovery holds the store if the database was recovered to a point in time since
// the last start of a node: deliveries that wait in it may have been sent afterwards. It
// cannot know of a database that was restored in another way; see postrider hold.
//
// A service that imitates PostgreSQL may not have timelines. Then nothing is noticed.
func (s *Store) noticeRecovery(ctx context.Context) error {
	var timeline string
	var target bool
	if err := s.pool.QueryRow(ctx, timelineSQL).Scan(&timeline, &target); err != nil {
		s.log.InfoContext(ctx, "a recovery of this database to a point in time cannot be noticed", "error", err)
		return nil
	}
	var known string
	if err := s.pool.QueryRow(ctx, knownTimelineSQL).Scan(&known); err != nil {
		return fmt.Errorf("read the timeline of the last start: %w", fault(err))
	}
	if known != "" && known != timeline && target {
		s.log.WarnContext(ctx, "the database was recovered to a point in time", "timeline", timeline)
		if _, err := s.PutHold(ctx, postrider.HoldRecovered); err != nil { // before the note: a start that fails here is repeated
			return err
		}
	}
	if _, err := s.pool.Exec(ctx, noteTimelineSQL, pgx.NamedArgs{"timeline": timeline}); err != nil {
		return fmt.Errorf("note the timeline: %w", fault(err))
	}
	return nil
}
