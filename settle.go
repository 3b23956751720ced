package postrider

import (
	"slices"
	"time"
)

// MaxLosses is how many nodes in a row may die with a delivery in hand before
// it is set aside: it may be what kills them.
const MaxLosses = 5

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
		return settleLost(c)
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
	case c.Losses >= MaxLosses, c.Event.Data == nil:
		return Transition{To: Dead, Reason: ReasonSystem}, true
	case !now.Before(c.ExpiresAt):
		return Transition{To: Dead, Reason: ReasonExpired}, true
	}
	return Transition{}, false
}

// settleLost keeps the delivery's place in the schedule: its node died, which
// says nothing of the endpoint.
func settleLost(c Claimed) Transition {
	if c.Losses >= MaxLosses {
		return Transition{To: Dead, Reason: ReasonSystem}
	}
	return Transition{To: Pending, Step: c.Step}
}

// isClientError reports whether the code blames the request for good: a 4xx
// that does not ask to try again (RFC 9110, 15.5; RFC 8470, 5.2; RFC 6585, 4).
func isClientError(code int) bool {
	return code >= 400 && code <= 499 && !slices.Contains([]int{408, 409, 425, 429}, code)
}
