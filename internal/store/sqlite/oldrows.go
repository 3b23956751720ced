package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// These statements return the old events or deliveries of one account after a position, with their
// rows, and whether each row may be deleted. They run on a reading connection. They walk
// events_account or attempts_account, probe the same indexes as forgottenEventsSQL, and find
// idempotency keys and bodies by the primary keys of their tables.
const (
	oldEventsSQL = `
	select id, 0, '', true` + unneededSQL + oldEventsOf
	oldKeysSQL = `
	select id, 0, coalesce(idempotency_key, ''), exists (
			select 1 from idempotency_keys k
			where k.key = events.idempotency_key and k.account = events.account and k.event = events.id)` + oldEventsOf
	oldAttemptsSQL = oldDeliveriesOf + `
	select old.id, a.number, '', not exists (select 1 from attempt_bodies b where b.delivery = a.delivery and b.number = a.number)
	from old join attempts a on a.delivery = old.id`
	oldBodiesSQL = oldDeliveriesOf + `
	select old.id, coalesce(b.number, 0), '', b.number is not null
	from old left join attempt_bodies b on b.delivery = old.id`

	oldEventsOf = `
	from events
	where account = @account and id > @after and id < @before
	order by id limit @limit`
	oldDeliveriesOf = `
	with old as materialized (
		select delivery as id from attempts
		where account = @account and delivery > @after and delivery < @before
		group by delivery order by delivery limit @limit)`
)

// These statements walk the primary keys. An idempotency key that belongs to another event by now
// stays.
const (
	deleteAttemptSQL = `delete from attempts where delivery = @id and number = @number`
	deleteBodySQL    = `delete from attempt_bodies where delivery = @id and number = @number`
	deleteKeySQL     = `delete from idempotency_keys where key = @key and account = @account and event = @id`
)

// oldRows has, for each kind, the statement that finds its old rows and the statement that deletes one.
var oldRows = map[store.Kind]struct{ find, remove string }{
	store.OldEvents:   {oldEventsSQL, forgetEventSQL},
	store.OldKeys:     {oldKeysSQL, deleteKeySQL},
	store.OldAttempts: {oldAttemptsSQL, deleteAttemptSQL},
	store.OldBodies:   {oldBodiesSQL, deleteBodySQL},
}

// OldRows lists old rows of one account; see [store.Retention].
func (s *Store) OldRows(ctx context.Context, q store.OldRows) (_ []store.OldRow, _ store.RowID, err error) {
	defer s.calls.Begin("OldRows").End(&err, "list old %s", q.Kind)
	if q.Kind == store.OldEvents {
		grace, err := s.replayGrace(ctx)
		if err != nil {
			return nil, store.RowID{}, s.fault(err)
		}
		q.Before = q.Before.Add(-grace)
	}
	found, err := list(ctx, s, query{oldRows[q.Kind].find, []any{
		sql.Named("account", blob(q.Account)), sql.Named("after", blob(q.After)),
		sql.Named("before", blob(floor(q.Before))), sql.Named("limit", q.Limit),
	}}, func(rows *sql.Rows, r *store.ExaminedRow) error {
		r.Key.Account = q.Account
		return rows.Scan(toID(&r.ID), &r.Number, &r.Key.Key, toFlag(&r.Goes))
	})
	if err != nil {
		return nil, store.RowID{}, s.fault(err)
	}
	rows, last := q.Examined(found)
	return rows, last, nil
}

// DeleteRows deletes single rows; see [store.Retention].
func (s *Store) DeleteRows(ctx context.Context, kind store.Kind, rows []store.OldRow) (deleted int, err error) {
	defer s.calls.Begin("DeleteRows").End(&err, "delete old %s", kind)
	_, err = inPieces(ctx, len(rows), func(size int) (int, error) {
		piece := rows[:size]
		rows = rows[size:]
		n, err := writeInBulk(ctx, s, func(ctx context.Context, tx *tx) (int, error) {
			var gone []store.RowID
			for _, r := range piece {
				if n, err := removeOld(kind)(ctx, tx, r); err != nil {
					return 0, err
				} else if n > 0 {
					gone = append(gone, r.ID)
				}
			}
			return len(gone), sqlstore.CountRemoved(ctx, coldTx{tx, &s.texts}, kind, gone)
		})
		deleted += n
		return size, err
	})
	return deleted, err
}

// removeOld deletes old rows of a kind.
func removeOld(kind store.Kind) byRow[store.OldRow] {
	return byRow[store.OldRow](func(ctx context.Context, tx *tx, r store.OldRow) (int64, error) {
		return tx.count(ctx, oldRows[kind].remove, rowArgs(r)...)
	})
}

// rowArgs returns the parameters that name a row.
func rowArgs(r store.OldRow) []any {
	return []any{
		sql.Named("id", blob(r.ID)), sql.Named("number", r.Number), sql.Named("account", blob(r.Key.Account)), sql.Named("key", r.Key.Key),
	}
}
