package store

import (
	"time"

	"github.com/postrider/postrider"
)

// This file has the inputs and results of the methods of [Queue].

// PutCircuit asks to change the circuit of an endpoint.
type PutCircuit struct {
	Circuit  postrider.Circuit // the new circuit, with the Generation that was read
	Announce bool              // whether every node must read the change, and not only the owner of the endpoint
}

// CircuitQuery filters circuits; a zero field does not filter.
type CircuitQuery struct {
	Endpoint postrider.EndpointID
	After    postrider.EndpointID
	// Failing selects the circuits that have a FailingSince and whose endpoint is not deleted. If
	// Account is set, their endpoints must belong to it.
	Failing bool
	Account postrider.AccountID // used only with Failing
	Limit   int
}

// Claim asks for due deliveries. All of them are leased under one token.
type Claim struct {
	Wants []Want // at most 256, and at most one for each lane of an endpoint
	Token postrider.Token
}

// Want asks for up to N due deliveries of one lane of one endpoint.
//
// After is the [LaneState.Low] of the lane's last claim. It lets the store skip index entries of
// deliveries that were claimed before.
type Want struct {
	Endpoint postrider.EndpointID
	Lane     postrider.Lane
	N        int
	Lease    time.Duration
	After    time.Time // deliveries that were due before this time are skipped; zero skips none
}

// Claims is the result of a [Claim].
type Claims struct {
	Items []postrider.Claimed
	Lanes []LaneState
}

// LaneState is the state of a lane after a claim.
type LaneState struct {
	Claimed  int           // number of deliveries that this claim leased
	Suspects int           // number of deliveries that this claim moved to the suspect lane
	Lost     int           // number of attempts that this claim recorded as lost
	Waiting  bool          // whether a delivery is left in the lane, due now or later
	In       time.Duration // if Waiting, the time until the next delivery is due; 0 or less if one is due
	Low      time.Time     // the After of the lane's next [Want]
}

// Settlement is the end of one attempt of a leased delivery.
type Settlement struct {
	Claimed    postrider.Claimed    // the delivery as [Queue.Claim] returned it or admission leased it
	Attempt    postrider.Attempt    // the record of the attempt; its Number is Claimed.Attempt
	Transition postrider.Transition // the change of the delivery, from [postrider.Settle] or a refusal
}

// Settled is the result of one [Settlement].
type Settled struct {
	Stale  bool           // whether the delivery has another lease or none
	Locked bool           // nothing was stored: the delivery or its ordering key was locked for too long
	Next   postrider.Lane // the lane of the ordering key's new head, which is due now; empty if there is no new head
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
	Parked   bool // true: the delivery is parked; false: it waits for its time
}

// Due asks which lanes have pending deliveries.
type Due struct {
	After     postrider.EndpointID // the lanes of endpoints up to this one are left out; zero: of no endpoint
	Max       int                  // greatest number of endpoints
	NewerThan postrider.DeliveryID // deliveries up to this id are left out; zero: no delivery
	Count     int                  // greatest number of deliveries to count in each lane; 0: no count; must be 0 with NewerThan
}

// DueLane is a lane in which a delivery waits.
type DueLane struct {
	Endpoint postrider.EndpointID
	Lane     postrider.Lane
	In       time.Duration // the time until the first delivery is due; 0 or less if one is due now

	// These fields are 0 without [Due].Count. Waiting is the number of deliveries that wait, are due
	// or are leased. Due is the number of these that are due. LastIn is the time until the last of
	// the due ones is due, so it is 0 or less.
	Waiting, Due int
	LastIn       time.Duration
}
