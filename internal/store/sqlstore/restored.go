package sqlstore

import (
	"context"

	"github.com/postrider/postrider/internal/store"
)

// The statement walks the primary key.
const putRestoredSQL = `
	insert into restored_records (id, number, kind, account, event, endpoint, type, record, at)
	values (@id, @number, @kind, @account, @event, @endpoint, @type, @record, @at)
	on conflict (id, number, kind) do update set record = excluded.record, at = excluded.at`

// PutRestored stores records; see [store.Restored].
func (v Verbs) PutRestored(ctx context.Context, records []store.RestoredRecord) (err error) {
	defer v.calls.Begin("PutRestored").End(&err, "put restored records")
	rows := make([]Args, len(records))
	for i, r := range records {
		rows[i] = Args{
			"id": r.ID, "number": r.Number, "kind": r.Kind, "account": r.Account, "event": r.Event, "endpoint": r.Endpoint,
			"type": r.Type, "record": append([]byte{}, r.Record...), "at": r.At,
		}
	}
	return v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		_, err := tx.ExecAll(ctx, putRestoredSQL, rows)
		return err
	})
}

const restoredSQL = `
	select id, number, kind, account, event, endpoint, type, record, at
	from restored_records`

// RestoredRecords lists restored records; see [store.Restored]. There are few of them, so there
// is no index for the endpoint.
func (v Verbs) RestoredRecords(ctx context.Context, q store.RestoredQuery) (page store.Page[store.RestoredRecord], err error) {
	defer v.calls.Begin("RestoredRecords").End(&err, "list restored records")
	after, err := store.RestoredAfter(q.Paging)
	if err != nil {
		return page, err
	}
	l := newList(v.db, restoredSQL, "id, number, kind", q.Size()+1)
	l.and("(id, number, kind) > (@id::uuid, @number::int, @kind::text)", Args{"id": after.ID, "number": after.Number, "kind": after.Kind})
	by(l, "event", q.Event)
	by(l, "account", q.Account)
	if !q.Endpoint.IsZero() {
		l.and("endpoint = @endpoint", Args{"endpoint": q.Endpoint})
	}
	records, err := all(ctx, v.db, l.query(), func(row Row, r *store.RestoredRecord) error {
		return row.Scan(&r.ID, &r.Number, &r.Kind, &r.Account, &r.Event, &r.Endpoint, &r.Type, &r.Record, &r.At)
	})
	return store.Cut(records, q.Paging, store.RestoredKey), err
}
