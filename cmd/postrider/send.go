package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// sendCmd is the command send. It publishes one event. The command events publish publishes many.
type sendCmd struct {
	target     `embed:""`
	aboutFlags `embed:""`

	Type           string `arg:"" help:"The event's type, for example order.created."`
	Data           string `arg:"" default:"-" help:"The event's data as JSON, or as --content-type says; @FILE reads a file, - reads stdin."`
	Account        string `required:"" help:"The account that the event belongs to, by id or uid."`
	IdempotencyKey string `help:"A key of your own for the event. A second event with the same key is not delivered. Default: a random key."`
	OrderingKey    string `help:"Events with the same ordering key reach endpoints with --order by_key in the order they were published. Default: none."`
	MaxAttempts    *int   `help:"How many attempts each delivery of the event has at most, 1 to 100. Default: as many as the retry schedule of its endpoint."`
	APIVersion     string `name:"api-version" help:"The version of your own API that the data follows. Default: none."`

	Endpoint []string `sep:"none" placeholder:"ID|UID" help:"Only to this endpoint of the account, whatever its event types and filters are. Can be repeated. Default: to those that subscribe."`
}

// Run publishes the event and prints its receipt. It checks the type and the data
// before it calls the server, so that a mistake exits with 2.
func (c *sendCmd) Run(ctx context.Context, t terminal) error {
	if err := postrider.CheckType("TYPE", c.Type); err != nil {
		return misused("%v", err)
	}
	data, encoding, err := c.data(t)
	if err != nil {
		return err
	}
	about, err := c.about(t)
	if err != nil {
		return err
	}
	return ask(t, c.target, printReceipt, func(api *client.Client) (apitypes.Receipt, error) {
		return api.Publish(ctx, apitypes.EventCreate{
			About: about, Account: c.Account, Type: c.Type, Data: data, DataEncoding: encoding, APIVersion: c.APIVersion,
			IdempotencyKey: c.IdempotencyKey, OrderingKey: c.OrderingKey, MaxAttempts: c.MaxAttempts, Endpoints: c.Endpoint,
		})
	})
}

// data returns the data in the form of the API, and its encoding.
func (c *sendCmd) data(t terminal) (json.RawMessage, string, error) {
	if c.ContentType == "" {
		data, err := readData(t, "DATA", c.Data)
		return data, "", err
	}
	text, err := readText(t, c.Data)
	e := postrider.Event{Data: text, About: postrider.About{ContentType: c.ContentType}}
	data, encoding := e.JSONData()
	return data, encoding, err
}

// aboutFlags are the flags for what an event says of itself.
type aboutFlags struct {
	Subject     string            `placeholder:"TEXT" help:"What the event is about, for example order/42."`
	Channel     []string          `sep:"none" placeholder:"NAME" help:"A name by which endpoints choose among the events of a type. Can be repeated."`
	Metadata    map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"A name and a value of your own, which the account's customers can read. Can be repeated."`
	Internal    map[string]string `mapsep:"none" placeholder:"NAME=VALUE" help:"As --metadata, but nobody who is bound to an account can read it. Can be repeated."`
	Previous    string            `placeholder:"FILE" help:"File with the object before the change that the event tells of, as JSON; - is stdin."`
	ContentType string            `placeholder:"TYPE" help:"The media type of data that is not JSON, for example text/csv. Default: the data is JSON."`
	ChangedPath []string          `sep:"none" placeholder:"PATH" help:"A place in the data that changed, for example $.status. Can be repeated."`
}

// about returns the flags in the form of the API. It sends the bytes of the file unchanged.
func (f aboutFlags) about(t terminal) (apitypes.About, error) {
	about := apitypes.About{
		Subject: f.Subject, Channels: f.Channel, Metadata: f.Metadata, Internal: f.Internal, ContentType: f.ContentType,
		ChangedPaths: f.ChangedPath,
	}
	if f.Previous == "" {
		return about, nil
	}
	text, err := readSource(t, f.Previous)
	if err != nil {
		return about, fmt.Errorf("read previous: %w", err)
	}
	if !json.Valid(text) {
		return about, misused("--previous: must be JSON")
	}
	about.Previous = text
	return about, nil
}

// printReceipt prints the id of an event and what happens to it.
func printReceipt(t terminal, asJSON bool, receipt apitypes.Receipt) error {
	if asJSON {
		return printJSON(t.out, receipt)
	}
	_, err := fmt.Fprintf(t.out, "%s %s\n", receipt.ID, publishText(receipt))
	return err
}

// readData returns the JSON of [readText]. It is sent unchanged, with its white space, because receivers
// verify a signature of these bytes. name is the name of the argument.
func readData(t terminal, name, argument string) (json.RawMessage, error) {
	text, err := readText(t, argument)
	if err == nil && !json.Valid(text) {
		return nil, misused("%s: must be JSON", name)
	}
	return text, err
}

// readText returns the data of an event: the argument itself, the file after an @, or stdin for "-".
func readText(t terminal, argument string) ([]byte, error) {
	file, ok := strings.CutPrefix(argument, "@")
	if !ok && argument != "-" {
		return []byte(argument), nil
	}
	if !ok {
		file = "-"
	}
	text, err := readSource(t, file)
	if err != nil {
		return nil, fmt.Errorf("read data: %w", err)
	}
	return text, nil
}

// publishText says in a few words what happens to a published event. For an event to more than 256
// endpoints the number of deliveries is not known yet: a job makes them.
func publishText(r apitypes.Receipt) string {
	switch n := optional(r.Deliveries); {
	case r.Duplicate:
		return "was published before; nothing new is sent"
	case r.FanOut:
		return "is accepted; its deliveries are being made"
	case n == 0:
		return "is accepted and sent to nobody: no endpoint wants it, or those that do are disabled or have a full backlog"
	case n == 1:
		return "is accepted, 1 delivery"
	default:
		return fmt.Sprintf("is accepted, %d deliveries", n)
	}
}
