package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
)

// Backup describes a verified file that has a copy of a store.
type Backup struct {
	File    string
	Bytes   int64
	SHA256  string         // of the whole file, in hexadecimal
	Schema  int64          // version of the tables
	Events  int            // number of events
	Pending int            // number of pending deliveries
	Hold    postrider.Hold // every backup is held; a copy made by hand may not be
	Unnoted error          // why Copy could not note the backup in the folder of the store; set by Copy; nil: it is noted
}

const (
	// stepPages is the number of pages that one step copies: 8 MiB.
	stepPages = 8 << 20 / pageSize
	// maxRest is the longest pause after a step.
	maxRest = time.Second
)

// Copy makes the backup file to from the store in the directory dir, and verifies it. A server
// may use the store at the same time. Copy calls encrypted with each encrypted value of the copy.
// The file must not exist; until it is verified and on disk, it has another name. Encryption keys
// are not in it.
//
// Copy reads beside the server, on a separate connection. The lock of the directory keeps other
// writers out, and SQLite's log lets a reader see one state while the server continues. The
// server's log grows in the meantime. After each step Copy syncs the file, and then pauses for as
// long as the step took. So it takes at most half of the disk's time from publishes, and a sync
// of a publish waits for at most one step.
//
// The copy is marked as held, so that every store that is made from it starts held. The result of
// Copy is noted in dir, for [ReadLastBackup].
func Copy(ctx context.Context, dir, to string, encrypted func([]byte) error) (b Backup, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("back up %s: %w", dir, explained(err))
		}
	}()
	if dir, err = filepath.Abs(dir); err != nil {
		return Backup{}, err
	}
	if err := checkDirectory(dir); err != nil {
		return Backup{}, err
	}
	defer func() { b.Unnoted = noteBackup(dir, b, err) }()
	if _, err := os.Lstat(to); err == nil {
		return Backup{}, fmt.Errorf("%s exists already", to)
	}
	if to, err = filepath.Abs(to); err != nil {
		return Backup{}, err
	}
	part, err := os.CreateTemp(filepath.Dir(to), ".postrider-backup-*") // its mode is 0600
	if err != nil {
		return Backup{}, err
	}
	defer os.Remove(part.Name())
	defer part.Close()
	if err := copyPages(ctx, filepath.Join(dir, "postrider.db"), part); err != nil {
		return Backup{}, err
	}
	if err := markHeld(ctx, part.Name()); err != nil {
		return Backup{}, err
	}
	if b, err = Verify(ctx, part.Name(), encrypted); err != nil {
		return Backup{}, err
	}
	b.File = to
	if err := writeSum(to, b.SHA256); err != nil {
		return Backup{}, err
	}
	return b, errors.Join(part.Sync(), moveNew(part.Name(), to), syncDirectory(filepath.Dir(to)))
}

// sumSuffix ends the name of the file with the checksum of a backup. The command sha256sum -c can
// read that file.
const sumSuffix = ".sha256"

// writeSum writes the checksum file of a backup, before the temporary file is renamed to backup.
func writeSum(backup, sum string) error {
	file, err := os.OpenFile(backup+sumSuffix, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s  %s\n", sum, filepath.Base(backup))
	return errors.Join(err, file.Sync(), file.Close())
}

// CheckSum compares the backup with the checksum given, or, if that is empty, with the checksum
// file beside the backup. It returns a name for the checksum that it used, or an empty text if
// there was none. SQLite has no checksums of its own, so nothing else detects a changed byte
// inside a row.
func (b Backup) CheckSum(given string) (with string, err error) {
	with = "the checksum that was given"
	if given == "" {
		with = b.File + sumSuffix
		text, err := os.ReadFile(with)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		given, _, _ = strings.Cut(string(text), " ")
	}
	if !strings.EqualFold(strings.TrimSpace(given), b.SHA256) {
		return "", fmt.Errorf("%s has the SHA-256 %s, and %s is %s: bytes have changed since the backup was made", b.File, b.SHA256, with, given)
	}
	return with, nil
}

// backuper is a method of the driver's connections that database/sql does not have.
type backuper interface {
	NewBackup(to string) (*sqlite.Backup, error)
}

// copyPages copies one state of the database. It keeps a read transaction open: otherwise SQLite
// starts the copy again whenever another process has written since the last step, and beside a
// busy server the copy would never end.
func copyPages(ctx context.Context, file string, to *os.File) (err error) {
	db, err := sql.Open("sqlite", source(file, url.Values{"_pragma": {"busy_timeout(5000)", "query_only(1)"}}))
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "begin"); err != nil {
		return err
	}
	defer func() {
		_, ended := conn.ExecContext(context.WithoutCancel(ctx), "rollback")
		err = errors.Join(err, ended)
	}()
	if err := conn.QueryRowContext(ctx, "select count(*) from sqlite_schema").Scan(new(int)); err != nil { // starts to read
		return err
	}
	return conn.Raw(func(driver any) error {
		unsynced := url.Values{"_pragma": {"journal_mode(off)", "synchronous(off)"}} // copyPages syncs each step itself
		copying, err := driver.(backuper).NewBackup(source(to.Name(), unsynced))     //nolint:errcheck // panics if the driver changes
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			began := time.Now()
			more, err = copying.Step(stepPages)
			err = errors.Join(err, to.Sync())
			if more && err == nil && !batch.Sleep(ctx, min(time.Since(began), maxRest)) {
				err = context.Cause(ctx)
			}
		}
		return errors.Join(err, copying.Finish())
	})
}

// markHeld holds the store in a file that nobody else uses, as PutHold does. It also makes the
// file complete without a log beside it.
func markHeld(ctx context.Context, file string) (err error) {
	db, err := sql.Open("sqlite", source(file, url.Values{"_pragma": {"journal_mode(delete)", "synchronous(full)"}}))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	now := sql.Named("now", micros(time.Now()))
	if _, err := db.ExecContext(ctx, raiseSequencesSQL, now); err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, holdSQL, now, sql.Named("reason", postrider.HoldRestored))
	return err
}

// Verify reads a whole backup. It checks each page and each index, and that the version is not
// newer than this program. It counts the events and pending deliveries, and calls encrypted with
// each encrypted value.
func Verify(ctx context.Context, file string, encrypted func([]byte) error) (b Backup, err error) {
	// SQLite would take the start of a relative path for a host.
	if file, err = filepath.Abs(file); err != nil {
		return Backup{}, err
	}
	b.File = file
	if b.Bytes, b.SHA256, err = hashFile(file); err != nil {
		return Backup{}, err
	}
	if wal, err := os.Stat(file + "-wal"); err == nil && wal.Size() > 0 {
		return Backup{}, fmt.Errorf("%s is the database of a server and not a backup: a part of it is in %s-wal; use postrider backup", file,
			file)
	}
	db, err := sql.Open("sqlite", source(file, url.Values{"mode": {"ro"}, "immutable": {"1"}, "_pragma": {"cell_size_check(1)"}}))
	if err != nil {
		return Backup{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := b.readSchema(ctx, db); err != nil {
		return Backup{}, err
	}
	var finding string
	if err := db.QueryRowContext(ctx, `pragma integrity_check(1)`).Scan(&finding); err != nil || finding != "ok" {
		return Backup{}, errors.Join(fmt.Errorf("%s is damaged: %s", file, finding), err)
	}
	if err := db.QueryRowContext(ctx, contentSQL).Scan(&b.Events, &b.Pending, toTime(&b.Hold.Since), &b.Hold.Reason); err != nil {
		return Backup{}, fmt.Errorf("count what is in %s: %w", file, err)
	}
	return b, eachEncrypted(ctx, db, encrypted)
}

// contentSQL returns what Verify counts, and allEncryptedSQL every encrypted value.
const (
	contentSQL = `select (select count(*) from events), (select count(*) from queue), since, reason from hold`

	allEncryptedSQL = `
	select credentials from endpoints where credentials is not null
	union all
	select encrypted from endpoint_secrets
	union all
	select encrypted from archive_keys`
)

func eachEncrypted(ctx context.Context, db *sql.DB, do func([]byte) error) (err error) {
	rows, err := db.QueryContext(ctx, allEncryptedSQL)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var value []byte
		if err := rows.Scan(&value); err != nil {
			return err
		}
		if err := do(value); err != nil {
			return err
		}
	}
	return rows.Err()
}

// readSchema reads the version of the tables. A file without a version is not a store.
func (b *Backup) readSchema(ctx context.Context, db *sql.DB) error {
	err := db.QueryRowContext(ctx, `select max(version_id) from postrider_migrations where is_applied`).Scan(&b.Schema)
	if err != nil {
		return fmt.Errorf("%s is not a backup of Postrider: %w", b.File, err)
	}
	names, err := fs.Glob(migrations, "migrations/*.sql")
	if err != nil {
		return err
	}
	knows, err := goose.NumericComponent(names[len(names)-1]) // sorted by Glob
	if err == nil && b.Schema > knows {
		err = fmt.Errorf("the schema of %s has version %d, and this program knows %d: a newer program made it", b.File, b.Schema, knows)
	}
	return err
}

// Restore puts a verified backup into the directory dir, and verifies the result. The directory
// must be empty, except for its keys and its lock. The store starts held.
func Restore(ctx context.Context, from Backup, dir string) (b Backup, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("restore into %s: %w", dir, err)
		}
	}()
	if dir, err = filepath.Abs(dir); err != nil {
		return Backup{}, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return Backup{}, err
	}
	if err := errors.Join(checkDirectory(dir), checkEmpty(dir)); err != nil {
		return Backup{}, err
	}
	dirLock, err := lock(dir)
	if err != nil {
		return Backup{}, err
	}
	defer func() { err = errors.Join(err, dirLock.release(true)) }()
	part, err := os.CreateTemp(dir, ".postrider-restore-*")
	if err != nil {
		return Backup{}, err
	}
	defer os.Remove(part.Name())
	defer part.Close()
	if err := copyFile(from.File, part); err != nil {
		return Backup{}, err
	}
	if size, sum, err := hashFile(part.Name()); err != nil || size != from.Bytes || sum != from.SHA256 {
		return Backup{}, errors.Join(fmt.Errorf("the copy of %s is another file: it changed while it was read", from.File), err)
	}
	if err := markHeld(ctx, part.Name()); err != nil {
		return Backup{}, err
	}
	if b, err = Verify(ctx, part.Name(), func([]byte) error { return nil }); err != nil {
		return Backup{}, err
	}
	b.File = filepath.Join(dir, "postrider.db")
	return b, errors.Join(part.Sync(), moveNew(part.Name(), b.File), syncDirectory(dir), syncDirectory(filepath.Dir(dir)))
}

// mayBeThere are the files that the directory of a Restore may have.
var mayBeThere = map[string]bool{"postrider.lock": true, "secrets.key": true, "lost+found": true}

// checkEmpty returns an error if the directory has files that are not in mayBeThere. The error
// says whether a server runs on the directory.
func checkEmpty(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if mayBeThere[e.Name()] {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "postrider.lock")); err == nil {
			used, err := lock(dir)
			if err != nil {
				return err
			}
			if err := used.release(!used.unclean); err != nil {
				return err
			}
		}
		return fmt.Errorf("the folder is not empty, it has %s: restore into an empty one, with secrets.key alone, and let the server use that one", e.Name())
	}
	return nil
}

// copyFile appends the content of a file to another file.
func copyFile(from string, to *os.File) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	_, err = io.Copy(to, in)
	return err
}

// hashFile returns the size of a file and its SHA-256 in hexadecimal.
func hashFile(file string) (size int64, sum string, err error) {
	in, err := os.Open(file)
	if err != nil {
		return 0, "", err
	}
	defer in.Close()
	hash := sha256.New()
	if size, err = io.Copy(hash, in); err != nil {
		return 0, "", err
	}
	return size, hex.EncodeToString(hash.Sum(nil)), nil
}

// moveNew renames a file, and does not replace another one. On a file system without hard links,
// another process could create the file between the check and the rename.
func moveNew(from, to string) error {
	err := os.Link(from, to)
	if err == nil {
		return os.Remove(from)
	}
	if _, exists := os.Lstat(to); exists == nil {
		return fmt.Errorf("%s exists already", to)
	}
	return os.Rename(from, to)
}
