package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// Examine describes the data directory dir, for postrider doctor. It changes nothing in the
// directory: the file with which it measures the disk loses its name before the first byte is
// written. A server may run at the same time, but only in another process: closing a file that
// SQLite has locked frees the locks of the whole process.
//
// The check of the whole file takes at most half of the time that ctx has left.
func Examine(ctx context.Context, dir string) doctor.SQLite {
	e := examination{dir: dir, found: doctor.SQLite{Folder: dir, Endpoints: -1}}
	if absolute, err := filepath.Abs(dir); err == nil {
		e.dir = absolute
	}
	own, err := ownMigrations()
	if e.own = own; err != nil {
		e.found.Unread = err
		return e.found
	}
	e.found.Tables.Knows = own.Newest().Version
	e.folder(ctx)
	if e.found.Remote != nil || !e.found.HasStore {
		return e.found
	}
	if err := e.store(ctx); err != nil {
		e.found.Unread = err
	}
	return e.found
}

// examination is one call of Examine.
type examination struct {
	dir   string // absolute path
	own   store.Migrations
	found doctor.SQLite
}

// folder examines the directory, or the nearest existing one above it, which is on the same disk.
func (e *examination) folder(ctx context.Context) {
	f := &e.found
	f.Disk = e.dir
	stat, err := os.Stat(e.dir)
	if f.Exists = err == nil; f.Exists {
		f.Mode = stat.Mode()
	}
	for err != nil && errors.Is(err, fs.ErrNotExist) && f.Disk != filepath.Dir(f.Disk) {
		f.Disk = filepath.Dir(f.Disk)
		stat, err = os.Stat(f.Disk)
	}
	if err == nil && !stat.IsDir() {
		err = fmt.Errorf("%s is not a folder", f.Disk)
	}
	if err != nil {
		f.Unusable = err
		return
	}
	kind, err := fileSystemOf(f.Disk)
	if err == nil {
		f.System, err = local[kind&0xffffffff], CheckFileSystem(kind)
	}
	if f.Remote = err; err != nil {
		return
	}
	f.Sync, f.Unusable = measureSync(ctx, f.Disk)
	if f.Exists {
		e.files()
	}
}

// measured is the number of times that the disk is measured.
const measured = 20

// measureSync creates a file in the directory, removes its name, and measures how long it takes
// to make a page durable.
func measureSync(ctx context.Context, dir string) (doctor.Latency, error) {
	file, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return doctor.Latency{}, err
	}
	var times []time.Duration
	err = os.Remove(file.Name())
	page := make([]byte, pageSize)
	for range measured {
		if err != nil || ctx.Err() != nil {
			break
		}
		begun := time.Now()
		if _, err = file.Write(page); err == nil {
			err = file.Sync()
		}
		times = append(times, time.Since(begun))
	}
	return doctor.LatencyOf(times), errors.Join(err, file.Close())
}

// files examines the modes of the files that a server creates.
func (e *examination) files() {
	for _, name := range []string{
		"postrider.db", "postrider.db-wal", "postrider.db-shm", "postrider.lock", "secrets.key", "admin.key", "server.url",
	} {
		path := filepath.Join(e.dir, name)
		stat, err := os.Stat(path)
		if err != nil {
			continue
		}
		if name == "postrider.db" {
			e.found.HasStore, e.found.Bytes = true, stat.Size()
		}
		if stat.Mode().Perm()&0o077 != 0 {
			e.found.Open = append(e.found.Open, path)
		}
		if unix.Access(path, unix.W_OK) != nil {
			e.found.Foreign = append(e.found.Foreign, path)
		}
	}
}

// store reads the database.
func (e *examination) store(ctx context.Context) (err error) {
	f := &e.found
	if f.InUse, f.Unclean, err = lockState(e.dir); err != nil {
		return err
	}
	if f.Journal, err = journalOf(filepath.Join(e.dir, "postrider.db")); err != nil {
		return err
	}
	db, err := openUnchanged(e.dir, f.InUse)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := e.tables(ctx, db); err != nil {
		return err
	}
	return e.integrity(ctx, db)
}

// journalOf returns the journal mode in the header of a database file: byte 18 is 2 for a
// write-ahead log, and 1 for the other modes (sqlite.org/fileformat.html).
func journalOf(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var format [1]byte
	if _, err := file.ReadAt(format[:], 18); err != nil {
		return "", fmt.Errorf("read the header: %w", err)
	}
	if format[0] == 2 {
		return "wal", nil
	}
	return "a rollback journal", nil
}

// openUnchanged opens the database of dir for reading, without changing a file.
//
//   - Beside a server, it reads as the server's own readers do.
//   - After an unclean stop, the log has commits. With readonly_shm SQLite reads the log into
//     memory, and does not write it back into the file.
//   - After a clean stop there is no log, and immutable keeps SQLite from creating one.
func openUnchanged(dir string, inUse bool) (*sql.DB, error) {
	file := filepath.Join(dir, "postrider.db")
	settings := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(200)", "query_only(1)", "cell_size_check(1)", "temp_store(memory)"}}
	if log, err := os.Stat(file + "-wal"); !inUse && err == nil && log.Size() > 0 {
		settings.Set("readonly_shm", "1")
	} else if !inUse {
		settings.Set("immutable", "1")
	}
	db, err := sql.Open("sqlite", source(file, settings))
	if err != nil {
		return nil, fmt.Errorf("open the database for reading: %w", err)
	}
	db.SetMaxOpenConns(2) // two, because secrets are decrypted while a list is read
	return db, nil
}

// vacuums are the names of the values of auto_vacuum.
var vacuums = []string{"none", "full", "incremental"}

// tables reads the version of the tables, the number of endpoints, and the time of the newest
// event, with which its id begins.
func (e *examination) tables(ctx context.Context, db *sql.DB) error {
	var vacuum, tables int
	if err := db.QueryRowContext(ctx, `pragma auto_vacuum`).Scan(&vacuum); err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	e.found.Vacuum = vacuums[vacuum%len(vacuums)]
	err := db.QueryRowContext(ctx,
		`select count(*) from sqlite_schema where type = 'table' and name in ('postrider_migrations', 'endpoints')`).Scan(&tables)
	if err != nil || tables < 2 {
		return err
	}
	var newest postrider.EventID
	err = db.QueryRowContext(ctx, `
		select (select max(version_id) from postrider_migrations where is_applied), (select count(*) from endpoints),
			coalesce((select max(id) from events), zeroblob(16))`).
		Scan(&e.found.Tables.Has, &e.found.Endpoints, toID(&newest))
	if err != nil {
		return fmt.Errorf("read the version: %w", err)
	}
	if !newest.IsZero() {
		e.found.Ahead = time.Until(newest.Time())
	}
	if e.found.Tables.Has <= e.found.Tables.Knows {
		_, e.found.Tables.Unlike = e.own.Inspect(ctx, db, e.found.Tables.Has, tableStatements(e.own.Names))
	}
	return nil
}

// integrityTime is the time limit of the check if ctx has no deadline.
const integrityTime = 10 * time.Second

// integrity checks the whole file, like a start after an unclean stop.
func (e *examination) integrity(ctx context.Context, db *sql.DB) error {
	within := integrityTime
	if end, ends := ctx.Deadline(); ends {
		within = time.Until(end) / 2
	}
	checking, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	begun := time.Now()
	var finding string
	err := db.QueryRowContext(checking, checkSQL).Scan(&finding)
	e.found.Took = time.Since(begun)
	switch {
	case checking.Err() != nil:
		return nil
	case classOf(err) == classFatal:
		finding = err.Error()
	case err != nil:
		return fmt.Errorf("check the database: %w", err)
	}
	if finding != "ok" && !e.found.InUse {
		// A server that has started in the meantime may have written the pages that were being read.
		if inUse, _, err := lockState(e.dir); err != nil || inUse {
			e.found.InUse = true
			return err
		}
	}
	e.found.Checked = true
	if finding != "ok" {
		e.found.Damage = cmp.Or(finding, "no reason is given")
	}
	return nil
}

// Sealed reads the encrypted values of a data directory, and changes nothing there.
type Sealed struct{ store *Store }

// OpenSealed opens the database of dir for reading. It must exist and have tables.
func OpenSealed(dir string) (*Sealed, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("read encrypted values: %w", err)
	}
	inUse, _, err := lockState(dir)
	if err != nil {
		return nil, fmt.Errorf("read encrypted values: %w", err)
	}
	db, err := openUnchanged(dir, inUse)
	if err != nil {
		return nil, fmt.Errorf("read encrypted values: %w", err)
	}
	s := &Store{reads: &readPool{DB: db}, writer: newWriter(nil, nil, func(error) {})} // the writer is never started
	s.Verbs = sqlstore.New(cold{s}, nil)
	return &Sealed{s}, nil
}

// Keyring is part of [store.Encryption].
func (s *Sealed) Keyring(ctx context.Context) ([]byte, error) { return s.store.Keyring(ctx) }

// EncryptedValues is part of [store.Encryption].
func (s *Sealed) EncryptedValues(ctx context.Context, after store.EncryptedID, limit int) ([]store.EncryptedValue, error) {
	return s.store.EncryptedValues(ctx, after, limit)
}

// Sources is part of [store.Sources].
func (s *Sealed) Sources(ctx context.Context) ([]postrider.Source, error) {
	return s.store.Sources(ctx)
}

// Close closes the database.
func (s *Sealed) Close() error { return s.store.reads.end() }
