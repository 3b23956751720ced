package postrider_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/postrider/postrider"
)

func TestAWindowAfterARestartDoublesEachRound(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int][]int{
		1: {1, 1}, 2: {1, 2, 2}, 10: {1, 2, 4, 8, 10, 10}, 64: {1, 2, 4, 8, 16, 32, 64, 64},
	} {
		var w postrider.ConcurrencyWindow
		w.Restart(limit)
		if w.Open() {
			t.Errorf("limit %d: wide open after a restart", limit)
		}
		got := []int{w.Slots(limit)}
		for len(got) < len(want) {
			for range w.Slots(limit) {
				w.Accepted(limit)
			}
			got = append(got, w.Slots(limit))
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: rounds of %v, want %v", limit, got, want)
		}
		if !w.Open() {
			t.Errorf("limit %d: not wide open after rounds of %v", limit, got)
		}
	}
}

// windowSteps applies steps to a window with a limit of 8, one a second. A step is one letter for
// something that happens to the window.
func windowSteps(t *testing.T, steps string) (slots []int, pauses []time.Duration) {
	t.Helper()
	const limit = 8
	var w postrider.ConcurrencyWindow
	now, some := noon, false
	for _, step := range steps {
		now = now.Add(sec)
		switch step {
		case '+':
			w.Accepted(limit)
		case 'r':
			w.Restart(limit)
		case 's':
			some = true
		case '!': // in the same second as the step before
			now = now.Add(-sec)
			fallthrough
		case '-':
			pauses = append(pauses, w.Throttled(limit, some, now))
		default:
			t.Fatalf("no step is %q", step)
		}
		slots = append(slots, w.Slots(limit))
	}
	return slots, pauses
}

func TestWindow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		steps  string
		slots  []int
		pauses []time.Duration
	}{
		{"what is accepted keeps it wide open", "++", []int{8, 8}, nil},
		{"throttling halves it, down to one slot", "---", []int{4, 2, 1}, []time.Duration{0, 0, 5 * ms}},
		{"what was in flight together counts once", "-!!", []int{4, 4, 4}, []time.Duration{0, 0, 0}},
		{"then it grows by one a round", "-+++++++++", []int{4, 4, 4, 4, 4, 5, 5, 5, 5, 5}, []time.Duration{0}},
		{"after a restart to where it was too much", "r++-++++", []int{1, 2, 3, 1, 2, 2, 3, 3}, []time.Duration{5 * ms}},
		{"with one slot the pause doubles each time", "------", []int{4, 2, 1, 1, 1, 1}, []time.Duration{
			0, 0, 5 * ms, 10 * ms, 20 * ms, 40 * ms,
		}},
		{"up to a second", "------------", []int{4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, []time.Duration{
			0, 0, 5 * ms, 10 * ms, 20 * ms, 40 * ms, 80 * ms, 160 * ms, 320 * ms, 640 * ms, sec, sec,
		}},
		{"to a tenth of it where some are accepted", "s---------", []int{8, 4, 2, 1, 1, 1, 1, 1, 1, 1}, []time.Duration{
			0, 0, 5 * ms, 10 * ms, 20 * ms, 40 * ms, 80 * ms, 100 * ms, 100 * ms,
		}},
		{"an accepted answer ends it", "------+-", []int{4, 2, 1, 1, 1, 1, 2, 1}, []time.Duration{
			0, 0, 5 * ms, 10 * ms, 20 * ms, 40 * ms, 5 * ms,
		}},
		{"a restart that is throttled at once is paused", "-r!", []int{4, 1, 1}, []time.Duration{0, 5 * ms}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			slots, pauses := windowSteps(t, tt.steps)
			if diff := cmp.Diff(tt.slots, slots); diff != "" {
				t.Errorf("slots after each of %s (-want +got):\n%s", tt.steps, diff)
			}
			if diff := cmp.Diff(tt.pauses, pauses); diff != "" {
				t.Errorf("pauses of %s (-want +got):\n%s", tt.steps, diff)
			}
		})
	}
}

// windowMachine gives random responses of an endpoint to a window.
type windowMachine struct {
	limit int
	w     postrider.ConcurrencyWindow
	now   time.Time
	cutAt time.Time // when it was last halved
}

func TestWindowMachine(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m := &windowMachine{limit: rapid.IntRange(1, 1000).Draw(t, "limit"), now: noon}
		t.Repeat(map[string]func(*rapid.T){
			"time passes": func(t *rapid.T) {
				m.now = m.now.Add(time.Duration(rapid.Int64Range(0, int64(2*sec)).Draw(t, "time")))
			},
			"attempts are accepted": m.accepted,
			"one is throttled":      m.throttled,
			"it begins anew":        func(*rapid.T) { m.w.Restart(m.limit) },
			"its limit changes":     func(t *rapid.T) { m.limit = rapid.IntRange(1, 1000).Draw(t, "limit") },
			"":                      m.check,
		})
		m.recover(t)
	})
}

func (m *windowMachine) accepted(t *rapid.T) {
	for range rapid.IntRange(1, 50).Draw(t, "accepted") {
		before := m.w.Slots(m.limit)
		m.w.Accepted(m.limit)
		if after := m.w.Slots(m.limit); after < before || m.w.Open() && after != m.limit {
			t.Errorf("%d slots became %d, of %d, after one was accepted", before, after, m.limit)
		}
	}
}

func (m *windowMachine) throttled(t *rapid.T) {
	before := m.w.Slots(m.limit)
	pause := m.w.Throttled(m.limit, false, m.now)
	after := m.w.Slots(m.limit)
	again := m.now.Sub(m.cutAt) < sec
	if want := max(1, before/2); !again && after != want || again && after != before {
		t.Errorf("%d slots became %d when throttled %v after the last time", before, after, m.now.Sub(m.cutAt))
	}
	if !again {
		m.cutAt = m.now
	}
	if after > 1 && pause != 0 || after == 1 && (pause < 5*ms || pause > sec) {
		t.Errorf("paused for %v with %d slots", pause, after)
	}
}

func (m *windowMachine) check(t *rapid.T) {
	if n := m.w.Slots(m.limit); n < 1 || n > m.limit {
		t.Errorf("%d slots, of %d", n, m.limit)
	}
}

// recover checks that accepted attempts open any window again.
func (m *windowMachine) recover(t *rapid.T) {
	for range m.limit*m.limit + 1 {
		if m.w.Open() {
			return
		}
		m.w.Accepted(m.limit)
	}
	t.Errorf("%d slots, of %d, after so many were accepted", m.w.Slots(m.limit), m.limit)
}

func TestAdaptiveTimeout(t *testing.T) {
	t.Parallel()
	const timeout, accepted, broken = postrider.OutcomeTimedOut, postrider.OutcomeAccepted, postrider.OutcomeBroken
	times := func(n int, o postrider.Outcome) []postrider.Outcome { return slices.Repeat([]postrider.Outcome{o}, n) }
	for _, tt := range []struct {
		name     string
		policy   time.Duration
		outcomes []postrider.Outcome
		want     time.Duration
	}{
		{"at first it is the whole timeout", 10 * sec, nil, 10 * sec},
		{"two timeouts do not shorten it", 10 * sec, times(2, timeout), 10 * sec},
		{"three in a row halve it", 10 * sec, times(3, timeout), 5 * sec},
		{"six quarter it", 10 * sec, times(6, timeout), 2500 * time.Millisecond},
		{"it does not go below a second", 10 * sec, times(100, timeout), sec},
		{"nor does the longest", 30 * sec, times(100, timeout), sec},
		{"nor does the shortest", sec, times(100, timeout), sec},
		{"every tenth attempt has all of it", 10 * sec, times(9, timeout), 10 * sec},
		{"and only that one", 10 * sec, times(10, timeout), 1250 * time.Millisecond},
		{"an answer gives it all back", 10 * sec, append(times(20, timeout), accepted), 10 * sec},
		{"so does one that is no success", 10 * sec, append(times(20, timeout), postrider.OutcomeRejected), 10 * sec},
		{"after which it takes three again", 10 * sec, append(append(times(8, timeout), accepted), times(2, timeout)...), 10 * sec},
		{"what never got through says nothing", 10 * sec, append(times(3, timeout), broken, broken), 5 * sec},
	} {
		var p postrider.AdaptiveTimeout
		for _, o := range tt.outcomes {
			p.Record(o)
		}
		if got := p.Timeout(tt.policy); got != tt.want {
			t.Errorf("%s: Timeout = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestAdaptiveTimeoutIsBetweenASecondAndThePolicy(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		policy := time.Duration(rapid.Int64Range(int64(sec), int64(30*sec)).Draw(t, "policy"))
		var p postrider.AdaptiveTimeout
		whole := 0 // attempts since the last one with the whole timeout
		for range rapid.IntRange(0, 200).Draw(t, "attempts") {
			got := p.Timeout(policy)
			if got < sec || got > policy {
				t.Fatalf("Timeout = %v, of %v", got, policy)
			}
			if whole++; got == policy {
				whole = 0
			}
			if whole >= 10 {
				t.Fatalf("ten attempts in a row had less than %v", policy)
			}
			o := rapid.SampledFrom([]postrider.Outcome{postrider.OutcomeTimedOut, postrider.OutcomeTimedOut, postrider.OutcomeAccepted}).Draw(t,
				"outcome")
			if p.Record(o); o == postrider.OutcomeAccepted && p.Timeout(policy) != policy {
				t.Fatalf("Timeout = %v after an answer, want %v", p.Timeout(policy), policy)
			}
		}
	})
}
