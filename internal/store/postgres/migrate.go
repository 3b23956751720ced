package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	migrationsTable = "postrider_migrations"
	lockPeriod      = time.Second // between two tries for the lock of another node's migration
	lockTries       = 60
)

// Migrate brings the schema of the database that dsn names up to date and
// makes the partitions of the coming days. Several nodes may do so at once;
// one of them works, the others wait. A schema that is newer than this program
// is an error, and is left alone.
func Migrate(ctx context.Context, dsn string) error {
	config, err := parse(dsn)
	if err != nil {
		return fmt.Errorf("migrate postgres: %w", err)
	}
	if err := migrate(ctx, config.ConnConfig); err != nil {
		return fmt.Errorf("migrate postgres: %w", err)
	}
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		return fmt.Errorf("migrate postgres: %w", fault(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, makePartitionsSQL); err != nil {
		return fmt.Errorf("migrate postgres: make partitions: %w", fault(err))
	}
	return nil
}

// migrate applies the migrations that the database does not have. A session lock lets one
// node of several do it; the others wait for a minute (lockPeriod × lockTries) and find
// them applied.
func migrate(ctx context.Context, config *pgx.ConnConfig) (err error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(uint64(lockPeriod/time.Second), lockTries))
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithDisableGlobalRegistry(true),
		goose.WithSessionLocker(locker), goose.WithTableName(migrationsTable))
	if err != nil {
		return fmt.Errorf("read migrations: %w", err)
	}
	has, knows, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("read the schema's version: %w", fault(err))
	}
	if has > knows {
		return fmt.Errorf("the schema has version %d, and this program knows %d: a newer program has changed it", has, knows)
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("apply migrations: %w", fault(err))
	}
	return nil
}
