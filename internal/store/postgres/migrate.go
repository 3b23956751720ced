package postgres

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/postrider/postrider/internal/store"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	migrationsTable = "postrider_migrations"
	lockPeriod      = time.Second // between two tries to lock the migrations while another node has the lock
	lockTries       = 60
)

// ownMigrations returns the migrations of this program.
var ownMigrations = sync.OnceValues(func() (store.Migrations, error) { return store.ReadMigrations(migrations) })

// Migrate brings the schema of the database that dsn names up to date, and creates the partitions
// of the coming days. Several nodes may call it at once; one of them works, and the others wait.
// If the schema is newer than this program, Migrate returns an error and changes nothing.
func Migrate(ctx context.Context, dsn string) error {
	config, err := parse(dsn)
	if err != nil {
		return fmt.Errorf("migrate postgres: %w", err)
	}
	own, err := ownMigrations()
	if err != nil {
		return fmt.Errorf("migrate postgres: %w", err)
	}
	if err := migrate(ctx, config.ConnConfig, migrations, own); err != nil {
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

// migrate applies the migrations that the database does not have. A session lock lets one of
// several nodes apply them; the others wait for up to a minute (lockPeriod × lockTries) and find
// them applied. The parameter own has the tables that the files make.
func migrate(ctx context.Context, config *pgx.ConnConfig, files fs.FS, own store.Migrations) (err error) {
	steps, err := fs.Sub(files, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(uint64(lockPeriod/time.Second), lockTries))
	if err != nil {
		return err
	}
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, steps, goose.WithDisableGlobalRegistry(true),
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
	return own.Migrate(ctx, store.TablesOf{DB: db, SQL: tableStatements(own.Names)}, has, func() error {
		if _, err := provider.Up(ctx); err != nil {
			return fmt.Errorf("apply migrations: %w", fault(err))
		}
		return nil
	})
}

// factsSQL returns the facts about the tables that migrations made. The facts do not depend on
// the major version of the server, nor on partitions, which come and go each day. A constraint
// appears with its name and kind only, because the server may show its text in another way after
// an upgrade.
const factsSQL = `
	with ours as (
		select c.oid, c.relname
		from pg_class c
		where c.relnamespace = current_schema()::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
			and c.relname = any(string_to_array('TABLES', ' '))
	), columns as (
		select a.attrelid, o.relname || '.' || a.attname as name, format_type(a.atttypid, a.atttypmod) as type, a.attnotnull,
			a.atthasdef or a.attidentity <> '' as defaults
		from pg_attribute a
		join ours o on o.oid = a.attrelid
		where a.attnum > 0 and not a.attisdropped
	)
	select 'column ' || name || ' ' || type from columns
	union all
	select 'not null ' || name from columns where attnotnull
	union all
	select 'default ' || name from columns where defaults
	union all
	select 'constraint ' || o.relname || ' ' || k.conname || ' ' || k.contype::text
	from pg_constraint k
	join ours o on o.oid = k.conrelid
	where k.contype in ('p', 'u', 'c', 'f', 'x')
	union all
	select 'unique index ' || o.relname || ' ' || i.relname
	from pg_index x
	join ours o on o.oid = x.indrelid
	join pg_class i on i.oid = x.indexrelid
	where x.indisunique
	order by 1`

// notedSQL walks tables_noted_pkey.
const (
	notedSQL = `select version, fingerprint, oldest, facts from tables_noted where id = 1`
	noteSQL  = `
	insert into tables_noted as t (id, version, fingerprint, oldest, facts) values (1, $1, $2, $3, $4)
	on conflict (id) do update
	set version = excluded.version, fingerprint = excluded.fingerprint, oldest = excluded.oldest, facts = excluded.facts
	where t.version <= excluded.version`
)

// tableStatements returns the statements about the tables with these names.
func tableStatements(names []string) store.TablesSQL {
	return store.TablesSQL{Noted: notedSQL, Note: noteSQL, Facts: strings.Replace(factsSQL, "TABLES", strings.Join(names, " "), 1)}
}

// CheckTables compares the noted tables with the tables that this program needs; see [store.Upkeep].
func (s *Store) CheckTables(ctx context.Context) (err error) {
	defer s.calls.Begin("CheckTables").End(&err, "check the tables")
	var noted store.Tables
	var facts string
	if err := s.pool.QueryRow(ctx, notedSQL).Scan(&noted.Version, &noted.Fingerprint, &noted.Oldest, &facts); err != nil {
		return fault(err)
	}
	return s.migrations.Beside(noted)
}
