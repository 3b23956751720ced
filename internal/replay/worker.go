package replay

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/time/rate"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/store"
)

const (
	// chunksPerSecond divides the pace into chunks. Chunks are small for two reasons: a publish
	// does not wait long for the commit of a chunk, and endpoints get a stream instead of bursts.
	chunksPerSecond = 50
	// commitTime is the time limit of a commit, also after the end of ctx.
	commitTime = 5 * time.Second
	// fullPoll is the interval in which a job that waits for endpoints counts its pending
	// deliveries.
	fullPoll = 500 * time.Millisecond
	// maxHeld is how many endpoints a job holds. If a further endpoint is full, the job waits for
	// it. Each chunk stores the positions of the held endpoints, about 7 KiB for 100.
	maxHeld = 100
	// placeTime is how long a job keeps its place on the node. Then it gives itself back, so that
	// jobs that have been due for longer go first.
	placeTime = 30 * time.Second
	// waitTime is how long a job keeps its place after its last progress. In that time a fast
	// endpoint has room again.
	waitTime = 5 * time.Second
	// restTime is the time until a job is due again that gave itself back because all its matches
	// wait.
	restTime = 3 * time.Second
	// findTime is how long a job looks for matches before it stores how far it came and renews its
	// lease.
	findTime = time.Second
	// retryAfter is the wait after a step that failed.
	retryAfter = time.Second
	// maxFailures is how many times in a row a step may fail for a reason that does not
	// pass.
	maxFailures = 10
)

// worker runs one job under one lease. One goroutine uses it.
type worker struct {
	*Runner
	job   postrider.ReplayJob // job.ReplayPosition is the stored position
	token postrider.Token
	pace  *rate.Limiter // one token for each delivery

	claimedAt time.Time
	movedAt   time.Time     // when the position moved last; zero: not since the claim
	rest      time.Duration // restTime if the job gives itself back because its matches wait, or zero

	lines   []*line                      // the first has the matches of all endpoints that are not held
	turn    int                          // index of the line that was used last
	pending map[postrider.EndpointID]int // deliveries of the job, as counted last, and those made since
	countAt time.Time                    // when pending is counted again
}

// line is a sequence of matches, oldest first.
type line struct {
	endpoint postrider.EndpointID // zero: of all endpoints that have no line of their own
	at       postrider.DeliveryID // all matches up to this id are committed
	found    []store.ReplayItem   // matches after it
	foundTo  postrider.DeliveryID // all matches up to this id are committed or in found
	foundAll bool                 // there is no match after foundTo
	done     bool                 // all matches are committed
}

// newWorker returns the worker of a claimed job. The token bucket starts empty. It can hold the
// tokens of one second, so that the job catches up after a slow commit. A line whose matches are all
// committed has the position of the job's id.
func newWorker(r *Runner, job postrider.ReplayJob, token postrider.Token) *worker {
	w := &worker{Runner: r, job: job, token: token, claimedAt: time.Now(), lines: []*line{{at: job.Cursor, foundTo: job.Cursor}}}
	for endpoint, at := range job.Held {
		w.lines = append(w.lines, &line{endpoint: endpoint, at: at, foundTo: at, done: at == postrider.DeliveryID(job.ID)})
	}
	w.pace = rate.NewLimiter(rate.Limit(job.PerSecond), job.PerSecond)
	w.pace.AllowN(time.Now(), job.PerSecond)
	return w
}

// run commits chunk after chunk. It returns when the job ends, ctx ends, the store has no room,
// another node or a person has taken the job, or the job gives up its place to others.
func (w *worker) run(ctx context.Context) {
	for failures := 0; ; {
		done, err := w.step(ctx)
		switch {
		case err == nil && done:
			w.ended(ctx, w.job.ID)
			return
		case err == nil && (w.rest > 0 || time.Since(w.claimedAt) > placeTime):
			w.giveBack(ctx)
			return
		case err == nil:
			failures = 0
			continue
		case errors.Is(err, postrider.ErrFenced):
			return
		case ctx.Err() != nil:
			w.giveBack(ctx)
			return
		case w.opts.Room() != nil:
			w.opts.Log.WarnContext(ctx, "replay job stopped until the store has room", "job", w.job.ID, "error", err)
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

// step commits the next chunk. done reports that it was the last one.
func (w *worker) step(ctx context.Context) (done bool, err error) {
	if err := w.opts.Room(); err != nil {
		return false, err
	}
	if err := w.count(ctx); err != nil {
		return false, err
	}
	l, err := w.next(ctx)
	if err != nil {
		return false, err
	}
	if l == nil {
		return false, w.waitForEndpoints(ctx)
	}
	n := min(len(l.found), max(1, w.job.PerSecond/chunksPerSecond))
	if err := w.pace.WaitN(ctx, n); err != nil {
		return false, err
	}
	c := store.ReplayChunk{Items: l.found[:n], Lease: lease}
	to, last := l.foundTo, l.foundAll
	if n < len(l.found) {
		to, last = l.found[n-1].Position(), false
	}
	if n == 0 && !last && to == l.at { // the next event of a backfill has a fan-out job
		return false, w.waitForEndpoints(ctx)
	}
	c.To = w.moved(l, to)
	if last && !slices.ContainsFunc(w.lines, func(other *line) bool { return other != l && !other.done }) {
		c.End = postrider.ReplayDone
		c.Notices = w.notices(c.End)
	}
	for i := range c.Items {
		w.fill(&c.Items[i])
	}
	if err := w.commit(ctx, c); err != nil {
		return false, err
	}
	if to != l.at {
		w.movedAt = time.Now()
	}
	l.at, l.found, l.done = to, l.found[n:], last
	w.notify(c.Items)
	return c.End != "", nil
}

// count counts the pending deliveries of the job, at most twice a second. If counting takes long,
// it counts less often.
func (w *worker) count(ctx context.Context) error {
	begun := time.Now()
	if begun.Before(w.countAt) {
		return nil
	}
	pending, err := w.store.ReplaysPending(ctx, w.job.ID)
	if err != nil {
		return err
	}
	w.pending, w.countAt = pending, time.Now().Add(max(fullPoll, 20*time.Since(begun)))
	return nil
}

// next returns the line whose turn it is; nil if all remaining lines wait for their endpoints. It
// does not look for matches of a held endpoint that is full, because a job that rests would look
// for them after each rest.
func (w *worker) next(ctx context.Context) (*line, error) {
	for range w.lines {
		w.turn = (w.turn + 1) % len(w.lines)
		l := w.lines[w.turn]
		if l.done || w.pending[l.endpoint] >= w.opts.Pending {
			continue
		}
		if err := w.find(ctx, l); err != nil {
			return nil, err
		}
		if w.hasRoom(l) {
			return l, nil
		}
	}
	return nil, nil
}

// find reads the next page of a line's matches, once all matches of the last page are committed. It
// reads on after pages without matches, for findTime. After that there may be further pages.
func (w *worker) find(ctx context.Context, l *line) error {
	if len(l.found) > 0 || l.foundAll {
		return nil
	}
	from := w.job
	from.Cursor = l.foundTo
	if !l.endpoint.IsZero() {
		from.Filter.Endpoint = l.endpoint
	}
	for begun := time.Now(); ; from.Cursor = l.foundTo {
		page, err := w.page(ctx, from)
		if err != nil {
			return err
		}
		l.found, l.foundTo, l.foundAll = page.Items, page.To, page.Done
		if len(page.Items) > 0 || page.Done || page.To == from.Cursor || time.Since(begun) > findTime {
			break
		}
	}
	if l.endpoint.IsZero() {
		l.found = slices.DeleteFunc(l.found, w.held)
	}
	return nil
}

// page reads a page of the job's matches after its cursor.
func (w *worker) page(ctx context.Context, job postrider.ReplayJob) (store.ReplayMatches, error) {
	if job.Action == postrider.ActionBackfill {
		return w.Undelivered(ctx, job)
	}
	return store.FindReplayMatches(ctx, w.store, job)
}

// held reports whether the endpoint of a match has a line of its own.
func (w *worker) held(item store.ReplayItem) bool {
	return slices.ContainsFunc(w.lines[1:], func(l *line) bool { return l.endpoint == item.Endpoint })
}

// hasRoom reports whether the matches that the line has found may be committed. It takes full
// endpoints out of the first line and gives each a line of its own. The new line begins at the
// position of the first line, because all matches before that position are committed. The next
// chunk stores the new line.
func (w *worker) hasRoom(l *line) bool {
	for _, item := range l.found {
		switch {
		case w.pending[item.Endpoint] < w.opts.Pending, w.makesAll():
		case l != w.lines[0] || !w.job.Filter.Endpoint.IsZero() || len(w.lines) > maxHeld:
			return false
		case !w.held(item):
			w.lines = append(w.lines, &line{endpoint: item.Endpoint, at: l.at, foundTo: l.at})
		}
	}
	if l == w.lines[0] {
		l.found = slices.DeleteFunc(l.found, w.held)
	}
	return true
}

// makesAll reports whether the job makes its deliveries however many are pending. A backfill in order
// does: its endpoint is paused until the job has ended, so that new events wait behind old ones.
func (w *worker) makesAll() bool {
	e, known := w.endpoints.Lookup(w.job.Filter.Endpoint)
	return w.job.Action == postrider.ActionBackfill && known && e.Endpoint.Policy.Order == postrider.OrderByKey
}

// moved returns the position of the job after line l has committed all matches up to an id.
func (w *worker) moved(l *line, to postrider.DeliveryID) postrider.ReplayPosition {
	p := postrider.ReplayPosition{Cursor: w.lines[0].at, Held: map[postrider.EndpointID]postrider.DeliveryID{}}
	for _, held := range w.lines[1:] {
		p.Held[held.endpoint] = held.at
	}
	if l.endpoint.IsZero() {
		p.Cursor = to
	} else {
		p.Held[l.endpoint] = to
	}
	return p
}

// fill sets the id of the replay, and its expiry and order by the endpoint's present policy. For a
// deleted endpoint it uses the default policy; the store skips such a match.
func (w *worker) fill(item *store.ReplayItem) {
	item.ID = store.NewID[postrider.DeliveryID](w.opts.IDs)
	policy := postrider.DefaultPolicy()
	if e, ok := w.endpoints.Lookup(item.Endpoint); ok {
		policy = e.Endpoint.Policy
	}
	item.Expiry, item.Ordered = policy.Expiry, ""
	if policy.Order == postrider.OrderByKey {
		item.Ordered = policy.OnDead
	}
}

// commit stores a chunk and moves the position of the job. The end of ctx does not interrupt it. A
// node that does not know whether its chunk is stored could not give the job back, and the next
// node would have to wait until the lease ends.
func (w *worker) commit(ctx context.Context, c store.ReplayChunk) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTime)
	defer cancel()
	c.Job, c.Token, c.From = w.job.ID, w.token, w.job.ReplayPosition
	if err := w.store.ReplayChunk(ctx, c); err != nil {
		return err
	}
	w.job.ReplayPosition = c.To
	for _, n := range c.Notices {
		w.opts.Hooks.Noticed.Call(n)
	}
	return nil
}

// notices returns the notice about the end of the job. The notice of a job for one endpoint belongs
// to the endpoint's account, even if an operator created the job.
func (w *worker) notices(ended postrider.ReplayStatus) []postrider.Notice {
	n := w.job.Notice(ended)
	if e, known := w.endpoints.Lookup(w.job.Filter.Endpoint); known {
		n.Account = e.Endpoint.Account
	}
	n.ID = store.NewID[postrider.NoticeID](w.opts.IDs)
	n.CreatedAt = n.ID.Time()
	return []postrider.Notice{n}
}

// waitForEndpoints waits for fullPoll and renews the lease. If the job has made no progress since
// its claim or for waitTime, it makes the job rest instead. step calls it when every endpoint with
// matches left has too many of the job's deliveries pending. Such endpoints are slower than the
// pace, paused, or down. It also calls it while a fan-out job may still make the delivery that a
// backfill would make.
func (w *worker) waitForEndpoints(ctx context.Context) error {
	if time.Since(w.movedAt) > waitTime {
		w.rest = restTime
		return nil
	}
	if !batch.Sleep(ctx, fullPoll) {
		return ctx.Err()
	}
	return w.renew(ctx)
}

// renew renews the lease without a delivery.
func (w *worker) renew(ctx context.Context) error {
	return w.commit(ctx, store.ReplayChunk{To: w.job.ReplayPosition, Lease: lease})
}

// notify counts the deliveries of a chunk as pending, and tells the dispatcher in which lanes they
// wait.
//
// A replay waits in the bulk lane. In two cases the first delivery of an ordering key may become
// due in any lane: the replay was put into the sequence of the key, or a dead letter that paused
// the key was discarded. Then the dispatcher looks into all lanes. It does not do so for other
// matches, because it would ask three lanes of each endpoint fifty times a second for nothing.
func (w *worker) notify(items []store.ReplayItem) {
	told := make(map[postrider.EndpointID]struct{}, len(items))
	var lanes []store.DueLane
	for _, item := range items {
		w.pending[item.Endpoint]++
		if _, known := told[item.Endpoint]; known {
			continue
		}
		told[item.Endpoint] = struct{}{}
		if item.Ordered != "" || w.job.Action == postrider.ActionDiscard {
			w.endpoints.Notify(item.Endpoint)
		} else {
			lanes = append(lanes, store.DueLane{Endpoint: item.Endpoint, Lane: postrider.LaneBulk})
		}
	}
	w.dispatcher.Queued(lanes)
}

// giveBack ends the lease, so that this or another node can claim the job at once, or after its
// rest.
func (w *worker) giveBack(ctx context.Context) {
	if err := w.commit(ctx, store.ReplayChunk{To: w.job.ReplayPosition, Lease: w.rest}); err != nil {
		w.opts.Log.DebugContext(ctx, "replay job not given back", "job", w.job.ID, "error", err)
	}
}

// fail ends the job as failed. It returns true if that is stored, or if another node has the job.
// The cause is only logged: people who see the job may not see internals of the server.
func (w *worker) fail(ctx context.Context, cause error) bool {
	w.opts.Log.ErrorContext(ctx, "replay job failed", "job", w.job.ID, "error", cause)
	err := w.commit(ctx, store.ReplayChunk{
		To: w.job.ReplayPosition, End: postrider.ReplayFailed, Notices: w.notices(postrider.ReplayFailed),
		Error: "the same step failed ten times; the server's log says why",
	})
	if err == nil {
		w.ended(ctx, w.job.ID)
	}
	return err == nil || errors.Is(err, postrider.ErrFenced)
}
