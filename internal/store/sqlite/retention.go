package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// forgottenEventsSQL finds old events that nothing needs. It runs on a reading connection, because it
// may step over many old events that stay. It walks the primary key of events, and for each event it
// probes queue_event, dead_letters_event and the primary key of fanouts.
const forgottenEventsSQL = `
	select id from events
	where id < @before` + unneededSQL + `
	order by id limit @limit`

// unneededSQL is true if nothing needs the event; see [store.Retention].
const unneededSQL = `
		and not exists (select 1 from queue where event = events.id)
		and not exists (select 1 from dead_letters where event = events.id and resolved_at is null)
		and not exists (select 1 from fanouts where event = events.id)`

// forgetEventSQL checks again that nothing needs the event, because a replay may need it by now. It
// walks the primary key of events.
const forgetEventSQL = `
	delete from events where id = @id` + unneededSQL

// The statement walks replay_jobs_running.
const replayRunsSQL = `select exists (select 1 from replay_jobs where status = 'running')`

// These statements delete rows, the oldest first. Each walk begins at the oldest row of its table. The
// statements walk the primary keys of attempts, attempt_bodies, replay_jobs, audit and notices, and
// the indexes dead_letters_resolved, endpoint_health_past and sessions_expires_at. Jobs that have
// not ended are few.
const (
	forgetAttemptsSQL = `
	delete from attempts where (delivery, number) in (
		select delivery, number from attempts where delivery < @before order by delivery, number limit @limit)`
	forgetBodiesSQL = `
	delete from attempt_bodies where (delivery, number) in (
		select delivery, number from attempt_bodies where delivery < @before order by delivery, number limit @limit)`
	forgetDeadLettersSQL = `
	delete from dead_letters where delivery in (
		select delivery from dead_letters where resolved_at < @before order by resolved_at limit @limit)`
	forgetReplayJobsSQL = `
	delete from replay_jobs where id in (select id from replay_jobs where ended_at < @before order by id limit @limit)`
	forgetHealthSQL = `
	delete from endpoint_health where (endpoint, number) in (
		select endpoint, number from endpoint_health where not last and since < @before order by since limit @limit)`
	forgetAuditSQL = `
	delete from audit where id in (select id from audit where id < @before order by id limit @limit)`
	forgetNoticesSQL = `
	delete from notices where id in (select id from notices where id < @before order by id limit @limit)`
	forgetSessionsSQL = `
	delete from sessions where id in (select id from sessions where expires_at < @before order by expires_at limit @limit)`
)

// forgetSQL has the statement of each kind whose rows depend on no other rows, and whether its @before
// is an id.
var forgetSQL = map[store.Kind]struct {
	text string
	byID bool
}{
	store.OldAttempts:    {forgetAttemptsSQL, true},
	store.OldBodies:      {forgetBodiesSQL, true},
	store.OldDeadLetters: {forgetDeadLettersSQL, false},
	store.OldReplayJobs:  {forgetReplayJobsSQL, false},
	store.OldHealth:      {forgetHealthSQL, false},
	store.OldAudit:       {forgetAuditSQL, true},
	store.OldNotices:     {forgetNoticesSQL, true},
	store.OldSessions:    {forgetSessionsSQL, false},
}

// DeleteOld deletes old rows; see [store.Retention].
func (s *Store) DeleteOld(ctx context.Context, f store.DeleteOld) (_ int, err error) {
	defer s.calls.Begin("DeleteOld").End(&err, "forget %s", f.Kind)
	if f.Kind == store.OldEvents && f.Archived {
		grace, err := s.replayGrace(ctx)
		if err != nil {
			return 0, s.fault(err)
		}
		f.Before = f.Before.Add(-grace)
	}
	if f.Archived {
		return s.forgetArchived(ctx, f)
	}
	if f.Kind == store.OldEvents {
		n, err := s.forgetEvents(ctx, f)
		return n, s.fault(err)
	}
	statement := forgetSQL[f.Kind]
	var before any = micros(f.Before)
	if statement.byID {
		before = blob(floor(f.Before))
	}
	return s.forget(ctx, f.Limit, query{statement.text, []any{sql.Named("before", before)}})
}

// forget deletes up to limit rows by pieces, with a statement that has a @limit.
func (s *Store) forget(ctx context.Context, limit int, q query) (int, error) {
	return inPieces(ctx, limit, func(size int) (int, error) {
		return writeInBulk(ctx, s, func(ctx context.Context, tx *tx) (int, error) {
			n, err := tx.count(ctx, q.text, append(slices.Clip(q.args), sql.Named("limit", size))...)
			return int(n), err
		})
	})
}

// replayGrace returns how much longer events stay: ReplayGrace while a replay job runs, otherwise 0.
func (s *Store) replayGrace(ctx context.Context) (time.Duration, error) {
	running, err := list(ctx, s, query{replayRunsSQL, nil}, func(rows *sql.Rows, runs *bool) error { return rows.Scan(runs) })
	if err != nil || !running[0] {
		return 0, err
	}
	return store.ReplayGrace, nil
}

// floor returns the least id made at the time or later.
func floor(at time.Time) postrider.EventID {
	return postrider.MakeID[postrider.EventID](at, [10]byte{})
}

func (s *Store) forgetEvents(ctx context.Context, f store.DeleteOld) (int, error) {
	grace, err := s.replayGrace(ctx)
	if err != nil {
		return 0, err
	}
	f.Before = f.Before.Add(-grace)
	ids, err := list(ctx, s, query{forgottenEventsSQL, []any{
		sql.Named("before", blob(floor(f.Before))), sql.Named("limit", f.Limit),
	}}, func(rows *sql.Rows, id *postrider.EventID) error { return rows.Scan(toID(id)) })
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	_, err = byRow[postrider.EventID](func(ctx context.Context, tx *tx, id postrider.EventID) (int64, error) {
		return tx.count(ctx, forgetEventSQL, sql.Named("id", blob(id)))
	}).pieces(ctx, s, ids)
	return len(ids), err
}

// These statements find ordering keys and delete a key without events. They walk the primary key of
// ordering_keys, and for each key events_order.
const (
	orderingKeysSQL = `
	select ordering_key, account from ordering_keys
	where (ordering_key, account) > (@key, @account)
	order by ordering_key, account limit @limit`
	forgetOrderingKeySQL = `
	delete from ordering_keys
	where ordering_key = @key and account = @account and not exists (
		select 1 from events e where e.account = @account and e.ordering_key = @key and e.ordering_key <> '')`
)

// ForgetOrderingKeys deletes keys without events; see [store.Retention].
func (s *Store) ForgetOrderingKeys(ctx context.Context, after store.OrderingKey, limit int) (_ store.OrderingKey, err error) {
	defer s.calls.Begin("ForgetOrderingKeys").End(&err, "forget ordering keys")
	keys, err := list(ctx, s, query{orderingKeysSQL, []any{
		sql.Named("key", after.Key), sql.Named("account", blob(after.Account)), sql.Named("limit", limit),
	}}, func(rows *sql.Rows, k *store.OrderingKey) error { return rows.Scan(&k.Key, toID(&k.Account)) })
	if err != nil || len(keys) == 0 {
		return store.OrderingKey{}, s.fault(err)
	}
	_, err = byRow[store.OrderingKey](func(ctx context.Context, tx *tx, k store.OrderingKey) (int64, error) {
		return tx.count(ctx, forgetOrderingKeySQL, sql.Named("key", k.Key), sql.Named("account", blob(k.Account)))
	}).pieces(ctx, s, keys)
	if err != nil || len(keys) < limit {
		return store.OrderingKey{}, err
	}
	return keys[limit-1], nil
}

// freeSQL returns the number of free pages and of all pages.
const freeSQL = `select (select freelist_count from pragma_freelist_count), (select page_count from pragma_page_count)`

// Shrink gives free pages back; see [store.Retention]. The file
// lists the use of each page (auto_vacuum, see writing), so its last pages can move to free pages.
func (s *Store) Shrink(ctx context.Context, limit int) (_ int, err error) {
	defer s.calls.Begin("Shrink").End(&err, "shrink the file")
	return inPieces(ctx, limit, func(size int) (int, error) {
		return writeInBulk(ctx, s, func(ctx context.Context, tx *tx) (int, error) { return shrink(ctx, tx, size) })
	})
}

// shrink gives up to limit free pages back in a transaction.
func shrink(ctx context.Context, tx *tx, limit int) (int, error) {
	var free, pages, left int
	if err := tx.row(ctx, freeSQL).Scan(&free, &pages); err != nil || free < pages/4 {
		return 0, err
	}
	if _, err := tx.conn.ExecContext(ctx, fmt.Sprintf("pragma incremental_vacuum(%d)", limit)); err != nil {
		return 0, err
	}
	err := tx.row(ctx, freeSQL).Scan(&left, &pages)
	return free - left, err
}

// The statement walks restored_records_at.
const forgetRestoredSQL = `
	delete from restored_records where (id, number, kind) in (
		select id, number, kind from restored_records where at < @before order by at limit @limit)`

// ForgetRestored deletes restored records; see [store.Retention].
func (s *Store) ForgetRestored(ctx context.Context, before time.Time, limit int) (_ int, err error) {
	defer s.calls.Begin("ForgetRestored").End(&err, "forget restored records")
	return s.forget(ctx, limit, query{forgetRestoredSQL, []any{sql.Named("before", micros(before))}})
}
