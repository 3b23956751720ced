package postgres

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
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// Reads all of kept_events: few events are needed for so long. Rows that are locked are left to
// another node.
const forgetKeptSQL = `
	with old as materialized (
		select r.ctid as at
		from kept_events r
		where ` + notNeededSQL + `
		limit @limit
		for update skip locked
	), forgotten as (
		delete from kept_events r
		using old
		where r.ctid = old.at
	)
	select count(*) from old`

// notNeededSQL is true if nothing needs the event r any more. It probes queue_pkey, queue_event,
// dead_letters_event and fanouts_pkey. It uses scalar subqueries with limit 1, like other statements
// below, because the planner cannot turn these into joins. A join reads a whole table if the planner
// believes that the table is empty.
const notNeededSQL = `(select true from queue q where q.id >= r.id and q.id <= postrider_last_delivery(r.id) limit 1) is null
			and (select true from queue q where q.named_event = r.id limit 1) is null
			and (select true from dead_letters l where l.event = r.id and l.resolved_at is null limit 1) is null
			and (select true from fanouts f where f.event = r.id limit 1) is null`

// DeleteOld deletes old rows; see [store.Retention]. In a partitioned table it deletes the oldest day.
func (s *Store) DeleteOld(ctx context.Context, f store.DeleteOld) (_ int, err error) {
	defer s.calls.Begin("DeleteOld").End(&err, "forget %s", f.Kind)
	switch f.Kind {
	case store.OldEvents:
		n, err := s.forgetDay(ctx, s.forgetEvents, f)
		if err != nil || n > 0 {
			return n, err
		}
		return s.forgetDay(ctx, s.forgetKept, f)
	case store.OldAttempts:
		return s.forgetDay(ctx, s.forgetHistory("attempts"), f)
	case store.OldBodies:
		return s.forgetDay(ctx, s.forgetHistory("attempt_bodies"), f)
	case store.OldKeys: // ForgetKeys deletes the keys of all accounts
		return 0, errors.New("unknown kind")
	default:
		return sqlstore.DeleteOld(ctx, cold{s}, f)
	}
}

// Only one node at a time deletes days of a table: it holds an advisory lock until its transaction
// ends. A statement that waits for a lock on a table blocks later statements on that table, so
// lock_timeout limits this wait.
const (
	oneForgetsSQL   = `select pg_try_advisory_xact_lock(hashtext('postrider_forget_' || @kind::text))`
	lockBrieflySQL  = `set local lock_timeout = '50ms'`
	daysOfParentSQL = `
	select c.relname, to_date(right(c.relname, 8), 'YYYYMMDD')::timestamp at time zone 'UTC',
		coalesce(obj_description(c.oid, 'pg_class') = 'emptied', false)
	from pg_inherits i
	join pg_class c on c.oid = i.inhrelid
	where i.inhparent = @parent::text::regclass and c.relkind = 'r'
		and c.relname <= @parent::text || to_char(@before::timestamptz at time zone 'UTC' - interval '1 day', '_YYYYMMDD')
	order by c.relname`
)

// partition is one day of a table: the rows whose ids were made on a day of UTC.
type partition struct {
	table   string // of the partition; a name of ours, which needs no quotes
	from    time.Time
	emptied bool // see forgetHistory
	over    bool // see isOver
}

// ids returns the least id of the day, and the least id of the next day.
func (d partition) ids() (from, below pgtype.UUID) {
	return floor(d.from, 0), floor(d.from.AddDate(0, 0, 1), 0)
}

// inUseSQL returns whether another session has a lock on a table.
const inUseSQL = `
	select exists (
		select from pg_locks l
		where l.relation = @table::text::regclass and l.pid <> pg_backend_pid()
			and l.database = (select oid from pg_database where datname = current_database())
	)`

// notInUse waits for other users of a day for at most inUseFor. A list or a chore ends soon; a
// vacuum, a backup or a person's query may not.
const (
	inUseFor      = time.Second
	inUsePauseSQL = `select pg_sleep(0.05)`
)

// notInUse waits until nothing else has a lock on the table of a day. After inUseFor it returns
// postrider.ErrBusy. Without this check the transaction would wait for its own lock, and all
// publishes would wait behind it.
func notInUse(ctx context.Context, tx pgx.Tx, d partition) error {
	for end := time.Now().Add(inUseFor); ; {
		var used bool
		err := tx.QueryRow(ctx, inUseSQL, pgx.NamedArgs{"table": d.table}).Scan(&used)
		switch {
		case err != nil || !used:
			return err
		case time.Now().After(end):
			return fmt.Errorf("%s is in use: %w", d.table, postrider.ErrBusy)
		}
		if _, err := tx.Exec(ctx, inUsePauseSQL); err != nil {
			return err
		}
	}
}

// daysBefore lists the partitions of a table that end at the time or before, oldest first.
func daysBefore(ctx context.Context, tx pgx.Tx, parent string, before time.Time) ([]partition, error) {
	rows, _ := tx.Query(ctx, daysOfParentSQL, pgx.NamedArgs{"parent": parent, "before": before})
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (d partition, err error) {
		return d, row.Scan(&d.table, &d.from, &d.emptied)
	})
}

// forgetDay runs forget in a transaction of the one node that deletes days.
func (s *Store) forgetDay(
	ctx context.Context, forget func(context.Context, pgx.Tx, store.DeleteOld) (int, error), f store.DeleteOld,
) (n int, err error) {
	err = s.briefly(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			var alone bool
			if err := tx.QueryRow(ctx, oneForgetsSQL, pgx.NamedArgs{"kind": string(f.Kind)}).Scan(&alone); err != nil || !alone {
				return err
			}
			if _, err := tx.Exec(ctx, lockBrieflySQL); err != nil {
				return err
			}
			n, err = forget(ctx, tx, f)
			return err
		})
	})
	return undone(n, err)
}

// keepEventsSQL copies up to @limit events of a day that are still needed to kept_events. It returns
// their number. It walks queue_pkey, queue_event, dead_letters_event and fanouts_pkey, each over the ids of the
// day.
const keepEventsSQL = `
	with kept as (
		insert into kept_events
		select e.*
		from (
			select postrider_event(q.id, null) as event from queue q where q.id >= @from and q.id < @below and q.named_event is null
			union
			select q.named_event from queue q where q.named_event >= @from and q.named_event < @below
			union
			select l.event from dead_letters l where l.event >= @from and l.event < @below and l.resolved_at is null
			union
			select f.event from fanouts f where f.event >= @from and f.event < @below
		) n
		cross join lateral (
			select e.*
			from events e
			where e.id = n.event
			limit 1
		) e
		where (select true from kept_events k where k.id = n.event limit 1) is null
		limit @limit
		returning id
	)
	select count(*) from kept`

// forgetEvents drops the oldest day of events. Before, it copies the events of the day that are still
// needed, up to f.Limit events in each call.
//
// It makes the last copy under the locks that the drop needs. A transaction that replays an event has
// read the event, so it has a lock on the table. So there are two cases. It has committed, and the
// copy sees its new delivery. Or it begins after the drop, and finds the event among the kept events
// or not at all. The parent table is locked first, as in every statement.
//
// No event is added to a day that is over. So the archived events of the day are counted without a
// lock. The terms of the day are dropped with it.
func (s *Store) forgetEvents(ctx context.Context, tx pgx.Tx, f store.DeleteOld) (int, error) {
	grace, err := sqlstore.ReplayGrace(ctx, coldTx{tx: tx})
	if err != nil {
		return 0, err
	}
	days, err := daysBefore(ctx, tx, "events", f.Before.Add(-grace))
	if err != nil || len(days) == 0 {
		return 0, err
	}
	oldest := days[0]
	terms := partition{table: "event_terms" + strings.TrimPrefix(oldest.table, "events")}
	if err := cmp.Or(notInUse(ctx, tx, oldest), notInUse(ctx, tx, terms)); err != nil {
		return 0, err
	}
	if ok, err := s.isArchived(ctx, tx, f, oldest); err != nil || !ok {
		return 0, err
	}
	from, below := oldest.ids()
	keep := func(limit any) (kept int, err error) {
		err = tx.QueryRow(ctx, keepEventsSQL, pgx.NamedArgs{"from": from, "below": below, "limit": limit}).Scan(&kept)
		return kept, err
	}
	if kept, err := keep(f.Limit); err != nil || kept == f.Limit {
		return kept, err // the next call goes on
	}
	if err := deletedAll(ctx, tx, f, oldest); err != nil { // before the lock, under which publishes wait
		return 0, err
	}
	_, err = tx.Exec(ctx, `lock table only events, only `+oldest.table+`, only event_terms, only `+terms.table+` in access exclusive mode`)
	if err != nil {
		return 0, err
	}
	if _, err := keep(nil); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, `drop table `+oldest.table+`, `+terms.table)
	return f.Limit, err
}

// With this lock, a transaction that reads an event to replay it and a transaction that deletes
// single events wait for each other. Otherwise an event could be deleted after a replay has read it
// and before the replay's new delivery is committed. The drop of a day does not need this lock: it locks
// the table of the day.
const (
	replaysLockSQL = `select pg_advisory_xact_lock_shared(hashtext('postrider_replays'))`
	noReplaysSQL   = `select pg_advisory_xact_lock(hashtext('postrider_replays'))`
)

// forgetKept deletes kept events that nothing needs any more. No replay reads an event meanwhile.
func (s *Store) forgetKept(ctx context.Context, tx pgx.Tx, f store.DeleteOld) (n int, err error) {
	if _, err := tx.Exec(ctx, noReplaysSQL); err != nil {
		return 0, err
	}
	err = tx.QueryRow(ctx, forgetKeptSQL, pgx.NamedArgs{"limit": f.Limit}).Scan(&n)
	return n, err
}

// pendingBelowSQL returns whether a delivery of the day, or an older delivery, is pending. It walks
// queue_pkey.
const pendingBelowSQL = `select exists (select from queue q where q.id < @below)`

// lateSettlements is the longest time after its expiry in which a delivery may still get a record.
// The record is made when Expire finds the delivery, or when an attempt under way ends. The time is
// long, because a server may have been down.
const lateSettlements = 7 * 24 * time.Hour

// forgetHistory returns the function that empties the oldest day of a table whose rows
// belong to deliveries.
//
// A delivery can be pending for longer than its attempts are kept, and each settlement needs
// a partition that takes its row. So the day's partition is truncated and stays, marked by
// a comment; it is dropped when no delivery of the day can be pending any more. A day that
// is not archived is left for later.
func (s *Store) forgetHistory(parent string) func(context.Context, pgx.Tx, store.DeleteOld) (int, error) {
	return func(ctx context.Context, tx pgx.Tx, f store.DeleteOld) (int, error) {
		days, err := daysBefore(ctx, tx, parent, f.Before)
		if err != nil {
			return 0, err
		}
		for _, d := range days {
			if d.over, err = s.isOver(ctx, tx, d); err != nil {
				return 0, err
			}
			if ready, err := s.mayEmpty(ctx, tx, f, d); err != nil {
				return 0, err
			} else if !ready {
				continue
			}
			empty := `truncate only ` + d.table + `; comment on table ` + d.table + ` is 'emptied'`
			if d.over {
				empty = `lock table only ` + parent + `, only ` + d.table + ` in access exclusive mode; drop table ` + d.table
			}
			if err := deletedAll(ctx, tx, f, d); err != nil {
				return 0, err
			}
			_, err := tx.Exec(ctx, empty)
			return f.Limit, err
		}
		return 0, nil
	}
}

// isOver reports whether no delivery of the day can be pending any more.
func (s *Store) isOver(ctx context.Context, tx pgx.Tx, d partition) (bool, error) {
	if s.clock.Wall().Sub(d.from) <= postrider.MaxExpiry+lateSettlements {
		return false, nil
	}
	var pending bool
	_, below := d.ids()
	err := tx.QueryRow(ctx, pendingBelowSQL, pgx.NamedArgs{"below": below}).Scan(&pending)
	return err == nil && !pending, err
}

// mayEmpty reports whether a day may be emptied now, or dropped because it is over.
//
// Settlements can add rows to a day that was emptied. With an archive, the day is emptied again after
// these rows are archived too. mayEmpty locks the day against settlements before it counts.
func (s *Store) mayEmpty(ctx context.Context, tx pgx.Tx, f store.DeleteOld, d partition) (bool, error) {
	if !f.Archived {
		if d.emptied && !d.over {
			return false, nil
		}
		return true, notInUse(ctx, tx, d)
	}
	var rows bool
	if err := tx.QueryRow(ctx, `select exists (select from only `+d.table+`)`).Scan(&rows); err != nil || !rows && !d.over {
		return false, err
	}
	if err := notInUse(ctx, tx, d); err != nil {
		return false, err
	}
	if _, err := tx.Exec(ctx, `lock table only `+d.table+` in share mode`); err != nil {
		return false, err
	}
	return s.isArchived(ctx, tx, f, d)
}

// orderingKeysSQL reads the ordering keys after a position, each with its last sequence and whether an
// event with the key is stored. It walks ordering_keys_pkey, and for each key the index events_order
// of every day. The index has another collation than ordering_keys. The kept events are read by
// keptKeysSQL instead.
const orderingKeysSQL = `
	select o.ordering_key, o.account, o.last,
		(
			select true
			from events e
			where e.account = o.account and e.ordering_key = o.ordering_key collate "default" and e.ordering_key <> ''
			limit 1
		) is not null as used
	from ordering_keys o
	where (o.ordering_key, o.account) > (@key, @account)
	order by o.ordering_key, o.account
	limit @limit`

// forgetOrderingKeysSQL deletes keys that no publish has used since they were read. A publish changes
// the column last, and this statement waits for the commit of a publish. It walks
// ordering_keys_pkey.
const forgetOrderingKeysSQL = `
	delete from ordering_keys o
	using unnest(@keys::text[], @accounts::uuid[], @lasts::bigint[]) as d (key, account, last)
	where o.ordering_key = d.key and o.account = d.account and o.last = d.last`

// keptKeysSQL returns the ordering keys of the kept events.
const keptKeysSQL = `select k.ordering_key, k.account from kept_events k where k.ordering_key <> ''`

// examinedKey is an ordering key that orderingKeysSQL has read.
type examinedKey struct {
	store.OrderingKey

	last int64
	used bool
}

// ForgetOrderingKeys deletes keys without events. It reads the keys of the kept events last. If a day is
// dropped in between, its events that are still needed were found in the day, or are kept by then.
func (s *Store) ForgetOrderingKeys(ctx context.Context, after store.OrderingKey, limit int) (next store.OrderingKey, err error) {
	defer s.calls.Begin("ForgetOrderingKeys").End(&err, "forget ordering keys")
	err = s.briefly(ctx, func() error {
		rows, _ := s.pool.Query(ctx, orderingKeysSQL, pgx.NamedArgs{"key": after.Key, "account": someUUID(after.Account), "limit": limit})
		examined, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (k examinedKey, err error) {
			return k, row.Scan(&k.Key, toID(&k.Account), &k.last, &k.used)
		})
		if err != nil {
			return err
		}
		kept, err := s.keptKeys(ctx)
		if err != nil {
			return err
		}
		var keys []string
		var accounts uuids
		var lasts []int64
		for _, k := range examined {
			if !k.used && !kept[k.OrderingKey] {
				keys, accounts, lasts = append(keys, k.Key), append(accounts, someUUID(k.Account)), append(lasts, k.last)
			}
		}
		if len(examined) == limit {
			next = examined[limit-1].OrderingKey
		}
		if len(keys) == 0 {
			return nil
		}
		_, err = s.pool.Exec(ctx, forgetOrderingKeysSQL, pgx.NamedArgs{"keys": keys, "accounts": accounts, "lasts": lasts})
		return err
	})
	return next, err
}

// keptKeys returns the ordering keys of the kept events.
func (s *Store) keptKeys(ctx context.Context) (map[store.OrderingKey]bool, error) {
	rows, _ := s.pool.Query(ctx, keptKeysSQL)
	kept := map[store.OrderingKey]bool{}
	var k store.OrderingKey
	_, err := pgx.ForEachRow(rows, []any{&k.Key, toID(&k.Account)}, func() error {
		kept[k] = true
		return nil
	})
	return kept, err
}

// Shrink does nothing: a partition that is dropped or truncated gives its files back.
func (s *Store) Shrink(context.Context, int) (int, error) { return 0, nil }

// Scrub does nothing: deleted rows stay in the files of the database until it is vacuumed, in
// its log, and on its standbys. The API says so.
func (s *Store) Scrub(context.Context) error { return nil }
