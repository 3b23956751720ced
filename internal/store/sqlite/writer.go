package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
)

// maxGroup is the greatest number of jobs that share a transaction. It limits how long the first
// job waits for the others.
const maxGroup = 256

// maxPassed is how many groups may go before a waiting bulk job. If publishes come all the time,
// every ninth transaction is a bulk job.
const maxPassed = 8

// writer runs jobs one after the other on the one connection that writes.
//
// The problem is that a commit must sync the disk, which takes milliseconds, and SQLite allows
// one transaction at a time. If every call had its own commit, a disk with 5 ms would allow 200
// calls a second.
//
// So calls share commits. The waiting jobs form a group with one transaction; the jobs that
// arrive while it commits form the next group. An idle writer starts at once. There is no timer:
// the longer a commit takes, the more jobs share the next one.
//
// A bulk job writes many rows and is not urgent: a chunk of a replay or of a fan-out, or a piece
// of retention. It has a transaction of its own, and other jobs go before it. So a publish waits
// for a bulk job that runs, but not for those that wait.
//
// Each job of a group runs under a savepoint. If a job fails, for example by a conflict, only its
// changes are undone, and the others are committed. No caller gets a success before the commit,
// so everything that a caller was told is on disk.
//
// The writer also gives all jobs one order: a job sees all jobs that ran before it and none after
// it. So the rules of the store need no other lock.
//
// A panic in a job is not recovered and ends the process. Its transaction is never committed. The
// next process finds the file as of the last commit, checks it, and makes the leased deliveries
// due (recoverLeases).
type writer struct {
	tx        *tx                   // used only by loop until stop has waited for loop
	onFatal   func(error)           // called once, when broken is set
	waiting   *batch.Queue[*job]    // filled by do, emptied by loop
	committed batch.Signal          // set after each commit, for runCheckpoints
	bulk      []*job                // waiting bulk jobs, in their order; used only by loop
	passed    int                   // number of groups that went before the first of bulk; used only by loop
	broken    atomic.Pointer[error] // why nothing is written any more, or nil; set by distrust
	running   sync.WaitGroup        // waits for loop
}

// job is the work of one call. It may run twice (see commit), so a run must not use values that
// an earlier run left in memory.
type job struct {
	run     func(context.Context, *tx) error
	bulk    bool        // it has a group of its own, when no other job waits or maxPassed groups went before it
	decided atomic.Bool // set once: by the writer when it starts the job, or by the caller when it withdraws the job
	done    chan error  // gets the result, after the commit
}

// newWriter returns a writer for the connection, and takes the connection over.
func newWriter(conn *sql.Conn, clock *store.Clock, onFatal func(error)) *writer {
	return &writer{
		tx:        &tx{conn: conn, clock: clock, statements: map[statement]*sql.Stmt{}},
		onFatal:   onFatal,
		waiting:   batch.NewQueue[*job](),
		committed: batch.NewSignal(),
	}
}

// write runs a job and returns its result once it is on disk. If the job runs twice, write
// returns the result of the last run.
func write[T any](ctx context.Context, s *Store, run func(context.Context, *tx) (T, error)) (T, error) {
	var result, nothing T
	err := s.writer.do(ctx, &job{run: func(ctx context.Context, tx *tx) (err error) {
		result, err = run(ctx, tx)
		return err
	}})
	if err != nil {
		return nothing, explained(err)
	}
	return result, nil
}

// change is like write, for a job without a result.
func change(ctx context.Context, s *Store, run func(context.Context, *tx) error) error {
	_, err := write(ctx, s, func(ctx context.Context, tx *tx) (struct{}, error) {
		return struct{}{}, run(ctx, tx)
	})
	return err
}

// writeInBulk is like write, for a bulk job. The result is the number of rows that the job
// returns.
func writeInBulk(ctx context.Context, s *Store, run func(context.Context, *tx) (int, error)) (n int, err error) {
	err = s.writer.do(ctx, &job{bulk: true, run: func(ctx context.Context, tx *tx) (err error) {
		n, err = run(ctx, tx)
		return err
	}})
	if err != nil {
		return 0, explained(err)
	}
	return n, nil
}

// changeInBulk is like writeInBulk, for a job without a result.
func changeInBulk(ctx context.Context, s *Store, run func(context.Context, *tx) error) error {
	_, err := writeInBulk(ctx, s, func(ctx context.Context, tx *tx) (int, error) { return 0, run(ctx, tx) })
	return err
}

func (w *writer) start(ctx context.Context) { w.running.Go(func() { w.loop(ctx) }) }

// stop refuses new jobs, waits for those that were added before, and closes the connection.
func (w *writer) stop() error {
	w.waiting.Close()
	w.running.Wait()
	return w.tx.close()
}

// fatal returns the reason why nothing is written any more, or nil.
func (w *writer) fatal() error {
	if err := w.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// do runs a job and waits for its commit.
//
// If ctx ends while the job waits for its group, the caller withdraws the job and gets the cause,
// and nothing is changed. If the writer has started the job, the caller waits for the result even
// though ctx has ended. Otherwise it could not know whether the change was made. The
// compare-and-swap of decided makes sure that exactly one of the two happens.
func (w *writer) do(ctx context.Context, j *job) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	j.done = make(chan error, 1)
	if !w.waiting.Add(j) {
		return errClosed
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
	}
	if j.decided.CompareAndSwap(false, true) {
		return context.Cause(ctx) // loop drops the job
	}
	return <-j.done // the job has started, so there will be a result
}

// loop commits groups of jobs until the queue is closed and empty. It drops the jobs that their
// callers have withdrawn.
func (w *writer) loop(ctx context.Context) {
	withdrawn := func(j *job) bool { return !j.decided.CompareAndSwap(false, true) }
	for open := true; open; {
		_, open = <-w.waiting.Ready()
		for jobs := w.next(); len(jobs) > 0; jobs = w.next() {
			if group := slices.DeleteFunc(jobs, withdrawn); len(group) > 0 {
				w.commit(ctx, group)
			}
		}
	}
}

// next returns the jobs of the next transaction: the waiting jobs, or one bulk job. The result is
// empty if nothing waits.
func (w *writer) next() []*job {
	if len(w.bulk) == 0 || w.passed < maxPassed {
		var group []*job
		for _, j := range w.waiting.Take(maxGroup) {
			if j.bulk {
				w.bulk = append(w.bulk, j)
			} else {
				group = append(group, j)
			}
		}
		if len(group) > 0 {
			w.passed += min(len(w.bulk), 1)
			return group
		}
	}
	w.passed = 0
	first := w.bulk[:min(len(w.bulk), 1)]
	w.bulk = w.bulk[len(first):]
	return first
}

// commit runs a group and finishes its jobs.
//
// An error of the transaction itself, such as a full disk, undoes the whole group. But it may not
// concern every job: one job may write a megabyte, another one delete a row. So the jobs then run
// again, each in a transaction of its own, and each gets its own result.
func (w *writer) commit(ctx context.Context, group []*job) {
	errs, err := w.commitTogether(ctx, group)
	if err == nil {
		finish(group, errs)
		return
	}
	for i, j := range group {
		if len(group) > 1 { // the result of a single job is known already
			errs, err = w.commitTogether(ctx, group[i:i+1])
		}
		if err != nil {
			errs = []error{err}
		}
		finish([]*job{j}, errs)
	}
}

// finish gives the callers of the jobs their results. The channel done is buffered, so finish
// never blocks.
func finish(group []*job, errs []error) {
	for i, j := range group {
		j.done <- errs[i]
	}
}

// commitTogether runs the jobs in one transaction and returns the result of each. If it returns
// an error of its own, nothing of the group was stored.
func (w *writer) commitTogether(ctx context.Context, group []*job) ([]error, error) {
	if err := w.fatal(); err != nil {
		return nil, err
	}
	errs, err := w.runGroup(ctx, group)
	if err := w.distrust(err); err != nil {
		return nil, err
	}
	return errs, err
}

// distrust ends all writing if err says that the file can no longer be trusted, and returns the
// reason; otherwise it returns nil. Lists call it too, because damage that a reader finds is in
// the same file.
//
// Example: fsync fails once. The kernel may have dropped the pages and report success the next
// time, so this process cannot know what is on the disk. It must not acknowledge anything any
// more. A new process reads the file and continues from its content.
func (w *writer) distrust(err error) error {
	if classOf(err) != classFatal {
		return nil
	}
	cause := fmt.Errorf("the database file can no longer be trusted, restart to see what it holds: %w", err)
	if w.broken.CompareAndSwap(nil, &cause) {
		w.onFatal(cause)
	}
	return w.fatal()
}

// runGroup runs the jobs in one transaction. A single job needs no savepoint, because its error
// rolls the transaction back. If a group's commit fails, SQLite may or may not have ended the
// transaction, so runGroup rolls it back in any case.
func (w *writer) runGroup(ctx context.Context, group []*job) ([]error, error) {
	if err := w.tx.begin(ctx); err != nil {
		return nil, err
	}
	errs := make([]error, len(group))
	for i, j := range group {
		var err error
		if errs[i], err = w.runJob(ctx, j, len(group) == 1); err != nil {
			return nil, errors.Join(err, w.tx.rollback(ctx))
		}
	}
	if len(group) == 1 && errs[0] != nil { // a single job has no savepoint
		return errs, w.tx.rollback(ctx)
	}
	if err := w.tx.exec(ctx, "commit"); err != nil {
		return nil, errors.Join(fmt.Errorf("commit: %w", err), w.tx.rollback(ctx))
	}
	w.committed.Set()
	return errs, nil
}

// runJob runs one job under a savepoint. The first result is the error of the job, which undoes
// only the job's changes. The second result is an error that ends the group.
//
// It reads the two times of the transaction after the wait for the group, so a job that makes a
// delivery due uses the time at which the job runs.
func (w *writer) runJob(ctx context.Context, j *job, alone bool) (own, group error) {
	w.tx.now, w.tx.wall = w.tx.clock.Now(), w.tx.clock.Wall()
	if alone {
		return split(w.runCounted(ctx, j))
	}
	if err := w.tx.exec(ctx, "savepoint job"); err != nil {
		return nil, err
	}
	own, group = split(w.runCounted(ctx, j))
	if group != nil {
		return nil, group
	}
	if own != nil {
		// After some errors SQLite ends the whole transaction itself; then there is no savepoint to go
		// back to.
		if err := w.tx.exec(ctx, "rollback to job"); err != nil {
			return nil, errors.Join(own, err)
		}
	}
	return own, w.tx.exec(ctx, "release job")
}

// runCounted runs a job, and stores the counts of the job's records as a delta of the rollups.
func (w *writer) runCounted(ctx context.Context, j *job) error {
	w.tx.recorded = store.Deltas{}
	if err := j.run(ctx, w.tx); err != nil {
		return err
	}
	return w.tx.insertDelta(ctx)
}

// split decides whether an error belongs to the job or to the whole group. An error that leaves
// the file in doubt belongs to the group, because nothing of the group may be committed any more.
// Every other error belongs to the job.
func split(err error) (own, group error) {
	if classOf(err) == classFatal {
		return nil, err
	}
	return err, nil
}
