// Package ingest accepts events: it matches each with the endpoints that subscribed, and commits
// events and deliveries together, many publishes at a time.
//
// [Ingest.Publish] accepts a batch of events of a producer. It returns when the batch is committed.
// [Ingest.Run] commits the batches in groups, and runs the fan-out jobs of events that have too
// many endpoints for one commit.
//
// These promises always hold:
//
//   - A receipt means that the event is committed together with its deliveries or
//     its fan-out job.
//   - An endpoint whose creation was confirmed before the publish arrived is
//     never missed: the commit checks that no subscription has changed since the
//     match, and otherwise matches again.
//   - Accepting an event costs the same for 300 endpoints and for 100,000.
//   - If more is published than can be stored or delivered, publishes wait a
//     little. Above a limit they are refused before anything is stored.
//   - A publish that was refused or withdrawn leaves nothing in the store.
//
// The package does not send. Deliveries that may start at once are committed under a lease of the
// dispatcher, which starts them. The others wait in the queue.
//
// Read ingest.go (the queue of publishes) first, then flush.go (a commit) and fanout.go.
package ingest

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// Dispatcher starts deliveries that were committed.
type Dispatcher interface {
	// Admit grants leases to new deliveries that may start as soon as they are committed, and calls
	// commit. commit stores all deliveries, and the leases of those that have one. It returns which
	// deliveries start or wait. All other leases are free again, and all leases if commit fails or
	// panics. The error is commit's.
	Admit(ask []schedule.Admission, commit func(schedule.Grant) (schedule.DeliveriesCommitted, error)) error
	// Lag returns how long this node needs for the due deliveries that wait only for this node. It
	// slows publishers down.
	Lag() time.Duration
	// BulkWaits returns how many endpoints wait for the rate of bulk deliveries, or how many bulk
	// deliveries are leased. A fan-out job waits while this is more than a chunk.
	BulkWaits() int
}

// Options tunes an [Ingest]. The zero value is the production default.
type Options struct {
	// Greatest number of events that wait for a commit; further publishes are refused; default
	// 20,000.
	MaxWaiting int
	// Greatest number of bytes of data that wait; further publishes are refused; default 64 MiB.
	MaxWaitingBytes int
	MaxLag          time.Duration // greatest lag of the dispatcher; above it publishes are refused; default 10 s
	FanOutAbove     int           // an event with more matches gets a fan-out job; default 256
	FanOutChunk     int           // endpoints in a commit of a fan-out job; default 1,000
	FanOutPoll      time.Duration // interval between two looks for fan-out jobs that other nodes left; default 1 s
	// Returns why the store has no room for events and for chunks of fan-out jobs, such as a
	// *postrider.FullError; nil: it has room. Default: it always has.
	Room func() error
	// Returns the terms of an event that has these paths. Default: none.
	Terms func(e *postrider.Event, paths []postrider.Path) []store.Term
	IDs   *store.IDs    // default: ids with the time of this machine
	Clock *store.Clock  // clock of the store; default: the time of this machine
	Hooks observe.Hooks // default: no hook is called
	Log   *slog.Logger  // default: discard
}

func (o Options) withDefaults() Options {
	o.MaxWaiting = cmp.Or(o.MaxWaiting, 20_000)
	o.MaxWaitingBytes = cmp.Or(o.MaxWaitingBytes, 64<<20)
	o.MaxLag = cmp.Or(o.MaxLag, 10*time.Second)
	o.FanOutAbove = cmp.Or(o.FanOutAbove, 256)
	o.FanOutChunk = cmp.Or(o.FanOutChunk, 1000)
	o.FanOutPoll = cmp.Or(o.FanOutPoll, time.Second)
	if o.IDs == nil {
		o.IDs = store.NewIDs(time.Now, nil)
	}
	if o.Clock == nil {
		o.Clock = store.NewClock(nil)
	}
	if o.Room == nil {
		o.Room = func() error { return nil }
	}
	if o.Terms == nil {
		o.Terms = func(*postrider.Event, []postrider.Path) []store.Term { return nil }
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Ingest accepts events. Publishes wait in one queue. One goroutine commits from its front, so
// receipts come in the order of the calls:
//
//	Publish ─► waiting ─► next ─► match ─► Admit ─► store ─► respond ─► Publish returns
//	              └─ withdraw, when the caller's context ends
//
// While one group is committed, the next one gathers. A publish is refused before anything is
// stored, if too many events or bytes wait or the dispatcher lags too much. The queue is no
// [batch.Queue], because limits, refusal and withdrawal must be checked together, under one lock.
// The methods of Ingest may be called from any goroutine.
type Ingest struct {
	inbox    store.Inbox
	table    *routing.Table
	dispatch Dispatcher
	opts     Options

	ready   batch.Signal           // a publish waits for its commit
	locked  *batch.Queue[*publish] // publishes with a key that another transaction has locked
	fanOuts batch.Signal           // a fan-out job was committed
	turned  []postrider.AccountID  // whose fan-out job has had its turn; used by runFanOuts alone
	idle    sync.Pool              // unused done channels of finished publishes

	mu      sync.Mutex
	waiting []*publish // oldest first
	events  int        // number of events in waiting
	bytes   int        // bytes of the data of the events in waiting
	closed  bool       // Run is ending or has ended, so publishes are refused
}

// publish is the batch of one caller. The caller makes it, enqueues it and sleeps. The goroutine of
// runCommits sets the result and wakes the caller. If the caller's context ends while its publish
// still waits, the caller withdraws it, and nothing is stored. If a group already has it, the
// caller returns without knowing the result, and nobody reads the fields that are set afterwards.
type publish struct {
	events []postrider.Event
	only   postrider.EndpointID // if set, the events go only to this endpoint, even if it does not subscribe to them
	bytes  int                  // bytes of the events' data
	// Terms of the events whose type had paths when it was enqueued; nil: no type had any.
	indexed map[int]indexed
	// What was chosen for the events of accounts with filters before it was enqueued; nil: no account
	// has any.
	ahead map[int]choice
	begun time.Time // when it was enqueued

	done     chan struct{}        // receives one element when the fields below are set
	commit   observe.Committed    // the commit that stored it
	receipts []postrider.Receipt  // nil if err is set
	err      error                // why nothing was stored, or why it is unknown whether it was
	one      [1]postrider.Receipt // memory for the receipts of a single event, which is the most frequent batch
}

// New returns an Ingest that matches events with table, stores them in inbox, and lets dispatch
// start their deliveries.
func New(inbox store.Inbox, table *routing.Table, dispatch Dispatcher, opts Options) *Ingest {
	return &Ingest{
		inbox:    inbox,
		table:    table,
		dispatch: dispatch,
		opts:     opts.withDefaults(),
		ready:    batch.NewSignal(),
		locked:   batch.NewQueue[*publish](),
		fanOuts:  batch.NewSignal(),
		idle:     sync.Pool{New: func() any { return make(chan struct{}, 1) }},
	}
}

// Publish stores the events, all or none, and returns a receipt for each. It sets their ids and
// times. The caller has checked the events of producers by [postrider.Event.Check]. A
// [postrider.KeyTakenError] names the event whose idempotency key was used for other
// content. A [postrider.OverloadError] means that too many events wait already, and says when to
// try again. If ctx ends first, the error wraps its cause. If the commit had not begun by then,
// nothing is stored, and the error says so. Otherwise the events may be stored; publishing them
// again with the same idempotency keys shows whether they are.
func (in *Ingest) Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	return in.publish(ctx, &publish{events: events})
}

// PublishTo stores an event for one endpoint, even if the endpoint does not subscribe to its type.
func (in *Ingest) PublishTo(ctx context.Context, e postrider.Event, endpoint postrider.EndpointID) (postrider.Receipt, error) {
	receipts, err := in.publish(ctx, &publish{events: []postrider.Event{e}, only: endpoint})
	if err != nil {
		return postrider.Receipt{}, err
	}
	return receipts[0], nil
}

func (in *Ingest) publish(ctx context.Context, p *publish) ([]postrider.Receipt, error) {
	receipts, err := in.wait(ctx, p)
	if err != nil {
		in.opts.Hooks.Refused.Call(observe.Refused{Events: len(p.events), Err: err})
		return nil, err
	}
	if hook := in.opts.Hooks.Accepted; hook != nil {
		a := acceptedOf(p)
		a.Route = observe.Route(ctx)
		hook(a)
	}
	return receipts, nil
}

// acceptedOf returns a committed publish in the form for observers.
func acceptedOf(p *publish) observe.Accepted {
	a := observe.Accepted{
		Events: len(p.receipts), Bytes: p.bytes, Published: p.events, Receipts: p.receipts,
		Begun: p.begun, Took: time.Since(p.begun), Commit: p.commit,
	}
	for i := range p.receipts {
		if p.receipts[i].Duplicate {
			a.Duplicates++
		}
	}
	return a
}

// wait enqueues a publish and waits until its group is committed.
func (in *Ingest) wait(ctx context.Context, p *publish) ([]postrider.Receipt, error) {
	p.done, p.begun = in.idle.Get().(chan struct{}), time.Now() //nolint:errcheck // nothing else is in the pool
	for i := range p.events {
		p.bytes += p.events[i].Size()
		in.index(p, i)
	}
	err := in.chooseAhead(ctx, p)
	if err == nil {
		err = in.enqueue(p)
	}
	if err != nil {
		in.idle.Put(p.done)
		return nil, err
	}
	select {
	case <-p.done:
		in.idle.Put(p.done)
		return p.receipts, p.err
	case <-ctx.Done():
	}
	if in.withdraw(p) {
		in.idle.Put(p.done)
		return nil, fmt.Errorf("publish: not stored: %w", context.Cause(ctx))
	}
	return nil, fmt.Errorf("publish: wait for the commit: %w", context.Cause(ctx))
}

// indexed are the terms of an event, and the paths of its type that they were made with.
type indexed struct {
	paths []postrider.Path
	terms []store.Term
}

// index returns the terms of event i, made with the paths that its type has now. Data that is not JSON
// has none. It makes them once, in the goroutine of the caller. The goroutine that commits makes them
// again only if the paths have changed.
func (in *Ingest) index(p *publish, i int) []store.Term {
	paths := in.table.Paths(p.events[i].Type)
	if len(paths) == 0 || p.events[i].About.ContentType != "" {
		return nil
	}
	has := p.indexed[i]
	if slices.EqualFunc(paths, has.paths, func(a, b postrider.Path) bool { return a.Text == b.Text }) {
		return has.terms
	}
	if p.indexed == nil {
		p.indexed = map[int]indexed{}
	}
	p.indexed[i] = indexed{paths, in.opts.Terms(&p.events[i], paths)}
	return p.indexed[i].terms
}

// withdraw removes a publish that is in no group yet, and reports whether it did. The search is
// short: callers that give up have usually waited longest, so their publishes are at the front.
func (in *Ingest) withdraw(p *publish) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	i := slices.Index(in.waiting, p)
	if i < 0 {
		return false
	}
	in.waiting = slices.Delete(in.waiting, i, i+1)
	in.events -= len(p.events)
	in.bytes -= p.bytes
	return true
}

// enqueue appends a publish to the queue. It refuses the publish in three cases:
//
//   - The store has no room.
//   - Deliveries lag by more than MaxLag. RetryAfter is the lag.
//   - More than MaxWaiting events or MaxWaitingBytes of data would wait. RetryAfter is a second. An
//     empty queue accepts a batch of any size.
func (in *Ingest) enqueue(p *publish) error {
	if err := in.opts.Room(); err != nil {
		return fmt.Errorf("publish: %w", err)
	}
	lag := in.dispatch.Lag()
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.closed:
		return fmt.Errorf("publish: shutting down: %w", postrider.ErrBusy)
	case lag > in.opts.MaxLag:
		return &postrider.OverloadError{RetryAfter: min(lag, time.Minute)}
	case in.events > 0 && (in.events+len(p.events) > in.opts.MaxWaiting || in.bytes+p.bytes > in.opts.MaxWaitingBytes):
		return &postrider.OverloadError{RetryAfter: time.Second}
	}
	in.waiting = append(in.waiting, p)
	in.events += len(p.events)
	in.bytes += p.bytes
	in.ready.Set()
	return nil
}

// Run commits publishes until ctx is cancelled and the publishes that were enqueued by then are
// committed. Later publishes are refused. It is called once and returns nil. One goroutine commits
// groups of publishes. Another one runs fan-out jobs, so that a slow job delays no publish. A third
// one commits publishes with a locked key.
func (in *Ingest) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	parts.Go(func() { in.runFanOuts(ctx) })
	parts.Go(func() { in.runLocked(context.WithoutCancel(ctx)) })
	in.runCommits(ctx)
	in.locked.Close()
	parts.Wait()
	return nil
}

// runCommits commits publishes in groups. It commits all that wait at once; those that are enqueued
// in the meantime are the next group. While many producers publish, a group that is smaller than
// the last one waits for more:
//
//	32 producers, each of which publishes again when it gets its receipt
//	0 ms    a group of 32 is committed; all get their receipts
//	0.1 ms  the first 5 have published again. A commit of only these would make the
//	        other 27 wait for a second commit, and the halves would alternate for ever
//	2 ms    (batchWindow) all 32 are there, and are the next group
//
// A single producer never waits.
//
// The end of ctx closes the queue at once, even while a commit is under way. Otherwise a publish
// could be enqueued after the last commit, and nobody would commit it.
func (in *Ingest) runCommits(ctx context.Context) {
	context.AfterFunc(ctx, in.close)
	work := context.WithoutCancel(ctx) // the end of ctx must not interrupt a commit
	var last time.Time                 // when the last group was committed
	usual := 1                         // number of publishes in the last group
	for range in.ready {
		waiting, closed := in.state()
		for ; waiting > 0; waiting, closed = in.state() {
			if usual >= batchMinPublishers && waiting < usual && time.Since(last) < batchWindow {
				batch.Sleep(ctx, batchWindow)
			}
			in.waitForDeliveries(ctx)
			group := in.next()
			in.flush(work, group)
			last, usual = time.Now(), len(group)
		}
		if closed {
			return
		}
	}
}

// close makes Ingest refuse publishes from now on, and wakes runCommits.
func (in *Ingest) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.ready.Set()
}

// waitForDeliveries delays a commit while deliveries lag: by a twentieth of the lag above 50 ms,
// and at most 100 ms. It slows all publishers of this node equally, because all wait for commits. A
// delivery that is not admitted must be claimed, which costs the store twice as much, so a node
// that lags would not catch up by itself. Package schedule measures the lag (backpressure.go). At a
// lag of 1 s each commit waits for 47 ms. The rate of publishes falls accordingly, because a
// producer waits for its receipt.
func (in *Ingest) waitForDeliveries(ctx context.Context) {
	hold := min((in.dispatch.Lag()-50*time.Millisecond)/20, 100*time.Millisecond)
	if hold > 0 {
		batch.Sleep(ctx, hold)
	}
}

// A commit costs the store about the same for any size. So a group that is smaller than the last
// one waits for batchWindow. If the last group had fewer than batchMinPublishers publishes, the
// next one does not wait, because each of so few producers waits for its own response before it
// publishes again.
const (
	batchWindow        = 2 * time.Millisecond
	batchMinPublishers = 4
)

// state returns how many publishes wait for a commit, and whether the queue is closed.
func (in *Ingest) state() (waiting int, closed bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.waiting), in.closed
}

// The greatest size of a group. Larger groups would make a commit take more than milliseconds, and
// make producers wait for much more than their own publish.
const (
	groupEvents = 500
	groupBytes  = 8 << 20
)

// next removes the publishes of the next group from the queue: the oldest ones, up to groupEvents
// and groupBytes, but at least one.
func (in *Ingest) next() []*publish {
	in.mu.Lock()
	defer in.mu.Unlock()
	n, events, bytes := 0, 0, 0
	for _, p := range in.waiting {
		if n > 0 && (events+len(p.events) > groupEvents || bytes+p.bytes > groupBytes) {
			break
		}
		n, events, bytes = n+1, events+len(p.events), bytes+p.bytes
	}
	group := in.waiting[:n:n]
	in.waiting = in.waiting[n:]
	in.events -= events
	in.bytes -= bytes
	return group
}
