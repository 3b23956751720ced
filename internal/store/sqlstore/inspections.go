package sqlstore

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

const (
	// A repeat stores nothing more: if two requests have the same id, the primary key keeps the
	// first.
	putInspectionSQL = `
	insert into inspections (id, endpoint, delivery, event, type, attempt, document, body, body_bytes)
	values (@id, @endpoint, @delivery, @event, @type, @attempt, @document, @body, @body_bytes)
	on conflict (id) do nothing`

	// trimInspectionsSQL deletes all requests of the endpoint but the newest hundred. It walks
	// inspections_endpoint twice: to the hundredth request, and from there to the end.
	trimInspectionsSQL = `
	delete from inspections
	where endpoint = @endpoint and id < (
		select i.id
		from inspections i
		where i.endpoint = @endpoint
		order by i.id desc
		limit 1 offset @kept)`
)

// PutInspection stores a request of an inspector, and deletes all requests of its endpoint but
// the newest hundred; see [store.Inspections].
func (v Verbs) PutInspection(ctx context.Context, i postrider.Inspection) (err error) {
	defer v.calls.Begin("PutInspection").End(&err, "put inspection %s", i.ID)
	document, err := store.EncodeInspection(i)
	if err != nil {
		return err
	}
	return v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		_, err := tx.Exec(ctx, Query{putInspectionSQL, Args{
			"id": i.ID, "endpoint": i.Endpoint, "delivery": i.Delivery, "event": i.Event, "type": i.EventType, "attempt": i.Attempt,
			"document": string(document), "body": bytesOrNull(i.Body), "body_bytes": i.BodyBytes,
		}})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, Query{trimInspectionsSQL, Args{"endpoint": i.Endpoint, "kept": postrider.InspectionsKept - 1}})
		return err
	})
}

// bytesOrNull returns the bytes as an argument, or null if there are none.
func bytesOrNull(b []byte) any {
	if len(b) == 0 {
		return nil
	}
	return b
}

const (
	inspectionsSQL = `
	select id, endpoint, delivery, event, type, attempt, document, body_bytes, null
	from inspections`

	// inspectionSQL reads one request, with its body.
	inspectionSQL = `
	select id, endpoint, delivery, event, type, attempt, document, body_bytes, body
	from inspections`
)

// Inspections lists the requests of an inspector, newest first; see [store.Inspections].
func (v Verbs) Inspections(ctx context.Context, q store.InspectionQuery) (page store.Page[postrider.Inspection], err error) {
	defer v.calls.Begin("Inspections").End(&err, "list inspections")
	rows := inspectionsSQL
	if !q.ID.IsZero() {
		rows = inspectionSQL
	}
	l, err := listOf[postrider.InspectionID](v.db, rows, store.Span{From: v.forgotten()}, q.Paging)
	if err != nil {
		return page, err
	}
	by(l, "id", q.ID)
	l.and("endpoint = @endpoint", Args{"endpoint": q.Endpoint})
	return pageOf(ctx, l, func(row Row, i *postrider.Inspection) error {
		var document []byte
		err := row.Scan(&i.ID, &i.Endpoint, &i.Delivery, &i.Event, &i.EventType, &i.Attempt, &document, &i.BodyBytes, &i.Body)
		if err != nil {
			return err
		}
		return store.SetInspection(i, document)
	}, func(i *postrider.Inspection) postrider.InspectionID { return i.ID })
}

// The statement walks the primary key from its start. That works because ids contain their time.
const forgetInspectionsSQL = `
	delete from inspections
	where id in (
		select i.id
		from inspections i
		where i.id < @before
		order by i.id
		limit @limit)`

// ForgetInspections deletes the requests of inspectors that are too old; see [store.Inspections].
func (v Verbs) ForgetInspections(ctx context.Context, limit int) (_ int, err error) {
	defer v.calls.Begin("ForgetInspections").End(&err, "forget inspections")
	n, err := v.db.Exec(ctx, Once, Query{forgetInspectionsSQL, Args{"before": firstID[postrider.InspectionID](v.forgotten()), "limit": limit}})
	return int(n), err
}

// forgotten returns the time before which a request of an inspector is too old.
func (v Verbs) forgotten() time.Time { return v.db.Clock().Wall().Add(-postrider.InspectionKeptFor) }
