package janitor

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"strconv"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// NoticeLimits say when the janitor writes a notice, apart from notices of an endpoint's health.
// A zero field stands for its default.
type NoticeLimits struct {
	// CircuitOpen is the time after which people get a notice of a circuit that is not closed.
	// The time counts from the first failure since the last accepted attempt. Default 1 hour.
	CircuitOpen time.Duration

	// DeadLetters is the number of dead letters of an endpoint within [postrider.HealthSpan] from
	// which people get a notice. Default 100.
	DeadLetters int
}

func (l NoticeLimits) withDefaults() NoticeLimits {
	l.CircuitOpen = cmp.Or(l.CircuitOpen, time.Hour)
	l.DeadLetters = cmp.Or(l.DeadLetters, 100)
	return l
}

// daily and weekly are the least times between two notices of the same lasting fact.
const (
	daily  = 24 * time.Hour
	weekly = 7 * daily
)

// tell stores the notices, and reports the new ones to observers.
func (j *Janitor) tell(ctx context.Context, notices ...postrider.Notice) error {
	put, err := j.store.PutNotices(ctx, j.numbered(notices...))
	j.told(put...)
	return err
}

// numbered gives notices their ids.
func (j *Janitor) numbered(notices ...postrider.Notice) []postrider.Notice {
	for i := range notices {
		notices[i].ID = store.NewID[postrider.NoticeID](j.opts.IDs)
		notices[i].CreatedAt = notices[i].ID.Time()
	}
	return notices
}

// told reports stored notices to observers.
func (j *Janitor) told(notices ...postrider.Notice) {
	for _, n := range notices {
		j.opts.Hooks.Noticed.Call(n)
	}
}

// reminder writes notices of facts that last, at most one for each object and period. The notices
// of the store show when the last one was written, on whichever node. The reminder caches this
// time, so it asks the store once for each object and period. Each chore has its own reminder.
type reminder struct {
	*Janitor

	period time.Duration
	last   map[string]time.Time // time of the last notice of an object; tell drops times older than a period
	swept  time.Time            // when tell last dropped old times from last
}

// tell writes the notice, except if the object had a notice of this kind within the period.
func (r *reminder) tell(ctx context.Context, n postrider.Notice, now time.Time) error {
	if now.Sub(r.swept) >= r.period {
		maps.DeleteFunc(r.last, func(_ string, at time.Time) bool { return now.Sub(at) >= r.period })
		r.swept = now
	}
	if at, known := r.last[n.Object]; known && now.Sub(at) < r.period {
		return nil
	}
	page, err := r.store.Notices(ctx, store.NoticeQuery{Kind: n.Kind, Object: n.Object, Paging: store.Paging{Limit: 1}})
	if err != nil {
		return err
	}
	at := now
	if len(page.Items) > 0 && now.Sub(page.Items[0].CreatedAt) < r.period {
		at = page.Items[0].CreatedAt
	} else if err := r.Janitor.tell(ctx, n.Every(r.period, now)); err != nil {
		return err
	}
	if r.last == nil {
		r.last = map[string]time.Time{}
	}
	r.last[n.Object] = at
	return nil
}

// circuitWatcher is the chore that tells people of circuits that have not been closed for long.
// It goes through the circuits in the order of their endpoints.
type circuitWatcher struct {
	*Janitor

	after postrider.EndpointID               // the last endpoint of this round; zero: the round begins
	told  map[postrider.EndpointID]time.Time // FailingSince of the circuits that the last round found
	found map[postrider.EndpointID]time.Time // FailingSince of the circuits that this round has seen, up to the endpoint in after
}

// chunk writes notices of the circuits of the next page. Circuits that are in told are skipped.
func (w *circuitWatcher) chunk(ctx context.Context) (did chunk, err error) {
	limit := min(w.opts.Chunk, store.MaxLimit)
	circuits, err := w.store.Circuits(ctx, store.CircuitQuery{Failing: true, After: w.after, Limit: limit})
	if err != nil {
		return did, err
	}
	if _, err := w.store.Now(ctx); err != nil { // sets the store's clock by the clock of the database
		return did, err
	}
	if w.found == nil {
		w.found = map[postrider.EndpointID]time.Time{}
	}
	var open []postrider.Circuit
	for _, c := range circuits {
		if _, is := c.Notice(postrider.AccountID{}, 0, w.opts.Notice.CircuitOpen); !is {
			continue
		}
		if w.told[c.Endpoint] != c.FailingSince {
			open = append(open, c)
		}
		w.found[c.Endpoint] = c.FailingSince
	}
	if err := w.tellOf(ctx, open); err != nil {
		w.found = nil // the next round begins at this page, and writes the notices again
		return did, err
	}
	did = chunk{rows: len(open), more: len(circuits) >= limit}
	if did.more {
		w.after = circuits[len(circuits)-1].Endpoint
	} else {
		w.after, w.told, w.found = postrider.EndpointID{}, w.found, nil
	}
	return did, nil
}

// tellOf writes the notices of circuits. A notice belongs to the account of the endpoint.
func (w *circuitWatcher) tellOf(ctx context.Context, open []postrider.Circuit) error {
	if len(open) == 0 {
		return nil
	}
	ids := make([]postrider.EndpointID, len(open))
	for i, c := range open {
		ids[i] = c.Endpoint
	}
	endpoints, err := w.store.Endpoints(ctx, store.EndpointQuery{IDs: ids, Paging: store.Paging{Limit: store.MaxLimit}})
	if err != nil {
		return err
	}
	accounts := map[postrider.EndpointID]postrider.AccountID{}
	for _, e := range endpoints.Items {
		accounts[e.ID] = e.Account
	}
	var notices []postrider.Notice
	for _, c := range open {
		account, found := accounts[c.Endpoint]
		if n, is := c.Notice(account, w.store.Clock().Ahead(), w.opts.Notice.CircuitOpen); found && is {
			notices = append(notices, n)
		}
	}
	return w.tell(ctx, notices...)
}

// deathWatcher is the chore that tells people of endpoints with many new dead letters. It goes
// through the endpoints in the order of their ids. It is separate from assessor, so that health
// never waits for a notice.
type deathWatcher struct {
	reminder

	after postrider.EndpointID // the last endpoint that was examined; zero: the round begins
}

// chunk examines the next endpoints.
func (w *deathWatcher) chunk(ctx context.Context) (did chunk, err error) {
	inputs, err := w.store.HealthInputs(ctx, w.after, w.opts.Chunk)
	if err != nil {
		return did, err
	}
	now, err := w.store.Now(ctx)
	if err != nil {
		return did, err
	}
	limit := w.opts.Notice.DeadLetters
	for _, in := range inputs {
		if in.Enabled && in.Dead >= int64(limit) {
			did.rows++
			err := w.tell(ctx, postrider.Notice{
				Account: in.Account, Kind: postrider.NoticeDeadLetters, Object: in.Endpoint.String(),
				Details: map[string]string{"count": strconv.FormatInt(in.Dead, 10), "limit": strconv.Itoa(limit)},
			}, now)
			if err != nil {
				return did, err
			}
		}
		w.after = in.Endpoint
	}
	if did.more = len(inputs) >= w.opts.Chunk; !did.more {
		w.after = postrider.EndpointID{}
	}
	return did, nil
}

// expiryLead is how long before the first discard people get a notice. It is twice the period of
// these notices, so that people hear of each dead letter at least a week before its discard.
const expiryLead = 2 * weekly

// expiryWatcher is the chore that tells people of dead letters that will be discarded soon. If there
// are some, it examines each endpoint once a day, with one index lookup.
type expiryWatcher struct {
	reminder

	cursor string // of the next page of endpoints; empty: the round begins
}

// chunk examines a page of endpoints.
func (w *expiryWatcher) chunk(ctx context.Context) (did chunk, err error) {
	now, err := w.store.Now(ctx)
	if err != nil {
		return did, err
	}
	keep := w.opts.Keep.DeadLetters
	q := store.DeadLetterQuery{Paging: store.Paging{Limit: 1, OldestFirst: true}}
	q.To = now.Add(min(expiryLead, keep/2) - keep)
	if first, err := w.store.DeadLetters(ctx, q); err != nil || len(first.Items) == 0 {
		w.cursor = ""
		return did, err
	}
	endpoints, err := w.store.Endpoints(ctx, store.EndpointQuery{Paging: store.Paging{Cursor: w.cursor, Limit: min(w.opts.Chunk, 100)}})
	if err != nil {
		return did, err
	}
	for _, e := range endpoints.Items {
		q.Account, q.Endpoint = e.Account, e.ID
		first, err := w.store.DeadLetters(ctx, q)
		if err == nil && len(first.Items) > 0 {
			did.rows++
			err = w.tell(ctx, postrider.Notice{
				Account: e.Account, Kind: postrider.NoticeExpiring, Object: e.ID.String(),
				Details: map[string]string{"discarded_at": first.Items[0].Delivery.Time().Add(keep).Format(time.RFC3339)},
			}, now)
		}
		if err != nil {
			return did, err
		}
	}
	w.cursor, did.more = endpoints.Next, endpoints.Next != ""
	return did, nil
}

// failingAfter is how long a chore must have failed before people get a notice. Short causes,
// such as a lock or a restart of the database, end within this time.
const failingAfter = time.Hour

// failures remembers since when a chore has been failing.
type failures struct {
	reminder

	since time.Time // time of the first failure in a row, set by failed; zero: the last chunk succeeded
}

// failed records a failure of a chore, and writes a notice if the chore has failed for
// failingAfter. If the notice cannot be written either, the next failure tries again.
func (f *failures) failed(ctx context.Context, chore string, cause error) {
	now := time.Now()
	if f.since.IsZero() {
		f.since = now
	}
	if now.Sub(f.since) < failingAfter {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	err := f.tell(ctx, postrider.Notice{
		Kind: postrider.NoticeChore, Object: chore,
		Details: map[string]string{"failing_since": f.since.UTC().Format(time.RFC3339), "error": told(cause)},
	}, now)
	if err != nil {
		f.opts.Log.WarnContext(ctx, "notice not written", "kind", string(postrider.NoticeChore), "object", chore, "error", err)
	}
}

// told returns the text of an error for a notice. A notice leaves the network by mail and chat,
// and an error may contain host names and parts of a connection string. So the notice gets a
// general text; the log has the whole error.
func told(cause error) string {
	var full *postrider.FullError
	switch {
	case errors.As(cause, &full):
		return full.Error()
	case errors.Is(cause, postrider.ErrBusy), errors.Is(cause, context.DeadlineExceeded):
		return "the store is away or too slow"
	}
	return "the log of the server has the cause"
}
