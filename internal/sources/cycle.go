package sources

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/outbox"
	"github.com/postrider/postrider/internal/store"
)

// pageRows is how many rows are polled at once. They are one commit of ingest, for which the publishes of others wait. With
// fewer rows, the cost of a cycle slows the drain of a backlog.
const pageRows = 200

// page is what a cycle reads.
type page struct {
	*session

	at         time.Time    // of the store, when the cycle began
	moved      outbox.Moved // the rows that are published or rejected
	duplicates int          // of them, those that were published before
}

// runCycle polls a page, publishes it, and begins to finish the cycle. The next cycle may poll and publish meanwhile. It
// reports whether there may be more rows. Beside the page it reads rows of one account whose hold has ended. So an account
// with many rows delays the others by no more than a page.
//
// All rows that a cycle moves get the time at which it began, which is not later than the records of the rows in the
// store. See margin for what depends on it.
func (s *session) runCycle(ctx context.Context) (more bool, err error) {
	begun, at := time.Now(), s.deps.Store.Clock().Wall()
	p := page{session: s, at: at, moved: outbox.Moved{Source: s.source.ID, At: at}}
	if s.db.Own() { // it has no windows
		if err := s.finished(); err != nil {
			return false, err
		}
		s.window.Held = slices.Collect(maps.Keys(s.holds))
	}
	rows, more, err := s.poll(ctx)
	if err != nil {
		return false, err
	}
	due, err := p.publishDue(ctx)
	if err == nil {
		err = p.publish(ctx, rows)
	}
	if err == nil {
		err = s.finished()
	}
	if err != nil {
		return false, err
	}
	if len(p.moved.Rows)+len(p.moved.Rejected) > 0 {
		s.finish(ctx, p.moved)
		s.tally(ctx, &p, time.Since(begun))
	}
	// Once a page was the last one and no account was held, nothing is left that an earlier session has published. The
	// rows of this page are moved when the next cycle is finished.
	s.clean = s.clean || !more && len(s.holds) == 0
	return more || due || len(rows) > 0, nil
}

// poll returns the next page without the rows of accounts that are held.
func (s *session) poll(ctx context.Context) (rows []outbox.Row, more bool, err error) {
	limit := callTime
	if s.window.All() {
		limit = walkTime
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	rows, more, err = s.db.Poll(ctx, &s.window, pageRows)
	return s.withoutHeld(rows), more, err
}

// finish records a cycle in the store and then moves its rows, beside the next cycle. Only one cycle is finished at a
// time: when the store has a cycle, the rows of all cycles before it are moved.
func (s *session) finish(ctx context.Context, m outbox.Moved) {
	s.cycle++
	if len(s.holds) == 0 {
		s.reached = s.window
	}
	m.Cycle, m.Reached = s.cycle, s.reached
	a := store.AdvanceSource{ID: s.source.ID, Cycle: s.cycle - 1, Next: s.cycle, MovedUntil: s.movedUntil(m.At)}
	for i := range m.Rows {
		a.Rows = append(a.Rows, m.Rows[i].ID)
	}
	done := make(chan error, 1)
	s.finishing = done
	s.working.Go(func() {
		ctx, cancel := context.WithTimeoutCause(ctx, callTime, errSlow)
		defer cancel()
		err := s.deps.Store.AdvanceSource(ctx, a)
		if err == nil {
			if err = s.db.Move(ctx, m); errors.Is(err, postrider.ErrFenced) {
				err = errHidden
			}
		}
		done <- err
	})
}

// finished waits until the last cycle is finished.
func (s *session) finished() error {
	if s.finishing == nil {
		return nil
	}
	err := <-s.finishing
	s.finishing = nil
	return err
}

// movedUntil returns the time up to which all rows that were published are moved, for a cycle that began at a time.
func (s *session) movedUntil(at time.Time) time.Time {
	if s.clean {
		s.moved, s.advanced = at.Add(-margin), time.Now()
	}
	return s.moved
}

// tally counts the rows of a cycle.
func (s *session) tally(ctx context.Context, p *page, took time.Duration) {
	n := observe.SourceRead{
		Source: s.source.Name, Rows: len(p.moved.Rows), Rejected: len(p.moved.Rejected), Duplicates: p.duplicates, Took: took,
	}
	s.cycles++
	s.count.Rows, s.count.Rejected, s.count.Duplicates = s.count.Rows+n.Rows, s.count.Rejected+n.Rejected, s.count.Duplicates+n.Duplicates
	s.log.DebugContext(ctx, "cycle of the source", "cycle", s.cycle, "rows", n.Rows, "rejected", n.Rejected, "duplicates", n.Duplicates,
		"accounts_held", len(s.holds), "took", took)
	s.opts.Hooks.SourceRead.Call(n)
}

// hold says that the rows of an account wait, from a number on, until a time of this machine.
type hold struct {
	from  int64
	until time.Time
}

// withoutHeld removes the rows of accounts that are held, and notes that they wait.
func (s *session) withoutHeld(rows []outbox.Row) []outbox.Row {
	kept := rows[:0]
	for _, row := range rows {
		if h, held := s.holds[row.Create.Account]; held {
			s.hold(row, h.until)
		} else {
			kept = append(kept, row)
		}
	}
	return kept
}

// hold makes a row, and the later ones of its account, wait.
func (s *session) hold(row outbox.Row, until time.Time) {
	h, held := s.holds[row.Create.Account]
	if !held || row.Number < h.from {
		h.from = row.Number
	}
	s.holds[row.Create.Account] = hold{h.from, until}
}

// nextHold returns the account whose hold ends first, and how long that takes. Without one it takes pollMost.
func (s *session) nextHold() (account string, wait time.Duration) {
	var first time.Time
	for name, h := range s.holds {
		if first.IsZero() || h.until.Before(first) {
			account, first = name, h.until
		}
	}
	if first.IsZero() {
		return "", pollMost
	}
	return account, time.Until(first)
}

// publishDue publishes rows of the account whose hold has ended first, and reports whether there were any, or may be. Only rows that
// Poll has returned are read, so that no row overtakes one of its key that committed late. Rows of the account that are
// left after the page wait for the next cycle.
func (p *page) publishDue(ctx context.Context) (bool, error) {
	account, wait := p.nextHold()
	if wait > 0 {
		return false, nil
	}
	if err := p.finished(); err != nil { // otherwise the rows of the last page would be read again
		return false, err
	}
	call, cancel := context.WithTimeoutCause(ctx, callTime, errSlow)
	defer cancel()
	rows, next, more, err := p.db.OfAccount(call, &p.window, account, p.holds[account].from, pageRows)
	if err != nil {
		return false, err
	}
	delete(p.holds, account)
	due := more || len(rows) > 0
	err = p.publish(ctx, rows)
	if _, held := p.holds[account]; more && !held {
		p.holds[account] = hold{next, time.Now()}
	}
	return due, err
}
