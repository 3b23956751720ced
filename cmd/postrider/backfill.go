package main

import (
	"context"
	"fmt"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// endpointsBackfillCmd lets the subscription of an endpoint start in the past.
type endpointsBackfillCmd struct {
	oneEndpoint
	awaiting `embed:""`

	StartFrom instant `required:"" placeholder:"TIME" help:"Events from this time on: RFC 3339, a date in UTC, or a time before now, for example -1h or -7d."`
	PerSecond *int    `placeholder:"N" help:"How many deliveries are made in a second, 1 to 5000. Default: 100."`
	Note      string  `help:"Why this is done."`
	DryRun    bool    `help:"Only count the events, and change nothing."`
}

// Run creates the backfill and prints it. With --dry-run it only prints how many events match.
func (c *endpointsBackfillCmd) Run(ctx context.Context, t terminal) error {
	request := apitypes.Backfill{StartFrom: apitypes.Time{Time: c.StartFrom.Time}, PerSecond: c.PerSecond, Note: c.Note}
	if c.DryRun {
		return ask(t, c.target, c.printMatches, func(api *client.Client) (apitypes.ReplayCount, error) {
			return api.CountBackfill(ctx, c.ID, request)
		})
	}
	return ask(t, c.target, printNewReplay, func(api *client.Client) (apitypes.Replay, error) {
		r, err := api.Backfill(ctx, c.ID, request)
		if err != nil || !c.Wait {
			return r, err
		}
		return awaitReplay(ctx, t, api, r)
	})
}

// printMatches prints the result of a dry run.
func (c *endpointsBackfillCmd) printMatches(t terminal, asJSON bool, count apitypes.ReplayCount) error {
	if asJSON {
		return printJSON(t.out, count)
	}
	t.tellKept(count, "", c.StartFrom.orNull())
	_, err := fmt.Fprintln(t.out, matchesText(count), "events match that have no delivery to the endpoint")
	return err
}
