package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// These statements return the old events or deliveries of one account after a position, with their
// rows, and whether each row may be deleted. They walk events_account or attempts_account between two
// ids. They probe the indexes of notNeededSQL, idempotency_keys_pkey and attempt_bodies_pkey. The
// conditions and the orders have the account before the id. Without the account, the planner could
// choose the primary keys, which have the rows of all accounts, while the partition of a day is
// empty. Subqueries with offset 0 cannot become joins that read a whole day.
const (
	oldEventsSQL = `
	select r.id, 0, '', ` + notNeededSQL + oldEventsOf
	oldKeysSQL = `
	select r.id, 0, coalesce(r.idempotency_key, ''), (
			select true
			from idempotency_keys k
			where k.key = r.idempotency_key and k.account = r.account and k.event = r.id
			limit 1
		) is not null` + oldEventsOf
	oldAttemptsSQL = oldDeliveriesOf + `
	select old.id, r.number, '', r.goes
	from old
	cross join lateral (
		select a.number, (
				select true
				from attempt_bodies b
				where b.delivery = a.delivery and b.number = a.number
				limit 1
			) is null as goes
		from attempts a
		where a.delivery = old.id
		offset 0
	) r`
	oldBodiesSQL = oldDeliveriesOf + `
	select old.id, coalesce(r.number, 0), '', r.number is not null
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
)

var oldRowsSQL = map[store.Kind]string{
	store.OldEvents: oldEventsSQL, store.OldKeys: oldKeysSQL, store.OldAttempts: oldAttemptsSQL, store.OldBodies: oldBodiesSQL,
}

// OldRows lists old rows of one account; see [store.Retention].
func (s *Store) OldRows(ctx context.Context, q store.OldRows) (_ []store.OldRow, _ store.RowID, err error) {
	defer s.calls.Begin("OldRows").End(&err, "list old %s", q.Kind)
	if q.Kind == store.OldEvents {
		running, err := count(ctx, s, query{replayRunsSQL, pgx.NamedArgs{}}, pgx.RowTo[bool])
		if err != nil {
			return nil, store.RowID{}, err
		}
		if running[0] {
			q.Before = q.Before.Add(-store.ReplayGrace)
		}
	}
	found, err := count(ctx, s, query{oldRowsSQL[q.Kind], pgx.NamedArgs{
		"account": someUUID(q.Account), "after": someUUID(q.After), "before": floor(q.Before, 0), "limit": q.Limit,
	}}, func(row pgx.CollectableRow) (r store.ExaminedRow, err error) {
		r.Key.Account = q.Account
		return r, row.Scan(toID(&r.ID), &r.Number, &r.Key.Key, &r.Goes)
	})
	if err != nil {
		return nil, store.RowID{}, err
	}
	rows, last := q.Examined(found)
	return rows, last, nil
}

// These conditions select the attempts, or the bodies, that @ids and @numbers name. The primary keys
// find them by their deliveries; "is true" keeps the second condition from becoming a join.
const (
	oneOfAttempts = `a.delivery = any (@ids::uuid[])
		and ((a.delivery, a.number) in (select d.id, d.number from unnest(@ids::uuid[], @numbers::integer[]) as d (id, number))) is true`
	oneOfBodies = `b.delivery = any (@ids::uuid[])
		and ((b.delivery, b.number) in (select d.id, d.number from unnest(@ids::uuid[], @numbers::integer[]) as d (id, number))) is true`
)

// These statements delete single rows by the primary keys of the tables, and return their ids. An
// idempotency key that belongs to another event by now stays.
const (
	deleteEventsSQL   = `delete from events r where r.id = any (@ids::uuid[]) and ` + notNeededSQL + ` returning r.id`
	deleteAttemptsSQL = `delete from attempts a where ` + oneOfAttempts + ` returning a.delivery`
	deleteBodiesSQL   = `delete from attempt_bodies b where ` + oneOfBodies + ` returning b.delivery`
	deleteKeysSQL     = `
	delete from idempotency_keys k
	using unnest(@ids::uuid[], @accounts::uuid[], @keys::text[]) as d (id, account, key)
	where k.key = d.key and k.account = d.account and k.event = d.id
	returning k.event`
)

var deleteRowsSQL = map[store.Kind]string{
	store.OldEvents: deleteEventsSQL, store.OldKeys: deleteKeysSQL, store.OldAttempts: deleteAttemptsSQL, store.OldBodies: deleteBodiesSQL,
}

// DeleteRows deletes single rows; see [store.Retention]. While it deletes events, no replay reads one.
func (s *Store) DeleteRows(ctx context.Context, kind store.Kind, rows []store.OldRow) (deleted int, err error) {
	defer s.calls.Begin("DeleteRows").End(&err, "delete old %s", kind)
	args := pgx.NamedArgs{"ids": idsOf(rows), "numbers": numbersOf(rows)}
	if kind == store.OldKeys {
		var accounts uuids
		keys := make([]string, 0, len(rows))
		for _, r := range rows {
			accounts, keys = append(accounts, someUUID(r.Key.Account)), append(keys, r.Key.Key)
		}
		args = pgx.NamedArgs{"ids": args["ids"], "accounts": accounts, "keys": keys}
	}
	err = s.repeat(ctx, func(bool) error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			if kind == store.OldEvents {
				if _, err := tx.Exec(ctx, noReplaysSQL); err != nil {
					return err
				}
			}
			found, _ := tx.Query(ctx, deleteRowsSQL[kind], args)
			gone, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (id store.RowID, err error) { return id, row.Scan(toID(&id)) })
			deleted = len(gone)
			if err != nil {
				return err
			}
			return sqlstore.CountRemoved(ctx, coldTx{tx: tx}, kind, gone)
		})
	})
	return deleted, err
}

func idsOf(rows []store.OldRow) uuids {
	ids := make(uuids, 0, len(rows))
	for _, r := range rows {
		ids = append(ids, someUUID(r.ID))
	}
	return ids
}

func numbersOf(rows []store.OldRow) []int32 {
	numbers := make([]int32, 0, len(rows))
	for _, r := range rows {
		numbers = append(numbers, int32(r.Number)) //nolint:gosec // as it was read
	}
	return numbers
}
