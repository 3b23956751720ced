package sqlite

import (
	"errors"
	"fmt"
	"syscall"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// class says what an error of SQLite means for the job or the list that met it.
type class int

const (
	classOther    class = iota // our fault, or the caller's context
	classBusy                  // not now: nothing was stored
	classConflict              // a unique index refuses the row: nothing was stored
	classFatal                 // the file can no longer be trusted: nothing may be written any more
)

// classes has the class of each code of SQLite that matters. A code that is not listed has
// the class of its primary code, which is its low byte; the others are classOther.
var classes = map[int]class{
	sqlite3.SQLITE_BUSY:     classBusy, // another process, a backup for instance, holds the lock
	sqlite3.SQLITE_LOCKED:   classBusy,
	sqlite3.SQLITE_PROTOCOL: classBusy, // too many tried to begin at once
	sqlite3.SQLITE_FULL:     classBusy, // the disk, or Options.MaxBytes
	sqlite3.SQLITE_READONLY: classBusy,
	sqlite3.SQLITE_CANTOPEN: classBusy, // no file handles left, for instance
	sqlite3.SQLITE_NOMEM:    classBusy,
	sqlite3.SQLITE_IOERR:    classBusy, // a quota, memory for the index of the log, …

	sqlite3.SQLITE_CONSTRAINT_UNIQUE:     classConflict,
	sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: classConflict,

	// After an fsync that failed, the kernel may have dropped what it could not
	// write and report success the next time: only a restart, which reads back
	// what is on the disk, tells what was kept.
	sqlite3.SQLITE_IOERR_FSYNC:     classFatal,
	sqlite3.SQLITE_IOERR_DIR_FSYNC: classFatal,
	sqlite3.SQLITE_IOERR_CORRUPTFS: classFatal,
	sqlite3.SQLITE_IOERR_DATA:      classFatal, // a checksum
	sqlite3.SQLITE_CORRUPT:         classFatal,
	sqlite3.SQLITE_NOTADB:          classFatal,
}

// classOf returns the class of an error; classOther: it is not one of SQLite, or nil.
func classOf(err error) class {
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return classOther
	}
	if c, ok := classes[e.Code()]; ok {
		return c
	}
	return classes[e.Code()&0xff]
}

// Temporary reports whether an error of [Open] may pass by itself: the disk is full, or
// another process, such as a backup, has the database's lock. The caller then tries again;
// any other error needs a person.
func Temporary(err error) bool {
	return classOf(err) == classBusy || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// explained adds the kind by which callers tell errors apart: ErrBusy or ErrConflict.
func explained(err error) error {
	if e, ok := errors.AsType[*sqlite.Error](err); ok && e.Code()&0xff == sqlite3.SQLITE_FULL {
		return fmt.Errorf("%w: %w", store.ErrFull, err)
	}
	switch classOf(err) {
	case classBusy:
		return fmt.Errorf("%w: %w", postrider.ErrBusy, err)
	case classConflict:
		return fmt.Errorf("%w: %w", postrider.ErrConflict, err)
	case classOther, classFatal:
	}
	return err
}

// errClosed refuses a job after Close.
var errClosed = fmt.Errorf("%w: the store is closed", postrider.ErrBusy)
