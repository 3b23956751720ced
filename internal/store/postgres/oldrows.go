package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

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
			if kind == store.OldEvents {
				if _, err := sqlstore.RemoveTerms(ctx, coldTx{tx: tx}, gone); err != nil {
					return err
				}
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
