package store

import (
	"context"

	"github.com/postrider/postrider"
)

// Holding keeps a store that was restored from sending, until a person resumes it.
type Holding interface {
	// Held returns the hold of the store; zero: it is not held.
	Held(ctx context.Context) (postrider.Hold, error)

	// PutHold holds the store from now on, for the reason, and returns the hold. A
	// store that is held already keeps its hold.
	// While the store is held, Claim leases nothing, and Changes has the hold.
	// It raises the version of the subscriptions: a Publish whose deliveries were
	// admitted before is ErrMoved, so that no new delivery is stored leased.
	// Deliveries that were leased before can be settled.
	//
	// From each call on, the sequence of a new event is higher than the time of the call in
	// microseconds since 1970, whether its ordering key is known or not. So it is higher than
	// those of events that were published after the backup: no key has a million events a
	// second for ever.
	PutHold(ctx context.Context, reason string) (postrider.Hold, error)

	// Resume ends the hold, and returns the work that had been held; zero: the store
	// was not held. What is due can be claimed at once.
	Resume(ctx context.Context) (HeldWork, error)

	// HeldWork counts the pending deliveries of events that were published before the
	// hold, and the fan-out jobs of such events. Zero: the store is not held.
	HeldWork(ctx context.Context) (HeldWork, error)
}

// HeldWork is what may be sent a second time when a restored store is resumed.
type HeldWork struct {
	Deliveries int // pending
	FanOuts    int // jobs; each creates deliveries for up to all endpoints of an account
}
