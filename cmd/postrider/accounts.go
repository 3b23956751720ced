package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// accountsCmd is the group of commands for accounts, the customers of the platform.
// All of these commands need an admin key.
type accountsCmd struct {
	List   accountsListCmd   `cmd:"" help:"List accounts, newest first."`
	Create accountsCreateCmd `cmd:"" help:"Make an account."`
	Get    accountsGetCmd    `cmd:"" help:"Show one account."`
	Update accountsUpdateCmd `cmd:"" help:"Change an account. Fields without a flag stay as they are."`
	Put    accountsPutCmd    `cmd:"" help:"Make an account, or replace it. Fields without a flag get their default."`
	Quotas accountsQuotasCmd `cmd:"" help:"Show the limits of an account and what it uses, or change them."`
	Delete accountsDeleteCmd `cmd:"" help:"Delete an account: revoke its keys, delete its endpoints and cancel their pending deliveries. Its history stays."`
}

// accountTable shows accounts.
var accountTable = tableOf[apitypes.Account]{
	[]string{"ID", "UID", "NAME", "CREATED"},
	func(a apitypes.Account) []string {
		return []string{a.ID.String(), optional(a.UID), a.Name, moment(&a.CreatedAt)}
	},
}

type accountsListCmd struct {
	target `embed:""`
	paging `embed:""`

	Metadata map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"Only accounts with this metadata; may be given several times."`
}

// Run lists accounts.
func (c *accountsListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, accountTable.page, func(api *client.Client) (apitypes.Page[apitypes.Account], error) {
		return api.Accounts(ctx, client.AccountFilter{Metadata: c.Metadata, Paging: c.page()})
	})
}

type accountsCreateCmd struct {
	target `embed:""`

	UID      string            `arg:"" help:"Your own name for the account, for example acme."`
	Name     string            `help:"The account's name for people."`
	Metadata map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"What you want to note of the account, which its customers can read; may be given several times."`

	retentionFlags `embed:""`
}

// Run makes the account.
func (c *accountsCreateCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, accountTable.one, func(api *client.Client) (apitypes.Account, error) {
		return api.CreateAccount(ctx, apitypes.AccountCreate{UID: c.UID, Name: c.Name, Metadata: c.Metadata, Retention: c.of()})
	})
}

// oneAccount holds the flags and the argument of commands for one account.
type oneAccount struct {
	target `embed:""`

	Account string `arg:"" help:"The account's id, acc_…, or your own uid."`
}

type accountsGetCmd struct{ oneAccount }

// Run shows the account. A deleted account is found by its id.
func (c *accountsGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printDetails, func(api *client.Client) (apitypes.Account, error) {
		return api.Account(ctx, c.Account)
	})
}

type accountsUpdateCmd struct {
	oneAccount

	UID           *string `placeholder:"UID" help:"Your own name for the account."`
	Name          *string `placeholder:"NAME" help:"The account's name for people."`
	metadataFlags `embed:""`
	revisionFlag  `embed:""`

	retentionFlags `embed:""`
}

// metadataFlags are the flags that change metadata.
type metadataFlags struct {
	Metadata   map[string]string `mapsep:"none" placeholder:"KEY=VALUE" xor:"metadata" help:"Metadata, which replaces all that is noted, and which the customers of the account can read; may be given several times."`
	NoMetadata bool              `xor:"metadata" help:"Remove the metadata."`
}

// metadata converts the flags to the type of the API.
func (f metadataFlags) metadata() apitypes.Optional[apitypes.Metadata] {
	switch {
	case f.NoMetadata:
		return apitypes.Null[apitypes.Metadata]()
	case f.Metadata == nil:
		return apitypes.Optional[apitypes.Metadata]{}
	}
	return apitypes.Of(f.Metadata)
}

// retentionFlags are the flags for the rows that an account keeps for a shorter time than the
// server.
type retentionFlags struct {
	KeepEventsDays          *int `placeholder:"DAYS" help:"How long its events are kept with their data; 0: as long as the server keeps them."`
	KeepAttemptsDays        *int `placeholder:"DAYS" help:"How long its deliveries are kept with their attempts; 0: as long as the server keeps them."`
	KeepBodiesDays          *int `placeholder:"DAYS" help:"How long headers and bodies of its requests and responses are kept; 0: as long as the server keeps them."`
	KeepIdempotencyKeysDays *int `placeholder:"DAYS" help:"How long its idempotency keys are remembered; 0: as long as the server remembers them."`
}

// of converts the flags to the type of the API.
func (f retentionFlags) of() apitypes.Retention {
	days := func(flag *int) apitypes.Optional[int] {
		if flag != nil && *flag == 0 {
			return apitypes.Null[int]()
		}
		return apitypes.OfPointer(flag)
	}
	return apitypes.Retention{
		KeepEventsDays: days(f.KeepEventsDays), KeepAttemptsDays: days(f.KeepAttemptsDays), KeepBodiesDays: days(f.KeepBodiesDays),
		KeepIdempotencyKeysDays: days(f.KeepIdempotencyKeysDays),
	}
}

// Run changes the account. If a flag is missing, the request leaves out its field, and the field
// keeps its value. A call without any flag is refused: it would change nothing and look like
// success.
func (c *accountsUpdateCmd) Run(ctx context.Context, t terminal) error {
	update := apitypes.AccountUpdate{
		UID: apitypes.OfPointer(c.UID), Name: apitypes.OfPointer(c.Name), Metadata: c.metadata(), Retention: c.of(),
	}
	if compact(update) == "{}" {
		return misused("nothing to change: name at least one flag, as in --name Acme")
	}
	return ask(t, c.target, accountTable.one, func(api *client.Client) (apitypes.Account, error) {
		return c.on(api).ChangeAccount(ctx, c.Account, update)
	})
}

type accountsPutCmd struct {
	oneAccount

	Name         string            `help:"The account's name for people."`
	Metadata     map[string]string `mapsep:"none" placeholder:"KEY=VALUE" help:"What you want to note of the account, which its customers can read; may be given several times."`
	revisionFlag `embed:""`

	retentionFlags `embed:""`
}

// Run makes or replaces the account. A deployment script can run the command each time.
func (c *accountsPutCmd) Run(ctx context.Context, t terminal) error {
	put := apitypes.AccountPut{Name: apitypes.Of(c.Name), Retention: c.of()}
	if c.Metadata != nil {
		put.Metadata = apitypes.Of(c.Metadata)
	}
	return ask(t, c.target, accountTable.one, func(api *client.Client) (apitypes.Account, error) {
		return c.on(api).PutAccount(ctx, c.Account, put)
	})
}

// revisionFlag is the flag of commands that change an object only while nobody else does.
type revisionFlag struct {
	IfRevision int64 `placeholder:"N" help:"Do it only while the object has this revision. Default: in any case."`
}

// on returns a client whose changes have this condition.
func (c revisionFlag) on(api *client.Client) *client.Client {
	if c.IfRevision == 0 {
		return api
	}
	return api.IfRevision(c.IfRevision)
}

type accountsDeleteCmd struct {
	oneAccount

	Yes bool `help:"Do it. It cannot be undone."`
}

// Run deletes the account. The server revokes its keys at once and deletes its
// endpoints in the background, so the command returns before all deliveries are
// cancelled.
func (c *accountsDeleteCmd) Run(ctx context.Context, t terminal) error {
	if !c.Yes {
		return misused("--yes: say that it is meant; a deleted account and its endpoints cannot be brought back")
	}
	return change(t, c.target, c.Account+" is deleted", func(api *client.Client) error {
		return api.DeleteAccount(ctx, c.Account)
	})
}

// accountsQuotasCmd is the command accounts quotas. Without a flag it only reads.
type accountsQuotasCmd struct {
	oneAccount

	EventsPerSecond quotaFlag `placeholder:"N" help:"Events that the account may publish in a second, on average: a number, none for no limit, or default for the server's."`
	Burst           quotaFlag `placeholder:"N" help:"Events that it may publish at once: a number, or default for as many as in a second."`
	BytesPerDay     quotaFlag `placeholder:"N" help:"Bytes of data that the events of a day of UTC may have: a number, none or default."`
	Endpoints       quotaFlag `placeholder:"N" help:"Endpoints that it may have: a number, none or default."`
	Backlog         quotaFlag `placeholder:"N" help:"Deliveries that may wait for one endpoint; when as many wait, new events are skipped for it: a number, none or default."`
}

// quotaFlag is a flag with a limit: a number, none or default. Empty: the flag is not given.
type quotaFlag string

// of converts the flag to the type of the API.
func (f quotaFlag) of() (field apitypes.Optional[int64], err error) {
	switch f {
	case "":
		return field, nil
	case "default":
		return apitypes.Null[int64](), nil
	case "none":
		return apitypes.Of[int64](0), nil
	}
	n, err := strconv.ParseInt(string(f), 10, 64)
	if err != nil || n < 1 {
		return field, misused("a limit must be a number from 1, none or default, not %q", string(f))
	}
	return apitypes.Of(n), nil
}

// Run shows or changes the limits.
func (c *accountsQuotasCmd) Run(ctx context.Context, t terminal) error {
	var update apitypes.QuotasUpdate
	for _, limit := range []struct {
		flag quotaFlag
		to   *apitypes.Optional[int64]
	}{
		{c.EventsPerSecond, &update.EventsPerSecond},
		{c.Burst, &update.Burst},
		{c.BytesPerDay, &update.BytesPerDay},
		{c.Endpoints, &update.Endpoints},
		{c.Backlog, &update.Backlog},
	} {
		var err error
		if *limit.to, err = limit.flag.of(); err != nil {
			return err
		}
	}
	return ask(t, c.target, printQuotas, func(api *client.Client) (apitypes.AccountQuotas, error) {
		if update == (apitypes.QuotasUpdate{}) {
			return api.AccountQuotas(ctx, c.Account)
		}
		return api.ChangeAccountQuotas(ctx, c.Account, update)
	})
}

// printQuotas prints a row for each limit.
func printQuotas(t terminal, asJSON bool, q apitypes.AccountQuotas) error {
	if asJSON {
		return printJSON(t.out, q)
	}
	limit := func(n *int64) string {
		if n == nil {
			return "none"
		}
		return strconv.FormatInt(*n, 10)
	}
	own := func(n *int64) string {
		switch {
		case n == nil:
			return "server"
		case *n == 0:
			return "account: none"
		}
		return "account"
	}
	used := func(n *int64, format string) string {
		if n == nil {
			return ""
		}
		return fmt.Sprintf(format, *n)
	}
	return printTable(t.out, []string{"QUOTA", "LIMIT", "SET BY", "USED"}, [][]string{
		{"events per second", limit(q.Limits.EventsPerSecond), own(q.Own.EventsPerSecond), ""},
		{"burst", limit(q.Limits.Burst), own(q.Own.Burst), used(q.Used.EventsNow, "%d left now")},
		{"bytes per day", limit(q.Limits.BytesPerDay), own(q.Own.BytesPerDay), used(q.Used.BytesToday, "%d today")},
		{"endpoints", limit(q.Limits.Endpoints), own(q.Own.Endpoints), used(&q.Used.Endpoints, "%d")},
		{"backlog", limit(q.Limits.Backlog), own(q.Own.Backlog), ""},
	})
}
