package app

import (
	"context"
	"time"

	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// backupsEvery is the time between two looks at what is known of backups.
const backupsEvery = 15 * time.Second

// watchBackups tells observers what is known of the backups of the store, until ctx ends.
func (a *App) watchBackups(ctx context.Context) error {
	for {
		known, err := a.backups(ctx)
		switch {
		case err == nil:
			for _, b := range known {
				a.observer.Backup.Call(b)
			}
		case ctx.Err() == nil:
			a.log.WarnContext(ctx, "it is not known when the last backup was made", "error", err)
		}
		if !batch.Sleep(ctx, backupsEvery) {
			return nil
		}
	}
}

// lastBackups returns what says, of an opened store, what is known of its backups: one of each
// kind.
func lastBackups(c config.StoreConfig, opened store.Store) func(context.Context) ([]observe.Backup, error) {
	database, ok := opened.(*postgres.Store)
	if !ok {
		return func(context.Context) ([]observe.Backup, error) {
			l, err := sqlite.ReadLastBackup(c.DataDir)
			return []observe.Backup{{Kind: observe.BackupCopy, SucceededAt: l.SucceededAt, Failing: l.Failing()}}, err
		}
	}
	return func(ctx context.Context) ([]observe.Backup, error) {
		l, err := database.LogArchive(ctx)
		if !l.Enabled {
			return nil, err
		}
		return []observe.Backup{{Kind: observe.BackupLog, SucceededAt: l.ArchivedAt, Failing: l.Failing}}, nil
	}
}
