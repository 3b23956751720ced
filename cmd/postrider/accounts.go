package main

import (
	"context"
	"fmt"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

type accountsCmd struct {
	List   accountsListCmd   `cmd:"" help:"List accounts, newest first."`
	Create accountsCreateCmd `cmd:"" help:"Make an account."`
	Get    accountsGetCmd    `cmd:"" help:"Show one account."`
	Update accountsUpdateCmd `cmd:"" help:"Change an account. What no flag names stays as it is."`
	Delete accountsDeleteCmd `cmd:"" help:"Delete an account: revoke its keys, delete its endpoints and cancel what is queued for them. Its history stays."`
}

// accountTable shows accounts, as lists and changes print them.
var accountTable = tableOf[apitypes.Account]{
	[]string{"ID", "UID", "NAME", "CREATED"},
	func(a apitypes.Account) []string {
		return []string{a.ID.String(), optional(a.UID), a.Name, moment(&a.CreatedAt)}
	},
}

type accountsListCmd struct {
	target `embed:""`
	paging `embed:""`
}

// Run lists accounts.
func (c *accountsListCmd) Run(ctx context.Context, t terminal) error {
	return c.through(func(api *client.Client) error {
		page, err := api.Accounts(ctx, c.page())
		if err != nil {
			return err
		}
		return printPage(t, c.JSON, page, accountTable)
	})
}

type accountsCreateCmd struct {
	target `embed:""`

	UID  string `arg:"" help:"Your own name for the account, as in acme."`
	Name string `help:"The account's name, for people."`
}

// Run makes the account.
func (c *accountsCreateCmd) Run(ctx context.Context, t terminal) error {
	return c.through(func(api *client.Client) error {
		account, err := api.CreateAccount(ctx, apitypes.AccountCreate{UID: c.UID, Name: c.Name})
		if err != nil {
			return err
		}
		return printOne(t, c.JSON, account, accountTable)
	})
}

// account holds the flags and the argument of commands for one account.
type account struct {
	target `embed:""`

	Account string `arg:"" help:"The account's id, acc_…, or your own uid."`
}

type accountsGetCmd struct{ account }

// Run shows the account.
func (c *accountsGetCmd) Run(ctx context.Context, t terminal) error {
	return c.through(func(api *client.Client) error {
		found, err := api.Account(ctx, c.Account)
		if err != nil {
			return err
		}
		return printOne(t, c.JSON, found, accountTable)
	})
}

type accountsUpdateCmd struct {
	account

	UID  *string `placeholder:"UID" help:"Your own name for the account."`
	Name *string `placeholder:"NAME" help:"The account's name, for people."`
}

// Run changes the account. A flag that is not given leaves its field out of the
// request, and the field stays. A call without a change would look like success, so
// it is refused.
func (c *accountsUpdateCmd) Run(ctx context.Context, t terminal) error {
	change := apitypes.AccountUpdate{UID: apitypes.OfPointer(c.UID), Name: apitypes.OfPointer(c.Name)}
	if change == (apitypes.AccountUpdate{}) {
		return misused("nothing to change: name at least one flag, as in --name Acme")
	}
	return c.through(func(api *client.Client) error {
		changed, err := api.ChangeAccount(ctx, c.Account, change)
		if err != nil {
			return err
		}
		return printOne(t, c.JSON, changed, accountTable)
	})
}

type accountsDeleteCmd struct{ account }

// Run deletes the account.
func (c *accountsDeleteCmd) Run(ctx context.Context, t terminal) error {
	return c.through(func(api *client.Client) error {
		if err := api.DeleteAccount(ctx, c.Account); err != nil {
			return err
		}
		_, err := fmt.Fprintf(t.out, "%s is deleted\n", c.Account)
		return err
	})
}
