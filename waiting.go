package postrider

import "time"

// Waiting says why a pending delivery has not been sent yet, and until when. It is
// zero for a delivery that is not pending.
type Waiting struct {
	Reason WaitReason
	Until  time.Time  // when the reason ends; zero: unknown
	For    DeliveryID // with WaitOrdering: the earlier delivery of the key, or the dead letter that pauses it
}

// WaitReason is why a pending delivery has not been sent yet.
type WaitReason string

// The reasons. If several hold, the first of this list is shown.
const (
	WaitInFlight         WaitReason = "in_flight"         // a node leases it, and attempts it now or soon
	WaitParked           WaitReason = "parked"            // until a person releases or discards it
	WaitEndpointDeleted  WaitReason = "endpoint_deleted"  // until the janitor cancels it, which is soon
	WaitHeld             WaitReason = "held"              // until a person resumes the store, which was restored from a backup
	WaitEndpointDisabled WaitReason = "endpoint_disabled" // until the endpoint is enabled
	WaitEndpointPaused   WaitReason = "endpoint_paused"   // until the endpoint is resumed
	WaitPolicyUnreadable WaitReason = "policy_unreadable" // until the endpoint's policy is set again, or a node that can read it serves it
	WaitNoSecret         WaitReason = "no_secret"         // until a rotation gives the endpoint a secret
	WaitOrdering         WaitReason = "ordering"          // until an earlier delivery of its ordering key ends
	WaitSuspected        WaitReason = "suspected"         // until a node attempts it apart from others, because it may kill nodes
	WaitScheduled        WaitReason = "scheduled"         // until its retry or its first attempt is due
	WaitCircuitOpen      WaitReason = "circuit_open"      // until a probe of the endpoint succeeds
	WaitAskedToWait      WaitReason = "asked_to_wait"     // until the time of the receiver's Retry-After
	WaitDue              WaitReason = "due"               // until the endpoint's concurrency and rate allow it, and a slot of the node is free
)

// WaitReasons lists every reason.
var WaitReasons = []WaitReason{
	WaitInFlight, WaitParked, WaitEndpointDeleted, WaitHeld, WaitEndpointDisabled, WaitEndpointPaused,
	WaitPolicyUnreadable, WaitNoSecret, WaitOrdering, WaitSuspected, WaitScheduled, WaitCircuitOpen, WaitAskedToWait, WaitDue,
}

// WaitFacts are the facts that a store reads to explain why a delivery waits.
type WaitFacts struct {
	Leased            bool      // by a node, until DueAt
	DueAt             time.Time // zero: an earlier delivery of its ordering key has not ended, or it is parked
	Suspected, Parked bool
	Held              bool // the store is held, so nothing of it is sent
	Endpoint          EndpointStatus
	PolicyUnreadable  bool // this program cannot read the endpoint's policy
	Signs             bool // the endpoint has an active secret
	Circuit           CircuitStatus
	ProbeAt           time.Time  // of the circuit
	PacedUntil        time.Time  // of the circuit
	Head              DeliveryID // first pending delivery of its ordering key; zero: it has no ordering key
	PausedBy          DeliveryID // dead letter that pauses its ordering key; zero: none
}

// Waiting returns why the delivery with the id waits. A reason without a known end
// is returned before one with a known end; of several known ends the last counts.
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
	case f.Held:
		return Waiting{Reason: WaitHeld}
	case f.Endpoint == EndpointDisabled:
		return Waiting{Reason: WaitEndpointDisabled}
	case f.Endpoint == EndpointPaused:
		return Waiting{Reason: WaitEndpointPaused}
	case f.PolicyUnreadable:
		return Waiting{Reason: WaitPolicyUnreadable}
	case !f.Signs:
		return Waiting{Reason: WaitNoSecret}
	case f.DueAt.IsZero() && !f.PausedBy.IsZero():
		return Waiting{Reason: WaitOrdering, For: f.PausedBy}
	case f.DueAt.IsZero() && f.Head == id: // a replay that waits for a later delivery of its key, which was due before
		return Waiting{Reason: WaitOrdering}
	case f.DueAt.IsZero():
		return Waiting{Reason: WaitOrdering, For: f.Head}
	case f.PacedUntil.After(now) && !f.PacedUntil.Before(f.DueAt) && (!open || f.PacedUntil.After(f.ProbeAt)):
		return Waiting{Reason: WaitAskedToWait, Until: f.PacedUntil}
	case open && f.ProbeAt.After(now) && !f.DueAt.After(f.ProbeAt):
		return Waiting{Reason: WaitCircuitOpen, Until: f.ProbeAt}
	case scheduled:
		return Waiting{Reason: WaitScheduled, Until: f.DueAt}
	case open: // a probe is due or under way; it may be this delivery or another one
		return Waiting{Reason: WaitCircuitOpen}
	case f.Suspected:
		return Waiting{Reason: WaitSuspected}
	}
	return Waiting{Reason: WaitDue}
}

// HeldBy is what keeps the due deliveries of an endpoint from being sent, apart from what
// this program lacks.
type HeldBy string

// What holds deliveries. If several apply, the first of this list counts.
const (
	HeldByRestore     HeldBy = "restore"     // the store was restored, and nobody has resumed it
	HeldByPause       HeldBy = "pause"       // a person paused or disabled the endpoint, it is deleted, or its policy cannot be read
	HeldByCircuit     HeldBy = "circuit"     // its circuit is open or half open
	HeldByRetryAfter  HeldBy = "retry_after" // the time that it asked for has not passed
	HeldByRate        HeldBy = "rate"        // its rate is used up, or it throttled its only slot
	HeldByFailures    HeldBy = "failures"    // its last attempts got no response, so it shares slots with others like it, of which none is free
	HeldByConcurrency HeldBy = "concurrency" // as many attempts are in flight as it has shown to handle
	HeldByNothing     HeldBy = "nothing"     // its deliveries wait for this program
)

// HeldByAll lists all that holds deliveries.
var HeldByAll = []HeldBy{
	HeldByRestore, HeldByPause, HeldByCircuit, HeldByRetryAfter, HeldByRate, HeldByFailures, HeldByConcurrency, HeldByNothing,
}
