// Package observe calls hooks for the steps of the engine. So metrics, traces and notices need no
// code in the engine itself.
//
// [Hooks] is a struct of optional functions: for publishes, commits, claims, attempts, settlements,
// circuits, the health of endpoints, replay jobs, membership, chores, the queue, calls of the store
// and responses of the API. An [Observer] wraps the hooks so that their panics are caught. The
// parts of the engine get the hooks from the Observer:
//
//	o := observe.New(observe.Hooks{Settled: func(s observe.Settled) { … }}, log)
//	dispatch.New(…, dispatch.Options{Hooks: o.Hooks})
//
// It promises:
//
//   - A hook is called after its step is done: after the commit, if there is one. The
//     exception is AttemptStarted, which is called before the request leaves.
//   - A hook is called outside all locks, by the goroutine that did the work, after that
//     goroutine has handed on the result. The dispatcher's loop never calls one. Several
//     goroutines may call a hook at once.
//   - A hook that panics costs the engine nothing: the panic is logged and counted
//     ([Observer.Panics]).
//   - A nil hook costs one comparison, and no value is copied for it.
//
// A hook must return at once. Work that takes time belongs in a goroutine of its own, behind a
// buffer. A hook gets values and cannot change what the engine does. The package knows no library
// of metrics or traces.
package observe

import (
	"context"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/postrider/postrider"
)

// Hook is a function that is called with the description of a step; nil: none.
type Hook[T any] func(T)

// Call calls the hook, if there is one. Code that runs for every delivery first checks whether the
// hook is nil, before it makes a large value.
func (h Hook[T]) Call(with T) {
	if h != nil {
		h(with)
	}
}

// Hooks are the functions that are called. Each may be nil. The zero value is for parts that nobody
// observes.
type Hooks struct {
	// Accepted: a publish is committed, and its caller has the receipts.
	Accepted Hook[Accepted]
	// Refused: a publish was refused.
	Refused Hook[Refused]
	// QuotaUsed: a quota refused a request. For a publish it is called after Refused.
	QuotaUsed Hook[*postrider.QuotaError]
	// Handed: another node has handed deliveries to this one.
	Handed Hook[Handed]
	// Committed: a commit of publishes, or of a chunk of a fan-out, has ended.
	Committed Hook[Committed]
	// Claimed: a claim has returned.
	Claimed Hook[Claimed]
	// AttemptStarted: a request is about to leave.
	AttemptStarted Hook[postrider.Claimed]
	// AttemptFinished: a request has ended; it is not settled yet.
	AttemptFinished Hook[AttemptFinished]
	// Postponed: this failure of the server prevented an attempt. Called after AttemptFinished.
	Postponed Hook[postrider.Failure]
	// Settled: an attempt is recorded, and its delivery has moved.
	Settled Hook[Settled]
	// DeadLetter: a delivery became a dead letter. Called after Settled.
	DeadLetter Hook[Settled]
	// AttemptsLost: this many attempts of dead nodes are recorded as lost. A stale settlement may
	// replace one.
	AttemptsLost Hook[int]
	// CircuitChanged: a node or a person opened, probed or closed a circuit, and the change is
	// stored. Called once, by the node that stored the change.
	CircuitChanged Hook[postrider.Circuit]
	// HealthChanged: an endpoint was warned about or disabled (a 410 included), or is healthy again.
	HealthChanged Hook[postrider.EndpointHealth]
	// Noticed: a notice is stored. Called once, by the node that stored the notice.
	Noticed Hook[postrider.Notice]
	// NoticesWaiting: how many notices wait for their operational events, as far as the last round
	// of internal/notify read.
	NoticesWaiting Hook[int]
	// ReplayEnded: a replay job is done or has failed. Its deliveries may still be pending. Called
	// once, by the node that ended the job.
	ReplayEnded Hook[postrider.ReplayJob]
	// Lag: how far this node lags behind; four times a second.
	Lag Hook[time.Duration]
	// LoopLag: how long the dispatcher's loop took to reach an input; four times a second.
	LoopLag Hook[time.Duration]
	// Queue: the deliveries that wait for this node's endpoints; every 15 s.
	Queue Hook[Queue]
	// WokenUp: a message was sent to other nodes, or came from one.
	WokenUp Hook[WakeUp]
	// Membership: a heartbeat has returned.
	Membership Hook[Membership]
	// ChoreDone: a round of a chore has ended.
	ChoreDone Hook[ChoreDone]
	// ChoreWorks: a round of a chore continues. Called after each of its chunks but the last, with
	// the time and the rows so far.
	ChoreWorks Hook[ChoreDone]
	// HealthCounted: the janitor has assessed all endpoints.
	HealthCounted Hook[HealthCounts]
	// Ended: deliveries ended without an attempt.
	Ended Hook[Ended]
	// Responded: a request of the API got its response.
	Responded Hook[Responded]
	// ReadRefused: a read of the API or a page was refused, because too many reads of its account
	// were under way.
	ReadRefused Hook[postrider.AccountID]
	// StoreCalled: a call of the store has ended.
	StoreCalled Hook[StoreCall]
	// MessageDone: a message to a notice destination was sent, or failed.
	MessageDone Hook[MessageDone]
	// Disk: the used part of the disk of the store, 0 to 1; each second, if it can be measured.
	Disk Hook[float64]
	// Ready: whether /readyz says that the server is ready; every 5 s.
	Ready Hook[bool]
	// ClockOffset: how far the store's clock is ahead of this machine's; each second.
	ClockOffset Hook[time.Duration]
	// Backup: the state of the backups of one kind; every 15 s.
	Backup Hook[Backup]
	// Violated: the invariant with this name was violated.
	Violated Hook[string]
	// SourceRead: a cycle of the reader of a source has published its rows.
	SourceRead Hook[SourceRead]
	// SourceNoted: the state of a source, from the node that reads it; every 10 s, and when reading fails.
	SourceNoted Hook[SourceNoted]
}

// SourceRead is a cycle of the reader of a source.
type SourceRead struct {
	Source     string // its name
	Rows       int    // published, duplicates included
	Rejected   int
	Duplicates int           // rows that were published before
	Took       time.Duration // without the moving of the rows, which the next cycle does not wait for
}

// SourceNoted is the state of a source.
type SourceNoted struct {
	Source string // its name
	State  postrider.SourceState
	Ended  bool // this node does not read the source any more; there is no State
}

// Accepted is an accepted publish. The slices belong to the caller: a hook must keep neither the
// slices nor the events' data.
type Accepted struct {
	Events     int // duplicates included
	Duplicates int
	Bytes      int // of data, and of what the events say of themselves

	Published []postrider.Event   // with their ids; a duplicate has none
	Receipts  []postrider.Receipt // one for each event of Published
	Begun     time.Time           // by this machine's clock
	Took      time.Duration       // from Begun until the receipts were there
	Commit    Committed           // the commit that stored the publish, together with others
	Route     string              // path of the API's operation; empty: no request published it
}

type routeKey struct{}

// WithRoute returns a context for the work of a request to the API, with the path of the request's
// operation.
func WithRoute(ctx context.Context, route string) context.Context {
	return context.WithValue(ctx, routeKey{}, route)
}

// Route returns the path from WithRoute; empty if there is none.
func Route(ctx context.Context) string {
	route, _ := ctx.Value(routeKey{}).(string)
	return route
}

// Refused is a refused publish.
type Refused struct {
	Events int
	Err    error // postrider.ErrBusy or another error of ingest.Publish
}

// Handed has deliveries that another node has committed under leases of this node.
type Handed struct {
	Deliveries int
	Refused    int // how many of these went back to the queue, because they could not start soon
}

// Committed is a commit of new events or deliveries.
type Committed struct {
	Chunk      *Chunk    // of a fan-out; nil: a commit of publishes
	Events     int       // 0: a chunk of a fan-out
	Deliveries int       // skipped ones included
	Skipped    Skipped   // how many of Deliveries were skipped
	Begun      time.Time // by this machine's clock
	Took       time.Duration
	Err        error // nil: the commit is stored
}

// Skipped counts deliveries that were recorded as skipped, by reason. Their endpoint was disabled
// or deleted, or its backlog was full.
type Skipped struct{ Disabled, Deleted, Full int }

// Chunk is a part of an event's fan-out job.
type Chunk struct {
	Event  *postrider.Event     // a hook must not keep it
	Behind postrider.EndpointID // the chunk begins after this endpoint; zero: it is the first chunk
}

// Claimed is a claim that has returned.
type Claimed struct {
	Asked int // how many deliveries
	Got   int
	Took  time.Duration
	Err   error
}

// AttemptFinished is an attempt that has ended.
type AttemptFinished struct {
	Delivery postrider.Claimed
	Attempt  postrider.Attempt
}

// Queue has the deliveries that wait for the endpoints of this node.
type Queue struct {
	Lanes        []QueueLane
	OpenCircuits int // circuits that are not closed, without those that have nothing to be probed with
	// OpenedTogether is the most circuits that opened within one hour. Those that a person opened do
	// not count.
	OpenedTogether int
	Partial        bool // more lanes have work than were read
}

// QueueLane counts the deliveries in a lane of an endpoint. Counts stop at a bound of the
// dispatcher.
type QueueLane struct {
	Endpoint postrider.EndpointID
	Lane     postrider.Lane
	HeldBy   postrider.HeldBy
	Waiting  int // deliveries that wait, are due or are leased
	Due      int // deliveries that are due

	Oldest, Newest time.Duration // how long the first and the last counted due delivery have been due
}

// WakeUp is a message between nodes.
type WakeUp struct {
	Verb string // verb of the message; "other" for messages that are not the dispatcher's
	Sent bool   // true: sent by this node; false: received
	Err  error  // of a sent message; nil: it left
}

// HealthCounts are the endpoints that are not healthy.
type HealthCounts struct{ Warned, Disabled int }

// Ended counts deliveries that ended without an attempt: they expired, were cancelled or were
// skipped.
type Ended struct {
	Status postrider.Status
	Reason string
	N      int
}

// Responded is a request of the API and its response.
type Responded struct {
	Route   string // method and pattern; empty: no such route
	Status  int    // HTTP status
	Problem string // code of the problem; empty: the request succeeded
	Took    time.Duration
}

// StoreCall is a call of the store that has ended.
type StoreCall struct {
	Verb string // name of the method
	Took time.Duration
	Err  error
}

// MessageDone is a message to a notice destination.
type MessageDone struct {
	Channel postrider.Channel
	Result  string // MessageSent, MessageFailed or MessageRefused
	Failing int    // destinations of the channel to which this node could not send its last message
}

// The results of a message.
const (
	MessageSent    = "sent"
	MessageFailed  = "failed"  // the message is sent again later
	MessageRefused = "refused" // the destination refused it; it is not sent again
)

// Settled is an attempt that is settled.
type Settled struct {
	Delivery   postrider.Claimed
	Attempt    postrider.Attempt
	Transition postrider.Transition
	// Stale says that another node had the delivery: the attempt is recorded, but the delivery did
	// not move.
	Stale bool
}

// Membership is this node's place among all nodes.
type Membership struct {
	Nodes   int // nodes that are alive
	Shards  int // shards that this node owns
	Surplus int // of Shards, how many this node has to give up
}

// The kinds of backups.
const (
	BackupCopy = "copy" // a copy of a SQLite store, by postrider backup
	BackupLog  = "log"  // PostgreSQL archives its log
)

// Backup is the state of the backups of one kind.
type Backup struct {
	Kind        string
	SucceededAt time.Time // time of the last success; zero: none
	Failing     bool      // the last backup failed
}

// ChoreDone is a round of a chore.
type ChoreDone struct {
	Name string
	Took time.Duration
	Rows int   // rows that it changed, if the chore counts them
	Err  error // nil: the round did all of its work
}

// Observer has hooks whose callers need not care about panics.
type Observer struct {
	// Hooks are the hooks given to [New]. Their panics are caught. A nil hook stays nil.
	Hooks

	log    *slog.Logger
	panics atomic.Int64
}

// New returns an observer of the hooks. It logs their panics.
func New(hooks Hooks, log *slog.Logger) *Observer {
	o := &Observer{log: log}
	o.Hooks = Hooks{
		Accepted:        guard(o, hooks.Accepted),
		Refused:         guard(o, hooks.Refused),
		QuotaUsed:       guard(o, hooks.QuotaUsed),
		Handed:          guard(o, hooks.Handed),
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
		SourceRead:      guard(o, hooks.SourceRead),
		SourceNoted:     guard(o, hooks.SourceNoted),
	}
	return o
}

// Join returns hooks that call the hooks of each argument in turn. So several parts can observe one
// engine.
func Join(all ...Hooks) (joined Hooks) {
	for _, h := range all {
		joined = Hooks{
			Accepted:        both(joined.Accepted, h.Accepted),
			Refused:         both(joined.Refused, h.Refused),
			QuotaUsed:       both(joined.QuotaUsed, h.QuotaUsed),
			Handed:          both(joined.Handed, h.Handed),
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
			SourceRead:      both(joined.SourceRead, h.SourceRead),
			SourceNoted:     both(joined.SourceNoted, h.SourceNoted),
		}
	}
	return joined
}

// both returns a hook that calls first and then second; nil if both are nil.
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

// guard returns a hook that catches and counts the panics of the given one: a panic in a hook must
// cost no delivery.
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
