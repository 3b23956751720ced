package app

import (
	"context"

	"github.com/postrider/postrider/internal/backup"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/drivers"
	"github.com/postrider/postrider/internal/egress"
	"github.com/postrider/postrider/internal/expunge"
	"github.com/postrider/postrider/internal/health"
	"github.com/postrider/postrider/internal/janitor"
	"github.com/postrider/postrider/internal/secrets"
	"github.com/postrider/postrider/internal/store"
)

// kept has the store and the archive, and the parts that maintain both.
type kept struct {
	store    store.Store // reports its writes to vitals
	nodes    store.Nodes // nil: only this process uses the store
	ids      *store.IDs
	secrets  *secrets.Secrets
	archive  drivers.Archive
	backups  backup.Known
	janitor  *janitor.Janitor
	expunger *expunge.Runner
	outboxes outboxes
}

// newKept makes the parts around an opened store.
func newKept(ctx context.Context, b base, opened store.Store) (_ *kept, err error) {
	k := &kept{store: watched{opened, b.vitals.writes}, backups: backup.Of(b.config.StoreConfig, opened)}
	// The type watched hides this interface, and SQLite does not implement it.
	k.nodes, _ = opened.(store.Nodes)
	k.ids = store.NewIDs(k.store.Clock().Wall, nil)
	if k.secrets, err = secrets.Open(ctx, b.config.Keys(), k.store, b.logOf("secrets")); err != nil {
		return nil, err
	}
	if k.archive, err = drivers.OpenArchive(b.config.ArchiveConfig, k.store, k.secrets.Vault, b.logOf("archive")); err != nil {
		return nil, err
	}
	toJanitor := janitor.Options{
		Keep: keep(b.config), IDs: k.ids,
		Notice: janitor.NoticeLimits{CircuitOpen: b.config.NoticeCircuitOpen, DeadLetters: b.config.NoticeDeadLetters},
		Limits: b.config.HealthLimits(), Hooks: b.hooks(), Log: b.logOf("janitor"),
	}
	if disk := b.vitals.disk; disk.Folder() != "" {
		toJanitor.Disk = janitor.Disk{Folder: disk.Folder(), Used: disk.Use}
	}
	toExpunger := expunge.Options{List: b.config.ExpungeList, ChoreDone: b.hooks().ChoreDone, Log: b.logOf("expunge")}
	// A nil pointer in the interface would count as an archive.
	if a := k.archive.Archive; a != nil {
		toJanitor.Archive, toExpunger.Archive = a, a
	}
	s := k.store
	k.janitor = janitor.New(janitor.Store{
		Upkeep: s, Retention: s, Health: s, Time: s, Queue: s, Directory: s, History: s, NoticeLog: s, Rollups: s, OutboxRows: s,
	}, toJanitor)
	k.outboxes = outboxes{s, k.secrets.Vault, egress.SourceDialer(b.config.SourceNetworks())}
	toExpunger.CancelDeleted, toExpunger.Outboxes = k.janitor.CancelDeleted, k.outboxes
	k.expunger = expunge.New(expunge.Store{Expunges: s, Ledger: s, Directory: s, Archived: s, Audit: s, Time: s}, toExpunger)
	return k, nil
}

// keep returns the retention settings for the janitor.
func keep(c config.Config) janitor.Keep {
	return janitor.Keep{
		Events: c.KeepEvents, Attempts: c.KeepAttempts, Bodies: c.KeepBodies, Keys: c.IdempotencyTTL,
		DeadLetters: c.KeepDeadLetters, Resolved: c.KeepResolved, Replays: c.KeepReplays, Health: c.KeepHealth, Audit: c.KeepAudit,
		Restored: c.KeepRestored, Notices: c.KeepNotices,
	}
}

// watched is a store that reports its publishes and settlements to writes.
type watched struct {
	store.Store

	writes *health.Writes
}

// Publish implements [store.Inbox].
func (w watched) Publish(ctx context.Context, p store.Publish) ([]store.Published, error) {
	w.writes.Begin()
	published, err := w.Store.Publish(ctx, p)
	w.writes.End(err)
	return published, err
}

// Settle implements [store.Queue].
func (w watched) Settle(ctx context.Context, settlements []store.Settlement) ([]store.Settled, error) {
	w.writes.Begin()
	settled, err := w.Store.Settle(ctx, settlements)
	w.writes.End(err)
	return settled, err
}
