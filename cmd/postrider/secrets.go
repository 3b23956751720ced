package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/app"
	"github.com/postrider/postrider/internal/secrets"
)

type secretsCmd struct {
	RotateKey  secretsRotateCmd `cmd:"" help:"Encrypt the stored secrets with a new key, while servers run or not."`
	NewKey     secretsNewCmd    `cmd:"" help:"Write a new encryption key into a file, for --secrets-key-file."`
	ExportKeys secretsExportCmd `cmd:"" help:"Write the encryption keys in use into a file, for --secrets-key-file or a safe."`
}

// Help returns the text above the flags in the help of the command.
func (secretsCmd) Help() string {
	return "The store encrypts secrets and credentials with these keys. " +
		"To change the secrets that sign an endpoint's requests: postrider endpoints rotate"
}

type secretsRotateCmd struct {
	onStore

	DropOld bool          `help:"Afterwards, take the old keys away. A backup from before is of no use without them."`
	Grace   time.Duration `default:"1m" help:"With --drop-old: how long to wait for values that servers are about to store under an old key."`
	JSON    bool          `name:"json" help:"Print JSON."`
}

// rotatedKey is the JSON output of secrets rotate-key. The counts are those of
// [secrets.Reencrypted]; Dropped and Set are empty lists, never null.
type rotatedKey struct {
	Key         string   `json:"key"`
	Source      string   `json:"source"`
	Checked     int      `json:"checked"`
	Reencrypted int      `json:"reencrypted"`
	Unreadable  int      `json:"unreadable"`
	Dropped     []string `json:"dropped"`
	Set         []string `json:"set"`
}

// Run rotates the encryption key. If a server has the store open, the command
// changes the file of keys itself, and asks the server to encrypt the values again:
// only the server can write the store.
func (c *secretsRotateCmd) Run(ctx context.Context, t terminal, sources *app.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	if c.Grace < 0 {
		return misused("--grace: must not be less than 0s")
	}
	rotation := secrets.Rotation{
		// A zero Grace stands for the default of a minute, so --grace 0s becomes a
		// nanosecond.
		DropOld: c.DropOld, Grace: max(c.Grace, 1), Log: slog.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	var done secrets.Rotated
	err := c.either(func() (err error) {
		done, err = app.RotateKey(ctx, c.StoreConfig, rotation)
		return err
	}, func(api *client.Client) (err error) {
		// The server has the store. Only the keys are changed from here.
		rotation.Reencrypt = func(ctx context.Context) (secrets.Reencrypted, error) {
			r, err := api.Reencrypt(ctx)
			return secrets.Reencrypted(r), err
		}
		done, err = app.RotateKey(ctx, c.StoreConfig, rotation)
		return err
	})
	if err != nil {
		return err
	}
	if c.JSON {
		return printJSON(t.out, rotatedKey{
			Key: done.Key, Source: done.Source, Checked: done.Checked, Reencrypted: done.Reencrypted.Reencrypted, Unreadable: done.Unreadable,
			Dropped: append([]string{}, done.Dropped...), Set: append([]string{}, done.Set...),
		})
	}
	return printRotated(t, done)
}

// printRotated prints the result. For keys that are given as a text, it prints the
// steps that the operator must do: one value to set if only old keys are dropped,
// two values for a new key.
func printRotated(t terminal, done secrets.Rotated) error {
	fmt.Fprintf(t.out, "the newest key is %s of %s; %d values checked, %d encrypted again\n", done.Key, done.Source, done.Checked, done.Reencrypted.Reencrypted)
	if done.Unreadable > 0 {
		fmt.Fprintf(t.out, "%d values cannot be decrypted with any key; the log names them\n", done.Unreadable)
	}
	for _, id := range done.Dropped {
		fmt.Fprintf(t.out, "key %s is dropped\n", id)
	}
	switch len(done.Set) {
	case 1:
		fmt.Fprintf(t.out, "No value is encrypted with the old keys. On every node, set %s to:\n%s\n", done.Source, done.Set[0])
	case 2:
		fmt.Fprintf(t.out, "1. On every node, set %s to this, and restart it:\n%s\n", done.Source, done.Set[0])
		fmt.Fprintf(t.out, "2. When all of them have it, do so again with this, which encrypts with the new key:\n%s\n", done.Set[1])
		fmt.Fprintln(t.out, "3. Run this command again with that value.")
	}
	return nil
}

// secretsNewCmd is the command secrets new-key. It needs no store and no settings.
type secretsNewCmd struct {
	File string `arg:"" help:"The file to make, for its owner alone to read."`
}

// Run writes the file.
func (c *secretsNewCmd) Run(t terminal) error {
	if err := secrets.CreateFile(c.File); err != nil {
		return err
	}
	_, err := fmt.Fprintf(t.out, "%s has a new encryption key; without it the secrets are lost, so keep a copy in a safe place\n", c.File)
	return err
}

type secretsExportCmd struct {
	onStore

	File string `arg:"" help:"The file to make, for its owner alone to read."`
}

// Run writes the file. It fails if a file with this name exists.
func (c *secretsExportCmd) Run(ctx context.Context, t terminal, sources *app.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	if err := app.ExportKeys(ctx, c.StoreConfig, c.File); err != nil {
		return err
	}
	_, err := fmt.Fprintf(t.out, "%s has the encryption keys\n", c.File)
	return err
}
