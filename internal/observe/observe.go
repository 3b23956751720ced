// Package observe calls hooks for what the engine does, so that metrics, traces and
// notices need no place in the engine.
//
// [Hooks] is a struct of optional functions, one for each seam of the engine:
// publishing, committing, claiming, attempting, settling, circuits, the health
// of endpoints, replay jobs, membership, chores, the queue, the store's calls and the API's
// responses. An [Observer] has them with their panics
// caught, and the parts of the engine get them from it:
//
//	o := observe.New(observe.Hooks{Settled: func(s observe.Settled) { … }}, log)
//	dispatch.New(…, dispatch.Options{Hooks: o.Hooks})
//
// Whatever happens, this holds:
//
//   - A hook is called after what it reports is done: after the commit, where there
//     is one. Only AttemptStarted is called before: its request has not left yet.
//   - It is called outside all locks, by the goroutine that did the work, after that
//     goroutine has handed the result on; never by the dispatcher's loop. Several
//     goroutines may call a hook at once.
//   - A hook that panics costs the engine nothing: the panic is logged and counted
//     ([Observer.Panics]).
//   - A hook that is nil costs a comparison, and nothing is copied for it.
//
// A hook must return at once; work that takes time belongs in a goroutine of its own,
// behind a buffer. A hook gets values and cannot change what the engine does.
// The package knows no library of metrics or traces.
package observe

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
)

// Hook is a function that is called with what happened; nil: there is none.
type Hook[T any] func(T)

// Call calls the hook, if there is one. Callers on the way of every delivery ask
// whether there is one before they make a large value for it.
func (h Hook[T]) Call(with T) {
	if h != nil {
		h(with)
	}
}

// Hooks are functions that are called when something happened. Each may be nil.
// The zero value is for parts that nobody observes.
type Hooks struct {
	Accepted        Hook[Accepted]                 // a publish is committed and its caller has the receipts
	Refused         Hook[Refused]                  // a publish was not accepted
	QuotaUsed       Hook[*postrider.QuotaError]    // a request was refused because of a quota of its account; a publish: after Refused
	Committed       Hook[Committed]                // a commit of publishes, or of a chunk of a fan-out, is over
	Claimed         Hook[Claimed]                  // a claim came back
	AttemptStarted  Hook[postrider.Claimed]        // a request is about to leave
	AttemptFinished Hook[AttemptFinished]          // a request is over; it is not settled yet
	Postponed       Hook[postrider.Failure]        // an attempt was not made, because of this failure of the server; after AttemptFinished
	Settled         Hook[Settled]                  // an attempt is on record and its delivery has moved
	DeadLetter      Hook[Settled]                  // a delivery became a dead letter; called after Settled
	AttemptsLost    Hook[int]                      // so many attempts of nodes that died are on record as lost; a stale settlement may replace one
	CircuitChanged  Hook[postrider.Circuit]        // a node or a person opened, probed or closed a circuit, and it is stored; once, by the node that stored it
	HealthChanged   Hook[postrider.EndpointHealth] // an endpoint was warned about, disabled (a 410 included) or is healthy again
	Noticed         Hook[postrider.Notice]         // a notice is stored; once, by the node that stored it
	NoticesWaiting  Hook[int]                      // how many notices wait for their operational events, as far as a round of internal/notify has read
	ReplayEnded     Hook[postrider.ReplayJob]      // a replay job is done or has failed; once, by the node that ended it. Its deliveries may be pending still
	Lag             Hook[time.Duration]            // how far this node lags behind; four times a second
	LoopLag         Hook[time.Duration]            // how long the dispatcher's loop took to reach an input; four times a second
	Queue           Hook[Queue]                    // what waits for this node's endpoints; every 15 s
	WokenUp         Hook[WakeUp]                   // a message to or from other nodes
	Membership      Hook[Membership]               // a heartbeat came back
	ChoreDone       Hook[ChoreDone]                // a round of a chore is over
	ChoreWorks      Hook[ChoreDone]                // a round goes on: what it has done so far. After each of its chunks but the last
	HealthCounted   Hook[HealthCounts]             // the janitor has assessed all endpoints
	Ended           Hook[Ended]                    // deliveries ended without an attempt
	Responded       Hook[Responded]                // a request of the API got its response
	ReadRefused     Hook[postrider.AccountID]      // a read of the API or a page was refused, because too many of its account were under way
	StoreCalled     Hook[StoreCall]                // a call of the store is over
	MessageDone     Hook[MessageDone]              // a message to a notice destination was sent, or was not
	Disk            Hook[float64]                  // which part of the disk of the store is in use, 0 to 1; each second, where it can be seen
	Ready           Hook[bool]                     // whether /readyz says that the server is ready; every 5 s
	ClockOffset     Hook[time.Duration]            // how far the store's clock is ahead of this machine's; each second
	Backup          Hook[Backup]                   // what is known of the backups of one kind; every 15 s
	Violated        Hook[string]                   // something happened that must not; the invariant's name
}

// Accepted is a publish that was accepted. Its slices are the caller's: a hook keeps none of
// them, and none of the events' data.
type Accepted struct {
	Events     int // duplicates included
	Duplicates int
	Bytes      int // of data

	Published []postrider.Event   // with their ids, but for duplicates
	Receipts  []postrider.Receipt // of Published, one each
	Begun     time.Time           // by this machine's clock
	Took      time.Duration       // from then until the receipts were there
	Commit    Committed           // that stored it, together with others
	Route     string              // path of the API's operation; empty: no request published it
}

type routeKey struct{}

// WithRoute returns a context that says by which path of the API its work was asked for.
func WithRoute(ctx context.Context, route string) context.Context {
	return context.WithValue(ctx, routeKey{}, route)
}

// Route returns what WithRoute said; empty: nothing.
func Route(ctx context.Context) string {
	route, _ := ctx.Value(routeKey{}).(string)
	return route
}

// Refused is a publish that was not accepted.
type Refused struct {
	Events int
	Err    error // postrider.ErrBusy and others: see ingest.Publish
}

// Committed is a commit of new events or deliveries.
type Committed struct {
	Chunk      *Chunk    // of a fan-out; nil: a commit of publishes
	Events     int       // 0: a chunk of a fan-out
	Deliveries int       // those that are skipped among them
	Skipped    Skipped   // of these
	Begun      time.Time // by this machine's clock
	Took       time.Duration
	Err        error // nil: it is stored
}

// Skipped counts deliveries that were recorded as skipped, by reason: their endpoint was
// disabled or deleted, or its backlog was full.
type Skipped struct{ Disabled, Deleted, Full int }

// Chunk is a part of an event's fan-out job.
type Chunk struct {
	Event  *postrider.Event     // a hook does not keep it
	Behind postrider.EndpointID // the chunk begins behind this endpoint; zero: it is the first
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

// Queue is what waits for the endpoints of this node.
type Queue struct {
	Lanes          []QueueLane
	OpenCircuits   int  // circuits that are not closed
	OpenedTogether int  // of them, the most that opened within one hour; those that a person opened do not count
	Partial        bool // there are more lanes than were read
}

// QueueLane is what waits in a lane of an endpoint. Counts stop at a bound of the dispatcher.
type QueueLane struct {
	Endpoint postrider.EndpointID
	Lane     postrider.Lane
	HeldBy   postrider.HeldBy
	Waiting  int // deliveries that wait, are due or are leased
	Due      int // deliveries that are due

	Oldest, Newest time.Duration // how long the first and the last counted due one have been due
}

// WakeUp is a message between nodes.
type WakeUp struct {
	Verb string // what it says; "other" for the messages of other parts than the dispatcher
	Sent bool   // by this node; false: received
	Err  error  // of one that was sent; nil: it left
}

// HealthCounts are the endpoints that are not healthy.
type HealthCounts struct{ Warned, Disabled int }

// Ended are deliveries that ended without an attempt: they expired, were cancelled or were
// skipped.
type Ended struct {
	Status postrider.Status
	Reason string
	N      int
}

// Responded is a request of the API that got its response.
type Responded struct {
	Route   string // method and pattern; empty: there is no such route
	Status  int    // of HTTP
	Problem string // the problem's code; empty: it succeeded
	Took    time.Duration
}

// StoreCall is a call of the store.
type StoreCall struct {
	Verb string // the method's name
	Took time.Duration
	Err  error
}

// MessageDone is a message to a notice destination.
type MessageDone struct {
	Channel postrider.Channel
	Result  string // MessageSent, MessageFailed or MessageRefused
	Failing int    // destinations of the channel whose last message from this node was not sent
}

// The results of a message.
const (
	MessageSent    = "sent"
	MessageFailed  = "failed"  // it is tried again
	MessageRefused = "refused" // for good
)

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

// The kinds of backups.
const (
	BackupCopy = "copy" // of a SQLite store, by postrider backup
	BackupLog  = "log"  // PostgreSQL archives its log
)

// Backup is what is known of the backups of one kind.
type Backup struct {
	Kind        string
	SucceededAt time.Time // the last one; zero: none
	Failing     bool      // the last try failed
}

// ChoreDone is a round of a chore.
type ChoreDone struct {
	Name string
	Took time.Duration
	Rows int   // what it did, where it counts that
	Err  error // nil: all of it is done
}

// Observer has hooks that may be called without regard to their panics.
type Observer struct {
	// Hooks are those of [New], each with its panics caught. A nil one stays nil.
	Hooks

	log    *slog.Logger
	panics atomic.Int64
}

// New returns an observer of the hooks, which logs their panics.
func New(hooks Hooks, log *slog.Logger) *Observer {
	o := &Observer{log: log}
	o.Hooks = Hooks{
		Accepted:        guard(o, hooks.Accepted),
		Refused:         guard(o, hooks.Refused),
		QuotaUsed:       guard(o, hooks.QuotaUsed),
		Committed:       guard(o, hooks.Committed),
		Claimed:         guard(o, hooks.Claimed),
		AttemptStarted:  guard(o, hooks.AttemptStarted),
		AttemptFinished: guard(o, hooks.AttemptFinished),
		Postponed:       guard(o, hooks.Postponed),
		Settled:         guard(o, hooks.Settled),
		DeadLetter:      guard(o, hooks.DeadLetter),
		AttemptsLost:    guard(o, hooks.AttemptsLost),
		CircuitChanged:  guard(o, hooks.CircuitChanged),
		HealthChanged:   guard(o, hooks.HealthChanged),
		Noticed:         guard(o, hooks.Noticed),
		NoticesWaiting:  guard(o, hooks.NoticesWaiting),
		ReplayEnded:     guard(o, hooks.ReplayEnded),
		Lag:             guard(o, hooks.Lag),
		LoopLag:         guard(o, hooks.LoopLag),
		Queue:           guard(o, hooks.Queue),
		WokenUp:         guard(o, hooks.WokenUp),
		Membership:      guard(o, hooks.Membership),
		ChoreDone:       guard(o, hooks.ChoreDone),
		ChoreWorks:      guard(o, hooks.ChoreWorks),
		HealthCounted:   guard(o, hooks.HealthCounted),
		Ended:           guard(o, hooks.Ended),
		Responded:       guard(o, hooks.Responded),
		ReadRefused:     guard(o, hooks.ReadRefused),
		StoreCalled:     guard(o, hooks.StoreCalled),
		MessageDone:     guard(o, hooks.MessageDone),
		Disk:            guard(o, hooks.Disk),
		Ready:           guard(o, hooks.Ready),
		ClockOffset:     guard(o, hooks.ClockOffset),
		Backup:          guard(o, hooks.Backup),
		Violated:        guard(o, hooks.Violated),
	}
	return o
}

// Join returns hooks that call those of each in turn, for an engine that several
// parts observe.
func Join(all ...Hooks) (joined Hooks) {
	for _, h := range all {
		joined = Hooks{
			Accepted:        both(joined.Accepted, h.Accepted),
			Refused:         both(joined.Refused, h.Refused),
			QuotaUsed:       both(joined.QuotaUsed, h.QuotaUsed),
			Committed:       both(joined.Committed, h.Committed),
			Claimed:         both(joined.Claimed, h.Claimed),
			AttemptStarted:  both(joined.AttemptStarted, h.AttemptStarted),
			AttemptFinished: both(joined.AttemptFinished, h.AttemptFinished),
			Postponed:       both(joined.Postponed, h.Postponed),
			Settled:         both(joined.Settled, h.Settled),
			DeadLetter:      both(joined.DeadLetter, h.DeadLetter),
			AttemptsLost:    both(joined.AttemptsLost, h.AttemptsLost),
			CircuitChanged:  both(joined.CircuitChanged, h.CircuitChanged),
			HealthChanged:   both(joined.HealthChanged, h.HealthChanged),
			Noticed:         both(joined.Noticed, h.Noticed),
			NoticesWaiting:  both(joined.NoticesWaiting, h.NoticesWaiting),
			ReplayEnded:     both(joined.ReplayEnded, h.ReplayEnded),
			Lag:             both(joined.Lag, h.Lag),
			LoopLag:         both(joined.LoopLag, h.LoopLag),
			Queue:           both(joined.Queue, h.Queue),
			WokenUp:         both(joined.WokenUp, h.WokenUp),
			Membership:      both(joined.Membership, h.Membership),
			ChoreDone:       both(joined.ChoreDone, h.ChoreDone),
			ChoreWorks:      both(joined.ChoreWorks, h.ChoreWorks),
			HealthCounted:   both(joined.HealthCounted, h.HealthCounted),
			Ended:           both(joined.Ended, h.Ended),
			Responded:       both(joined.Responded, h.Responded),
			ReadRefused:     both(joined.ReadRefused, h.ReadRefused),
			StoreCalled:     both(joined.StoreCalled, h.StoreCalled),
			MessageDone:     both(joined.MessageDone, h.MessageDone),
			Disk:            both(joined.Disk, h.Disk),
			Ready:           both(joined.Ready, h.Ready),
			ClockOffset:     both(joined.ClockOffset, h.ClockOffset),
			Backup:          both(joined.Backup, h.Backup),
			Violated:        both(joined.Violated, h.Violated),
		}
	}
	return joined
}

// both returns a hook that calls both; nil if both are.
func both[T any](first, second Hook[T]) Hook[T] {
	switch {
	case first == nil:
		return second
	case second == nil:
		return first
	}
	return func(with T) {
		first(with)
		second(with)
	}
}

// Panics returns how many calls of hooks ended in a panic.
func (o *Observer) Panics() int64 { return o.panics.Load() }

// guard returns a hook that survives the panics of the given one: what a hook does
// must cost no delivery.
func guard[T any](o *Observer, hook Hook[T]) Hook[T] {
	if hook == nil {
		return nil
	}
	return func(with T) {
		defer func() {
			if p := recover(); p != nil {
				o.panics.Add(1)
				o.log.Error("hook panicked", "panic", p, "stack", string(debug.Stack()))
			}
		}()
		hook(with)
	}
}
