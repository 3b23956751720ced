package quota

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/store"
)

// BacklogStore is the part of a store that [Backlogs] needs.
type BacklogStore interface {
	// EndpointBacklogs is the method of [store.Quotas].
	EndpointBacklogs(ctx context.Context, q store.BacklogsQuery) ([]postrider.EndpointBacklog, error)
	// MarkFull is the method of [store.Quotas].
	MarkFull(ctx context.Context, m store.MarkFull) ([]postrider.Notice, error)
	// Clock is the method of [store.Queue].
	Clock() *store.Clock
}

// BacklogOptions tunes [Backlogs].
type BacklogOptions struct {
	Default int64 // limit of accounts without a limit of their own; 0: none
	// Leads reports whether this is the one node that counts. Default: always true.
	Leads func() bool
	// Notify is called when an endpoint was marked or unmarked, so that this node reads it at once.
	// Default: does nothing.
	Notify func(postrider.EndpointID)
	IDs    *store.IDs    // make the ids of notices; default: from this machine's time
	Hooks  observe.Hooks // default: none
	Log    *slog.Logger  // default: discard
}

// Backlogs marks the endpoints whose backlog is full, so that all nodes skip new events for them
// ([postrider.EndpointBacklog]).
//
// One node at a time counts, in rounds over all endpoints with pending deliveries:
//
//	0 s   the endpoint may have 10,000 deliveries, and 9,900 wait
//	1 s   10,000 wait. No node knows it
//	5 s   the next round counts 10,000, and marks the endpoint. From this commit on no node
//	      commits a delivery for it: the mark raises the version of the subscriptions, which
//	      each publish checks. 10,400 wait
//	5 min 9,000 wait; a round removes the mark
//
// So for this quota a publish only reads a field of the routing table. A backlog may exceed its
// limit by the events of one round, by replays, and by tests.
type Backlogs struct {
	store BacklogStore
	opts  BacklogOptions
}

// NewBacklogs returns the worker that marks endpoints whose backlog is full.
func NewBacklogs(s BacklogStore, opts BacklogOptions) *Backlogs {
	if opts.Leads == nil {
		opts.Leads = func() bool { return true }
	}
	if opts.Notify == nil {
		opts.Notify = func(postrider.EndpointID) {}
	}
	if opts.IDs == nil {
		opts.IDs = store.NewIDs(time.Now, nil)
	}
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	return &Backlogs{s, opts}
}

const (
	// roundEvery is the least time between the starts of two rounds.
	roundEvery = 5 * time.Second
	// leadsEvery is how often a node that does not lead checks whether it leads now. A server that
	// has just started leads after its first heartbeat, and may not live for long.
	leadsEvery = 250 * time.Millisecond
	// restFactor bounds the load. After each page, a round sleeps 19 times as long as the page took
	// the store. A round over few and short backlogs takes milliseconds. A round that has to count
	// millions takes minutes, and uses a twentieth of one connection.
	restFactor = 19
	// A page has at most pageEndpoints endpoints, and counts about pageDeliveries deliveries.
	pageEndpoints  = 250
	pageDeliveries = 50_000
)

// Run counts until ctx ends, on the node that leads. It always returns nil. After an error the
// round is over, and the next round begins at the first endpoint.
func (b *Backlogs) Run(ctx context.Context) error {
	for {
		begun, wait := time.Now(), leadsEvery
		if b.opts.Leads() {
			wait = roundEvery
			rows, err := b.round(ctx)
			if err != nil && ctx.Err() == nil {
				b.opts.Log.WarnContext(ctx, "backlogs not counted", "error", err)
			}
			if ctx.Err() == nil {
				b.opts.Hooks.ChoreDone.Call(observe.ChoreDone{Name: "mark full backlogs", Took: time.Since(begun), Rows: rows, Err: err})
			}
		}
		if !batch.Sleep(ctx, max(0, wait-time.Since(begun))) {
			return nil
		}
	}
}

// round reads all endpoints, page by page, and returns how many it marked or unmarked.
func (b *Backlogs) round(ctx context.Context) (changed int, err error) {
	q := store.BacklogsQuery{Max: pageEndpoints, Count: pageDeliveries, Default: b.opts.Default}
	for {
		begun := time.Now()
		page, err := b.store.EndpointBacklogs(ctx, q)
		if err != nil || len(page) == 0 {
			return changed, err
		}
		n, err := b.mark(ctx, page)
		if changed += n; err != nil {
			return changed, err
		}
		q.After = page[len(page)-1].Endpoint
		if !batch.Sleep(ctx, restFactor*time.Since(begun)) || !b.opts.Leads() {
			return changed, nil
		}
	}
}

// mark marks the endpoints of a page that have become full, and unmarks those that are full no
// longer.
func (b *Backlogs) mark(ctx context.Context, page []postrider.EndpointBacklog) (changed int, err error) {
	var m store.MarkFull
	for _, e := range page {
		switch full := e.IsFull(); {
		case full == !e.Full.IsZero():
		case full:
			m.Full = append(m.Full, e.Endpoint)
			n := e.Notice(b.store.Clock().Wall())
			n.ID = store.NewID[postrider.NoticeID](b.opts.IDs)
			n.CreatedAt = n.ID.Time()
			m.Notices = append(m.Notices, n)
		default:
			m.Free = append(m.Free, e.Endpoint)
		}
	}
	if changed = len(m.Full) + len(m.Free); changed == 0 {
		return 0, nil
	}
	told, err := b.store.MarkFull(ctx, m)
	if err != nil {
		return 0, err
	}
	for _, n := range told {
		b.opts.Hooks.Noticed.Call(n)
	}
	for _, ids := range [][]postrider.EndpointID{m.Full, m.Free} {
		for _, id := range ids {
			b.opts.Notify(id)
		}
	}
	return changed, nil
}
