package main

import (
	"context"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// accountsCmd is the group of commands for accounts, the customers of the platform.
// All of them need an admin key.
type accountsCmd struct {
	List   accountsListCmd   `cmd:"" help:"List accounts, newest first."`
	Create accountsCreateCmd `cmd:"" help:"Make an account."`
	Get    accountsGetCmd    `cmd:"" help:"Show one account."`
	Update accountsUpdateCmd `cmd:"" help:"Change an account. Fields without a flag stay as they are."`
	Delete accountsDeleteCmd `cmd:"" help:"Delete an account: revoke its keys, delete its endpoints and cancel their pending deliveries. Its history stays."`
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
	return ask(t, c.target, accountTable.page, func(api *client.Client) (apitypes.Page[apitypes.Account], error) {
		return api.Accounts(ctx, c.page())
	})
}

type accountsCreateCmd struct {
	target `embed:""`

	UID  string `arg:"" help:"Your own name for the account, for example acme."`
	Name string `help:"The account's name for people."`
}

// Run makes the account.
func (c *accountsCreateCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, accountTable.one, func(api *client.Client) (apitypes.Account, error) {
		return api.CreateAccount(ctx, apitypes.AccountCreate{UID: c.UID, Name: c.Name})
	})
}

// oneAccount holds the flags and the argument of commands for one account.
type oneAccount struct {
	target `embed:""`

	Account string `arg:"" help:"The account's id, acc_…, or your own uid."`
}

type accountsGetCmd struct{ oneAccount }

// Run shows the account, also a deleted one, which its id finds.
func (c *accountsGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printDetails, func(api *client.Client) (apitypes.Account, error) {
		return api.Account(ctx, c.Account)
	})
}

type accountsUpdateCmd struct {
	oneAccount

	UID  *string `placeholder:"UID" help:"Your own name for the account."`
	Name *string `placeholder:"NAME" help:"The account's name for people."`
}

// Run changes the account. A flag that is not given leaves its field out of the
// request, and the field stays. A call without a change would look like success, so
// it is refused.
func (c *accountsUpdateCmd) Run(ctx context.Context, t terminal) error {
	update := apitypes.AccountUpdate{UID: apitypes.OfPointer(c.UID), Name: apitypes.OfPointer(c.Name)}
	if update == (apitypes.AccountUpdate{}) {
		return misused("nothing to change: name at least one flag, as in --name Acme")
	}
	return ask(t, c.target, accountTable.one, func(api *client.Client) (apitypes.Account, error) {
		return api.ChangeAccount(ctx, c.Account, update)
	})
}

type accountsDeleteCmd struct{ oneAccount }

// Run deletes the account. The server revokes its keys at once and deletes its
// endpoints in the background, so the command returns before all deliveries are
// cancelled.
func (c *accountsDeleteCmd) Run(ctx context.Context, t terminal) error {
	return change(t, c.target, c.Account+" is deleted", func(api *client.Client) error {
		return api.DeleteAccount(ctx, c.Account)
	})
}
