package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/postrider/postrider/internal/store"
)

// By the key of restored_records.
const putRestoredSQL = `
	insert into restored_records (id, number, kind, account, event, endpoint, type, record, at)
	values (@id, @number, @kind, @account, @event, @endpoint, @type, @record, @at)
	on conflict (id, number, kind) do update set record = excluded.record, at = excluded.at`

// PutRestored stores records; see [store.Restored].
func (s *Store) PutRestored(ctx context.Context, records []store.RestoredRecord) error {
	return change(ctx, s, "put restored records", func(ctx context.Context, tx *tx) error {
		for _, r := range records {
			err := tx.exec(ctx, putRestoredSQL, sql.Named("id", blob(r.ID)), sql.Named("number", r.Number), sql.Named("kind", string(r.Kind)),
				sql.Named("account", blob(r.Account)), sql.Named("event", blob(r.Event)), sql.Named("endpoint", blob(r.Endpoint)),
				sql.Named("type", r.Type), sql.Named("record", someBytes(r.Record)), sql.Named("at", micros(r.At)))
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// All by the key, those of an event by restored_records_event, those of an account by
// restored_records_account. Restored records are few, so an endpoint has no index.
const (
	restoredSelect = `
	select id, number, kind, account, event, endpoint, type, record, at from restored_records where `
	restoredFilter = ` and (id, number, kind) > (@id, @number, @kind)
		and (@account is null or account = @account) and (@endpoint is null or endpoint = @endpoint)
	order by id, number, kind limit @limit`
	restoredSQL          = restoredSelect + `true` + restoredFilter
	restoredOfEventSQL   = restoredSelect + `event = @event` + restoredFilter
	restoredOfAccountSQL = restoredSelect + `account = @account` + restoredFilter
)

// RestoredRecords lists restored records; see [store.Restored].
func (s *Store) RestoredRecords(ctx context.Context, q store.RestoredQuery) (store.Page[store.RestoredRecord], error) {
	after, err := store.RestoredAfter(q.Paging)
	if err != nil {
		return store.Page[store.RestoredRecord]{}, err
	}
	statement := restoredSQL
	switch {
	case !q.Event.IsZero():
		statement = restoredOfEventSQL
	case !q.Account.IsZero():
		statement = restoredOfAccountSQL
	}
	records, err := list(ctx, s, query{statement, []any{
		sql.Named("id", blob(after.ID)), sql.Named("number", after.Number), sql.Named("kind", string(after.Kind)), sql.Named("account", blobOrNull(q.Account)),
		sql.Named("event", blobOrNull(q.Event)), sql.Named("endpoint", blobOrNull(q.Endpoint)), sql.Named("limit", q.Size()+1),
	}}, func(rows *sql.Rows, r *store.RestoredRecord) error {
		return rows.Scan(toID(&r.ID), &r.Number, toString(&r.Kind), toID(&r.Account), toID(&r.Event), toID(&r.Endpoint), &r.Type, &r.Record, toTime(&r.At))
	})
	return store.Cut(records, q.Paging, store.RestoredKey), s.explain("list restored records", err)
}

// By restored_records_at.
const forgetRestoredSQL = `
	delete from restored_records where (id, number, kind) in (
		select id, number, kind from restored_records where at < @before order by at limit @limit)`

// ForgetRestored deletes restored records; see [store.Restored].
func (s *Store) ForgetRestored(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.forget(ctx, "forget restored records", limit, query{forgetRestoredSQL, []any{sql.Named("before", micros(before))}})
}
