package main

import (
	"context"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// deadLettersCmd is the group of commands for dead letters: deliveries that get no
// further attempt by themselves. A person replays or discards each.
type deadLettersCmd struct {
	List    deadLettersListCmd    `cmd:"" help:"List unresolved dead letters, newest first."`
	Groups  deadLettersGroupsCmd  `cmd:"" help:"List unresolved dead letters by endpoint and cause. COUNT goes up to 1,000."`
	Get     deadLettersGetCmd     `cmd:"" help:"Show one dead letter."`
	Replay  deadLettersReplayCmd  `cmd:"" help:"Deliver a dead letter again, as a new delivery. It can be repeated when the last replay has ended; the receiver then gets the event once more."`
	Discard deadLettersDiscardCmd `cmd:"" help:"Resolve a dead letter without a replay. Its record stays, and it can no longer be replayed."`
}

// deadLetterTable shows dead letters. A dead letter has the id of its delivery.
var deadLetterTable = tableOf[apitypes.DeadLetter]{
	[]string{"DELIVERY", "EVENT TYPE", "ENDPOINT", "REASON", "ATTEMPTS", "LAST", "CREATED", "DIED", "RESOLUTION"},
	func(d apitypes.DeadLetter) []string {
		return []string{
			d.Delivery.String(), typed(d.EventType, d.Test), d.Endpoint.String(), d.Reason, strconv.Itoa(d.Attempts),
			last(d.LastStatusCode, d.LastError), moment(&d.CreatedAt), moment(&d.DiedAt), string(optional(d.Resolution)),
		}
	},
}

// deadLettersListCmd lists the dead letters that match all given flags.
type deadLettersListCmd struct {
	target `embed:""`
	paging `embed:""`
	within `embed:""`

	Account   string               `help:"Only of this account, by id or uid. Default: all accounts."`
	Endpoint  postrider.EndpointID `placeholder:"ID" help:"Only to this endpoint, ep_…"`
	EventType string               `help:"Only for events of this type."`
	Reason    string               `enum:",exhausted,gone,client_error,aborted_by_receiver,expired,filter_failed,system" default:"" placeholder:"REASON" help:"Only with this reason: exhausted, gone, client_error, aborted_by_receiver, expired, filter_failed or system."`
	Resolved  bool                 `help:"Include dead letters that were replayed or discarded."`
}

// Run lists dead letters.
func (c *deadLettersListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, deadLetterTable.page, func(api *client.Client) (apitypes.Page[apitypes.DeadLetter], error) {
		return api.DeadLetters(ctx, client.DeadLetterFilter{
			Account: c.Account, Endpoint: c.Endpoint, EventType: c.EventType, Reason: c.Reason, Resolved: c.Resolved,
			From: c.From.Time, To: c.To.Time, OldestFirst: c.OldestFirst, Paging: c.page(),
		})
	})
}

// deadLetterGroupTable shows groups of dead letters.
var deadLetterGroupTable = tableOf[apitypes.DeadLetterGroup]{
	[]string{"ENDPOINT", "REASON", "LAST", "COUNT", "OLDEST", "NEWEST", "ACCOUNT"},
	func(g apitypes.DeadLetterGroup) []string {
		return []string{
			g.Endpoint.String(), g.Reason, last(g.LastStatusCode, g.LastError), strconv.Itoa(g.Count), moment(&g.OldestAt), moment(&g.NewestAt),
			g.Account.String(),
		}
	},
}

// deadLettersGroupsCmd groups the dead letters that match all given flags.
type deadLettersGroupsCmd struct {
	target `embed:""`
	paging `embed:""`

	Account  string               `help:"Only of this account, by id or uid. Default: all accounts."`
	Endpoint postrider.EndpointID `placeholder:"ID" help:"Only to this endpoint, ep_…"`
}

// Run lists groups of dead letters.
func (c *deadLettersGroupsCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, deadLetterGroupTable.page, func(api *client.Client) (apitypes.Page[apitypes.DeadLetterGroup], error) {
		return api.DeadLetterGroups(ctx, client.DeadLetterGroupFilter{Account: c.Account, Endpoint: c.Endpoint, Paging: c.page()})
	})
}

type (
	deadLettersGetCmd    struct{ oneDelivery }
	deadLettersReplayCmd struct{ oneDelivery }
)

// Run shows the dead letter.
func (c *deadLettersGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printDetails, func(api *client.Client) (apitypes.DeadLetter, error) {
		return api.DeadLetter(ctx, c.ID)
	})
}

// Run replays the dead letter and prints the new delivery. The dead letter stays,
// marked as replayed.
func (c *deadLettersReplayCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, deliveryTable.one, func(api *client.Client) (apitypes.Delivery, error) {
		return api.ReplayDeadLetter(ctx, c.ID)
	})
}

type deadLettersDiscardCmd struct {
	oneDelivery

	Reason string `help:"The reason, which is kept with the dead letter."`
}

// Run discards the dead letter and prints it. Afterwards the list of unresolved dead letters does
// not show it.
func (c *deadLettersDiscardCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, deadLetterTable.one, func(api *client.Client) (apitypes.DeadLetter, error) {
		return api.DiscardDeadLetter(ctx, c.ID, c.Reason)
	})
}
