package backup

import (
	"context"
	"log/slog"
	"time"

	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/config"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/store/sqlite"
)

// watchEvery is the time between two reads of the last backups.
const watchEvery = 15 * time.Second

// Known reads the state of the backups of a store. It returns one element for each kind of backup.
type Known func(context.Context) ([]observe.Backup, error)

// Watch calls tell with the state of each backup, every watchEvery, until ctx ends.
func (known Known) Watch(ctx context.Context, tell observe.Hook[observe.Backup], log *slog.Logger) error {
	for {
		backups, err := known(ctx)
		switch {
		case err == nil:
			for _, b := range backups {
				tell.Call(b)
			}
		case ctx.Err() == nil:
			log.WarnContext(ctx, "it is not known when the last backup was made", "error", err)
		}
		if !batch.Sleep(ctx, watchEvery) {
			return nil
		}
	}
}

// Of returns the function that reads the state of the backups of an opened store.
func Of(c config.StoreConfig, opened any) Known {
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
