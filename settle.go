package postrider

import (
	"slices"
	"time"
)

// A delivery may kill the node that attempts it, for example by a payload that
// makes the process run out of memory. The store counts how many nodes in a row
// died while they leased a delivery. Nodes also die for other reasons, so such a
// delivery is only a suspect: it is attempted apart from others and never ends
// because of that count. The store moves it in the statement that takes its lease
// over.
const (
	// SuspectedAfter is how many nodes in a row may die while they lease a
	// delivery before it moves to [LaneSuspect].
	SuspectedAfter = 3
	// ParkedAfter is how many nodes may die while a delivery is the only one in
	// [LaneSuspect] that they lease, before it is parked: it stays pending and is
	// attempted again only when a person releases it.
	ParkedAfter = 5
)

// MaxRetryAfter is the longest Retry-After that is honoured.
const MaxRetryAfter = 24 * time.Hour

// Transition is the effect of an attempt on its delivery and its endpoint. Only
// this file makes one. Stores apply it to the delivery in one transaction; the
// dispatcher applies Pace and DisableEndpoint to the endpoint.
type Transition struct {
	To              Status        // Pending, Delivered or Dead
	Reason          string        // Dead: one of the reasons of a delivery
	Step            int           // Pending: new place in the retry schedule
	After           time.Duration // Pending: wait before the next attempt, counted from the store's time of the settlement
	Pace            time.Duration // Retry-After of the endpoint, at most [MaxRetryAfter]; 0: it had none
	DisableEndpoint bool          // the endpoint responded 410
}

// Settle returns the effect of an attempt on its delivery, by the policy of the
// endpoint and the most attempts that its event allows. It is the whole state machine of a delivery: every arrow in
// ARCHITECTURE.md is a row of TestSettle.
//
// A throttled attempt uses up a place in the retry schedule like any other
// failure; its Retry-After only lengthens the wait. A lost attempt uses up none, nor does
// one that is excused.
func Settle(c Claimed, a Attempt, p Policy) Transition {
	switch {
	case a.Outcome == OutcomeAccepted:
		return Transition{To: Delivered}
	case a.Outcome == OutcomeGone:
		return Transition{To: Dead, Reason: ReasonGone, DisableEndpoint: true}
	case a.Outcome == OutcomeLost:
		return Transition{To: Pending, Step: c.Step}
	case a.Excused:
		return Transition{To: Pending, Step: c.Step, After: PostponedAtFirst}
	case isClientError(a.StatusCode) && p.ClientErrors == DeadLetterClientErrors:
		return Transition{To: Dead, Reason: ReasonClientError}
	}
	var pace time.Duration
	if a.Outcome == OutcomeThrottled {
		pace = min(a.RetryAfter, MaxRetryAfter)
	}
	next := c.Step + 1
	if next >= p.Retry.Attempts() || next == c.Event.MaxAttempts {
		return Transition{To: Dead, Reason: ReasonExhausted, Pace: pace}
	}
	return Transition{To: Pending, Step: next, After: max(p.Retry.Delay(c.ID, next), pace), Pace: pace}
}

// Refuse reports whether a claimed delivery may not be attempted at now, and
// returns the transition that ends it without a request.
func Refuse(c Claimed, now time.Time) (t Transition, refused bool) {
	switch {
	case c.Event.Data == nil:
		return Transition{To: Dead, Reason: ReasonSystem}, true
	case !now.Before(c.ExpiresAt):
		return Transition{To: Dead, Reason: ReasonExpired}, true
	}
	return Transition{}, false
}

// isClientError reports whether the status says that the same request can never
// succeed: a 4xx that does not ask for another try (RFC 9110, 15.5; RFC 8470, 5.2;
// RFC 6585, 4).
func isClientError(code int) bool {
	return code >= 400 && code <= 499 && !slices.Contains([]int{408, 409, 425, 429}, code)
}
