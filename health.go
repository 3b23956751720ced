package postrider

import (
	"cmp"
	"time"
)

// EndpointHealth says how an endpoint has done over hours and days. An endpoint
// that fails for long is warned about first and disabled later. Each change is
// stored as a new row, so the rows are the history of an endpoint.
type EndpointHealth struct {
	Endpoint EndpointID
	Account  AccountID
	Number   int64 // counts the changes of the endpoint, from 1; 0: nothing was stored yet
	Status   HealthStatus
	Reason   string    // why it is not healthy: failing, dead_letters or gone; empty: it is healthy
	Warnings int       // warnings since it was last healthy
	Since    time.Time // time of the change
}

// HealthStatus is the status of an endpoint's health.
type HealthStatus string

const (
	// Healthy is the status at the start. [HealthInput.Assess] sets it again when a
	// warned endpoint has recovered for warningTime, and when a person has enabled
	// a disabled endpoint.
	Healthy HealthStatus = "healthy"

	// HealthWarned is set by [HealthInput.Assess] when an endpoint accepts nothing
	// for hours, or too many of its deliveries die. It recovers, is warned again,
	// or is disabled.
	HealthWarned HealthStatus = "warned"

	// HealthDisabled is set by [HealthInput.Assess] after the last warning, and by
	// [EndpointHealth.Disabled] after a 410. The store disables the endpoint in the
	// same transaction. It stays until a person enables the endpoint.
	HealthDisabled HealthStatus = "disabled"
)

// Reasons of a health that is not healthy, besides [ReasonGone].
const (
	ReasonFailing     = "failing"      // the endpoint accepted nothing for long
	ReasonDeadLetters = "dead_letters" // too many of its deliveries became dead letters
)

// Disabled returns the health that follows when the endpoint is disabled at once
// for the reason.
func (h EndpointHealth) Disabled(reason string, now time.Time) EndpointHealth {
	return h.next(HealthDisabled, reason, h.Warnings, now)
}

// Disables reports whether the health may disable an endpoint of the status: an enabled one,
// and after a 410 also one that a person has paused. Its receiver is gone for good, so that
// resuming must not send to it.
func (h EndpointHealth) Disables(s EndpointStatus) bool {
	return s == EndpointEnabled || s == EndpointPaused && h.Reason == ReasonGone
}

func (h EndpointHealth) next(status HealthStatus, reason string, warnings int, now time.Time) EndpointHealth {
	h.Number++
	h.Status, h.Reason, h.Warnings, h.Since = status, reason, warnings, now
	return h
}

// HealthInput is what [HealthInput.Assess] decides by. The store counts it.
type HealthInput struct {
	Endpoint EndpointID
	Account  AccountID
	Enabled  bool           // whether the endpoint's status is enabled
	Health   EndpointHealth // the last one stored; zero: none

	// Delivered counts the deliveries that were delivered within HealthSpan, and
	// not before the endpoint was last recorded as healthy. It counts from the first
	// minute that began in this time, up to the last fold of the statistics.
	Delivered int64
	// Dead counts the deliveries that became dead letters in the same time.
	Dead int64

	// FailingSince is since when nothing was accepted; zero: the last attempt succeeded. It is
	// the circuit's, as it is stored; Assess is given it as a time of day (store.Clock.Shown).
	FailingSince time.Time
}

const (
	// HealthSpan is how long ago a delivery may have ended to be counted.
	HealthSpan = 24 * time.Hour

	// MinHealthDeliveries is the least number of ended deliveries that say anything
	// about the share of dead letters.
	MinHealthDeliveries = 20
)

// HealthLimits say when an endpoint is warned about and disabled.
type HealthLimits struct {
	// DisableAfter is how long an endpoint accepts nothing before it is disabled.
	// It is warned after a twentieth, a fifth and three fifths of that. 0: failing
	// alone neither warns nor disables.
	DisableAfter time.Duration

	// WarnPercent and DisablePercent are the shares of dead letters, of the
	// deliveries that ended within HealthSpan, above which an endpoint is warned or
	// disabled. 100: never.
	WarnPercent, DisablePercent int
}

// DefaultHealthLimits warns after 6, 24 and 72 hours of failure, or above a
// quarter of dead letters. It disables after five days, or above a half.
func DefaultHealthLimits() HealthLimits {
	return HealthLimits{DisableAfter: 5 * 24 * time.Hour, WarnPercent: 25, DisablePercent: 50}
}

// steps returns how long an endpoint fails before each warning and before it is
// disabled; nil: never. The time between two steps is kept as well (stepDue): an
// endpoint that was not assessed for days, during an outage or an upgrade, is
// warned and gets the full time before it is disabled.
func (l HealthLimits) steps() []time.Duration {
	if l.DisableAfter <= 0 {
		return nil
	}
	return []time.Duration{l.DisableAfter / 20, l.DisableAfter / 5, l.DisableAfter * 3 / 5, l.DisableAfter}
}

// warningTime is the least time between a warning and disabling for dead letters,
// in which a person can react. It is also the least time before a warning ends.
const warningTime = time.Hour

// Assess returns the endpoint's health and whether it changed. It warns before it
// disables. It uses only what happened since a person enabled the endpoint, and
// changes nothing while the endpoint is not enabled.
func (in HealthInput) Assess(now time.Time, limits HealthLimits) (EndpointHealth, bool) {
	s := in.Health
	s.Endpoint, s.Account, s.Status = in.Endpoint, in.Account, cmp.Or(s.Status, Healthy)
	if !in.Enabled {
		return s, false
	}
	next := func(status HealthStatus, reason string, warnings int) (EndpointHealth, bool) {
		return s.next(status, reason, warnings, now), true
	}
	warned := s.Status == HealthWarned
	warnedLongEnough := warned && now.Sub(s.Since) >= warningTime
	steps := limits.steps()
	switch failing := in.failing(now); {
	case s.Status == HealthDisabled:
		return next(Healthy, "", 0) // it is enabled, so a person gave it another chance
	case warnedLongEnough && in.tooManyDead(limits.DisablePercent):
		return next(HealthDisabled, ReasonDeadLetters, s.Warnings)
	case in.stepDue(steps, now) && s.Warnings >= len(steps)-1:
		return next(HealthDisabled, ReasonFailing, s.Warnings)
	case in.stepDue(steps, now):
		return next(HealthWarned, ReasonFailing, s.Warnings+1)
	case !warned && in.tooManyDead(limits.WarnPercent):
		return next(HealthWarned, ReasonDeadLetters, 1)
	case warnedLongEnough && (len(steps) == 0 || failing < steps[0]) && !in.tooManyDead(limits.WarnPercent):
		return next(Healthy, "", 0)
	}
	return s, false
}

// DisabledAt returns when the endpoint will be disabled, at the earliest, if warned, which
// Assess has returned, is the last warning before that; zero: it is not.
func (in HealthInput) DisabledAt(warned EndpointHealth, limits HealthLimits) time.Time {
	steps := limits.steps()
	last := len(steps) - 1
	switch {
	case warned.Status != HealthWarned:
	case warned.Reason == ReasonDeadLetters && in.tooManyDead(limits.DisablePercent):
		return warned.Since.Add(warningTime)
	case warned.Reason == ReasonFailing && warned.Warnings == last:
		return warned.Since.Add(steps[last] - steps[last-1])
	}
	return time.Time{}
}

// tooManyDead reports whether more than so many percent of the deliveries that ended died.
func (in HealthInput) tooManyDead(percent int) bool {
	ended := in.Delivered + in.Dead
	return ended >= MinHealthDeliveries && in.Dead*100 > ended*int64(percent)
}

// failing returns how long nothing has been accepted. After a person enabled the
// endpoint it counts from then.
func (in HealthInput) failing(now time.Time) time.Duration {
	since := in.FailingSince
	if since.IsZero() {
		return 0
	}
	if in.Health.Status == Healthy && in.Health.Since.After(since) {
		since = in.Health.Since
	}
	return max(0, now.Sub(since))
}

// stepDue reports whether the next step is due: the endpoint has failed for the
// time of the step, and the time between the last step and this one has passed
// since the last warning. If that warning was about dead letters, the full time
// of the step must have passed.
func (in HealthInput) stepDue(steps []time.Duration, now time.Time) bool {
	if len(steps) == 0 {
		return false
	}
	n := min(in.Health.Warnings, len(steps)-1)
	after := steps[n]
	if in.failing(now) < after {
		return false
	}
	if n > 0 && in.Health.Reason == ReasonFailing {
		after -= steps[n-1]
	}
	return n == 0 || now.Sub(in.Health.Since) >= after
}
