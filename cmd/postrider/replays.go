package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// replaysCmd is the group of commands for replay jobs, which replay or discard many
// deliveries.
type replaysCmd struct {
	Create replaysCreateCmd `cmd:"" help:"Replay or discard all deliveries that the flags select."`
	List   replaysListCmd   `cmd:"" help:"List replays, newest first."`
	Get    replaysGetCmd    `cmd:"" help:"Show a replay, with what became of its deliveries."`
	Pause  replaysPauseCmd  `cmd:"" help:"Pause a replay. The deliveries that it has made go on."`
	Resume replaysResumeCmd `cmd:"" help:"Resume a paused replay."`
	Cancel replaysCancelCmd `cmd:"" help:"End a replay. The deliveries that it has made go on."`
}

// replayTable shows replays.
var replayTable = tableOf[apitypes.Replay]{
	[]string{"ID", "ACTION", "STATUS", "EXPECTED", "HANDLED", "SKIPPED", "PER SECOND", "CREATED", "BY"},
	func(r apitypes.Replay) []string {
		return []string{
			r.ID.String(), string(r.Action), string(r.Status), matchesText(r.Expected), strconv.Itoa(r.Handled),
			strconv.Itoa(r.Matched - r.Handled), strconv.Itoa(r.PerSecond), moment(&r.CreatedAt), r.CreatedBy,
		}
	},
}

// matchesText returns a count of matches: "7", or "10000+" if there are more.
func matchesText(c apitypes.ReplayCount) string {
	if c.Exact {
		return strconv.Itoa(c.Matches)
	}
	return strconv.Itoa(c.Matches) + "+"
}

// awaiting has the flag of the commands that start or show a replay.
type awaiting struct {
	Wait bool `help:"Wait until the replay has ended, and show its progress. Ctrl-C ends the wait, not the replay."`
}

// replaysCreateCmd creates a replay. Its flags are the fields of the request.
type replaysCreateCmd struct {
	target   `embed:""`
	awaiting `embed:""`

	Action    postrider.ReplayAction `enum:"replay,discard" default:"replay" help:"replay: each gets a new delivery. discard: dead letters are resolved, and nothing is sent. Default: replay."`
	Account   string                 `help:"Only of this account, by id or uid. Default: all accounts."`
	Endpoint  postrider.EndpointID   `placeholder:"ID" help:"Only to this endpoint, ep_…"`
	Event     postrider.EventID      `placeholder:"ID" help:"Only of this event, evt_…"`
	EventType []string               `placeholder:"TYPE" help:"Only for events of these types; order.* selects everything below order. Default: every type."`
	Status    []postrider.Status     `enum:"delivered,dead,cancelled,skipped" placeholder:"STATUS" help:"Only with these statuses: delivered, dead, cancelled, skipped. Default: dead, which is the unresolved dead letters."`
	Missed    bool                   `help:"Select what was not delivered: the same as --status=dead,cancelled,skipped."`
	Reason    string                 `placeholder:"REASON" help:"Only with this reason, for example exhausted or endpoint_disabled."`
	From      instant                `placeholder:"TIME" help:"Only created from this time on: RFC 3339, a date in UTC, or a time before now, for example -1h or -7d. Default: no bound."`
	To        instant                `placeholder:"TIME" help:"Only created before this time, in the same forms. Default: now."`
	PerSecond *int                   `placeholder:"N" help:"How many in a second, 1 to 5000. Default: 100."`
	Note      string                 `help:"Why this is done. Discarded dead letters keep it."`
	DryRun    bool                   `help:"Only count the deliveries, and change nothing."`
}

// Run creates the replay and prints it. With --dry-run it only prints how many deliveries match.
func (c *replaysCreateCmd) Run(ctx context.Context, t terminal) error {
	if c.Missed && len(c.Status) > 0 {
		return misused("--missed, --status: only one of them")
	}
	if c.Missed {
		c.Status = []postrider.Status{postrider.Dead, postrider.Cancelled, postrider.Skipped}
	}
	request := apitypes.ReplayCreate{
		Action: c.Action, Account: c.Account, Endpoint: idText(c.Endpoint), Event: idText(c.Event), EventTypes: c.EventType,
		Statuses: c.Status, Reason: c.Reason, From: c.From.orNull(), To: c.To.orNull(), PerSecond: c.PerSecond, Note: c.Note,
	}
	if c.DryRun {
		return ask(t, c.target, c.printMatches, func(api *client.Client) (apitypes.ReplayCount, error) {
			return api.CountReplay(ctx, request)
		})
	}
	return ask(t, c.target, printNewReplay, func(api *client.Client) (apitypes.Replay, error) {
		r, err := api.CreateReplay(ctx, request)
		if err != nil || !c.Wait {
			return r, err
		}
		return awaitReplay(ctx, t, api, r)
	})
}

// orNull returns the time as a field of a request; nil if the flag is not given.
func (i instant) orNull() *apitypes.Time {
	if i.IsZero() {
		return nil
	}
	return &apitypes.Time{Time: i.Time}
}

// printMatches prints the result of a dry run.
func (c *replaysCreateCmd) printMatches(t terminal, asJSON bool, count apitypes.ReplayCount) error {
	if asJSON {
		return printJSON(t.out, count)
	}
	t.tellKept(count, c.Account, c.From.orNull())
	_, err := fmt.Fprintln(t.out, matchesText(count), "deliveries match")
	return err
}

// printNewReplay prints a new replay.
func printNewReplay(t terminal, asJSON bool, r apitypes.Replay) error {
	if !asJSON {
		t.tellKept(r.Expected, idText(optional(r.Account)), r.From)
	}
	return replayTable.one(t, asJSON, r)
}

// tellKept warns that a part of the selected deliveries may be deleted, and prints the command that
// searches for them in the archive. from is the start of the replay's time range; nil: none.
func (t terminal) tellKept(c apitypes.ReplayCount, account string, from *apitypes.Time) {
	if c.KeptSince == nil {
		return
	}
	search := "postrider archive search"
	if account != "" {
		search += " --account " + account
	}
	if from != nil {
		search += " --from " + dayText(from.UTC())
	}
	search += " --to " + dayText(c.KeptSince.UTC().AddDate(0, 0, 1))
	fmt.Fprintf(t.err, `What was created before %s may be deleted: it does not match, or is skipped because the data of its event is gone.
An archive, if the server has one, keeps a copy: %s
docs/operate/archive.md says how to publish it again.
`, moment(c.KeptSince), search)
}

// awaitReplay waits until the replay no longer runs, and shows its progress. On a terminal the
// progress is one line that changes.
func awaitReplay(ctx context.Context, t terminal, api *client.Client, r apitypes.Replay) (apitypes.Replay, error) {
	end := "\n"
	if t.live() {
		end = "\r"
	}
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	for shown := -1; ; {
		if r.Matched != shown {
			shown = r.Matched
			fmt.Fprintf(t.err, "%s: %d of %s, %d skipped%s", r.ID, r.Handled, matchesText(r.Expected), r.Matched-r.Handled, end)
		}
		if r.Status != postrider.ReplayRunning {
			if end == "\r" {
				fmt.Fprintln(t.err)
			}
			return r, nil
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return r, fmt.Errorf("wait for %s: %w; the replay goes on", r.ID, context.Cause(ctx))
		}
		var err error
		if r, err = api.Replay(ctx, r.ID); err != nil {
			return r, err
		}
	}
}

type replaysListCmd struct {
	target `embed:""`
	paging `embed:""`

	Account string                 `help:"Only of this account, by id or uid. Default: all accounts."`
	Status  postrider.ReplayStatus `enum:",running,paused,done,cancelled,failed" default:"" placeholder:"STATUS" help:"Only with this status: running, paused, done, cancelled or failed."`
}

// Run lists replays.
func (c *replaysListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, replayTable.page, func(api *client.Client) (apitypes.Page[apitypes.Replay], error) {
		return api.Replays(ctx, client.ReplayFilter{Account: c.Account, Status: c.Status, Paging: c.page()})
	})
}

// oneReplay has the flags and the argument of commands for one replay.
type oneReplay struct {
	target `embed:""`

	ID postrider.ReplayID `arg:"" help:"The replay's id, rpl_…"`
}

type (
	replaysGetCmd struct {
		oneReplay
		awaiting `embed:""`
	}
	replaysPauseCmd  struct{ oneReplay }
	replaysResumeCmd struct {
		oneReplay
		awaiting `embed:""`
	}
	replaysCancelCmd struct{ oneReplay }
)

// Run shows the replay.
func (c *replaysGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printReplay, func(api *client.Client) (apitypes.Replay, error) {
		r, err := api.Replay(ctx, c.ID)
		if err != nil || !c.Wait {
			return r, err
		}
		return awaitReplay(ctx, t, api, r)
	})
}

// printReplay prints a replay as printDetails does, with its numbers in words.
func printReplay(t terminal, asJSON bool, r apitypes.Replay) error {
	if asJSON {
		return printJSON(t.out, r)
	}
	t.tellKept(r.Expected, idText(optional(r.Account)), r.From)
	rows := detailsOf(r)
	for _, row := range rows {
		switch row[0] {
		case "expected":
			row[1] = matchesText(r.Expected)
		case "statuses":
			var names []string
			for _, s := range r.Statuses {
				names = append(names, string(s))
			}
			row[1] = strings.Join(names, ",")
		case "skipped":
			s := r.Skipped
			row[1] = fmt.Sprintf("%d bytes gone, %d replay pending, %d endpoint deleted, %d resolved",
				s.BytesGone, s.ReplayPending, s.EndpointDeleted, s.Resolved)
		case "deliveries":
			d := optional(r.Deliveries)
			row[1] = fmt.Sprintf("%d pending, %d delivered, %d dead, %d cancelled", d.Pending, d.Delivered, d.Dead, d.Cancelled)
		}
	}
	return printTable(t.out, []string{"FIELD", "VALUE"}, rows)
}

// Run pauses the replay and prints it.
func (c *replaysPauseCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, replayTable.one, func(api *client.Client) (apitypes.Replay, error) {
		return api.PauseReplay(ctx, c.ID)
	})
}

// Run resumes the replay and prints it.
func (c *replaysResumeCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, replayTable.one, func(api *client.Client) (apitypes.Replay, error) {
		r, err := api.ResumeReplay(ctx, c.ID)
		if err != nil || !c.Wait {
			return r, err
		}
		return awaitReplay(ctx, t, api, r)
	})
}

// Run cancels the replay and prints it.
func (c *replaysCancelCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, replayTable.one, func(api *client.Client) (apitypes.Replay, error) {
		return api.CancelReplay(ctx, c.ID)
	})
}
