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

// deliveriesCmd is the group of commands for deliveries. The command replay makes a new delivery
// from an old one.
type deliveriesCmd struct {
	List     deliveriesListCmd     `cmd:"" help:"List deliveries, newest first."`
	Get      deliveriesGetCmd      `cmd:"" help:"Show one delivery."`
	Attempts deliveriesAttemptsCmd `cmd:"" help:"List the attempts of a delivery. A lost attempt STARTED when its loss was noticed; its request may have left long before."`
	Request  deliveriesRequestCmd  `cmd:"" help:"Show the request of an attempt, what is signed of it, and a curl command. Signatures and credentials are masked."`
	Cancel   deliveriesCancelCmd   `cmd:"" help:"Cancel a pending delivery."`
	Retry    deliveriesRetryCmd    `cmd:"" help:"Retry a waiting delivery now."`
	Release  deliveriesReleaseCmd  `cmd:"" help:"Send a parked delivery again. A delivery is parked if it is suspected of killing servers, and five more died while it was the only suspect that was sent."`
}

// deliveryTable shows deliveries.
var deliveryTable = tableOf[apitypes.Delivery]{
	[]string{"ID", "EVENT TYPE", "ENDPOINT", "STATUS", "ATTEMPTS", "LAST", "NEXT ATTEMPT", "WAITING"},
	func(d apitypes.Delivery) []string {
		return []string{
			d.ID.String(), typed(d.EventType, d.Test), d.Endpoint.String(), string(d.Status), strconv.Itoa(d.Attempts),
			last(d.LastStatusCode, d.LastError), moment(d.NextAttemptAt), string(optional(d.Waiting).Reason),
		}
	},
}

// typed returns an event type for a table, with a mark if the event is a test.
func typed(eventType string, test bool) string {
	if test {
		return eventType + " (test)"
	}
	return eventType
}

// attemptTable shows the attempts of one delivery. eventAttemptTable extends it.
var attemptTable = tableOf[apitypes.Attempt]{
	[]string{"ATTEMPT", "STARTED", "OUTCOME", "CODE", "MS", "TIMING", "ERROR"},
	func(a apitypes.Attempt) []string {
		return []string{
			strconv.Itoa(a.Attempt), moment(&a.StartedAt), string(a.Outcome), last(a.StatusCode, nil),
			strconv.FormatInt(a.DurationMS, 10), timingText(a.Timing), optional(a.Error),
		}
	},
}

// timingText returns the times of the steps of an attempt: "dns 1ms, connect 20ms, tls 40ms, first
// byte 110ms". Steps that round to less than 0.1 ms are left out, and so is the time after the
// first byte.
func timingText(t *apitypes.Timing) string {
	if t == nil {
		return ""
	}
	var parts []string
	if t.Reused {
		parts = append(parts, "reused")
	}
	for _, part := range []struct {
		name   string
		micros int64
	}{{"dns", t.DNSUS}, {"connect", t.ConnectUS}, {"tls", t.TLSUS}, {"first byte", t.FirstByteUS}} {
		if took := (time.Duration(part.micros) * time.Microsecond).Round(100 * time.Microsecond); took > 0 {
			parts = append(parts, part.name+" "+took.String())
		}
	}
	return strings.Join(parts, ", ")
}

// last returns the result of the last attempt for a table: the status code, otherwise the error. A
// status code says more than its error "http_status: …". The text is empty before the first
// attempt.
func last(code *int, failure *string) string {
	if optional(code) != 0 {
		return strconv.Itoa(*code)
	}
	return optional(failure)
}

// deliveriesListCmd lists the deliveries that match all given flags.
type deliveriesListCmd struct {
	target `embed:""`
	paging `embed:""`
	within `embed:""`

	Account   string               `help:"Only of this account, by id or uid. Default: all accounts."`
	Event     postrider.EventID    `placeholder:"ID" help:"Only of this event, evt_…"`
	Endpoint  postrider.EndpointID `placeholder:"ID" help:"Only to this endpoint, ep_…"`
	EventType string               `help:"Only for events of this type."`
	Status    postrider.Status     `enum:",pending,delivered,dead,cancelled,skipped" default:"" placeholder:"STATUS" help:"Only with this status: pending, delivered, dead, cancelled or skipped."`
	ReplayJob postrider.ReplayID   `placeholder:"ID" help:"Only those that this replay made, rpl_…"`
}

// Run lists deliveries.
func (c *deliveriesListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, deliveryTable.page, func(api *client.Client) (apitypes.Page[apitypes.Delivery], error) {
		return api.Deliveries(ctx, client.DeliveryFilter{
			Account: c.Account, Event: c.Event, Endpoint: c.Endpoint, EventType: c.EventType, Status: c.Status, ReplayJob: c.ReplayJob,
			From: c.From.Time, To: c.To.Time, OldestFirst: c.OldestFirst, Paging: c.page(),
		})
	})
}

// oneDelivery has the flags and the argument of commands for one delivery or its dead letter.
type oneDelivery struct {
	target `embed:""`

	ID postrider.DeliveryID `arg:"" help:"The delivery's id, dlv_…"`
}

type (
	deliveriesGetCmd     struct{ oneDelivery }
	deliveriesCancelCmd  struct{ oneDelivery }
	deliveriesRetryCmd   struct{ oneDelivery }
	deliveriesReleaseCmd struct{ oneDelivery }
)

// Run shows the delivery.
func (c *deliveriesGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printDelivery, func(api *client.Client) (apitypes.Delivery, error) {
		return api.Delivery(ctx, c.ID)
	})
}

// printDelivery prints a delivery as printDetails does, and adds texts that explain its state.
func printDelivery(t terminal, asJSON bool, d apitypes.Delivery) error {
	if asJSON {
		return printJSON(t.out, d)
	}
	rows := detailsOf(d)
	for _, row := range rows {
		switch row[0] {
		case "waiting":
			row[1] = waitingText(d.Waiting)
		case "explanation":
			row[1] = explanationText(d)
		}
	}
	return printTable(t.out, []string{"FIELD", "VALUE"}, rows)
}

// waitingText returns why a delivery waits, and for what or until when: "scheduled until 2026-…".
// It is empty for a delivery that is not pending.
func waitingText(w *apitypes.Waiting) string {
	if w == nil {
		return ""
	}
	text := string(w.Reason)
	if w.Delivery != nil {
		text += ", after " + w.Delivery.String()
	}
	if w.Until != nil {
		text += " until " + moment(w.Until)
	}
	return text
}

// explanationText returns the sentences that explain the delivery, and a command that helps or
// tells more: "Its endpoint is paused. … postrider endpoints resume ep_…".
func explanationText(d apitypes.Delivery) string {
	if d.Explanation == nil { // from an older server
		return ""
	}
	command := ""
	switch d.Explanation.Action {
	case postrider.ToRelease:
		command = "deliveries release " + d.ID.String()
	case postrider.ToResume:
		command = "endpoints resume " + d.Endpoint.String()
	case postrider.ToResumeStore:
		command = "resume --after-restore"
	case postrider.ToEnable:
		command = "endpoints enable " + d.Endpoint.String()
	case postrider.ToRotateSecret:
		command = "endpoints rotate " + d.Endpoint.String()
	case postrider.ToSetPolicy:
		command = "endpoints get " + d.Endpoint.String()
	case postrider.ToReplay:
		command = "replay " + d.ID.String()
	}
	reason := optional(d.Waiting).Reason
	if reason == postrider.WaitCircuitOpen || reason == postrider.WaitAskedToWait {
		command = "endpoints circuit " + d.Endpoint.String()
	}
	if reason == postrider.WaitScheduled {
		command = "deliveries retry " + d.ID.String()
	}
	if command == "" {
		return d.Explanation.Text
	}
	return d.Explanation.Text + " postrider " + command
}

// Run cancels the delivery and prints it. An attempt in flight continues; its result is recorded
// and changes nothing.
func (c *deliveriesCancelCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, deliveryTable.one, func(api *client.Client) (apitypes.Delivery, error) {
		return api.CancelDelivery(ctx, c.ID)
	})
}

// Run makes the next attempt of the delivery due now, and prints the delivery.
func (c *deliveriesRetryCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, deliveryTable.one, func(api *client.Client) (apitypes.Delivery, error) {
		return api.RetryDelivery(ctx, c.ID)
	})
}

// Run releases the parked delivery and prints it. The server then sends it separately from all
// others, because it may kill another server.
func (c *deliveriesReleaseCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, deliveryTable.one, func(api *client.Client) (apitypes.Delivery, error) {
		return api.ReleaseDelivery(ctx, c.ID)
	})
}

type deliveriesAttemptsCmd struct {
	oneDelivery
	paging `embed:""`
}

// Run lists the delivery's attempts.
func (c *deliveriesAttemptsCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, attemptTable.page, func(api *client.Client) (apitypes.Page[apitypes.Attempt], error) {
		return api.Attempts(ctx, c.ID, c.page())
	})
}

type deliveriesRequestCmd struct {
	oneDelivery

	Attempt int `arg:"" default:"1" help:"The number of the attempt."`
}

// Run shows the request of the attempt.
func (c *deliveriesRequestCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printRequest, func(api *client.Client) (apitypes.AttemptRequest, error) {
		return api.AttemptRequest(ctx, c.ID, c.Attempt)
	})
}

// printRequest prints a request as HTTP writes it, then the signed text of each scheme, and then a
// curl command that makes the request.
func printRequest(t terminal, asJSON bool, r apitypes.AttemptRequest) error {
	if asJSON {
		return printJSON(t.out, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", r.Method, r.URL)
	for _, h := range r.Headers {
		fmt.Fprintf(&b, "%s: %s\n", h.Name, h.Value)
	}
	switch {
	case r.Body != nil:
		fmt.Fprintf(&b, "\n%s\n", *r.Body)
	case r.BodyBytes != nil:
		fmt.Fprintf(&b, "\n(a body of %d bytes, SHA-256 %s)\n", *r.BodyBytes, optional(r.BodySHA256))
	default:
		b.WriteString("\n(the bytes of the body are deleted)\n")
	}
	for _, s := range r.Signatures {
		fmt.Fprintf(&b, "\n%s signs %q and the body, in %s", s.Scheme, s.Prefix, s.Header)
	}
	if !r.Recorded {
		b.WriteString("\nThe headers are not recorded; they are shown as they are sent by the present options of the endpoint")
	}
	if r.EndpointChanged {
		b.WriteString("\nThe endpoint has changed since the attempt")
	}
	fmt.Fprintf(&b, "\n\n%s\n", r.Curl)
	_, err := t.out.Write([]byte(b.String()))
	return err
}

// replayCmd is the command replay. Ids have a prefix for their type, so the id decides whether the
// command replays a delivery or an event. It is a top-level command because people look for it
// after an outage.
type replayCmd struct {
	target   `embed:""`
	awaiting `embed:""`

	ID        string               `arg:"" help:"A delivery's id, dlv_…, or an event's, evt_…"`
	Endpoint  postrider.EndpointID `placeholder:"ID" help:"For an event: only to this endpoint, ep_…"`
	Status    postrider.Status     `enum:",delivered,dead,cancelled,skipped" default:"" placeholder:"STATUS" help:"For an event: only to endpoints whose last delivery of it has this status: delivered, dead, cancelled or skipped."`
	PerSecond *int                 `placeholder:"N" help:"For an event: how many deliveries in a second, 1 to 5000. Default: 500."`
}

// Run makes the new deliveries and prints them. For a single delivery it refuses the filters, which
// would have no effect.
func (c *replayCmd) Run(ctx context.Context, t terminal) error {
	delivery, notDelivery := postrider.ParseID[postrider.DeliveryID](c.ID)
	event, notEvent := postrider.ParseID[postrider.EventID](c.ID)
	if notDelivery != nil && notEvent != nil {
		return misused("ID: must be a delivery's (dlv_…) or an event's (evt_…); %s is neither", strconv.Quote(shorten(c.ID)))
	}
	only := eventReplay{apitypes.EventReplay{Endpoint: idText(c.Endpoint), Status: c.Status, PerSecond: c.PerSecond}, c.Wait}
	if notDelivery == nil && only != (eventReplay{}) {
		return misused("--endpoint, --status, --per-second, --wait: select among the deliveries of an event, and ID is one delivery")
	}
	if notDelivery != nil {
		return c.replayEvent(ctx, t, event, only)
	}
	return ask(t, c.target, deliveryTable.one, func(api *client.Client) (apitypes.Delivery, error) {
		return api.ReplayDelivery(ctx, delivery)
	})
}

// replayEvent replays an event to the endpoints that the filter selects, and prints the replay job.
// If no endpoint matches, it prints that there is nothing to replay.
func (t target) replayEvent(ctx context.Context, to terminal, event postrider.EventID, request eventReplay) error {
	return ask(to, t, printReplayed, func(api *client.Client) (apitypes.Replay, error) {
		r, err := api.ReplayEvent(ctx, event, request.EventReplay)
		if err != nil || !request.wait {
			return r, err
		}
		return awaitReplay(ctx, to, api, r)
	})
}

// eventReplay is a request to replay an event. wait says whether the command waits for the end of
// the job.
type eventReplay struct {
	apitypes.EventReplay

	wait bool
}

// printReplayed prints the replay of an event.
func printReplayed(t terminal, asJSON bool, r apitypes.Replay) error {
	if r.Expected.Matches == 0 && !asJSON {
		_, err := fmt.Fprintln(t.out, "nothing to replay")
		return err
	}
	return replayTable.one(t, asJSON, r)
}

// shorten returns the text, cut after 40 bytes for an error message.
func shorten(text string) string {
	if len(text) > 40 {
		return strings.ToValidUTF8(text[:40], "") + "…"
	}
	return text
}
