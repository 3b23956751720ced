package ingest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// A fan-out job is for an event that matched too many endpoints for the rows of one commit. The
// publish commits the event and the job. The job's deliveries are made later, in chunks, in the
// order of the endpoints' ids. The cursor of a job is the last endpoint that has its delivery. It
// moves in the same transaction as the chunk, so if another node continues the job, no delivery is
// made twice or missed:
//
//	 0.0 s  A publishes an event for 5,000 endpoints: event and job are committed, A
//	        claims the job, and its lease of 15 s begins
//	 0.1 s  chunk 1: 1,000 deliveries, cursor at the 1,000th endpoint, and a new lease
//	 0.2 s  chunk 2; then A dies
//	15.2 s  the lease has ended. B finds the job when it polls, claims it with a new
//	        token, and continues behind the 2,000th endpoint
//
// If A was only slow, its next chunk fails, because the job has another token now (ErrFenced), and
// B goes on with the job. Between two chunks a job waits, within its lease, for publishers
// (waitForDeliveries) and for its own deliveries (waitForBulk).
//
// Jobs with slow filters take turns by account, so an account with many of them does not delay the others.
// At the end of its turn a job is given back: its lease ends, and the next claims leave its account out.

const (
	// fanOutLease is how long this node keeps a job after the claim and after each chunk.
	fanOutLease = 15 * time.Second
	// fanOutTurn is how long filters are compared for a chunk. If the chunk is not full then, the job's turn
	// is over.
	fanOutTurn = time.Second
	// fanOutLate is the age of an event from which on such a job makes its account wait.
	fanOutLate = 5 * time.Second
)

// runFanOuts runs fan-out jobs, one at a time, until ctx is cancelled. It runs this node's jobs at
// once. Every FanOutPoll it looks for jobs that other nodes have left behind.
func (in *Ingest) runFanOuts(ctx context.Context) {
	poll := time.NewTicker(in.opts.FanOutPoll)
	defer poll.Stop()
	for {
		found, err := in.fanOutNext(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			in.opts.Log.WarnContext(ctx, "fan-out job interrupted", "error", err)
		case found:
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-in.fanOuts:
		case <-poll.C:
		}
	}
}

// fanOutNext runs the fan-out job that has waited longest; false: there is none. A job is
// interrupted by an error, or because the store has no room. It is claimed again when its lease has
// ended and there is room.
func (in *Ingest) fanOutNext(ctx context.Context) (bool, error) {
	if in.opts.Room() != nil {
		return false, nil //nolint:nilerr // the next look asks again
	}
	jobs, err := in.claimFanOut(ctx)
	if err != nil || len(jobs) == 0 {
		return false, err
	}
	job := jobs[0]
	// The job is for the endpoints that existed at the publish of its event, with their subscriptions of
	// that time, so the table must have all of them.
	if err := in.table.Refresh(ctx); err != nil {
		return false, err
	}
	for {
		chunk, err := in.fanOutChunk(ctx, &job)
		if err != nil {
			if errors.Is(err, postrider.ErrFenced) {
				return true, nil // another node has the job
			}
			return false, fmt.Errorf("fan out event %s: %w", job.Event.ID, err)
		}
		if chunk.Done {
			return true, nil
		}
		in.waitForDeliveries(ctx)
		in.waitForBulk(ctx)
		if err := ctx.Err(); err != nil {
			return false, err // the job continues when its lease has ended
		}
		if err := in.opts.Room(); err != nil {
			return false, fmt.Errorf("fan out event %s: %w", job.Event.ID, err)
		}
		if chunk.Lease == 0 {
			in.turned = append(in.turned, job.Event.Account)
			return true, nil
		}
	}
}

// claimFanOut claims a job of an account that has not had its turn. If there is none, the turns begin again.
func (in *Ingest) claimFanOut(ctx context.Context) ([]store.FanOut, error) {
	c := store.ClaimFanOuts{Max: 1, Except: in.turned, Token: postrider.Token(1 + rand.Int64N(1<<62)), Lease: fanOutLease}
	jobs, err := in.inbox.ClaimFanOuts(ctx, c)
	if err == nil && len(jobs) == 0 && len(in.turned) > 0 {
		in.turned, c.Except = nil, nil
		jobs, err = in.inbox.ClaimFanOuts(ctx, c)
	}
	return jobs, err
}

// waitForBulk waits while more than a chunk of bulk deliveries waits to start. So a job proceeds as
// fast as its deliveries are sent, and the queue does not hold 100,000 due rows. It waits for at
// most a third of the job's lease, because the next chunk must be committed before the lease ends.
func (in *Ingest) waitForBulk(ctx context.Context) {
	const look = 20 * time.Millisecond
	for waited := time.Duration(0); waited < fanOutLease/3 && in.dispatch.BulkWaits() > in.opts.FanOutChunk; waited += look {
		if !batch.Sleep(ctx, look) {
			return
		}
	}
}

// fanOutChunk commits one chunk of a job and moves its cursor. The end of ctx does not interrupt
// the commit. Otherwise the chunk could be stored although the commit seemed to fail: its credit
// would be free, and nobody would own its leases until they end and are recorded as lost.
//
// A chunk without a lease gives the job back.
func (in *Ingest) fanOutChunk(ctx context.Context, job *store.FanOut) (chunk store.FanOutChunk, err error) {
	until := time.Now().Add(fanOutTurn)
	matched, through, err := in.table.MatchNext(ctx, job, in.opts.FanOutChunk, until)
	if err != nil {
		return chunk, err
	}
	chunk = store.FanOutChunk{
		Event: job.Event.ID, Token: job.Token, From: job.Cursor, To: through, Done: through == job.UpTo, Lease: fanOutLease,
	}
	if !chunk.Done && len(matched) < in.opts.FanOutChunk && time.Now().After(until) {
		chunk.Lease = 0
		if in.opts.Clock.Wall().Sub(job.Event.CreatedAt) > fanOutLate {
			in.table.FanOutLate(job.Event.Account)
		}
	}
	for _, to := range matched {
		id := store.NewID[postrider.DeliveryID](in.opts.IDs) // of today, however old the event is
		chunk.Deliveries = append(chunk.Deliveries, delivery(id, to, postrider.LaneBulk))
	}
	batches := []store.Batch{{{Event: job.Event, Deliveries: chunk.Deliveries}}}
	commit, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	var skipped observe.Skipped
	countSkipped(&skipped, chunk.Deliveries)
	begun := time.Now()
	err = in.dispatch.Admit(admissions(batches), func(g schedule.Grant) (c schedule.DeliveriesCommitted, err error) {
		c.Started = make([]postrider.Claimed, 0, lease(batches, g))
		if err := in.inbox.FanOut(commit, chunk); err != nil {
			return c, err
		}
		in.addDeliveries(&c, &batches[0][0])
		return c, nil
	})
	in.opts.Hooks.Committed.Call(observe.Committed{
		Chunk: &observe.Chunk{Event: &job.Event, Behind: chunk.From}, Deliveries: len(chunk.Deliveries), Skipped: skipped,
		Begun: begun, Took: time.Since(begun), Err: err,
	})
	job.Cursor = chunk.To
	return chunk, err
}
