package store

import (
	"time"

	"github.com/postrider/postrider"
)

// What the methods of [Queue] take and return.

// PutCircuit changes a circuit.
type PutCircuit struct {
	Circuit  postrider.Circuit // its Generation is the one that was read
	Announce bool              // whether every node must read it, not only the owner
}

// CircuitQuery filters circuits; a zero field does not filter.
type CircuitQuery struct {
	Endpoint postrider.EndpointID
	After    postrider.EndpointID
	// Failing selects the circuits with a FailingSince of endpoints that are not
	// deleted, and only of the Account, if it is not zero.
	Failing bool
	Account postrider.AccountID // needs Failing
	Limit   int
}

// Claim asks for due deliveries, all leased under one token.
type Claim struct {
	Wants []Want // at most 256; one for an endpoint and lane
	Token postrider.Token
}

// Want asks for up to N due deliveries of one lane of one endpoint.
//
// Copy After from the [LaneState.Low] of the lane's last claim. It saves the store from
// stepping over what was claimed before.
type Want struct {
	Endpoint postrider.EndpointID
	Lane     postrider.Lane
	N        int
	Lease    time.Duration
	After    time.Time // deliveries that were due before it are not looked at; zero: all are
}

// Claims is the result of a [Claim].
type Claims struct {
	Items []postrider.Claimed
	Lanes []LaneState
}

// LaneState is the state of a lane after a claim.
type LaneState struct {
	Claimed  int           // deliveries that this claim leased
	Suspects int           // deliveries that this claim moved to the suspect lane
	Lost     int           // attempts that this claim recorded as lost
	Waiting  bool          // whether a delivery is left, due now or later
	In       time.Duration // if Waiting: until the next one is due; 0 or less: it is due
	Low      time.Time     // for the After of the lane's next [Want]
}

// Settlement is the end of one attempt of a claimed delivery.
type Settlement struct {
	Claimed    postrider.Claimed    // as [Queue.Claim] returned it, or as admission leased it
	Attempt    postrider.Attempt    // the record; its Number is Claimed.Attempt
	Transition postrider.Transition // what happens to the delivery, decided by [postrider.Settle] or a refusal
}

// Settled is the result of one [Settlement].
type Settled struct {
	Stale  bool           // the delivery's lease is another one, or gone
	Locked bool           // nothing was stored: another transaction has the delivery or its ordering key for too long
	Next   postrider.Lane // the lane of the ordering key's new head, which is due now; empty: there is none
}

// Lease names a lease.
type Lease struct {
	Delivery postrider.DeliveryID
	Token    postrider.Token
}

// MakeDue asks for a pending delivery to be attempted now.
type MakeDue struct {
	Account  postrider.AccountID // zero: any
	Delivery postrider.DeliveryID
	Parked   bool // it is parked; false: it waits for its time
}

// Due asks which lanes have work.
type Due struct {
	After     postrider.EndpointID // zero: from the first endpoint
	Max       int                  // endpoints
	NewerThan postrider.DeliveryID // zero: all deliveries
	Count     int                  // deliveries counted of each lane at most; 0: none; not with NewerThan
}

// DueLane is a lane in which a delivery waits.
type DueLane struct {
	Endpoint postrider.EndpointID
	Lane     postrider.Lane
	In       time.Duration // until the first is due; 0 or less: now

	// With [Due].Count, and else 0: how many deliveries wait, are due or are leased; how
	// many of these are due; and until the last of those is due, 0 or less.
	Waiting, Due int
	LastIn       time.Duration
}
