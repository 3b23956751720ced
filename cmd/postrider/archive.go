package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
)

// archiveCmd is the group of commands for the archive.
type archiveCmd struct {
	List     archiveListCmd     `cmd:"" help:"List the parts of the archive."`
	Verify   archiveVerifyCmd   `cmd:"" help:"Read the parts of the archive, compare their checksums and decrypt them. Exits with 1 if one is damaged."`
	Search   archiveSearchCmd   `cmd:"" help:"Print the archived records of an event, an account or an endpoint, as NDJSON."`
	Restore  archiveRestoreCmd  `cmd:"" help:"Copy archived records back into the database, to look at. Nothing sends them."`
	Restored archiveRestoredCmd `cmd:"" help:"Print the records that were restored, as NDJSON."`
	WhatIf   archiveWhatIfCmd   `cmd:"" help:"Say which archived events an endpoint would have got with another subscription."`
	Offline  archiveOfflineCmd  `cmd:"" help:"Read the archive without a server, with the keys in a database."`
}

// archiveDays are the flags for the days that a command reads. The day of a record is the day of
// its id.
type archiveDays struct {
	From time.Time `format:"2006-01-02" placeholder:"DAY" help:"First day (UTC) of the events, or of the deliveries of attempts and bodies, as 2026-11-23. Default: all."`
	To   time.Time `format:"2006-01-02" placeholder:"DAY" help:"Day before which to stop."`
}

// archiveFilter are the flags that select archived records.
type archiveFilter struct {
	archiveDays `embed:""`

	Event     postrider.EventID    `help:"Only of this event, evt_…. Its deliveries are looked for on the day of the event and the next, unless --to says more."`
	Account   string               `help:"Only of this account: its id or uid; without a server its id."`
	Endpoint  postrider.EndpointID `help:"Only attempts and bodies of this endpoint, ep_…"`
	EventType string               `help:"Only of this event type."`
}

// archiveTable shows the parts of the archive.
var archiveTable = tableOf[apitypes.ArchivePart]{
	[]string{"KIND", "DAY", "PART", "ROWS", "BYTES", "MADE", "OBJECT"},
	func(p apitypes.ArchivePart) []string {
		return []string{
			p.Kind, p.Day, strconv.Itoa(p.Number), strconv.FormatInt(p.Rows, 10), strconv.FormatInt(p.Bytes, 10), moment(&p.MadeAt), p.Object,
		}
	},
}

// archiveParts are the flags that select parts of the archive.
type archiveParts struct {
	archiveDays `embed:""`

	Kind string `help:"events, attempts or bodies. Default: all."`
}

func (f archiveParts) filter(p client.Paging) client.ArchivePartFilter {
	return client.ArchivePartFilter{Kind: f.Kind, From: f.From, To: f.To, Paging: p}
}

type archiveListCmd struct {
	target       `embed:""`
	archiveParts `embed:""`
	paging       `embed:""`
}

// Run lists parts.
func (c *archiveListCmd) Run(ctx context.Context, t terminal) error {
	return ask(t, c.target, archiveTable.page, func(api *client.Client) (apitypes.Page[apitypes.ArchivePart], error) {
		return api.ArchiveParts(ctx, c.filter(c.page()))
	})
}

type archiveVerifyCmd struct {
	target       `embed:""`
	archiveParts `embed:""`
}

// Run verifies the selected parts, each by a request of its own.
func (c *archiveVerifyCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	var v verifying
	for p := (client.Paging{Limit: 250}); ; {
		page, err := api.ArchiveParts(ctx, c.filter(p))
		if err != nil {
			return err
		}
		for _, part := range page.Data {
			verified, err := api.VerifyArchivePart(ctx, part.ID)
			if err != nil {
				return err
			}
			if err := v.part(t, verified); err != nil {
				return err
			}
		}
		if p.Cursor = page.Next(); p.Cursor == "" {
			return v.end(t)
		}
	}
}

// verifying counts the parts that a command has verified, and the damaged ones.
type verifying struct{ parts, damaged int }

// part prints the result for one part.
func (v *verifying) part(t terminal, p apitypes.ArchivePart) error {
	v.parts++
	found := optional(p.Verification)
	if !found.Whole {
		v.damaged++
		_, err := fmt.Fprintf(t.out, "%s: %s\n", p.Object, optional(found.Fault))
		return err
	}
	_, err := fmt.Fprintf(t.out, "%s: whole, %d rows of %d accounts, %d rows expunged\n", p.Object, found.RowsRead, found.AccountsRead,
		found.RowsExpunged)
	return err
}

// end prints how many parts are whole. If a part is damaged, it returns an error instead.
func (v *verifying) end(t terminal) error {
	if v.damaged > 0 {
		return fmt.Errorf("%d of %d parts are not whole", v.damaged, v.parts)
	}
	_, err := fmt.Fprintf(t.err, "%d parts are whole\n", v.parts)
	return err
}

type archiveSearchCmd struct {
	target        `embed:""`
	archiveFilter `embed:""`
}

// line prints a record and its kind as one line.
func (t terminal) line(kind string, record []byte) error {
	_, err := fmt.Fprintf(t.out, "{\"kind\":%q,\"record\":%s}\n", kind, record)
	return err
}

// sum prints how many records were found or restored.
func (t terminal) sum(did string, records, parts int, expunged int64) error {
	_, err := fmt.Fprintf(t.err, "%d records %s in %d parts; %d records of these parts are expunged\n", records, did, parts, expunged)
	return err
}

// Run searches the archive, one request after the other, until the server returns no cursor.
func (c *archiveSearchCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	f := client.ArchiveFilter{
		Event: c.Event, Account: c.Account, Endpoint: c.Endpoint, EventType: c.EventType, From: c.From, To: c.To,
		Paging: client.Paging{Limit: 250},
	}
	records, parts, expunged := 0, 0, int64(0)
	for {
		found, err := api.SearchArchive(ctx, f)
		if err != nil {
			return err
		}
		for _, r := range found.Data {
			if err := t.line(r.Kind, r.Record); err != nil {
				return err
			}
		}
		records, parts, expunged = records+len(found.Data), parts+found.PartsRead, expunged+found.RowsExpunged
		if f.Cursor = optional(found.NextCursor); f.Cursor == "" {
			return t.sum("found", records, parts, expunged)
		}
	}
}

type archiveRestoreCmd struct {
	target        `embed:""`
	archiveFilter `embed:""`
}

// Run restores records, one request after the other, until the server returns no cursor.
func (c *archiveRestoreCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	body := apitypes.ArchiveRestore{
		Event: idText(c.Event), Account: c.Account, Endpoint: idText(c.Endpoint), EventType: c.EventType, From: dayText(c.From),
		To: dayText(c.To),
	}
	records, parts, expunged := 0, 0, int64(0)
	for {
		did, err := api.RestoreArchive(ctx, body)
		if err != nil {
			return err
		}
		records, parts, expunged = records+did.Records, parts+did.PartsRead, expunged+did.RowsExpunged
		if body.Cursor = optional(did.NextCursor); body.Cursor == "" {
			return t.sum("restored", records, parts, expunged)
		}
	}
}

// dayText returns a day in the format of the API; empty for the zero time.
func dayText(day time.Time) string {
	if day.IsZero() {
		return ""
	}
	return day.Format(time.DateOnly)
}

type archiveRestoredCmd struct {
	target `embed:""`

	Event    postrider.EventID    `help:"Only of this event, evt_…"`
	Account  string               `help:"Only of this account: its id or uid."`
	Endpoint postrider.EndpointID `help:"Only of this endpoint, ep_…"`
}

// Run lists restored records.
func (c *archiveRestoredCmd) Run(ctx context.Context, t terminal) error {
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	for f := (client.RestoredFilter{Event: c.Event, Account: c.Account, Endpoint: c.Endpoint, Paging: client.Paging{Limit: 250}}); ; {
		page, err := api.RestoredRecords(ctx, f)
		if err != nil {
			return err
		}
		for _, r := range page.Data {
			if err := t.line(r.Kind, r.Record); err != nil {
				return err
			}
		}
		if f.Cursor = page.Next(); f.Cursor == "" {
			return nil
		}
	}
}
