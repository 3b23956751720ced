package main

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// archiveWhatIfCmd is the group of commands for the job that compares archived events.
type archiveWhatIfCmd struct {
	Start  archiveWhatIfStartCmd  `cmd:"" help:"Start the comparison, as a job of the server. An account has one at a time."`
	Get    archiveWhatIfGetCmd    `cmd:"" help:"Show how far the comparison has got, and its result. It is kept for an hour."`
	Cancel archiveWhatIfCancelCmd `cmd:"" help:"Cancel the comparison, or delete its result."`
}

// awaitingArchive has the flag of the commands that start or show a comparison.
type awaitingArchive struct {
	Wait bool `help:"Wait until the comparison has ended, and show its progress. Ctrl-C ends the wait, not the comparison."`
}

type (
	archiveWhatIfStartCmd struct {
		oneEndpoint
		awaitingArchive   `embed:""`
		subscriptionFlags `embed:""`

		From instant `placeholder:"TIME" help:"Only events from this time on: RFC 3339, a date in UTC, or a time before now, for example -90d. Default: no bound."`
		To   instant `placeholder:"TIME" help:"Only events before this time, in the same forms. Default: no bound."`
		Type string  `placeholder:"TYPE" help:"Only events of this type."`
	}
	archiveWhatIfGetCmd struct {
		oneEndpoint
		awaitingArchive `embed:""`
	}
	archiveWhatIfCancelCmd struct{ oneEndpoint }
)

// Run starts the job and prints it.
func (c *archiveWhatIfStartCmd) Run(ctx context.Context, t terminal) error {
	wants, err := c.subscription(t)
	if err != nil {
		return err
	}
	return ask(t, c.target, printComparisonJob, func(api *client.Client) (apitypes.ArchiveComparison, error) {
		job, err := api.CompareArchive(ctx, c.ID, apitypes.ArchiveWhatIf{
			Subscription: wants, From: c.From.orNull(), To: c.To.orNull(), Type: c.Type,
		})
		if err != nil || !c.Wait {
			return job, err
		}
		return awaitComparison(ctx, t, api, job)
	})
}

// Run shows the job.
func (c *archiveWhatIfGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printComparisonJob, func(api *client.Client) (apitypes.ArchiveComparison, error) {
		job, err := api.ArchiveComparison(ctx, c.ID)
		if err != nil || !c.Wait {
			return job, err
		}
		return awaitComparison(ctx, t, api, job)
	})
}

// Run cancels the job.
func (c *archiveWhatIfCancelCmd) Run(ctx context.Context, t terminal) error {
	return change(t, c.target, "cancelled", func(api *client.Client) error { return api.CancelArchiveComparison(ctx, c.ID) })
}

// awaitComparison waits until the job has ended, and shows its progress.
func awaitComparison(
	ctx context.Context, t terminal, api *client.Client, job apitypes.ArchiveComparison,
) (_ apitypes.ArchiveComparison, err error) {
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for shown := -1; err == nil && job.Status == "running"; job, err = api.ArchiveComparison(ctx, job.Endpoint) {
		if job.PartsRead != shown {
			shown = job.PartsRead
			fmt.Fprintf(t.err, "%d of %d parts are read\n", job.PartsRead, job.Parts)
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return job, fmt.Errorf("wait for the comparison: %w; it goes on", context.Cause(ctx))
		}
	}
	return job, err
}

// printComparisonJob prints the progress as a sentence, and the result so far as printWhatIf does.
func printComparisonJob(t terminal, asJSON bool, job apitypes.ArchiveComparison) error {
	if asJSON {
		return printJSON(t.out, job)
	}
	if job.Error != nil {
		fmt.Fprintln(t.err, *job.Error)
	}
	if _, err := fmt.Fprintf(t.out, "%s: %d of %d parts are read, %d of their events are expunged\n",
		job.Status, job.PartsRead, job.Parts, job.RowsExpunged); err != nil {
		return err
	}
	return printWhatIf(t, false, job.Result)
}
