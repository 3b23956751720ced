package store

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider"
)

// Ledger lists the history, and stores the decisions that people make about it. Lists are newest
// first, by id. With [Paging.OldestFirst], Events, Deliveries and DeadLetters are oldest first.
type Ledger interface {
	// Events lists events. Only an event found by ID, and each event of a query for Whole events, has its
	// Data; nil Data then means that the bytes were deleted.
	Events(ctx context.Context, q EventQuery) (Page[postrider.Event], error)

	// Deliveries lists deliveries of every status. An attempt that is under way is not counted, and
	// its delivery has no due time.
	// The Waiting of a pending delivery says why the delivery waits, as [postrider.WaitFacts]
	// decides.
	Deliveries(ctx context.Context, q DeliveryQuery) (Page[postrider.Delivery], error)

	// Attempts lists attempts. Deliveries are newest first; the attempts of one delivery are in the
	// order of their numbers, oldest first. The list includes decisions without a request.
	// Attempts have bodies and heads only if q selects one delivery.
	Attempts(ctx context.Context, q AttemptQuery) (Page[postrider.Attempt], error)

	// DeadLetters lists dead letters. Resolved ones are listed only if q asks for them.
	DeadLetters(ctx context.Context, q DeadLetterQuery) (Page[postrider.DeadLetter], error)

	// Replay makes a new delivery of the same event to the same endpoint. The new delivery is due at
	// once in the bulk lane, and its ReplayedFrom names the old one.
	//
	// A dead letter is resolved as replayed. While its replay is pending, a second Replay returns a
	// *ReplayPendingError that names the pending one. When that replay has ended, the dead letter
	// can be replayed again.
	// For a dead letter that was discarded, the error is ErrDiscarded; the record of who discarded
	// it, and why, stays.
	// If the dead letter pauses its ordering key, the replay takes its position: the replay is the
	// head, and the key advances when the replay has ended.
	// If the old delivery is still pending, or its endpoint is deleted, the error is
	// postrider.ErrConflict. If the bytes of the event were deleted, it is postrider.ErrGone.
	Replay(ctx context.Context, r Replay) (postrider.Delivery, error)

	// Cancel ends a pending delivery as cancelled, and adds a record without a request. If the
	// delivery is not pending, the error is postrider.ErrConflict. An attempt under way is not
	// stopped; it settles as stale.
	Cancel(ctx context.Context, c Cancel) (postrider.Delivery, error)

	// Discard resolves a dead letter as discarded. If the dead letter is resolved already, the error
	// is postrider.ErrConflict. If the dead letter pauses its ordering key, the key advances.
	Discard(ctx context.Context, d Discard) (postrider.DeadLetter, error)

	// OrderedKeys lists the ordering keys of an endpoint that are paused or have pending deliveries,
	// sorted by key.
	OrderedKeys(ctx context.Context, q OrderedKeyQuery) (Page[OrderedKey], error)

	// HealthHistory lists the changes of an endpoint's health, newest first.
	HealthHistory(ctx context.Context, q HealthQuery) (Page[postrider.EndpointHealth], error)
}

// OrderedKeyQuery asks for the ordering keys of one endpoint of the account.
type OrderedKeyQuery struct {
	Account  postrider.AccountID
	Endpoint postrider.EndpointID
	Paging
}

// OrderedKey is the state of an ordering key at an endpoint.
type OrderedKey struct {
	Key      string
	Waiting  int                  // number of pending deliveries, with the head; counted up to 1,000
	Head     postrider.DeliveryID // the pending delivery with the lowest sequence; zero if none is pending
	Sequence int64                // the sequence of the head
	Since    time.Time            // when the head was made, or, of a paused key, when it was paused
	PausedBy postrider.DeliveryID // the dead letter that pauses the key; zero if the key is not paused
}

// HealthQuery asks for the health of one endpoint of the account.
type HealthQuery struct {
	Account  postrider.AccountID
	Endpoint postrider.EndpointID
	Paging
}

// MaxAcceptedBody is the greatest size, in bytes, of a response body that is stored in the row of
// its accepted attempt. The head of the response is in that row too (see [Heads]). If the body is
// longer, or the attempt was not accepted, the body and both heads are stored in a separate row.
const MaxAcceptedBody = 256

// EventQuery filters events; a zero field does not filter.
type EventQuery struct {
	Account postrider.AccountID
	ID      postrider.EventID
	Type    string
	// IdempotencyKey selects the event that the key stands for, as long as the key is stored. It
	// needs the Account.
	IdempotencyKey string
	OrderingKey    string // needs the Account
	// Whole events have their Data and what changed. A page of them may be large, so its Limit must not be.
	Whole bool
	Span
	Paging
}

// DeliveryQuery filters deliveries; a zero field does not filter.
type DeliveryQuery struct {
	Account   postrider.AccountID
	ID        postrider.DeliveryID
	Event     postrider.EventID
	Endpoint  postrider.EndpointID
	EventType string
	Status    postrider.Status
	ReplayJob postrider.ReplayID
	// Last excludes a delivery if its event was replayed to the same endpoint later. It is for a
	// Status other than pending and dead.
	Last bool
	// Bare deliveries need only their ID and their Event, so the store may leave out the rest. It is for the
	// deliveries of an endpoint and its own account.
	Bare bool
	Span
	Paging
}

// AttemptQuery filters attempts; a zero field does not filter. It needs the Account, and a
// Delivery or an Event.
type AttemptQuery struct {
	Account  postrider.AccountID
	Delivery postrider.DeliveryID
	Event    postrider.EventID
	Paging
}

// DeadLetterQuery filters dead letters; a zero field does not filter.
type DeadLetterQuery struct {
	Account   postrider.AccountID
	Delivery  postrider.DeliveryID
	Event     postrider.EventID
	Endpoint  postrider.EndpointID
	EventType string
	Reason    string
	Resolved  bool // includes the resolved ones
	// ResolvedFrom includes, besides the unresolved dead letters, those that were resolved at this
	// time or later.
	ResolvedFrom time.Time
	Span
	Paging
}

// Span selects what was created at From or later and before To. A zero From or To is no bound.
type Span struct {
	From, To time.Time
}

// Replay asks for a new delivery of an old delivery's event.
type Replay struct {
	Account  postrider.AccountID // zero: any
	Delivery postrider.DeliveryID
	ID       postrider.DeliveryID // the id of the new delivery, made by the caller
	Expiry   time.Duration        // the time until the new delivery expires
	By       string               // who asked for the replay
}

// ErrDiscarded says that a dead letter was discarded and so cannot be replayed. A person has
// decided about it, and a replay would overwrite the record of that decision.
var ErrDiscarded = fmt.Errorf("the dead letter was discarded: %w", postrider.ErrConflict)

// NotWaitingError returns the error of a MakeDue whose delivery is not in the state that the
// MakeDue asks for. The error matches [postrider.ErrConflict].
func NotWaitingError(m MakeDue) error {
	if m.Parked {
		return fmt.Errorf("it is not parked: %w", postrider.ErrConflict)
	}
	return fmt.Errorf("it does not wait for its time: %w", postrider.ErrConflict)
}

// ReplayPendingError says that the last replay of a dead letter is still pending.
type ReplayPendingError struct {
	Replay postrider.DeliveryID // the pending replay
}

// Error names the pending replay.
func (e *ReplayPendingError) Error() string { return "replay " + e.Replay.String() + " is pending" }

// Unwrap returns [postrider.ErrConflict].
func (e *ReplayPendingError) Unwrap() error { return postrider.ErrConflict }

// Cancel asks for the end of a pending delivery.
type Cancel struct {
	Account  postrider.AccountID // zero: any
	Delivery postrider.DeliveryID
}

// Discard asks to resolve a dead letter without a replay.
type Discard struct {
	Account  postrider.AccountID // zero: any
	Delivery postrider.DeliveryID
	By       string
	Note     string
}
