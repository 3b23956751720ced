package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// These statements walk the primary keys. An idempotency key that belongs to another event by now
// stays.
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
	return s.deleteRows(ctx, kind, rows)
}

// deleteRows deletes single rows, and counts them in the parts of their days.
func (s *Store) deleteRows(ctx context.Context, kind store.Kind, rows []store.OldRow) (deleted int, err error) {
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
		n, err := tx.count(ctx, deleteRowSQL[kind], rowArgs(r)...)
		if err == nil && n > 0 && kind == store.OldEvents {
			_, err = tx.count(ctx, forgetTermsSQL, sql.Named("id", blob(r.ID)))
		}
		return n, err
	})
}

// rowArgs returns the parameters that name a row.
func rowArgs(r store.OldRow) []any {
	return []any{
		sql.Named("id", blob(r.ID)), sql.Named("number", r.Number), sql.Named("account", blob(r.Key.Account)), sql.Named("key", r.Key.Key),
	}
}
