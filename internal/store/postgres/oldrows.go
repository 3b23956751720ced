package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/store"
)

// Which attempts, or bodies, are those of @ids and @numbers. The primary keys find them by their
// deliveries; "is true" keeps the second condition from becoming a join.
const (
	oneOfAttempts = `a.delivery = any (@ids::uuid[])
		and ((a.delivery, a.number) in (select d.id, d.number from unnest(@ids::uuid[], @numbers::integer[]) as d (id, number))) is true`
	oneOfBodies = `b.delivery = any (@ids::uuid[])
		and ((b.delivery, b.number) in (select d.id, d.number from unnest(@ids::uuid[], @numbers::integer[]) as d (id, number))) is true`
)

// What deletes single rows, by the primary keys of the tables. A key that another event has
// meanwhile stays.
const (
	deleteEventsSQL   = `delete from events r where r.id = any (@ids::uuid[]) and ` + notNeededSQL
	deleteAttemptsSQL = `delete from attempts a where ` + oneOfAttempts
	deleteBodiesSQL   = `delete from attempt_bodies b where ` + oneOfBodies
	deleteKeysSQL     = `
	delete from idempotency_keys k
	using unnest(@ids::uuid[], @accounts::uuid[], @keys::text[]) as d (id, account, key)
	where k.key = d.key and k.account = d.account and k.event = d.id`
)

var deleteRowsSQL = map[store.Kind]string{
	store.OldEvents: deleteEventsSQL, store.OldKeys: deleteKeysSQL, store.OldAttempts: deleteAttemptsSQL, store.OldBodies: deleteBodiesSQL,
}

// DeleteRows deletes single rows. No replay looks at events meanwhile.
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
			tag, err := tx.Exec(ctx, deleteRowsSQL[kind], args)
			deleted = int(tag.RowsAffected())
			return err
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
