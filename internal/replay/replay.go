// Package replay runs replay jobs. A job replays or discards the deliveries that its filter
// selects, at the pace of the job. A backfill makes the first deliveries of events that an endpoint
// wants.
//
// A [Runner] claims jobs from the store, and works on a few of them at once. For each job it finds
// the next matches, waits until the pace allows them, and commits them as a chunk. One transaction
// stores the deliveries of a chunk and the position of the job. So if another node continues a job,
// no delivery is made twice and none is missed:
//
//	0.0 s   A claims a job of 500 a second, for 8 s
//	0.05 s  chunk 1: 25 deliveries, cursor at the 25th match, and a new lease of 8 s
//	0.1 s   chunk 2; then A dies
//	8.1 s   the lease has ended. B finds the job when it polls, claims it with a new token,
//	        and continues behind the 50th match
//
// If A was only slow, the store refuses its next chunk, because B has a newer token. A node that
// shuts down gives its jobs back, and another node can claim them at once. A pause, a resume and a
// cancel change the job in the store, which refuses the next chunk of the node that runs the job.
//
// Further promises:
//
//   - A job makes at most PerSecond deliveries a second, over any time longer than a
//     second. It makes no fewer while the store and the endpoints can take them, and
//     it has one of the places of a node (Options.Jobs).
//   - Its deliveries wait in the bulk lane, below live traffic. Of each endpoint, only
//     some of them wait at once (Options.Pending). Otherwise the queue would fill with
//     deliveries that could be made later, and a cancel would save nothing.
//   - An endpoint with that many pending deliveries is held: the job continues with
//     the matches of other endpoints, and with the matches of the held endpoint
//     whenever it has room.
//   - The matches of one endpoint are replayed oldest first, held or not.
//   - Jobs take turns. A job whose matches all wait gives up its place within seconds
//     and rests; one that makes progress gives it up after half a minute. A free place
//     goes to the job that has been due for longest. So jobs that wait, or have a low
//     pace, do not stop others.
//   - While the store has no room, jobs are given back and none is claimed. They
//     continue when there is room again.
//   - Errors that can pass by themselves are retried for ever. If a step fails again
//     and again for another reason, the job ends as failed.
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

// Endpoints returns the present policies of endpoints, and is notified of endpoints with due
// deliveries. [routing.Table] implements it.
type Endpoints interface {
	// Lookup returns an endpoint; false: it is unknown or deleted.
	Lookup(id postrider.EndpointID) (*store.EndpointSnapshot, bool)
	// Notify says that deliveries in any lane of the endpoint may be due. It must not block.
	Notify(id postrider.EndpointID)
	// Wants reports whether an endpoint wants an event, by its present subscription.
	Wants(id postrider.EndpointID, e *postrider.Event) bool
	// Refresh applies every change of an endpoint that was committed before the call.
	Refresh(ctx context.Context) error
}

// Dispatcher sends the deliveries that jobs make. [dispatch.Dispatcher] implements it.
type Dispatcher interface {
	// Queued says that new deliveries in these lanes are committed.
	Queued(lanes []store.DueLane)
}

// Options tunes a runner. Except for IDs, the zero value of each field is the production default.
type Options struct {
	// IDs makes the ids of the new deliveries.
	IDs *store.IDs
	// Pending is how many of its deliveries a job may have pending at one endpoint; the last chunk
	// may exceed it. Default 5000.
	Pending int
	// Jobs is how many jobs this node works on at once; others wait for their turn. Default 8.
	Jobs int
	// Poll is the interval in which the runner looks for jobs that other nodes have created or
	// given back. Default 1 s.
	Poll time.Duration
	// Room returns why the store has no room for deliveries, such as a *postrider.FullError; nil if
	// it has room. Default: it always has.
	Room func() error
	// Hooks are called when a job ends by itself. Default: none.
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

// New returns a runner for the jobs of s.
func New(s Store, endpoints Endpoints, dispatcher Dispatcher, opts Options) *Runner {
	return &Runner{store: s, endpoints: endpoints, dispatcher: dispatcher, opts: opts.withDefaults(), woken: batch.NewSignal()}
}

// Wake makes the runner look for jobs at once. It never blocks.
func (r *Runner) Wake() { r.woken.Set() }

// Run claims jobs and works on them until ctx is cancelled. It then gives its jobs back, and
// returns nil.
func (r *Runner) Run(ctx context.Context) error {
	var workers sync.WaitGroup
	defer workers.Wait()
	busy := make(chan struct{}, r.opts.Jobs) // holds one element for each job of this node
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
				r.Wake() // a job may wait for this place
			})
		}
		if !batch.SleepOr(ctx, r.opts.Poll, r.woken) {
			return nil
		}
	}
}

// lease is how long this node holds a job after the claim and after each chunk. Other nodes look
// for jobs every second, so a job continues within ten seconds of a node's death.
const lease = 8 * time.Second

// claim leases the job that has waited longest; nil if there is none.
func (r *Runner) claim(ctx context.Context) (*worker, error) {
	token := postrider.Token(1 + rand.Int64N(1<<62))
	jobs, err := r.store.ClaimReplayJobs(ctx, store.ClaimReplayJobs{Max: 1, Token: token, Lease: lease})
	if err != nil || len(jobs) == 0 {
		return nil, err
	}
	return newWorker(r, jobs[0], token), nil
}

// ended reads a job that has ended from the store and calls the hook with it.
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

// Undelivered returns the next matches of a backfill after its cursor. The API counts with it, so a
// count and the job agree.
//
// A backfill begins with the subscription that its endpoint has when the backfill is created, even if
// this node has not heard of it yet. A later change of the subscription applies to the events that the
// backfill has not looked at.
func (r *Runner) Undelivered(ctx context.Context, job postrider.ReplayJob) (store.ReplayMatches, error) {
	if job.Cursor.IsZero() {
		if err := r.endpoints.Refresh(ctx); err != nil {
			return store.ReplayMatches{}, err
		}
	}
	return store.FindUndelivered(ctx, r.store, job, func(e *postrider.Event) bool {
		return r.endpoints.Wants(job.Filter.Endpoint, e)
	})
}

// passes reports whether an error may pass by itself.
func passes(err error) bool {
	return errors.Is(err, postrider.ErrBusy) || errors.Is(err, context.DeadlineExceeded)
}
