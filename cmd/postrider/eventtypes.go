package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

type eventTypesCmd struct {
	List   eventTypesListCmd   `cmd:"" help:"List the catalogue of event types, by name."`
	Get    eventTypesGetCmd    `cmd:"" help:"Show one event type."`
	Put    eventTypesPutCmd    `cmd:"" help:"Add an event type to the catalogue, or change its description."`
	Delete eventTypesDeleteCmd `cmd:"" help:"Take an event type out of the catalogue. What was published of it stays."`
}

// eventTypeTable shows the catalogue of event types.
var eventTypeTable = tableOf[apitypes.EventType]{
	[]string{"NAME", "CREATED", "DESCRIPTION"},
	func(e apitypes.EventType) []string { return []string{e.Name, moment(&e.CreatedAt), e.Description} },
}

type eventTypesListCmd struct {
	target `embed:""`
	paging `embed:""`
}

// Run lists the catalogue.
func (c *eventTypesListCmd) Run(ctx context.Context, t terminal) error {
	return c.through(func(api *client.Client) error {
		page, err := api.EventTypes(ctx, c.page())
		if err != nil {
			return err
		}
		return printPage(t, c.JSON, page, eventTypeTable)
	})
}

// eventType holds the flags and the argument of commands for one event type.
type eventType struct {
	target `embed:""`

	Name string `arg:"" help:"The event type, as in order.created."`
}

type (
	eventTypesGetCmd    struct{ eventType }
	eventTypesDeleteCmd struct{ eventType }
)

// Run shows the event type.
func (c *eventTypesGetCmd) Run(ctx context.Context, t terminal) error {
	return c.through(func(api *client.Client) error {
		found, err := api.EventType(ctx, c.Name)
		if err != nil {
			return err
		}
		return printOne(t, c.JSON, found, eventTypeTable)
	})
}

// Run removes the event type from the catalogue. Published events keep their type.
func (c *eventTypesDeleteCmd) Run(ctx context.Context, t terminal) error {
	return c.through(func(api *client.Client) error {
		if err := api.DeleteEventType(ctx, c.Name); err != nil {
			return err
		}
		_, err := fmt.Fprintf(t.out, "%s is deleted\n", c.Name)
		return err
	})
}

type eventTypesPutCmd struct {
	eventType

	Description string `help:"What it means, for people."`
}

// Run changes the description of the event type, or adds the type if the catalogue
// lacks it. It checks the name before it calls the server, so that a mistake exits
// with 2.
func (c *eventTypesPutCmd) Run(ctx context.Context, t terminal) error {
	if err := postrider.CheckType("NAME", c.Name); err != nil {
		return misused("%v", err)
	}
	return c.through(func(api *client.Client) error {
		put, err := api.DescribeEventType(ctx, c.Name, c.Description)
		if errors.Is(err, postrider.ErrNotFound) {
			put, err = api.CreateEventType(ctx, apitypes.EventTypeCreate{Name: c.Name, Description: c.Description})
		}
		if err != nil {
			return err
		}
		return printOne(t, c.JSON, put, eventTypeTable)
	})
}
