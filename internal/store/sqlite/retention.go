package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// These statements find old rows; of events, those that nothing needs. They run on a reading
// connection, because forgottenEventsSQL may step over many old events that stay. They walk the primary
// keys. For each event, forgottenEventsSQL probes the primary key of queue, queue_event,
// dead_letters_event and the primary key of fanouts.
const (
	forgottenEventsSQL = `
	select id, 0 from events
	where id < @before` + unneededSQL + `
	order by id limit @limit`
	forgottenAttemptsSQL = `select delivery, number from attempts where delivery < @before order by delivery, number limit @limit`
	forgottenBodiesSQL   = `select delivery, number from attempt_bodies where delivery < @before order by delivery, number limit @limit`
)

var forgottenSQL = map[store.Kind]string{
	store.OldEvents: forgottenEventsSQL, store.OldAttempts: forgottenAttemptsSQL, store.OldBodies: forgottenBodiesSQL,
}

// unneededSQL is true if nothing needs the event; see [store.Retention].
const unneededSQL = `
		and not exists (select 1 from queue where queue.id >= events.id and queue.id <= cast(substr(events.id, 1, 13) || x'ffffff' as blob))
		and not exists (select 1 from queue where named_event = events.id)
		and not exists (select 1 from dead_letters where event = events.id and resolved_at is null)
		and not exists (select 1 from fanouts where event = events.id)`

// forgetEventSQL checks again that nothing needs the event, because a replay may need it by now. It
// walks the primary key of events.
const forgetEventSQL = `
	delete from events where id = @id` + unneededSQL

// forgetTermsSQL walks event_terms_id.
const forgetTermsSQL = `delete from event_terms where id = @id`

// DeleteOld deletes old rows; see [store.Retention].
func (s *Store) DeleteOld(ctx context.Context, f store.DeleteOld) (_ int, err error) {
	defer s.calls.Begin("DeleteOld").End(&err, "forget %s", f.Kind)
	if f.Kind == store.OldEvents {
		grace, err := sqlstore.ReplayGrace(ctx, cold{s})
		if err != nil {
			return 0, s.fault(err)
		}
		f.Before = f.Before.Add(-grace)
	}
	switch {
	case f.Archived:
		return s.forgetArchived(ctx, f)
	case forgottenSQL[f.Kind] != "":
		return s.forgetUnarchived(ctx, f)
	default:
		return sqlstore.DeleteOld(ctx, cold{s}, f)
	}
}

// floor returns the least id made at the time or later.
func floor(at time.Time) postrider.EventID {
	return postrider.MakeID[postrider.EventID](at, [10]byte{})
}

// forgetUnarchived deletes up to f.Limit rows while no archive is set. An archive that was set before
// can have the only copies of rows of the same day. So the rows are counted like single rows.
func (s *Store) forgetUnarchived(ctx context.Context, f store.DeleteOld) (int, error) {
	old, err := list(ctx, s, query{forgottenSQL[f.Kind], []any{
		sql.Named("before", blob(floor(f.Before))), sql.Named("limit", f.Limit),
	}}, func(rows *sql.Rows, r *store.OldRow) error { return rows.Scan(toID(&r.ID), &r.Number) })
	if err != nil {
		return 0, s.fault(err)
	}
	_, err = s.deleteRows(ctx, f.Kind, old)
	return len(old), err
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
