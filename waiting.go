package postrider

import "time"

// Waiting says why a pending delivery has not been sent yet, and until when.
// The zero Waiting is that of a delivery that is not pending.
type Waiting struct {
	Reason WaitReason
	Until  time.Time  // when the reason ends; zero: nobody knows
	For    DeliveryID // with WaitOrdering: the earlier delivery of the key, or the dead letter that pauses it
}

// WaitReason is why a pending delivery has not been sent yet.
type WaitReason string

// The reasons, in the order in which one hides another.
const (
	WaitInFlight         WaitReason = "in_flight"         // a node has it in its hands
	WaitParked           WaitReason = "parked"            // until a person releases or discards it
	WaitEndpointDeleted  WaitReason = "endpoint_deleted"  // it is about to be cancelled
	WaitEndpointDisabled WaitReason = "endpoint_disabled" // until the endpoint is enabled
	WaitEndpointPaused   WaitReason = "endpoint_paused"   // until the endpoint is resumed
	WaitNoSecret         WaitReason = "no_secret"         // until a secret is rotated in
	WaitOrdering         WaitReason = "ordering"          // another delivery of its ordering key goes first
	WaitSuspected        WaitReason = "suspected"         // until its turn among those that may kill a node
	WaitScheduled        WaitReason = "scheduled"         // until its retry, or its first attempt, is due
	WaitCircuitOpen      WaitReason = "circuit_open"      // until the endpoint is probed
	WaitAskedToWait      WaitReason = "asked_to_wait"     // until the time that the receiver asked for with Retry-After
	WaitDue              WaitReason = "due"               // it leaves as soon as the endpoint's window and rate let it
)

// WaitReasons lists every reason there is.
var WaitReasons = []WaitReason{
	WaitInFlight, WaitParked, WaitEndpointDeleted, WaitEndpointDisabled, WaitEndpointPaused, WaitNoSecret, WaitOrdering,
	WaitSuspected, WaitScheduled, WaitCircuitOpen, WaitAskedToWait, WaitDue,
}

// WaitFacts are what decides on why a pending delivery waits.
type WaitFacts struct {
	Leased            bool      // by a node, until DueAt
	DueAt             time.Time // zero: its turn in the order has not come, or it is parked
	Suspected, Parked bool
	Endpoint          EndpointStatus
	Signs             bool // the endpoint has a secret in force
	Circuit           CircuitStatus
	ProbeAt           time.Time  // of the circuit
	PacedUntil        time.Time  // of the circuit
	Head              DeliveryID // the first of its ordering key; zero: it keeps no order
	PausedBy          DeliveryID // the dead letter that pauses its ordering key; zero: none does
}

// Waiting decides on why the delivery with the id waits. Of reasons that end at
// a known time the one that ends last counts; those that end at nobody knows when
// come before them.
func (f WaitFacts) Waiting(id DeliveryID, now time.Time) Waiting {
	open := f.Circuit == CircuitOpen || f.Circuit == CircuitHalfOpen
	scheduled := f.DueAt.After(now)
	switch {
	case f.Leased && scheduled:
		return Waiting{Reason: WaitInFlight}
	case f.Parked:
		return Waiting{Reason: WaitParked}
	case f.Endpoint == EndpointDeleted:
		return Waiting{Reason: WaitEndpointDeleted}
	case f.Endpoint == EndpointDisabled:
		return Waiting{Reason: WaitEndpointDisabled}
	case f.Endpoint == EndpointPaused:
		return Waiting{Reason: WaitEndpointPaused}
	case !f.Signs:
		return Waiting{Reason: WaitNoSecret}
	case f.DueAt.IsZero() && !f.PausedBy.IsZero():
		return Waiting{Reason: WaitOrdering, For: f.PausedBy}
	case f.DueAt.IsZero() && f.Head != id:
		return Waiting{Reason: WaitOrdering, For: f.Head}
	case f.PacedUntil.After(now) && !f.PacedUntil.Before(f.DueAt) && (!open || f.PacedUntil.After(f.ProbeAt)):
		return Waiting{Reason: WaitAskedToWait, Until: f.PacedUntil}
	case open && f.ProbeAt.After(now) && !f.DueAt.After(f.ProbeAt):
		return Waiting{Reason: WaitCircuitOpen, Until: f.ProbeAt}
	case scheduled:
		return Waiting{Reason: WaitScheduled, Until: f.DueAt}
	case open: // its probe is due, or under way; one delivery of all that wait is that
		return Waiting{Reason: WaitCircuitOpen}
	case f.Suspected:
		return Waiting{Reason: WaitSuspected}
	}
	return Waiting{Reason: WaitDue}
}
