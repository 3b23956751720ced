package postrider_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/postrider/postrider"
)

func healthy(number int64, since time.Duration) postrider.EndpointHealth {
	return postrider.EndpointHealth{Number: number, Status: postrider.Healthy, Since: noon.Add(-since)}
}

func warned(number int64, reason string, warnings int, since time.Duration) postrider.EndpointHealth {
	return postrider.EndpointHealth{
		Number: number, Status: postrider.HealthWarned, Reason: reason, Warnings: warnings, Since: noon.Add(-since),
	}
}

func disabled(number int64, reason string, warnings int, since time.Duration) postrider.EndpointHealth {
	s := warned(number, reason, warnings, since)
	s.Status = postrider.HealthDisabled
	return s
}

// failingFor returns the input for an enabled endpoint that has accepted nothing for the time d.
func failingFor(d time.Duration, s postrider.EndpointHealth) postrider.HealthInput {
	return postrider.HealthInput{Enabled: true, Health: s, FailingSince: noon.Add(-d), FailedAt: noon}
}

// starved returns r for an endpoint whose last attempt was the time d ago.
func starved(d time.Duration, r postrider.HealthInput) postrider.HealthInput {
	r.FailedAt = noon.Add(-d)
	return r
}

// ended returns the input for an enabled endpoint with these numbers of ended deliveries.
func ended(delivered, dead int64, s postrider.EndpointHealth) postrider.HealthInput {
	return postrider.HealthInput{Enabled: true, Health: s, Delivered: delivered, Dead: dead}
}

// notEnabled returns r for an endpoint that a person paused or disabled.
func notEnabled(r postrider.HealthInput) postrider.HealthInput {
	r.Enabled = false
	return r
}

const (
	failing = postrider.ReasonFailing
	letters = postrider.ReasonDeadLetters
	gone    = postrider.ReasonGone
	days    = 24 * hour
)

var unrecorded postrider.EndpointHealth

// healthRows are assessed at noon. If want is unrecorded, nothing must change.
var healthRows = []struct {
	name   string
	record postrider.HealthInput
	want   postrider.EndpointHealth
}{
	{"who accepts stands well", ended(100, 0, unrecorded), unrecorded},
	{"less than six hours of failure are nothing yet", failingFor(6*hour-1, unrecorded), unrecorded},
	{"six hours of failure are warned of", failingFor(6*hour, unrecorded), warned(1, failing, 1, 0)},
	{"once", failingFor(24*hour-1, warned(1, failing, 1, 18*hour-1)), unrecorded},
	{"a day is warned of again", failingFor(24*hour, warned(1, failing, 1, 18*hour)), warned(2, failing, 2, 0)},
	{"three days are warned of again", failingFor(72*hour, warned(2, failing, 2, 48*hour)), warned(3, failing, 3, 0)},
	{"less than five days do not disable", failingFor(5*days-1, warned(3, failing, 3, 48*hour-1)), unrecorded},
	{"five days disable", failingFor(5*days, warned(3, failing, 3, 48*hour)), disabled(4, failing, 3, 0)},
	{"who is found late is warned first", failingFor(9*days, unrecorded), warned(1, failing, 1, 0)},
	{"and has as long as anybody to the next warning", failingFor(9*days, warned(1, failing, 1, 18*hour-1)), unrecorded},
	{"and to the end", failingFor(9*days, warned(3, failing, 3, 48*hour-1)), unrecorded},

	{"time in which nothing was sent does not count", starved(9*days-6*hour+1, failingFor(9*days, unrecorded)), unrecorded},
	{"the failures before it do", starved(9*days-6*hour, failingFor(9*days, unrecorded)), warned(1, failing, 1, 0)},
	{"nor does it disable", starved(48*hour, failingFor(7*days-1, warned(3, failing, 3, 5*days))), unrecorded},
	{"nor to the next warning", starved(days+1, failingFor(9*days, warned(1, letters, 1, 2*days))), unrecorded},
	{"who was warned and got nothing since stays warned", starved(days, failingFor(31*hour, warned(1, failing, 1, days))), unrecorded},

	{"nineteen deliveries say nothing", ended(0, 19, unrecorded), unrecorded},
	{"a quarter of twenty dead is nothing yet", ended(15, 5, unrecorded), unrecorded},
	{"more than a quarter dead is warned of", ended(14, 6, unrecorded), warned(1, letters, 1, 0)},
	{"more than half dead is warned of first", ended(0, 30, unrecorded), warned(1, letters, 1, 0)},
	{"and does not disable within the hour", ended(0, 30, warned(1, letters, 1, hour-1)), unrecorded},
	{"more than half dead disables an hour after", ended(9, 11, warned(1, letters, 1, hour)), disabled(2, letters, 1, 0)},
	{"half dead does not", ended(10, 10, warned(1, letters, 1, hour)), unrecorded},
	{"it disables who was warned for another reason too", ended(0, 20, warned(1, failing, 1, hour)), disabled(2, letters, 1, 0)},
	{"both reasons warn once", failingFor(7*hour, warned(1, letters, 1, 2*hour)), unrecorded},
	{"who was warned of dead letters has a day of failure to the next", failingFor(9*days, warned(1, letters, 1, 24*hour-1)), unrecorded},
	{"and is warned of failure then", failingFor(9*days, warned(1, letters, 1, 24*hour)), warned(2, failing, 2, 0)},

	{"an endpoint that recovers is healthy after an hour", ended(1, 0, warned(3, failing, 3, hour)), healthy(4, 0)},
	{"not sooner, so that the two do not alternate", ended(1, 0, warned(3, failing, 3, hour-1)), unrecorded},
	{"a new failure does not count as the old one", failingFor(6*hour-1, warned(3, failing, 3, hour)), healthy(4, 0)},
	{"a healthy endpoint is warned again", failingFor(6*hour, healthy(4, 6*hour)), warned(5, failing, 1, 0)},
	{"and only of failures after that", failingFor(9*days, healthy(4, 6*hour-1)), unrecorded},

	{"a disabled endpoint is not assessed", notEnabled(failingFor(9*days, disabled(4, failing, 3, days))), unrecorded},
	{"nor one that is paused", notEnabled(failingFor(9*days, warned(3, failing, 3, 2*days))), unrecorded},
	{"nor one that a person disabled", notEnabled(ended(0, 30, unrecorded)), unrecorded},
	{"an endpoint that a person enabled again is healthy", failingFor(9*days, disabled(4, failing, 3, days)), healthy(5, 0)},
	{"also when it answered 410", ended(0, 1, disabled(1, gone, 0, days)), healthy(2, 0)},
}

func TestHealth(t *testing.T) {
	t.Parallel()
	for _, tt := range healthRows {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := tt.record
			r.Endpoint, r.Account = postrider.EndpointID{1}, postrider.AccountID{2}
			want, wantChange := tt.want, tt.want != unrecorded
			if !wantChange {
				want = r.Health
			}
			want.Endpoint, want.Account = r.Endpoint, r.Account
			if want.Status == "" {
				want.Status = postrider.Healthy
			}
			got, changed := r.Assess(noon, postrider.DefaultHealthLimits())
			if diff := cmp.Diff(want, got); diff != "" || changed != wantChange {
				t.Errorf("Assess = %t, want %t, and differs (-want +got):\n%s", changed, wantChange, diff)
			}
		})
	}
}

func TestHealthLimits(t *testing.T) {
	t.Parallel()
	never := postrider.HealthLimits{WarnPercent: 100, DisablePercent: 100}
	tenHours := postrider.HealthLimits{DisableAfter: 10 * hour, WarnPercent: 10, DisablePercent: 80}
	for _, tt := range []struct {
		name   string
		limits postrider.HealthLimits
		record postrider.HealthInput
		want   postrider.HealthStatus
	}{
		{"failure alone never disables", never, failingFor(90*days, warned(3, failing, 3, 80*days)), postrider.Healthy},
		{"nor do dead letters", never, ended(0, 30, unrecorded), postrider.Healthy},
		{"a twentieth of the time is not over", tenHours, failingFor(hour/2-1, unrecorded), postrider.Healthy},
		{"a twentieth of the time is", tenHours, failingFor(hour/2, unrecorded), postrider.HealthWarned},
		{"the whole time disables", tenHours, failingFor(10*hour, warned(3, failing, 3, 4*hour)), postrider.HealthDisabled},
		{"a tenth dead is nothing yet", tenHours, ended(18, 2, unrecorded), postrider.Healthy},
		{"more than a tenth dead is", tenHours, ended(17, 3, unrecorded), postrider.HealthWarned},
		{"four fifths do not disable", tenHours, ended(4, 16, warned(1, letters, 1, hour)), postrider.HealthWarned},
		{"more than four fifths do", tenHours, ended(3, 17, warned(1, letters, 1, hour)), postrider.HealthDisabled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got, _ := tt.record.Assess(noon, tt.limits); got.Status != tt.want {
				t.Errorf("Assess = %+v, want %s", got, tt.want)
			}
		})
	}
}

// healthMachine is an endpoint, and a store that keeps its health. It has what a janitor sees of
// the endpoint, at once or late, while a person does anything at random.
type healthMachine struct {
	now          time.Time
	enabled      bool
	failingSince time.Time
	starvedAt    time.Time   // time of the last attempt; zero: requests are sent all the time
	delivered    []time.Time // when each delivery ended
	dead         []time.Time
	history      []postrider.EndpointHealth
}

func TestHealthMachine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &healthMachine{now: noon, enabled: true}
		t.Repeat(map[string]func(*rapid.T){
			"minutes pass":             func(t *rapid.T) { m.pass(t, mins) },
			"hours pass":               func(t *rapid.T) { m.pass(t, hour) },
			"days pass":                func(t *rapid.T) { m.pass(t, days) },
			"deliveries end":           m.settle,
			"it fails":                 m.fail,
			"it accepts":               func(*rapid.T) { m.failingSince, m.starvedAt = time.Time{}, time.Time{} },
			"nothing more is sent":     m.starve,
			"a person enables it":      func(*rapid.T) { m.enabled = true },
			"a person disables it":     func(*rapid.T) { m.enabled = false },
			"it is assessed":           m.assess,
			"it is assessed each hour": m.watch,
		})
	})
}

func (m *healthMachine) pass(t *rapid.T, unit time.Duration) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(t, "time")) * unit)
}

func (m *healthMachine) settle(t *rapid.T) {
	for range rapid.IntRange(0, 30).Draw(t, "delivered") {
		m.delivered = append(m.delivered, m.now)
	}
	for range rapid.IntRange(0, 30).Draw(t, "dead") {
		m.dead = append(m.dead, m.now)
	}
}

func (m *healthMachine) fail(*rapid.T) {
	if m.failingSince.IsZero() {
		m.failingSince = m.now
	}
	m.starvedAt = time.Time{}
}

func (m *healthMachine) starve(*rapid.T) { m.starvedAt = m.attemptedAt() }

// attemptedAt returns the time of the last attempt.
func (m *healthMachine) attemptedAt() time.Time {
	if m.starvedAt.IsZero() {
		return m.now
	}
	return m.starvedAt
}

func (m *healthMachine) health() (s postrider.EndpointHealth) {
	if n := len(m.history); n > 0 {
		s = m.history[n-1]
	}
	return s
}

// lastHealthy returns when the health was last recorded as healthy.
func (m *healthMachine) lastHealthy() (at time.Time) {
	for _, s := range m.history {
		if s.Status == postrider.Healthy {
			at = s.Since
		}
	}
	return at
}

func (m *healthMachine) record() postrider.HealthInput {
	count := func(ended []time.Time) (n int64) {
		for _, at := range ended {
			if !at.Before(m.now.Add(-postrider.HealthSpan)) && !at.Before(m.lastHealthy()) {
				n++
			}
		}
		return n
	}
	return postrider.HealthInput{
		Enabled: m.enabled, Health: m.health(), FailingSince: m.failingSince, FailedAt: m.attemptedAt(),
		Delivered: count(m.delivered), Dead: count(m.dead),
	}
}

// watch assesses the endpoint as a janitor does, until its health has changed some times.
func (m *healthMachine) watch(t *rapid.T) {
	most := len(m.history) + rapid.IntRange(1, 6).Draw(t, "changes")
	for range 6 * 24 {
		if m.assess(t); len(m.history) == most {
			return
		}
		m.now = m.now.Add(hour)
	}
}

func (m *healthMachine) assess(t *rapid.T) {
	r := m.record()
	s, changed := r.Assess(m.now, postrider.DefaultHealthLimits())
	if again, _ := r.Assess(m.now, postrider.DefaultHealthLimits()); again != s {
		t.Errorf("assessed %+v, and %+v for the same input", s, again)
	}
	if !changed {
		return
	}
	m.checkChange(t, r, s)
	m.history = append(m.history, s)
	if s.Status == postrider.HealthDisabled {
		m.enabled = false
	}
	m.delivered, m.dead = before(m.delivered, m.now), before(m.dead, m.now)
	if again, changed := m.record().Assess(m.now, postrider.DefaultHealthLimits()); changed {
		t.Errorf("assessed twice at %v: %+v, then %+v", m.now, s, again)
	}
}

// before returns the times before now. Of two things at the same instant, nobody knows which came
// first.
func before(ended []time.Time, now time.Time) (kept []time.Time) {
	for _, at := range ended {
		if at.Before(now) {
			kept = append(kept, at)
		}
	}
	return kept
}

func (m *healthMachine) checkChange(t *rapid.T, r postrider.HealthInput, s postrider.EndpointHealth) {
	was, anew := r.Health, m.lastHealthy()
	if s.Number != was.Number+1 || !s.Since.Equal(m.now) {
		t.Errorf("at %v, %+v follows %+v", m.now, s, was)
	}
	if !r.Enabled {
		t.Errorf("%+v of an endpoint that is not enabled", s)
	}
	if (s.Status == postrider.Healthy) != (s.Reason == "") || s.Status == was.Status && s.Warnings != was.Warnings+1 {
		t.Errorf("%+v follows %+v", s, was)
	}
	failed := time.Duration(0)
	if !r.FailingSince.IsZero() {
		failed = r.FailedAt.Sub(later(r.FailingSince, anew))
	}
	dead, settled := r.Dead, r.Dead+r.Delivered
	switch s.Status {
	case postrider.HealthWarned:
		if failed < 6*hour && (settled < 20 || dead*4 <= settled) {
			t.Errorf("warned after %v of failure, %d of %d dead", failed, dead, settled)
		}
	case postrider.HealthDisabled:
		if was.Status != postrider.HealthWarned || m.now.Sub(was.Since) < hour {
			t.Errorf("disabled without an hour's warning: %+v after %+v", s, was)
		}
		if failed < 5*days && (settled < 20 || dead*2 <= settled) {
			t.Errorf("disabled after %v of failure, %d of %d dead", failed, dead, settled)
		}
	case postrider.Healthy:
		if was.Status == postrider.HealthWarned && (failed >= 6*hour || settled >= 20 && dead*4 > settled) {
			t.Errorf("healthy again after %v of failure, %d of %d dead", failed, dead, settled)
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// An endpoint that fails and is assessed each minute is warned and disabled at the documented
// times.
func TestAnEndpointThatFailsIsWarnedThriceAndDisabledAfterFiveDays(t *testing.T) {
	t.Parallel()
	got := map[string]time.Duration{}
	r := postrider.HealthInput{Enabled: true, FailingSince: noon}
	for now := noon; r.Enabled; now = now.Add(mins) {
		r.FailedAt = now
		s, changed := r.Assess(now, postrider.DefaultHealthLimits())
		if !changed {
			continue
		}
		r.Health, r.Enabled = s, s.Status != postrider.HealthDisabled
		got[string(s.Status)+" "+string(rune('0'+s.Warnings))] = now.Sub(noon)
	}
	want := map[string]time.Duration{"warned 1": 6 * hour, "warned 2": 24 * hour, "warned 3": 72 * hour, "disabled 3": 5 * days}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what was recorded when (-want +got):\n%s", diff)
	}
}
