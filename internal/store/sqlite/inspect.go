package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"strings"
)

// oldest is the first version of SQLite whose log cannot lose a commit when a checkpoint and a
// restart of the log coincide (sqlite.org/wal.html, "the WAL-reset bug").
var oldest = [3]int{3, 51, 3}

// CheckVersion returns an error for a version of SQLite that is too old.
func CheckVersion(version string) error {
	parts := strings.SplitN(version, ".", len(oldest))
	for i, least := range oldest {
		n := -1
		if i < len(parts) {
			n, _ = strconv.Atoi(parts[i]) // a text that is not a number counts as too old
		}
		if n > least {
			return nil
		}
		if n < least {
			return fmt.Errorf("this program was built with SQLite %s; %d.%d.%d is the oldest that is safe",
				version, oldest[0], oldest[1], oldest[2])
		}
	}
	return nil
}

// settingsSQL returns the settings in effect, which can differ from the requested ones.
const settingsSQL = `
	select sqlite_version(), (select journal_mode from pragma_journal_mode), (select synchronous from pragma_synchronous)`

// inspect returns an error if the library or the connection would break the promises of the
// package. If SQLite cannot apply a setting, it returns no error and keeps the old value. On some
// file systems, for example, it cannot have a write-ahead log.
func inspect(ctx context.Context, db *sql.DB) error {
	var version, journal string
	var synchronous int
	if err := db.QueryRowContext(ctx, settingsSQL).Scan(&version, &journal, &synchronous); err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	const full = 2
	if journal != "wal" || synchronous < full {
		return fmt.Errorf("the database runs with journal_mode %s and synchronous %d: "+
			"a power cut would lose events that were acknowledged", journal, synchronous)
	}
	return CheckVersion(version)
}

// The quick check reads every page and stops at the first fault. It does not compare indexes with
// tables.
const checkSQL = `pragma quick_check(1)`

// check looks for damage after a process that did not close its store: the machine may have lost
// power, and the disk may have lost data that it had acknowledged. It reads the whole file, about
// a second for each gigabyte, so it runs only after an unclean stop.
func check(ctx context.Context, db *sql.DB) error {
	var finding string
	if err := db.QueryRowContext(ctx, checkSQL).Scan(&finding); err != nil {
		return fmt.Errorf("check the database: %w", err)
	}
	if finding != "ok" {
		return fmt.Errorf("the database is damaged (%s): restore it from a backup", finding)
	}
	return nil
}
