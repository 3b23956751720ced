package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"

	"github.com/pressly/goose/v3"
)

//go:embed migrations/*.sql
var migrations embed.FS

// migrate brings the tables to what this program knows, each step in its own transaction.
// It refuses a database that a newer program has changed: that program's rows may mean
// something that this one does not know.
func migrate(ctx context.Context, db *sql.DB, log *slog.Logger) error {
	steps, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectSQLite3, db, steps,
		goose.WithTableName("postrider_migrations"), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	has, knows, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("migrate: read the schema's version: %w", err)
	}
	if has > knows {
		return fmt.Errorf("migrate: the schema has version %d, and this program knows %d: a newer program has changed it", has, knows)
	}
	done, err := provider.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	for _, step := range done {
		log.InfoContext(ctx, "schema migrated", "version", step.Source.Version, "took", step.Duration.String())
	}
	return nil
}
