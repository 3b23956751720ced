package postrider

import (
	"slices"
	"time"
)

// A delivery may kill the node that attempts it, for example with a payload that makes the process
// run out of memory. For each delivery, the store counts how many nodes in a row died while they
// leased it. Nodes also die for other reasons, so such a delivery is only a suspect: it is
// attempted apart from others, and the count never ends it. The statement that takes over the lease
// of a dead node also moves the delivery to its lane.
const (
	// SuspectedAfter is how many nodes in a row must die while they lease a delivery before it
	// moves to [LaneSuspect].
	SuspectedAfter = 3
	// ParkedAfter is how many nodes must die while a delivery is the only suspect that they lease
	// before it is parked. A parked delivery stays pending and is attempted again only when a
	// person releases it.
	ParkedAfter = 5
)

// MaxRetryAfter is the longest Retry-After that is honoured. A longer one counts as MaxRetryAfter.
const MaxRetryAfter = 24 * time.Hour

// Transition is the effect of an attempt on its delivery and its endpoint. Only this file makes
// transitions. The store applies a transition to the delivery in one transaction; the dispatcher
// applies Pace and DisableEndpoint to the endpoint.
type Transition struct {
	To     Status // Pending, Delivered or Dead
	Reason string // reason of the delivery, if To is Dead
	Step   int    // new place in the retry schedule, if To is Pending
	// Wait before the next attempt, if To is Pending; counted from the store's time of the
	// settlement.
	After           time.Duration
	Pace            time.Duration // the endpoint's Retry-After, at most [MaxRetryAfter]; 0: it sent none
	DisableEndpoint bool          // the endpoint is disabled, for Reason
}

// Settle returns the effect of an attempt on its delivery. The policy of the endpoint and the
// event's MaxAttempts limit the retries. Settle is the whole state machine of a delivery: every
// arrow in ARCHITECTURE.md is a row of TestSettle.
//
// A throttled attempt uses up a place in the retry schedule like any other failure; its Retry-After
// only lengthens the wait. A lost attempt and an excused attempt use up none.
func Settle(c Claimed, a Attempt, p Policy) Transition {
	var pace time.Duration
	if a.Outcome == OutcomeThrottled {
		pace = min(a.RetryAfter, MaxRetryAfter)
	}
	switch {
	case a.Outcome == OutcomeAccepted:
		return Transition{To: Delivered}
	case a.Outcome == OutcomeGone:
		return Transition{To: Dead, Reason: ReasonGone, DisableEndpoint: true}
	case a.Outcome == OutcomeLost:
		return Transition{To: Pending, Step: c.Step}
	case a.Excused:
		return Transition{To: Pending, Step: c.Step, After: PostponedAtFirst}
	case a.Ask != "":
		return Transition{To: Dead, Reason: ReasonAborted, Pace: pace, DisableEndpoint: a.Ask == AskDisable}
	case isClientError(a.StatusCode) && p.ClientErrors == DeadLetterClientErrors:
		return Transition{To: Dead, Reason: ReasonClientError}
	}
	next := c.Step + 1
	if next >= p.Retry.Attempts() || next == c.Event.MaxAttempts {
		return Transition{To: Dead, Reason: ReasonExhausted, Pace: pace}
	}
	return Transition{To: Pending, Step: next, After: max(p.Retry.Delay(c.ID, next), pace), Pace: pace}
}

// Refuse reports whether a claimed delivery must not be attempted at now. If so, it returns the
// transition that ends the delivery without a request.
func Refuse(c Claimed, now time.Time) (t Transition, refused bool) {
	switch {
	case c.Event.Data == nil:
		return Transition{To: Dead, Reason: ReasonSystem}, true
	case c.Step == StepFilterFailed:
		return Transition{To: Dead, Reason: ReasonFilterFailed}, true
	case !now.Before(c.ExpiresAt):
		return Transition{To: Dead, Reason: ReasonExpired}, true
	}
	return Transition{}, false
}

// isClientError reports whether the status says that the same request can never succeed. Those are
// all 4xx except the ones that ask the client to try again (RFC 9110, 15.5; RFC 8470, 5.2; RFC
// 6585, 4).
func isClientError(code int) bool {
	return code >= 400 && code <= 499 && !slices.Contains([]int{408, 409, 425, 429}, code)
}
