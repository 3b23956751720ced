package endpoints

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
	"github.com/postrider/postrider/internal/web/text"
)

// notice is a message at the top of the page of an endpoint: the state, its beginning, what
// happens next, and what to do.
type notice struct {
	Tone  string    // good, warn or bad
	Text  string    // the state in words
	Since time.Time // beginning of the state; zero: unknown, or of no use
	Next  time.Time // when the next request may leave; zero: the text says it, or nobody knows
	Probe bool      // that request is a probe
	Todo  string    // empty: nothing has to be done
	// Failure is the last failed request if it is the reason for the state; nil: it is not, or
	// unknown.
	Failure *apitypes.LastFailure
	// Link is the path of the next page to open, and LinkText its name; empty: there is none.
	Link, LinkText string
}

// sending says what is sent to an endpoint now, and why its deliveries wait.
type sending struct {
	notice

	Pace *apitypes.Pace
	Now  apitypes.StatsNow // what waits
}

// sendingOf returns what is sent to the endpoint now. It names the first cause that stops or
// slows the endpoint.
func sendingOf(v *page.Visit, p *endpointPage) sending {
	e, c, now := p.Endpoint, p.Circuit, p.Traffic.Stats.Now
	s := sending{notice: notice{Tone: "warn"}, Pace: c.Pace, Now: now}
	pace := apitypes.Pace{}
	if c.Pace != nil {
		pace = *c.Pace
	}
	if resumes := page.Instant(pace.ResumesAt); resumes.After(v.Now) {
		s.Next = resumes
	}
	if stopped(v, &s, p) {
		return s
	}
	if slow, args := slowedBy(pace, now, e.Rate.Value(), s.Next); slow != "" {
		if slow != "rate" && slow != "postponed" {
			s.Next = time.Time{} // of the concurrency window: at once
		}
		if slow == "throttled" || slow == "no_response" {
			s.Failure = c.LastFailure
		}
		return saySent(v, s, slow, append(args, "rate", v.Text.RateWords(e.Rate.Value()))...)
	}
	s.Next = time.Time{}
	switch {
	case c.FailingSince != nil:
		s.Since = c.FailingSince.Time
		return sayFailing(v, s, p, "failing")
	case lastFailed(p.Deliveries):
		return sayFailing(v, s, p, "failed")
	}
	s.Tone = "good"
	switch {
	case now.Pending == 0:
		return saySent(v, s, "nothing")
	case now.OldestDueMS == nil:
		return saySent(v, s, "later")
	}
	return saySent(v, s, "sent")
}

// saySent sets the text "sending."+key, and the text that says what to do.
func saySent(v *page.Visit, s sending, key string, args ...any) sending {
	s.Text = v.T("sending."+key, args...)
	if todo := "sending.todo." + key; v.Text.Has(todo) {
		s.Todo = v.T(todo)
	}
	return s
}

// sayFailing is saySent for a failing endpoint. It also sets the last failure, with advice.
func sayFailing(v *page.Visit, s sending, p *endpointPage, key string) sending {
	s.Failure = p.Circuit.LastFailure
	s = saySent(v, s, key)
	s.Todo = strings.TrimSpace(v.Text.Advice(s.Failure) + " " + s.Todo)
	return s
}

// stopped reports whether nothing is sent to the endpoint. If so, it sets the reason in s.
func stopped(v *page.Visit, s *sending, p *endpointPage) bool {
	e, c := p.Endpoint, p.Circuit
	paced := c.Pace != nil && c.Pace.Reason != nil && *c.Pace.Reason == string(postrider.PaceRetryAfter)
	switch {
	case e.Status != postrider.EndpointEnabled:
		s.Since, s.Next = e.StatusSince.Time, time.Time{}
		*s = saySent(v, *s, string(e.Status))
		if health := p.lastHealth(); e.Status == postrider.EndpointDisabled && health.Status == postrider.HealthDisabled {
			*s = sayFailing(v, *s, p, "disabled")
			s.Tone, s.Text = "bad", v.T("sending.disabled_by_server", "why", v.T(fmt.Sprint("health.reason.", text.Deref(health.Reason))))
		}
	case e.PolicyError != nil:
		s.Tone = "bad"
		*s = saySent(v, *s, "policy_unreadable")
	case c.Status == postrider.CircuitOpen, c.Status == postrider.CircuitHalfOpen:
		stage := setProbe(v, s, p)
		if opened := c.Reason; opened != nil && *opened == postrider.ReasonManual {
			*s = saySent(v, *s, sendingStages[stage])
		} else {
			*s = sayFailing(v, *s, p, sendingStages[stage])
		}
		if c.Reason != nil {
			s.Text += " " + v.T("sending.opened", "why", v.T("circuit.reason."+*c.Reason))
		}
	case page.Instant(c.PacedUntil).After(v.Now):
		s.Next = page.Instant(c.PacedUntil)
		*s = saySent(v, *s, "retry_after")
	case paced: // the Retry-After may not be stored yet
		*s = saySent(v, *s, "retry_after")
	default:
		return false
	}
	return true
}

// setProbe describes in s the effect of a circuit that is not closed. It returns the stage of the
// next probe.
func setProbe(v *page.Visit, s *sending, p *endpointPage) probeStage {
	stage, c := probeStageOf(v, p), p.Circuit
	s.Tone, s.Since, s.Next, s.Probe = "bad", page.Instant(c.OpenedAt), time.Time{}, true
	switch stage {
	case probeUnknown:
		s.Tone = "warn"
	case probeLater, probePaced:
		s.Next = later(page.Instant(c.ProbeAt), page.Instant(c.PacedUntil))
	case probeNever, probeDue, probeUnderWay:
	}
	return stage
}

// probeStage is the stage of the next probe of a circuit that is not closed.
type probeStage int

// The stages.
const (
	probeNever    probeStage = iota // the circuit is closed, or nothing is sent to the endpoint whatever its circuit
	probeLater                      // the cooldown runs; a person can end it
	probePaced                      // the receiver asked for time, so a probe that a person asks for waits as well
	probeDue                        // the next delivery that is due is the probe
	probeUnknown                    // as probeDue, but no delivery waits
	probeUnderWay                   // the probe is being sent
)

// sendingStages has the texts "sending." of the stages.
var sendingStages = map[probeStage]string{
	probeLater: "open", probePaced: "open", probeDue: "probe_due", probeUnknown: "unknown", probeUnderWay: "half_open",
}

// probeStageOf returns the stage of the endpoint's next probe. If the probe of a half-open
// circuit has not ended in time, the circuit gets another probe.
func probeStageOf(v *page.Visit, p *endpointPage) probeStage {
	e, c := p.Endpoint, p.Circuit
	over := !page.Instant(c.ProbeAt).After(v.Now)
	switch {
	case e.Status != postrider.EndpointEnabled, e.PolicyError != nil, c.Status == postrider.CircuitClosed:
		return probeNever
	case c.Status == postrider.CircuitHalfOpen && !over:
		return probeUnderWay
	case page.Instant(c.PacedUntil).After(v.Now):
		return probePaced
	case over && p.Traffic.Stats.Now.Pending == 0:
		return probeUnknown
	case over:
		return probeDue
	}
	return probeLater
}

// circuitForms says which forms the panel of the circuit has, and which hint it shows.
type circuitForms struct {
	Open, Close, Probe bool
	Hint               string // empty: none is needed
}

// circuitFormsOf returns the forms that have an effect now. A probe is always a due delivery, so
// a person can only ask for an earlier probe.
func circuitFormsOf(v *page.Visit, p *endpointPage) circuitForms {
	e, c := p.Endpoint, p.Circuit
	closed := c.Status == postrider.CircuitClosed
	f := circuitForms{Open: closed, Close: !closed}
	stage := probeStageOf(v, p)
	switch {
	case e.PolicyError != nil:
		return circuitForms{} // the API refuses all of them
	case closed:
		f.Hint = v.T("circuit.open_now.hint")
	case stage == probeNever:
		f.Hint = v.T("circuit.hint." + string(e.Status))
	case stage == probePaced:
		f.Hint = v.T("circuit.hint.paced")
	case stage == probeUnknown, stage == probeDue && p.Sending.Now.OldestDueMS == nil:
		f.Hint = v.T("circuit.hint.due")
	case stage == probeLater:
		f.Probe, f.Hint = true, v.T("circuit.hint.probe")
		if p.Sending.Now.OldestDueMS == nil {
			f.Hint = v.T("circuit.hint.none_due")
		}
	}
	return f
}

// later returns the later of two times.
func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// lastFailed reports whether the newest attempted delivery was not accepted. The stored circuit
// knows a failure only after a minute.
func lastFailed(newest []apitypes.Delivery) bool {
	i := slices.IndexFunc(newest, func(d apitypes.Delivery) bool { return d.Attempts > 0 })
	return i >= 0 && newest[i].Status != postrider.Delivered
}

// slowedBy returns the key of the text that says why an endpoint gets less than its limit, and
// the arguments of the text; empty: nothing slows the endpoint. next is the time of the next
// request.
func slowedBy(pace apitypes.Pace, now apitypes.StatsNow, rate apitypes.Rate, next time.Time) (string, []any) {
	reason := text.Deref(pace.Reason)
	switch {
	case reason == string(postrider.PacePostponed):
		return "postponed", nil
	case reason == string(postrider.PaceRate), reason == string(postrider.PaceWindow) && !next.IsZero() && rate.Attempts > 0:
		return "rate", nil
	case reason == string(postrider.PaceNoResponse):
		return "no_response", nil
	case reason == string(postrider.PaceWindow) && now.OldestDueMS != nil:
		return "throttled", []any{"slots", pace.Slots, "limit", pace.Limit}
	case now.OldestDueMS != nil && pace.Limit > 0 && pace.InFlight >= pace.Slots:
		return "full", []any{"limit", pace.Limit}
	}
	return "", nil
}

// lastHealth returns the last change of the endpoint's health; zero: there was none.
func (p *endpointPage) lastHealth() (last apitypes.EndpointHealth) {
	if len(p.Health) > 0 {
		last = p.Health[0]
	}
	return last
}

// noticesOf returns the messages at the top of an endpoint's page: what is sent now, its warning,
// its unresolved dead letters, and the deliveries that were skipped lately.
func noticesOf(v *page.Visit, p *endpointPage) []notice {
	all := []notice{p.Sending.notice}
	if health := p.lastHealth(); health.Status == postrider.HealthWarned {
		why := v.T(fmt.Sprint("health.reason.", text.Deref(health.Reason)))
		all = append(all, notice{Tone: "warn", Text: v.T("notice.warned", "why", why), Since: health.Since.Time, Todo: v.T("notice.warned.todo")})
	}
	if n := p.Sending.Now.DeadLetters; n > 0 {
		all = append(all, notice{
			Tone: "warn", Text: v.T("notice.dead", "n", n, "more", page.Plus(n >= page.CountEnd)),
			Link: v.Path("dead-letters") + "?endpoint=" + p.Endpoint.ID.String(), LinkText: v.T("notice.dead.link"),
		})
	}
	if n := p.Skipped; n > 0 {
		all = append(all, notice{
			Tone: "warn", Text: v.T("notice.skipped", "n", n), Todo: v.T("notice.skipped.todo"),
			Link: v.Path("deliveries") + "?status=skipped&endpoint=" + p.Endpoint.ID.String(), LinkText: v.T("notice.skipped.link"),
		})
	}
	return all
}
