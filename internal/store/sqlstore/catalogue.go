package sqlstore

import (
	"context"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// All statements walk the primary key. SQLite compares texts by bytes, as PostgreSQL does with
// the collation "C".
const (
	putEventTypeSQL = `
	insert into event_types (name, description, example, created_at)
	values (@name, @description, @example, now())
	on conflict (name) do update set description = excluded.description, example = excluded.example`
	eventTypesSQL = `
	select name, description, example, created_at
	from event_types
	where name > @after
	order by name
	limit @limit`
	eventTypeSQL = `
	select name, description, example, created_at
	from event_types
	where name = @name and name > @after
	limit @limit`
	deleteEventTypeSQL = `delete from event_types where name = @name`
)

// PutEventType creates or changes an event type; see [store.Catalogue].
func (v Verbs) PutEventType(ctx context.Context, t postrider.EventType) (err error) {
	defer v.calls.Begin("PutEventType").End(&err, "put event type")
	return v.exec(ctx, Repeatable, Query{putEventTypeSQL, Args{
		"name": t.Name, "description": t.Description, "example": string(t.Example),
	}})
}

// EventTypes lists event types, sorted by name; see [store.Catalogue].
func (v Verbs) EventTypes(ctx context.Context, q store.EventTypeQuery) (page store.Page[postrider.EventType], err error) {
	defer v.calls.Begin("EventTypes").End(&err, "list event types")
	after, err := q.Key()
	if err != nil {
		return page, err
	}
	query := Query{eventTypesSQL, Args{"after": after, "limit": q.Size() + 1}}
	if q.Name != "" {
		query.SQL, query.Args["name"] = eventTypeSQL, q.Name
	}
	types, err := all(ctx, v.db, query, func(row Row, t *postrider.EventType) error {
		return row.Scan(&t.Name, &t.Description, &t.Example, &t.CreatedAt)
	})
	return store.Cut(types, q.Paging, func(t postrider.EventType) string { return t.Name }), err
}

// DeleteEventType deletes an event type from the catalogue; see [store.Catalogue].
func (v Verbs) DeleteEventType(ctx context.Context, name string) (err error) {
	defer v.calls.Begin("DeleteEventType").End(&err, "delete event type")
	return found(v.db.Exec(ctx, Repeatable, Query{deleteEventTypeSQL, Args{"name": name}}))
}
