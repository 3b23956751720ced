// Package eventtypes is the part of the API that serves the catalogue of event types. It documents the
// types, and names the paths by whose values events are found. An event may have a type that the catalogue
// lacks.
package eventtypes

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	store.Catalogue

	// Now returns the store's time.
	Now(ctx context.Context) (time.Time, error)
}

// Routes serves the catalogue of event types.
type Routes struct{ Store Store }

// Register registers the routes of the catalogue.
func (s *Routes) Register(rt *rest.Router) {
	admin, read := postrider.ScopeAdmin, postrider.ScopeWebhooksRead
	rest.HandleBody(rt, rest.Route{
		Name: "create-event-type", Path: "POST /event-types",
		Summary: "Add an event type to the catalogue",
		Codes:   []string{"event_type_exists"},
		Scope:   admin, Status: 201,
	}, s.createEventType)
	rest.Handle(rt, rest.Route{
		Name: "list-event-types", Path: "GET /event-types",
		Summary: "List the catalogue of event types, by name",
		Scope:   read,
	}, s.listEventTypes)
	rest.Handle(rt, rest.Route{
		Name: "get-event-type", Path: "GET /event-types/{name}",
		Summary: "Get an event type",
		Scope:   read,
	}, s.getEventType)
	rest.HandleBody(rt, rest.Route{
		Name: "update-event-type", Path: "PATCH /event-types/{name}",
		Summary:     "Change an event type",
		Description: "A field that is left out keeps its value. Null removes it.",
		Codes:       []string{"conflict"},
		Scope:       admin, Conditional: true,
	}, s.changeEventType)
	rest.HandleBody(rt, rest.Route{
		Name: "put-event-type", Path: "PUT /event-types/{name}",
		Summary:     "Add an event type to the catalogue, or replace it",
		Description: "A field that is left out gets its default. Repeated, it changes nothing more.",
		Codes:       []string{"conflict"},
		Scope:       admin, Conditional: true, Creates: true,
	}, s.replaceEventType)
	rest.Handle(rt, rest.Route{
		Name: "delete-event-type", Path: "DELETE /event-types/{name}",
		Summary: "Delete an event type from the catalogue",
		Scope:   admin, Status: 204,
	}, s.deleteEventType)
}

// viewEventType returns an event type in the form of a response.
func viewEventType(t postrider.EventType) apitypes.EventType {
	view := apitypes.EventType{
		Name: t.Name, Description: t.Description, Revision: t.Revision, CreatedAt: render.Instant(t.CreatedAt),
		Paths: make([]apitypes.IndexedPath, len(t.Paths)),
	}
	for i, p := range t.Paths {
		view.Paths[i] = apitypes.IndexedPath{Path: p.Path, Since: render.Instant(p.Since)}
	}
	if len(t.Example) > 0 { // an empty slice is not valid JSON; nil becomes null
		view.Example = t.Example
	}
	return view
}

// maxExample is the largest example of an event type, in bytes. Lists include the examples. The
// limit keeps a page of the largest size below 2 MiB.
const maxExample = 8 << 10

// checkExample returns a fault if the example is too large.
func checkExample(example []byte) error {
	if len(example) > maxExample {
		return rest.TooLong("example", maxExample, "must have at most "+strconv.Itoa(maxExample)+" bytes")
	}
	return nil
}

// check returns all faults of an event type but those of its name.
func check(t postrider.EventType) error {
	return errors.Join(rest.CheckText("description", t.Description, rest.MaxDescription), checkExample(t.Example),
		postrider.CheckIndexedPaths("paths", texts(t)))
}

// eventTypePath has the path parameter that names an event type.
type eventTypePath struct {
	Name string `path:"name"`
}

// createEventType adds an event type to the catalogue. If the name exists, the response is a
// conflict, because a POST must not replace an event type.
func (s *Routes) createEventType(
	ctx context.Context, _ *rest.None, body apitypes.EventTypeCreate,
) (*rest.Reply[apitypes.EventType], error) {
	if err := postrider.CheckType("name", body.Name); err != nil {
		return nil, errors.Join(err, check(postrider.EventType{Description: body.Description, Example: body.Example, Paths: indexed(body.Paths)}))
	}
	if string(body.Example) == "null" {
		body.Example = nil
	}
	now, err := s.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	t := postrider.EventType{
		Name: body.Name, Description: body.Description, Example: body.Example, CreatedAt: now, Paths: indexed(body.Paths),
	}
	reply, err := s.putEventType(ctx, t)
	if errors.Is(err, postrider.ErrConflict) {
		return nil, rest.Conflict("event_type_exists", "the catalogue has this event type already")
	}
	return reply, err
}

// indexed returns paths without their times, which the store sets.
func indexed(paths []string) (list []postrider.IndexedPath) {
	for _, p := range paths {
		list = append(list, postrider.IndexedPath{Path: p})
	}
	return list
}

// texts returns the paths of an event type.
func texts(t postrider.EventType) []string {
	paths := make([]string, len(t.Paths))
	for i, p := range t.Paths {
		paths[i] = p.Path
	}
	return paths
}

func (s *Routes) listEventTypes(ctx context.Context, in *rest.Paging) (*rest.Reply[apitypes.Page[apitypes.EventType]], error) {
	return rest.RespondPage(viewEventType)(s.Store.EventTypes(ctx, store.EventTypeQuery{Paging: in.Of()}))
}

func (s *Routes) getEventType(ctx context.Context, in *eventTypePath) (*rest.Reply[apitypes.EventType], error) {
	return rest.RespondWith(viewEventType)(s.Find(ctx, in.Name))
}

// changeEventType changes the fields that the body names. Null removes a value.
func (s *Routes) changeEventType(
	ctx context.Context, in *eventTypePath, body apitypes.EventTypeUpdate,
) (*rest.Reply[apitypes.EventType], error) {
	return rest.RetryConflicts(func() (*rest.Reply[apitypes.EventType], error) {
		was, err := s.Find(ctx, in.Name)
		if err != nil {
			return nil, err
		}
		return s.replace(ctx, was, was, body)
	})
}

// replaceEventType adds the event type to the catalogue, or replaces it. Of two requests at once that
// add it, one is refused by the store and then finds the event type of the other.
func (s *Routes) replaceEventType(
	ctx context.Context, in *eventTypePath, body apitypes.EventTypePut,
) (*rest.Reply[apitypes.EventType], error) {
	if err := postrider.CheckType("name", in.Name); err != nil {
		return nil, err
	}
	return rest.RetryConflicts(func() (*rest.Reply[apitypes.EventType], error) {
		was, err := s.Find(ctx, in.Name)
		if errors.Is(err, postrider.ErrNotFound) {
			was.Name = in.Name
			was.CreatedAt, err = s.Store.Now(ctx)
		}
		if err != nil {
			return nil, err
		}
		is := postrider.EventType{Name: was.Name, Revision: was.Revision, CreatedAt: was.CreatedAt}
		return s.replace(ctx, was, is, apitypes.EventTypeUpdate(body))
	})
}

// replace applies a change to an event type, and stores it in the place of another one, whose Revision
// is 0 if there is none yet. An event type that stays as it is is not stored.
func (s *Routes) replace(
	ctx context.Context, was, is postrider.EventType, change apitypes.EventTypeUpdate,
) (*rest.Reply[apitypes.EventType], error) {
	if err := rest.IfMatch(ctx, was.Revision); err != nil {
		return nil, err
	}
	rest.Set(&is.Description, change.Description, "")
	rest.Set((*json.RawMessage)(&is.Example), change.Example, nil)
	paths := texts(is)
	rest.Set(&paths, change.Paths, nil)
	slices.Sort(paths) // as the store returns them
	is.Paths = was.Paths
	before, after := viewEventType(was), viewEventType(is)
	if was.Revision > 0 {
		rest.InfoOf(ctx).Changed(before, after)
	}
	unchanged := reflect.DeepEqual(before, after)
	if !slices.Equal(paths, texts(was)) {
		unchanged, is.Paths = false, indexed(paths)
		rest.InfoOf(ctx).Note("paths", strings.Join(texts(was), " ")+" → "+strings.Join(paths, " "))
	}
	if was.Revision > 0 && unchanged {
		return rest.Respond(before), nil
	}
	reply, err := s.putEventType(ctx, is)
	if err == nil && was.Revision == 0 {
		rest.InfoOf(ctx).Created()
	}
	return reply, err
}

// deleteEventType removes an event type from the catalogue. It does not affect events of the type.
func (s *Routes) deleteEventType(ctx context.Context, in *eventTypePath) (*rest.None, error) {
	if _, err := s.Find(ctx, in.Name); err != nil {
		return nil, err
	}
	return nil, s.Store.DeleteEventType(ctx, in.Name)
}

// putEventType validates and stores an event type, and returns the stored event type.
func (s *Routes) putEventType(ctx context.Context, t postrider.EventType) (*rest.Reply[apitypes.EventType], error) {
	if err := check(t); err != nil {
		return nil, err
	}
	if err := s.Store.PutEventType(ctx, t); err != nil {
		return nil, err
	}
	return rest.RespondWith(viewEventType)(s.Find(ctx, t.Name))
}

// Find returns the event type with this name. For an invalid name it returns postrider.ErrNotFound
// without asking the store, where an empty name would be no filter.
func (s *Routes) Find(ctx context.Context, name string) (postrider.EventType, error) {
	if postrider.CheckType("name", name) != nil {
		return postrider.EventType{}, postrider.ErrNotFound
	}
	return store.First(s.Store.EventTypes(ctx, store.EventTypeQuery{Name: name}))
}
