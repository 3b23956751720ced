package postrider

import "time"

// Waiting says why a pending delivery is not sent yet, and until when. It is zero if the delivery
// is not pending.
type Waiting struct {
	Reason WaitReason
	Until  time.Time  // when the reason ends; zero: unknown
	For    DeliveryID // WaitOrdering: the earlier delivery of the same key, or the dead letter that pauses the key
}

// WaitReason is why a pending delivery is not sent yet.
type WaitReason string

// The reasons. If several apply, the first in this list is shown.
const (
	WaitInFlight         WaitReason = "in_flight"         // a node leases the delivery, and attempts it now or soon
	WaitParked           WaitReason = "parked"            // until a person releases or cancels it
	WaitEndpointDeleted  WaitReason = "endpoint_deleted"  // until the janitor cancels it, which it does soon
	WaitHeld             WaitReason = "held"              // until a person resumes the store, which was restored from a backup
	WaitEndpointDisabled WaitReason = "endpoint_disabled" // until the endpoint is enabled
	WaitEndpointPaused   WaitReason = "endpoint_paused"   // until the endpoint is resumed
	// Until the endpoint's policy is set again, or a node that can read the policy serves the
	// endpoint.
	WaitPolicyUnreadable WaitReason = "policy_unreadable"
	WaitNoSecret         WaitReason = "no_secret"     // until a rotation gives the endpoint a secret
	WaitOrdering         WaitReason = "ordering"      // until an earlier delivery of its ordering key ends
	WaitSuspected        WaitReason = "suspected"     // until a node attempts it apart from others, because it may kill nodes
	WaitScheduled        WaitReason = "scheduled"     // until its retry or its first attempt is due
	WaitCircuitOpen      WaitReason = "circuit_open"  // until a probe of the endpoint succeeds
	WaitAskedToWait      WaitReason = "asked_to_wait" // until the time of the receiver's Retry-After
	// Until the endpoint's concurrency and rate allow it, and the node has a free slot.
	WaitDue WaitReason = "due"
)

// WaitReasons lists every reason.
var WaitReasons = []WaitReason{
	WaitInFlight, WaitParked, WaitEndpointDeleted, WaitHeld, WaitEndpointDisabled, WaitEndpointPaused,
	WaitPolicyUnreadable, WaitNoSecret, WaitOrdering, WaitSuspected, WaitScheduled, WaitCircuitOpen, WaitAskedToWait, WaitDue,
}

// WaitFacts are the facts that a store reads to explain why a delivery waits.
type WaitFacts struct {
	Leased bool // a node leases the delivery, until DueAt
	// Zero: an earlier delivery of its ordering key has not ended, or the delivery is parked.
	DueAt             time.Time
	Suspected, Parked bool
	Held              bool // the store is held, so no delivery is sent
	Endpoint          EndpointStatus
	PolicyUnreadable  bool // this program cannot read the endpoint's policy
	Signs             bool // the endpoint has an active secret
	Circuit           CircuitStatus
	ProbeAt           time.Time // ProbeAt of the circuit
	PacedUntil        time.Time // PacedUntil of the circuit
	// First pending delivery of the same ordering key; zero: the delivery has no ordering key.
	Head     DeliveryID
	PausedBy DeliveryID // dead letter that pauses the ordering key; zero: none
}

// Waiting returns why the delivery with the id waits. It returns a reason without a known end
// before one with a known end. Of several reasons with a known end it returns the one that ends
// last.
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
	case f.DueAt.IsZero() && f.Head == id: // a replay waits for a later delivery of its key, which was due before it
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

// HeldBy says why the due deliveries of an endpoint are not sent. HeldByNothing means that only
// this program limits them.
type HeldBy string

// The values of HeldBy. If several apply, the first in this list counts.
const (
	HeldByRestore    HeldBy = "restore"     // the store was restored from a backup, and nobody has resumed it
	HeldByPause      HeldBy = "pause"       // the endpoint is paused, disabled or deleted, or its policy cannot be read
	HeldByCircuit    HeldBy = "circuit"     // the endpoint's circuit is open or half open
	HeldByRetryAfter HeldBy = "retry_after" // the endpoint's Retry-After has not passed
	HeldByRate       HeldBy = "rate"        // the endpoint's rate is used up, or it throttled its only slot
	// The endpoint's last attempts got no response; it shares slots with other such endpoints, and
	// none of these slots is free.
	HeldByFailures    HeldBy = "failures"
	HeldByConcurrency HeldBy = "concurrency" // as many attempts are in flight as the endpoint has shown to handle
	HeldByNothing     HeldBy = "nothing"     // the deliveries wait for this program
)

// HeldByAll lists every value of HeldBy.
var HeldByAll = []HeldBy{
	HeldByRestore, HeldByPause, HeldByCircuit, HeldByRetryAfter, HeldByRate, HeldByFailures, HeldByConcurrency, HeldByNothing,
}
