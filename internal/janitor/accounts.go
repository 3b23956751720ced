package janitor

import (
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
)

// accountForgetter is the chore that deletes what accounts keep for a shorter time than the
// server. It works by row: a day of the store has the rows of all accounts. A round walks over
// the history of these accounts, by indexes, so there is one a day.
type accountForgetter struct {
	*Janitor

	done int // kinds of forgottenOf that this round is done with
}

// forgottenOf are what accounts may keep for a shorter time, in the order of its deletion: keys
// are found by their events, and attempts go after their heads and bodies.
var forgottenOf = []forgotten{
	{store.OldKeys, func(k Keep) time.Duration { return k.Keys }, func(r postrider.AccountRetention) int { return r.IdempotencyKeys }},
	{store.OldBodies, func(k Keep) time.Duration { return k.Bodies }, bodyDays},
	{store.OldAttempts, func(k Keep) time.Duration { return k.Attempts }, func(r postrider.AccountRetention) int { return r.Attempts }},
	{store.OldEvents, func(k Keep) time.Duration { return k.Events }, func(r postrider.AccountRetention) int { return r.Events }},
}

// forgotten is a kind of rows, how long the server keeps them, and for how many days an account;
// 0: as long as the server.
type forgotten struct {
	kind   store.Kind
	server func(Keep) time.Duration
	days   func(postrider.AccountRetention) int
}

// bodyDays returns for how many days an account keeps heads and bodies: not longer than attempts.
func bodyDays(r postrider.AccountRetention) int {
	if r.Bodies == 0 || r.Attempts > 0 && r.Attempts < r.Bodies {
		return r.Attempts
	}
	return r.Bodies
}

// forgetOfAccounts returns the chore.
func (j *Janitor) forgetOfAccounts() chore {
	name := "forget rows of accounts"
	if j.opts.Archive != nil {
		name = "archive rows of accounts"
	}
	return chore{name: name, do: (&accountForgetter{Janitor: j}).chunk, wait: daily}
}

// chunk deletes the old rows of the next kind. After an error, the kind begins anew: what is
// deleted by then is not found again.
func (f *accountForgetter) chunk(ctx context.Context) (chunk, error) {
	now, err := f.store.Now(ctx)
	if err != nil {
		return chunk{}, err
	}
	w := walk{Janitor: f.Janitor, forgotten: forgottenOf[f.done], now: now}
	if err := w.accounts(ctx); err != nil {
		return chunk{rows: w.deleted}, err
	}
	f.done = (f.done + 1) % len(forgottenOf)
	return chunk{rows: w.deleted, more: f.done > 0}, nil
}

// walk goes over the old rows of a kind, account by account, and deletes them: Options.Chunk rows
// a transaction, with a pause after each call of the store.
type walk struct {
	*Janitor
	forgotten

	now     time.Time
	found   []store.OldRow // not deleted yet
	deleted int
}

func (w *walk) accounts(ctx context.Context) error {
	for q := (store.AccountQuery{Retention: true, Paging: store.Paging{Limit: store.MaxLimit}}); ; {
		page, err := w.store.Accounts(ctx, q)
		if err != nil {
			return err
		}
		for _, a := range page.Items {
			if err := w.account(ctx, a); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return w.forget(ctx)
		}
	}
}

// account finds the old rows of an account, and deletes them. With an archive it gathers the rows
// of many calls and accounts, so that there are few parts.
func (w *walk) account(ctx context.Context, a postrider.Account) error {
	age, gather := time.Duration(w.days(a.Retention))*daily, 1
	if age == 0 || age >= w.server(w.opts.Keep) {
		return nil
	}
	if w.archives() {
		gather = 20 * w.opts.Chunk
	}
	q := store.OldRows{Kind: w.kind, Account: a.ID, Before: w.now.Add(-age), Limit: w.opts.Chunk}
	for {
		rows, last, err := w.store.OldRows(ctx, q)
		if err != nil {
			return err
		}
		if w.found = append(w.found, rows...); len(w.found) >= gather {
			err = w.forget(ctx)
		}
		if err == nil {
			err = w.rest(ctx, pause)
		}
		if q.After = last; err != nil || last == (store.RowID{}) {
			return err
		}
	}
}

// forget deletes the rows that were found. With an archive they are archived before.
func (w *walk) forget(ctx context.Context) error {
	slices.SortFunc(w.found, store.CompareRows)
	for len(w.found) > 0 {
		going, left, err := w.archive(ctx)
		if err != nil {
			return err
		}
		for rows := range slices.Chunk(going, w.opts.Chunk) {
			deleted, err := w.store.DeleteRows(ctx, w.kind, rows)
			if err != nil {
				return err
			}
			w.deleted += deleted
			if err := w.rest(ctx, pause); err != nil {
				return err
			}
		}
		w.found = left
	}
	return nil
}

// archive returns which of the rows that were found may be deleted, and which are left to archive.
//
// Rows of days that are archived as a whole, and of the day that is next within the hour, stay:
// nobody must take rows from such a day while it is archived and counted.
func (w *walk) archive(ctx context.Context) (going, left []store.OldRow, err error) {
	if !w.archives() {
		return w.found, nil, nil
	}
	now, err := w.store.Now(ctx)
	if err != nil {
		return nil, nil, err
	}
	from := store.DayOf(now.Add(time.Hour - w.server(w.opts.Keep)))
	first := slices.IndexFunc(w.found, func(r store.OldRow) bool { return !r.ID.Time().Before(from) })
	if first < 0 {
		return nil, nil, nil
	}
	rows := w.found[first:]
	going, left, err = w.opts.Archive.ArchiveRows(ctx, w.kind, rows)
	if err == nil && len(left) == len(rows) { // another node archives
		err = w.rest(ctx, 5*time.Second)
	}
	return going, left, err
}

// archives reports whether the rows are archived before they are deleted.
func (w *walk) archives() bool { return w.opts.Archive != nil && w.kind != store.OldKeys }

func (w *walk) rest(ctx context.Context, d time.Duration) error {
	batch.SleepOr(ctx, d, nil)
	return context.Cause(ctx)
}
