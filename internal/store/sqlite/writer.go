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

// maxGroup bounds how many jobs share a transaction, and so for how long the first of them
// waits for the others.
const maxGroup = 256

// maxPassed is how many groups may go before a bulk job that waits. While publishes come all
// the time, every ninth transaction is a bulk job.
const maxPassed = 8

// writer runs jobs one after the other on the one connection that writes.
//
// The problem: a commit must sync the disk, which takes milliseconds, and SQLite allows
// one transaction at a time. If every call had its own commit, a disk with 5 ms would
// allow 200 calls a second.
//
// So calls share commits. The jobs that wait form a group with one transaction; those that
// arrive while it commits form the next group. An idle writer starts at once: there is no
// timer, and the longer a commit takes, the more jobs share the next one.
//
// A bulk job writes many rows and is in no hurry: a chunk of a replay or of a fan-out, or of
// what retention deletes. It has a transaction of its own, and other jobs go before it: a
// publish waits for one that runs, and for none that waits.
//
// Each job of a group runs under a savepoint. A job that fails, by a conflict for example,
// is undone alone; the others are committed. No caller hears of success before the commit,
// so what a caller was told is on disk.
//
// The writer is also the order of everything: a job sees all jobs that ran before it and none
// after it. The rules of the store need no other lock.
//
// A panic in a job is not recovered and ends the process. Its transaction is never
// committed; the next process finds the file as of the last commit, checks it, and makes
// due what was leased (recoverLeases).
type writer struct {
	tx        *tx                   // belongs to loop until stop has waited for it
	onFatal   func(error)           // called once, when broken is set
	waiting   *batch.Queue[*job]    // added by do, taken by loop
	committed batch.Signal          // set after each commit, for runCheckpoints
	bulk      []*job                // bulk jobs that were taken, in their order; belongs to loop
	passed    int                   // groups that went before the first of bulk; belongs to loop
	broken    atomic.Pointer[error] // why nothing is written any more; set by distrust, nil: it is
	running   sync.WaitGroup        // of loop
}

// job is one call's work. It may run twice (see commit), so a run must not rely on what an
// earlier run has left in memory.
type job struct {
	run     func(context.Context, *tx) error
	bulk    bool        // it runs alone, when no other job waits or maxPassed groups went before it
	decided atomic.Bool // set once: by the writer when it starts the job, or by the caller when it withdraws it
	done    chan error  // gets the result, after the commit
}

// newWriter returns a writer for the connection, which belongs to it from then on.
func newWriter(conn *sql.Conn, clock *store.Clock, onFatal func(error)) *writer {
	return &writer{
		tx:        &tx{conn: conn, clock: clock, statements: map[statement]*sql.Stmt{}},
		onFatal:   onFatal,
		waiting:   batch.NewQueue[*job](),
		committed: batch.NewSignal(),
	}
}

// write runs a job and returns its result once it is on disk. The result is kept outside of
// the job, so that the last run's counts.
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

// change is write for a job without a result.
func change(ctx context.Context, s *Store, run func(context.Context, *tx) error) error {
	_, err := write(ctx, s, func(ctx context.Context, tx *tx) (struct{}, error) {
		return struct{}{}, run(ctx, tx)
	})
	return err
}

// writeInBulk is write for a job that writes many rows at a time and is in no hurry, and that
// returns how many. Publishes go before it.
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

// changeInBulk is writeInBulk for a job without a result.
func changeInBulk(ctx context.Context, s *Store, run func(context.Context, *tx) error) error {
	_, err := writeInBulk(ctx, s, func(ctx context.Context, tx *tx) (int, error) { return 0, run(ctx, tx) })
	return err
}

func (w *writer) start(ctx context.Context) { w.running.Go(func() { w.loop(ctx) }) }

// stop refuses new jobs, waits for those that were added before, and gives the connection
// back.
func (w *writer) stop() error {
	w.waiting.Close()
	w.running.Wait()
	return w.tx.close()
}

// fatal returns why nothing is written any more; nil: writing goes on.
func (w *writer) fatal() error {
	if err := w.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// do runs a job and waits for its commit.
//
// If ctx ends while the job still waits for its group, the caller withdraws it and gets
// the cause; nothing happens then. If the writer has started it, the caller waits for the
// result even though ctx has ended: otherwise it could not know whether the change was
// made. The compare-and-swap of decided makes sure that exactly one of the two happens.
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
	return <-j.done // it has started, so the result comes
}

// loop commits groups of jobs until the queue is closed and empty. Jobs that their callers
// have withdrawn are left out.
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

// next returns the jobs of the next transaction: those that wait, or one bulk job; none:
// nothing waits.
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
// An error of the transaction itself, such as a full disk, undoes the whole group. But it
// need not meet every job: one job may write a megabyte, another one delete a row. So the
// jobs then run again, each in a transaction of its own, and each gets its own result.
func (w *writer) commit(ctx context.Context, group []*job) {
	errs, err := w.commitTogether(ctx, group)
	if err == nil {
		finish(group, errs)
		return
	}
	for i, j := range group {
		if len(group) > 1 { // otherwise the result is known already
			errs, err = w.commitTogether(ctx, group[i:i+1])
		}
		if err != nil {
			errs = []error{err}
		}
		finish([]*job{j}, errs)
	}
}

// finish gives the callers of the jobs their results. done is buffered, so this never
// blocks.
func finish(group []*job, errs []error) {
	for i, j := range group {
		j.done <- errs[i]
	}
}

// commitTogether runs the jobs in one transaction and returns the result of each. If it
// returns an error of its own, nothing of the group was stored.
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

// distrust ends all writing if err says that the file cannot be trusted any more, and
// returns why; otherwise nil. Lists call it too: damage that a reader meets is the same
// damage.
//
// Example: fsync fails once. The kernel may have dropped the pages and report success the
// next time, so this process cannot know what the disk has. It must not acknowledge
// anything any more. A new process reads the file and goes on from that.
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

// runGroup makes one transaction of the jobs. A single job needs no savepoint: its own
// error rolls the transaction back. If a group's commit fails, SQLite may or may not have
// ended the transaction, so it is rolled back in any case.
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
	if len(group) == 1 && errs[0] != nil { // it had no savepoint
		return errs, w.tx.rollback(ctx)
	}
	if err := w.tx.exec(ctx, "commit"); err != nil {
		return nil, errors.Join(fmt.Errorf("commit: %w", err), w.tx.rollback(ctx))
	}
	w.committed.Set()
	return errs, nil
}

// runJob runs one job under a savepoint. Its own error undoes what it did and nothing
// else. The second error ends the group.
//
// The two times of the transaction are read here, after the wait for the group: all that a
// job makes due is due from the moment at which it runs.
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
		// SQLite ends the whole transaction itself after some errors; then
		// there is no savepoint to go back to.
		if err := w.tx.exec(ctx, "rollback to job"); err != nil {
			return nil, errors.Join(own, err)
		}
	}
	return own, w.tx.exec(ctx, "release job")
}

// runCounted runs a job, and stores the counts of its records as a delta of the rollups.
func (w *writer) runCounted(ctx context.Context, j *job) error {
	w.tx.recorded = store.Deltas{}
	if err := j.run(ctx, w.tx); err != nil {
		return err
	}
	return w.tx.insertDelta(ctx)
}

// split tells whose an error is. An error that leaves the file in doubt belongs to the
// whole group, since none of it may be committed any more; every other one to the job.
func split(err error) (own, group error) {
	if classOf(err) == classFatal {
		return nil, err
	}
	return err, nil
}
