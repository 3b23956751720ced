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
//   - At most Options.Concurrency attempts are in flight, and of one endpoint
//     at most its own limit. Endpoints take turns; none waits for another's
//     answer.
//   - A request leaves only while its lease covers its deadline, so a delivery
//     is attempted by one node at a time, and by another if that one dies.
//   - Every request that left is settled, or its lease ends and it is recorded
//     as lost.
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
	"github.com/postrider/postrider/internal/store"
)

// ErrDrainTimeout is why attempts are cut when draining takes too long.
var ErrDrainTimeout = errors.New("the time to finish attempts is over")

// Sender makes requests. It returns by the deadline of ctx.
type Sender interface {
	// Send makes the attempt that c is leased for.
	Send(ctx context.Context, c postrider.Claimed, to store.Routed) postrider.Attempt
}

// Endpoints knows every endpoint as it is now.
type Endpoints interface {
	// Lookup returns the endpoint; false: it is unknown or deleted.
	Lookup(id postrider.EndpointID) (store.Routed, bool)
	// Disable disables the endpoint for the reason, unless it is already.
	Disable(ctx context.Context, id postrider.EndpointID, reason string) error
}

// Options tunes a [Dispatcher]. The zero value is the production default.
type Options struct {
	Concurrency  int           // attempts in flight, of one endpoint 32 or a quarter of it at most; default 1,024
	Prefetch     int           // an endpoint's credit, in multiples of its limit; default 2
	MaxHeld      int           // credit over all endpoints; default 8,192
	MaxUnsettled int           // attempts started and not committed; default 4,096
	LeaseMargin  time.Duration // a lease is the endpoint's timeout and this; default 15 s
	Scan         time.Duration // between two looks at the whole queue; default 30 s
	Poll         time.Duration // between two looks at what is new in it, from other nodes; default: never
	Drain        time.Duration // for attempts in flight at the end; default 35 s
	Incarnation  uint32        // of this node, in every token; default random
	Log          *slog.Logger  // default: discard
}

func (o Options) withDefaults() Options {
	o.Concurrency = cmp.Or(o.Concurrency, 1024)
	o.Prefetch = cmp.Or(o.Prefetch, 2)
	o.MaxHeld = cmp.Or(o.MaxHeld, 8192)
	o.MaxUnsettled = cmp.Or(o.MaxUnsettled, 4096)
	o.LeaseMargin = cmp.Or(o.LeaseMargin, 15*time.Second)
	o.Scan = cmp.Or(o.Scan, 30*time.Second)
	o.Drain = cmp.Or(o.Drain, 35*time.Second)
	o.Incarnation = cmp.Or(o.Incarnation, 1+rand.Uint32N(1<<31-1)) // a token is a signed 64-bit number
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
	behind  atomic.Int64 // nanoseconds
	health  health

	claims  chan *store.Claim
	gone    chan postrider.EndpointID
	settles settleQueue
}

// New returns a dispatcher that takes work from queue and delivers it with
// sender.
func New(queue store.Queue, endpoints Endpoints, sender Sender, opts Options) *Dispatcher {
	return &Dispatcher{
		queue:     queue,
		endpoints: endpoints,
		sender:    sender,
		opts:      opts.withDefaults(),
		inputs:    make(chan any, 1024),
		done:      make(chan struct{}),
		claims:    make(chan *store.Claim, 1),
		gone:      make(chan postrider.EndpointID, 256),
		settles:   settleQueue{signal: make(chan struct{}, 1)},
	}
}

// Run delivers until ctx is cancelled, then gives attempts in flight
// Options.Drain to finish. It is called once.
func (d *Dispatcher) Run(ctx context.Context) error {
	// Attempts outlive ctx by the time to drain, commits by a little more.
	send, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	commit, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	defer giveUp(nil)

	d.running.Store(true)
	d.health.progressed(time.Now())
	var parts, attempts sync.WaitGroup
	parts.Go(func() { d.claimWhenAsked(ctx) })
	parts.Go(func() { d.scan(ctx) })
	parts.Go(func() { d.settleWhatComes(commit) })
	parts.Go(func() { d.disableWhatIsGone(commit) })
	parts.Go(func() { d.watchLoad(ctx) })
	stopTimers := context.AfterFunc(ctx, func() {
		time.AfterFunc(d.opts.Drain, func() { cut(ErrDrainTimeout) })
		time.AfterFunc(d.opts.Drain+5*time.Second, func() { giveUp(ErrDrainTimeout) })
	})
	defer stopTimers()

	left := d.loop(ctx, commit, func(it item) {
		attempts.Go(func() { d.attempt(send, it) })
	})
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

// Wake says that something of the endpoint is due.
func (d *Dispatcher) Wake(endpoint postrider.EndpointID) {
	var lanes []store.DueLane
	for _, l := range postrider.Lanes {
		lanes = append(lanes, store.DueLane{Endpoint: endpoint, Lane: l})
	}
	d.post(due{lanes})
}

// Changed says that an endpoint was paused, resumed, deleted or got another
// policy.
func (d *Dispatcher) Changed(to store.Routed) { d.post(changed{to.Endpoint.ID}) }

// Behind returns how long this node would need for the deliveries that are due
// and wait for nothing but this node; 0 while its processors keep up.
func (d *Dispatcher) Behind() time.Duration { return time.Duration(d.behind.Load()) }

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
