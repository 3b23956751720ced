// Package observe calls hooks for what the engine does, so that metrics, traces and
// notices need no place in the engine.
//
// [Hooks] is a struct of optional functions, one for each seam of the engine:
// publishing, committing, claiming, attempting, settling, circuits, the health
// of endpoints, membership and chores. An [Observer] calls them:
//
//	o := observe.New(observe.Hooks{Settled: func(s observe.Settled) { … }}, log)
//	ingest.New(…, ingest.Options{Observer: o})
//
// Whatever happens, this holds:
//
//   - A hook is called after what it reports is done: after the commit, where there
//     is one.
//   - It is called outside all locks, by the goroutine that did the work, after that
//     goroutine has handed the result on; never by the dispatcher's loop. Several
//     goroutines may call a hook at once.
//   - A hook that panics costs the engine nothing: the panic is logged and counted
//     ([Observer.Panics]).
//   - A hook that is nil costs a comparison.
//
// A hook must return at once; work that takes time belongs in a goroutine of its own,
// behind a buffer. A hook gets values and cannot change what the engine does.
// The package knows no library of metrics or traces.
package observe

import (
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
)

// Hooks are functions that are called when something happened. Each may be nil.
type Hooks struct {
	Accepted        func(Accepted)                 // a publish is committed and its caller has the receipts
	Refused         func(Refused)                  // a publish was not accepted
	Committed       func(Committed)                // a commit of publishes, or of a chunk of a fan-out, is over
	Claimed         func(Claimed)                  // a claim came back
	AttemptStarted  func(postrider.Claimed)        // a request is about to leave
	AttemptFinished func(AttemptFinished)          // a request is over; it is not settled yet
	Settled         func(Settled)                  // an attempt is on record and its delivery has moved
	DeadLetter      func(Settled)                  // likewise, and the delivery is dead; after Settled
	CircuitChanged  func(postrider.Circuit)        // a node opened, probed or closed a circuit, and it is stored
	HealthChanged   func(postrider.EndpointHealth) // an endpoint was warned about, disabled (a 410 included) or is healthy again
	Lag             func(time.Duration)            // how far this node lags behind; four times a second
	Membership      func(Membership)               // a heartbeat came back
	ChoreDone       func(ChoreDone)                // a round of a chore is over
}

// Accepted is a publish that was accepted.
type Accepted struct {
	Events     int // duplicates included
	Duplicates int
	Bytes      int // of data
}

// Refused is a publish that was not accepted.
type Refused struct {
	Events int
	Err    error // postrider.ErrBusy and others: see ingest.Publish
}

// Committed is a commit of new events or deliveries.
type Committed struct {
	Events     int // 0: a chunk of a fan-out
	Deliveries int
	Took       time.Duration
	Err        error // nil: it is stored
}

// Claimed is a claim.
type Claimed struct {
	Asked int // deliveries
	Got   int
	Took  time.Duration
	Err   error
}

// AttemptFinished is an attempt that is over.
type AttemptFinished struct {
	Delivery postrider.Claimed
	Attempt  postrider.Attempt
}

// Settled is an attempt that is settled.
type Settled struct {
	Delivery   postrider.Claimed
	Attempt    postrider.Attempt
	Transition postrider.Transition
	Stale      bool // another node had the delivery: the attempt is on record, and nothing moved
}

// Membership is this node's place among the others.
type Membership struct {
	Nodes   int // alive
	Shards  int // this node's
	Surplus int // of them, to be given up
}

// ChoreDone is a round of a chore.
type ChoreDone struct {
	Name string
	Took time.Duration
	Err  error // nil: all of it is done
}

// Observer calls hooks. A nil Observer calls none. Its methods may be called from
// any goroutine.
type Observer struct {
	hooks  Hooks
	log    *slog.Logger
	panics atomic.Int64
}

// New returns an observer that calls the hooks and logs their panics.
func New(hooks Hooks, log *slog.Logger) *Observer { return &Observer{hooks: hooks, log: log} }

// Panics returns how many calls of hooks ended in a panic.
func (o *Observer) Panics() int64 {
	if o == nil {
		return 0
	}
	return o.panics.Load()
}

// call calls a hook, if there is one, and survives its panic.
func call[T any](o *Observer, hook func(T), with T) {
	if hook == nil {
		return
	}
	defer func() {
		if p := recover(); p != nil {
			o.panics.Add(1)
			o.log.Error("hook panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	hook(with)
}

// Accepted calls the hook of this name.
func (o *Observer) Accepted(a Accepted) {
	if o != nil {
		call(o, o.hooks.Accepted, a)
	}
}

// Refused calls the hook of this name.
func (o *Observer) Refused(r Refused) {
	if o != nil {
		call(o, o.hooks.Refused, r)
	}
}

// Committed calls the hook of this name.
func (o *Observer) Committed(c Committed) {
	if o != nil {
		call(o, o.hooks.Committed, c)
	}
}

// Claimed calls the hook of this name.
func (o *Observer) Claimed(c Claimed) {
	if o != nil {
		call(o, o.hooks.Claimed, c)
	}
}

// AttemptStarted calls the hook of this name.
func (o *Observer) AttemptStarted(a postrider.Claimed) {
	if o != nil {
		call(o, o.hooks.AttemptStarted, a)
	}
}

// AttemptFinished calls the hook of this name.
func (o *Observer) AttemptFinished(a AttemptFinished) {
	if o != nil {
		call(o, o.hooks.AttemptFinished, a)
	}
}

// Settled calls the hook of this name, and DeadLetter if the delivery is dead.
func (o *Observer) Settled(s Settled) {
	if o != nil {
		call(o, o.hooks.Settled, s)
		if s.Transition.To == postrider.Dead && !s.Stale {
			call(o, o.hooks.DeadLetter, s)
		}
	}
}

// CircuitChanged calls the hook of this name.
func (o *Observer) CircuitChanged(c postrider.Circuit) {
	if o != nil {
		call(o, o.hooks.CircuitChanged, c)
	}
}

// HealthChanged calls the hook of this name.
func (o *Observer) HealthChanged(h postrider.EndpointHealth) {
	if o != nil {
		call(o, o.hooks.HealthChanged, h)
	}
}

// Lag calls the hook of this name.
func (o *Observer) Lag(l time.Duration) {
	if o != nil {
		call(o, o.hooks.Lag, l)
	}
}

// Membership calls the hook of this name.
func (o *Observer) Membership(m Membership) {
	if o != nil {
		call(o, o.hooks.Membership, m)
	}
}

// ChoreDone calls the hook of this name.
func (o *Observer) ChoreDone(c ChoreDone) {
	if o != nil {
		call(o, o.hooks.ChoreDone, c)
	}
}
