package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/backup"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/offline"
)

// backupCmd is the command backup.
type backupCmd struct {
	config.StoreConfig `embed:""`

	To   string `required:"" placeholder:"FILE" help:"The file to make. It must not exist."`
	JSON bool   `name:"json" help:"Print the result as JSON."`
}

// Help returns the text above the flags in the help of the command.
func (backupCmd) Help() string {
	return "Copies the SQLite store into one file, also while a server runs on it, and verifies the copy. " +
		"The encryption keys are not in it: keep a copy of them apart, by postrider secrets export-keys. " +
		"PostgreSQL has its own tools; docs/operate/backup.md has the steps."
}

// Run makes the backup.
func (c *backupCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	began := time.Now()
	made, err := backup.Make(ctx, c.StoreConfig, c.To)
	if err != nil {
		return err
	}
	if made.Unnoted != nil {
		fmt.Fprintf(t.err, "the backup is made, but metrics and alerts do not know it: %s\n", made.Unnoted)
	}
	return printBackup(t, c.JSON, made, time.Since(began))
}

// restoreCmd is the command restore.
type restoreCmd struct {
	config.StoreConfig `embed:""`

	From   string `required:"" placeholder:"FILE" help:"The backup. It is read and never changed."`
	SHA256 string `name:"sha256" placeholder:"HEX" help:"SHA-256 that the backup must have, as postrider backup printed it. Default: the one in FILE.sha256, if there is such a file."`
	JSON   bool   `name:"json" help:"Print the result as JSON."`
}

// Help returns the text above the flags in the help of the command.
func (restoreCmd) Help() string {
	return "Makes a SQLite store of a backup, in the folder of --data-dir, which must be empty except for secrets.key. " +
		"The store starts held: publishes are accepted, and nothing is sent until postrider resume --after-restore."
}

// Run restores the backup.
func (c *restoreCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	began := time.Now()
	restored, err := backup.Restore(ctx, c.StoreConfig, c.From, c.SHA256)
	if err != nil {
		return err
	}
	if err := printBackup(t, c.JSON, restored, time.Since(began)); err != nil || c.JSON {
		return err
	}
	if restored.SumWith == "" {
		fmt.Fprintln(t.out,
			"No checksum was compared: a byte that changed inside a row is not found. Compare the sha256 above, or give it with --sha256")
	}
	_, err = fmt.Fprintln(t.out, "The store starts held: nothing is sent until you run postrider resume --after-restore")
	return err
}

// backupShown is the JSON output of backup and restore.
type backupShown struct {
	File       string    `json:"file"`
	Bytes      int64     `json:"bytes"`
	SHA256     string    `json:"sha256"`
	Schema     int64     `json:"schema_version"`
	Events     int       `json:"events"`
	Pending    int       `json:"deliveries_pending"`
	HeldSince  time.Time `json:"held_since"`
	Keys       []string  `json:"keys_needed"` // never null
	DurationMS int64     `json:"duration_ms"`
}

func printBackup(t terminal, asJSON bool, b backup.Backup, took time.Duration) error {
	if asJSON {
		return printJSON(t.out, backupShown{
			File: b.File, Bytes: b.Bytes, SHA256: b.SHA256, Schema: b.Schema, Events: b.Events, Pending: b.Pending,
			HeldSince: b.Hold.Since, Keys: b.Keys, DurationMS: took.Milliseconds(),
		})
	}
	fmt.Fprintf(t.out, "%s: verified, %d bytes, %d events, %d pending deliveries, in %s\nsha256 %s\n",
		b.File, b.Bytes, b.Events, b.Pending, took.Round(time.Millisecond), b.SHA256)
	if len(b.Keys) == 0 {
		return nil
	}
	_, err := fmt.Fprintf(t.out, "It needs the encryption keys %s, which are not in it.\n", strings.Join(b.Keys, ", "))
	return err
}

// holdCmd is the command hold. The API has no request for it, since a server that runs on a
// restored store may have sent deliveries already.
type holdCmd struct {
	config.StoreConfig `embed:""`

	JSON bool `name:"json" help:"Print the result as JSON."`
}

// Help returns the text above the flags in the help of the command.
func (holdCmd) Help() string {
	return "Opens the store itself. Use it on a PostgreSQL database that you restored, before the first server starts on it. " +
		"Servers that run on the database stop sending within about a second. postrider restore does it by itself."
}

// Run holds the store.
func (c *holdCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	hold, err := offline.Hold(ctx, c.StoreConfig)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(t.out, hold)
	}
	return printHold(t.out, hold)
}

// printHold prints whether the store is held, and which deliveries may repeat.
func printHold(to io.Writer, h apitypes.Hold) error {
	if !h.Held {
		_, err := fmt.Fprintln(to, "the store is not held")
		return err
	}
	_, err := fmt.Fprintf(to, "held since %s: nothing is sent\n", moment(h.Since))
	if err == nil && h.Deliveries != nil { // nil for a key of one account
		_, err = fmt.Fprintf(to, "%d pending deliveries may have been sent already, and would be sent again\n", *h.Deliveries)
	}
	if err == nil && h.FanOuts != nil && *h.FanOuts > 0 {
		_, err = fmt.Fprintf(to, "%d events are still being fanned out; their deliveries may repeat, too\n", *h.FanOuts)
	}
	return err
}

// resumeCmd is the command resume.
type resumeCmd struct {
	target `embed:""`

	AfterRestore bool `help:"Required: it says that you know that the store was restored, and that deliveries may repeat."`
	Yes          bool `help:"Resume. Without it the command only says what may repeat."`
}

// Help returns the text above the flags in the help of the command.
func (resumeCmd) Help() string {
	return "Ends the hold of a store that was restored. It first says how many deliveries may repeat, and resumes only with --yes. " +
		"To resume an endpoint, use: postrider endpoints resume"
}

// Run prints which deliveries may repeat. With --yes it then ends the hold.
func (c *resumeCmd) Run(ctx context.Context, t terminal) error {
	if !c.AfterRestore {
		return misused("--after-restore: must be given. To resume an endpoint, use: postrider endpoints resume")
	}
	api, err := c.connect()
	if err != nil {
		return err
	}
	defer api.Close()
	held, err := api.Hold(ctx)
	if err != nil {
		return err
	}
	said := t.out
	if c.JSON {
		said = t.err
	}
	if err := printHold(said, held); err != nil {
		return err
	}
	if held.Held && c.Yes {
		return c.resume(ctx, t, api)
	}
	if c.JSON {
		return printJSON(t.out, held)
	}
	if held.Held {
		_, err = fmt.Fprintln(t.out, "Nothing is resumed yet. To send again: postrider resume --after-restore --yes")
	}
	return err
}

func (c *resumeCmd) resume(ctx context.Context, t terminal, api *client.Client) error {
	done, err := api.ResumeAfterRestore(ctx)
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(t.out, done)
	}
	repeat := 0
	if done.Deliveries != nil {
		repeat = *done.Deliveries
	}
	_, err = fmt.Fprintf(t.out, "resumed: %d deliveries may repeat\n", repeat)
	return err
}
