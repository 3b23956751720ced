// Package ingest accepts events: it matches each with the endpoints that
// subscribed, and commits events and deliveries together, many publishes at a
// time.
//
// [Ingest.Publish] accepts a batch of events of a producer. It returns when the
// batch is committed. [Ingest.Run] commits the batches in groups, and runs the
// fan-out jobs of events that have too many endpoints for one commit.
//
// Whatever happens, this holds:
//
//   - A receipt means that the event and its deliveries, or its fan-out job,
//     are committed.
//   - An endpoint whose creation was confirmed before the publish arrived is
//     never missed: the commit checks that no subscription has changed since the
//     match, and otherwise matches again.
//   - Accepting an event costs the same for 300 endpoints and for 100,000.
//   - When more is published than can be stored or delivered, publishes wait a
//     little, and past a bound are refused before anything is stored.
//   - A publish that was refused or withdrawn left nothing in the store.
//
// It does not send: deliveries that may start at once are committed under a lease
// of the dispatcher, which starts them; the others wait in the queue.
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

// Dispatcher starts the deliveries that are committed.
type Dispatcher interface {
	// Admit grants leases to those of the new deliveries that may start as soon
	// as they are committed, and calls commit, which stores all deliveries, those
	// with a lease under it. Deliveries that commit returns start or wait; the
	// leases of others are free again, also when commit fails or panics. The error
	// is commit's.
	Admit(ask []schedule.Admission, commit func(schedule.Grant) (schedule.DeliveriesCommitted, error)) error
	// Lag returns how long this node would need for the deliveries that are due
	// and wait for nothing but this node. Publishers are slowed down by it.
	Lag() time.Duration
	// BulkWaits returns how many endpoints wait for the rate of bulk deliveries, or how
	// many of these are leased. Fan-out jobs wait while it is more than a chunk.
	BulkWaits() int
}

// Options tunes an [Ingest]. The zero value is the production default.
type Options struct {
	MaxWaiting      int           // events that wait for a commit before publishes are refused; default 20,000
	MaxWaitingBytes int           // likewise, of data; default 64 MiB
	MaxLag          time.Duration // of the dispatcher, before publishes are refused; default 10 s
	FanOutAbove     int           // an event with more matches gets a fan-out job; default 256
	FanOutChunk     int           // endpoints a commit of a fan-out job; default 1,000
	FanOutPoll      time.Duration // between two looks for fan-out jobs that other nodes left; default 1 s
	Room            func() error  // why the store has no room for events and for chunks of fan-out jobs, such as a *postrider.FullError; nil: it has. Default: it has
	IDs             *store.IDs    // default: the time of this machine
	Clock           *store.Clock  // the store's; default: the time of this machine
	Hooks           observe.Hooks // default: nobody observes
	Log             *slog.Logger  // default: discard
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
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Ingest accepts events. Publishes wait in one queue, and one goroutine commits
// from its front, so that receipts come in the order of the calls:
//
//	Publish ─► waiting ─► next ─► match ─► Admit ─► store ─► respond ─► Publish returns
//	              └─ withdraw, when the caller's context ends
//
// While one group is committed, the next one gathers. Bounds on the events and bytes that
// wait, and on the dispatcher's lag, refuse a publish before anything is stored. The
// queue is no [batch.Queue]: bounds, refusal and withdrawal have to hold together,
// under one lock. Its methods may be called from any goroutine.
type Ingest struct {
	inbox    store.Inbox
	table    *routing.Table
	dispatch Dispatcher
	opts     Options

	ready   batch.Signal           // a publish waits for its commit
	locked  *batch.Queue[*publish] // publishes with a key that another transaction has locked
	fanOuts batch.Signal           // a fan-out job was committed
	idle    sync.Pool              // of the done channels of finished publishes

	mu      sync.Mutex
	waiting []*publish // oldest first
	events  int        // of waiting
	bytes   int        // of waiting, of their data
	closed  bool       // Run is to end, or has ended: publishes are refused
}

// publish is one caller's batch on its way into a commit. The caller makes it,
// enqueues it and sleeps; the goroutine of runCommits sets the result and wakes
// the caller. A caller whose context ends while its publish still waits withdraws
// it, and nothing is stored. Once a group has it, the caller returns without knowing
// the result, and nobody reads what is set afterwards.
type publish struct {
	events []postrider.Event
	only   postrider.EndpointID // not zero: to this endpoint, whatever it subscribed to
	bytes  int                  // of the events' data
	begun  time.Time            // when it was enqueued

	done     chan struct{}        // receives one element when the following are set
	commit   observe.Committed    // that stored it
	receipts []postrider.Receipt  // nil if err is set
	err      error                // why nothing was stored, or that it may have been
	one      [1]postrider.Receipt // the memory of receipts for one event, the most frequent batch
}

// New returns an ingest that matches events in table, stores them in inbox, and has
// their deliveries started by dispatch.
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

// Publish stores the events, all or none, and returns a receipt for each. It
// sets their ids and times. The caller has checked those of producers by
// [postrider.Event.Check]. A [postrider.KeyTakenError] names the event
// whose idempotency key stands for other content; a [postrider.OverloadError]
// means that too many events wait already, and says when to try again. When ctx ends
// first, the error wraps its cause. If the commit had not begun, nothing is stored, and
// the error says so. Otherwise the events may be stored; publishing them again with the
// same idempotency keys shows it.
func (in *Ingest) Publish(ctx context.Context, events []postrider.Event) ([]postrider.Receipt, error) {
	return in.publish(ctx, &publish{events: events})
}

// PublishTo stores an event for one endpoint, whatever it subscribed to.
func (in *Ingest) PublishTo(ctx context.Context, e postrider.Event, endpoint postrider.EndpointID) (postrider.Receipt, error) {
	receipts, err := in.publish(ctx, &publish{events: []postrider.Event{e}, only: endpoint})
	if err != nil {
		return postrider.Receipt{}, err
	}
	return receipts[0], nil
}

func (in *Ingest) publish(ctx context.Context, p *publish) ([]postrider.Receipt, error) {
	begun := time.Now()
	receipts, err := in.wait(ctx, p)
	if err != nil {
		in.opts.Hooks.Refused.Call(observe.Refused{Events: len(p.events), Err: err})
		return nil, err
	}
	if hook := in.opts.Hooks.Accepted; hook != nil {
		a := acceptedOf(p, receipts, begun)
		a.Route = observe.Route(ctx)
		hook(a)
	}
	return receipts, nil
}

// acceptedOf returns a publish as observers get it.
func acceptedOf(p *publish, receipts []postrider.Receipt, begun time.Time) observe.Accepted {
	a := observe.Accepted{
		Events: len(receipts), Bytes: p.bytes, Published: p.events, Receipts: receipts,
		Begun: begun, Took: time.Since(begun), Commit: p.commit,
	}
	for i := range receipts {
		if receipts[i].Duplicate {
			a.Duplicates++
		}
	}
	return a
}

// wait enqueues a publish and waits until its group is committed.
func (in *Ingest) wait(ctx context.Context, p *publish) ([]postrider.Receipt, error) {
	p.done, p.begun = in.idle.Get().(chan struct{}), time.Now() //nolint:errcheck // nothing else is in the pool
	for i := range p.events {
		p.bytes += len(p.events[i].Data)
	}
	if err := in.enqueue(p); err != nil {
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

// withdraw removes a publish that is in no group yet, and reports whether it did. The
// search is short: callers that give up have mostly waited longest, and their
// publishes are in front.
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

// enqueue appends a publish to the queue, or refuses it:
//
//   - because the store has no room;
//   - because deliveries lag by more than MaxLag, for as long as the lag;
//   - because MaxWaiting events or MaxWaitingBytes of data would wait, for a second. A
//     queue that is empty accepts a batch of any size.
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

// Run commits publishes until ctx is cancelled and those that were enqueued by then are
// committed; later ones are refused. It is called once and returns nil. One goroutine
// commits groups of publishes, another runs fan-out jobs, so that a slow job delays no
// publish, and a third commits those with a key that is locked.
func (in *Ingest) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	parts.Go(func() { in.runFanOuts(ctx) })
	parts.Go(func() { in.runLocked(context.WithoutCancel(ctx)) })
	in.runCommits(ctx)
	in.locked.Close()
	parts.Wait()
	return nil
}

// runCommits commits publishes in groups: those that wait are committed at once, and
// those that are enqueued meanwhile are the next group. While many publish at once, a
// group that is smaller than the last one waits for more:
//
//	32 producers, each of which publishes again when it gets its receipt
//	0 ms    a group of 32 is committed; all get their receipts
//	0.1 ms  the first 5 have published again. Committed alone, they would make the
//	        other 27 wait for a second commit, and the halves would alternate for ever
//	2 ms    (batchWindow) all 32 are there, and are the next group
//
// A single producer never waits.
//
// The end of ctx closes the queue at once, also while a commit is under way: what was
// enqueued after the last commit would wait for nobody.
func (in *Ingest) runCommits(ctx context.Context) {
	context.AfterFunc(ctx, in.close)
	work := context.WithoutCancel(ctx) // a commit is not cut in the middle
	var last time.Time                 // when the last group was committed
	usual := 1                         // how many publishes it had
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

// close refuses publishes from now on, and wakes runCommits.
func (in *Ingest) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closed = true
	in.ready.Set()
}

// waitForDeliveries delays a commit while deliveries do not keep up, by a
// twentieth of the lag over 50 ms, and at most 100 ms. All publishers of this node are
// slowed down alike, since they wait for commits. A delivery that is not admitted has
// to be claimed, which costs the store twice as much, so a node that lags would not
// catch up by itself. The lag itself is measured by schedule (backpressure.go). At 1 s
// of lag each commit waits for 47 ms; the rate of publishes falls with it, because a
// producer waits for its receipt.
func (in *Ingest) waitForDeliveries(ctx context.Context) {
	hold := min((in.dispatch.Lag()-50*time.Millisecond)/20, 100*time.Millisecond)
	if hold > 0 {
		batch.Sleep(ctx, hold)
	}
}

// A commit costs the store about the same whatever its size. So a group that is
// smaller than the one just before it waits for batchWindow. Where fewer than
// batchMinPublishers publish, each waits for its own response, and none would be
// waited for.
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

// The size at which a group is closed, so that a commit takes milliseconds and its
// producers do not wait for a much larger group than their own publish.
const (
	groupEvents = 500
	groupBytes  = 8 << 20
)

// next removes the publishes of the next group from the queue: the oldest ones, up to
// groupEvents and groupBytes, but at least one.
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
