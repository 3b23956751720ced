package doctor

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"
	"time"
)

// SQLite describes a data folder.
type SQLite struct {
	Folder    string
	Exists    bool        // the folder exists
	Disk      string      // the folder, or its nearest existing parent
	Mode      fs.FileMode // of the folder
	Unusable  error       // why no file could be created and synced on Disk; nil: one could
	Sync      Latency
	System    string   // kind of file system, such as ext4; empty: unknown
	Remote    error    // why the file system cannot keep a database; nil: it can
	Open      []string // files in the folder that other users may read or write
	Foreign   []string // files in the folder that this user may not write
	HasStore  bool     // the database file exists
	Bytes     int64    // of the database file
	InUse     bool     // a process has the store open
	Unclean   bool     // the last process did not close the store
	Unread    error    // why the database could not be read; nil: the fields below are set
	Journal   string   // journal_mode
	Vacuum    string   // auto_vacuum: none, full or incremental
	Tables    Migrations
	Endpoints int // -1: unknown
	// Ahead is how far the time of the newest event is in the future. Below 0: it is in the past.
	Ahead   time.Duration
	Damage  string
	Checked bool          // the whole file was read
	Took    time.Duration // time of the integrity check
}

// Checks judges the data folder. The checks are in the order of the report.
func (s SQLite) Checks() []Check {
	return slices.Concat([]Check{s.folder(), s.modes(), s.fileSystem()}, s.latency(), s.store())
}

func (s SQLite) folder() Check {
	switch {
	case errors.Is(s.Unusable, syscall.ENOSPC):
		return Failure(Folder, "%s cannot be written: %s", s.Folder, s.Unusable).
			Change("free space on the disk of %s, or give it a larger disk", s.Folder)
	case s.Unusable != nil && s.Exists:
		return Failure(Folder, "%s cannot be written: %s", s.Folder, s.Unusable).
			Change("give the folder to the user that runs the server: chown -R USER %s", s.Folder)
	case s.Unusable != nil:
		return Failure(Folder, "%s does not exist and cannot be made: %s", s.Folder, s.Unusable).
			Change("make the folder and give it to the user that runs the server, or name another with --data-dir")
	case !s.Exists:
		return Okay(Folder, "%s does not exist yet; postrider serve makes it", s.Folder)
	}
	return Okay(Folder, "%s exists and can be written", s.Folder)
}

func (s SQLite) modes() Check {
	switch {
	case len(s.Foreign) > 0:
		return Failure(FileModes, "this user may not write %s", some(s.Foreign)).
			Change("run doctor and the server as the same user, or give the files to it: chown -R USER %s", s.Folder)
	case s.Exists && s.Mode.Perm()&0o077 != 0:
		return Warning(FileModes, "other users may look into %s (mode %04o), which holds events and keys", s.Folder, s.Mode.Perm()).
			Change("chmod 700 %s", s.Folder)
	case len(s.Open) > 0:
		return Warning(FileModes, "other users may read %s", some(s.Open)).Change("chmod -R go= %s", s.Folder)
	}
	return Okay(FileModes, "only the owner may read the files")
}

// volatileSystems are file systems whose files are lost with the machine or the container.
var volatileSystems = map[string]string{
	"tmpfs":     "it is memory, so a restart of the machine loses every event",
	"overlayfs": "it is the container's own layer, which is lost with the container",
}

func (s SQLite) fileSystem() Check {
	why := volatileSystems[s.System]
	switch {
	case s.Remote != nil:
		return Failure(FileSystem, "%s: %s", s.Folder, s.Remote).Change("put --data-dir on a local disk, or use PostgreSQL")
	case why != "":
		return Warning(FileSystem, "%s is on %s: %s", s.Folder, s.System, why).Change("put --data-dir on a volume or a disk")
	case s.System == "fuse":
		return Warning(FileSystem, "%s is on fuse, which may be a disk of another machine", s.Folder).
			Change("make sure that it is local, or put --data-dir on a local disk")
	case s.System == "":
		return Okay(FileSystem, "not one of the known network file systems")
	}
	return Okay(FileSystem, "%s, a local one", s.System)
}

// latency judges the speed of the disk. It returns no check if the disk could not or should not be
// written, because another check has failed for that reason.
func (s SQLite) latency() []Check {
	if s.Unusable != nil || s.Remote != nil {
		return nil
	}
	if s.Sync.Median > slowSync {
		return []Check{Warning(SyncLatency, "a sync of 4 kB in %s takes %s; each publish waits for one", s.Disk, s.Sync).
			Change("use a faster disk; more than %s is slow", slowSync)}
	}
	return []Check{Okay(SyncLatency, "a sync of 4 kB in %s takes %s", s.Disk, s.Sync)}
}

// store judges the database in the folder.
func (s SQLite) store() []Check {
	if !s.HasStore {
		return []Check{s.Tables.check(SQLiteTables)}
	}
	checks := []Check{s.inUse()}
	if s.Unread != nil && s.Unclean {
		return append(checks, Warning(Integrity, "not read, because of an unclean stop: %s", s.Unread).
			Change("start postrider serve: it reads the log of that stop, and checks the whole file"))
	}
	if s.Unread != nil {
		return append(checks, Failure(Integrity, "the database cannot be read: %s", s.Unread).
			Change("run doctor as the user of the server; if postrider serve cannot read it either, restore the last backup"))
	}
	return append(checks, s.Tables.check(SQLiteTables), s.clock(), s.journal(), s.vacuum(), s.integrity())
}

func (s SQLite) inUse() Check {
	switch {
	case s.InUse:
		return Okay(InUse, "a server runs on %s; what follows was read beside it", s.Folder)
	case s.Unclean:
		return Okay(InUse,
			"no server runs; the last one did not close the store, so the next start checks the whole file, about a second for each GB")
	}
	return Okay(InUse, "no server runs on %s", s.Folder)
}

// clock judges this machine's clock, which is also the store's clock, by the time of the newest
// event.
func (s SQLite) clock() Check {
	if s.Ahead > ClockWarned {
		return Warning(SQLiteClock, "the newest event was accepted %s in the future: this machine's clock is behind, or was ahead",
			shown(s.Ahead)).
			Change("set the clock by NTP, for example with chrony or systemd-timesyncd, before the server starts")
	}
	return Okay(SQLiteClock, "the store has the clock of this machine, and no event of the future")
}

func (s SQLite) journal() Check {
	if s.Journal != "wal" {
		return Warning(JournalMode, "%s instead of wal: another program has changed it", s.Journal).
			Change("nothing, if the next start of postrider serve succeeds: it sets wal again")
	}
	return Okay(JournalMode, "wal; servers add synchronous=full")
}

func (s SQLite) vacuum() Check {
	if s.Vacuum == "none" {
		return Warning(AutoVacuum, "none: deleted rows leave free pages, which are used again, and the file does not shrink by itself").
			Change("stop the server and run: sqlite3 %s/postrider.db 'pragma auto_vacuum=incremental; vacuum'. It needs free space of the file's size", s.Folder)
	}
	return Okay(AutoVacuum, "%s", s.Vacuum)
}

func (s SQLite) integrity() Check {
	took := shown(s.Took)
	switch {
	case s.Damage != "":
		return Failure(Integrity, "the database is damaged: %s", s.Damage).
			Change("stop the server, keep a copy of %s, and restore the last backup", s.Folder)
	case !s.Checked:
		return Okay(Integrity, "no damage found in %s; the check of %s did not end and was stopped, so allow more with --timeout", took,
			size(s.Bytes))
	}
	return Okay(Integrity, "no damage in %s, checked in %s", size(s.Bytes), took)
}
