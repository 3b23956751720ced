// Package janitor keeps a store in shape while the rest of the program works:
// pending deliveries whose time is over become dead letters, endpoints of
// deleted accounts are deleted, the backlog of deleted endpoints is cancelled, old idempotency keys are forgotten, the
// partitions of the coming days are made ahead, and endpoints that fail for
// long are warned about and disabled.
//
// A [Janitor] has one method, [Janitor.Run]. Whatever happens:
//
//   - A round does its work in chunks of Options.Chunk, each its own short
//     transaction, until nothing is left of it.
//   - One chore's failure stops neither the others nor the janitor: it is
//     logged, and tried again after a wait that grows to Options.Every.
//   - Any number of janitors may work on one store. What one did, the others
//     do not find: one of them records a change of health.
//
// It decides nothing: the store knows by its own clock what is due, and
// [postrider.HealthInput.Assess] decides on an endpoint's health.
package janitor

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Options tunes a [Janitor]. The zero value is the production default.
type Options struct {
	Every   time.Duration // from the end of a round to the next; default 1 minute
	KeysAge time.Duration // how long idempotency keys are remembered; default 7 days
	Chunk   int           // rows a transaction; default 500
	Log     *slog.Logger  // default: discard

	// Limits say when an endpoint is warned about and disabled; nil: the default.
	Limits *postrider.HealthLimits

	Hooks observe.Hooks // default: nobody observes
}

func (o Options) withDefaults() Options {
	o.Every = cmp.Or(o.Every, time.Minute)
	o.KeysAge = cmp.Or(o.KeysAge, 7*24*time.Hour)
	o.Chunk = cmp.Or(o.Chunk, 500)
	if o.Limits == nil {
		limits := postrider.DefaultHealthLimits()
		o.Limits = &limits
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Store is what a [Janitor] needs of a store.
type Store interface {
	store.Upkeep

	// Endpoints is [store.Directory]'s.
	Endpoints(ctx context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error)
	// HealthHistory is [store.Ledger]'s.
	HealthHistory(ctx context.Context, q store.HealthQuery) (store.Page[postrider.EndpointHealth], error)
}

// Janitor does a store's chores.
type Janitor struct {
	store  Store
	opts   Options
	cancel batch.Signal // deliveries of deleted endpoints are to be cancelled now
}

// New returns a janitor of the store.
func New(s Store, opts Options) *Janitor {
	return &Janitor{store: s, opts: opts.withDefaults(), cancel: batch.NewSignal()}
}

// CancelDeleted begins to delete the endpoints of deleted accounts, and to
// cancel the deliveries of deleted endpoints, now, where
// Run is under way, instead of in the next round. It does not block.
func (j *Janitor) CancelDeleted() { j.cancel.Set() }

// chore is one kind of work. do does a chunk of it and says whether there may
// be more. now, where it is not nil, ends the wait for the next round.
type chore struct {
	name string
	do   func(ctx context.Context) (more bool, err error)
	now  <-chan struct{}
}

// Run does every chore at once and then every Options.Every, until ctx ends.
// It always returns nil.
func (j *Janitor) Run(ctx context.Context) error {
	var chores sync.WaitGroup
	for _, c := range j.chores() {
		chores.Go(func() { j.repeat(ctx, c) })
	}
	chores.Wait()
	return nil
}

func (j *Janitor) chores() []chore {
	counted := func(do func(ctx context.Context) (int, error)) func(context.Context) (bool, error) {
		return func(ctx context.Context) (bool, error) {
			n, err := do(ctx)
			return n >= j.opts.Chunk, err
		}
	}
	return []chore{
		{name: "make partitions", do: func(ctx context.Context) (bool, error) {
			return false, j.store.MakePartitions(ctx)
		}},
		{name: "expire deliveries", do: counted(func(ctx context.Context) (int, error) {
			return j.store.Expire(ctx, j.opts.Chunk)
		})},
		{name: "cancel deliveries of deleted endpoints", now: j.cancel, do: counted(func(ctx context.Context) (int, error) {
			deleted, err := j.store.DeleteEndpoints(ctx, j.opts.Chunk)
			if err != nil {
				return 0, err
			}
			cancelled, err := j.store.CancelDeleted(ctx, j.opts.Chunk)
			return max(deleted, cancelled), err
		})},
		{name: "forget idempotency keys", do: counted(func(ctx context.Context) (int, error) {
			return j.store.ForgetKeys(ctx, j.opts.KeysAge, j.opts.Chunk)
		})},
		{name: "assess endpoint health", do: (&assessor{Janitor: j}).chunk},
	}
}

// repeat does a chore until ctx ends. A chunk that left more is followed by
// the next after a breath, which leaves the store to others in between.
func (j *Janitor) repeat(ctx context.Context, c chore) {
	const breath, firstRetry = 10 * time.Millisecond, time.Second
	begun := time.Now()
	for retry := firstRetry; ; {
		wait := j.opts.Every
		more, err := c.do(ctx)
		if !more && ctx.Err() == nil {
			j.opts.Hooks.ChoreDone.Call(observe.ChoreDone{Name: c.name, Took: time.Since(begun), Err: err})
		}
		switch {
		case err != nil && ctx.Err() == nil:
			j.opts.Log.WarnContext(ctx, "chore failed", "chore", c.name, "error", err, "retry_in", retry.String())
			wait, retry = retry, min(2*retry, j.opts.Every)
		case more:
			wait, retry = breath, firstRetry
		default:
			retry = firstRetry
		}
		if !batch.SleepOr(ctx, wait, c.now) {
			return
		}
		if !more {
			begun = time.Now()
		}
	}
}
