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

// class says what an error of SQLite means for the job or the list that got it.
type class int

const (
	classOther    class = iota // a fault of this program, or the caller's context has ended
	classBusy                  // not possible now; nothing was stored
	classConflict              // a unique index refused the row; nothing was stored
	classFatal                 // the file can no longer be trusted, and nothing may be written any more
)

// classes has the class of each code of SQLite that matters. If a code is not in the map, its
// primary code decides, which is its low byte. If the primary code is not in the map either, the
// class is classOther.
var classes = map[int]class{
	sqlite3.SQLITE_BUSY:     classBusy, // another process has the lock, for example a backup
	sqlite3.SQLITE_LOCKED:   classBusy,
	sqlite3.SQLITE_PROTOCOL: classBusy, // too many transactions tried to begin at once
	sqlite3.SQLITE_FULL:     classBusy, // the disk is full, or Options.MaxBytes is reached
	sqlite3.SQLITE_READONLY: classBusy,
	sqlite3.SQLITE_CANTOPEN: classBusy, // for example, no file handles are left
	sqlite3.SQLITE_NOMEM:    classBusy,
	sqlite3.SQLITE_IOERR:    classBusy, // for example, a quota, or no memory for the index of the log

	sqlite3.SQLITE_CONSTRAINT_UNIQUE:     classConflict,
	sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY: classConflict,

	// After a failed fsync the kernel may have dropped the pages that it could not write, and report
	// success the next time. Only a restart, which reads the disk, shows which pages were kept.
	sqlite3.SQLITE_IOERR_FSYNC:     classFatal,
	sqlite3.SQLITE_IOERR_DIR_FSYNC: classFatal,
	sqlite3.SQLITE_IOERR_CORRUPTFS: classFatal,
	sqlite3.SQLITE_IOERR_DATA:      classFatal, // a checksum is wrong
	sqlite3.SQLITE_CORRUPT:         classFatal,
	sqlite3.SQLITE_NOTADB:          classFatal,
}

// classOf returns the class of an error. It is classOther for nil, and for errors that are not
// from SQLite.
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

// Temporary reports whether an error of [Open] can pass by itself: the disk is full, or another
// process, such as a backup, has the database's lock. The caller then tries again. Any other
// error needs a person.
func Temporary(err error) bool {
	return classOf(err) == classBusy || errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// explained wraps an error of SQLite in ErrFull, ErrBusy or ErrConflict, by which callers tell
// errors apart.
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

// errClosed is the error of a job that is added after Close.
var errClosed = fmt.Errorf("%w: the store is closed", postrider.ErrBusy)
