package main

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// subscriptionFlags are the flags for what says which events an endpoint gets.
type subscriptionFlags struct {
	EventTypes []string `placeholder:"TYPE" help:"The event types, separated by commas: names as order.created, prefixes as order.*, or * for all."`
	Filter     string   `placeholder:"JSON|@FILE|none" help:"The filter, as in endpoints update."`
	Channels   []string `sep:"none" placeholder:"NAME|none" help:"A channel that the event must have. Can be repeated: one of them must fit."`
	Changed    []string `sep:"none" placeholder:"PATH|none" help:"A place in the data that must have changed, for example $.status. Can be repeated."`
	Condition  string   `placeholder:"CEL|@FILE|none" help:"The condition, as in endpoints update."`
}

// subscription returns the flags in the form of the API.
func (f *subscriptionFlags) subscription(t terminal) (apitypes.Subscription, error) {
	p, err := (&policyFlags{Filter: f.Filter, Channels: f.Channels, Changed: f.Changed, Condition: f.Condition}).policy(t)
	return apitypes.Subscription{
		EventTypes: f.EventTypes, Filter: p.Filter, Channels: p.Channels, Changed: p.Changed, Condition: p.Condition,
	}, err
}

type endpointsTryCmd struct {
	target            `embed:""`
	subscriptionFlags `embed:""`
	aboutFlags        `embed:""`

	Type string `arg:"" help:"The event's type, for example order.created."`
	Data string `arg:"" default:"-" help:"The event's data as JSON; @FILE reads a file, - reads stdin."`
}

// Run compares the event with the subscription, and prints the result.
func (c *endpointsTryCmd) Run(ctx context.Context, t terminal) error {
	wants, err := c.subscription(t)
	if err != nil {
		return err
	}
	data, err := readData(t, "DATA", c.Data)
	if err != nil {
		return err
	}
	about, err := c.about(t)
	if err != nil {
		return err
	}
	return ask(t, c.target, printTry, func(api *client.Client) (apitypes.Comparison, error) {
		return api.TrySubscription(ctx, apitypes.DryRun{
			Subscription: wants, Event: apitypes.DryRunEvent{About: about, Type: c.Type, Data: data},
		})
	})
}

func printTry(t terminal, asJSON bool, x apitypes.Comparison) error {
	if asJSON {
		return printJSON(t.out, x)
	}
	return printComparison(t, "the subscription", "", x)
}

type endpointsWhatIfCmd struct {
	oneEndpoint
	subscriptionFlags `embed:""`

	Last   *int    `placeholder:"N" help:"How many events to compare, the newest ones, 1 to 100000. Default: 1000, or 100000 with --from or --to."`
	From   instant `placeholder:"TIME" help:"Only from this time on: RFC 3339, a date in UTC, or a time before now, for example -1h or -7d. Default: no bound."`
	To     instant `placeholder:"TIME" help:"Only before this time, in the same forms. Default: no bound."`
	Type   string  `placeholder:"TYPE" help:"Only events of this type."`
	Cursor string  `help:"Go on with older events: the cursor that the same command printed."`
}

// Run compares stored events with the endpoint's subscription, in which the given flags replace what is
// stored, and prints what would differ.
func (c *endpointsWhatIfCmd) Run(ctx context.Context, t terminal) error {
	wants, err := c.subscription(t)
	if err != nil {
		return err
	}
	w := apitypes.WhatIf{
		Subscription: wants, Last: c.Last, From: timeOrNil(c.From.Time), To: timeOrNil(c.To.Time), Type: c.Type, Cursor: c.Cursor,
	}
	return ask(t, c.target, printWhatIf, func(api *client.Client) (apitypes.WhatIfResult, error) {
		return api.WhatIf(ctx, c.ID, w)
	})
}

// reasonTable shows why events are not selected.
var reasonTable = tableOf[apitypes.WhatIfReason]{
	[]string{"NOT SELECTED BY", "WANTS", "EVENTS"},
	func(r apitypes.WhatIfReason) []string {
		return []string{cmp.Or(r.Path, r.Reason), string(r.Condition), strconv.Itoa(r.Events)}
	},
}

// exampleTable shows compared events.
var exampleTable = tableOf[apitypes.WhatIfExample]{
	[]string{"EVENT", "TYPE", "CREATED", "SELECTED", "DELIVERY"},
	func(e apitypes.WhatIfExample) []string {
		return []string{e.Event.String(), e.Type, moment(&e.CreatedAt), strconv.FormatBool(e.Matches), strconv.FormatBool(e.Delivered)}
	},
}

// printWhatIf prints the counts as sentences, and the reasons and examples as tables.
func printWhatIf(t terminal, asJSON bool, r apitypes.WhatIfResult) error {
	if asJSON {
		return printJSON(t.out, r)
	}
	if r.NextCursor != nil {
		fmt.Fprintf(t.err, "The time was over, and older events are left: the same command with --cursor %s goes on.\n", *r.NextCursor)
	}
	format := "of the last %d events the subscription selects %d\nthe endpoint has deliveries of %d: %d would be new, %d would be gone\n"
	examples := exampleTable
	if r.Against == "subscription" {
		format = "of %d archived events the subscription selects %d\nthe present one selects %d: %d would be new, %d would be gone\n"
		examples.head = []string{"EVENT", "TYPE", "CREATED", "SELECTED", "PRESENTLY"}
	}
	_, err := fmt.Fprintf(t.out, format, r.Events, r.Matched, r.Delivered, r.New, r.Gone)
	if err == nil && len(r.NotMatched) > 0 {
		err = reasonTable.all(t, false, r.NotMatched)
	}
	if err == nil && len(r.Examples) > 0 {
		err = examples.all(t, false, r.Examples)
	}
	return err
}

// timeOrNil returns the time in the form of the API; nil: it is zero.
func timeOrNil(at time.Time) *apitypes.Time {
	if at.IsZero() {
		return nil
	}
	return &apitypes.Time{Time: at}
}
