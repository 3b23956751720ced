package postrider

import (
	"cmp"
	"time"
)

// EndpointHealth says how well an endpoint has responded over hours and days. An endpoint that
// fails for long is warned first and disabled later. Each change is stored as a new row, so the
// rows are the endpoint's history.
type EndpointHealth struct {
	Endpoint EndpointID
	Account  AccountID
	Number   int64 // number of changes of the endpoint's health, from 1; 0: none is stored yet
	Status   HealthStatus
	Reason   string    // failing, dead_letters, gone or aborted_by_receiver; empty: it is healthy
	Warnings int       // warnings since the endpoint was last healthy
	Since    time.Time // time of the change
}

// HealthStatus is the status of an endpoint's health.
type HealthStatus string

const (
	// Healthy is the status at the start. [HealthInput.Assess] sets it again in two cases: a warned
	// endpoint has recovered and the warning is at least warningTime old, or a person has enabled a
	// disabled endpoint.
	Healthy HealthStatus = "healthy"

	// HealthWarned is set by [HealthInput.Assess] when an endpoint accepts nothing for hours, or
	// too many of its deliveries die. Next, the endpoint becomes healthy, is warned again, or is
	// disabled.
	HealthWarned HealthStatus = "warned"

	// HealthDisabled is set by [HealthInput.Assess] after the last warning, and by
	// [EndpointHealth.Disabled] after a 410 or an [AskDisable]. The store disables the endpoint in the same
	// transaction. The status stays until a person enables the endpoint.
	HealthDisabled HealthStatus = "disabled"
)

// The reasons for which an endpoint is warned or disabled, besides [ReasonGone] and [ReasonAborted].
const (
	ReasonFailing     = "failing"      // the endpoint accepted nothing for a long time
	ReasonDeadLetters = "dead_letters" // too many of its deliveries became dead letters
)

// Disabled returns the health of an endpoint that is disabled at once, for the reason.
func (h EndpointHealth) Disabled(reason string, now time.Time) EndpointHealth {
	return h.next(HealthDisabled, reason, h.Warnings, now)
}

// Disables reports whether the health may disable an endpoint that has the status s. It may disable
// an enabled endpoint. If the receiver itself asked for it, with a 410 or a header, it may also
// disable a paused endpoint: resuming must not send to it.
func (h EndpointHealth) Disables(s EndpointStatus) bool {
	return s == EndpointEnabled || s == EndpointPaused && (h.Reason == ReasonGone || h.Reason == ReasonAborted)
}

func (h EndpointHealth) next(status HealthStatus, reason string, warnings int, now time.Time) EndpointHealth {
	h.Number++
	h.Status, h.Reason, h.Warnings, h.Since = status, reason, warnings, now
	return h
}

// HealthInput has the facts from which [HealthInput.Assess] decides. The store counts them.
type HealthInput struct {
	Endpoint EndpointID
	Account  AccountID
	Enabled  bool           // whether the endpoint's status is enabled
	Health   EndpointHealth // last stored health of the endpoint; zero: none is stored

	// Delivered counts the deliveries that were delivered within the last HealthSpan and since the
	// endpoint was last recorded as healthy. It counts whole minutes: from the first minute that
	// began in this time, up to the last fold of the statistics.
	Delivered int64
	// Dead counts the deliveries that became dead letters in the same time as Delivered.
	Dead int64

	// FailingSince is when the endpoint last began to accept nothing; zero: the last attempt
	// succeeded. It is the stored FailingSince of the circuit, which the caller converts to a time
	// of day for Assess (store.Clock.Shown).
	FailingSince time.Time
	// FailedAt is the end of the endpoint's last attempt, when its circuit was last stored, on the same
	// clock as FailingSince. While nothing is sent, nothing is known: the time after FailedAt does not
	// count as failing.
	FailedAt time.Time
}

const (
	// HealthSpan is how long ago a delivery may have ended and still be counted.
	HealthSpan = 24 * time.Hour

	// MinHealthDeliveries is how many deliveries must have ended before their share of dead letters
	// counts.
	MinHealthDeliveries = 20
)

// HealthLimits say when an endpoint is warned about and disabled.
type HealthLimits struct {
	// DisableAfter is for how long an endpoint must accept nothing, from the first failed attempt in a
	// row to the last one, before it is disabled. It is
	// warned after a twentieth, a fifth and three fifths of that time. 0: an endpoint is neither
	// warned nor disabled because it accepts nothing.
	DisableAfter time.Duration

	// WarnPercent and DisablePercent are shares of dead letters among the deliveries that ended
	// within HealthSpan. Above them an endpoint is warned or disabled. 100: never.
	WarnPercent, DisablePercent int
}

// DefaultHealthLimits returns the default limits. An endpoint is warned after 6, 24 and 72 hours of
// failure, or if more than a quarter of its deliveries die. It is disabled after five days, or if
// more than half of them die.
func DefaultHealthLimits() HealthLimits {
	return HealthLimits{DisableAfter: 5 * 24 * time.Hour, WarnPercent: 25, DisablePercent: 50}
}

// steps returns for how long an endpoint fails before each warning, and before it is disabled as
// the last element; nil: never. stepDue also requires the time between two steps. So an endpoint
// that nobody assessed for days, because of an outage or an upgrade, is warned first and has the
// full time until it is disabled.
func (l HealthLimits) steps() []time.Duration {
	if l.DisableAfter <= 0 {
		return nil
	}
	return []time.Duration{l.DisableAfter / 20, l.DisableAfter / 5, l.DisableAfter * 3 / 5, l.DisableAfter}
}

// warningTime is the least time between a warning and disabling for dead letters, so that a person
// can react. It is also the least time for which a warning lasts.
const warningTime = time.Hour

// Assess returns the endpoint's health and whether it changed. It warns before it disables. It
// considers only what happened since a person enabled the endpoint. While the endpoint is not
// enabled, it changes nothing.
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
	switch failing := in.failing(); {
	case s.Status == HealthDisabled:
		return next(Healthy, "", 0) // the endpoint is enabled again, so a person has given it another chance
	case warnedLongEnough && in.tooManyDead(limits.DisablePercent):
		return next(HealthDisabled, ReasonDeadLetters, s.Warnings)
	case in.stepDue(steps) && s.Warnings >= len(steps)-1:
		return next(HealthDisabled, ReasonFailing, s.Warnings)
	case in.stepDue(steps):
		return next(HealthWarned, ReasonFailing, s.Warnings+1)
	case !warned && in.tooManyDead(limits.WarnPercent):
		return next(HealthWarned, ReasonDeadLetters, 1)
	case warnedLongEnough && (len(steps) == 0 || failing < steps[0]) && !in.tooManyDead(limits.WarnPercent):
		return next(Healthy, "", 0)
	}
	return s, false
}

// DisabledAt returns when the endpoint will be disabled, at the earliest. warned is the health that
// Assess returned. If it is not the last warning before the endpoint is disabled, DisabledAt
// returns zero.
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

// tooManyDead reports whether more than percent of the deliveries that ended died.
func (in HealthInput) tooManyDead(percent int) bool {
	ended := in.Delivered + in.Dead
	return ended >= MinHealthDeliveries && in.Dead*100 > ended*int64(percent)
}

// failing returns for how long the endpoint accepted nothing, until its last attempt. If a person
// enabled it in that time, the time counts from then.
func (in HealthInput) failing() time.Duration {
	since := in.FailingSince
	if since.IsZero() {
		return 0
	}
	if in.Health.Status == Healthy && in.Health.Since.After(since) {
		since = in.Health.Since
	}
	return max(0, in.FailedAt.Sub(since))
}

// stepDue reports whether the next step is due. The endpoint must have failed for the time of that
// step. It must have been seen to fail for the time between the previous step and that step since the
// last warning. If the last warning was about dead letters, for the full time of the step.
func (in HealthInput) stepDue(steps []time.Duration) bool {
	if len(steps) == 0 {
		return false
	}
	n := min(in.Health.Warnings, len(steps)-1)
	after := steps[n]
	if in.failing() < after {
		return false
	}
	if n > 0 && in.Health.Reason == ReasonFailing {
		after -= steps[n-1]
	}
	return n == 0 || in.FailedAt.Sub(in.Health.Since) >= after
}
