package web

import (
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// sending says what an endpoint is sent now, in one sentence, and why its deliveries wait.
type sending struct {
	Text string    // the sentence
	Tone string    // of the sentence: good, warn or bad
	At   time.Time // when the next request may leave; zero: the sentence says it, or nobody knows
	Pace *apitypes.Pace
	Now  apitypes.StatsNow // what waits
}

// rateWords returns a rate in words, with its burst if that is more than one.
func (v *visit) rateWords(r apitypes.Rate) string {
	said := v.t("rate.words", "n", r.Attempts, "per", time.Duration(r.PerMS)*time.Millisecond)
	if r.Burst > 1 {
		said += ", " + v.t("rate.burst", "n", r.Burst)
	}
	return said
}

// sending returns what the endpoint is sent now. The first cause that stops or slows it
// is named.
func (v *visit) sending(e apitypes.Endpoint, c apitypes.Circuit, now apitypes.StatsNow) sending {
	s := sending{Tone: "warn", Pace: c.Pace, Now: now}
	say := func(key string, args ...any) sending {
		s.Text = v.t("sending."+key, args...)
		return s
	}
	pace := apitypes.Pace{}
	if c.Pace != nil {
		pace = *c.Pace
	}
	reason := deref(pace.Reason)
	if resumes := instant(pace.ResumesAt); resumes.After(v.now) {
		s.At = resumes
	}
	switch {
	case e.Status != postrider.EndpointEnabled:
		return say(string(e.Status))
	case e.PolicyError != nil:
		s.Tone = "bad"
		return say("policy_unreadable")
	case c.Status == postrider.CircuitOpen, c.Status == postrider.CircuitHalfOpen:
		s.Tone, s.At = "bad", instant(c.ProbeAt)
		if c.Status == postrider.CircuitHalfOpen {
			s.At = time.Time{}
		}
		return say(string(c.Status))
	case instant(c.PacedUntil).After(v.now):
		s.At = instant(c.PacedUntil)
		return say("retry_after")
	case reason == string(postrider.PaceRetryAfter): // not stored yet
		return say("retry_after")
	case reason == string(postrider.PaceRate), reason == string(postrider.PaceWindow) && !s.At.IsZero():
		return say("rate", "rate", v.rateWords(e.Rate.Value()))
	case reason == string(postrider.PaceNoResponse):
		return say("no_response")
	case reason == string(postrider.PaceWindow) && now.OldestDueMS != nil:
		return say("throttled", "slots", pace.Slots, "limit", pace.Limit)
	case now.OldestDueMS != nil && pace.Limit > 0 && pace.InFlight >= pace.Slots:
		return say("full", "limit", pace.Limit)
	}
	s.Tone, s.At = "good", time.Time{}
	switch {
	case now.Pending == 0:
		return say("nothing")
	case now.OldestDueMS == nil:
		return say("later")
	}
	return say("sent")
}
