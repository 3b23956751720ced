// Package dispatch turns due deliveries into HTTP attempts.
//
// A [Dispatcher] admits deliveries that ingest is about to commit, claims the others
// from a [store.Queue] when they are due, calls a [Sender] for each when its endpoint
// and the node have a free slot, and settles the results. Callers see
// [Dispatcher.Run]; behind it, one loop (loop.go) owns a [schedule.Core], which
// decides, and a few goroutines carry the decisions out: attempts.go, claimer.go,
// settler.go, membership.go and wakeups.go.
//
// Whatever happens, this holds:
//
//   - At most Options.Concurrency attempts are in flight to endpoints that respond, and
//     Options.MaxInFlight to all; to one host at most Options.HostConcurrency, and to one
//     endpoint at most its own limit. Slots are given to endpoints in turn. Those that respond
//     share theirs with nobody else: see the classes of package schedule.
//   - Nothing is sent to an endpoint while its circuit is open, its Retry-After has
//     not passed or its rate is used up, also not by the next node that serves it.
//     Its waiting deliveries stay as they are and use up no attempt; one node probes
//     an open circuit.
//   - A retry leaves when it is due. Only its own endpoint's circuit, window,
//     rate and share of the slots can delay it, never other endpoints' retries.
//   - Of several nodes one serves an endpoint, so that all limits hold for all
//     nodes together. A node that dies is replaced within a second if the store sees
//     that its connection is gone, and within ten seconds otherwise.
//   - What this machine lacks costs no delivery an attempt and opens no circuit: the lease
//     is given back, and the endpoint waits for 1 s, and up to 30 s if it lasts.
//   - A request leaves only while its lease covers its deadline, so a delivery
//     is attempted by one node at a time, and by another if that one dies.
//   - Every request that left is settled, or its lease ends and it is recorded
//     as lost. A node has at most as many leases that have not started as it has
//     slots, so that a death records at most that many lost attempts that were not
//     made.
//   - Wake-ups may be lost: a scan of the queue finds the lanes that they named.
//   - When Run returns, every attempt that it started is settled or abandoned
//     to its lease, deliveries that had not started are released, and no goroutine is
//     left.
//
// It decides when a delivery is attempted, and nothing else: package routing knows who
// subscribed, package webhook makes the request, and [postrider.Settle] decides what a
// response means for the delivery.
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
	"github.com/postrider/postrider/internal/batch"
	"github.com/postrider/postrider/internal/observe"
	"github.com/postrider/postrider/internal/routing"
	"github.com/postrider/postrider/internal/schedule"
	"github.com/postrider/postrider/internal/store"
)

// ErrDrainTimeout is the cause of the contexts that end when draining takes too long:
// first those of attempts, then those of commits. Run's error wraps it then.
var ErrDrainTimeout = errors.New("the time to finish attempts is over")

// Sender makes attempts.
type Sender interface {
	// Send makes the attempt that c is leased for, and returns its record. It
	// returns soon after the deadline, or after ctx has ended, whichever comes
	// first. It changes neither c nor to. An attempt with [postrider.OutcomePostponed] was
	// not made: nothing left this machine.
	Send(ctx context.Context, deadline time.Time, c *postrider.Claimed, to *store.EndpointSnapshot) postrider.Attempt
}

// Endpoints knows every endpoint as it is now. Its methods are called by the loop, so they
// must not wait for the store; Disable, which does, is called by another goroutine.
type Endpoints interface {
	// Lookup returns the endpoint, which must not be changed; false: it is
	// unknown or deleted.
	Lookup(id postrider.EndpointID) (*store.EndpointSnapshot, bool)
	// Held reports whether the store is held, so that nothing may start.
	Held() bool
	// Refresh applies every change that was stored before it was called.
	Refresh(ctx context.Context) error
	// RefreshedAt returns when the last Refresh that succeeded began.
	RefreshedAt() time.Time
	// Subscribe has f called after every change of an endpoint, and when
	// deliveries may be due for one. Lookup returns the change by then.
	Subscribe(f func(routing.Change))
	// Disable disables the endpoint for the reason, if it is enabled, and Subscribe's f is
	// called before it returns. One that a person paused stays paused; its next 410 disables it.
	Disable(ctx context.Context, id postrider.EndpointID, reason string) error
}

// Options tunes a [Dispatcher]. The zero value is the production default.
type Options struct {
	MaxInFlight     int           // see [schedule.Options]
	Concurrency     int           // see [schedule.Options]; one endpoint gets at most 32, or a quarter of it if that is more
	HostConcurrency int           // see [schedule.Options]; of all accounts' endpoints together
	MaxUnsettled    int           // see [schedule.Options]
	Scan            time.Duration // between two scans of the whole queue; default 30 s
	Drain           time.Duration // how long attempts in flight may go on when Run's context has ended; default 35 s, longer than any attempt
	Cluster         Cluster       // default: this node is alone
	Hooks           observe.Hooks // default: nobody observes
	Log             *slog.Logger  // default: discard
}

// Cluster tunes how a node works beside others. A node is dead for the others when its
// lock is free, or, where locks do not work, when it was silent for TTL.
type Cluster struct {
	Nodes       store.Nodes   // nil: there are no others, and no heartbeats
	Incarnation uint32        // of this node, in every token; default random; two nodes must not share one
	Host        string        // name of this node's machine, for people
	TTL         time.Duration // how long a heartbeat renews the ownership of shards; default 5 s
	Heartbeat   time.Duration // between two heartbeats; default 1 s, so that four may be lost
	Poll        time.Duration // between two polls for deliveries that others committed; default 1 s
	PollOnly    bool          // wake-ups are neither sent nor received

	// OnMessage is called with the messages of other nodes that are not the
	// dispatcher's own: see [Dispatcher.Tell]. from is the same for all messages of one
	// node. It must not block. Nil: they are ignored.
	OnMessage func(from, verb, arguments string)
}

func (o Options) withDefaults() Options {
	o.Scan = cmp.Or(o.Scan, 30*time.Second)
	o.Drain = cmp.Or(o.Drain, 35*time.Second)
	o.Cluster.Incarnation = cmp.Or(o.Cluster.Incarnation, 1+rand.Uint32N(1<<31-1)) // a token is a signed 64-bit number
	o.Cluster.TTL = cmp.Or(o.Cluster.TTL, 5*time.Second)
	o.Cluster.Heartbeat = cmp.Or(o.Cluster.Heartbeat, time.Second)
	o.Cluster.Poll = cmp.Or(o.Cluster.Poll, time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

// core returns the options of the core.
func (o Options) core() schedule.Options {
	return schedule.Options{
		Concurrency: o.Concurrency, MaxInFlight: o.MaxInFlight, HostConcurrency: o.HostConcurrency, MaxUnsettled: o.MaxUnsettled,
		Shared: o.Cluster.Nodes != nil, Incarnation: o.Cluster.Incarnation, Poll: o.Cluster.Poll,
	}
}

// Dispatcher delivers due deliveries. Its methods may be called from any
// goroutine, and do nothing while Run is not running.
//
// Everything goes through two places. Inputs go to the loop through one channel,
// which [Dispatcher.post] fills. Actions go from the loop to the other goroutines
// through queues and channels that never make it wait:
//
//	                 ┌─ claims ──────► runClaimer ────┐
//	inputs ──► loop ─┼─ work ────────► attemptAll ────┼──► inputs
//	                 ├─ settlements ─► runSettler ────┤   (eachLocked: what is locked)
//	                 ├─ circuits ────► storeCircuit ──┤
//	                 ├─ gone ────────► disable ───────┘
//	                 └─ wakeUps ─────► runNotifier ──► other nodes
//
// runScanner, runMembership, runLock, watchLoad and watchQueue post inputs of their own. Since the
// loop never waits for one of these goroutines, each of them may wait for the loop.
type Dispatcher struct {
	queue     store.Queue
	endpoints Endpoints
	sender    Sender
	opts      Options

	inputs   chan input
	done     chan struct{} // closed by Run when the loop has ended
	running  atomic.Bool   // set by Run, never cleared; until then inputs are dropped
	ending   atomic.Bool   // Run's context has ended; set by the loop
	left     atomic.Int64  // attempts that were left to their leases; set by Run before done is closed
	lag      atomic.Int64  // nanoseconds, set by the loop; see [Dispatcher.Lag]
	bulk     atomic.Int64  // set by the loop; see [Dispatcher.BulkWaits]
	progress progress

	claims      chan *store.Claim
	work        chan *schedule.Delivery // to a goroutine that waits for an attempt to make
	settlements *batch.Queue[store.Settlement]
	locked      *batch.Queue[store.Settlement] // to be settled apart: another transaction has a lock of theirs
	releases    *batch.Queue[schedule.Release]
	circuits    *batch.Queue[schedule.CircuitChange]
	gone        *batch.Queue[postrider.EndpointID]
	cluster     *cluster

	*effects
}

// New returns a dispatcher that takes work from queue and delivers it with
// sender.
func New(queue store.Queue, endpoints Endpoints, sender Sender, opts Options) *Dispatcher {
	d := &Dispatcher{
		queue:       queue,
		endpoints:   endpoints,
		sender:      sender,
		opts:        opts.withDefaults(),
		inputs:      make(chan input, 1024),
		done:        make(chan struct{}),
		claims:      make(chan *store.Claim, 1),
		work:        make(chan *schedule.Delivery),
		settlements: batch.NewQueue[store.Settlement](),
		locked:      batch.NewQueue[store.Settlement](),
		releases:    batch.NewQueue[schedule.Release](),
		circuits:    batch.NewQueue[schedule.CircuitChange](),
		gone:        batch.NewQueue[postrider.EndpointID](),
	}
	d.cluster = newCluster(d.opts)
	d.effects = &effects{endpoints: endpoints, clock: queue.Clock(), cluster: d.cluster}
	endpoints.Subscribe(func(c routing.Change) { d.postOwn(endpointChanged{c}) })
	return d
}

// Run delivers until ctx is cancelled, then gives attempts in flight
// Options.Drain to finish. It is called once. Its error says that attempts were left to
// their leases, or that another node has the incarnation.
//
// The drain has to keep three promises at once: no request that left is forgotten, no
// delivery waits longer than it must for its next node, and Run returns in time even
// if the database does not respond. Therefore it ends in this order; each step needs the
// goroutines of the later ones:
//
//	 0 s    ctx ends. The loop gives the core Drain: nothing new starts, and leases
//	        that have not started are given back. Publishes may still be committed, but
//	        nothing of them is admitted. The claim under way is finished, so that its
//	        leases are known, and given back, too.
//	        Attempts finish and are settled. A shard of which nothing is in flight any
//	        more is given up with the next heartbeat, ten of which are sent a second.
//	35 s    (Options.Drain) attempts that are still in flight are cut, and their
//	        results are settled. They say nothing about their endpoints.
//	40 s    commits that are still under way are given up: the loop returns, and
//	        attempts that are not settled are left to their leases.
//
// As a rule the loop returns much earlier, when the core has drained. Then:
//
//  1. done is closed, so that no goroutine waits for the loop any more.
//  2. The goroutines of attempts end. Only then the queues are closed, since nothing
//     is added to them any more; the settler commits what it still has, and ends.
//  3. The node leaves the cluster, unless it left attempts: those must be reclaimed,
//     and nobody reclaims from a node that left.
//  4. The node's lock is freed. Until then other nodes know that it is alive and do not
//     take over deliveries that it is still settling.
func (d *Dispatcher) Run(ctx context.Context) error {
	send, commit, stop := d.drainContexts(ctx)
	defer stop()
	locked, unlock := context.WithCancel(context.WithoutCancel(ctx)) // ends when the node has left
	defer unlock()

	var parts, attempts sync.WaitGroup
	if d.opts.Cluster.Nodes != nil {
		parts.Go(func() { d.runLock(locked) })
	}
	if err := d.cluster.join(ctx); err != nil {
		unlock()
		close(d.done)
		parts.Wait()
		return err
	}
	d.running.Store(true)
	d.progress.made(time.Now())
	parts.Go(func() { d.runClaimer(ctx) })
	parts.Go(func() { d.runScanner(ctx) })
	parts.Go(func() { d.runSettler(commit) })
	parts.Go(func() {
		eachLocked(commit, d.locked, d.done, func(group []store.Settlement) { d.settleGroup(commit, group) })
	})
	parts.Go(func() { d.circuits.Each(func(c schedule.CircuitChange) { d.storeCircuit(commit, c) }) })
	parts.Go(func() { d.gone.Each(func(id postrider.EndpointID) { d.disable(commit, id) }) })
	parts.Go(func() { d.watchLoad(ctx) })
	parts.Go(func() { d.watchQueue(ctx) })
	if d.opts.Cluster.Nodes == nil {
		d.opts.Hooks.Membership.Call(observe.Membership{Nodes: 1, Shards: store.Shards})
	} else {
		parts.Go(func() {
			defer unlock()
			d.runMembership(commit)
		})
		parts.Go(func() { d.cluster.runReclaimer(commit, d.done) })
		parts.Go(func() { d.cluster.runNotifier(commit, d.done) })
		parts.Go(func() { d.runEffects(commit, d.done) })
	}

	left := d.runLoop(ctx, commit, func(delivery *schedule.Delivery) {
		select {
		case d.work <- delivery:
		default:
			attempts.Go(func() { d.attemptAll(send, delivery) })
		}
	})
	d.left.Store(int64(left))
	close(d.done)
	attempts.Wait()
	d.settlements.Close()
	d.circuits.Close()
	d.gone.Close()
	parts.Wait()
	if left > 0 {
		return fmt.Errorf("drain: %d attempts are left to their leases: %w", left, ErrDrainTimeout)
	}
	return nil
}

// drainContexts returns the contexts of attempts and of commits. Both outlive ctx,
// since attempts that have started must be finished and recorded. When ctx ends,
// attempts get Options.Drain to finish, and commits 5 s more, which is time for the
// results of attempts that were cut. stop ends both contexts and their timers; the
// timers come through a channel because ctx may end while stop is called.
func (d *Dispatcher) drainContexts(ctx context.Context) (send, commit context.Context, stop func()) {
	send, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	commit, giveUp := context.WithCancelCause(context.WithoutCancel(ctx))
	timers := make(chan [2]*time.Timer, 1)
	unstarted := context.AfterFunc(ctx, func() {
		timers <- [2]*time.Timer{
			time.AfterFunc(d.opts.Drain, func() { cut(ErrDrainTimeout) }),
			time.AfterFunc(d.opts.Drain+5*time.Second, func() { giveUp(ErrDrainTimeout) }),
		}
	})
	return send, commit, func() {
		if !unstarted() {
			for _, t := range <-timers {
				t.Stop()
			}
		}
		cut(nil)
		giveUp(nil)
	}
}

// Admit asks the loop which of the new deliveries may start as soon as they are
// committed, and calls commit with a lease for each of those, which the commit must
// store. What commit returns says which of the admitted deliveries were committed, in
// Started, and which others wait in the queue, in Waiting; its Token is set here. The
// leases of all others, or of all where commit fails or panics, are free again. The
// error is commit's.
//
// It is one call with a function, and not two calls, so that no caller can forget the
// second one: credit that is never freed would shrink the node for good. If the loop
// has ended, nothing is admitted and the commit is made all the same: the deliveries
// wait in the queue for another node.
func (d *Dispatcher) Admit(ask []schedule.Admission, commit func(schedule.Grant) (schedule.DeliveriesCommitted, error)) error {
	var grant schedule.Grant
	response := make(chan schedule.Grant, 1)
	if len(ask) > 0 && d.postOwn(admissionAsked{ask, response}) {
		select {
		case grant = <-response:
		case <-d.done:
		}
	}
	var committed schedule.DeliveriesCommitted
	defer func() {
		committed.Token = grant.Token
		if grant.Token != 0 || len(committed.Waiting) > 0 {
			d.post(committed)
		}
	}()
	result, err := commit(grant)
	if err == nil {
		committed = result
	}
	return err
}

// Queued says that new deliveries are committed which wait in these lanes of the queue. Their
// nodes claim them at once. Without it a scan would find them.
func (d *Dispatcher) Queued(lanes []store.DueLane) {
	if len(lanes) > 0 {
		d.post(schedule.DeliveriesCommitted{Waiting: lanes})
	}
}

// Pace returns how much an endpoint that exists may be sent now; false: another node sends
// to it, or the dispatcher is not running.
func (d *Dispatcher) Pace(ctx context.Context, id postrider.EndpointID) (postrider.Pace, bool) {
	response := make(chan paceKnown, 1)
	if !d.postOwn(paceAsked{id, response}) {
		return postrider.Pace{}, false
	}
	select {
	case answer := <-response:
		return answer.pace, answer.known
	case <-d.done:
	case <-ctx.Done():
	}
	return postrider.Pace{}, false
}

// Lag returns how long this node would need for the deliveries that are due and
// wait for nothing but this node; 0 while its processors keep up.
func (d *Dispatcher) Lag() time.Duration { return time.Duration(d.lag.Load()) }

// BulkWaits returns how many endpoints of this node wait for nothing but the rate
// of fan-outs and replays, or how many bulk deliveries it has leased, whichever are more.
func (d *Dispatcher) BulkWaits() int { return int(d.bulk.Load()) }

// Progressing returns an error when there is work that is due and none of it
// has moved for 45 seconds: longer than any attempt takes.
func (d *Dispatcher) Progressing() error { return d.progress.check(time.Now()) }
