package store

import (
	"context"
	"fmt"
	"time"

	"github.com/postrider/postrider"
)

// Ledger lists what happened, and stores what a person decides about it.
// Lists are newest first, by id; Events, Deliveries and DeadLetters are oldest
// first where [Paging.OldestFirst] asks for it.
type Ledger interface {
	// Events lists events. Only an event found by ID carries its Data; nil Data
	// then means that the bytes are gone.
	Events(ctx context.Context, q EventQuery) (Page[postrider.Event], error)

	// Deliveries lists deliveries of every status. While an attempt is under
	// way it is not counted, and none is due.
	// One that is pending says why it waits, by [postrider.WaitFacts].
	Deliveries(ctx context.Context, q DeliveryQuery) (Page[postrider.Delivery], error)

	// Attempts lists attempts by delivery, newest first, and in a delivery by
	// number, oldest first; decisions without a request too.
	// Bodies and heads come with those of one delivery only.
	Attempts(ctx context.Context, q AttemptQuery) (Page[postrider.Attempt], error)

	// DeadLetters lists dead letters; only the unresolved unless q says else.
	DeadLetters(ctx context.Context, q DeadLetterQuery) (Page[postrider.DeadLetter], error)

	// Replay makes a new delivery, due at once in the bulk lane, of the same
	// event to the same endpoint, linked by ReplayedFrom.
	//
	// A dead letter is resolved as replayed. While its replay is pending, a
	// second one is a *ReplayPendingError that names it; afterwards it may be
	// replayed again.
	// A dead letter that was discarded is ErrDiscarded, and keeps who discarded it
	// and why.
	// If the dead letter pauses its ordering key, the replay gets its position: it
	// is the head, and the key advances when the replay has ended.
	// A delivery that is pending itself is postrider.ErrConflict; so is one
	// whose endpoint is deleted. Bytes that are gone: postrider.ErrGone.
	Replay(ctx context.Context, r Replay) (postrider.Delivery, error)

	// Cancel ends a pending delivery as cancelled, with a record without a
	// request. One that is not pending is postrider.ErrConflict. An attempt
	// under way is not stopped; it settles as stale.
	Cancel(ctx context.Context, c Cancel) (postrider.Delivery, error)

	// Discard resolves a dead letter as discarded. One that is resolved is
	// postrider.ErrConflict. If it pauses its ordering key, the key advances.
	Discard(ctx context.Context, d Discard) (postrider.DeadLetter, error)

	// OrderedKeys lists the ordering keys of an endpoint that have something
	// waiting or are paused, by key.
	OrderedKeys(ctx context.Context, q OrderedKeyQuery) (Page[OrderedKey], error)

	// HealthHistory lists every change of an endpoint's health, newest first.
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
	Waiting  int                  // pending deliveries, the head among them; counted up to 1,000
	Head     postrider.DeliveryID // the pending delivery with the lowest sequence; zero: none is pending
	Sequence int64                // the head's
	Since    time.Time            // when the head was made; of a paused key, when it was paused
	PausedBy postrider.DeliveryID // the dead letter that pauses it; zero: none does
}

// HealthQuery asks for the health of one endpoint of the account.
type HealthQuery struct {
	Account  postrider.AccountID
	Endpoint postrider.EndpointID
	Paging
}

// MaxAcceptedBody is how many bytes of an accepted attempt's response body are
// stored in the attempt's own row, with the head of the response (see [Heads]). A longer body
// with both heads, and everything of an attempt that was not accepted, are stored in a row
// of their own.
const MaxAcceptedBody = 256

// EventQuery filters events; a zero field does not filter.
type EventQuery struct {
	Account postrider.AccountID
	ID      postrider.EventID
	Type    string
	// IdempotencyKey selects the event that the key stands for, while the key is
	// remembered; it needs the Account.
	IdempotencyKey string
	OrderingKey    string // needs the Account
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
	// Last selects, with a Status that is neither pending nor dead, the deliveries that have
	// no later replay of their event to their endpoint.
	Last bool
	Span
	Paging
}

// AttemptQuery filters attempts; a zero field does not filter. Account with Delivery
// or Event is needed.
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
	Resolved  bool // the resolved ones too
	// ResolvedFrom selects, besides the unresolved, those that were resolved at that
	// time or later.
	ResolvedFrom time.Time
	Span
	Paging
}

// Span selects what was created from From on and before To; a zero end is open.
type Span struct {
	From, To time.Time
}

// Replay asks for a new delivery of the event of an old one.
type Replay struct {
	Account  postrider.AccountID // zero: any
	Delivery postrider.DeliveryID
	ID       postrider.DeliveryID // of the new delivery, made by the caller
	Expiry   time.Duration        // until the new delivery expires
	By       string               // who asked for it
}

// ErrDiscarded says that a dead letter was discarded, so it is not replayed: a person has
// decided about it, and the record of who did and why has one place.
var ErrDiscarded = fmt.Errorf("the dead letter was discarded: %w", postrider.ErrConflict)

// NotWaitingError returns the error of a MakeDue that found nothing to do. It matches
// [postrider.ErrConflict].
func NotWaitingError(m MakeDue) error {
	if m.Parked {
		return fmt.Errorf("it is not parked: %w", postrider.ErrConflict)
	}
	return fmt.Errorf("it does not wait for its time: %w", postrider.ErrConflict)
}

// ReplayPendingError says that the last replay of a dead letter is still pending.
type ReplayPendingError struct {
	Replay postrider.DeliveryID // that replay
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

// Discard asks for a dead letter to be resolved without a replay.
type Discard struct {
	Account  postrider.AccountID // zero: any
	Delivery postrider.DeliveryID
	By       string
	Note     string
}
