package sqlstore

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// All statements walk the primary key, or event_types_paths. SQLite compares texts by bytes, as
// PostgreSQL does with the collation "C".
var putEventType = revised{
	insert: `
	insert into event_types (name, description, example, revision, created_at, paths)
	values (@name, @description, @example, 1, now(), @paths)
	on conflict (name) do nothing`,
	update: `
	update event_types
	set description = @description, example = @example, paths = @paths, revision = revision + 1
	where name = @name and revision = @revision`,
	live: `
	select 1
	from event_types
	where name = @name`,
}

const (
	eventTypesSQL = `
	select name, description, example, revision, created_at, paths
	from event_types
	where name > @after
	order by name
	limit @limit`
	indexedTypesSQL = `
	select name, '', '', revision, created_at, paths
	from event_types /* indexed by event_types_paths */
	where name > @after and paths is not null
	order by name
	limit @limit`
	eventTypeSQL = `
	select name, description, example, revision, created_at, paths
	from event_types
	where name = @name and name > @after
	limit @limit`
	deleteEventTypeSQL = `delete from event_types where name = @name`
)

// PutEventType creates or changes an event type; see [store.Catalogue].
func (v Verbs) PutEventType(ctx context.Context, t postrider.EventType) (err error) {
	defer v.calls.Begin("PutEventType").End(&err, "put event type")
	return v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		paths, err := changePaths(ctx, tx, t)
		if err != nil {
			return err
		}
		return putEventType.put(ctx, tx, t.Revision, Args{
			"name": t.Name, "description": t.Description, "example": string(t.Example), "paths": paths, "revision": t.Revision,
		})
	})
}

// changePaths returns the paths of an event type as they are stored: the times since when, by path. If
// the paths change, it takes the next version of the subscriptions. So every node has the paths before it
// commits another event.
func changePaths(ctx context.Context, tx Tx, t postrider.EventType) (map[string]string, error) {
	stored, err := all(ctx, tx, Query{eventTypeSQL, Args{"name": t.Name, "after": "", "limit": 1}}, scanEventType)
	if err != nil {
		return nil, err
	}
	var was []postrider.IndexedPath
	if len(stored) > 0 {
		was = stored[0].Paths
	}
	paths, changed := store.IndexPaths(t.Paths, was, tx.Wall())
	if changed {
		if _, err := RaiseVersion(ctx, tx); err != nil {
			return nil, err
		}
	}
	var since map[string]string
	for _, p := range paths {
		if since == nil {
			since = map[string]string{}
		}
		since[p.Path] = p.Since.Format(time.RFC3339Nano)
	}
	return since, nil
}

func scanEventType(row Row, t *postrider.EventType) error {
	var since map[string]string
	if err := row.Scan(&t.Name, &t.Description, &t.Example, &t.Revision, &t.CreatedAt, &since); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(since)) {
		at, err := time.Parse(time.RFC3339Nano, since[path])
		if err != nil {
			return err
		}
		t.Paths = append(t.Paths, postrider.IndexedPath{Path: path, Since: at})
	}
	return nil
}

// EventTypes lists event types, sorted by name; see [store.Catalogue].
func (v Verbs) EventTypes(ctx context.Context, q store.EventTypeQuery) (page store.Page[postrider.EventType], err error) {
	defer v.calls.Begin("EventTypes").End(&err, "list event types")
	after, err := q.Key()
	if err != nil {
		return page, err
	}
	query := Query{eventTypesSQL, Args{"after": after, "limit": q.Size() + 1}}
	switch {
	case q.Name != "":
		query.SQL, query.Args["name"] = eventTypeSQL, q.Name
	case q.Indexed:
		query.SQL = indexedTypesSQL
	}
	types, err := all(ctx, v.db, query, scanEventType)
	return store.Cut(types, q.Paging, func(t postrider.EventType) string { return t.Name }), err
}

// DeleteEventType deletes an event type from the catalogue; see [store.Catalogue].
func (v Verbs) DeleteEventType(ctx context.Context, name string) (err error) {
	defer v.calls.Begin("DeleteEventType").End(&err, "delete event type")
	return v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		if _, err := changePaths(ctx, tx, postrider.EventType{Name: name}); err != nil {
			return err
		}
		return found(tx.Exec(ctx, Query{deleteEventTypeSQL, Args{"name": name}}))
	})
}
