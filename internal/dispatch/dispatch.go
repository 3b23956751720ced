// Package dispatch turns due deliveries into HTTP attempts.
//
// A [Dispatcher] admits deliveries that ingest is about to commit. It claims other deliveries from
// a [store.Queue] when they are due. It calls a [Sender] for each delivery when its endpoint and
// the node have a free slot, and it settles the results. Callers see [Dispatcher.Run]. Inside, one
// loop (loop.go) owns a [schedule.Core], which decides. A few goroutines carry the decisions out:
// attempts.go, claimer.go, settler.go, membership.go and wakeups.go.
//
// These promises always hold:
//
//   - At most Options.Concurrency attempts are in flight to endpoints that respond, at
//     most Options.MaxInFlight to all endpoints, at most Options.HostConcurrency to one
//     host, and to one endpoint at most its own limit. Endpoints get slots in turn. The
//     slots for responding endpoints are used by no others: see the classes of package
//     schedule.
//   - Nothing is sent to an endpoint while its circuit is open, its Retry-After has
//     not passed or its rate is used up. This also holds for the next node that serves
//     it. Its waiting deliveries stay unchanged and use up no attempt. Only one node
//     probes an open circuit.
//   - A retry leaves when it is due. Only its own endpoint's circuit, window,
//     rate and share of the slots can delay it, never other endpoints' retries.
//   - Only one node serves an endpoint at a time, so all limits hold for all nodes
//     together. A node that dies is replaced within a second if the store sees that
//     its connection is gone, and within ten seconds otherwise.
//   - If this machine lacks something, no delivery loses an attempt and no circuit
//     opens: the lease is given back, and the endpoint waits for 1 s, and for up to
//     30 s if the lack lasts.
//   - A request leaves only while its lease covers its deadline. So only one node at a
//     time attempts a delivery, and another one only if that node dies.
//   - Every request that left is settled, or its lease ends and it is recorded
//     as lost. A node has at most one lease that has not started for each of its slots.
//     So when it dies, at most that many attempts are recorded as lost that were never
//     made.
//   - Wake-ups may be lost: a scan of the queue finds the lanes that they named.
//   - When Run returns, every attempt that it started is settled or left to its
//     lease, deliveries that had not started are released, and no goroutine is left.
//
// The package decides only when a delivery is attempted. Package routing knows who subscribed,
// package webhook makes the request, and [postrider.Settle] decides what a response means for the
// delivery.
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

// ErrDrainTimeout is the cause of the contexts that end when draining takes too long: first the
// context of attempts, then the context of commits. Run's error wraps it if attempts were left to
// their leases.
var ErrDrainTimeout = errors.New("the time to finish attempts is over")

// Sender makes attempts.
type Sender interface {
	// Send makes the attempt that c is leased for, and returns its record. It returns soon after
	// the deadline has passed or ctx has ended, whichever is first. It changes neither c nor to. An
	// attempt with [postrider.OutcomePostponed] was not made: nothing left this machine.
	Send(ctx context.Context, deadline time.Time, c *postrider.Claimed, to *store.EndpointSnapshot) postrider.Attempt
}

// Endpoints knows the current settings of every endpoint. The loop calls its methods, so they must
// not wait for the store. Refresh and Disable do wait for it; other goroutines call them.
type Endpoints interface {
	// Lookup returns the endpoint, which the caller must not change; false: the endpoint is unknown
	// or deleted.
	Lookup(id postrider.EndpointID) (*store.EndpointSnapshot, bool)
	// Held reports whether the store is held, so that nothing may start.
	Held() bool
	// Refresh applies every change that was stored before it was called.
	Refresh(ctx context.Context) error
	// RefreshedAt returns when the last successful Refresh began.
	RefreshedAt() time.Time
	// Subscribe makes sure that f is called after every change of an endpoint, and when deliveries
	// may be due for an endpoint. At that time Lookup already returns the change.
	Subscribe(f func(routing.Change))
	// Disable disables the endpoint for the reason, if it is enabled. The f of Subscribe is called
	// before Disable returns. An endpoint that a person paused stays paused; its next 410 disables
	// it.
	Disable(ctx context.Context, id postrider.EndpointID, reason string) error
}

// Peers are the connections to other nodes, on which new deliveries are handed to the nodes of their
// endpoints. Its methods must not block.
type Peers interface {
	// Set names the other nodes, after each heartbeat.
	Set(peers []store.Peer)
	// Reserve returns the token of a session of the endpoint's node, under which one new delivery may
	// be leased; zero: it must wait in the queue. Each reservation must be given back by Hand.
	Reserve(endpoint postrider.EndpointID) postrider.Token
	// Hand gives back reservations of a session, and names the deliveries that were committed; false:
	// the session has ended, and nothing is named.
	Hand(token postrider.Token, reserved int, committed []schedule.Handed) bool
}

// Options tunes a [Dispatcher]. The zero value is the production default.
type Options struct {
	MaxInFlight int // see [schedule.Options]
	// See [schedule.Options]; one endpoint gets at most 32 of these, or a quarter if that is more.
	Concurrency     int
	HostConcurrency int           // see [schedule.Options]; for the endpoints of all accounts together
	MaxUnsettled    int           // see [schedule.Options]
	Scan            time.Duration // interval between two scans of the whole queue; default 30 s
	// Time for attempts in flight to finish after Run's context has ended; default 35 s, longer
	// than any attempt.
	Drain   time.Duration
	Cluster Cluster       // default: this is the only node
	Hooks   observe.Hooks // default: no hook is called
	Log     *slog.Logger  // default: discard
}

// Cluster tunes how a node works together with other nodes. Other nodes take a node for dead when
// its lock is free. If locks do not work, they take it for dead when it was silent for TTL.
type Cluster struct {
	Nodes store.Nodes // nil: there are no other nodes, and no heartbeats
	// Incarnation of this node, in every token; default random; two nodes must not have the same.
	Incarnation uint32
	Host        string        // name of this node's machine, for people
	TTL         time.Duration // time for which a heartbeat renews the ownership of shards; default 5 s
	Heartbeat   time.Duration // interval between two heartbeats; default 1 s, so that four may be lost
	Poll        time.Duration // interval between two polls for deliveries that other nodes committed; default 1 s
	PollOnly    bool          // true: wake-ups are neither sent nor received

	// Where other nodes reach this one, and by which key it proves who it is; see [store.Heartbeat]. Empty:
	// they do not reach it.
	Address   string
	PublicKey [32]byte
	Peers     Peers // the connections to other nodes; nil: there are none

	// OnMessage is called with messages of other nodes that are not for the dispatcher: see
	// [Dispatcher.Tell]. from is the same for all messages of one node. OnMessage must not block.
	// Nil: such messages are ignored.
	OnMessage func(from, verb, arguments string)
	// OnAccounts is called after accounts were deleted or their uids changed, on each node before it
	// confirms that. It must not block. Nil: nothing is called.
	OnAccounts func()
}

func (o Options) withDefaults() Options {
	o.Scan = cmp.Or(o.Scan, 30*time.Second)
	o.Drain = cmp.Or(o.Drain, 35*time.Second)
	// An incarnation has 31 bits: it is the upper half of a token, which is a signed 64-bit number.
	o.Cluster.Incarnation = cmp.Or(o.Cluster.Incarnation, 1+rand.Uint32N(1<<31-1))
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

// Dispatcher delivers due deliveries. Its methods may be called from any goroutine, and do nothing
// while Run is not running.
//
// Inputs and actions each take one way. Inputs go to the loop through one channel, which
// [Dispatcher.post] fills. Actions go from the loop to the other goroutines through queues and
// channels that never make the loop wait:
//
//	                 ┌─ claims ──────► runClaimer ────┐
//	inputs ──► loop ─┼─ work ────────► attemptAll ────┼──► inputs
//	                 ├─ settlements ─► runSettler ────┤   (eachLocked: what is locked)
//	                 ├─ circuits ────► storeCircuit ──┤
//	                 ├─ gone ────────► disable ───────┘
//	                 └─ wakeUps ─────► runNotifier ──► other nodes
//
// runScanner, runMembership, runLock, watchLoad and watchQueue post inputs of their own. The loop
// never waits for one of these goroutines, so each of them may wait for the loop.
type Dispatcher struct {
	queue     store.Queue
	endpoints Endpoints
	sender    Sender
	opts      Options

	inputs   chan input
	done     chan struct{} // closed by Run when the loop has ended
	running  atomic.Bool   // set by Run, never cleared; until then inputs are dropped
	ending   atomic.Bool   // set by the loop when Run's context has ended
	left     atomic.Int64  // number of attempts that were left to their leases; set by Run before done is closed
	lag      atomic.Int64  // nanoseconds, set by the loop; see [Dispatcher.Lag]
	bulk     atomic.Int64  // set by the loop; see [Dispatcher.BulkWaits]
	progress progress

	claims      chan *store.Claim
	work        chan *schedule.Delivery // to an idle goroutine of attemptAll; closed by Run when the loop has ended
	settlements *batch.Queue[store.Settlement]
	// Settlements that wait because another transaction has locked their rows; see eachLocked.
	locked   *batch.Queue[store.Settlement]
	releases *batch.Queue[schedule.Release]
	circuits *batch.Queue[schedule.CircuitChange]
	gone     *batch.Queue[schedule.Disable]
	cluster  *cluster

	*effects
	*handover
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
		gone:        batch.NewQueue[schedule.Disable](),
	}
	d.cluster = newCluster(d.opts)
	d.handover = &handover{d}
	d.effects = &effects{endpoints: endpoints, clock: queue.Clock(), cluster: d.cluster}
	endpoints.Subscribe(func(c routing.Change) { d.postOwn(endpointChanged{c}) })
	return d
}

// Run delivers until ctx is cancelled. Then it gives attempts in flight Options.Drain to finish. It
// is called once. It returns an error if attempts were left to their leases, or if another node has
// the incarnation.
//
// The drain must keep three promises at once: no request that left is forgotten, no delivery waits
// longer than necessary for its next node, and Run returns in time even if the database does not
// respond. Therefore it ends in this order; each step needs the goroutines of the later ones:
//
//	 0 s    ctx ends. The loop gives the core Drain: nothing new starts, and leases
//	        that have not started are given back. Publishes may still be committed, but
//	        none of their deliveries is admitted. The claim under way is finished, so
//	        that its leases are known, and they are given back, too.
//	        Attempts finish and are settled. A shard without attempts in flight is
//	        given up with the next heartbeat, ten of which are sent a second.
//	35 s    (Options.Drain) attempts that are still in flight are cut, and their
//	        results are settled. They say nothing about their endpoints.
//	40 s    commits that are still under way are given up: the loop returns, and
//	        attempts that are not settled are left to their leases.
//
// Usually the loop returns much earlier, when the core has drained. Then:
//
//  1. done is closed, so that no goroutine waits for the loop any more.
//  2. The goroutines of attempts end. Only then the queues are closed, because then
//     nothing is added to them any more. The settler commits what it still has, and ends.
//  3. The node leaves the cluster, unless it left attempts to their leases: those must be
//     reclaimed, and nobody reclaims from a node that left.
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
	parts.Go(func() { d.gone.Each(func(it schedule.Disable) { d.disable(commit, it) }) })
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
	close(d.work)
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

// drainContexts returns the contexts of attempts and of commits. Both outlive ctx, because attempts
// that have started must be finished and recorded. When ctx ends, attempts get Options.Drain to
// finish. Commits get 5 s more, for the results of attempts that were cut. stop ends both contexts
// and their timers. The timers come through a channel because ctx may end while stop is called.
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

// Admit asks the loop which of the new deliveries may start as soon as they are committed. Then it
// calls commit with a lease for each of those, which commit must store. The result of commit has
// the admitted deliveries that were committed, in Started, and the committed deliveries that wait
// in the queue, in Waiting; Admit sets its Token. All other leases are free again, and all leases
// if commit fails or panics. The error is commit's.
//
// Admit is one call with a function instead of two calls, so that no caller can forget the second
// one: credit that is never freed would make the node permanently smaller. If the loop has ended,
// nothing is admitted, but commit is still called: the deliveries wait in the queue for another
// node.
func (d *Dispatcher) Admit(ask []schedule.Admission, commit func(schedule.Grant) (schedule.DeliveriesCommitted, error)) error {
	var grant schedule.Grant
	response := make(chan schedule.Grant, 1)
	if len(ask) > 0 && d.postOwn(admissionAsked{ask: ask, response: response}) {
		select {
		case grant = <-response:
		case <-d.done:
		}
	}
	reserved := d.reserve(ask, &grant)
	var committed schedule.DeliveriesCommitted
	defer func() {
		committed.Started = d.hand(reserved, committed.Started)
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

// Queued says that new deliveries were committed that wait in these lanes of the queue. Their nodes
// claim them at once. Without this call a scan would find them later.
func (d *Dispatcher) Queued(lanes []store.DueLane) {
	if len(lanes) > 0 {
		d.post(schedule.DeliveriesCommitted{Waiting: lanes})
	}
}

// Pace returns how much may be sent to an endpoint now; false: another node sends to it, or the
// dispatcher is not running. The endpoint must exist.
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

// Lag returns how long this node needs for the due deliveries that wait only for this node; 0 while
// its processors keep up.
func (d *Dispatcher) Lag() time.Duration { return time.Duration(d.lag.Load()) }

// BulkWaits returns how many endpoints of this node wait only for the rate of bulk deliveries, or
// how many bulk deliveries the node has leased, whichever is greater.
func (d *Dispatcher) BulkWaits() int { return int(d.bulk.Load()) }

// Progressing returns an error if work is due and none of it has moved for 45 seconds, which is
// longer than any attempt takes.
func (d *Dispatcher) Progressing() error { return d.progress.check(time.Now()) }
