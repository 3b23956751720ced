package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider/internal/store"
)

// By the keys of the tables. A key that another event has meanwhile stays.
const (
	deleteAttemptSQL = `delete from attempts where delivery = @id and number = @number`
	deleteBodySQL    = `delete from attempt_bodies where delivery = @id and number = @number`
	deleteKeySQL     = `delete from idempotency_keys where key = @key and account = @account and event = @id`
)

var deleteRowSQL = map[store.Kind]string{
	store.OldEvents: forgetEventSQL, store.OldKeys: deleteKeySQL, store.OldAttempts: deleteAttemptSQL, store.OldBodies: deleteBodySQL,
}

// DeleteRows deletes single rows; see [store.Retention].
func (s *Store) DeleteRows(ctx context.Context, kind store.Kind, rows []store.OldRow) (_ int, err error) {
	defer s.calls.Begin("DeleteRows").End(&err, "delete old %s", kind)
	return removeOld(kind).pieces(ctx, s, rows)
}

// removeOld deletes old rows of a kind.
func removeOld(kind store.Kind) byRow[store.OldRow] {
	return byRow[store.OldRow](func(ctx context.Context, tx *tx, r store.OldRow) (int64, error) {
		return tx.count(ctx, deleteRowSQL[kind], rowArgs(r)...)
	})
}

// rowArgs returns the parameters that name a row.
func rowArgs(r store.OldRow) []any {
	return []any{
		sql.Named("id", blob(r.ID)), sql.Named("number", r.Number), sql.Named("account", blob(r.Key.Account)), sql.Named("key", r.Key.Key),
	}
}
