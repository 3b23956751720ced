package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

type sendCmd struct {
	target `embed:""`

	Type           string `arg:"" help:"The event's type, as in order.created."`
	Data           string `arg:"" default:"-" help:"The event's data, JSON; @FILE reads a file, - reads stdin."`
	Account        string `required:"" help:"Whose event it is: an account's id or uid."`
	IdempotencyKey string `help:"Makes it harmless to send the same event twice."`
	OrderingKey    string `help:"What the event is kept in order with."`
	APIVersion     string `name:"api-version" help:"The version of your own API that the data is in."`
}

// Run publishes the event and prints its receipt. It checks the type and the data
// before it calls the server, so that a mistake exits with 2.
func (c *sendCmd) Run(ctx context.Context, t terminal) error {
	if err := postrider.CheckType("TYPE", c.Type); err != nil {
		return misused("%v", err)
	}
	data, err := c.data(t)
	if err != nil {
		return err
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	receipt, err := api.Publish(ctx, apitypes.EventCreate{
		Account: c.Account, Type: c.Type, Data: data, APIVersion: c.APIVersion,
		IdempotencyKey: c.IdempotencyKey, OrderingKey: c.OrderingKey,
	})
	if err != nil {
		return err
	}
	return printReceipt(t, c.JSON, receipt)
}

// printReceipt prints the id of an event and what happens to it.
func printReceipt(t terminal, asJSON bool, receipt apitypes.Receipt) error {
	if asJSON {
		return printJSON(t.out, receipt)
	}
	_, err := fmt.Fprintf(t.out, "%s %s\n", receipt.ID, fate(receipt))
	return err
}

// data returns the data of the event: the argument itself, the file after an @, or
// stdin for "-". It must be JSON.
func (c *sendCmd) data(t terminal) (json.RawMessage, error) {
	text := []byte(c.Data)
	if file, ok := strings.CutPrefix(c.Data, "@"); ok || c.Data == "-" {
		var err error
		if !ok {
			file = "-"
		}
		if text, err = readSource(t, file); err != nil {
			return nil, fmt.Errorf("read data: %w", err)
		}
	}
	if !json.Valid(text) {
		return nil, misused("DATA: must be JSON")
	}
	return text, nil
}

// fate returns in a few words what happens to a published event. A large fan-out
// has no number of deliveries yet.
func fate(r apitypes.Receipt) string {
	switch n := optional(r.Deliveries); {
	case r.Duplicate:
		return "was published before; nothing is sent twice"
	case r.FanOut:
		return "is accepted; its deliveries are being made"
	case n == 0:
		return "is accepted; no endpoint subscribes to it"
	case n == 1:
		return "is accepted, 1 delivery"
	default:
		return fmt.Sprintf("is accepted, %d deliveries", n)
	}
}
