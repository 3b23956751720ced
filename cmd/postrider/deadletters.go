package main

import (
	"context"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

type deadLettersCmd struct {
	List    deadLettersListCmd    `cmd:"" help:"List the dead letters that wait for a person, newest first."`
	Get     deadLettersGetCmd     `cmd:"" help:"Show one dead letter."`
	Replay  deadLettersReplayCmd  `cmd:"" help:"Deliver a dead letter again, as a new delivery."`
	Discard deadLettersDiscardCmd `cmd:"" help:"Lay a dead letter aside. Its record stays."`
}

// deadLetterTable shows dead letters. A dead letter has the id of its delivery.
var deadLetterTable = tableOf[apitypes.DeadLetter]{
	[]string{"DELIVERY", "EVENT TYPE", "ENDPOINT", "REASON", "ATTEMPTS", "LAST", "DIED", "RESOLUTION"},
	func(d apitypes.DeadLetter) []string {
		return []string{
			d.Delivery.String(), d.EventType, d.Endpoint.String(), d.Reason, strconv.Itoa(d.Attempts),
			last(d.LastStatusCode, d.LastError), moment(&d.DiedAt), string(optional(d.Resolution)),
		}
	},
}

// deadLettersListCmd lists the dead letters that match all given flags.
type deadLettersListCmd struct {
	target `embed:""`
	paging `embed:""`
	within `embed:""`

	Account   string               `help:"Only of this account, by id or uid."`
	Endpoint  postrider.EndpointID `placeholder:"ID" help:"Only to this endpoint, ep_…"`
	EventType string               `help:"Only of events of this type."`
	Reason    string               `enum:",exhausted,gone,client_error,expired,system" default:"" placeholder:"REASON" help:"Only those that died of this: exhausted, gone, client_error, expired or system."`
	Resolved  bool                 `help:"Those too that were replayed or discarded."`
}

// Run lists dead letters.
func (c *deadLettersListCmd) Run(ctx context.Context, t terminal) error {
	return c.through(func(api *client.Client) error {
		page, err := api.DeadLetters(ctx, client.DeadLetterFilter{
			Account: c.Account, Endpoint: c.Endpoint, EventType: c.EventType, Reason: c.Reason, Resolved: c.Resolved,
			From: c.From.Time, To: c.To.Time, OldestFirst: c.OldestFirst, Paging: c.page(),
		})
		if err != nil {
			return err
		}
		return printPage(t, c.JSON, page, deadLetterTable)
	})
}

type (
	deadLettersGetCmd    struct{ single }
	deadLettersReplayCmd struct{ single }
)

// Run shows the dead letter.
func (c *deadLettersGetCmd) Run(ctx context.Context, t terminal) error {
	return c.through(func(api *client.Client) error {
		letter, err := api.DeadLetter(ctx, c.ID)
		if err != nil {
			return err
		}
		return printDetails(t, c.JSON, letter)
	})
}

// Run replays the dead letter and prints the new delivery. The dead letter stays,
// marked as replayed.
func (c *deadLettersReplayCmd) Run(ctx context.Context, t terminal) error {
	return c.through(func(api *client.Client) error {
		made, err := api.ReplayDeadLetter(ctx, c.ID)
		if err != nil {
			return err
		}
		return printOne(t, c.JSON, made, deliveryTable)
	})
}

type deadLettersDiscardCmd struct {
	single

	Reason string `help:"Why, for the record."`
}

// Run discards the dead letter and prints it. It is then no longer in the list of
// those that wait for a person.
func (c *deadLettersDiscardCmd) Run(ctx context.Context, t terminal) error {
	return c.through(func(api *client.Client) error {
		letter, err := api.DiscardDeadLetter(ctx, c.ID, c.Reason)
		if err != nil {
			return err
		}
		return printOne(t, c.JSON, letter, deadLetterTable)
	})
}
