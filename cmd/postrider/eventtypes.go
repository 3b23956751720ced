package main

import (
	"context"
	"slices"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// eventTypesCmd is the group of commands for the catalogue of event types. The
// catalogue is documentation for customers: a type can be published without an entry.
type eventTypesCmd struct {
	List   eventTypesListCmd   `cmd:"" help:"List the catalogue of event types, by name."`
	Get    eventTypesGetCmd    `cmd:"" help:"Show one event type."`
	Put    eventTypesPutCmd    `cmd:"" help:"Add an event type to the catalogue, or replace it. What has no flag gets its default."`
	Update eventTypesUpdateCmd `cmd:"" help:"Change an event type. What has no flag stays as it is."`
	Delete eventTypesDeleteCmd `cmd:"" help:"Remove an event type from the catalogue. Its events stay."`
}

// eventTypeTable shows the catalogue of event types.
var eventTypeTable = tableOf[apitypes.EventType]{
	[]string{"NAME", "CREATED", "DESCRIPTION", "PATHS"},
	func(e apitypes.EventType) []string {
		paths := make([]string, len(e.Paths))
		for i, p := range e.Paths {
			paths[i] = p.Path
		}
		return []string{e.Name, moment(&e.CreatedAt), e.Description, strings.Join(paths, ",")}
	},
}

type eventTypesListCmd struct {
	target `embed:""`
	paging `embed:""`
}

// Run lists the catalogue.
func (c *eventTypesListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, eventTypeTable.page, func(api *client.Client) (apitypes.Page[apitypes.EventType], error) {
		return api.EventTypes(ctx, c.page())
	})
}

// oneEventType holds the flags and the argument of commands for one event type.
type oneEventType struct {
	target `embed:""`

	Name string `arg:"" help:"The event type, for example order.created."`
}

type (
	eventTypesGetCmd    struct{ oneEventType }
	eventTypesDeleteCmd struct{ oneEventType }
)

// Run shows the event type.
func (c *eventTypesGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, eventTypeTable.one, func(api *client.Client) (apitypes.EventType, error) {
		return api.EventType(ctx, c.Name)
	})
}

// Run removes the event type from the catalogue. Published events keep their type.
func (c *eventTypesDeleteCmd) Run(ctx context.Context, t terminal) error {
	return change(t, c.target, c.Name+" is deleted", func(api *client.Client) error {
		return api.DeleteEventType(ctx, c.Name)
	})
}

// eventTypeFlags have what an event type consists of.
type eventTypeFlags struct {
	oneEventType
	revisionFlag `embed:""`

	Description *string  `placeholder:"TEXT" help:"A description for people."`
	Path        []string `placeholder:"PATH" help:"A path such as '$.order.number', by whose values events that are published from now on are found; several times for up to 5. They replace the paths of the type; none removes them."`
	Example     string   `placeholder:"JSON" help:"Data of an event of the type, for people who subscribe to it and for test events; @FILE reads a file, - reads stdin."`
}

// update returns the flags in the form of the API. It checks the name before the command calls the
// server, so that a mistake exits with 2.
func (c *eventTypeFlags) update(t terminal) (update apitypes.EventTypeUpdate, err error) {
	if err := postrider.CheckType("NAME", c.Name); err != nil {
		return update, misused("%v", err)
	}
	update.Description = apitypes.OfPointer(c.Description)
	switch {
	case slices.Contains(c.Path, "none"):
		update.Paths = apitypes.Null[[]string]()
	case len(c.Path) > 0:
		update.Paths = apitypes.Of(c.Path)
	}
	if c.Example != "" {
		example, err := readData(t, "--example", c.Example)
		if err != nil {
			return update, err
		}
		update.Example = apitypes.Of(example)
	}
	return update, nil
}

type (
	eventTypesPutCmd    struct{ eventTypeFlags }
	eventTypesUpdateCmd struct{ eventTypeFlags }
)

// Run adds or replaces the event type. A deployment script can run the command each time.
func (c *eventTypesPutCmd) Run(ctx context.Context, t terminal) error {
	put, err := c.update(t)
	if err != nil {
		return err
	}
	return ask(t, c.target, eventTypeTable.one, func(api *client.Client) (apitypes.EventType, error) {
		return c.on(api).PutEventType(ctx, c.Name, apitypes.EventTypePut(put))
	})
}

// Run changes the event type. A call without any flag is refused: it would change nothing and look
// like success.
func (c *eventTypesUpdateCmd) Run(ctx context.Context, t terminal) error {
	change, err := c.update(t)
	if err != nil {
		return err
	}
	if compact(change) == "{}" {
		return misused("nothing to change: name at least one flag, as in --description 'An order.'")
	}
	return ask(t, c.target, eventTypeTable.one, func(api *client.Client) (apitypes.EventType, error) {
		return c.on(api).ChangeEventType(ctx, c.Name, change)
	})
}
