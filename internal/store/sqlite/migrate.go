package sqlite

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"

	"github.com/pressly/goose/v3"

	"github.com/postrider/postrider/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

// ownMigrations returns the migrations of this program.
var ownMigrations = sync.OnceValues(func() (store.Migrations, error) { return store.ReadMigrations(migrations) })

// migrate brings the tables to the version of this program, each step in its own transaction. It
// returns an error if a newer program has changed the database, because rows of that program may
// have a meaning that this one does not know.
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
	own, err := ownMigrations()
	if err == nil {
		err = own.Migrate(ctx, store.TablesOf{DB: db, SQL: tableStatements(own.Names)}, has, func() error {
			done, err := provider.Up(ctx)
			for _, step := range done {
				log.InfoContext(ctx, "schema migrated", "version", step.Source.Version, "took", step.Duration.String())
			}
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

// factsSQL returns the facts about the tables that migrations made.
const factsSQL = `
	with ours as (
		select t.name from sqlite_schema t where t.type = 'table' and ' TABLES ' like '% ' || t.name || ' %'
	), columns as (
		select o.name || '.' || c.name as name, lower(c.type) as type, c."notnull" as required, c.dflt_value is not null as defaults
		from ours o, pragma_table_info(o.name) c
	)
	select 'column ' || name || ' ' || type from columns
	union all
	select 'not null ' || name from columns where required
	union all
	select 'default ' || name from columns where defaults
	union all
	select 'unique index ' || o.name || ' ' || i.name from ours o, pragma_index_list(o.name) i where i."unique"
	order by 1`

// The table tables_noted has one row.
const (
	notedSQL = `select version, fingerprint, oldest, facts from tables_noted where id = 1`
	noteSQL  = `
	insert into tables_noted (id, version, fingerprint, oldest, facts) values (1, ?, ?, ?, ?)
	on conflict (id) do update
	set version = excluded.version, fingerprint = excluded.fingerprint, oldest = excluded.oldest, facts = excluded.facts
	where tables_noted.version <= excluded.version`
)

// tableStatements returns the statements about the tables with these names.
func tableStatements(names []string) store.TablesSQL {
	return store.TablesSQL{Noted: notedSQL, Note: noteSQL, Facts: strings.Replace(factsSQL, "TABLES", strings.Join(names, " "), 1)}
}

// CheckTables compares the noted tables with the tables that this program needs; see [store.Upkeep].
func (s *Store) CheckTables(ctx context.Context) (err error) {
	defer s.calls.Begin("CheckTables").End(&err, "check the tables")
	own, err := ownMigrations()
	if err != nil {
		return err
	}
	var noted store.Tables
	var facts string
	err = s.reads.QueryRowContext(ctx, notedSQL).Scan(&noted.Version, &noted.Fingerprint, &noted.Oldest, &facts)
	if err != nil {
		return err
	}
	return own.Beside(noted)
}
