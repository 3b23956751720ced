// Package dispatch turns due deliveries into HTTP attempts.
//
// A [Dispatcher] holds the right to start: it admits deliveries that ingest is
// about to commit, claims the others from a [store.Queue] when they are due,
// hands each to a [Sender] when its endpoint and the node have a slot free, and
// settles what came back. Callers see [Dispatcher.Run]; behind it, one loop
// owns all state and asks a pure core what to do (core.go, start.go, claim.go),
// and a few goroutines do it (rim.go).
//
// Whatever happens, this holds:
//
//   - At most Options.Concurrency attempts are in flight, to one host at most
//     Options.HostConcurrency, and to one endpoint at most its own limit.
//     Endpoints take turns; none waits for another's answer. Endpoints that do
//     not answer share a tenth of the slots, and those that failed to once a
//     tenth of their own. Probes of circuits have a quarter.
//   - An endpoint whose circuit is open, that asked for time or whose rate is
//     spent is left alone, also by the next node that serves it. Its waiting
//     deliveries stay as they are and lose no attempt; one node probes it.
//   - A retry leaves when it is due. Only its own endpoint's circuit, window,
//     rate and share of the slots can hold it back, never other endpoints'
//     retries.
//   - Of several nodes one serves an endpoint, so that all limits hold for all
//     of them together. A node that dies is replaced within a second
//     where the store sees that its connection is gone, and else within ten.
//   - A request leaves only while its lease covers its deadline, so a delivery
//     is attempted by one node at a time, and by another if that one dies.
//   - Every request that left is settled, or its lease ends and it is recorded
//     as lost. A node leases at most one delivery for each of its slots before
//     it starts, so that a death records at most that many lost attempts that
//     were not made.
//   - Wake-ups may be lost: a scan of the queue finds what they would have
//     named.
//   - When Run returns, every attempt that it started is settled or abandoned
//     to its lease, what was not started is released, and no goroutine is left.
//
// It decides when and how often, never whom or what: subscriptions are
// ingest's, requests are egress's, and the meaning of an answer is
// [postrider.Settle]'s.
package dispatch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/store"
)

// ErrDrainTimeout is why attempts are cut when draining takes too long.
var ErrDrainTimeout = errors.New("the time to finish attempts is over")

// Sender makes requests. It returns by the deadline of ctx, which ends only when
// attempts are cut.
type Sender interface {
	// Send makes the attempt that c is leased for.
	Send(ctx context.Context, c postrider.Claimed, to store.EndpointSnapshot) postrider.Attempt
}

// Endpoints knows every endpoint as it is now.
type Endpoints interface {
	// Lookup returns the endpoint, which must not be changed; false: it is
	// unknown or deleted.
	Lookup(id postrider.EndpointID) (*store.EndpointSnapshot, bool)
	// Subscribe has f called after every change of an endpoint, and when
	// deliveries may be due for one.
	Subscribe(f func(routing.Change))
	// Disable disables the endpoint for the reason, unless it is already.
	Disable(ctx context.Context, id postrider.EndpointID, reason string) error
}

// Options tunes a [Dispatcher]. The zero value is the production default.
type Options struct {
	Concurrency     int           // attempts in flight, of one endpoint 32 or a quarter of it at most; default 1,024
	HostConcurrency int           // attempts in flight to one host, whosever endpoints they are; default a quarter of Concurrency, at least 64
	Prefetch        int           // an endpoint's credit, in multiples of its limit; default 2
	MaxUnsettled    int           // attempts started and not committed; default 4,096
	LeaseMargin     time.Duration // a lease is the endpoint's timeout and this; default 15 s
	Scan            time.Duration // between two looks at the whole queue; default 30 s
	Drain           time.Duration // for attempts in flight at the end; default 35 s
	Cluster         Cluster       // default: this node is alone
	Log             *slog.Logger  // default: discard
}

// Cluster is a node's place among others.
type Cluster struct {
	Nodes       store.Nodes   // nil: there are no others
	Incarnation uint32        // of this node, in every token; default random
	TTL         time.Duration // a node that was silent for so long is dead; default 5 s
	Beat        time.Duration // between two signs of life; default 1 s
	Poll        time.Duration // between two looks at what others published; default 1 s
	PollOnly    bool          // wake-ups are neither sent nor heard
}

func (o Options) withDefaults() Options {
	o.Concurrency = cmp.Or(o.Concurrency, 1024)
	o.HostConcurrency = cmp.Or(o.HostConcurrency, max(64, o.Concurrency/4))
	o.Prefetch = cmp.Or(o.Prefetch, 2)
	o.MaxUnsettled = cmp.Or(o.MaxUnsettled, 4096)
	o.LeaseMargin = cmp.Or(o.LeaseMargin, 15*time.Second)
	o.Scan = cmp.Or(o.Scan, 30*time.Second)
	o.Drain = cmp.Or(o.Drain, 35*time.Second)
	o.Cluster.Incarnation = cmp.Or(o.Cluster.Incarnation, 1+rand.Uint32N(1<<31-1)) // a token is a signed 64-bit number
	o.Cluster.TTL = cmp.Or(o.Cluster.TTL, 5*time.Second)
	o.Cluster.Beat = cmp.Or(o.Cluster.Beat, time.Second)
	o.Cluster.Poll = cmp.Or(o.Cluster.Poll, time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// Dispatcher delivers what is due. Its methods may be called from any
// goroutine, and do nothing while Run is not running.
type Dispatcher struct {
	queue     store.Queue
	endpoints Endpoints
	sender    Sender
	opts      Options

	inputs  chan any
	done    chan struct{} // closed when the loop takes no more inputs
	running atomic.Bool
	ending  atomic.Bool  // Run's context has ended
	left    atomic.Int64 // attempts that were left to their leases
	behind  atomic.Int64 // nanoseconds
	bulk    atomic.Int64 // endpoints
	health  health

	claims   chan *store.Claim
	work     chan *item // to an attempt's goroutine that has nothing to do
	settles  settleQueue
	circuits *line[circuitChange]
	gone     *line[postrider.EndpointID]
	cluster  *cluster
}

// New returns a dispatcher that takes work from queue and delivers it with
// sender.
func New(queue store.Queue, endpoints Endpoints, sender Sender, opts Options) *Dispatcher {
	d := &Dispatcher{
		queue:     queue,
		endpoints: endpoints,
		sender:    sender,
		opts:      opts.withDefaults(),
		inputs:    make(chan any, 1024),
		done:      make(chan struct{}),
		claims:    make(chan *store.Claim, 1),
		work:      make(chan *item),
		settles:   settleQueue{signal: make(chan struct{}, 1)},
		circuits:  newLine[circuitChange](),
		gone:      newLine[postrider.EndpointID](),
		cluster:   newCluster(),
	}
	endpoints.Subscribe(d.changed)
	return d
}

// Run delivers until ctx is cancelled, then gives attempts in flight
// Options.Drain to finish. It is called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	// Attempts outlive ctx by the time to drain, commits by a little more.
	send, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	commit, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	defer giveUp(nil)

	var parts, attempts sync.WaitGroup
	// The lock is held until the node has left: until then it is alive.
	holding, letGo := context.WithCancel(context.WithoutCancel(ctx))
	defer letGo()
	if d.opts.Cluster.Nodes != nil {
		parts.Go(func() { d.hold(holding) })
	}
	if err := d.join(ctx); err != nil {
		letGo()
		close(d.done)
		parts.Wait()
		return err
	}
	d.running.Store(true)
	d.health.progressed(time.Now())
	parts.Go(func() { d.claimWhenAsked(ctx) })
	parts.Go(func() { d.circuits.each(d.done, func(c circuitChange) { d.storeCircuit(commit, c) }) })
	parts.Go(func() { d.scan(ctx) })
	parts.Go(func() { d.settleWhatComes(commit) })
	parts.Go(func() { d.gone.each(d.done, func(id postrider.EndpointID) { d.disable(commit, id) }) })
	parts.Go(func() { d.watchLoad(ctx) })
	if d.opts.Cluster.Nodes != nil {
		parts.Go(func() {
			defer letGo()
			d.belong(commit)
		})
		parts.Go(func() { d.reclaimWhoDied(commit) })
		parts.Go(func() { d.wakeOthers(commit) })
	}
	timers := make(chan [2]*time.Timer, 1)
	bounded := context.AfterFunc(ctx, func() {
		timers <- [2]*time.Timer{
			time.AfterFunc(d.opts.Drain, func() { cut(ErrDrainTimeout) }),
			time.AfterFunc(d.opts.Drain+5*time.Second, func() { giveUp(ErrDrainTimeout) }),
		}
	})
	defer func() {
		if !bounded() {
			for _, t := range <-timers {
				t.Stop()
			}
		}
	}()

	left := d.loop(ctx, commit, func(it *item) {
		select {
		case d.work <- it:
		default:
			attempts.Go(func() { d.attemptAll(send, it) })
		}
	})
	d.left.Store(int64(left))
	close(d.done)
	attempts.Wait()
	d.settles.close()
	parts.Wait()
	if left > 0 {
		return fmt.Errorf("drain: %d attempts are left to their leases: %w", left, ErrDrainTimeout)
	}
	return nil
}

// Admit gives a Token and a Lease to each of the deliveries that may start as
// soon as they are committed. [Dispatcher.Stored] must follow.
func (d *Dispatcher) Admit(deliveries []*store.NewDelivery) {
	answered := make(chan struct{})
	if d.post(admit{deliveries, answered}) {
		select {
		case <-answered:
		case <-d.done:
		}
	}
}

// Stored says what was committed: admitted deliveries to start, lanes that got
// more to wait in them, and admitted deliveries that were not committed.
func (d *Dispatcher) Stored(started []postrider.Claimed, waiting []store.DueLane, dropped []store.NewDelivery) {
	d.post(stored{started, waiting, dropped})
}

// changed hears of an endpoint that was paused, resumed, deleted or got another
// policy, or that deliveries may be due for it, on whatever node.
func (d *Dispatcher) changed(c routing.Change) {
	d.post(changed{c.Endpoint})
	if c.Due {
		d.post(woken{c.Endpoint})
	}
}

// Behind returns how long this node would need for the deliveries that are due
// and wait for nothing but this node; 0 while its processors keep up.
func (d *Dispatcher) Behind() time.Duration { return time.Duration(d.behind.Load()) }

// BulkWaits returns how many endpoints of this node wait for nothing but the
// pace of fan-outs and replays.
func (d *Dispatcher) BulkWaits() int { return int(d.bulk.Load()) }

// Progressing returns an error when there is work that is due and none of it
// has moved for 45 seconds: longer than any attempt takes.
func (d *Dispatcher) Progressing() error { return d.health.check(time.Now()) }

// post hands an input to the loop and reports whether it could.
func (d *Dispatcher) post(input any) bool {
	if !d.running.Load() {
		return false
	}
	select {
	case d.inputs <- input:
		return true
	case <-d.done:
		return false
	}
}
