package receiver

import (
	"context"
	"errors"
	"time"
)

// Store remembers which events are being processed and which were processed. Every method is atomic
// and may be called from any goroutine. Receivers in several processes can share a store that all
// of them can reach. [Memory] and [SQL] are stores.
type Store interface {
	// Claim claims the event with the key for one caller, until the lease ends. It returns
	// ErrProcessed if the event was recorded, and ErrProcessing if another claim is valid. A claim
	// whose lease has ended is not valid.
	Claim(ctx context.Context, key string, lease time.Duration) (Claim, error)

	// Record records that the event of the claim is processed. It does so even if another caller
	// has claimed or recorded the event since: a processed event stays processed.
	Record(ctx context.Context, c Claim) error

	// Release ends the claim, so that the event can be claimed again at once. It changes nothing if
	// the event was recorded as processed or another caller has claimed it.
	Release(ctx context.Context, c Claim) error
}

// Claim is the right to process an event.
type Claim struct {
	Key   string // key of the event
	Token string // identifies this claim of the event
}

// The states of an event in a [Store].
var (
	// ErrProcessed: the event is recorded as processed.
	ErrProcessed = errors.New("receiver: event is processed")
	// ErrProcessing: another caller has claimed the event.
	ErrProcessing = errors.New("receiver: event is being processed")
	// ErrClaimLost: the lease ended, and another caller has claimed or recorded the event since.
	ErrClaimLost = errors.New("receiver: claim lost")
)
