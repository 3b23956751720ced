package store

import (
	"time"

	"github.com/postrider/postrider"
)

// MaxAcceptedBody is how many bytes of an accepted attempt's response body are
// stored in the attempt's own row. A longer body, the headers, and everything of
// an attempt that was not accepted are stored in a row of their own.
const MaxAcceptedBody = 256

// EventQuery filters events; a zero field does not.
type EventQuery struct {
	Account postrider.AccountID
	ID      postrider.EventID
	Type    string
	// IdempotencyKey selects the event that the key stands for, while the key is
	// remembered; it needs the Account.
	IdempotencyKey string
	Span
	Paging
}

// DeliveryQuery filters deliveries; a zero field does not.
type DeliveryQuery struct {
	Account   postrider.AccountID
	ID        postrider.DeliveryID
	Event     postrider.EventID
	Endpoint  postrider.EndpointID
	EventType string
	Status    postrider.Status
	Span
	Paging
}

// AttemptQuery filters attempts; a zero field does not. Account with Delivery
// or Event is needed.
type AttemptQuery struct {
	Account  postrider.AccountID
	Delivery postrider.DeliveryID
	Event    postrider.EventID
	Paging
}

// DeadLetterQuery filters dead letters; a zero field does not.
type DeadLetterQuery struct {
	Account   postrider.AccountID
	Delivery  postrider.DeliveryID
	Endpoint  postrider.EndpointID
	EventType string
	Reason    string
	Resolved  bool // the resolved ones too
	Span
	Paging
}

// Span keeps what was made from From on and before To; a zero end is open.
type Span struct {
	From, To time.Time
}

// Replay asks for a delivery to be made again.
type Replay struct {
	Account  postrider.AccountID // zero: any
	Delivery postrider.DeliveryID
	ID       postrider.DeliveryID // the new delivery's
	Expiry   time.Duration
	By       string
}

// ReplayPendingError says that a dead letter is being replayed already.
type ReplayPendingError struct {
	Replay postrider.DeliveryID
}

// Error names the replay.
func (e *ReplayPendingError) Error() string { return "replay " + e.Replay.String() + " is pending" }

// Unwrap returns [postrider.ErrConflict].
func (e *ReplayPendingError) Unwrap() error { return postrider.ErrConflict }

// Cancel asks for a pending delivery to be ended.
type Cancel struct {
	Account  postrider.AccountID // zero: any
	Delivery postrider.DeliveryID
}

// Discard asks for a dead letter to be laid aside.
type Discard struct {
	Account  postrider.AccountID // zero: any
	Delivery postrider.DeliveryID
	By       string
	Note     string
}
