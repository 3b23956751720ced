package replay

import (
	"context"
	"errors"
	"time"

	"golang.org/x/time/rate"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
)

const (
	// chunksPerSecond divides the pace into chunks: so small that a publish does not wait
	// long for the commit of one, and that endpoints get a stream and not bursts.
	chunksPerSecond = 20
	// commitTime is how long a commit may take, also after the end of ctx.
	commitTime = 5 * time.Second
	// fullPoll is the interval in which a job looks whether its endpoints have taken some of
	// its pending deliveries.
	fullPoll = 500 * time.Millisecond
	// retryAfter is the wait after a step that failed.
	retryAfter = time.Second
	// maxFailures is how many times in a row a step may fail for a reason that does not
	// pass.
	maxFailures = 10
)

// worker runs one job under one lease. It belongs to one goroutine.
type worker struct {
	*Runner
	job   postrider.ReplayJob // its Cursor is the one that is stored
	token postrider.Token
	pace  *rate.Limiter // a token for each delivery

	found    []store.ReplayItem   // matches after the cursor that are not committed
	foundTo  postrider.DeliveryID // all matches up to this id are committed or in found
	foundAll bool                 // there is no match after foundTo
	pending  int                  // deliveries of the job; see [store.Replays.ReplayChunk]
}

// newWorker returns the worker of a claimed job. The token bucket begins empty, and holds the
// tokens of one second, so that the job catches up after a slow commit.
func newWorker(r *Runner, job postrider.ReplayJob, token postrider.Token) *worker {
	w := &worker{Runner: r, job: job, token: token, foundTo: job.Cursor}
	w.pace = rate.NewLimiter(rate.Limit(job.PerSecond), job.PerSecond)
	w.pace.AllowN(time.Now(), job.PerSecond)
	return w
}

// run makes chunk after chunk, until the job ends, ctx ends, or another node or a person has
// taken the job.
func (w *worker) run(ctx context.Context) {
	for failures := 0; ; {
		done, err := w.step(ctx)
		switch {
		case err == nil && done:
			w.ended(ctx, w.job.ID)
			return
		case err == nil:
			failures = 0
			continue
		case errors.Is(err, postrider.ErrFenced):
			return
		case ctx.Err() != nil:
			w.giveBack(ctx)
			return
		}
		failures++
		w.opts.Log.WarnContext(ctx, "replay job interrupted", "job", w.job.ID, "failures", failures, "error", err)
		if passes(err) {
			failures = min(failures, maxFailures-1)
		}
		if failures >= maxFailures && w.fail(ctx, err) {
			return
		}
		batch.Sleep(ctx, retryAfter)
		if err := w.renew(ctx); errors.Is(err, postrider.ErrFenced) {
			return
		}
	}
}

// step commits the next chunk; done: it was the last one.
func (w *worker) step(ctx context.Context) (done bool, err error) {
	if err := w.find(ctx); err != nil {
		return false, err
	}
	n := min(len(w.found), max(1, w.job.PerSecond/chunksPerSecond))
	if err := w.pace.WaitN(ctx, n); err != nil {
		return false, err
	}
	if err := w.waitForEndpoints(ctx); err != nil {
		return false, err
	}
	c := store.ReplayChunk{From: w.job.Cursor, To: w.foundTo, Items: w.found[:n], Lease: lease}
	switch {
	case n < len(w.found):
		c.To = w.found[n-1].Match
	case w.foundAll:
		c.End = postrider.ReplayDone
	}
	for i := range c.Items {
		w.fill(&c.Items[i])
	}
	if err := w.commit(ctx, c); err != nil {
		return false, err
	}
	w.found = w.found[n:]
	w.notify(c.Items)
	return c.End != "", nil
}

// find reads the next page of matches, when all matches of the last page are committed. A page
// without matches may be followed by others.
func (w *worker) find(ctx context.Context) error {
	if len(w.found) > 0 || w.foundAll {
		return nil
	}
	from := w.job
	from.Cursor = w.foundTo
	page, err := store.FindReplayMatches(ctx, w.store, from)
	if err != nil {
		return err
	}
	w.found, w.foundTo, w.foundAll = page.Items, page.To, page.Done
	return nil
}

// fill sets the replay's id, expiry and order by its endpoint's present policy. For a deleted
// endpoint it takes the defaults; the store skips the match.
func (w *worker) fill(item *store.ReplayItem) {
	item.ID = store.NewID[postrider.DeliveryID](w.ids)
	policy := postrider.DefaultPolicy()
	if e, ok := w.endpoints.Lookup(item.Endpoint); ok {
		policy = e.Endpoint.Policy
	}
	item.Expiry, item.Ordered = policy.Expiry, ""
	if policy.Order == postrider.OrderByKey {
		item.Ordered = policy.OnDead
	}
}

// commit stores a chunk and moves the cursor. The end of ctx does not interrupt it: a node
// that does not know whether its chunk is stored cannot give the job back, and the next node
// waits for the end of the lease.
func (w *worker) commit(ctx context.Context, c store.ReplayChunk) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	c.Job, c.Token = w.job.ID, w.token
	pending, err := w.store.ReplayChunk(ctx, c)
	if err != nil {
		return err
	}
	w.job.Cursor, w.pending = c.To, pending
	return nil
}

// waitForEndpoints waits while many deliveries of the job are pending, and renews the lease
// meanwhile. Their endpoints are slower than the pace, paused, or away.
func (w *worker) waitForEndpoints(ctx context.Context) error {
	for w.pending >= store.MaxReplaysPending {
		if !batch.Sleep(ctx, fullPoll) {
			return ctx.Err()
		}
		if err := w.renew(ctx); err != nil {
			return err
		}
	}
	return nil
}

// renew renews the lease, and counts the pending deliveries.
func (w *worker) renew(ctx context.Context) error {
	return w.commit(ctx, store.ReplayChunk{From: w.job.Cursor, To: w.job.Cursor, Lease: lease})
}

// notify reports the endpoints of a chunk, each once, so that they are claimed from at once.
func (w *worker) notify(items []store.ReplayItem) {
	told := make(map[postrider.EndpointID]struct{}, len(items))
	for _, item := range items {
		if _, known := told[item.Endpoint]; !known {
			told[item.Endpoint] = struct{}{}
			w.endpoints.Notify(item.Endpoint)
		}
	}
}

// giveBack ends the lease, so that another node need not wait for its end.
func (w *worker) giveBack(ctx context.Context) {
	if err := w.commit(ctx, store.ReplayChunk{From: w.job.Cursor, To: w.job.Cursor}); err != nil {
		w.opts.Log.DebugContext(ctx, "replay job not given back", "job", w.job.ID, "error", err)
	}
}

// fail ends the job as failed. It reports whether that is stored. The cause stays in the log:
// people who see the job may not see the inside of the server.
func (w *worker) fail(ctx context.Context, cause error) bool {
	w.opts.Log.ErrorContext(ctx, "replay job failed", "job", w.job.ID, "error", cause)
	err := w.commit(ctx, store.ReplayChunk{
		From: w.job.Cursor, To: w.job.Cursor, End: postrider.ReplayFailed,
		Error: "the same step failed ten times; the server's log says why",
	})
	if err == nil {
		w.ended(ctx, w.job.ID)
	}
	return err == nil || errors.Is(err, postrider.ErrFenced)
}
