// Package replay runs replay jobs: it replays or discards the deliveries that a job selects,
// at the job's pace.
//
// A [Runner] claims jobs from the store, and works on a few of them at once. For each it
// finds the next matches, waits until the pace allows them, and commits them as a chunk. The
// chunk's deliveries and the job's position are one transaction, so a job that another node
// continues makes no delivery twice and misses none:
//
//	0.0 s   A claims a job of 500 a second, for 8 s
//	0.05 s  chunk 1: 25 deliveries, cursor at the 25th match, and a new lease of 8 s
//	0.1 s   chunk 2; then A dies
//	8.1 s   the lease has ended. B finds the job when it polls, claims it with a new token,
//	        and continues behind the 50th match
//
// If A was only slow, its next chunk is fenced, and B has the job. A node that stops in order
// gives its jobs back, and the next one has them at once. A pause, a resume and a cancel change
// the job in the store, which fences the node that has it.
//
// What else holds:
//
//   - A job makes no more than PerSecond deliveries a second, over any time longer than a
//     second, and no less while the store and the endpoints can take them.
//   - Its deliveries wait in the bulk lane, below live traffic, and of each endpoint few of
//     them at once (Options.Pending): the queue must not fill with what could be made later
//     as well, and a cancel should save something.
//   - An endpoint that has so many pending is held: the job goes on with the matches of the
//     others, and with those of the held one whenever it has room.
//   - The matches of one endpoint are replayed oldest first, held or not.
//   - While the store has no room, jobs are given back and none is claimed. They go on when
//     there is room again.
//   - Errors that pass are repeated for ever. A step that fails for other reasons again and
//     again ends the job as failed.
package replay

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// Store is the part of the store that a runner needs.
type Store interface {
	store.Replays
	store.Lists
}

// Endpoints knows the present policies of endpoints, and learns which of them have something
// due. [routing.Table] is one.
type Endpoints interface {
	// Lookup returns an endpoint; false: it is unknown or deleted.
	Lookup(id postrider.EndpointID) (*store.EndpointSnapshot, bool)
	// Notify says that deliveries of any lane may be due for the endpoint. It must not block.
	Notify(id postrider.EndpointID)
}

// Dispatcher sends the deliveries that jobs make. [dispatch.Dispatcher] is one.
type Dispatcher interface {
	// Queued says that new deliveries of these lanes are committed.
	Queued(lanes []store.DueLane)
}

// Options tunes a runner. The zero value of each field but IDs is the production default.
type Options struct {
	// IDs makes the ids of the new deliveries.
	IDs *store.IDs
	// Pending is how many of its deliveries a job may have pending at one endpoint, give or
	// take a chunk. Default 5000.
	Pending int
	// Jobs is how many jobs this node works on at once; others wait. Default 8.
	Jobs int
	// Poll is the interval in which the runner looks for jobs that other nodes have made
	// or left. Default 1 s.
	Poll time.Duration
	// Room returns why the store has no room for deliveries, such as a
	// *postrider.FullError; nil: it has. Default: it has.
	Room func() error
	// Hooks are called when a job has ended by itself. Default: none.
	Hooks observe.Hooks
	// Log receives a line for each interrupted step. Default: discard.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	o.Pending = cmp.Or(o.Pending, 5000)
	o.Jobs = cmp.Or(o.Jobs, 8)
	o.Poll = cmp.Or(o.Poll, time.Second)
	if o.Room == nil {
		o.Room = func() error { return nil }
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Runner runs replay jobs. Make it with [New].
type Runner struct {
	store      Store
	endpoints  Endpoints
	dispatcher Dispatcher
	opts       Options
	woken      batch.Signal
}

// New returns a runner.
func New(s Store, endpoints Endpoints, dispatcher Dispatcher, opts Options) *Runner {
	return &Runner{store: s, endpoints: endpoints, dispatcher: dispatcher, opts: opts.withDefaults(), woken: batch.NewSignal()}
}

// Wake makes the runner look for jobs at once. It never blocks.
func (r *Runner) Wake() { r.woken.Set() }

// Run claims jobs and works on them until ctx is cancelled. It then gives back the jobs that
// it has, and returns nil.
func (r *Runner) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	busy := make(chan struct{}, r.opts.Jobs) // holds one for each job of this node
	for {
		for len(busy) < cap(busy) && r.opts.Room() == nil {
			w, err := r.claim(ctx)
			if err != nil && ctx.Err() == nil {
				r.opts.Log.WarnContext(ctx, "replay jobs not claimed", "error", err)
			}
			if w == nil {
				break
			}
			busy <- struct{}{}
			workers.Go(func() {
				w.run(ctx)
				<-busy
				r.Wake() // there may be a job that waits for this place
			})
		}
		if !batch.SleepOr(ctx, r.opts.Poll, r.woken) {
			return nil
		}
	}
}

// lease is how long this node has a job after the claim and after each chunk. With the interval
// in which other nodes look for jobs, a job goes on within ten seconds of a node's death.
const lease = 8 * time.Second

// claim leases the job that has waited longest; nil: there is none.
func (r *Runner) claim(ctx context.Context) (*worker, error) {
	token := postrider.Token(1 + rand.Int64N(1<<62))
	jobs, err := r.store.ClaimReplayJobs(ctx, store.ClaimReplayJobs{Max: 1, Token: token, Lease: lease})
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	return newWorker(r, jobs[0], token), nil
}

// ended calls the hook for a job that has ended, as the store has it.
func (r *Runner) ended(ctx context.Context, id postrider.ReplayID) {
	if r.opts.Hooks.ReplayEnded == nil {
		return
	}
	page, err := r.store.ReplayJobs(ctx, store.ReplayJobQuery{ID: id})
	if err != nil || len(page.Items) == 0 {
		r.opts.Log.WarnContext(ctx, "the end of a replay job is not reported", "job", id, "error", err)
		return
	}
	r.opts.Hooks.ReplayEnded.Call(page.Items[0])
}

// passes reports whether an error may pass by itself.
func passes(err error) bool {
	return errors.Is(err, postrider.ErrBusy) || errors.Is(err, context.DeadlineExceeded)
}
