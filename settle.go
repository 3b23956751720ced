package postrider

import (
	"slices"
	"time"
)

// A delivery whose node died again and again while it was leased may be what
// killed the node. Nodes that die for other reasons must cost no delivery, so
// the store sets such a delivery apart instead of ending it, in the statement
// that takes its lease over.
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

// Transition is what an attempt does to its delivery and to its endpoint. Only
// this file makes one. Stores carry out what it does to the delivery, in one
// transaction; the dispatcher sees to the endpoint.
type Transition struct {
	To              Status        // Pending, Delivered or Dead
	Reason          string        // why it is dead
	Step            int           // Pending: its new place in the schedule
	After           time.Duration // Pending: how long it waits; the store adds its own now
	Pace            time.Duration // how long the endpoint asked to be left alone
	DisableEndpoint bool          // the endpoint asked for no more
}

// Settle decides what an attempt does to its delivery. It is the whole state
// machine: every arrow of ARCHITECTURE.md is a row of TestSettle.
func Settle(c Claimed, a Attempt, p Policy) Transition {
	switch {
	case a.Outcome == OutcomeAccepted:
		return Transition{To: Delivered}
	case a.Outcome == OutcomeGone:
		return Transition{To: Dead, Reason: ReasonGone, DisableEndpoint: true}
	case a.Outcome == OutcomeLost:
		return Transition{To: Pending, Step: c.Step} // it says nothing of the endpoint
	case isClientError(a.StatusCode) && p.ClientErrors == DeadLetterClientErrors:
		return Transition{To: Dead, Reason: ReasonClientError}
	}
	var pace time.Duration
	if a.Outcome == OutcomeThrottled {
		pace = min(a.RetryAfter, MaxRetryAfter)
	}
	next := c.Step + 1
	if next >= p.Retry.Attempts() {
		return Transition{To: Dead, Reason: ReasonExhausted, Pace: pace}
	}
	return Transition{To: Pending, Step: next, After: max(p.Retry.Delay(c.ID, next), pace), Pace: pace}
}

// Refuse decides whether a claimed delivery may be attempted at now. When it
// may not, the transition sets it aside without a request.
func Refuse(c Claimed, now time.Time) (t Transition, refused bool) {
	switch {
	case c.Event.Data == nil:
		return Transition{To: Dead, Reason: ReasonSystem}, true
	case !now.Before(c.ExpiresAt):
		return Transition{To: Dead, Reason: ReasonExpired}, true
	}
	return Transition{}, false
}

// isClientError reports whether the code blames the request for good: a 4xx
// that does not ask to try again (RFC 9110, 15.5; RFC 8470, 5.2; RFC 6585, 4).
func isClientError(code int) bool {
	return code >= 400 && code <= 499 && !slices.Contains([]int{408, 409, 425, 429}, code)
}
