package janitor

import (
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
)

// accountForgetter is the chore that deletes rows of accounts that keep them for a shorter time
// than the server. It deletes row by row, because a day of the store has the rows of all
// accounts. A round reads the old rows of these accounts through indexes, so there is one round a
// day.
type accountForgetter struct {
	*Janitor

	done int // the number of kinds in forgottenOf that this round has finished
}

// forgottenOf lists the kinds that accounts may keep for a shorter time, in the order of
// deletion. Keys come before events, since keys are found by their events. Bodies come before
// their attempts.
var forgottenOf = []forgotten{
	{store.OldKeys, func(k Keep) time.Duration { return k.Keys }, func(r postrider.AccountRetention) int { return r.IdempotencyKeys }},
	{store.OldBodies, func(k Keep) time.Duration { return k.Bodies }, bodyDays},
	{store.OldAttempts, func(k Keep) time.Duration { return k.Attempts }, func(r postrider.AccountRetention) int { return r.Attempts }},
	{store.OldEvents, func(k Keep) time.Duration { return k.Events }, func(r postrider.AccountRetention) int { return r.Events }},
}

// forgotten is a kind of rows. server returns how long the server keeps them. days returns for
// how many days an account keeps them; 0: as long as the server.
type forgotten struct {
	kind   store.Kind
	server func(Keep) time.Duration
	days   func(postrider.AccountRetention) int
}

// bodyDays returns for how many days an account keeps heads and bodies, at most as long as
// attempts.
func bodyDays(r postrider.AccountRetention) int {
	if r.Bodies == 0 || r.Attempts > 0 && r.Attempts < r.Bodies {
		return r.Attempts
	}
	return r.Bodies
}

// forgetOfAccounts returns the chore of an accountForgetter.
func (j *Janitor) forgetOfAccounts() chore {
	name := "forget rows of accounts"
	if j.opts.Archive != nil {
		name = "archive rows of accounts"
	}
	return chore{name: name, do: (&accountForgetter{Janitor: j}).chunk, wait: daily}
}

// chunk deletes the old rows of the next kind. After an error, the next chunk begins the kind
// again; it does not find the rows that are deleted already.
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

// walk finds the old rows of a kind, account by account, and deletes them. A transaction deletes
// Options.Chunk rows. After each call of the store there is a pause.
type walk struct {
	*Janitor
	forgotten

	now     time.Time
	found   []store.OldRow // but not deleted yet
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

// account finds the old rows of an account, and deletes them. If there is an archive, it first
// gathers the rows of many calls and accounts, so that the archive gets few parts.
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

// forget deletes the rows in w.found. If there is an archive, forget archives them first.
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

// archive returns the rows of w.found that may be deleted, and the rows that are left to archive.
//
// It leaves out rows of the days that are archived as a whole now or within the next hour,
// because such a day must not change while it is archived and counted.
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

// archives reports whether rows of this kind are archived before they are deleted.
func (w *walk) archives() bool { return w.opts.Archive != nil && w.kind != store.OldKeys }

func (w *walk) rest(ctx context.Context, d time.Duration) error {
	batch.SleepOr(ctx, d, nil)
	return context.Cause(ctx)
}
