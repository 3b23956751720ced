// Package sqlite stores events and deliveries in one SQLite file, for a server that is
// alone.
//
// [Open] locks a data directory for this process, brings its database up to date and
// returns a [Store]. The files are named after the roles of package store, as those of
// package postgres are. Each statement stands above the one method that runs it, with the
// index that it walks.
//
// Whatever happens, this holds:
//
//   - A method that returned without an error is on disk: the log is written ahead and
//     synced at every commit (journal_mode=wal, synchronous=full).
//   - One goroutine, the writer, makes all changes. It runs the calls that wait in one
//     transaction, each under a savepoint, so that they share one sync and a call that
//     fails undoes itself alone.
//   - A decision is made from what is read inside the transaction that carries it out.
//     Lists are read beside the writer, on connections that cannot write. Requests that
//     only read have connections of their own.
//   - A directory belongs to one process. If a process dies, the next one that opens the
//     directory makes its leases due at once, and records their attempts as lost.
//   - After an error that leaves it open what is on disk, nothing is written any more,
//     and Options.OnFatal is called.
//
// A pending delivery is one row of queue. Token and due_at say in which state it is:
//
//   - It waits: no token; due_at is when it is due. Publish, a retry and Release put it
//     there.
//   - It is leased: a token; due_at is the end of the lease. Claim puts it there, or
//     Publish by admission. Settle ends the lease; after due_at, Claim takes it over;
//     the next start ends it, because the process that had it is dead.
//   - It is blocked: no token; due_at is never (order.go). It has an ordering key and is
//     not its head, or the key is paused. The end of the head, or of the pause, makes it
//     due.
//   - It is parked: no token; due_at is never, parked is 1. Starts put it there after
//     several processes died with it. MakeDue makes it due.
//
// Settle deletes a leased row whose delivery has ended. Cancel can delete a row in every
// state; Expire and CancelDeleted too, except a row under a valid lease.
//
// The package needs a local disk. It does not delete history.
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
	writes *sql.DB   // one connection, which the writer has
	writer *writer   // all changes
	reads  *readPool // of the engine
	people *readPool // of requests that only read
	clock  *store.Clock
	calls  store.Calls // Options.Calls
	log    *slog.Logger

	texts    texts // of package sqlstore
	archived archivedRows
	heads    store.Heads // of accepted responses

	checkpoints sync.WaitGroup // of runCheckpoints
	stop        func()         // ends it; set by open
	close       func() error   // end, once
}

var _ store.Store = (*Store)(nil)

// Options tunes a [Store]. The zero value is the production default.
type Options struct {
	Now      func() time.Time // the machine's clock; default time.Now
	Readers  int              // connections that requests of readers share; default: one for each processor, at least 2
	MaxBytes int64            // the database grows no further; default: as far as the disk
	Calls    store.Calls      // hears of each call of a verb; default: nobody does
	Log      *slog.Logger     // default: discard

	// OnFatal is called once when the file can no longer be trusted, with the reason. The
	// store then writes nothing any more, and only a restart tells what the file holds.
	// OnFatal must not call the store. Default: it is logged.
	OnFatal func(error)

	// OnLost is called by Open, after each commit, with how many attempts of a process
	// that died it recorded as lost. Default: nothing is called.
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

// Open opens the store in the directory dir, which it creates if it does not exist. It
// refuses a directory that another process uses or that is on a network file system, and a
// database that is damaged or newer than this program. After a process that died it checks
// the whole file, about a second for each gigabyte, and makes the leases of that process
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

// Close ends the store. Calls under way finish first.
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

// now decides what is due.
func (s *Store) now() time.Time { return s.clock.Now() }

// wall is what people see.
func (s *Store) wall() time.Time { return s.clock.Wall() }

// MakePartitions does nothing: SQLite has no partitions.
func (s *Store) MakePartitions(context.Context) error { return nil }

// claimDirectory makes dir the data directory of this process, and returns the path of its
// database. The lock comes before the database is touched.
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
	// SQLite would make the file readable for all; its log takes its mode.
	file = filepath.Join(dir, "postrider.db")
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", nil, errors.Join(err, dirLock.release(!dirLock.unclean))
	}
	return file, dirLock, errors.Join(f.Close(), syncDirectory(dir), syncDirectory(filepath.Dir(dir)))
}

// syncDirectory makes the names of new files in dir outlast a power cut: syncing a file
// does not sync the directory that names it.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, os.ErrPermission) {
		return nil // the parent of the data directory may be closed to us
	}
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// open opens the database of the locked directory. The order matters: settings are checked
// before anything is written, damage is looked for before the migrations build on it, and
// leases are recovered before a claim can be made.
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

// end finishes the calls under way and gives the directory back. The mark of an unclean
// stop stays if the file can no longer be trusted, so that the next start checks it.
func (s *Store) end() error {
	s.stop()
	s.checkpoints.Wait()
	err := s.writer.stop()
	clean := s.writer.fatal() == nil
	err = errors.Join(err, s.people.end(), s.reads.end(), s.writes.Close())
	return errors.Join(err, s.lock.release(clean && err == nil))
}

// abandon gives back what an Open that fails has opened. The mark of an unclean stop stays
// if it was there.
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

// pageSize is the size of a page of the file, in bytes: the default of SQLite.
const pageSize = 4096

// writing returns the settings of the connection that writes.
//
//   - busy_timeout is short: with one writer only a backup can have the lock, and the
//     wait cannot be interrupted. The writer asks again (lockTries).
//   - auto_vacuum incremental: Shrink can give free pages back. It has an effect on a file
//     without tables alone, and must precede journal_mode, which writes the first page.
//   - journal_mode wal and synchronous full: readers do not wait for the writer, and
//     every commit is synced.
//   - wal_autocheckpoint: if runCheckpoints cannot keep up, a commit writes the log back from
//     16,000 pages on, 64 MiB, which is where journal_size_limit cuts its file.
//   - cache_size: ids grow with time, so 32 MiB hold the pages that are written to. With
//     64 MiB nothing was faster (100,000 deliveries in batches of 100, 2026-11), and the
//     process 64 MiB larger, with the readers at 16 instead of 4 MiB each.
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

// reading are the settings of the connections that only read; query_only makes sure of
// that.
var reading = url.Values{"_pragma": {
	"busy_timeout(200)", "query_only(1)", "cell_size_check(1)", "temp_store(memory)", "cache_size(-4096)",
}}

// source returns the name under which the driver opens the file. Without the
// scheme it would take the settings for a part of the path.
func source(file string, settings url.Values) string {
	return (&url.URL{Scheme: "file", Path: file, RawQuery: settings.Encode()}).String()
}
