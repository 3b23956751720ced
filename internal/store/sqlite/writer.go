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

// maxGroup bounds how many units share a transaction, and so how long the
// first of them waits for the others.
const maxGroup = 256

// writer runs units of work one after the other on the one connection that
// writes. The units at hand form a group with one commit; those that arrive
// meanwhile form the next one. An idle writer starts at once: there is no
// timer, and the longer a commit takes, the more share the next.
type writer struct {
	tx      *tx
	onFatal func(error)
	waiting *batch.Queue[*unit]
	broken  atomic.Pointer[error]
	running sync.WaitGroup
}

// unit is one call's work. It may run twice, so it keeps nothing of the first
// time.
type unit struct {
	run   func(context.Context, *tx) error
	taken atomic.Bool // by the writer, or by a caller that does not wait any more
	done  chan error
}

func newWriter(conn *sql.Conn, clock *store.Clock, onFatal func(error)) *writer {
	return &writer{
		tx:      &tx{conn: conn, clock: clock, statements: map[statement]*sql.Stmt{}},
		onFatal: onFatal,
		waiting: batch.NewQueue[*unit](),
	}
}

// write runs a unit of work and returns its result once that is on disk. doing
// says in an error what was being done.
func write[T any](ctx context.Context, s *Store, doing string, run func(context.Context, *tx) (T, error)) (T, error) {
	var result, nothing T
	err := s.writer.do(ctx, func(ctx context.Context, tx *tx) (err error) {
		result, err = run(ctx, tx)
		return err
	})
	if err != nil {
		return nothing, fmt.Errorf("%s: %w", doing, explained(err))
	}
	return result, nil
}

// change is write for work that has no result.
func change(ctx context.Context, s *Store, doing string, run func(context.Context, *tx) error) error {
	_, err := write(ctx, s, doing, func(ctx context.Context, tx *tx) (struct{}, error) {
		return struct{}{}, run(ctx, tx)
	})
	return err
}

func (w *writer) start(ctx context.Context) { w.running.Go(func() { w.loop(ctx) }) }

// stop refuses new units, waits for those that wait already, and gives the
// connection back.
func (w *writer) stop() error {
	w.waiting.Close()
	w.running.Wait()
	return w.tx.close()
}

// fatal returns why nothing is written any more, or nil.
func (w *writer) fatal() error {
	if err := w.broken.Load(); err != nil {
		return *err
	}
	return nil
}

// do runs a unit and waits for its commit. A caller whose ctx ends before the
// writer took the unit gets its cause, and nothing happens; afterwards it
// waits, since it must know.
func (w *writer) do(ctx context.Context, run func(context.Context, *tx) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	u := &unit{run: run, done: make(chan error, 1)}
	if !w.waiting.Add(u) {
		return errClosed
	}
	select {
	case err := <-u.done:
		return err
	case <-ctx.Done():
	}
	if u.taken.CompareAndSwap(false, true) {
		return context.Cause(ctx)
	}
	return <-u.done
}

// loop commits groups of units, without those whose callers went away.
func (w *writer) loop(ctx context.Context) {
	withdrawn := func(u *unit) bool { return !u.taken.CompareAndSwap(false, true) }
	for open := true; open; {
		_, open = <-w.waiting.Ready()
		for units := w.waiting.Take(maxGroup); len(units) > 0; units = w.waiting.Take(maxGroup) {
			if group := slices.DeleteFunc(units, withdrawn); len(group) > 0 {
				w.commit(ctx, group)
			}
		}
	}
}

// commit runs the units of a group together, or else one by one: an error such
// as a full disk ends a whole transaction, but need not meet every unit of it.
func (w *writer) commit(ctx context.Context, group []*unit) {
	errs, err := w.together(ctx, group)
	if err == nil {
		answer(group, errs)
		return
	}
	for i, u := range group {
		if len(group) > 1 {
			errs, err = w.together(ctx, group[i:i+1])
		}
		if err != nil {
			errs = []error{err}
		}
		answer([]*unit{u}, errs)
	}
}

func answer(group []*unit, errs []error) {
	for i, u := range group {
		u.done <- errs[i]
	}
}

// together runs units in one transaction and returns what became of each. The
// error, if any, is everybody's, and nothing was stored.
func (w *writer) together(ctx context.Context, group []*unit) ([]error, error) {
	if err := w.fatal(); err != nil {
		return nil, err
	}
	errs, err := w.attempt(ctx, group)
	if err := w.distrust(err); err != nil {
		return nil, err
	}
	return errs, err
}

// distrust ends all writing if err says that the file cannot be trusted, and
// returns why; else nil.
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

func (w *writer) attempt(ctx context.Context, group []*unit) ([]error, error) {
	if err := w.tx.begin(ctx); err != nil {
		return nil, err
	}
	errs := make([]error, len(group))
	for i, u := range group {
		var err error
		if errs[i], err = w.one(ctx, u, len(group) == 1); err != nil {
			return nil, errors.Join(err, w.tx.rollback(ctx))
		}
	}
	if len(group) == 1 && errs[0] != nil {
		return errs, w.tx.rollback(ctx)
	}
	if err := w.tx.exec(ctx, "commit"); err != nil {
		return nil, errors.Join(fmt.Errorf("commit: %w", err), w.tx.rollback(ctx))
	}
	return errs, nil
}

// one runs one unit of a group under a savepoint. Its own error undoes what it
// did and nothing else; the second error ends the group.
func (w *writer) one(ctx context.Context, u *unit, alone bool) (own, group error) {
	w.tx.now, w.tx.wall = w.tx.clock.Now(), w.tx.clock.Wall()
	if alone {
		return split(u.run(ctx, w.tx))
	}
	if err := w.tx.exec(ctx, "savepoint unit"); err != nil {
		return nil, err
	}
	own, group = split(u.run(ctx, w.tx))
	if group != nil {
		return nil, group
	}
	if own != nil {
		// SQLite ends the whole transaction itself after some errors; then
		// there is no savepoint to go back to.
		if err := w.tx.exec(ctx, "rollback to unit"); err != nil {
			return nil, errors.Join(own, err)
		}
	}
	return own, w.tx.exec(ctx, "release unit")
}

// split says whose an error is: one that leaves the file in doubt is the whole
// group's, since none of it may be committed any more.
func split(err error) (own, group error) {
	if classOf(err) == classFatal {
		return nil, err
	}
	return err, nil
}
