// Package expunge removes an event, an endpoint or an account from the store, with all that is
// stored about the object. People may have a right to demand this. The API
// begins an expunge, and [Runner.Run] carries it out:
//
//	runner := expunge.New(s, expunge.Options{List: "/mnt/lists/expunged.ndjson"})
//	err := runner.Recover(ctx) // at the start of the server
//	go runner.Run(ctx)
//	go runner.WatchList(ctx)
//	…
//	err = runner.Begin(ctx, e)
//
// The package promises:
//
//   - An expunge that has begun ends, even if nodes crash: it is stored, and every node works on it.
//   - Publishes and deliveries of other objects are not delayed. Rows are removed in chunks, each in
//     a transaction of its own. After a chunk the runner sleeps for as long as the chunk took.
//   - The next deliveries of an ordering key go on: before rows are removed, pending deliveries are
//     cancelled and dead letters discarded, in the same way as by a person.
//   - An attempt that was in flight when the expunge began may be recorded later; its rows are
//     removed too. The expunge ends when no row was found for [postrider.ExpungeSettled]. After
//     that, the archived records of an event or endpoint are removed, because nothing more can be
//     archived.
//   - Before an expunge ends, removed rows are cleared from the files of the store ([store.Expunges].Scrub).
//   - While the archive is unreachable, rows of the store are removed all the same. The expunge does
//     not end, and stores the error. A round stops using the archive after its first error, so that
//     one expunge does not delay the others.
//   - Rows of an account in the outboxes of producers are removed too, by a goroutine of its own, so
//     that a database that hangs delays no other expunge. While one cannot be reached, the expunge
//     does not end, and stores the error.
//   - The list is a file outside of the backups. If a store was restored from a backup, the runner
//     reads from the list what was expunged since the backup, and removes it again.
//   - At the end, the runner writes an entry of the audit log with ids, counts and a digest.
package expunge

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Store has the roles of a store that a [Runner] works with.
type Store struct {
	Expunges store.Expunges // not embedded, because Expunges has a method of the same name
	Ledger
	Directory
	Archived
	Audit
	store.Time
}

// Ledger is what a runner needs of [store.Ledger].
type Ledger interface {
	// Deliveries is [store.Ledger]'s.
	Deliveries(ctx context.Context, q store.DeliveryQuery) (store.Page[postrider.Delivery], error)
	// DeadLetters is [store.Ledger]'s.
	DeadLetters(ctx context.Context, q store.DeadLetterQuery) (store.Page[postrider.DeadLetter], error)
	// Cancel is [store.Ledger]'s.
	Cancel(ctx context.Context, c store.Cancel) (postrider.Delivery, error)
	// Discard is [store.Ledger]'s.
	Discard(ctx context.Context, d store.Discard) (postrider.DeadLetter, error)
}

// Directory is what a runner needs of [store.Directory] and [store.Access].
type Directory interface {
	// Endpoints is [store.Directory]'s.
	Endpoints(ctx context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error)
	// PutEndpoint is [store.Directory]'s.
	PutEndpoint(ctx context.Context, p store.PutEndpoint) (postrider.Endpoint, error)
	// Accounts is [store.Access]'s.
	Accounts(ctx context.Context, q store.AccountQuery) (store.Page[postrider.Account], error)
	// DeleteAccount is [store.Access]'s.
	DeleteAccount(ctx context.Context, account postrider.AccountID) error
}

// Archived is what a runner needs of [store.Archive] and [store.ArchiveKeys].
type Archived interface {
	// ArchiveParts is [store.Archive]'s.
	ArchiveParts(ctx context.Context, q store.ArchiveParts) ([]store.ArchivePart, error)
	// DeleteArchiveKey is [store.ArchiveKeys]'s.
	DeleteArchiveKey(ctx context.Context, account postrider.AccountID) (bool, error)
}

// Audit is what a runner needs of [store.Audit].
type Audit interface {
	// AppendAudit is [store.Audit]'s.
	AppendAudit(ctx context.Context, e postrider.AuditEntry) error
}

// Options tunes a [Runner]. The zero value is the production default, without a list.
type Options struct {
	List  string        // path of the list; empty: no list, and a restored backup brings expunged rows back
	Every time.Duration // time between two rounds, and between two checks of the list; default 1 minute
	Chunk int           // rows of a transaction; default 500
	Log   *slog.Logger  // default: discard

	// Archive is the archive to which retention copies rows before it deletes them; nil: there is
	// none.
	Archive Archive
	// Outboxes are the outboxes of producers, which may have rows of an account; nil: there are none.
	Outboxes Outboxes
	// ChoreDone is called at the end of a step in the archive, and after each write or check of
	// the list.
	ChoreDone observe.Hook[observe.ChoreDone]

	// CancelDeleted is called after an endpoint or account was deleted, so that its deliveries
	// are cancelled soon. Nil: the next round of the janitor cancels them.
	CancelDeleted func()
}

// Archive is the archive of the store; archive.Archive implements it.
type Archive interface {
	// Expunge removes records of an event or endpoint from the archive, for about a second. It
	// stores the progress in e.Archive, and returns the changed e. If e is unchanged, another
	// node archives.
	Expunge(ctx context.Context, e postrider.Expunge) (postrider.Expunge, error)
}

// Outboxes are the outboxes of producers from which events are read.
type Outboxes interface {
	// Expunge removes all rows of an account, which may have any of the names, and returns their number. If
	// some outboxes cannot be reached, it goes on with the others. The error names them, for operators.
	// away has the error of each outbox that failed in this round, by its name. Expunge adds to away, and
	// does not try these outboxes again.
	Expunge(ctx context.Context, away map[string]error, account ...string) (rows int64, err error)
}

// Runner does expunges. Its methods may be called from any goroutine.
type Runner struct {
	store Store
	opts  Options
	begun batch.Signal // set by Begin; starts the next round at once
	round batch.Signal // set at the end of a round; runOutboxes waits for it
}

// New returns a runner for the store.
func New(s Store, opts Options) *Runner {
	opts.Every = cmp.Or(opts.Every, time.Minute)
	opts.Chunk = cmp.Or(opts.Chunk, 500)
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	if opts.CancelDeleted == nil {
		opts.CancelDeleted = func() {}
	}
	return &Runner{store: s, opts: opts, begun: batch.NewSignal(), round: batch.NewSignal()}
}

// List returns the path of the list; empty: there is no list.
func (r *Runner) List() string { return r.opts.List }

// Begin adds the expunge to the list, and stores it. When Begin returns, both are on disk; Run
// does the rest. After an error, Begin withdraws the line of the list. If it cannot, the error says
// so, because the next start of a server would store the expunge. The caller may begin the same
// expunge again.
func (r *Runner) Begin(ctx context.Context, e postrider.Expunge) error {
	begun, l := time.Now(), lineOf(e)
	err := appendTo(r.opts.List, l)
	r.triedList(begun, err)
	if err == nil {
		err = r.store.Expunges.PutExpunge(ctx, e)
	}
	if err == nil {
		r.begun.Set()
		return nil
	}
	l.Withdrawn = true
	if fault := appendTo(r.opts.List, l); fault != nil {
		// The class of fault would tell the client that nothing was listed.
		return fmt.Errorf("%w; the list may have %s, which then begins at the next start of a server: %s", err, e.ID, fault.Error())
	}
	return err
}

// Recover stores every expunge of the list that the store does not have. The store lacks expunges
// if it was restored from an older backup. Call Recover before Run.
func (r *Runner) Recover(ctx context.Context) error {
	listed, err := readList(r.opts.List)
	if err != nil {
		return err
	}
	for _, e := range listed {
		if err := r.store.Expunges.PutExpunge(ctx, e); err != nil {
			return fmt.Errorf("expunge again what %s lists: %w", r.opts.List, err)
		}
	}
	return nil
}

// Unfinished returns the number of expunges that have not removed all rows yet. A restored store
// must not send before this number is 0.
func (r *Runner) Unfinished(ctx context.Context) (n int, err error) {
	err = r.each(ctx, func(e postrider.Expunge) error {
		if e.EmptySince.IsZero() {
			n++
		}
		return nil
	})
	return n, err
}

// each calls do for every expunge that has not ended.
func (r *Runner) each(ctx context.Context, do func(postrider.Expunge) error) error {
	for q := (store.ExpungeQuery{Running: true}); ; {
		page, err := r.store.Expunges.Expunges(ctx, q)
		if err != nil {
			return err
		}
		for _, e := range page.Items {
			if err := do(e); err != nil {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// Run carries out all expunges that have begun, on this and on other nodes, until ctx ends. If
// one expunge fails, the others go on, and the next round tries it again.
func (r *Runner) Run(ctx context.Context) error {
	if r.opts.Outboxes != nil {
		var outboxes sync.WaitGroup
		defer outboxes.Wait()
		outboxes.Go(func() { r.runOutboxes(ctx) })
	}
	for {
		wait, away := r.opts.Every, error(nil)
		r.tryEach(ctx, func(e postrider.Expunge) error {
			waits, err := r.goOn(ctx, e, &away)
			if err == nil && waits {
				wait = min(wait, waitEvery)
			}
			return err
		})
		r.round.Set()
		if !batch.SleepOr(ctx, wait, r.begun) {
			return nil
		}
	}
}

// runOutboxes removes rows of accounts from the outboxes of producers after each round of Run, until ctx
// ends. The database of a producer may hang for minutes. So this is a goroutine of its own, and a round
// of it does not try an outbox again that has failed.
func (r *Runner) runOutboxes(ctx context.Context) {
	for {
		select {
		case <-r.round:
		case <-ctx.Done():
			return
		}
		away := map[string]error{}
		r.tryEach(ctx, func(e postrider.Expunge) error { return r.outboxes(ctx, e, away) })
	}
}

// tryEach calls do for every expunge that has not ended, until ctx ends. It logs the errors.
func (r *Runner) tryEach(ctx context.Context, do func(postrider.Expunge) error) {
	err := r.each(ctx, func(e postrider.Expunge) error {
		if err := do(e); err != nil && ctx.Err() == nil {
			r.opts.Log.WarnContext(ctx, "expunge interrupted", "expunge", e.ID.String(), "error", err)
		}
		return ctx.Err()
	})
	if err != nil && ctx.Err() == nil {
		r.opts.Log.WarnContext(ctx, "expunges not read", "error", err)
	}
}

// waitEvery is the time between two rounds while deliveries are being cancelled.
const waitEvery = time.Second

// goOn does the work of an expunge that is possible now: it removes rows of the store and records
// of the archive. It reports whether more can be done soon. Each round calls it until the expunge
// has ended. *away is the first error of the archive in this round, and goOn sets it. If *away is
// set, goOn does not use the archive.
func (r *Runner) goOn(ctx context.Context, e postrider.Expunge, away *error) (more bool, err error) {
	e, waits, err := r.remove(ctx, e)
	if err != nil || !e.InArchive() {
		return waits, err
	}
	before := e.Archive
	if *away == nil {
		e, *away = r.archived(ctx, e)
	}
	switch {
	case *away != nil:
		e.Archive.Fault = (*away).Error()
		return false, errors.Join(*away, r.store.Expunges.NoteExpunge(ctx, e))
	case e.Archive.Done:
		_, _, err = r.remove(ctx, e) // ends the expunge
	}
	return e.Archive != before, err
}

// archived removes archived records of an expunge, for about a second.
func (r *Runner) archived(ctx context.Context, e postrider.Expunge) (postrider.Expunge, error) {
	if r.opts.Archive == nil {
		parts, err := r.store.ArchiveParts(ctx, store.ArchiveParts{From: e.Archive.Day, Limit: 1})
		if err != nil {
			return e, err
		}
		e.Archive = postrider.ExpungeArchive{Day: e.Archive.Day, Done: true, Held: len(parts) > 0}
		return e, r.store.Expunges.NoteExpunge(ctx, e)
	}
	begun := time.Now()
	e, err := r.opts.Archive.Expunge(ctx, e)
	if ctx.Err() == nil {
		r.opts.ChoreDone.Call(observe.ChoreDone{Name: "archive expunges", Took: time.Since(begun), Err: err})
	}
	return e, err
}

// remove removes stored rows of an expunge. It reports whether the expunge waits for deliveries
// that are being cancelled. If there are outboxes, it does not end the expunge of an account.
func (r *Runner) remove(ctx context.Context, e postrider.Expunge) (_ postrider.Expunge, waits bool, err error) {
	err = r.Prepare(ctx, e)
	if err == nil {
		err = r.noteUID(ctx, e)
	}
	if err != nil {
		return e, false, err
	}
	return r.removeRows(ctx, e, !r.inOutboxes(e))
}

// never is longer than any expunge takes.
const never = 100 * 365 * 24 * time.Hour

// removeRows removes stored rows of an expunge in chunks. It ends the expunge only if mayEnd is true.
func (r *Runner) removeRows(ctx context.Context, e postrider.Expunge, mayEnd bool) (_ postrider.Expunge, waits bool, err error) {
	settled := never
	if mayEnd {
		settled, err = r.settled(ctx, e)
	}
	if err != nil {
		return e, false, err
	}
	for {
		begun, before := time.Now(), e.Removed.Total()
		e, err = r.store.Expunges.ExpungeRows(ctx, store.ExpungeRows{ID: e.ID, Limit: r.opts.Chunk, Settled: settled})
		switch {
		case err != nil:
			return e, false, err
		case !e.EndedAt.IsZero():
			return e, false, r.ended(ctx, e)
		case e.Removed.Total() == before:
			return e, e.EmptySince.IsZero(), nil
		}
		if !batch.Sleep(ctx, time.Since(begun)) {
			return e, false, ctx.Err()
		}
	}
}

// settled returns for how long no row must have been found, so that the expunge ends or goes on in the
// archive. Before an expunge may end, settled clears the files of the store. The writers of SQLite wait for
// that, so it is not done in each round.
func (r *Runner) settled(ctx context.Context, e postrider.Expunge) (time.Duration, error) {
	if (!e.Event.IsZero() || !e.Endpoint.IsZero()) && !e.Archive.Done {
		return postrider.ExpungeSettled, nil
	}
	now, err := r.store.Now(ctx)
	if err != nil || e.EmptySince.IsZero() || e.Outbox.Fault != "" || now.Before(e.EmptySince.Add(postrider.ExpungeSettled)) {
		return never, err // not ExpungeSettled, which may have passed when the rows are searched
	}
	return postrider.ExpungeSettled, r.store.Expunges.Scrub(ctx)
}

// inOutboxes reports whether the expunge removes rows of outboxes.
func (r *Runner) inOutboxes(e postrider.Expunge) bool {
	return r.opts.Outboxes != nil && e.Event.IsZero() && e.Endpoint.IsZero()
}

// noteUID notes the uid of an account before ExpungeRows removes it, because rows of outboxes may have it.
func (r *Runner) noteUID(ctx context.Context, e postrider.Expunge) error {
	if !r.inOutboxes(e) || e.Outbox.UID != "" {
		return nil
	}
	page, err := r.store.Accounts(ctx, store.AccountQuery{ID: e.Account})
	if err != nil || len(page.Items) == 0 || page.Items[0].UID == "" {
		return err
	}
	return r.store.Expunges.NoteOutbox(ctx, e.ID, postrider.ExpungeOutbox{UID: page.Items[0].UID, Fault: e.Outbox.Fault})
}

// outboxes removes the rows of an account from the outboxes of producers, and ends the expunge if nothing is
// left. It begins when the rows of the store are removed; the uid was noted before. It does so again in each
// round: rows may still come until the account is deleted everywhere. A database that is away delays nothing
// but the end: the fault is stored, and the next round tries again.
func (r *Runner) outboxes(ctx context.Context, e postrider.Expunge, away map[string]error) error {
	if !r.inOutboxes(e) || e.EmptySince.IsZero() {
		return nil
	}
	names, err := r.namesOf(ctx, e)
	if err != nil {
		return err
	}
	rows, fault := r.opts.Outboxes.Expunge(ctx, away, names...)
	e.Outbox.Removed, e.Outbox.Fault = int(rows), ""
	if fault != nil {
		e.Outbox.Fault = fault.Error()
	}
	err = r.store.Expunges.NoteOutbox(ctx, e.ID, e.Outbox)
	if err == nil {
		_, _, err = r.removeRows(ctx, e, true)
	}
	return err
}

// namesOf returns the names by which rows of outboxes are the account's. Its uid is free, since the account is
// deleted: if another account has it now, it names that one.
func (r *Runner) namesOf(ctx context.Context, e postrider.Expunge) ([]string, error) {
	names := []string{e.Account.String()}
	if e.Outbox.UID == "" {
		return names, nil
	}
	page, err := r.store.Accounts(ctx, store.AccountQuery{UID: e.Outbox.UID})
	if err != nil || len(page.Items) > 0 && page.Items[0].ID != e.Account {
		return names, err
	}
	return append(names, e.Outbox.UID), nil
}

// ended writes the audit entry that proves the end. Two nodes that see the end write the same
// entry.
func (r *Runner) ended(ctx context.Context, e postrider.Expunge) error {
	object, id := Object(e)
	entry := postrider.AuditEntry{
		ID: postrider.MakeID[postrider.AuditID](e.EndedAt, [10]byte(e.ID[6:])), Action: postrider.ActionExpunged, Outcome: "ok", Name: e.By,
		Account: e.Account, Object: object, ObjectID: id,
		Details: map[string]string{
			"expunge": e.ID.String(), "events": strconv.Itoa(e.Removed.Events), "attempts": strconv.Itoa(e.Removed.Attempts),
			"dead_letters": strconv.Itoa(e.Removed.DeadLetters), "terms": strconv.Itoa(e.Removed.Terms),
			"subscriptions": strconv.Itoa(e.Removed.Subscriptions),
			"outbox":        strconv.Itoa(e.Outbox.Removed),
			"other":         strconv.Itoa(e.Removed.Other), "archived": strconv.Itoa(e.Removed.Archived),
			"sha256": hex.EncodeToString(e.Digest[:]),
		},
	}
	entry.At = entry.ID.Time()
	if err := r.store.AppendAudit(ctx, entry); err != nil {
		return err
	}
	r.opts.Log.InfoContext(ctx, "expunged", "expunge", e.ID.String(), "object", object, "id", id, "rows", e.Removed.Total())
	return nil
}

// Object returns the kind and the id of what an expunge removes.
func Object(e postrider.Expunge) (kind, id string) {
	switch {
	case !e.Event.IsZero():
		return "event", e.Event.String()
	case !e.Endpoint.IsZero():
		return "endpoint", e.Endpoint.String()
	}
	return "account", e.Account.String()
}

// Prepare ends everything that must end before rows are removed: deliveries, dead letters, the
// endpoint or the account. It may be repeated; Run calls it in each round.
func (r *Runner) Prepare(ctx context.Context, e postrider.Expunge) error {
	switch {
	case !e.Event.IsZero():
		return errors.Join(r.cancel(ctx, e), r.discard(ctx, e))
	case !e.Endpoint.IsZero():
		return r.deleteEndpoint(ctx, e)
	}
	err := r.store.DeleteAccount(ctx, e.Account)
	switch {
	case err == nil:
		r.opts.CancelDeleted()
	case !errors.Is(err, postrider.ErrNotFound): // ErrNotFound: the account is deleted already, or the store never had it
		return err
	}
	_, err = r.store.DeleteArchiveKey(ctx, e.Account)
	return err
}

func (r *Runner) deleteEndpoint(ctx context.Context, e postrider.Expunge) error {
	page, err := r.store.Endpoints(ctx, store.EndpointQuery{ID: e.Endpoint})
	if err != nil || len(page.Items) == 0 || page.Items[0].Status == postrider.EndpointDeleted {
		return err
	}
	endpoint := page.Items[0]
	endpoint.Status, endpoint.StatusReason = postrider.EndpointDeleted, ""
	if endpoint.UpdatedAt, err = r.store.Now(ctx); err != nil {
		return err
	}
	_, err = r.store.PutEndpoint(ctx, store.PutEndpoint{Endpoint: endpoint})
	r.opts.CancelDeleted()
	return err
}

// By is the name of the person in deliveries that cancel cancels and dead letters that discard
// discards.
const By = "expunge"

// cancel cancels the pending deliveries of an event.
func (r *Runner) cancel(ctx context.Context, e postrider.Expunge) error {
	for q := (store.DeliveryQuery{Event: e.Event, Status: postrider.Pending}); ; {
		page, err := r.store.Deliveries(ctx, q)
		if err != nil {
			return err
		}
		for _, d := range page.Items {
			if _, err := r.store.Cancel(ctx, store.Cancel{Delivery: d.ID}); err != nil && !overtaken(err) {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// discard discards the unresolved dead letters of an event.
func (r *Runner) discard(ctx context.Context, e postrider.Expunge) error {
	for q := (store.DeadLetterQuery{Event: e.Event}); ; {
		page, err := r.store.DeadLetters(ctx, q)
		if err != nil {
			return err
		}
		for _, l := range page.Items {
			if _, err := r.store.Discard(ctx, store.Discard{Delivery: l.Delivery, By: By}); err != nil && !overtaken(err) {
				return err
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

// overtaken reports whether somebody else has ended the delivery or resolved the dead letter
// meanwhile.
func overtaken(err error) bool {
	return errors.Is(err, postrider.ErrNotFound) || errors.Is(err, postrider.ErrConflict)
}
