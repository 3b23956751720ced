package postrider

import (
	"cmp"
	"time"
)

// Standing is how an endpoint has done in the long run. An endpoint that fails
// for long is warned about, and then disabled. A standing is recorded each time
// it changes.
type Standing struct {
	Endpoint EndpointID
	Account  AccountID
	Number   int64 // counts the endpoint's standings, from 1; 0: none is recorded
	Status   StandingStatus
	Reason   string // why it is not good: failing, dead_letters, gone
	Warnings int    // how many were given since it was good
	Since    time.Time
}

// StandingStatus says what is to be done about an endpoint.
type StandingStatus string

// The statuses of a standing.
const (
	StandingGood     StandingStatus = "good"
	StandingWarned   StandingStatus = "warned"
	StandingDisabled StandingStatus = "disabled" // by itself: it was disabled; a person enables it again
)

// Why a standing is not good, besides [ReasonGone].
const (
	ReasonFailing     = "failing"      // nothing was accepted for long
	ReasonDeadLetters = "dead_letters" // too many of its deliveries ended as dead letters
)

// Record is what is known of an endpoint's last day.
type Record struct {
	Endpoint     EndpointID
	Account      AccountID
	Enabled      bool
	Standing     Standing
	Delivered    int       // deliveries that ended as delivered within StandingSpan, and since the standing was last recorded as good; of those made within StandingReach; counted up to 20, or three times Dead
	Dead         int       // deliveries that died in that time, all of them
	FailingSince time.Time // since when nothing was accepted; zero: something was
}

// What is counted for a standing.
const (
	// StandingSpan is how long ago a delivery may have ended that counts.
	StandingSpan = 24 * time.Hour

	// StandingReach is how long ago it may have been made. It is a day more than
	// deliveries expire after by default.
	StandingReach = 8 * 24 * time.Hour

	// StandingLook is how many attempts of an endpoint, the newest deliveries'
	// first, are looked at for delivered ones.
	StandingLook = 10_000

	leastSettled = 20 // deliveries that say anything about a rate
)

// StandingLimits are the bounds of a good standing.
type StandingLimits struct {
	// DisableAfter is how long an endpoint accepts nothing before it is disabled;
	// it is warned after a twentieth, a fifth and three fifths of that. 0: failing
	// alone never disables, and nobody is warned of it.
	DisableAfter time.Duration

	// WarnPercent and DisablePercent are how much of what ended within
	// StandingSpan may be dead letters. At 100 nothing follows.
	WarnPercent, DisablePercent int
}

// DefaultStandingLimits warns after 6, 24 and 72 hours of failure, or above a
// quarter of dead letters, and disables after five days, or above a half.
func DefaultStandingLimits() StandingLimits {
	return StandingLimits{DisableAfter: 5 * 24 * time.Hour, WarnPercent: 25, DisablePercent: 50}
}

// steps returns how long an endpoint fails before each warning, and before it
// is disabled; nil: that is never. Each takes as long after the one before, so
// that nobody is warned late and disabled early: not after a pause, nor after an
// upgrade.
func (l StandingLimits) steps() []time.Duration {
	if l.DisableAfter <= 0 {
		return nil
	}
	return []time.Duration{l.DisableAfter / 20, l.DisableAfter / 5, l.DisableAfter * 3 / 5, l.DisableAfter}
}

// warningTime is how long a person has, at least, between a warning and what
// it warns of; and how long a warning stands, at least, before it is taken
// back.
const warningTime = time.Hour

// Judge decides on an endpoint's standing, and reports whether it changed. It
// warns before it disables, looks only at what happened since a person enabled
// the endpoint, and never judges one that is not enabled.
func (r Record) Judge(now time.Time, limits StandingLimits) (Standing, bool) {
	s := r.Standing
	s.Endpoint, s.Account, s.Status = r.Endpoint, r.Account, cmp.Or(s.Status, StandingGood)
	if !r.Enabled {
		return s, false
	}
	next := func(status StandingStatus, reason string, warnings int) (Standing, bool) {
		s.Number++
		s.Status, s.Reason, s.Warnings, s.Since = status, reason, warnings, now
		return s, true
	}
	settled := r.Delivered + r.Dead
	tooManyDead := func(percent int) bool { return settled >= leastSettled && r.Dead*100 > settled*percent }
	warned := s.Status == StandingWarned
	heard := warned && now.Sub(s.Since) >= warningTime
	steps := limits.steps()
	switch failing := r.failing(now); {
	case s.Status == StandingDisabled:
		return next(StandingGood, "", 0) // a person gave it another chance
	case heard && tooManyDead(limits.DisablePercent):
		return next(StandingDisabled, ReasonDeadLetters, s.Warnings)
	case r.stepDue(steps, now) && s.Warnings >= len(steps)-1:
		return next(StandingDisabled, ReasonFailing, s.Warnings)
	case r.stepDue(steps, now):
		return next(StandingWarned, ReasonFailing, s.Warnings+1)
	case !warned && tooManyDead(limits.WarnPercent):
		return next(StandingWarned, ReasonDeadLetters, 1)
	case heard && (len(steps) == 0 || failing < steps[0]) && !tooManyDead(limits.WarnPercent):
		return next(StandingGood, "", 0)
	}
	return s, false
}

// failing returns for how long nothing was accepted, since the standing began
// if a person enabled the endpoint then.
func (r Record) failing(now time.Time) time.Duration {
	since := r.FailingSince
	if since.IsZero() {
		return 0
	}
	if r.Standing.Status == StandingGood && r.Standing.Since.After(since) {
		since = r.Standing.Since
	}
	return max(0, now.Sub(since))
}

// stepDue reports whether the next of the steps is due. Where the last warning
// was for something else, nothing before it counts.
func (r Record) stepDue(steps []time.Duration, now time.Time) bool {
	if len(steps) == 0 {
		return false
	}
	n := min(r.Standing.Warnings, len(steps)-1)
	after := steps[n]
	if r.failing(now) < after {
		return false
	}
	if n > 0 && r.Standing.Reason == ReasonFailing {
		after -= steps[n-1]
	}
	return n == 0 || now.Sub(r.Standing.Since) >= after
}
