// Package ingest takes events in: it matches each with the endpoints that
// subscribed, and commits events and deliveries together, many publishes at a
// time.
//
// [Ingest.Publish] takes events of a producer. It returns when the
// event's group is committed. [Ingest.Run] commits the groups and runs the
// fan-out jobs of events that have too many endpoints for one commit.
//
// Whatever happens, this holds:
//
//   - A receipt means that the event and its deliveries, or its fan-out job,
//     are committed.
//   - An endpoint whose creation was answered before the publish arrived is
//     never missed: the commit checks that the subscriptions have not moved,
//     and otherwise matches again.
//   - Accepting an event costs the same for ten endpoints and for 100,000.
//   - When more is published than can be stored or delivered, publishes wait a
//     little, and past a bound are refused before they are accepted.
//
// It does not send: deliveries that may start at once are committed under a lease
// of the dispatcher, which starts them; the others wait in the queue.
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

// Dispatcher starts what is committed.
type Dispatcher interface {
	// Admit grants leases to those of the new deliveries that may start as soon
	// as they are committed, and calls commit, which stores all of them, those
	// with a lease under it. What commit returns is started or waits; leases of
	// deliveries that are not in it are taken back, also when commit fails or
	// panics. The error is commit's.
	Admit(ask []schedule.Admission, commit func(schedule.Grant) (schedule.DeliveriesCommitted, error)) error
	// Lag returns how long this node would need for the deliveries that are due
	// and wait for nothing but this node.
	Lag() time.Duration
	// BulkWaits returns how many endpoints wait for the rate of bulk deliveries.
	BulkWaits() int
}

// Options tunes an [Ingest]. The zero value is the production default.
type Options struct {
	MaxWaiting      int           // events that wait for a commit before publishes are refused; default 20,000
	MaxWaitingBytes int           // likewise, of data; default 64 MiB
	MaxLag          time.Duration // of the dispatcher, before publishes are refused; default 10 s
	FanOutAbove     int           // an event with more matches gets a fan-out job; default 256
	FanOutChunk     int           // endpoints a commit of a fan-out job; default 1,000
	FanOutPoll      time.Duration // between two looks for fan-out jobs of others; default 1 s
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
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Ingest takes events in. Publishers wait in one queue; one goroutine commits
// from its front, so that receipts come in the order of the calls. Bounds on the
// events and bytes that wait, and on the dispatcher's lag, refuse a publish
// before anything is stored. Its methods may be called from any goroutine.
type Ingest struct {
	inbox    store.Inbox
	table    *routing.Table
	dispatch Dispatcher
	opts     Options

	ready   batch.Signal // something waits for a commit
	fanOuts batch.Signal // a fan-out job was committed
	idle    sync.Pool    // of the channels that answered publishes heard on

	mu      sync.Mutex
	waiting []*publish
	events  int // of waiting
	bytes   int // of waiting
	closed  bool
}

// publish is one caller's batch on its way into a commit. The caller makes it,
// enqueues it and sleeps; the goroutine of runCommits sets the result and wakes
// the caller. A caller that gives up before a group took its publish withdraws
// it, and nothing is stored.
type publish struct {
	events []postrider.Event
	only   postrider.EndpointID // not zero: to this endpoint, whatever it subscribed to
	bytes  int

	done     chan struct{} // hears when the following are set
	receipts []postrider.Receipt
	err      error
	one      [1]postrider.Receipt // the memory of receipts, for the most usual batch
}

// New returns an ingest that stores into inbox what matches in table, and
// starts it with dispatch.
func New(inbox store.Inbox, table *routing.Table, dispatch Dispatcher, opts Options) *Ingest {
	return &Ingest{
		inbox:    inbox,
		table:    table,
		dispatch: dispatch,
		opts:     opts.withDefaults(),
		ready:    batch.NewSignal(),
		fanOuts:  batch.NewSignal(),
		idle:     sync.Pool{New: func() any { return make(chan struct{}, 1) }},
	}
}

// Publish stores the events, all or none, and returns a receipt for each. It
// gives them their ids and times. A [postrider.KeyTakenError] names the event
// whose idempotency key stands for other content; a [postrider.OverloadError]
// means that too many wait already. When ctx ends first, the error wraps its
// cause. Events that no commit has taken yet are not stored then; others may be,
// and only the same publish again, with its idempotency keys, tells.
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
	receipts, err := in.wait(ctx, p)
	if err != nil {
		in.opts.Hooks.Refused.Call(observe.Refused{Events: len(p.events), Err: err})
		return nil, err
	}
	in.opts.Hooks.Accepted.Call(acceptedOf(receipts, p.bytes))
	return receipts, nil
}

// acceptedOf returns what observers hear of a publish.
func acceptedOf(receipts []postrider.Receipt, bytes int) observe.Accepted {
	a := observe.Accepted{Events: len(receipts), Bytes: bytes}
	for i := range receipts {
		if receipts[i].Duplicate {
			a.Duplicates++
		}
	}
	return a
}

// wait enqueues a publish and waits until its group is committed.
func (in *Ingest) wait(ctx context.Context, p *publish) ([]postrider.Receipt, error) {
	p.done = in.idle.Get().(chan struct{}) //nolint:errcheck // nothing else is in the pool
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

// withdraw removes a publish that no group has taken yet, and reports whether it
// did. Callers that give up are mostly those that have waited longest, and so are
// in front.
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

func (in *Ingest) enqueue(p *publish) error {
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

// Run commits what is published until ctx is cancelled and what was enqueued
// by then is committed. It is called once. Two goroutines work for it: one commits
// groups of publishes, the other runs fan-out jobs, which wait for each other only in
// the store.
func (in *Ingest) Run(ctx context.Context) error {
	var parts sync.WaitGroup
	parts.Go(func() { in.runFanOuts(ctx) })
	in.runCommits(ctx)
	parts.Wait()
	return nil
}

// runCommits commits publishes in groups: what waits is committed at once, and
// what is enqueued meanwhile is the next group. While many publish at once, a
// group that is smaller than the last one waits for more.
func (in *Ingest) runCommits(ctx context.Context) {
	work := context.WithoutCancel(ctx) // a commit is not cut in the middle
	var last time.Time                 // when a group was committed,
	usual := 1                         // and how many publishes it had
	for {
		select {
		case <-in.ready:
		case <-ctx.Done():
			in.mu.Lock()
			in.closed = true
			in.mu.Unlock()
		}
		for waiting := in.size(); waiting > 0; waiting = in.size() {
			if usual >= batchMinPublishers && waiting < usual && time.Since(last) < batchWindow {
				batch.Sleep(ctx, batchWindow)
			}
			in.waitForDeliveries(ctx)
			group := in.next()
			in.flush(work, group)
			last, usual = time.Now(), len(group)
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// waitForDeliveries slows publishers down while deliveries do not keep up, by a
// twentieth of the lag over 50 ms, and at most 100 ms. A delivery that is not
// admitted has to be claimed, which costs more; so a node that lags would not
// catch up by itself.
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

// size returns how many publishes wait for a commit.
func (in *Ingest) size() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.waiting)
}

// The size at which a group is closed.
const (
	groupEvents = 500
	groupBytes  = 8 << 20
)

// next takes the publishes that make the next group.
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
