package receiver

import (
	"context"
	"errors"
	"time"
)

// Store remembers which events are being processed, and which have been. Every
// method is atomic and may be called from any goroutine; receivers in several
// processes may share one that outlives them. [Memory] and [SQL] are stores.
type Store interface {
	// Claim takes the event of that key for one caller until the lease ends. It
	// is ErrProcessed if it was recorded and ErrProcessing while another claim
	// is in force. A claim whose lease has ended does not count.
	Claim(ctx context.Context, key string, lease time.Duration) (Claim, error)

	// Record notes that the claim's event is processed. It does so whoever may
	// have claimed it since, or recorded it: processed is processed.
	Record(ctx context.Context, c Claim) error

	// Release ends the claim, so that the event may be claimed again at once.
	// An event that is processed, or claimed by another, stays that.
	Release(ctx context.Context, c Claim) error
}

// Claim is the right to process an event.
type Claim struct {
	Key   string // of the event
	Token string // only of this claim
}

// What a [Store] knows of an event.
var (
	// ErrProcessed: the event is recorded as processed.
	ErrProcessed = errors.New("receiver: event is processed")
	// ErrProcessing: the event is claimed by another.
	ErrProcessing = errors.New("receiver: event is being processed")
	// ErrClaimLost: the lease ended, and the event was claimed or recorded by
	// another since.
	ErrClaimLost = errors.New("receiver: claim lost")
)
