package sqlstore

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/store"
)

// deleteOldSQL deletes the rows of a kind, the oldest first. Each statement walks the primary key of
// replay_jobs, notices or audit, or one of the indexes
// dead_letters_resolved, endpoint_health_past, past_subscriptions_until, sessions_expires_at and what_ifs_changed_at. Jobs that
// have not ended are few.
var deleteOldSQL = map[store.Kind]string{
	store.OldDeadLetters: deleteRowsSQL("dead_letters", "delivery", "resolved_at < @before order by resolved_at"),
	store.OldReplayJobs:  deleteRowsSQL("replay_jobs", "id", "ended_at < @before order by id"),
	store.OldHealth:      deleteRowsSQL("endpoint_health", "endpoint, number", "not last and since < @before order by since"),
	store.OldNotices:     deleteRowsSQL("notices", "id", "id < @id order by id"),
	store.OldAudit:       deleteRowsSQL("audit", "id", "id < @id order by id"),
	store.OldSessions:    deleteRowsSQL("sessions", "id", "expires_at < @before order by expires_at"),

	store.OldSubscriptions: deleteRowsSQL("past_subscriptions", "endpoint, until", "until < @before order by until"),
	store.OldWhatIfs:       deleteRowsSQL("what_ifs", "account", "changed_at < @before order by changed_at"),
}

// forgetRestoredSQL walks restored_records_at.
var forgetRestoredSQL = deleteRowsSQL("restored_records", "id, number, kind", "at < @before order by at")

// forgetKeysSQL walks idempotency_keys_created_at.
var forgetKeysSQL = deleteRowsSQL("idempotency_keys", "account, key",
	"created_at < now() - @age * interval '1 microsecond' order by created_at")

// deleteRowsSQL returns the statement that deletes up to @limit rows of a table. It has the columns
// of the primary key, and the condition and the order of the rows. With "skip locked" the rows of
// another node are left to that node.
func deleteRowsSQL(table, key, which string) string {
	return `
	with old as materialized (
		select ` + key + `
		from ` + table + `
		where ` + which + `
		limit @limit
		for update skip locked
	)
	delete from ` + table + `
	where (` + key + `) in (select ` + key + ` from old)`
}

// DeleteOld deletes old rows of a kind; see [store.Retention]. The stores call it for all kinds whose
// rows are deleted one by one and are not archived.
func DeleteOld(ctx context.Context, db Database, f store.DeleteOld) (int, error) {
	return deleteRows(ctx, db, f.Limit, Query{deleteOldSQL[f.Kind], Args{"before": f.Before, "id": firstID[[16]byte](f.Before)}})
}

// deleteRows deletes up to limit rows.
func deleteRows(ctx context.Context, db Database, limit int, q Query) (int, error) {
	return db.Pieces(ctx, limit, func(size int) (int, error) {
		q.Args["limit"] = size
		n, err := db.Exec(ctx, Bulk, q)
		return int(n), err
	})
}

// ForgetRestored deletes restored records; see [store.Retention].
func (v Verbs) ForgetRestored(ctx context.Context, before time.Time, limit int) (_ int, err error) {
	defer v.calls.Begin("ForgetRestored").End(&err, "forget restored records")
	return deleteRows(ctx, v.db, limit, Query{forgetRestoredSQL, Args{"before": before}})
}

// ForgetKeys deletes old idempotency keys; see [store.Upkeep]. A later publish with such a key is a
// new event.
func (v Verbs) ForgetKeys(ctx context.Context, age time.Duration, limit int) (_ int, err error) {
	defer v.calls.Begin("ForgetKeys").End(&err, "forget idempotency keys")
	return deleteRows(ctx, v.db, limit, Query{forgetKeysSQL, Args{"age": age}})
}

// The statement walks replay_jobs_running.
const replayRunsSQL = `select exists (select 1 from replay_jobs where status = 'running')`

// ReplayGrace returns for how much longer events stay. It is not 0 while a replay job runs.
func ReplayGrace(ctx context.Context, db Querier) (grace time.Duration, err error) {
	running, err := one(ctx, db, Query{replayRunsSQL, nil}, func(row Row, runs *bool) error { return row.Scan(runs) })
	if running {
		grace = store.ReplayGrace
	}
	return grace, err
}

// These statements return the old events, or deliveries, of one account after a position, with
// their rows, and whether each row may be deleted. They walk events_account or attempts_account
// between two ids, and the primary keys of idempotency_keys and attempt_bodies. To learn whether an
// event is needed they walk the primary key of queue, queue_event, dead_letters_event and the primary key of fanouts.
//
// The conditions compare rows, and the order has the account. Otherwise PostgreSQL could choose the
// primary keys, which have the rows of all accounts, while the partition of a day is empty.
// Subqueries with a limit or an offset cannot become joins that read a whole day.
const (
	oldEventsSQL = `
	select r.id, 0, '', (select q.id from queue q where q.id >= r.id and q.id <= postrider_last_delivery(r.id) limit 1) is null
			and (select q.id from queue q where q.named_event = r.id limit 1) is null
			and (select l.delivery from dead_letters l where l.event = r.id and l.resolved_at is null limit 1) is null
			and (select f.event from fanouts f where f.event = r.id limit 1) is null` + oldEventsOf
	oldKeysSQL = `
	select r.id, 0, coalesce(r.idempotency_key, ''), (
			select k.event
			from idempotency_keys k
			where k.key = r.idempotency_key and k.account = r.account and k.event = r.id
			limit 1
		) is not null` + oldEventsOf
	oldAttemptsSQL = oldDeliveriesOf + `
	select old.id, r.number, '', r.goes
	from old
	cross join lateral (
		select a.number, (select b.delivery from attempt_bodies b where b.delivery = a.delivery and b.number = a.number limit 1) is null as goes
		from attempts a
		where a.delivery = old.id
		offset 0
	) r`
	oldBodiesSQL = oldDeliveriesOf + `
	select old.id, r.number, '', r.number is not null
	from old
	left join lateral (
		select b.number
		from attempt_bodies b
		where b.delivery = old.id
		offset 0
	) r on true`

	oldEventsOf = `
	from events r
	where r.id > @after and r.id < @before and (r.account, r.id) > (@account, @after) and (r.account, r.id) < (@account, @before)
	order by r.account, r.id
	limit @limit`
	oldDeliveriesOf = `
	with old as materialized (
		select a.delivery as id
		from attempts a
		where a.delivery > @after and a.delivery < @before
			and (a.account, a.delivery) > (@account, @after) and (a.account, a.delivery) < (@account, @before)
		group by a.account, a.delivery
		order by a.account, a.delivery
		limit @limit
	)`

	// SQLite has no lateral joins.
	oldAttemptsOfSQLite = oldDeliveriesOf + `
	select old.id, a.number, '', not exists (select 1 from attempt_bodies b where b.delivery = a.delivery and b.number = a.number)
	from old join attempts a on a.delivery = old.id`
	oldBodiesOfSQLite = oldDeliveriesOf + `
	select old.id, b.number, '', b.number is not null
	from old left join attempt_bodies b on b.delivery = old.id`
)

var oldRowsSQL = map[store.Kind]string{
	store.OldEvents: oldEventsSQL, store.OldKeys: oldKeysSQL, store.OldAttempts: oldAttemptsSQL, store.OldBodies: oldBodiesSQL,
}

// OldRows lists old rows of one account; see [store.Retention].
func (v Verbs) OldRows(ctx context.Context, q store.OldRows) (_ []store.OldRow, _ store.RowID, err error) {
	defer v.calls.Begin("OldRows").End(&err, "list old %s", q.Kind)
	if q.Kind == store.OldEvents {
		grace, err := ReplayGrace(ctx, counting{v.db})
		if err != nil {
			return nil, store.RowID{}, err
		}
		q.Before = q.Before.Add(-grace)
	}
	found, err := all(ctx, counting{v.db}, Query{oldRowsSQL[q.Kind], Args{
		"account": q.Account, "after": q.After, "before": firstID[[16]byte](q.Before), "limit": q.Limit,
	}}, func(row Row, r *store.ExaminedRow) error {
		r.Key.Account = q.Account
		return row.Scan(&r.ID, &r.Number, &r.Key.Key, &r.Goes)
	})
	if err != nil {
		return nil, store.RowID{}, err
	}
	rows, last := q.Examined(found)
	return rows, last, nil
}
