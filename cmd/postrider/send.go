package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/client"
)

type accountsCmd struct {
	List   accountsListCmd   `cmd:"" help:"List accounts, newest first."`
	Create accountsCreateCmd `cmd:"" help:"Make an account."`
}

var accountTable = tableOf[client.Account]{
	[]string{"ID", "UID", "NAME", "CREATED"},
	func(a client.Account) []string { return []string{a.ID.String(), a.UID, a.Name, moment(a.CreatedAt)} },
}

type accountsListCmd struct {
	target `embed:""`
	paging `embed:""`
}

// Run lists accounts.
func (c *accountsListCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	page, err := api.Accounts(ctx, c.page())
	if err != nil {
		return err
	}
	return printPage(t, c.JSON, page, accountTable)
}

type accountsCreateCmd struct {
	target `embed:""`

	UID  string `arg:"" help:"Your own name for the account, as in acme."`
	Name string `help:"The account's name, for people."`
}

// Run makes the account.
func (c *accountsCreateCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	account, err := api.CreateAccount(ctx, client.NewAccount{UID: c.UID, Name: c.Name})
	if err != nil {
		return err
	}
	return printOne(t, c.JSON, account, accountTable)
}

type sendCmd struct {
	target `embed:""`

	Type           string `arg:"" help:"The event's type, as in order.created."`
	Data           string `arg:"" default:"-" help:"The event's data, JSON; @FILE reads a file, - reads stdin."`
	Account        string `required:"" help:"Whose event it is: an account's id or uid."`
	IdempotencyKey string `help:"Makes it harmless to send the same event twice."`
	OrderingKey    string `help:"What the event is kept in order with."`
	APIVersion     string `name:"api-version" help:"The version of your own API that the data is in."`
}

// Run publishes the event.
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
	receipt, err := api.Publish(ctx, client.NewEvent{
		Account: c.Account, Type: c.Type, Data: data, APIVersion: c.APIVersion,
		IdempotencyKey: c.IdempotencyKey, OrderingKey: c.OrderingKey,
	})
	if err != nil {
		return err
	}
	return printReceipt(t, c.JSON, receipt)
}

func printReceipt(t terminal, asJSON bool, receipt client.Receipt) error {
	if asJSON {
		return printJSON(t.out, receipt)
	}
	_, err := fmt.Fprintf(t.out, "%s %s\n", receipt.ID, fate(receipt))
	return err
}

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

// fate says in a few words what becomes of an event.
func fate(r client.Receipt) string {
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
