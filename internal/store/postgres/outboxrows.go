package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/store"
)

// insertRowsSQL records rows of outboxes, and returns those that had no record. As insertKeysSQL does, it
// waits for other transactions that record one of the rows. So exactly one of parallel publishes of a row
// stores its event. The rows are sorted (see store.ReadRows). The statement walks outbox_rows_pkey.
const insertRowsSQL = `
	insert into outbox_rows (id, event, recorded_at)
	select r.id, r.event, now()
	from unnest(@rows::uuid[], @events::uuid[]) as r (id, event)
	on conflict (id) do nothing
	returning id, event`

// recordedRowsSQL reads the records of rows. It runs after insertRowsSQL, as keyOwnersSQL after insertKeysSQL.
// It walks outbox_rows_pkey.
const recordedRowsSQL = `
	select o.id, o.event
	from unnest(@rows::uuid[]) as r (id)
	cross join lateral (
		select o.id, o.event
		from outbox_rows o
		where o.id = r.id
		limit 1
	) o`

// The statement walks outbox_rows_pkey.
const dropRowsSQL = `delete from outbox_rows where id = any (@rows::uuid[])`

// insertRows queues the statements that record all rows of the publish, provisionally, and read the events
// of those that were recorded before. A publish without rows queues nothing. storeRows corrects the records.
func (t *publishing) insertRows(b *pgx.Batch) {
	if t.rows = store.ReadRows(t.Batches); len(t.rows) == 0 {
		return
	}
	t.recorded, t.recording = store.Recorded{}, store.Recorded{}
	columns := rowColumns(t.rows)
	b.Queue(insertRowsSQL, columns).Query(collectRows(t.recording))
	b.Queue(recordedRowsSQL, columns).Query(collectRows(t.recorded))
}

// rowColumns returns the rows as the columns of insertRowsSQL.
func rowColumns(rows []store.ReadRow) pgx.NamedArgs {
	var ids, events uuids
	for _, r := range rows {
		ids, events = append(ids, someUUID(r.ID)), append(events, someUUID(r.Event))
	}
	return pgx.NamedArgs{"rows": ids, "events": events}
}

// collectRows returns a function that reads records into the map.
func collectRows(into store.Recorded) func(pgx.Rows) error {
	return func(rows pgx.Rows) error {
		var r store.ReadRow
		_, err := pgx.ForEachRow(rows, []any{toID(&r.ID), toID(&r.Event)}, func() error {
			into[r.ID] = r.Event
			return nil
		})
		return err
	}
}

// storeRows queues the changes that turn the records of insertRows into those that Dedupe wants. If the
// batch of a row was refused, the row gets no record. If the idempotency key of the event belongs to an
// earlier event, the record names that one.
func (t *publishing) storeRows(b *pgx.Batch) {
	var drop, insert []store.ReadRow
	for _, r := range t.rows {
		mine, isMine := t.recording[r.ID]
		want, wanted := t.deduped.NewRows[r.ID]
		if !isMine || wanted && mine == want {
			continue
		}
		drop = append(drop, r)
		if wanted {
			insert = append(insert, store.ReadRow{ID: r.ID, Event: want})
		}
	}
	if len(drop) > 0 {
		b.Queue(dropRowsSQL, pgx.NamedArgs{"rows": rowColumns(drop)["rows"]})
	}
	if len(insert) > 0 {
		b.Queue(insertRowsSQL, rowColumns(insert))
	}
}
