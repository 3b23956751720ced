// Package sqlite stores events and deliveries in one SQLite file, for a single server.
//
// [Open] locks a data directory for this process, brings its database up to date and returns a
// [Store]. The files are named after the roles of package store, as those of package postgres
// are. Each statement stands above the one method that runs it, with the index that it walks.
//
// The package promises:
//
//   - The changes of a method that returned without an error are on disk: a commit writes to the
//     log and syncs it (journal_mode=wal, synchronous=full).
//   - One goroutine, the writer, makes all changes. It runs all waiting calls in one transaction,
//     each under a savepoint. So they share one sync, and a call that fails undoes only its own
//     changes.
//   - A decision depends only on rows that are read inside the transaction that carries it out.
//     Lists are read beside the writer, on read-only connections. Requests that only read have
//     separate connections.
//   - A directory belongs to one process. If a process dies, the next one that opens the
//     directory makes its leases due at once, and records their attempts as lost.
//   - After an error that leaves it unclear what is on disk, nothing is written any more, and
//     Options.OnFatal is called.
//
// A pending delivery is one row of queue. Its token and due_at say in which state it is:
//
//   - Waiting: no token; due_at is when the delivery is due. Publish, a retry and Release set
//     this state.
//   - Leased: a token; due_at is the end of the lease. Claim sets this state, or Publish by
//     admission. Settle ends the lease. After due_at, Claim takes the lease over. If the process
//     dies, the next start ends the lease.
//   - Blocked: no token; due_at is never (order.go). The delivery has an ordering key and is not
//     the head, or the key is paused. The end of the head, or of the pause, makes the delivery
//     due.
//   - Parked: no token; due_at is never, and parked is 1. A start sets this state after several
//     processes died with the delivery. MakeDue makes the delivery due.
//
// Settle deletes a leased row whose delivery has ended. Cancel can delete a row in every state.
// Expire and CancelDeleted can too, except a row under a valid lease.
//
// The package needs a local disk. DeleteOld deletes history row by row, in pieces (pieces.go).
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"time"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// Store is a [store.Store] in a data directory.
type Store struct {
	sqlstore.Verbs

	lock   *fileLock
	writes *sql.DB   // one connection, which the writer holds
	writer *writer   // makes all changes
	reads  *readPool // for the engine
	people *readPool // for requests that only read
	clock  *store.Clock
	calls  store.Calls // Options.Calls
	log    *slog.Logger

	texts     texts // translated statements of package sqlstore
	deletions deletions
	heads     store.Heads // heads of accepted responses

	checkpoints sync.WaitGroup // waits for runCheckpoints
	stop        func()         // ends runCheckpoints; set by open
	close       func() error   // runs end, once
}

var _ store.Store = (*Store)(nil)

// Options tunes a [Store]. The zero value is the production default.
type Options struct {
	Now      func() time.Time // returns the machine's time; default time.Now
	Readers  int              // connections for requests that only read; default: one for each processor, at least 2
	MaxBytes int64            // greatest size of the database; default: limited only by the disk
	Calls    store.Calls      // called at the end of each verb; default: not called
	Log      *slog.Logger     // default: discard

	// OnFatal is called once, with the reason, when the file can no longer be trusted. The store
	// then writes nothing any more, and only a restart shows what the file has. OnFatal must not
	// call the store. By default the reason is logged.
	OnFatal func(error)

	// OnLost is called by Open after each commit, with the number of attempts of a dead process that
	// it recorded as lost. By default nothing is called.
	OnLost func(int)
}

func (o Options) withDefaults() Options {
	o.Readers = cmp.Or(o.Readers, max(2, runtime.NumCPU()))
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.OnFatal == nil {
		log := o.Log
		o.OnFatal = func(err error) { log.Error("the store writes no more", "error", err) }
	}
	if o.OnLost == nil {
		o.OnLost = func(int) {}
	}
	return o
}

// Open opens the store in the directory dir, and creates the directory if it does not exist. It
// returns an error if another process uses the directory, if the directory is on a network file
// system, or if the database is damaged or newer than this program. After a process that died it
// checks the whole file, about a second for each gigabyte, and makes the leases of that process
// due.
func Open(ctx context.Context, dir string, opts Options) (_ *Store, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open sqlite: %w", err)
		}
	}()
	opts = opts.withDefaults()
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	file, dirLock, err := claimDirectory(dir)
	if err != nil {
		return nil, err
	}
	s := &Store{lock: dirLock, clock: store.NewClock(opts.Now), calls: opts.Calls, log: opts.Log}
	s.Verbs = sqlstore.New(cold{s}, s.calls)
	s.close = sync.OnceValue(s.end)
	if err := s.open(ctx, file, opts); err != nil {
		return nil, errors.Join(explained(err), s.abandon())
	}
	return s, nil
}

// Close closes the store, after the calls under way have finished.
func (s *Store) Close() error { return s.close() }

// Clock returns the store's time.
func (s *Store) Clock() *store.Clock { return s.clock }

// Now returns the machine's time of day, and corrects the Clock by it.
func (s *Store) Now(ctx context.Context) (_ time.Time, err error) {
	defer s.calls.Begin("Now").End(&err, "read the time")
	if step := s.clock.FollowMachine(); step != 0 {
		s.log.WarnContext(ctx, "the clock of the machine was stepped", "by", step.String())
	}
	return s.wall(), nil
}

// now returns the time that decides which work is due.
func (s *Store) now() time.Time { return s.clock.Now() }

// wall returns the time that people see.
func (s *Store) wall() time.Time { return s.clock.Wall() }

// MakePartitions does nothing, because SQLite has no partitions.
func (s *Store) MakePartitions(context.Context) error { return nil }

// claimDirectory makes dir the data directory of this process, and returns the path of its
// database. It takes the lock before it touches the database.
func claimDirectory(dir string) (file string, dirLock *fileLock, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	if err := checkDirectory(dir); err != nil {
		return "", nil, err
	}
	dirLock, err = lock(dir)
	if err != nil {
		return "", nil, err
	}
	// SQLite would create the file readable for everybody. Its log gets the same mode as the file.
	file = filepath.Join(dir, "postrider.db")
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, errors.Join(err, dirLock.release(!dirLock.unclean))
	}
	return file, dirLock, errors.Join(f.Close(), syncDirectory(dir), syncDirectory(filepath.Dir(dir)))
}

// syncDirectory makes the names of new files in dir survive a power cut. Syncing a file does not
// sync the directory that has its name.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, os.ErrPermission) {
		return nil // the process may have no access to the parent of the data directory
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// open opens the database of the locked directory. The order matters: it checks the settings
// before anything is written, looks for damage before the migrations change the tables, and
// recovers leases before any claim.
func (s *Store) open(ctx context.Context, file string, opts Options) (err error) {
	s.writes, err = sql.Open("sqlite", source(file, writing(opts)))
	if err != nil {
		return err
	}
	s.writes.SetMaxOpenConns(1) // SQLite has one writer; a second connection would only wait for it
	s.writes.SetConnMaxIdleTime(0)
	if err := inspect(ctx, s.writes); err != nil {
		return err
	}
	if s.lock.unclean { // the process before this one died; a power cut may have damaged the file
		opts.Log.WarnContext(ctx, "the store was not closed, checking it", "file", file)
		if err := check(ctx, s.writes); err != nil {
			return err
		}
	}
	if err := migrate(ctx, s.writes, opts.Log); err != nil {
		return err
	}
	if err := recoverLeases(ctx, s.writes, s.clock, opts.OnLost); err != nil {
		return err
	}
	if s.reads, err = openReads(file, engineReaders); err != nil {
		return err
	}
	if s.people, err = openReads(file, opts.Readers); err != nil {
		return err
	}
	conn, err := s.writes.Conn(ctx)
	if err != nil {
		return err
	}
	s.writer = newWriter(conn, s.clock, opts.OnFatal)
	ctx, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	s.writer.start(context.WithoutCancel(ctx))
	s.checkpoints.Go(func() { s.runCheckpoints(ctx) })
	return nil
}

// end finishes the calls under way and frees the directory. If the file can no longer be trusted,
// the mark of an unclean stop stays, so that the next start checks the file.
func (s *Store) end() error {
	s.stop()
	s.checkpoints.Wait()
	err := s.writer.stop()
	clean := s.writer.fatal() == nil
	err = errors.Join(err, s.people.end(), s.reads.end(), s.writes.Close())
	return errors.Join(err, s.lock.release(clean && err == nil))
}

// abandon closes what a failed Open has opened. A mark of an unclean stop stays.
func (s *Store) abandon() error {
	var err error
	for _, reads := range []*readPool{s.people, s.reads} {
		if reads != nil {
			err = errors.Join(err, reads.end())
		}
	}
	if s.writes != nil {
		err = errors.Join(err, s.writes.Close())
	}
	return errors.Join(err, s.lock.release(!s.lock.unclean))
}

// pageSize is the size of a page of the file, in bytes. It is the default of SQLite.
const pageSize = 4096

// writing returns the settings of the connection that writes.
//
//   - busy_timeout is short: with one writer only a backup can have the lock, and the wait cannot
//     be interrupted. The writer tries again (lockTries).
//   - auto_vacuum incremental lets Shrink give free pages back. It works only on a file without
//     tables, and must come before journal_mode, which writes the first page.
//   - journal_mode wal and synchronous full: readers do not wait for the writer, and every commit
//     is synced.
//   - wal_autocheckpoint: if runCheckpoints cannot keep up, a commit writes the log back from
//     16,000 pages on. That is 64 MiB, the size to which journal_size_limit cuts the log's file.
//   - cache_size: ids grow with time, so 32 MiB hold the pages that are written to. With 64 MiB,
//     and 16 MiB instead of 4 MiB for each reader, nothing was faster and the process was 64 MiB
//     larger (100,000 deliveries in batches of 100, 2026-11).
func writing(opts Options) url.Values {
	pragmas := []string{
		"busy_timeout(200)",
		"auto_vacuum(incremental)",
		"journal_mode(wal)",
		"synchronous(full)",
		"foreign_keys(1)",
		"secure_delete(1)",
		"cell_size_check(1)",
		"journal_size_limit(67108864)",
		"wal_autocheckpoint(16000)",
		"temp_store(memory)",
		"cache_size(-32768)",
	}
	if opts.MaxBytes > 0 {
		pragmas = append(pragmas, "max_page_count("+strconv.FormatInt(max(1, opts.MaxBytes/pageSize), 10)+")")
	}
	return url.Values{"_txlock": {"immediate"}, "_pragma": pragmas}
}

// reading are the settings of the connections that only read. query_only refuses writes.
var reading = url.Values{"_pragma": {
	"busy_timeout(200)", "query_only(1)", "cell_size_check(1)", "temp_store(memory)", "cache_size(-4096)",
}}

// source returns the name by which the driver opens the file. Without the scheme, the driver
// would take the settings for a part of the path.
func source(file string, settings url.Values) string {
	return (&url.URL{Scheme: "file", Path: file, RawQuery: settings.Encode()}).String()
}
