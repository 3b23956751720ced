package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The key of inspections keeps the first of two requests with one id. The oldest beyond a
// hundred are found by inspections_endpoint.
const (
	putInspectionSQL = `
	insert into inspections (id, endpoint, delivery, event, type, attempt, document, body, body_bytes)
	values (@id, @endpoint, @delivery, @event, @type, @attempt, @document, @body, @body_bytes)
	on conflict (id) do nothing`
	trimInspectionsSQL = `
	delete from inspections
	where endpoint = @endpoint and id < (
		select id from inspections where endpoint = @endpoint order by id desc limit 1 offset @kept - 1)`
)

// PutInspection stores a request of an inspector; see [store.Inspections].
func (s *Store) PutInspection(ctx context.Context, i postrider.Inspection) error {
	document, err := store.EncodeInspection(i)
	if err != nil {
		return s.explain("put inspection", err)
	}
	return change(ctx, s, "put inspection", func(ctx context.Context, tx *tx) error {
		err := tx.exec(ctx, putInspectionSQL, sql.Named("id", blob(i.ID)), sql.Named("endpoint", blob(i.Endpoint)),
			sql.Named("delivery", blob(i.Delivery)), sql.Named("event", blob(i.Event)), sql.Named("type", i.EventType),
			sql.Named("attempt", i.Attempt), sql.Named("document", string(document)), sql.Named("body", bytesOrNull(i.Body)),
			sql.Named("body_bytes", i.BodyBytes))
		if err != nil {
			return err
		}
		return tx.exec(ctx, trimInspectionsSQL, sql.Named("endpoint", blob(i.Endpoint)), sql.Named("kept", postrider.InspectionsKept))
	})
}

// The requests of an endpoint by inspections_endpoint, one request by the key.
const (
	inspectionsSQL = `
	select id, endpoint, delivery, event, type, attempt, document, body_bytes, null from inspections
	where endpoint = @endpoint and id >= @from and id < @below
	order by id desc limit @limit`
	inspectionSQL = `
	select id, endpoint, delivery, event, type, attempt, document, body_bytes, body from inspections
	where id = @id and endpoint = @endpoint and id >= @from and id < @below limit @limit`
)

// Inspections lists requests of an inspector; see [store.Inspections].
func (s *Store) Inspections(ctx context.Context, q store.InspectionQuery) (store.Page[postrider.Inspection], error) {
	args, err := window[postrider.InspectionID](store.Span{From: s.forgotten()}, q.Paging)
	if err != nil {
		return store.Page[postrider.Inspection]{}, err
	}
	statement := inspectionsSQL
	if !q.ID.IsZero() {
		statement = inspectionSQL
	}
	args = append(args, sql.Named("endpoint", blob(q.Endpoint)), sql.Named("id", blobOrNull(q.ID)))
	inspections, err := list(ctx, s, query{statement, args}, func(rows *sql.Rows, i *postrider.Inspection) error {
		var document string
		err := rows.Scan(toID(&i.ID), toID(&i.Endpoint), toID(&i.Delivery), toID(&i.Event), &i.EventType, &i.Attempt, &document,
			&i.BodyBytes, &i.Body)
		if err != nil {
			return err
		}
		return store.SetInspection(i, []byte(document))
	})
	return store.Cut(inspections, q.Paging, func(i postrider.Inspection) string { return key(i.ID) }), s.explain("list inspections", err)
}

// By the key of inspections, from its start: ids carry their time.
const forgetInspectionsSQL = `
	delete from inspections where id in (select id from inspections where id < @before order by id limit @limit)`

// ForgetInspections deletes requests of inspectors that are too old; see
// [store.Inspections].
func (s *Store) ForgetInspections(ctx context.Context, limit int) (int, error) {
	before := postrider.MakeID[postrider.InspectionID](s.forgotten(), [10]byte{})
	return write(ctx, s, "forget inspections", func(ctx context.Context, tx *tx) (int, error) {
		n, err := tx.count(ctx, forgetInspectionsSQL, sql.Named("before", blob(before)), sql.Named("limit", limit))
		return int(n), err
	})
}

// forgotten returns the time before which requests of inspectors are too old.
func (s *Store) forgotten() time.Time { return s.clock.Wall().Add(-postrider.InspectionKeptFor) }
