package postrider

import (
	"log/slog"
	"time"
)

// Delivery is one event on its way to one endpoint, as a person sees it.
type Delivery struct {
	ID             DeliveryID // made, like the delivery itself, when the event was accepted
	Event          EventID
	Endpoint       EndpointID
	Account        AccountID
	EventType      string
	Status         Status
	Reason         string    // why it is dead, cancelled or skipped
	Attempts       int       // requests that left or may have left; decisions without one do not count
	NextAttemptAt  time.Time // zero: none is due, or one is under way
	Suspected      bool      // several nodes in a row died while they leased it; few such deliveries are attempted at a time
	Parked         bool      // and it was alone in that too often: it waits until a person releases it
	FinishedAt     time.Time // zero: pending
	LastStatusCode int       // of the last attempt that was answered; 0: none was
	LastError      string    // of the last attempt, empty when it was accepted
	ReplayedFrom   DeliveryID
	Waiting        Waiting // why it is pending; zero: it is not
}

// Status is where a delivery stands.
type Status string

// The statuses of a delivery. Only pending ones change by themselves.
const (
	Pending   Status = "pending"
	Delivered Status = "delivered"
	Dead      Status = "dead"
	Cancelled Status = "cancelled"
	Skipped   Status = "skipped" // the endpoint was disabled when the event was published
)

// Statuses lists every status there is.
var Statuses = []Status{Pending, Delivered, Dead, Cancelled, Skipped}

// Why a delivery is dead, skipped or cancelled.
const (
	ReasonExhausted        = "exhausted"         // the last attempt of its schedule failed
	ReasonGone             = "gone"              // the endpoint answered 410
	ReasonClientError      = "client_error"      // a 4xx, and the policy sends those to the dead letters
	ReasonExpired          = "expired"           // it was pending for longer than the policy's Expiry
	ReasonSystem           = "system"            // the bytes of its event are gone
	ReasonEndpointDisabled = "endpoint_disabled" // skipped
	ReasonEndpointDeleted  = "endpoint_deleted"  // cancelled, or skipped by a fan-out job that came later
	ReasonCancelled        = "cancelled"         // cancelled by a person
)

// Lane is which of an endpoint's four queues a pending delivery waits in.
type Lane string

// The lanes. The retry and bulk lanes always keep a share of an endpoint's
// attempts.
const (
	LaneFirst   Lane = "first"
	LaneRetry   Lane = "retry"
	LaneBulk    Lane = "bulk"    // fan-out jobs and replays
	LaneSuspect Lane = "suspect" // what may be killing nodes, see [SuspectedAfter]
)

// Lanes lists every lane.
var Lanes = []Lane{LaneFirst, LaneRetry, LaneBulk, LaneSuspect}

// Token fences a lease: a settlement counts only while its token is the row's.
// The high 32 bits are the incarnation of the node that leased, the low 32 its
// counter. The zero Token is no lease.
type Token int64

// Claimed is a delivery in a worker's hands, under a lease.
type Claimed struct {
	ID           DeliveryID
	Endpoint     EndpointID
	Event        *Event // shared by the event's deliveries; never written to. Data is nil when the bytes are gone
	Lane         Lane
	Attempt      int // the number of the attempt that the lease is for, from 1
	Step         int // its place in the retry schedule, from 0
	Losses       int // leases in a row, up to now, that ended without a settlement
	Token        Token
	ExpiresAt    time.Time
	ReplayedFrom DeliveryID
}

// LogValue makes every log line about an attempt carry the same keys.
func (c Claimed) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("id", c.ID.String()),
		slog.String("event", c.Event.ID.String()),
		slog.String("endpoint", c.Endpoint.String()),
		slog.Int("attempt", c.Attempt))
}

// DeadLetter is a delivery that will not be tried again by itself. The record
// outlives its resolution.
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
	ResolvedAt     time.Time // zero: it waits for a person
	Resolution     Resolution
	ResolvedBy     string     // the name of the API key that resolved it
	Note           string     // why, in the person's words
	Replay         DeliveryID // the delivery that replays it
}

// Resolution is what a person did with a dead letter.
type Resolution string

// The resolutions; the empty one means that none was made yet.
const (
	Replayed  Resolution = "replayed"
	Discarded Resolution = "discarded"
)
