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

// Tables identifies what migrations made: the program has one of each of its migrations, and a
// store notes the one that was applied last.
type Tables struct {
	Version     int64
	Fingerprint string // of the statements of all migrations up to the version
	Oldest      int64  // programs that know this version, or a later one, may use the tables
}

// Migrations are the tables that a program can make, by version.
type Migrations struct {
	All   []Tables
	Names []string // of all tables
}

var (
	tableNames   = regexp.MustCompile(`(?m)^create table (\w+) \(`)
	oldestBeside = regexp.MustCompile(`(?m)^-- oldest program beside: (\d+)$`)
	// What does not change tables: comments of the file and of the database, and layout.
	noStatements = regexp.MustCompile(`(?m)--.*$|^comment on .*;$`)
	whitespace   = regexp.MustCompile(`\s+`)
)

// ReadMigrations reads the migrations in the folder migrations. A migration whose tables older
// programs can use has a line "-- oldest program beside: VERSION".
func ReadMigrations(files fs.FS) (m Migrations, err error) {
	paths, err := fs.Glob(files, "migrations/*.sql") // sorted, and versions have four digits
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

// Newest returns the tables that the program needs.
func (m Migrations) Newest() Tables { return m.All[len(m.All)-1] }

// Check returns why the tables that a store notes are not those that this program made, or
// makes better tables of.
func (m Migrations) Check(noted Tables) error {
	for _, own := range m.All {
		if own.Version == noted.Version && own.Fingerprint == noted.Fingerprint {
			return nil
		}
	}
	return fmt.Errorf("the tables have version %d, as those of this program, and other content: %s", noted.Version, otherBuild)
}

const otherBuild = "a build of another state of the program made them. Run that build on them, or give this one a store of its own; it changes nothing"

// Beside returns why this program must not go on with the tables that the store notes. A later
// version that allows it is no reason: servers are replaced one by one.
func (m Migrations) Beside(noted Tables) error {
	own := m.Newest()
	switch {
	case noted.Version > own.Version && noted.Oldest <= own.Version:
		return nil
	case noted.Version > own.Version:
		return fmt.Errorf("the tables have version %d now, and this server has %d and must not run beside it: replace the server", noted.Version, own.Version)
	}
	return m.Check(noted)
}

// TablesSQL has the statements of a store about its tables. Each fact is a line of one column:
//
//	column T.C TYPE    not null T.C    default T.C    constraint T NAME
type TablesSQL struct {
	Noted string // returns version, fingerprint, oldest and facts of the one row; fails without the table
	Note  string // stores version, fingerprint, oldest and facts, unless a later version is noted
	Facts string // returns the facts about the tables
}

// TablesOf is an open database, with the statements of its store about its tables.
type TablesOf struct {
	DB  *sql.DB
	SQL TablesSQL
}

// Migrate applies migrations by up, and notes what they made. has is the version before; 0: there
// are no tables. Tables of another build, and tables that lack something, are refused before
// anything changes.
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

// Inspect returns what the store notes of its tables, which have the version. The error says that
// they are of another build, or what they lack. A start that ended between its migration and its
// note left none; the next one notes it.
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
		return noted, err // another server has migrated, and its note follows
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
		return noted, fmt.Errorf("the tables were changed after they were made: %s%s. Undo the change, or restore a backup", strings.Join(lack, ", "), more)
	}
	return noted, nil
}

// lacking returns what the tables lack of the noted facts, and columns that were added and that
// an insert must fill. Other additions do not matter.
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
