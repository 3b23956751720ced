package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// inspections_pkey keeps the first of two with one id, so a repeat after a lost reply
// stores nothing more.
const putInspectionSQL = `
	insert into inspections (id, endpoint, delivery, event, type, attempt, document, body, body_bytes)
	values (@id, @endpoint, @delivery, @event, @type, @attempt, @document, @body, @body_bytes)
	on conflict (id) do nothing`

// Deletes the requests of the endpoint that are older than the newest hundred. Walks
// inspections_endpoint twice: to the hundredth, and on from there.
const trimInspectionsSQL = `
	delete from inspections
	where endpoint = @endpoint and id < (
		select i.id
		from inspections i
		where i.endpoint = @endpoint
		order by i.id desc
		offset @kept - 1
		limit 1)`

// PutInspection stores a request of an inspector and deletes the oldest beyond a hundred.
func (s *Store) PutInspection(ctx context.Context, i postrider.Inspection) error {
	document, err := store.EncodeInspection(i)
	if err != nil {
		return err
	}
	err = s.repeat(ctx, func(bool) error {
		b := &pgx.Batch{}
		b.Queue(putInspectionSQL, pgx.NamedArgs{
			"id": someUUID(i.ID), "endpoint": someUUID(i.Endpoint), "delivery": someUUID(i.Delivery), "event": someUUID(i.Event),
			"type": i.EventType, "attempt": i.Attempt, "document": string(document), "body": bytesOrNull(i.Body), "body_bytes": i.BodyBytes,
		})
		b.Queue(trimInspectionsSQL, pgx.NamedArgs{"endpoint": someUUID(i.Endpoint), "kept": postrider.InspectionsKept})
		return s.pool.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return fmt.Errorf("put inspection %s: %w", i.ID, err)
	}
	return nil
}

// Walks inspections_endpoint backwards, or inspections_pkey by id.
const inspectionsSQL = `
	select i.id, i.endpoint, i.delivery, i.event, i.type, i.attempt, i.document, i.body_bytes,
		case when @id::uuid is not null then i.body end
	from inspections i
	where i.endpoint = @endpoint and i.id >= @from and i.id < @before
		and (@id::uuid is null or i.id = @id)
	order by i.id desc
	limit @limit`

// Inspections lists the requests of an inspector endpoint, newest first.
func (s *Store) Inspections(ctx context.Context, q store.InspectionQuery) (store.Page[postrider.Inspection], error) {
	from, before, err := within[postrider.InspectionID](store.Span{From: s.forgotten()}, q.Paging)
	if err != nil {
		return store.Page[postrider.Inspection]{}, err
	}
	inspections, err := list(ctx, s, query{inspectionsSQL, pgx.NamedArgs{
		"endpoint": someUUID(q.Endpoint), "id": uuid(q.ID), "from": from, "before": before, "limit": q.Size() + 1,
	}}, func(row pgx.CollectableRow) (i postrider.Inspection, err error) {
		var document []byte
		err = row.Scan(toID(&i.ID), toID(&i.Endpoint), toID(&i.Delivery), toID(&i.Event), &i.EventType, &i.Attempt, &document,
			&i.BodyBytes, &i.Body)
		if err == nil {
			err = store.SetInspection(&i, document)
		}
		return i, err
	})
	if err != nil {
		return store.Page[postrider.Inspection]{}, fmt.Errorf("list inspections: %w", err)
	}
	return store.Cut(inspections, q.Paging, func(i postrider.Inspection) string { return string(i.ID[:]) }), nil
}

// Walks inspections_pkey from its start: ids carry their time.
const forgetInspectionsSQL = `
	delete from inspections
	where id in (
		select i.id
		from inspections i
		where i.id < @before
		order by i.id
		limit @limit)`

// ForgetInspections deletes requests of inspectors that are too old.
func (s *Store) ForgetInspections(ctx context.Context, limit int) (int, error) {
	before := postrider.MakeID[postrider.InspectionID](s.forgotten(), [10]byte{})
	tag, err := s.pool.Exec(ctx, forgetInspectionsSQL, pgx.NamedArgs{"before": someUUID(before), "limit": limit})
	if err != nil {
		return 0, fmt.Errorf("forget inspections: %w", err)
	}
	return int(tag.RowsAffected()), nil
}

// forgotten returns the time before which requests of inspectors are too old.
func (s *Store) forgotten() time.Time { return s.clock.Wall().Add(-postrider.InspectionKeptFor) }
