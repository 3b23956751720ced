package sources

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/outbox"
)

const (
	// batchBytes is how much data is published at once. A larger event is a batch by itself.
	batchBytes = 4 << 20
	// publishTime limits a publish. After it, the same rows are published again.
	publishTime = 30 * time.Second
	// busyPause is the pause after a refusal that names none.
	busyPause = time.Second
	// quotaMost is how long an account is held at most before its quota is tried again. A person may raise it.
	quotaMost = time.Minute
	// lockedPause is how long an account is held whose key another transaction has locked.
	lockedPause = time.Second
	// strangePause is how long an account is held whose row was refused for a reason that is no fault of the row.
	strangePause = 30 * time.Second
)

// events are rows of a page and their events.
type events struct {
	rows   []outbox.Row
	events []postrider.Event
}

// keep removes what the function returns false for.
func (e *events) keep(which func(i int) bool) {
	kept := 0
	for i := range e.rows {
		if which(i) {
			e.rows[kept], e.events[kept] = e.rows[i], e.events[i]
			kept++
		}
	}
	e.rows, e.events = e.rows[:kept], e.events[:kept]
}

// publish publishes rows in their order. When it returns nil, each row is in p.moved, or its account is held.
func (p *page) publish(ctx context.Context, rows []outbox.Row) error {
	for rows = p.withoutHeld(rows); len(rows) > 0; rows = p.withoutHeld(rows) {
		next, n, err := p.next(ctx, rows)
		if err != nil {
			return err
		}
		if err := p.publishEvents(ctx, next); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// next converts rows from the front until they are enough to be published at once, and rejects those that are no events.
// It returns how many rows it has dealt with.
func (p *page) next(ctx context.Context, rows []outbox.Row) (next events, n int, err error) {
	size := 0
	for i := range rows {
		e, err := p.event(ctx, &rows[i])
		switch {
		case rows[i].Fault != nil || outbox.IsFault(err):
			p.reject(ctx, rows[i], err)
			continue
		case err != nil:
			return next, 0, fmt.Errorf("row %s: %w", rows[i].ID, err)
		}
		if size += e.Size(); size > batchBytes && len(next.rows) > 0 {
			return next, i, nil
		}
		next.rows, next.events = append(next.rows, rows[i]), append(next.events, e)
	}
	return next, len(rows), nil
}

// event returns the event of a row. If the clock of the producer is ahead, or far off, the event gets our time.
func (p *page) event(ctx context.Context, row *outbox.Row) (postrider.Event, error) {
	if row.Fault != nil {
		return postrider.Event{}, row.Fault
	}
	e, err := p.convert(ctx, &row.Create)
	e.Row = row.ID
	if row.OccurredAt.Unix() > 0 && row.OccurredAt.Before(p.at) {
		e.OccurredAt = row.OccurredAt
	}
	return e, err
}

// publishEvents publishes events in their order, all at once if it can. It rejects rows that can never be published,
// holds accounts that may not publish now, and publishes the rest again. A refusal of all events it waits for.
func (p *page) publishEvents(ctx context.Context, e events) error {
	for begun := time.Now(); len(e.rows) > 0; {
		err := p.call(ctx, e)
		taken, isTaken := errors.AsType[*postrider.KeyTakenError](err)
		locked, isLocked := errors.AsType[*postrider.LockedError](err)
		used, isUsed := errors.AsType[*postrider.QuotaError](err)
		switch {
		case err == nil:
			p.moved.Rows = append(p.moved.Rows, e.rows...)
			return nil
		case ctx.Err() != nil:
			return err
		case isTaken:
			p.reject(ctx, e.rows[taken.Index], err)
			e.keep(func(i int) bool { return i != taken.Index })
		case isLocked:
			p.holdAccount(&e, e.events[locked.Index].Account, 0, lockedPause)
		case isUsed:
			p.holdUsed(&e, used)
		case errors.Is(err, postrider.ErrBusy), errors.Is(err, context.DeadlineExceeded), errors.Is(err, errSlow):
			if err := p.wait(ctx, err, time.Since(begun)); err != nil {
				return err
			}
			e.events = slices.Clone(e.events) // a publish that took too long may still use the others
		case len(e.rows) > 1: // one of them cannot be stored
			half := len(e.rows) / 2
			if err := p.publishEvents(ctx, events{e.rows[:half:half], e.events[:half:half]}); err != nil {
				return err
			}
			e.rows, e.events = p.rest(e, half)
		case outbox.IsFault(err):
			p.reject(ctx, e.rows[0], err)
			return nil
		default:
			p.strange = true
			p.failed(ctx, fmt.Errorf("publish row %s: %w", e.rows[0].ID, err))
			p.holdAccount(&e, e.events[0].Account, 0, strangePause)
		}
	}
	return nil
}

// rest returns the events from number half on, without those whose accounts were held meanwhile.
func (p *page) rest(e events, half int) ([]outbox.Row, []postrider.Event) {
	rest := events{e.rows[half:], e.events[half:]}
	rest.keep(func(i int) bool {
		h, held := p.holds[rest.rows[i].Create.Account]
		if held {
			p.hold(rest.rows[i], h.until)
		}
		return !held
	})
	return rest.rows, rest.events
}

// call publishes events, and counts those that were published before.
func (p *page) call(ctx context.Context, e events) error {
	ctx, cancel := context.WithTimeoutCause(ctx, publishTime, errSlow)
	defer cancel()
	receipts, err := p.deps.Publisher.Publish(ctx, e.events)
	for _, receipt := range receipts {
		if receipt.Duplicate {
			p.duplicates++
		}
	}
	return err
}

// holdUsed holds an account whose quota is used up. A quota of bytes may have room for a part of the events, so half
// of them are tried next.
func (p *page) holdUsed(e *events, used *postrider.QuotaError) {
	n := 0
	for i := range e.events {
		if e.events[i].Account == used.Account {
			n++
		}
	}
	if used.Quota == postrider.QuotaBytes && n > 1 {
		p.holdAccount(e, used.Account, n/2, 0)
		return
	}
	p.holdAccount(e, used.Account, 0, min(max(used.RetryAfter, pollLeast), quotaMost))
}

// holdAccount holds an account but for its first rows.
func (p *page) holdAccount(e *events, account postrider.AccountID, first int, wait time.Duration) {
	until := time.Now().Add(wait)
	e.keep(func(i int) bool {
		if e.events[i].Account != account {
			return true
		}
		if first--; first >= 0 {
			return true
		}
		p.hold(e.rows[i], until)
		return false
	})
}

// wait waits before events are published again that were refused because the server can take none now. It returns an
// error if this node must not read the source any more.
func (p *page) wait(ctx context.Context, refused error, waited time.Duration) error {
	pause := busyPause
	if overload, ok := errors.AsType[*postrider.OverloadError](refused); ok {
		pause = overload.RetryAfter
	} else if full, ok := errors.AsType[*postrider.FullError](refused); ok {
		pause = full.RetryAfter
	}
	if waited > noteEvery {
		p.failed(ctx, refused)
	}
	if !p.mine(p.source.ID) {
		return errNotMine
	}
	if !batch.Sleep(ctx, min(cmp.Or(pause, busyPause), noteEvery)) {
		return ctx.Err()
	}
	return nil
}

// reject adds a row to those that are rejected.
func (p *page) reject(ctx context.Context, row outbox.Row, err error) {
	r := outbox.Refuse(row, err)
	p.moved.Rejected = append(p.moved.Rejected, r)
	p.log.InfoContext(ctx, "row rejected", "row", row.ID.String(), "account", row.Create.Account, "code", r.Code, "field", r.Field)
}
