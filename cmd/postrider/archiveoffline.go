package main

import (
	"context"
	"errors"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/offline"
)

// archiveOfflineCmd is the group of commands that read the archive without a server. For example,
// they read it with the keys in a database that was restored from a backup, beside the database in
// use.
type archiveOfflineCmd struct {
	List   archiveOfflineListCmd   `cmd:"" help:"List the parts of the archive."`
	Verify archiveOfflineVerifyCmd `cmd:"" help:"Read the parts of the archive, compare their checksums and decrypt them. Exits with 1 if one is damaged."`
	Search archiveOfflineSearchCmd `cmd:"" help:"Print the archived records of an event, an account or an endpoint, as NDJSON."`
}

// archived has the settings that each command of the group needs.
type archived struct {
	config.StoreConfig   `embed:""`
	config.ArchiveConfig `embed:""`
}

// Help returns the text above the flags in the help of the commands.
func (archived) Help() string {
	return "Opens the store itself, with the settings of the server. On SQLite no server may run on it meanwhile; on PostgreSQL any number may. " +
		"docs/operate/archive.md describes the archive."
}

// with opens the archive that the settings name, and calls do with it.
func (a archived) with(ctx context.Context, sources *config.Sources, do func(*offline.ArchiveReader) error) error {
	err := sources.Check(func(named func(string) string) error {
		return errors.Join(a.StoreConfig.Validate(named), a.ArchiveConfig.Validate(named))
	})
	if err != nil {
		return err
	}
	return offline.ReadArchive(ctx, a.StoreConfig, a.ArchiveConfig, do)
}

type archiveOfflineListCmd struct {
	archived    `embed:""`
	archiveDays `embed:""`

	JSON bool `name:"json" help:"Print the parts as JSON."`
}

// Run lists the selected parts.
func (c *archiveOfflineListCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	return c.with(ctx, sources, func(r *offline.ArchiveReader) error {
		parts := []apitypes.ArchivePart{}
		err := r.Parts(ctx, offline.ArchiveFilter{From: c.From, To: c.To}, false, func(p apitypes.ArchivePart) error {
			parts = append(parts, p)
			return nil
		})
		if err != nil {
			return err
		}
		return archiveTable.all(t, c.JSON, parts)
	})
}

type archiveOfflineVerifyCmd struct {
	archived    `embed:""`
	archiveDays `embed:""`
}

// Run verifies the selected parts.
func (c *archiveOfflineVerifyCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	return c.with(ctx, sources, func(r *offline.ArchiveReader) error {
		var v verifying
		err := r.Parts(ctx, offline.ArchiveFilter{From: c.From, To: c.To}, true, func(p apitypes.ArchivePart) error { return v.part(t, p) })
		if err != nil {
			return err
		}
		return v.end(t)
	})
}

type archiveOfflineSearchCmd struct {
	archived      `embed:""`
	archiveFilter `embed:""`
}

// Run searches the archive.
func (c *archiveOfflineSearchCmd) Run(ctx context.Context, t terminal, sources *config.Sources) error {
	return c.with(ctx, sources, func(r *offline.ArchiveReader) error {
		filter := offline.ArchiveFilter{Event: c.Event, Endpoint: c.Endpoint, Type: c.EventType, From: c.From, To: c.To}
		if c.Account != "" {
			var err error
			if filter.Account, err = postrider.ParseID[postrider.AccountID](c.Account); err != nil {
				return misused("--account: must be an id, acc_…")
			}
		}
		sum, err := r.Search(ctx, filter, t.line)
		if err != nil {
			return err
		}
		return t.sum("found", sum.Records, sum.Parts, sum.Expunged)
	})
}
