// Package janitor does the chores of a store while the rest of the program works:
//
//   - it turns pending deliveries that have expired into dead letters;
//   - it deletes endpoints of deleted accounts, and cancels the pending deliveries of deleted
//     endpoints;
//   - it deletes rows that are older than their retention, and archives them before if there is
//     an archive; it discards dead letters that nobody has resolved in time (retention.go);
//   - it makes the partitions of the coming days;
//   - it warns the owners of endpoints that fail for long, and disables these endpoints in the end;
//   - it writes notices of facts that people should know (notices.go).
//
// [Janitor.Run] repeats all chores. [Janitor.CancelDeleted] begins one of them at once, and
// [Janitor.Disable] disables an endpoint after a 410. The package promises:
//
//   - A round of a chore works in chunks of Options.Chunk, each in a short transaction of its own,
//     until nothing is left to do.
//   - If one chore fails, the others and the janitor go on. The failure is logged. The chore is
//     tried again after a wait that doubles from 1 s to Options.Every. A lock that prevents the
//     deletion of a day is such a failure.
//   - Any number of janitors may work on one store. If one janitor has done a row, the others do
//     not find the row. If several assess an endpoint, one of them records the change.
//
// The janitor decides nothing. The store knows by its own clock which rows have expired, and
// [postrider.HealthInput.Assess] decides about the health of an endpoint.
package janitor

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Options tunes a [Janitor]. The zero value is the production default.
type Options struct {
	Every time.Duration // from the end of a chore's round to the next; default 1 minute
	Chunk int           // rows of a transaction, so that locks are held for milliseconds only; default 500
	Log   *slog.Logger  // default: discard

	Keep Keep // how long each kind of rows is kept; a zero field: its default

	// Archive copies events, attempts and bodies before they are deleted; a row that is not in
	// the archive is not deleted. Nil: rows are deleted without a copy.
	Archive Archive

	Notice NoticeLimits // when people get a notice; a zero field: its default
	Disk   Disk         // the disk of the store; zero: its use is unknown
	IDs    *store.IDs   // makes the ids of notices; default: from the clock of this machine

	// Limits say when an endpoint is warned about and disabled; nil: the default.
	Limits *postrider.HealthLimits

	Hooks observe.Hooks // default: nobody observes
}

func (o Options) withDefaults() Options {
	o.Every = cmp.Or(o.Every, time.Minute)
	o.Chunk = cmp.Or(o.Chunk, 500)
	o.Keep = o.Keep.withDefaults()
	o.Notice = o.Notice.withDefaults()
	if o.IDs == nil {
		o.IDs = store.NewIDs(time.Now, nil)
	}
	if o.Limits == nil {
		limits := postrider.DefaultHealthLimits()
		o.Limits = &limits
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Archive copies rows before they are deleted; archive.Archive implements it.
type Archive interface {
	// Archive copies rows of a kind whose day ended at before or earlier. It reports whether
	// there may be more.
	Archive(ctx context.Context, kind store.Kind, before time.Time) (more bool, err error)
	// ArchiveRows copies rows from the beginning of rows. They are in the order of
	// store.CompareRows, and of days that Archive does not archive yet. It returns the rows that
	// may then be deleted, and the rows that are left to do. If another node archives, all are
	// left.
	ArchiveRows(ctx context.Context, kind store.Kind, rows []store.OldRow) (archived, left []store.OldRow, err error)
}

// Store has the roles of a store that a [Janitor] works with.
type Store struct {
	store.Upkeep
	store.Retention
	store.Health
	store.Time
	Queue
	Directory
	History
	NoticeLog
	Rollups
	OutboxRows
}

// Queue is what a janitor needs of [store.Queue].
type Queue interface {
	// Clock is [store.Queue]'s.
	Clock() *store.Clock
	// Circuits is [store.Queue]'s.
	Circuits(ctx context.Context, q store.CircuitQuery) ([]postrider.Circuit, error)
}

// Directory is what a janitor needs of [store.Access] and [store.Directory].
type Directory interface {
	// Accounts is [store.Access]'s.
	Accounts(ctx context.Context, q store.AccountQuery) (store.Page[postrider.Account], error)
	// Endpoints is [store.Directory]'s.
	Endpoints(ctx context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error)
	// PutEndpoint is [store.Directory]'s.
	PutEndpoint(ctx context.Context, p store.PutEndpoint) (postrider.Endpoint, error)
}

// History is what a janitor needs of [store.Ledger].
type History interface {
	// HealthHistory is [store.Ledger]'s.
	HealthHistory(ctx context.Context, q store.HealthQuery) (store.Page[postrider.EndpointHealth], error)
	// DeadLetters is [store.Ledger]'s.
	DeadLetters(ctx context.Context, q store.DeadLetterQuery) (store.Page[postrider.DeadLetter], error)
	// Discard is [store.Ledger]'s.
	Discard(ctx context.Context, d store.Discard) (postrider.DeadLetter, error)
}

// NoticeLog is what a janitor needs of [store.Notices].
type NoticeLog interface {
	// PutNotices is [store.Notices]'s.
	PutNotices(ctx context.Context, notices []postrider.Notice) ([]postrider.Notice, error)
	// Notices is [store.Notices]'s.
	Notices(ctx context.Context, q store.NoticeQuery) (store.Page[postrider.Notice], error)
}

// Rollups is what a janitor needs of [store.Rollups].
type Rollups interface {
	// RollUp is [store.Rollups]'s.
	RollUp(ctx context.Context, limit int) (int, error)
	// ForgetRollups is [store.Rollups]'s.
	ForgetRollups(ctx context.Context, limit int) (int, error)
}

// OutboxRows is what a janitor needs of [store.Sources].
type OutboxRows interface {
	// Sources is [store.Sources]'s.
	Sources(ctx context.Context) ([]postrider.Source, error)
	// ForgetRows is [store.Sources]'s.
	ForgetRows(ctx context.Context, before time.Time, n int) (int, error)
}

// Janitor does a store's chores. Its methods may be called from any goroutine.
type Janitor struct {
	store  Store
	opts   Options
	cancel batch.Signal // set by CancelDeleted; starts the next round of the chore at once
	quotas usedQuotas   // used quotas for which no notice is written yet
}

// New returns a janitor of the store.
func New(s Store, opts Options) *Janitor {
	return &Janitor{store: s, opts: opts.withDefaults(), cancel: batch.NewSignal()}
}

// CancelDeleted starts two chores at once instead of in the next round: deleting the endpoints of
// deleted accounts, and cancelling the deliveries of deleted endpoints. So a person who deletes
// an endpoint with a million pending deliveries need not see them for another minute.
// CancelDeleted does not block. While Run is not running, it has no effect.
func (j *Janitor) CancelDeleted() { j.cancel.Set() }

// DeleteEndpoints deletes all endpoints of deleted accounts now.
func (j *Janitor) DeleteEndpoints(ctx context.Context) error {
	for {
		if n, err := j.store.DeleteEndpoints(ctx, j.opts.Chunk); err != nil || n < j.opts.Chunk {
			return err
		}
	}
}

// chore is one kind of work that Run repeats.
type chore struct {
	name string // for the log and for observers
	do   func(ctx context.Context) (chunk, error)
	now  <-chan struct{} // ends the wait for the next round; nil: the wait never ends early
	wait time.Duration   // from the end of a round to the next; 0: Options.Every

	// again is the first wait after a round that `now` started, or that changed rows. The wait
	// doubles from round to round, up to `wait`. 0: the wait is always `wait`. A chore sets it if
	// a round may have to leave rows for seconds, such as deliveries under a lease.
	again time.Duration
}

// chunk is the result of one transaction of a chore.
type chunk struct {
	rows int  // rows changed; 0 for a chore that does not count
	more bool // there may be another chunk
}

// Run does every chore at once, and again Options.Every after the end of its round, until ctx
// ends. The chores of retention have longer waits of their own. Each chore has a goroutine, so
// that a slow chore delays no other. Run always returns nil, because failed chores are repeated.
func (j *Janitor) Run(ctx context.Context) error {
	var chores sync.WaitGroup
	for _, c := range slices.Concat(j.chores(), j.ofDisk(), j.retention()) {
		chores.Go(func() { j.repeat(ctx, c) })
	}
	chores.Wait()
	return nil
}

// chores returns the chores. A chore that counts its changed rows may have more to do if a chunk
// was full.
func (j *Janitor) chores() []chore {
	return []chore{
		{name: "make partitions", do: func(ctx context.Context) (chunk, error) {
			return chunk{}, j.store.MakePartitions(ctx)
		}},
		{name: "expire deliveries", do: j.counted(func(ctx context.Context) (int, error) {
			expired, lost, err := j.store.Expire(ctx, j.opts.Chunk)
			j.ended(postrider.Dead, postrider.ReasonExpired, expired, lost)
			return expired, err
		})},
		{name: "cancel deliveries of deleted endpoints", now: j.cancel, again: time.Second, do: j.counted(func(ctx context.Context) (int, error) {
			deleted, err := j.store.DeleteEndpoints(ctx, j.opts.Chunk)
			if err != nil {
				return 0, err
			}
			cancelled, lost, err := j.store.CancelDeleted(ctx, j.opts.Chunk)
			j.ended(postrider.Cancelled, postrider.ReasonEndpointDeleted, cancelled, lost)
			return max(deleted, cancelled), err
		})},
		{name: "forget idempotency keys", do: j.counted(func(ctx context.Context) (int, error) {
			return j.store.ForgetKeys(ctx, j.opts.Keep.Keys, j.opts.Chunk)
		})},
		{name: "roll up", do: j.counted(func(ctx context.Context) (int, error) { return j.store.RollUp(ctx, j.opts.Chunk) })},
		{name: "forget rollups", do: j.counted(func(ctx context.Context) (int, error) { return j.store.ForgetRollups(ctx, j.opts.Chunk) })},
		{name: "assess endpoint health", do: (&assessor{Janitor: j}).chunk},
		{name: "notice open circuits", do: (&circuitWatcher{Janitor: j}).chunk},
		{name: "notice dead letters", do: (&deathWatcher{reminder: reminder{Janitor: j, period: daily}}).chunk},
		{name: "notice stopped sources", do: (&sourceWatcher{reminder: reminder{Janitor: j, period: daily}}).chunk},
		{name: "notice used quotas", do: j.tellOfQuotas, wait: watchEvery},
		{name: "notice expiring dead letters", do: (&expiryWatcher{reminder: reminder{Janitor: j, period: weekly}}).chunk, wait: daily},
	}
}

// counted makes the function of a chore from a function that returns the number of changed rows.
func (j *Janitor) counted(do func(ctx context.Context) (int, error)) func(context.Context) (chunk, error) {
	return func(ctx context.Context) (chunk, error) {
		n, err := do(ctx)
		return chunk{rows: n, more: n >= j.opts.Chunk}, err
	}
}

// pause is the time between two chunks of a round. It leaves the store time for publishes and
// settlements. Example: expiring 100,000 deliveries takes 200 chunks and 2 s of pauses. SQLite
// also rests inside of each chunk.
const pause = 10 * time.Millisecond

// repeat does a chore until ctx ends. If a chunk left more to do, the next chunk follows after a
// pause. Observers get the end of a whole round, with its last error.
func (j *Janitor) repeat(ctx context.Context, c chore) {
	const firstRetry = time.Second
	begun, rows := time.Now(), 0
	failures := failures{reminder: reminder{Janitor: j, period: daily}}
	again := cmp.Or(c.wait, j.opts.Every) // the wait after a round
	for retry := firstRetry; ; {
		wait := cmp.Or(c.wait, j.opts.Every)
		did, err := c.do(ctx)
		more := did.more
		rows += did.rows
		if ctx.Err() == nil {
			done := j.opts.Hooks.ChoreDone
			if more {
				done = j.opts.Hooks.ChoreWorks
			}
			done.Call(observe.ChoreDone{Name: c.name, Took: time.Since(begun), Rows: rows, Err: err})
		}
		switch {
		case err != nil && ctx.Err() == nil:
			j.opts.Log.WarnContext(ctx, "chore failed", "chore", c.name, "error", err, "retry_in", retry.String())
			failures.failed(ctx, c.name, err)
			wait, retry = retry, min(2*retry, j.opts.Every)
		case more:
			wait, retry, failures.since = pause, firstRetry, time.Time{}
		default:
			retry, failures.since = firstRetry, time.Time{}
			if again = min(2*again, wait); c.again > 0 && rows > 0 {
				again = c.again
			}
			wait = again
		}
		slept := time.Now()
		if !batch.SleepOr(ctx, wait, c.now) {
			return
		}
		if c.again > 0 && time.Since(slept) < wait { // c.now ended the wait early
			again = c.again / 2
		}
		if !more {
			begun, rows = time.Now(), 0
		}
	}
}

// ended reports to the hooks that a chore has ended n deliveries, and that `lost` of their
// attempts were lost.
func (j *Janitor) ended(status postrider.Status, reason string, n, lost int) {
	if lost > 0 {
		j.opts.Hooks.AttemptsLost.Call(lost)
	}
	if n > 0 {
		j.opts.Hooks.Ended.Call(observe.Ended{Status: status, Reason: reason, N: n})
	}
}
