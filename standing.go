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
	Delivered    int       // within a day, and since the standing was last recorded as good; counted up to 20, or three times Dead
	Dead         int       // likewise, and all of them
	FailingSince time.Time // since when nothing was accepted; zero: something was
}

// The bounds of a good standing.
const (
	StandingSpan   = 24 * time.Hour // dead letters are counted over it
	leastSettled   = 20             // deliveries that say anything about a rate
	warnPercent    = 25             // of them dead
	disablePercent = 50
)

// failingSteps is how long an endpoint fails before each warning, and before
// it is disabled. Each takes as long after the one before, so that nobody is
// warned late and disabled early: not after a pause, nor after an upgrade.
var failingSteps = []time.Duration{6 * time.Hour, 24 * time.Hour, 72 * time.Hour, 5 * 24 * time.Hour}

// warningTime is how long a person has, at least, between a warning and what
// it warns of; and how long a warning stands, at least, before it is taken
// back.
const warningTime = time.Hour

// Judge decides on an endpoint's standing, and reports whether it changed. It
// warns before it disables, looks only at what happened since a person enabled
// the endpoint, and never judges one that is not enabled.
func (r Record) Judge(now time.Time) (Standing, bool) {
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
	switch failing := r.failing(now); {
	case s.Status == StandingDisabled:
		return next(StandingGood, "", 0) // a person gave it another chance
	case heard && tooManyDead(disablePercent):
		return next(StandingDisabled, ReasonDeadLetters, s.Warnings)
	case r.stepDue(failing, now) && s.Warnings >= len(failingSteps)-1:
		return next(StandingDisabled, ReasonFailing, s.Warnings)
	case r.stepDue(failing, now):
		return next(StandingWarned, ReasonFailing, s.Warnings+1)
	case !warned && tooManyDead(warnPercent):
		return next(StandingWarned, ReasonDeadLetters, 1)
	case heard && failing < failingSteps[0] && !tooManyDead(warnPercent):
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

// stepDue reports whether the next of the failingSteps is due. Where the last
// warning was for something else, nothing before it counts.
func (r Record) stepDue(failing time.Duration, now time.Time) bool {
	n := min(r.Standing.Warnings, len(failingSteps)-1)
	after := failingSteps[n]
	if failing < after {
		return false
	}
	if n > 0 && r.Standing.Reason == ReasonFailing {
		after -= failingSteps[n-1]
	}
	return n == 0 || now.Sub(r.Standing.Since) >= after
}
