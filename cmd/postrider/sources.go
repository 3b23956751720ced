package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// sourcesCmd is the group of commands for the outboxes of producers. postrider outbox makes the tables in
// the database of a producer.
type sourcesCmd struct {
	List     sourcesListCmd     `cmd:"" help:"List the sources, by name."`
	Get      sourcesGetCmd      `cmd:"" help:"Show one source, with what its reader knew last."`
	State    sourcesStateCmd    `cmd:"" help:"Ask the database of a source how its outbox is."`
	Put      sourcesPutCmd      `cmd:"" help:"Make a source, or replace it. What has no flag gets its default."`
	Delete   sourcesDeleteCmd   `cmd:"" help:"Delete a source. Its rows stay in the database of the producer."`
	Pause    sourcesPauseCmd    `cmd:"" help:"Pause a source. Its rows wait in the database of the producer."`
	Resume   sourcesResumeCmd   `cmd:"" help:"Resume a paused source."`
	Rejected sourcesRejectedCmd `cmd:"" help:"List the rows that were rejected, newest first. With --json also their data."`
	Retry    sourcesRetryCmd    `cmd:"" help:"Put rejected rows back, to be published again: those with the ids, or all that the flags select."`
	Discard  sourcesDiscardCmd  `cmd:"" help:"Delete rejected rows: those with the ids, or all that the flags select. Their events are never published."`
}

// sourceTable shows sources. The figures are those of the time AS OF. While nothing is read, they are not known.
var sourceTable = tableOf[apitypes.Source]{
	[]string{"NAME", "STATE", "WAITING", "OLDEST", "REJECTED", "AS OF", "NODE", "DATABASE", "ERROR"},
	func(s apitypes.Source) []string {
		var waiting, oldest, rejected string
		if s.State.At != nil && s.State.Error == nil {
			waiting, oldest, rejected = strconv.FormatInt(s.State.Waiting, 10), moment(s.State.OldestAt), strconv.FormatInt(s.State.Rejected, 10)
		}
		return []string{
			s.Name, s.Status(), waiting, oldest, rejected, moment(s.State.At), s.State.Node, s.DatabaseURL, optional(s.State.Error),
		}
	},
}

// rejectedTable shows rejected rows.
var rejectedTable = tableOf[apitypes.RejectedRow]{
	[]string{"ID", "REJECTED", "ACCOUNT", "TYPE", "PRODUCER", "CODE", "FIELD", "MESSAGE"},
	func(r apitypes.RejectedRow) []string {
		return []string{r.ID.String(), moment(&r.RejectedAt), r.Account, r.Type, r.Producer, r.Code, r.Field, r.Message}
	},
}

type sourcesListCmd struct {
	target `embed:""`
}

// Run lists the sources.
func (c *sourcesListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, sourceTable.all, func(api *client.Client) ([]apitypes.Source, error) { return api.Sources(ctx) })
}

// oneSource holds the flags and the argument of commands for one source.
type oneSource struct {
	target `embed:""`

	Source string `arg:"" help:"Name or id of the source."`
}

type (
	sourcesGetCmd    struct{ oneSource }
	sourcesStateCmd  struct{ oneSource }
	sourcesDeleteCmd struct{ oneSource }
	sourcesPauseCmd  struct{ oneSource }
	sourcesResumeCmd struct{ oneSource }
)

// printSource prints a source with a row for each field, and for each field of its state.
func printSource(t terminal, asJSON bool, s apitypes.Source) error {
	if asJSON {
		return printJSON(t.out, s)
	}
	rows := slices.DeleteFunc(detailsOf(s), func(row []string) bool { return row[0] == "state" })
	return printTable(t.out, []string{"FIELD", "VALUE"}, slices.Concat(rows, detailsOf(s.State)))
}

// Run shows the source.
func (c *sourcesGetCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printSource, func(api *client.Client) (apitypes.Source, error) { return api.Source(ctx, c.Source) })
}

// Run shows what the database says.
func (c *sourcesStateCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, printDetails[apitypes.SourceDatabase], func(api *client.Client) (apitypes.SourceDatabase, error) {
		return api.SourceState(ctx, c.Source)
	})
}

// Run deletes the source.
func (c *sourcesDeleteCmd) Run(ctx context.Context, t terminal) error {
	return change(t, c.target, c.Source+" is deleted", func(api *client.Client) error { return api.DeleteSource(ctx, c.Source) })
}

// Run pauses the source.
func (c *sourcesPauseCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, sourceTable.one, func(api *client.Client) (apitypes.Source, error) { return api.PauseSource(ctx, c.Source) })
}

// Run resumes the source.
func (c *sourcesResumeCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, sourceTable.one, func(api *client.Client) (apitypes.Source, error) { return api.ResumeSource(ctx, c.Source) })
}

type sourcesPutCmd struct {
	oneSource

	DatabaseURL  string `required:"" placeholder:"URL" help:"Connection string of the producer's PostgreSQL, in which postrider outbox install was run: postgres://ROLE@HOST/DATABASE. The server of the database is verified by its certificate, unless the URL has another sslmode. A password in the flag is refused."`
	PasswordFile string `placeholder:"FILE" help:"File with the password of the role; - is stdin. Default: the variable PGPASSWORD, or else the stored one, if role, host and port stay as they are."`
	CA           string `name:"ca" placeholder:"FILE" help:"PEM file of the certificates that sign that of the database; - is stdin. Default: those of the server's system."`
	KeepHours    *int   `placeholder:"HOURS" help:"Hours for which the producer's database keeps rows that were read, 1 to 720: as long as the newest backup of the store can be old. Default: 24."`
	sourceTableFlags
	Check bool `default:"true" negatable:"" help:"Connect to the database before the source is stored."`
}

// Run makes or replaces the source.
func (c *sourcesPutCmd) Run(ctx context.Context, t terminal) error {
	if c.PasswordFile == "-" && c.CA == "-" {
		return misused("--password-file, --ca: only one of them may be stdin")
	}
	if holdsPassword(c.DatabaseURL) {
		return misused(passwordInFlag, "--password-file")
	}
	put := apitypes.SourcePut{DatabaseURL: c.DatabaseURL, KeepHours: apitypes.OfPointer(c.KeepHours)}
	table, err := c.table()
	if err != nil {
		return err
	}
	put.Table = apitypes.OfPointer(table)
	password, err := readSecretFile(t, c.PasswordFile)
	if err != nil {
		return err
	}
	if password = cmp.Or(password, os.Getenv("PGPASSWORD")); password != "" {
		put.Password = apitypes.Of(password)
	}
	if c.CA != "" {
		pem, err := readSource(t, c.CA)
		if err != nil {
			return fmt.Errorf("read certificates: %w", err)
		}
		put.CA = apitypes.Of(string(pem))
	}
	return ask(t, c.target, sourceTable.one, func(api *client.Client) (apitypes.Source, error) {
		return api.PutSource(ctx, c.Source, put, !c.Check)
	})
}

type sourcesRejectedCmd struct {
	oneSource
	paging `embed:""`

	Account string `help:"Only rows of this account, as their producer wrote it."`
	Code    string `help:"Only rows that were rejected with this code, for example not_found."`
}

// Run lists rejected rows.
func (c *sourcesRejectedCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, rejectedTable.page, func(api *client.Client) (apitypes.Page[apitypes.RejectedRow], error) {
		return api.RejectedRows(ctx, c.Source, client.RejectedFilter{Account: c.Account, Code: c.Code, Paging: c.page()})
	})
}

// selectedRows has the arguments and flags of commands that change rejected rows.
type selectedRows struct {
	oneSource

	IDs     []postrider.OutboxID `arg:"" optional:"" name:"ids" help:"Ids of the rows, obx_…. None: all that the flags select."`
	Account string               `help:"Rows of this account, as their producer wrote it."`
	Code    string               `help:"Rows that were rejected with this code."`
}

// of returns the selection. A command that selects nothing is refused before it calls the server.
func (s selectedRows) of() (apitypes.RejectedSelect, error) {
	if len(s.IDs) == 0 && s.Account == "" && s.Code == "" {
		return apitypes.RejectedSelect{}, misused("name rows by their ids, or select them with --account or --code")
	}
	rows := apitypes.RejectedSelect{Account: s.Account, Code: s.Code}
	for _, id := range s.IDs {
		rows.IDs = append(rows.IDs, id.String())
	}
	return rows, nil
}

// printRows prints the number of rows that were changed.
func printRows(t terminal, asJSON bool, c apitypes.RowCount) error {
	if asJSON {
		return printJSON(t.out, c)
	}
	unit := "rows"
	if c.Rows == 1 {
		unit = "row"
	}
	_, err := fmt.Fprintln(t.out, c.Rows, unit)
	return err
}

type (
	sourcesRetryCmd struct {
		selectedRows

		NewAccount string `placeholder:"ACCOUNT" help:"Publish the rows for this account, by id or uid. Default: the account of the row."`
		NewType    string `placeholder:"TYPE" help:"Publish the rows with this event type. Default: that of the row."`
	}
	sourcesDiscardCmd struct{ selectedRows }
)

// Run puts the rows back.
func (c *sourcesRetryCmd) Run(ctx context.Context, t terminal) error {
	rows, err := c.of()
	if err != nil {
		return err
	}
	return ask(t, c.target, printRows, func(api *client.Client) (apitypes.RowCount, error) {
		return api.RetryRejected(ctx, c.Source, apitypes.RejectedRetry{RejectedSelect: rows, NewAccount: c.NewAccount, NewType: c.NewType})
	})
}

// Run deletes the rows.
func (c *sourcesDiscardCmd) Run(ctx context.Context, t terminal) error {
	rows, err := c.of()
	if err != nil {
		return err
	}
	return ask(t, c.target, printRows, func(api *client.Client) (apitypes.RowCount, error) {
		return api.DiscardRejected(ctx, c.Source, rows)
	})
}
