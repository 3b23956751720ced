package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// eventsCmd is the group of commands for events. The command send publishes one.
type eventsCmd struct {
	List       eventsListCmd       `cmd:"" help:"List events, newest first."`
	Get        eventsGetCmd        `cmd:"" help:"Show one event with its data."`
	Deliveries eventsDeliveriesCmd `cmd:"" help:"List the deliveries of an event."`
	Attempts   eventsAttemptsCmd   `cmd:"" help:"List the attempts of all deliveries of an event. A lost attempt STARTED when its loss was noticed; its request may have left long before."`
	Explain    eventsExplainCmd    `cmd:"" help:"Say whether an endpoint wanted an event, by the event types, filter, channels, changed paths and condition that it had when the event was published, condition by condition."`
	Replay     eventsReplayCmd     `cmd:"" help:"Deliver an event again to its endpoints, except where it is pending."`
	Publish    eventsPublishCmd    `cmd:"" help:"Publish the events of a file, at most 1,000, all or none."`
}

// eventTable shows events without their data.
var eventTable = tableOf[apitypes.Event]{
	[]string{"ID", "TYPE", "ACCOUNT", "ORDERING KEY", "CREATED"},
	func(e apitypes.Event) []string {
		return []string{e.ID.String(), typed(e.Type, e.Test), e.Account.String(), optional(e.OrderingKey), moment(&e.CreatedAt)}
	},
}

type eventsListCmd struct {
	target `embed:""`
	paging `embed:""`
	within `embed:""`

	Account        string `help:"Only of this account, by id or uid. Default: all accounts."`
	Type           string `help:"Only of this type."`
	IdempotencyKey string `help:"Only the event with this idempotency key; needs --account."`
	OrderingKey    string `help:"Only events with this ordering key; needs --account."`
	Where          string `placeholder:"PATH=VALUE" help:"Only events that have the value at the path of their data, such as '$.order.number=42'; needs --account, and an event type that names the path (event-types put --path)."`
}

// Run lists events.
func (c *eventsListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, eventTable.page, func(api *client.Client) (apitypes.Page[apitypes.Event], error) {
		return api.Events(ctx, client.EventFilter{
			Account: c.Account, Type: c.Type, From: c.From.Time, To: c.To.Time,
			IdempotencyKey: c.IdempotencyKey, OrderingKey: c.OrderingKey, Where: c.Where, OldestFirst: c.OldestFirst, Paging: c.page(),
		})
	})
}

// oneEvent holds the flags and the argument of commands for one event.
type oneEvent struct {
	target `embed:""`

	ID postrider.EventID `arg:"" help:"The event's id, evt_…"`
}

type eventsGetCmd struct {
	target `embed:""`

	ID string `arg:"" help:"The event's id, evt_…, or that of the row of an outbox that it was read from, obx_… or a UUID"`
}

// Run shows the event.
func (c *eventsGetCmd) Run(ctx context.Context, t terminal) error {
	event, isEvent := postrider.ParseID[postrider.EventID](c.ID)
	row, isRow := postrider.ParseID[postrider.OutboxID](withRowID(c.ID))
	if isEvent != nil && isRow != nil {
		return misused("ID: must be an event's (evt_…) or an outbox row's (obx_…); %s is neither", strconv.Quote(shorten(c.ID)))
	}
	return ask(t, c.target, printEvent, func(api *client.Client) (apitypes.Event, error) {
		if isRow == nil {
			return api.EventOfRow(ctx, row)
		}
		return api.Event(ctx, event)
	})
}

// printEvent prints an event as printDetails does. If the data of the event is deleted, it says so.
func printEvent(t terminal, asJSON bool, e apitypes.Event) error {
	if e.Data == nil && !asJSON {
		fmt.Fprintf(t.err,
			"The data of the event is deleted, so it cannot be replayed. An archive, if the server has one, keeps a copy: postrider archive search --event %s\n", e.ID)
	}
	return printDetails(t, asJSON, e)
}

type eventsDeliveriesCmd struct {
	oneEvent
	paging `embed:""`
}

// Run lists the event's deliveries.
func (c *eventsDeliveriesCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, deliveryTable.page, func(api *client.Client) (apitypes.Page[apitypes.Delivery], error) {
		return api.EventDeliveries(ctx, c.ID, c.page())
	})
}

type eventsAttemptsCmd struct {
	oneEvent
	paging `embed:""`
}

// eventAttemptTable is attemptTable with the delivery and the endpoint in front.
var eventAttemptTable = tableOf[apitypes.Attempt]{
	append([]string{"DELIVERY", "ENDPOINT"}, attemptTable.head...),
	func(a apitypes.Attempt) []string {
		return append([]string{a.Delivery.String(), a.Endpoint.String()}, attemptTable.row(a)...)
	},
}

// Run lists the attempts of the event's deliveries.
func (c *eventsAttemptsCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, eventAttemptTable.page, func(api *client.Client) (apitypes.Page[apitypes.Attempt], error) {
		return api.EventAttempts(ctx, c.ID, c.page())
	})
}

type eventsExplainCmd struct {
	oneEvent

	Endpoint string `required:"" placeholder:"ID|UID" help:"The endpoint, by id or uid."`
}

// Run explains whether the endpoint wanted the event.
func (c *eventsExplainCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printExplanation, func(api *client.Client) (apitypes.EventExplanation, error) {
		return api.ExplainEvent(ctx, c.ID, c.Endpoint)
	})
}

// conditionTable shows the conditions of a filter with what the event has.
var conditionTable = tableOf[apitypes.FilterCondition]{
	[]string{"CONDITION", "WANTS", "FOUND", "HOLDS"},
	func(c apitypes.FilterCondition) []string {
		return []string{c.Path, string(c.Condition), optional(c.Found), strconv.FormatBool(c.Holds)}
	},
}

// printExplanation prints the explanation as printComparison does, with whose subscription it is about.
func printExplanation(t terminal, asJSON bool, x apitypes.EventExplanation) error {
	if asJSON {
		return printJSON(t.out, x)
	}
	note, text := revisionText(x)+"\n", ""
	switch {
	case x.Directed && x.Matches:
		note, text = "", "gets the event, which names it"
	case x.Directed:
		note, text = "", "does not get the event, which names other endpoints"
	case x.Deleted:
		text = "did not get the event: it was deleted before"
	}
	if text != "" {
		_, err := fmt.Fprintf(t.out, "%s %s\n%s", x.Endpoint, text, note)
		return err
	}
	return printComparison(t, x.Endpoint.String(), note, x.Comparison)
}

// printComparison prints the result as a sentence about who was compared, then the note, what changed as
// another sentence, and the conditions of the filter as a table.
func printComparison(t terminal, who, note string, x apitypes.Comparison) error {
	text := "wants the event"
	switch {
	case !x.TypeMatches:
		text = "does not want the event: none of its event types selects it"
	case x.Filter != nil && x.Filter.Apart:
		text = "does not want the event: the conditions of its filter hold, but not in one element of an array"
	case x.Filter != nil && !x.Filter.Matches:
		text = "does not want the event: its filter does not hold"
	case x.Channels != nil && !x.Channels.Matches:
		text = "does not want the event: the event has none of its channels"
	case x.Changed != nil && !x.Changed.Matches:
		text = "does not want the event: its option changed does not hold"
	case !x.Matches:
		text = "does not want the event: its condition does not hold"
	}
	if x.Channels != nil && x.Channels.Matches {
		text += "\nchannels: " + strings.Join(x.Channels.Channels, ", ")
	}
	note += changedText(x.Changed) + conditionText(x.Condition)
	if _, err := fmt.Fprintf(t.out, "%s %s\n%s", who, text, note); err != nil || x.Filter == nil {
		return err
	}
	return conditionTable.all(t, false, x.Filter.Conditions)
}

// revisionText says when the endpoint had the subscription that is explained.
func revisionText(x apitypes.EventExplanation) string {
	switch {
	case x.Since == nil:
		return "what it subscribed to when the event was published is not known: this is its present subscription"
	case x.Until == nil:
		return "by its subscription since " + moment(x.Since)
	}
	now := "does not want the event now"
	if x.MatchesNow {
		now = "wants the event now"
	}
	return fmt.Sprintf("by its subscription from %s to %s; it %s", moment(x.Since), moment(x.Until), now)
}

// changedText says what changed, as a line; empty: the endpoint does not ask.
func changedText(x *apitypes.ChangedExplanation) string {
	switch {
	case x == nil:
		return ""
	case !x.Told:
		return "changed: the event has neither previous nor changed_paths\n"
	case !x.Matches:
		return "changed: none of the paths has changed\n"
	}
	return "changed: " + strings.Join(x.Paths, ", ") + "\n"
}

// conditionText says what the condition returned, as a line; empty: the endpoint has none.
func conditionText(x *apitypes.ConditionExplanation) string {
	switch {
	case x == nil:
		return ""
	case x.Error != nil:
		return fmt.Sprintf("condition: failed at a cost of %d: %s\n", x.Cost, *x.Error)
	}
	return fmt.Sprintf("condition: %t, at a cost of %d\n", x.Matches, x.Cost)
}

type eventsReplayCmd struct {
	oneEvent
	awaiting `embed:""`

	Endpoint  postrider.EndpointID `placeholder:"ID" help:"Only to this endpoint, ep_…"`
	Status    postrider.Status     `enum:",delivered,dead,cancelled,skipped" default:"" placeholder:"STATUS" help:"Only to endpoints whose last delivery of the event has this status: delivered, dead, cancelled or skipped."`
	PerSecond *int                 `placeholder:"N" help:"How many deliveries in a second, 1 to 5000. Default: 500."`
}

// Run creates the replay job and prints it. It does the same as the command replay with an event's
// id, but is listed with the other commands for events.
func (c *eventsReplayCmd) Run(ctx context.Context, t terminal) error {
	return c.replayEvent(ctx, t, c.ID, eventReplay{
		apitypes.EventReplay{Endpoint: idText(c.Endpoint), Status: c.Status, PerSecond: c.PerSecond}, c.Wait,
	})
}

type eventsPublishCmd struct {
	target `embed:""`

	File string `arg:"" default:"-" help:"File with events as JSON, one per line; - reads stdin."`
}

// Help returns the text above the flags in the help of the command.
func (eventsPublishCmd) Help() string {
	return `An event is an object with the fields of POST /v1/webhooks/events, for example:

  {"account": "acme", "type": "order.created", "data": {"order_id": 1}, "idempotency_key": "order-1"}`
}

// Run publishes the events of the file in one request, all or none, and prints a receipt for each.
// It parses the whole file first, so that a faulty line publishes nothing. An error names the event
// by its number, counted from 1. The server checks the values. This command checks only mistakes
// that would be lost on the way, such as a misspelt field.
func (c *eventsPublishCmd) Run(ctx context.Context, t terminal) error {
	text, err := readSource(t, c.File)
	if err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	events, err := parseEvents(sourceName(c.File), text)
	if err != nil {
		return err
	}
	return ask(t, c.target, receiptTable.all, func(api *client.Client) ([]apitypes.BatchReceipt, error) {
		receipts, err := api.PublishBatch(ctx, events)
		// The server counts events from 0, people count from 1.
		if problem := (*client.Error)(nil); errors.As(err, &problem) && problem.Index != nil {
			return nil, fmt.Errorf("event %d: %w", *problem.Index+1, err)
		}
		return receipts, err
	})
}

// receiptTable shows the receipts of a batch, in the order of the file.
var receiptTable = tableOf[apitypes.BatchReceipt]{
	[]string{"ID", "DUPLICATE"},
	func(r apitypes.BatchReceipt) []string {
		return []string{r.ID.String(), strconv.FormatBool(r.Duplicate)}
	},
}

// maxEvents is the most events of one request of the API.
const maxEvents = 1000

// sourceName returns the name of a file for messages; stdin for "-".
func sourceName(file string) string {
	if file == "-" {
		return "stdin"
	}
	return file
}

// parseEvents reads JSON objects in the form of the API, one after the other. Line breaks do not
// matter. An unknown field is an error, because a misspelt optional field would be lost otherwise.
// Errors begin with the name of the file.
func parseEvents(name string, text []byte) ([]apitypes.EventCreate, error) {
	var events []apitypes.EventCreate
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	for {
		var e apitypes.EventCreate
		switch err := d.Decode(&e); {
		case errors.Is(err, io.EOF) && len(events) > maxEvents:
			return nil, misused("%s: has %d events, and one request takes %d: split the file, as by split -l %d", name, len(events), maxEvents,
				maxEvents)
		case errors.Is(err, io.EOF) && len(events) > 0:
			return events, nil
		case errors.Is(err, io.EOF):
			return nil, misused("%s: has no event", name)
		case err != nil:
			return nil, misused("%s: event %d: %v", name, len(events)+1, err)
		case e.Data == nil:
			return nil, misused("%s: event %d: has no data", name, len(events)+1)
		}
		events = append(events, e)
	}
}
