package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// expungeCmd is the group of commands that remove data on request.
type expungeCmd struct {
	Event    expungeEventCmd    `cmd:"" help:"Remove an event with its deliveries, attempts and dead letters."`
	Endpoint expungeEndpointCmd `cmd:"" help:"Delete an endpoint and remove all that is stored about it."`
	Account  expungeAccountCmd  `cmd:"" help:"Delete an account and remove all of its events and endpoints."`
	List     expungeListCmd     `cmd:"" help:"List expunges, newest first."`
	Get      expungeGetCmd      `cmd:"" help:"Show an expunge with its progress."`
}

// expungeTable shows expunges.
var expungeTable = tableOf[apitypes.Expunge]{
	[]string{
		"ID", "OBJECT", "EVENTS", "ATTEMPTS", "DEAD LETTERS", "TERMS", "SUBSCRIPTIONS", "OTHER", "ARCHIVED", "BEGUN", "ENDED",
		"ARCHIVE ERROR", "SHA-256",
	},
	func(e apitypes.Expunge) []string {
		object := e.Account.String()
		switch {
		case e.Event != nil:
			object = e.Event.String()
		case e.Endpoint != nil:
			object = e.Endpoint.String()
		}
		return []string{
			e.ID.String(), object, strconv.Itoa(e.Removed.Events), strconv.Itoa(e.Removed.Attempts), strconv.Itoa(e.Removed.DeadLetters),
			strconv.Itoa(e.Removed.Terms), strconv.Itoa(e.Removed.Subscriptions), strconv.Itoa(e.Removed.Other),
			strconv.Itoa(e.Removed.Archived), moment(&e.CreatedAt), moment(e.EndedAt), optional(e.ArchiveError), e.SHA256,
		}
	},
}

// printExpunge prints an expunge as printDetails does, with its numbers in words. A list has no
// space for the places that may still hold parts of the data; this output shows them, because they
// belong to the proof.
func printExpunge(t terminal, asJSON bool, e apitypes.Expunge) error {
	if asJSON {
		return printJSON(t.out, e)
	}
	rows := detailsOf(e)
	for _, row := range rows {
		if row[0] == "removed" {
			r := e.Removed
			row[1] = fmt.Sprintf("%d events, %d attempts, %d dead letters, %d search terms, %d earlier subscriptions, %d other rows, %d records of the archive",
				r.Events, r.Attempts, r.DeadLetters, r.Terms, r.Subscriptions, r.Other, r.Archived)
		}
	}
	return printTable(t.out, []string{"FIELD", "VALUE"}, rows)
}

// forGood has the flag of the commands that cannot be undone.
type forGood struct {
	Yes bool `help:"Do it. It cannot be undone."`
}

// expunge begins the removal if --yes is given.
func (f forGood) expunge(ctx context.Context, t terminal, to target, what apitypes.ExpungeCreate) error {
	if !f.Yes {
		return misused("--yes: say that it is meant; what is expunged cannot be brought back")
	}
	return ask(t, to, printExpunge, func(api *client.Client) (apitypes.Expunge, error) { return api.CreateExpunge(ctx, what) })
}

type expungeEventCmd struct {
	target  `embed:""`
	forGood `embed:""`

	ID postrider.EventID `arg:"" help:"Id of the event, evt_…"`
}

// Run removes an event.
func (c *expungeEventCmd) Run(ctx context.Context, t terminal) error {
	return c.expunge(ctx, t, c.target, apitypes.ExpungeCreate{Event: c.ID.String()})
}

type expungeEndpointCmd struct {
	oneEndpoint
	forGood `embed:""`
}

// Run removes an endpoint.
func (c *expungeEndpointCmd) Run(ctx context.Context, t terminal) error {
	return c.expunge(ctx, t, c.target, apitypes.ExpungeCreate{Endpoint: c.ID.String()})
}

type expungeAccountCmd struct {
	target  `embed:""`
	forGood `embed:""`

	Account string `arg:"" help:"Id or uid of the account; of a deleted one its id, acc_…"`
}

// Run removes an account.
func (c *expungeAccountCmd) Run(ctx context.Context, t terminal) error {
	return c.expunge(ctx, t, c.target, apitypes.ExpungeCreate{Account: c.Account})
}

type expungeListCmd struct {
	target `embed:""`
	paging `embed:""`

	Running bool `help:"Only those that have not ended."`
}

// Run lists expunges.
func (c *expungeListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, expungeTable.page, func(api *client.Client) (apitypes.Page[apitypes.Expunge], error) {
		return api.Expunges(ctx, c.Running, c.page())
	})
}

type expungeGetCmd struct {
	target `embed:""`

	ID postrider.ExpungeID `arg:"" help:"The expunge's id, xpg_…"`
}

// Run shows an expunge.
func (c *expungeGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printExpunge, func(api *client.Client) (apitypes.Expunge, error) { return api.Expunge(ctx, c.ID) })
}
