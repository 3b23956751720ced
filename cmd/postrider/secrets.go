package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/offline"
	"github.com/postrider/postrider/internal/secrets"
)

// secretsCmd is the group of commands for the keys that encrypt secrets in the store. The secrets
// that sign requests belong to endpoints; see endpoints rotate.
type secretsCmd struct {
	RotateKey  secretsRotateCmd `cmd:"" help:"Encrypt the stored secrets with a new key. Servers can run meanwhile."`
	NewKey     secretsNewCmd    `cmd:"" help:"Write a new encryption key into a file, for --secrets-key-file."`
	ExportKeys secretsExportCmd `cmd:"" help:"Write the encryption keys in use into a file, for --secrets-key-file or as a copy in a safe place."`
}

// Help returns the text above the flags in the help of the command.
func (secretsCmd) Help() string {
	return "These keys encrypt the secrets and credentials in the store. " +
		"To change the secret that signs the requests of an endpoint, use: postrider endpoints rotate"
}

type secretsRotateCmd struct {
	onStore

	DropOld bool          `help:"Remove the old keys afterwards. Older backups cannot be read without them."`
	Grace   time.Duration `default:"1m" help:"With --drop-old: the time to wait for servers that still store values under an old key, for example 1m."`
	JSON    bool          `name:"json" help:"Print the result as JSON."`
}

// rotatedKey is the JSON output of secrets rotate-key. [secrets.Reencrypted] explains the counts.
// Dropped and Set are empty lists if there is nothing, never null. Set contains keys, so do not
// write the output to a log.
type rotatedKey struct {
	Key         string   `json:"key"`
	Source      string   `json:"source"`
	Checked     int      `json:"checked"`
	Reencrypted int      `json:"reencrypted"`
	Unreadable  int      `json:"unreadable"`
	Dropped     []string `json:"dropped"`
	Set         []string `json:"set"`
}

// Run rotates the encryption key. If a server has the store open, only the server can write the
// store. Then the command changes the key file and asks the server to encrypt the stored values
// again. The server reads the key file again when it meets an unknown key.
func (c *secretsRotateCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	if c.Grace < 0 {
		return misused("--grace: must not be less than 0s")
	}
	rotation := secrets.Rotation{
		// A zero Grace means the default of one minute, so --grace 0s becomes a nanosecond.
		DropOld: c.DropOld, Grace: max(c.Grace, 1), Log: slog.New(slog.NewTextHandler(t.err, &slog.HandlerOptions{Level: slog.LevelError})),
	}
	var done secrets.Rotated
	err := c.storeOrServer(sources, func() (err error) {
		done, err = offline.RotateKey(ctx, c.StoreConfig, rotation)
		return err
	}, func(api *client.Client) (err error) {
		// One call encrypts values for some seconds. The rotation repeats the call until the server
		// says that it is done.
		rotation.Reencrypt = func(ctx context.Context) (secrets.Reencrypted, error) {
			r, err := api.Reencrypt(ctx)
			return secrets.Reencrypted(r), err
		}
		done, err = offline.RotateKey(ctx, c.StoreConfig, rotation)
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

// printRotated prints the result. Only the operator can change keys that are the value of a
// setting, so it prints the steps: one value to set if only old keys are dropped, two values for a
// new key. A new key takes two steps, because every server must be able to decrypt with it before
// any server encrypts with it.
func printRotated(t terminal, done secrets.Rotated) error {
	fmt.Fprintf(t.out, "the newest key is %s of %s; %d values checked, %d encrypted again\n", done.Key, done.Source, done.Checked,
		done.Reencrypted.Reencrypted)
	if done.Unreadable > 0 {
		fmt.Fprintf(t.out, "%d values cannot be decrypted with any key; the log names them\n", done.Unreadable)
	}
	for _, id := range done.Dropped {
		fmt.Fprintf(t.out, "key %s is dropped\n", id)
	}
	switch len(done.Set) {
	case 1:
		fmt.Fprintf(t.out, "No value is encrypted with the old keys any more. On every server, set %s to:\n%s\n", done.Source, done.Set[0])
	case 2:
		fmt.Fprintf(t.out, "1. On every server, set %s to this value and restart it:\n%s\n", done.Source, done.Set[0])
		fmt.Fprintf(t.out, "2. When all servers run with it, do the same with this value, which encrypts with the new key:\n%s\n", done.Set[1])
		fmt.Fprintln(t.out, "3. Run this command again with the second value.")
	}
	return nil
}

// secretsNewCmd is the command secrets new-key. It needs no store and no settings, so people can
// make the key on another machine than the server's.
type secretsNewCmd struct {
	File string `arg:"" help:"The file to create. Only its owner can read it."`
}

// Run writes the file.
func (c *secretsNewCmd) Run(t terminal) error {
	if err := secrets.CreateFile(c.File); err != nil {
		return err
	}
	_, err := fmt.Fprintf(t.out, "%s holds a new encryption key. Without it the secrets are lost, so keep a copy in a safe place.\n", c.File)
	return err
}

type secretsExportCmd struct {
	onStore

	File string `arg:"" help:"The file to create. Only its owner can read it."`
}

// Run writes the file. It fails if the file exists, since that file could be the only copy of other
// keys.
func (c *secretsExportCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	if err := sources.Check(c.Validate); err != nil {
		return err
	}
	if err := offline.ExportKeys(ctx, c.StoreConfig, c.File); err != nil {
		return err
	}
	_, err := fmt.Fprintf(t.out, "%s holds the encryption keys\n", c.File)
	return err
}
