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
	// chunksPerSecond divides the pace into chunks: so small that a publish does not wait
	// long for the commit of one, and that endpoints get a stream and not bursts.
	chunksPerSecond = 50
	// commitTime is how long a commit may take, also after the end of ctx.
	commitTime = 5 * time.Second
	// fullPoll is the interval in which a job looks whether its endpoints have taken some of
	// its pending deliveries.
	fullPoll = 500 * time.Millisecond
	// maxHeld is how many endpoints a job holds. If one more is full, the job waits for it. The
	// text of so many, which each chunk stores, has about 7 KiB.
	maxHeld = 100
	// retryAfter is the wait after a step that failed.
	retryAfter = time.Second
	// maxFailures is how many times in a row a step may fail for a reason that does not
	// pass.
	maxFailures = 10
)

// worker runs one job under one lease. It belongs to one goroutine.
type worker struct {
	*Runner
	job   postrider.ReplayJob // its ReplayPosition is the one that is stored
	token postrider.Token
	pace  *rate.Limiter // a token for each delivery

	lines   []*line                      // the first has the matches of all endpoints that are not held
	turn    int                          // of the line that was asked last
	pending map[postrider.EndpointID]int // of the job's deliveries, at the last count and made since
	countAt time.Time                    // when they are counted again
}

// line is a sequence of matches, oldest first.
type line struct {
	endpoint postrider.EndpointID // of all matches; zero: of all endpoints that have no line
	at       postrider.DeliveryID // all matches up to this id are committed
	found    []store.ReplayItem   // matches after it
	foundTo  postrider.DeliveryID // all matches up to this id are committed or in found
	foundAll bool                 // there is no match after foundTo
	done     bool                 // all are committed
}

// newWorker returns the worker of a claimed job. The token bucket begins empty, and holds the
// tokens of one second, so that the job catches up after a slow commit.
func newWorker(r *Runner, job postrider.ReplayJob, token postrider.Token) *worker {
	w := &worker{Runner: r, job: job, token: token, lines: []*line{{at: job.Cursor, foundTo: job.Cursor}}}
	for endpoint, at := range job.Held {
		w.lines = append(w.lines, &line{endpoint: endpoint, at: at, foundTo: at})
	}
	w.pace = rate.NewLimiter(rate.Limit(job.PerSecond), job.PerSecond)
	w.pace.AllowN(time.Now(), job.PerSecond)
	return w
}

// run makes chunk after chunk, until the job ends, ctx ends, the store has no room, or another
// node or a person has taken the job.
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

// step commits the next chunk; done: it was the last one.
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
		to, last = l.found[n-1].Match, false
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
	l.at, l.found, l.done = to, l.found[n:], last
	w.notify(c.Items)
	return c.End != "", nil
}

// count counts the pending deliveries of the job when it is time: twice a second, or less often
// if that takes long.
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

// next returns the line whose turn it is; nil: all that are left wait for their endpoints.
func (w *worker) next(ctx context.Context) (*line, error) {
	for range w.lines {
		w.turn = (w.turn + 1) % len(w.lines)
		l := w.lines[w.turn]
		if l.done {
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

// find reads the next page of a line's matches, when all matches of the last page are
// committed. A page without matches may be followed by others.
func (w *worker) find(ctx context.Context, l *line) error {
	if len(l.found) > 0 || l.foundAll {
		return nil
	}
	from := w.job
	from.Cursor = l.foundTo
	if !l.endpoint.IsZero() {
		from.Filter.Endpoint = l.endpoint
	}
	page, err := store.FindReplayMatches(ctx, w.store, from)
	if err != nil {
		return err
	}
	l.found, l.foundTo, l.foundAll = page.Items, page.To, page.Done
	if l.endpoint.IsZero() {
		l.found = slices.DeleteFunc(l.found, w.held)
	}
	return nil
}

// held reports whether the endpoint of a match has a line of its own.
func (w *worker) held(item store.ReplayItem) bool {
	return slices.ContainsFunc(w.lines[1:], func(l *line) bool { return l.endpoint == item.Endpoint })
}

// hasRoom reports whether the matches that the line has found may be committed. It takes full
// endpoints out of the first line and gives each a line of its own, from the place of the first
// line on: all matches before that place are committed. The next chunk stores the new line.
func (w *worker) hasRoom(l *line) bool {
	for _, item := range l.found {
		switch {
		case w.pending[item.Endpoint] < w.opts.Pending:
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

// moved returns the position of the job when a line has come to an id.
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

// fill sets the replay's id, expiry and order by its endpoint's present policy. For a deleted
// endpoint it takes the defaults; the store skips the match.
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

// commit stores a chunk and moves the position. The end of ctx does not interrupt it: a node
// that does not know whether its chunk is stored cannot give the job back, and the next node
// waits for the end of the lease.
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

// notices returns what people should know of the end of the job. A job of one endpoint belongs
// to the endpoint's account, also if an operator created it.
func (w *worker) notices(ended postrider.ReplayStatus) []postrider.Notice {
	n := w.job.Notice(ended)
	if e, known := w.endpoints.Lookup(w.job.Filter.Endpoint); known {
		n.Account = e.Endpoint.Account
	}
	n.ID = store.NewID[postrider.NoticeID](w.opts.IDs)
	n.CreatedAt = n.ID.Time()
	return []postrider.Notice{n}
}

// waitForEndpoints waits a moment and renews the lease, when every endpoint that has matches left
// has many of the job's deliveries pending. They are slower than the pace, paused, or away.
func (w *worker) waitForEndpoints(ctx context.Context) error {
	if !batch.Sleep(ctx, fullPoll) {
		return ctx.Err()
	}
	return w.renew(ctx)
}

// renew renews the lease.
func (w *worker) renew(ctx context.Context) error {
	return w.commit(ctx, store.ReplayChunk{To: w.job.ReplayPosition, Lease: lease})
}

// notify counts the deliveries of a chunk, and says where the dispatcher finds them.
//
// A replay waits in the bulk lane. If it was put into the sequence of its ordering key, or if
// a dead letter was discarded that paused one, the head of that key may be due in any lane,
// and the dispatcher looks into all. It does not for every match: fifty times a second, three
// lanes of each endpoint would be asked for nothing.
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

// giveBack ends the lease, so that another node need not wait for its end.
func (w *worker) giveBack(ctx context.Context) {
	if err := w.commit(ctx, store.ReplayChunk{To: w.job.ReplayPosition}); err != nil {
		w.opts.Log.DebugContext(ctx, "replay job not given back", "job", w.job.ID, "error", err)
	}
}

// fail ends the job as failed. It reports whether that is stored. The cause stays in the log:
// people who see the job may not see the inside of the server.
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
