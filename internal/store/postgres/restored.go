package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/store"
)

// Walks restored_records_pkey.
const putRestoredSQL = `
	insert into restored_records (id, number, kind, account, event, endpoint, type, record, at)
	values (@id, @number, @kind, @account, @event, @endpoint, @type, @record, @at)
	on conflict (id, number, kind) do update
	set record = excluded.record, at = excluded.at`

// PutRestored stores records, in one transaction.
func (s *Store) PutRestored(ctx context.Context, records []store.RestoredRecord) error {
	err := s.repeat(ctx, func(bool) error {
		b := &pgx.Batch{}
		for _, r := range records {
			b.Queue(putRestoredSQL, pgx.NamedArgs{
				"id": someUUID(r.ID), "number": r.Number, "kind": string(r.Kind), "account": someUUID(r.Account), "event": someUUID(r.Event),
				"endpoint": someUUID(r.Endpoint), "type": r.Type, "record": r.Record, "at": r.At,
			})
		}
		return s.pool.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return fmt.Errorf("put restored records: %w", err)
	}
	return nil
}

// Walks restored_records_event, restored_records_account or restored_records_pkey. Restored
// records are few, so an endpoint has no index.
const restoredSQL = `
	select r.id, r.number, r.kind, r.account, r.event, r.endpoint, r.type, r.record, r.at
	from restored_records r
	where (r.id, r.number, r.kind) > (@id::uuid, @number::int, @kind)
		and (@event::uuid is null or r.event = @event)
		and (@account::uuid is null or r.account = @account)
		and (@endpoint::uuid is null or r.endpoint = @endpoint)
	order by r.id, r.number, r.kind
	limit @limit`

// RestoredRecords lists restored records.
func (s *Store) RestoredRecords(ctx context.Context, q store.RestoredQuery) (store.Page[store.RestoredRecord], error) {
	after, err := store.RestoredAfter(q.Paging)
	if err != nil {
		return store.Page[store.RestoredRecord]{}, err
	}
	records, err := list(ctx, s, query{restoredSQL, pgx.NamedArgs{
		"id": someUUID(after.ID), "number": after.Number, "kind": string(after.Kind), "event": uuid(q.Event), "account": uuid(q.Account),
		"endpoint": uuid(q.Endpoint), "limit": q.Size() + 1,
	}}, func(row pgx.CollectableRow) (r store.RestoredRecord, err error) {
		err = row.Scan(toID(&r.ID), &r.Number, &r.Kind, toID(&r.Account), toID(&r.Event), toID(&r.Endpoint), &r.Type, &r.Record, toTime(&r.At))
		return r, err
	})
	if err != nil {
		return store.Page[store.RestoredRecord]{}, fmt.Errorf("list restored records: %w", err)
	}
	return store.Cut(records, q.Paging, store.RestoredKey), nil
}

// Walks restored_records_at.
const forgetRestoredSQL = `
	with old as materialized (
		select r.ctid as at
		from restored_records r
		where r.at < @before
		order by r.at
		limit @limit
		for update skip locked
	), forgotten as (
		delete from restored_records r
		using old
		where r.ctid = old.at
	)
	select count(*) from old`

// ForgetRestored deletes restored records.
func (s *Store) ForgetRestored(ctx context.Context, before time.Time, limit int) (int, error) {
	return s.upkeep(ctx, "forget restored records", forgetRestoredSQL, pgx.NamedArgs{"before": before, "limit": limit})
}
