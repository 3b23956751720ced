package postrider

import "time"

// ReplayJob replays or discards all deliveries that a filter selects, at a pace. A
// person creates it; the nodes run it (internal/replay), one at a time.
//
// Its set is fixed when it is created: the deliveries that have ended by CreatedAt and whose
// ids are lower than its own. So it contains nothing that is pending then, and none of its own
// deliveries.
type ReplayJob struct {
	ID             ReplayID
	Action         ReplayAction
	Filter         ReplayFilter
	PerSecond      int    // deliveries that are replayed or discarded in a second, at most
	By             string // name of the API key that created it
	Note           string // reason that the person gave
	Expected       ReplayCount
	Status         ReplayStatus
	Error          string // why it failed; empty: it did not
	ReplayPosition        // moved by each chunk
	Handled        int    // matches that were replayed or discarded
	Skipped        ReplaySkips
	CreatedAt      time.Time   // by the store's time of day, as the node that created it knows that
	EndedAt        time.Time   // zero: it is running or paused
	Made           ReplayTally // what became of the deliveries that it made; only of a job found by its id
}

// ReplayPosition says which matches of a job are done: those up to Cursor. Of the endpoints in
// Held, only those up to the id there.
//
// internal/replay holds an endpoint when too many of the job's deliveries are pending at it. From
// then on, until the job ends, the job handles its matches apart from those of all others.
type ReplayPosition struct {
	Cursor DeliveryID
	Held   map[EndpointID]DeliveryID
}

// Reached returns the id up to which the matches of all endpoints are done.
func (p ReplayPosition) Reached() DeliveryID {
	reached := p.Cursor
	for _, id := range p.Held {
		if id.Compare(reached) < 0 {
			reached = id
		}
	}
	return reached
}

// Matched returns the number of matches that the job has looked at so far.
func (j ReplayJob) Matched() int { return j.Handled + j.Skipped.Sum() }

// ReplayFilter selects deliveries that have ended. A zero field does not filter, but
// Statuses has at least one.
type ReplayFilter struct {
	Account    AccountID
	Endpoint   EndpointID
	Event      EventID
	EventTypes []Pattern // one of them matches; none: every type
	Statuses   []Status  // each one of [ReplayStatuses]
	Reason     string    // why the delivery is dead, skipped or cancelled
	From, To   time.Time // created from From on and before To; zero: open
}

// ReplayStatuses lists the statuses of a delivery that a replay job can select. With Dead it
// selects the dead letters that are not resolved, with the others the last delivery of
// an event to an endpoint: what was replayed since is not replayed again.
var ReplayStatuses = []Status{Delivered, Dead, Cancelled, Skipped}

// ReplayAction is what a job does with its matches.
type ReplayAction string

// The actions.
const (
	ActionReplay  ReplayAction = "replay"  // a new delivery of each
	ActionDiscard ReplayAction = "discard" // only dead letters: they are resolved, and nothing is sent
)

// ReplayStatus is the state of a replay job.
type ReplayStatus string

// The statuses of a replay job.
const (
	// ReplayRunning: a node works on it, or will soon. Set when the job is created or
	// resumed.
	ReplayRunning ReplayStatus = "running"
	// ReplayPaused: a person paused it. The deliveries that it made go on.
	ReplayPaused ReplayStatus = "paused"
	// ReplayDone: every match was handled. The deliveries that it made may be pending
	// still. Final.
	ReplayDone ReplayStatus = "done"
	// ReplayCancelled: a person ended it. The deliveries that it made go on. Final.
	ReplayCancelled ReplayStatus = "cancelled"
	// ReplayFailed: the same step failed again and again, see Error. Final; a new job
	// with the same filter does the rest.
	ReplayFailed ReplayStatus = "failed"
)

// Ended reports whether the status is final.
func (s ReplayStatus) Ended() bool { return s != ReplayRunning && s != ReplayPaused }

// ReplaySkips counts the matches of a job that got no replay, by reason.
type ReplaySkips struct {
	BytesGone       int // the data of the event is deleted
	ReplayPending   int // another replay of the dead letter is pending
	EndpointDeleted int
	Resolved        int // somebody replayed or discarded the dead letter after the job was created
}

// Sum returns the number of all skipped matches.
func (s ReplaySkips) Sum() int { return s.BytesGone + s.ReplayPending + s.EndpointDeleted + s.Resolved }

// ReplayCount is a number of matches. If it is not exact, there are more.
type ReplayCount struct {
	Matches int
	Exact   bool
}

// ReplayTally says what became of the deliveries that a job made.
type ReplayTally struct{ Pending, Delivered, Dead, Cancelled int }
