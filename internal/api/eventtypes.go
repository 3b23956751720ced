package api

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// viewEventType returns an event type in the form of a response.
func viewEventType(t postrider.EventType) apitypes.EventType {
	view := apitypes.EventType{Name: t.Name, Description: t.Description, CreatedAt: instant(t.CreatedAt)}
	if len(t.Example) > 0 { // no bytes are no JSON, nil is null
		view.Example = t.Example
	}
	return view
}

// maxExample is the largest example of an event type, in bytes. Lists have the examples,
// so it keeps a page of the largest size below 2 MiB.
const maxExample = 8 << 10

// checkExample returns the fault of an example that is too large.
func checkExample(example []byte) error {
	if len(example) > maxExample {
		return tooLong("example", maxExample, "must have at most "+strconv.Itoa(maxExample)+" bytes")
	}
	return nil
}

// eventTypePath has the path parameter that names an event type.
type eventTypePath struct {
	Name string `path:"name"`
}

// Store is the part of the store that this package reads and changes.
type eventtypesStore interface {
	// EventTypes is the method of store.Catalogue.
	EventTypes(ctx context.Context, q store.EventTypeQuery) (store.Page[postrider.EventType], error)
	// PutEventType is the method of store.Catalogue.
	PutEventType(ctx context.Context, t postrider.EventType) error
	// DeleteEventType is the method of store.Catalogue.
	DeleteEventType(ctx context.Context, name string) error
	// Now is the method of store.Upkeep.
	Now(ctx context.Context) (time.Time, error)
}

// Routes serves the catalogue of event types.
type eventtypesRoutes struct{ Store eventtypesStore }

// Register registers the routes of the catalogue. The catalogue is
// documentation: a publish does not need a type to be in it.
func (s *eventtypesRoutes) Register(rt *router) {
	admin, read := postrider.ScopeAdmin, postrider.ScopeWebhooksRead
	handle(rt, route{
		name: "create-event-type", path: "POST /event-types",
		summary: "Add an event type to the catalogue",
		codes:   []string{"event_type_exists"},
		scope:   admin, status: 201, body: apitypes.EventTypeCreate{},
	}, s.createEventType)
	handle(rt, route{
		name: "list-event-types", path: "GET /event-types",
		summary: "List the catalogue of event types, by name",
		scope:   read,
	}, s.listEventTypes)
	handle(rt, route{
		name: "get-event-type", path: "GET /event-types/{name}",
		summary: "Get an event type",
		scope:   read,
	}, s.getEventType)
	handle(rt, route{
		name: "update-event-type", path: "PATCH /event-types/{name}",
		summary:     "Change an event type",
		description: "A field that is left out keeps its value. Null removes it.",
		scope:       admin, body: apitypes.EventTypeUpdate{},
	}, s.changeEventType)
	handle(rt, route{
		name: "delete-event-type", path: "DELETE /event-types/{name}",
		summary: "Delete an event type from the catalogue",
		scope:   admin, status: 204,
	}, s.deleteEventType)
}

// createEventType adds an event type to the catalogue. A name that exists is a
// conflict, because a POST must not replace a description.
func (s *eventtypesRoutes) createEventType(ctx context.Context, _ *none) (*reply[apitypes.EventType], error) {
	var body apitypes.EventTypeCreate
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	if err := postrider.CheckType("name", body.Name); err != nil {
		return nil, errors.Join(err, checkText("description", body.Description, maxDescription), checkExample(body.Example))
	}
	if string(body.Example) == "null" {
		body.Example = nil
	}
	switch _, err := s.Find(ctx, body.Name); {
	case err == nil:
		return nil, conflict("event_type_exists", "the catalogue has this event type already")
	case !errors.Is(err, postrider.ErrNotFound):
		return nil, err
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	return s.putEventType(ctx, postrider.EventType{Name: body.Name, Description: body.Description, Example: body.Example, CreatedAt: now})
}

func (s *eventtypesRoutes) listEventTypes(ctx context.Context, in *Paging) (*reply[apitypes.Page[apitypes.EventType]], error) {
	return respondPage(viewEventType)(s.Store.EventTypes(ctx, store.EventTypeQuery{Paging: in.of()}))
}

func (s *eventtypesRoutes) getEventType(ctx context.Context, in *eventTypePath) (*reply[apitypes.EventType], error) {
	return respondWith(viewEventType)(s.Find(ctx, in.Name))
}

// changeEventType changes the description and the example. Null removes them.
func (s *eventtypesRoutes) changeEventType(ctx context.Context, in *eventTypePath) (*reply[apitypes.EventType], error) {
	var body apitypes.EventTypeUpdate
	if err := decode(ctx, &body); err != nil {
		return nil, err
	}
	t, err := s.Find(ctx, in.Name)
	if err != nil {
		return nil, err
	}
	was := t
	set(&t.Description, body.Description, "")
	set((*json.RawMessage)(&t.Example), body.Example, nil)
	infoOf(ctx).changed(viewEventType(was), viewEventType(t))
	return s.putEventType(ctx, t)
}

// deleteEventType removes an event type from the catalogue. Events of the type
// are not affected.
func (s *eventtypesRoutes) deleteEventType(ctx context.Context, in *eventTypePath) (*none, error) {
	if _, err := s.Find(ctx, in.Name); err != nil {
		return nil, err
	}
	return nil, s.Store.DeleteEventType(ctx, in.Name)
}

// putEventType validates and stores an event type, and returns the stored
// state.
func (s *eventtypesRoutes) putEventType(ctx context.Context, t postrider.EventType) (*reply[apitypes.EventType], error) {
	if err := errors.Join(checkText("description", t.Description, maxDescription), checkExample(t.Example)); err != nil {
		return nil, err
	}
	if err := s.Store.PutEventType(ctx, t); err != nil {
		return nil, err
	}
	return respondWith(viewEventType)(s.Find(ctx, t.Name))
}

// Find returns the event type with this name. An invalid name is not
// found. It never reaches the store, where an empty name would be no filter.
func (s *eventtypesRoutes) Find(ctx context.Context, name string) (postrider.EventType, error) {
	if postrider.CheckType("name", name) != nil {
		return postrider.EventType{}, postrider.ErrNotFound
	}
	return store.First(s.Store.EventTypes(ctx, store.EventTypeQuery{Name: name}))
}
