package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Tables identifies the tables that migrations made. The program has one Tables for each of its
// migrations. A store notes the Tables of the last migration that was applied to it.
type Tables struct {
	Version     int64
	Fingerprint string // hash of the statements of all migrations up to Version
	Oldest      int64  // the oldest version that a program must have to use the tables
}

// Migrations are the migrations of a program, by version.
type Migrations struct {
	All   []Tables
	Names []string // names of all tables
}

var (
	tableNames   = regexp.MustCompile(`(?m)^create table (\w+) \(`)
	oldestBeside = regexp.MustCompile(`(?m)^-- oldest program beside: (\d+)$`)
	// Text that does not change the tables: comments of the file and of the database, and white
	// space.
	noStatements = regexp.MustCompile(`(?m)--.*$|^comment on .*;$`)
	whitespace   = regexp.MustCompile(`\s+`)
)

// ReadMigrations reads the migrations in the folder migrations. If older programs can use the
// tables that a migration makes, its file has a line "-- oldest program beside: VERSION".
func ReadMigrations(files fs.FS) (m Migrations, err error) {
	paths, err := fs.Glob(files, "migrations/*.sql") // sorted by version, because each version has four digits
	sum := sha256.New()
	for _, path := range paths {
		number, _, _ := strings.Cut(strings.TrimPrefix(path, "migrations/"), "_")
		version, wrong := strconv.ParseInt(number, 10, 64)
		text, unread := fs.ReadFile(files, path)
		if err = errors.Join(err, wrong, unread); err != nil {
			break
		}
		t := Tables{Version: version, Oldest: version}
		if oldest := oldestBeside.FindSubmatch(text); oldest != nil {
			t.Oldest, err = strconv.ParseInt(string(oldest[1]), 10, 64)
		}
		for _, name := range tableNames.FindAllSubmatch(text, -1) {
			m.Names = append(m.Names, string(name[1]))
		}
		sum.Write(whitespace.ReplaceAll(noStatements.ReplaceAll(text, nil), []byte(" ")))
		t.Fingerprint = hex.EncodeToString(sum.Sum(nil))
		m.All = append(m.All, t)
	}
	if err != nil || len(m.All) == 0 {
		return m, fmt.Errorf("read the migrations: %w", err)
	}
	return m, nil
}

// Newest returns the Tables that the program needs.
func (m Migrations) Newest() Tables { return m.All[len(m.All)-1] }

// Check returns an error unless a migration of this program made the tables that a store notes.
func (m Migrations) Check(noted Tables) error {
	for _, own := range m.All {
		if own.Version == noted.Version && own.Fingerprint == noted.Fingerprint {
			return nil
		}
	}
	return fmt.Errorf("the tables have version %d, as those of this program, and other content: %s", noted.Version, otherBuild)
}

const otherBuild = "a build of another state of the program made them. Run that build on them, or give this one a store of its own; it changes nothing"

// Beside returns an error if this program must not continue with the tables that the store notes.
// A later version is allowed if its Oldest permits this program, because servers are replaced one
// by one.
func (m Migrations) Beside(noted Tables) error {
	own := m.Newest()
	switch {
	case noted.Version > own.Version && noted.Oldest <= own.Version:
		return nil
	case noted.Version > own.Version:
		return fmt.Errorf("the tables have version %d now, and this server has %d and must not run beside it: replace the server", noted.Version,
			own.Version)
	}
	return m.Check(noted)
}

// TablesSQL has the statements about a store's own tables. The statement Facts returns one fact a
// row, as a text of one of these forms:
//
//	column T.C TYPE    not null T.C    default T.C    constraint T NAME
type TablesSQL struct {
	Noted string // returns version, fingerprint, oldest and facts of the one row; fails if the table is missing
	Note  string // stores version, fingerprint, oldest and facts, unless a later version is stored
	Facts string // returns the facts about the tables as they are now
}

// TablesOf is an open database and the statements about its tables.
type TablesOf struct {
	DB  *sql.DB
	SQL TablesSQL
}

// Migrate applies migrations by calling up, and notes the resulting tables. The parameter has is
// the version before; 0 means that there are no tables. If another build made the tables, or the
// tables lack something, Migrate returns an error and changes nothing.
func (m Migrations) Migrate(ctx context.Context, tables TablesOf, has int64, up func() error) error {
	db, statements := tables.DB, tables.SQL
	var noted Tables
	if has > 0 {
		var err error
		if noted, err = m.Inspect(ctx, db, has, statements); err != nil {
			return err
		}
	}
	if err := up(); err != nil {
		return err
	}
	if noted == m.Newest() {
		return nil
	}
	facts, err := readFacts(ctx, db, statements.Facts)
	if err != nil {
		return err
	}
	now := m.Newest()
	if _, err := db.ExecContext(ctx, statements.Note, now.Version, now.Fingerprint, now.Oldest, strings.Join(facts, "\n")); err != nil {
		return fmt.Errorf("note the tables: %w", err)
	}
	return nil
}

// Inspect returns the Tables that the store notes. The parameter version is the version that the
// tables have. The error says that another build made the tables, or what the tables lack. If a
// start ended after its migration and before it noted the result, there is no note; the next
// start writes it.
func (m Migrations) Inspect(ctx context.Context, db *sql.DB, version int64, statements TablesSQL) (noted Tables, err error) {
	var facts string
	err = db.QueryRowContext(ctx, statements.Noted).Scan(&noted.Version, &noted.Fingerprint, &noted.Oldest, &facts)
	if errors.Is(err, sql.ErrNoRows) {
		return noted, nil
	}
	if err != nil {
		return noted, fmt.Errorf("the tables have version %d and do not say of which content (%w): %s", version, err, otherBuild)
	}
	if err := m.Check(noted); err != nil || noted.Version != version {
		return noted, err // another server has migrated, and has not noted it yet
	}
	live, err := readFacts(ctx, db, statements.Facts)
	if err != nil {
		return noted, err
	}
	if lack := lacking(strings.Split(facts, "\n"), live); len(lack) > 0 {
		more := ""
		if len(lack) > 5 {
			lack, more = lack[:5], fmt.Sprintf(" and %d more", len(lack)-5)
		}
		return noted, fmt.Errorf("the tables were changed after they were made: %s%s. Undo the change, or restore a backup",
			strings.Join(lack, ", "), more)
	}
	return noted, nil
}

// lacking returns the noted facts that are missing. It also returns columns that were added later
// and that every insert must fill. Other additions do no harm.
func lacking(noted, live []string) (lack []string) {
	for _, fact := range noted {
		if !slices.Contains(live, fact) {
			lack = append(lack, "no "+fact)
		}
	}
	for _, fact := range live {
		column, required := strings.CutPrefix(fact, "not null ")
		if required && !slices.Contains(noted, fact) && !slices.Contains(live, "default "+column) {
			lack = append(lack, "a new "+fact)
		}
	}
	return lack
}

func readFacts(ctx context.Context, db *sql.DB, statement string) (facts []string, err error) {
	rows, err := db.QueryContext(ctx, statement)
	if err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var fact string
		if err := rows.Scan(&fact); err != nil {
			return nil, fmt.Errorf("read the tables: %w", err)
		}
		facts = append(facts, fact)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read the tables: %w", err)
	}
	return facts, nil
}
