package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// raiseSequencesSQL sets hold.sequences to the present time; new sequences are above it. It keeps
// a higher value, because the clock may have been set back. It walks hold_pkey.
const raiseSequencesSQL = `
	update hold
	set sequences = greatest(sequences, (extract(epoch from now()) * 1000000)::bigint)
	where single`

// holdSQL holds the store, unless it is held. It walks hold_pkey, and events_pkey of each
// partition for the last id.
const holdSQL = `
	update hold
	set since = now(), reason = @reason, last_event = (select e.id from events e order by e.id desc limit 1)
	where single and since is null`

// PutHold holds the store. It raises the version first, as every change does that nodes must
// learn of. So a publish that was matched before the hold fails, and one that is matched
// afterwards knows the hold.
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

// The statement walks hold_pkey.
const endHoldSQL = `update hold set since = null, reason = '', last_event = null where single`

// Resume ends the hold. It does not run again after a lost reply, because the second count would
// be of a store that is not held.
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

// heldWorkSQL reads the whole queue. If the store is not held, last_event is null and both counts
// are 0.
const heldWorkSQL = `
	select (select count(*) from queue q where postrider_event(q.id, q.named_event) <= h.last_event),
		(select count(*) from fanouts f where f.event <= h.last_event)
	from hold h
	where h.single`

// HeldWork counts the deliveries and jobs of events from before the hold; see [store.Holding].
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

// timelineSQL returns the server's timeline, and whether the server has a recovery target. The
// name of each file of the log begins with the timeline. A new timeline begins with a recovery
// and with the promotion of a standby. Only a recovery to a point in time has a target. The
// target stays in the server's configuration until somebody removes it.
const timelineSQL = `
	select left(pg_walfile_name(pg_current_wal_lsn()), 8),
		concat(current_setting('recovery_target', true), current_setting('recovery_target_lsn', true),
			current_setting('recovery_target_name', true), current_setting('recovery_target_time', true),
			current_setting('recovery_target_xid', true)) <> ''`

// These statements read and write the timeline that was noted at the last start. Both walk
// hold_pkey.
const (
	knownTimelineSQL = `select coalesce(timeline, '') from hold where single`
	noteTimelineSQL  = `update hold set timeline = @timeline where single and timeline is distinct from @timeline`
)

// noticeRecovery holds the store if the database was recovered to a point in time since the last
// start of a node. The reason is that pending deliveries of the recovered database may have been
// sent. noticeRecovery cannot detect a database that was restored in another way; see postrider
// hold.
//
// A service that imitates PostgreSQL may not have timelines. Then noticeRecovery detects nothing.
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
		// The hold comes before the note, so that a start that fails between the two tries both again.
		if _, err := s.PutHold(ctx, postrider.HoldRecovered); err != nil {
			return err
		}
	}
	if _, err := s.pool.Exec(ctx, noteTimelineSQL, pgx.NamedArgs{"timeline": timeline}); err != nil {
		return fmt.Errorf("note the timeline: %w", fault(err))
	}
	return nil
}
