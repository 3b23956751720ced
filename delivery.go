package postrider

import (
	"log/slog"
	"time"
)

// Delivery is one event for one endpoint. A publish creates a delivery for each endpoint that
// subscribed to the event, in the transaction that stores the event. If more than 256 endpoints
// subscribed, a fan-out job creates the deliveries soon after. This type is what the API and the
// command line show; the dispatcher works with [Claimed].
type Delivery struct {
	ID            DeliveryID
	Event         EventID
	Endpoint      EndpointID
	Account       AccountID
	EventType     string
	Status        Status
	Reason        string    // one of the Reason constants below; empty: pending or delivered
	Attempts      int       // requests that left this machine or may have left; decisions without a request do not count
	NextAttemptAt time.Time // zero: no attempt is due, or one is under way
	// [SuspectedAfter] nodes in a row died while they leased the delivery; few suspects are
	// attempted at a time.
	Suspected bool
	// [ParkedAfter] nodes died while the delivery was their only suspect; it waits until a person
	// releases it.
	Parked         bool
	FinishedAt     time.Time  // zero: pending
	LastStatusCode int        // status code of the last attempt that got a response; 0: no attempt got one
	LastError      string     // error of the last attempt; empty: it was accepted, or there was no attempt
	ReplayedFrom   DeliveryID // the delivery that this one replays; zero: it is no replay
	ReplayJob      ReplayID   // replay job that made the delivery; zero: no job did
	Waiting        Waiting    // why it is pending; zero: it is not pending
}

// Status is the state of a delivery. [Settle] is the state machine.
type Status string

// The statuses of a delivery. Only a pending delivery changes its status.
const (
	// Pending: an attempt is due, waits for its time, or is under way. A publish, a fan-out job or
	// a replay creates a delivery as pending. It stays pending through failed attempts, until one
	// of the statuses below ends it.
	Pending Status = "pending"
	// Delivered: the endpoint accepted an attempt with a 2xx status. Final.
	Delivered Status = "delivered"
	// Dead: no attempt follows. The dispatcher sets it after the last attempt that the policy
	// allows, and the janitor sets it when the delivery expires. The same transaction writes a
	// [DeadLetter]. A replay of a dead delivery is a new delivery; this one stays dead.
	Dead Status = "dead"
	// Cancelled: a person cancelled it, or its endpoint was deleted. Final.
	Cancelled Status = "cancelled"
	// Skipped: the delivery was never pending. A publish sets it if the endpoint was disabled or
	// its backlog was full. A fan-out job sets it if the endpoint was deleted before the job
	// reached it. Final, but a person can replay it.
	Skipped Status = "skipped"
)

// Statuses lists every status.
var Statuses = []Status{Pending, Delivered, Dead, Cancelled, Skipped}

// The reasons of a delivery that is dead, skipped or cancelled.
const (
	ReasonExhausted   = "exhausted"    // dead: the last attempt of its retry schedule failed
	ReasonGone        = "gone"         // dead: the endpoint responded 410
	ReasonClientError = "client_error" // dead: a 4xx status that the policy does not retry
	// Dead: the receiver asked for no further attempt ([ReceiverAsk]).
	ReasonAborted          = "aborted_by_receiver"
	ReasonExpired          = "expired"           // dead: pending for longer than the policy's Expiry
	ReasonFilterFailed     = "filter_failed"     // dead: the condition of its endpoint could not be evaluated
	ReasonSystem           = "system"            // dead: the payload of its event was deleted
	ReasonEndpointDisabled = "endpoint_disabled" // skipped
	// Skipped: as many deliveries waited for the endpoint as its account's quota allows.
	ReasonBacklogFull     = "backlog_full"
	ReasonEndpointDeleted = "endpoint_deleted" // cancelled, or skipped by a fan-out job
	ReasonCancelled       = "cancelled"        // cancelled by a person
)

// DeadReasons lists the reasons of a delivery that is dead.
var DeadReasons = []string{ReasonExhausted, ReasonGone, ReasonClientError, ReasonAborted, ReasonExpired, ReasonFilterFailed, ReasonSystem}

// Lane is the queue of an endpoint in which a pending delivery waits. Every endpoint has four
// lanes. The retry and bulk lanes always keep a share of the endpoint's attempts, so that no lane
// starves.
type Lane string

// The lanes.
const (
	LaneFirst   Lane = "first"   // deliveries without an attempt so far, in the order of their events
	LaneRetry   Lane = "retry"   // deliveries with a failed attempt, by the time of their next attempt
	LaneBulk    Lane = "bulk"    // deliveries of fan-out jobs and replays, which may wait behind live events
	LaneSuspect Lane = "suspect" // deliveries that may have killed nodes; see [SuspectedAfter]
)

// Lanes lists every lane.
var Lanes = []Lane{LaneFirst, LaneRetry, LaneBulk, LaneSuspect}

// StepFilterFailed is the step of a delivery that gets no attempt, because the condition of its
// endpoint could not be evaluated when the event was matched. [Refuse] makes it a dead letter.
const StepFilterFailed = -1

// Token fences a lease: a settlement counts only if the delivery's row still has the same token.
// The high 32 bits are the incarnation of the node that leased the delivery, the low 32 bits a
// counter of that node. The zero Token means no lease.
type Token int64

// Claimed is a delivery that a node has leased to attempt it. No other node may
// attempt it until the lease ends. The store fills it in when it grants the lease.
type Claimed struct {
	ID       DeliveryID
	Endpoint EndpointID
	// Shared with the event's other deliveries, so read only; Data is nil if the payload was
	// deleted.
	Event        *Event
	Lane         Lane
	Attempt      int // number of the attempt that the lease is for, from 1
	Step         int // place in the retry schedule, from 0; or StepFilterFailed
	Losses       int // previous leases in a row whose node died before it settled
	Token        Token
	ExpiresAt    time.Time  // when the delivery is dead by the policy's Expiry
	ReplayedFrom DeliveryID // the delivery that this one replays; zero: it is no replay
	ReplayJob    ReplayID   // replay job that made the delivery; zero: no job did
}

// LogValue gives every log line about an attempt the same keys.
func (c Claimed) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("id", c.ID.String()),
		slog.String("event", c.Event.ID.String()),
		slog.String("endpoint", c.Endpoint.String()),
		slog.Int("attempt", c.Attempt),
		slog.String("trace", c.Event.Trace().String()))
}

// DeadLetter is the record of a dead delivery. It waits for a person, who replays or discards it.
// The record stays afterwards.
type DeadLetter struct {
	Delivery       DeliveryID
	Event          EventID
	Endpoint       EndpointID
	Account        AccountID
	EventType      string
	Reason         string
	Attempts       int
	LastStatusCode int
	LastError      string
	ReplayedFrom   DeliveryID
	DiedAt         time.Time
	ResolvedAt     time.Time  // zero: nobody has resolved it
	Resolution     Resolution // empty: nobody has resolved it
	ResolvedBy     string     // name of the API key that resolved it
	Note           string     // reason that the person gave when resolving it
	Replay         DeliveryID // the new delivery that replays it; zero: it was not replayed
}

// Resolution is how a person resolved a dead letter. Empty: nobody has resolved it.
type Resolution string

// The resolutions.
const (
	Replayed  Resolution = "replayed"  // a new delivery sends the event again
	Discarded Resolution = "discarded" // nothing is sent
)
