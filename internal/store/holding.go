package store

import (
	"context"

	"github.com/postrider/postrider"
)

// Holding stops a restored store from sending until a person resumes it.
type Holding interface {
	// Held returns the hold of the store, or zero if the store is not held.
	Held(ctx context.Context) (postrider.Hold, error)

	// PutHold holds the store from now on, for the reason, and returns the hold. If the store is
	// held already, its hold stays as it is.
	// While the store is held, Claim leases nothing, and Changes returns the hold.
	// PutHold raises the version of the subscriptions. A Publish whose deliveries were admitted
	// before the hold gets ErrMoved, so no new delivery is stored leased. Deliveries that were
	// leased before the hold can be settled.
	//
	// After each call, the sequence of a new event is higher than the time of the call in
	// microseconds since 1970, even if the ordering key is new. So it is higher than the sequence of
	// any event published after the backup, because no key has a million events a second for ever.
	PutHold(ctx context.Context, reason string) (postrider.Hold, error)

	// Resume ends the hold, and returns the work that the hold kept back; zero if the store was not
	// held. Due deliveries can be claimed at once.
	Resume(ctx context.Context) (HeldWork, error)

	// HeldWork counts the pending deliveries of events that were published before the hold, and the
	// fan-out jobs of such events. The result is zero if the store is not held.
	HeldWork(ctx context.Context) (HeldWork, error)
}

// HeldWork counts the deliveries and fan-out jobs that may be sent a second time when a restored
// store is resumed.
type HeldWork struct {
	Deliveries int // pending deliveries
	FanOuts    int // fan-out jobs; each can create a delivery for every endpoint of an account
}
