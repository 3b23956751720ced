// Package expunge removes an event, an endpoint or an account from the store with all that is
// stored about it, for people who may demand that. The API begins it, and [Runner.Run] does it:
//
//	runner := expunge.New(s, expunge.Options{List: "/mnt/lists/expunged.ndjson"})
//	err := runner.Recover(ctx) // at the start of the server
//	go runner.Run(ctx)
//	go runner.WatchList(ctx)
//	…
//	err = runner.Begin(ctx, e)
//
// Whatever happens, this holds:
//
//   - What has begun ends, also after a crash: it is stored, and every node goes on with it.
//   - Publishes and deliveries of others are not delayed: rows are removed in chunks, each in a
//     transaction of its own, with a rest as long as the chunk took.
//   - The next deliveries of an ordering key go on: pending deliveries are cancelled and dead
//     letters discarded as a person would do it, before their rows go.
//   - What was under way when it began, and is recorded afterwards, is removed too: it ends
//     when it has found nothing for [postrider.ExpungeSettled]. After that, what was archived of
//     an event or endpoint goes, so that nothing can be archived behind it.
//   - Before it ends, the store's own files are cleared of what was removed ([store.Expunges].Scrub).
//   - While the archive is away, what is in the store is removed all the same; the expunge goes on,
//     and has the error. Each round tries one, so that the others do not wait.
//   - The list is a file outside of the backups. A store that was restored from a backup gets
//     from it what was expunged since then, and removes it again.
//   - The end is an entry of the audit log with ids, counts and a digest.
package expunge

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Store has the roles of a store that a [Runner] works with.
type Store struct {
	Expunges store.Expunges // not embedded: one of its verbs has the same name
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
	List  string        // path of the list; empty: there is none, and a restore brings back what was expunged
	Every time.Duration // between two looks for what goes on; default 1 minute
	Chunk int           // rows of a transaction; default 500
	Log   *slog.Logger  // default: discard

	// Archive is what retention copies to before it deletes; nil: none is set.
	Archive Archive
	// ChoreDone is called when a step in the archive is over, and when the list was written or
	// looked at.
	ChoreDone observe.Hook[observe.ChoreDone]

	// CancelDeleted is called when an endpoint or account was deleted, so that its
	// deliveries are cancelled soon. nil: that takes until the janitor's next round.
	CancelDeleted func()
}

// Archive is the archive that the store keeps the books of. archive.Archive is one.
type Archive interface {
	// Expunge removes records of an event or endpoint from the archive, for about a second. It
	// stores how far it has got, and returns it; if nothing has changed, another node archives.
	Expunge(ctx context.Context, e postrider.Expunge) (postrider.Expunge, error)
}

// Runner does expunges. Its methods may be called from any goroutine.
type Runner struct {
	store Store
	opts  Options
	begun batch.Signal // set by Begin
}

// New returns a runner for the store.
func New(s Store, opts Options) *Runner {
	opts.Every = cmp.Or(opts.Every, time.Minute)
	opts.Chunk = cmp.Or(opts.Chunk, 500)
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	if opts.CancelDeleted == nil {
		opts.CancelDeleted = func() {}
	}
	return &Runner{store: s, opts: opts, begun: batch.NewSignal()}
}

// List returns the path of the list; empty: there is none.
func (r *Runner) List() string { return r.opts.List }

// Begin adds the expunge to the list, and stores it. It returns when both are on disk; Run does
// the rest. After an error nothing was begun, or the same expunge may be begun again.
func (r *Runner) Begin(ctx context.Context, e postrider.Expunge) error {
	begun := time.Now()
	err := appendTo(r.opts.List, e)
	r.triedList(begun, err)
	if err != nil {
		return err
	}
	if err := r.store.Expunges.PutExpunge(ctx, e); err != nil {
		return err
	}
	r.begun.Set()
	return nil
}

// Recover stores every expunge of the list that the store does not have, because it was
// restored from an older backup. Call it before Run.
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

// Unfinished returns how many expunges have not removed everything yet. A restored store must
// not send before it is 0.
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

// Run does what was begun, here and on other nodes, until ctx ends. An expunge that fails is
// tried again in the next round, and does not stop the others.
func (r *Runner) Run(ctx context.Context) error {
	for {
		wait, away := r.opts.Every, error(nil)
		err := r.each(ctx, func(e postrider.Expunge) error {
			waits, err := r.goOn(ctx, e, &away)
			switch {
			case err != nil && ctx.Err() == nil:
				r.opts.Log.WarnContext(ctx, "expunge interrupted", "expunge", e.ID.String(), "error", err)
			case waits:
				wait = min(wait, waitEvery)
			}
			return ctx.Err()
		})
		if err != nil && ctx.Err() == nil {
			r.opts.Log.WarnContext(ctx, "expunges not read", "error", err)
		}
		if !batch.SleepOr(ctx, wait, r.begun) {
			return nil
		}
	}
}

// waitEvery is the time between two looks for what is being cancelled.
const waitEvery = time.Second

// goOn does the work of an expunge that is possible now: it removes rows of the store and records
// of the archive. It reports whether more can be done soon. Each round calls it, until the expunge
// has ended. away is the error that the archive had in this round; goOn sets it, and with an error
// it leaves the archive alone.
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
		_, _, err = r.remove(ctx, e) // ends it
	}
	return e.Archive != before, err
}

// archived removes what is archived of an expunge, for about a second.
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

// remove removes what is stored of an expunge, and reports whether it waits for deliveries that
// are being cancelled.
func (r *Runner) remove(ctx context.Context, e postrider.Expunge) (_ postrider.Expunge, waits bool, err error) {
	if err := r.Prepare(ctx, e); err != nil {
		return e, false, err
	}
	if ends := e.Archive.Day.IsZero() || e.Archive.Done; ends && !e.EmptySince.IsZero() {
		// Nothing was found the last time. If nothing is found now, that was the last row.
		if err := r.store.Expunges.Scrub(ctx); err != nil {
			return e, false, err
		}
	}
	for {
		begun, before := time.Now(), e.Removed.Total()
		e, err = r.store.Expunges.ExpungeRows(ctx, store.ExpungeRows{ID: e.ID, Limit: r.opts.Chunk, Settled: postrider.ExpungeSettled})
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

// ended writes the proof. Two nodes that see the end write the same entry.
func (r *Runner) ended(ctx context.Context, e postrider.Expunge) error {
	object, id := Object(e)
	entry := postrider.AuditEntry{
		ID: postrider.MakeID[postrider.AuditID](e.EndedAt, [10]byte(e.ID[6:])), Action: postrider.ActionExpunged, Outcome: "ok", Name: e.By,
		Account: e.Account, Object: object, ObjectID: id,
		Details: map[string]string{
			"expunge": e.ID.String(), "events": strconv.Itoa(e.Removed.Events), "attempts": strconv.Itoa(e.Removed.Attempts),
			"dead_letters": strconv.Itoa(e.Removed.DeadLetters), "other": strconv.Itoa(e.Removed.Other), "archived": strconv.Itoa(e.Removed.Archived),
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

// Prepare ends what must end before rows may go. All of it may be done again; Run does that.
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
	case !errors.Is(err, postrider.ErrNotFound): // otherwise it is deleted already, or the store never had it
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

// By is who cancelled a delivery or discarded a dead letter of an event that is expunged.
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

// overtaken reports whether somebody else has ended or resolved it meanwhile.
func overtaken(err error) bool {
	return errors.Is(err, postrider.ErrNotFound) || errors.Is(err, postrider.ErrConflict)
}
