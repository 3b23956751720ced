package postrider

import "time"

// ReplayJob replays or discards all deliveries that a filter selects, at a limited rate. A person
// creates it. One node at a time runs it (internal/replay).
//
// The set of deliveries is fixed when the job is created: those that have ended by CreatedAt and
// whose ids are lower than the job's id. So the set contains no delivery that is pending then, and
// none that the job makes.
//
// A job with [ActionBackfill] selects events instead: those whose ids are lower than the job's id,
// that the endpoint wants, and that have no delivery to it.
type ReplayJob struct {
	ID             ReplayID
	Action         ReplayAction
	Filter         ReplayFilter
	PerSecond      int    // limit of the deliveries that are replayed or discarded per second
	By             string // name of the API key that created it
	Note           string // reason that the person gave
	Expected       ReplayCount
	Status         ReplayStatus
	Error          string // why the job failed; empty: it did not fail
	ReplayPosition        // each chunk moves it
	Handled        int    // number of matches that were replayed or discarded
	Skipped        ReplaySkips
	CreatedAt      time.Time // by the store's time of day, as the node that created the job knew it
	EndedAt        time.Time // zero: the job is running or paused
	// Statuses of the deliveries that the job made; set only if the job was looked up by its id.
	Made ReplayTally
}

// ReplayPosition says which matches of a job are done: the matches up to Cursor. For an endpoint in
// Held, only the matches up to its id in Held are done. In a backfill, Cursor is the id of an event.
//
// internal/replay holds an endpoint when too many of the job's deliveries to it are pending. From
// then until the job ends, the job handles the endpoint's matches separately from all others.
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

// Matched returns the number of matches that the job has handled or skipped so far.
func (j ReplayJob) Matched() int { return j.Handled + j.Skipped.Sum() }

// ReplayFilter selects deliveries that have ended. A zero field does not filter. Statuses must have
// at least one element. In a backfill only the account, the endpoint and From are set: the subscription
// of the endpoint selects the events.
type ReplayFilter struct {
	Account    AccountID
	Endpoint   EndpointID
	Event      EventID
	EventTypes []Pattern // one of them must match; none: every type
	Statuses   []Status  // each is one of [ReplayStatuses]
	Reason     string    // reason of the dead, skipped or cancelled deliveries
	From, To   time.Time // created at From or later and before To; zero: no limit
}

// ReplayStatuses lists the statuses of a delivery that a replay job can select. Dead selects the
// dead letters that are not resolved. Each other status selects only the last delivery of an event
// to an endpoint, so a delivery that was replayed already is not replayed again.
var ReplayStatuses = []Status{Delivered, Dead, Cancelled, Skipped}

// ReplayAction is what a job does with its matches.
type ReplayAction string

// The actions.
const (
	ActionReplay  ReplayAction = "replay"  // each match gets a new delivery
	ActionDiscard ReplayAction = "discard" // each match, always a dead letter, is resolved, and nothing is sent
	// ActionBackfill: each match is an event, and gets its first delivery to the endpoint.
	ActionBackfill ReplayAction = "backfill"
)

// ReplayStatus is the state of a replay job.
type ReplayStatus string

// The statuses of a replay job.
const (
	// ReplayRunning: a node runs the job, or will soon. Set when the job is created or resumed.
	ReplayRunning ReplayStatus = "running"
	// ReplayPaused: a person paused the job. The deliveries that it made are still attempted.
	ReplayPaused ReplayStatus = "paused"
	// ReplayDone: every match was handled or skipped. Some of the deliveries that the job made may
	// still be pending. Final.
	ReplayDone ReplayStatus = "done"
	// ReplayCancelled: a person ended the job. The deliveries that it made are still attempted.
	// Final.
	ReplayCancelled ReplayStatus = "cancelled"
	// ReplayFailed: the same step of the job failed again and again; see Error. Final. A new job
	// with the same filter does the rest.
	ReplayFailed ReplayStatus = "failed"
)

// Ended reports whether the status is final.
func (s ReplayStatus) Ended() bool { return s != ReplayRunning && s != ReplayPaused }

// ReplaySkips counts the matches of a job that were not replayed, by reason.
type ReplaySkips struct {
	BytesGone       int // the data of the event is deleted
	ReplayPending   int // another replay of the dead letter is pending
	EndpointDeleted int
	Resolved        int // a person replayed or discarded the dead letter after the job was created
}

// Sum returns the number of all skipped matches.
func (s ReplaySkips) Sum() int { return s.BytesGone + s.ReplayPending + s.EndpointDeleted + s.Resolved }

// ReplayCount is a number of matches. If Exact is false, there are more than Matches.
type ReplayCount struct {
	Matches int
	Exact   bool
}

// ReplayTally counts the deliveries that a job made, by their status.
type ReplayTally struct{ Pending, Delivered, Dead, Cancelled int }
