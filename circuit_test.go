package postrider_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider"
)

// noon is the time at which each test begins.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// The policies that the tables use.
var (
	fiveInRow   = postrider.CircuitPolicy{Failures: 5, Cooldown: mins, MaxCooldown: 8 * mins}
	oneInRow    = postrider.CircuitPolicy{Failures: 1, Cooldown: mins, MaxCooldown: 8 * mins}
	halfOfTen   = postrider.CircuitPolicy{Percent: 50, Attempts: 10, Cooldown: mins, MaxCooldown: 8 * mins}
	halfOf20s   = postrider.CircuitPolicy{Percent: 50, Window: 20 * sec, Cooldown: mins, MaxCooldown: 8 * mins}
	neverOpened = postrider.CircuitPresets["never"]
)

// A move is something that happens to a breaker. One letter stands for each move, so that a row of
// a table reads as a history.
var circuitMoves = map[rune]func(*breakerRun){
	'+': func(r *breakerRun) { r.record(postrider.OutcomeAccepted, false) },
	'-': func(r *breakerRun) { r.record(postrider.OutcomeRejected, false) },
	'~': func(r *breakerRun) { r.record(postrider.OutcomeThrottled, false) },
	'?': func(r *breakerRun) { r.recordAttempt(asksForTime, false) },
	'v': func(r *breakerRun) { r.recordAttempt(tenSeconds, false) },
	'L': func(r *breakerRun) { r.record(postrider.OutcomeLost, false) },
	'N': func(r *breakerRun) { r.record(postrider.OutcomeNone, false) },
	'p': func(r *breakerRun) { r.allowed = r.b.Probe(r.now, 10*sec) },
	'A': func(r *breakerRun) { r.record(postrider.OutcomeAccepted, true) },
	'F': func(r *breakerRun) { r.record(postrider.OutcomeTimedOut, true) },
	'T': func(r *breakerRun) { r.recordAttempt(asksForTime, true) },
	't': func(r *breakerRun) { r.record(postrider.OutcomeThrottled, true) },
	'V': func(r *breakerRun) { r.recordAttempt(tenSeconds, true) },
	'X': func(r *breakerRun) { r.record(postrider.OutcomeLost, true) },
	's': func(r *breakerRun) { r.now = r.now.Add(sec) },
	'm': func(r *breakerRun) { r.now = r.now.Add(mins) },
	'h': func(r *breakerRun) { r.now = r.now.Add(hour) },
	'b': func(r *breakerRun) { r.now = r.now.Add(-mins) },
	'o': func(r *breakerRun) { r.b.Set(postrider.CircuitOpen, r.now, r.policy) },
	'c': func(r *breakerRun) { r.b.Set(postrider.CircuitClosed, r.now, r.policy) },
	'x': func(r *breakerRun) { r.b.Set(postrider.CircuitHalfOpen, r.now, r.policy) },
	'n': func(r *breakerRun) { r.b = postrider.Breaker{Circuit: r.b.Circuit} }, // another node takes over
	'w': func(r *breakerRun) { r.policy.Window *= 10 },
}

// breakerRun is a breaker, with the results of its last move.
type breakerRun struct {
	b       postrider.Breaker
	policy  postrider.CircuitPolicy
	now     time.Time
	allowed bool // result of the last Probe
	changed bool // result of the last Record
}

// Attempts that have more than an outcome.
var (
	asksForTime = postrider.Attempt{Outcome: postrider.OutcomeThrottled, RetryAfter: sec}
	tenSeconds  = postrider.Attempt{Outcome: postrider.OutcomeTimedOut, Duration: 10 * sec}
)

func (r *breakerRun) record(o postrider.Outcome, probe bool) {
	r.recordAttempt(postrider.Attempt{Outcome: o}, probe)
}

func (r *breakerRun) recordAttempt(a postrider.Attempt, probe bool) {
	r.changed = r.b.Record(&a, probe, r.now, r.policy)
}

// onlyCircuit returns c without the fields that every attempt changes.
func onlyCircuit(c postrider.Circuit) postrider.Circuit {
	c.Failures, c.LastAttemptAt, c.LastOutcome = 0, time.Time{}, ""
	return c
}

func runBreaker(t *testing.T, p postrider.CircuitPolicy, script string) *breakerRun {
	t.Helper()
	r := &breakerRun{policy: p, now: noon}
	for _, letter := range script {
		move, ok := circuitMoves[letter]
		if !ok {
			t.Fatalf("no move is %q", letter)
		}
		move(r)
	}
	return r
}

func closedCircuit(reason string, cooldown time.Duration) postrider.Circuit {
	return postrider.Circuit{Status: postrider.CircuitClosed, Reason: reason, Cooldown: cooldown}
}

// openCircuit returns a circuit that opened, and failed first, at the given times after noon. Its
// next probe is one cooldown after it opened or was last probed.
func openCircuit(reason string, opened, probe, cooldown time.Duration) postrider.Circuit {
	return postrider.Circuit{
		Status: postrider.CircuitOpen, Reason: reason, OpenedAt: noon.Add(opened), ProbeAt: noon.Add(probe),
		Cooldown: cooldown, FailingSince: noon,
	}
}

func halfOpenCircuit(reason string, until, cooldown time.Duration) postrider.Circuit {
	c := openCircuit(reason, 0, until, cooldown)
	c.Status = postrider.CircuitHalfOpen
	return c
}

// notFailing returns c for an endpoint without attempts, or whose last attempt was accepted.
func notFailing(c postrider.Circuit) postrider.Circuit {
	c.FailingSince = time.Time{}
	return c
}

func failingSince(c postrider.Circuit, after time.Duration) postrider.Circuit {
	c.FailingSince = noon.Add(after)
	return c
}

const (
	inRow       = postrider.ReasonFailuresInRow
	ratio       = postrider.ReasonFailureRatio
	probeFailed = postrider.ReasonProbeFailed
	manual      = postrider.ReasonManual
)

var circuitRows = []struct {
	name   string
	policy postrider.CircuitPolicy
	script string
	want   postrider.Circuit
}{
	{"an endpoint that accepts is left alone", fiveInRow, "++++++", postrider.Circuit{}},
	{"four failures in a row are too few for five", fiveInRow, "----", postrider.Circuit{}},
	{"five failures in a row open it", fiveInRow, "-----", openCircuit(inRow, 0, mins, mins)},
	{"an accepted attempt ends the row", fiveInRow, "----+----", postrider.Circuit{}},
	{"an answer that asks for time neither fails nor ends the row", fiveInRow, "----?-", openCircuit(inRow, 0, mins, mins)},
	{"a lost node neither fails nor ends the row", fiveInRow, "----LN-", openCircuit(inRow, 0, mins, mins)},
	{"answers that ask for time never open it", oneInRow, "??????????", postrider.Circuit{}},
	{"throttling of an endpoint that accepted nothing opens it", fiveInRow, "~~~~~", openCircuit(inRow, 0, mins, mins)},
	{"one accepted answer vouches for the next 19", oneInRow, "+~~~~~~~~~~~~~~~~~~~", postrider.Circuit{}},
	{"but not for the 20th", oneInRow, "+~~~~~~~~~~~~~~~~~~~~", openCircuit(inRow, 0, mins, mins)},
	{"every answer counts, whatever it says", oneInRow, "+???????????????????~", openCircuit(inRow, 0, mins, mins)},
	{"and silence does not", halfOfTen, "+---~~~~", postrider.Circuit{}},
	{"throttling that is vouched for is in no window", halfOfTen, "+++++~~~~~~~~~~", postrider.Circuit{}},
	{"another node does not know what was accepted", oneInRow, "+n~", openCircuit(inRow, 0, mins, mins)},
	{"it has been failing since the first of the row", fiveInRow, "--m---", openCircuit(inRow, mins, 2*mins, mins)},

	{"a window that is not full says nothing", halfOfTen, "---------", postrider.Circuit{}},
	{"half of a full window opens it", halfOfTen, "+++++-----", openCircuit(ratio, 0, mins, mins)},
	{"less than half does not", halfOfTen, "++++++----", postrider.Circuit{}},
	{"the window moves on", halfOfTen, "-----++++++----", postrider.Circuit{}},
	{"only a failure opens it", halfOfTen, "-----+++++", postrider.Circuit{}},

	{"nineteen attempts in a window of time say nothing", halfOf20s, "-------------------", postrider.Circuit{}},
	{"half of twenty in a window of time open it", halfOf20s, "++++++++++----------", openCircuit(ratio, 0, mins, mins)},
	{"less than half of it do not", halfOf20s, "+++++++++++----------", postrider.Circuit{}},
	{"what is older than the window does not count", halfOf20s, "----------m++++++++++---------", postrider.Circuit{}},
	{"slices of the window go one by one", halfOf20s, "----------ssssssssss----------", openCircuit(ratio, 10*sec, 70*sec, mins)},
	{"a clock that is set back keeps counting", halfOf20s, "----------b----------", openCircuit(ratio, -mins, 0, mins)},
	{"another window begins anew", halfOf20s, "-------------------w-", postrider.Circuit{}},

	{"a preset that never opens never does", neverOpened, "--------------------------------", postrider.Circuit{}},
	{"an hour of failure is recorded though it stays closed", neverOpened, "-h-", failingSince(closedCircuit("", 0), 0)},
	{"so is a minute of it", neverOpened, "-m-", failingSince(closedCircuit("", 0), 0)},
	{"and forgotten once something is accepted", neverOpened, "-h-+", closedCircuit("", 0)},
	{"and goes on at another node", fiveInRow, "-h-n-----", openCircuit(inRow, hour, hour+mins, mins)},

	{"attempts under way do not change an open one", oneInRow, "----?", openCircuit(inRow, 0, mins, mins)},
	{"nor does one that is accepted", oneInRow, "-+", notFailing(openCircuit(inRow, 0, mins, mins))},
	{"it has been failing since the last that was accepted", oneInRow, "-+mpF", failingSince(openCircuit(probeFailed, 0, 2*mins, mins), mins)},

	{"a probe has to wait for the cooldown", oneInRow, "-sp", openCircuit(inRow, 0, mins, mins)},
	{"a closed one is not probed", fiveInRow, "-mp", postrider.Circuit{}},
	{"a probe makes it half open", oneInRow, "-mp", halfOpenCircuit(inRow, mins+10*sec, mins)},
	{"while it is under way there is no other", oneInRow, "-mpsp", halfOpenCircuit(inRow, mins+10*sec, mins)},
	{"one that never came back is followed by another", oneInRow, "-mpssssssssssp", halfOpenCircuit(inRow, mins+20*sec, mins)},
	{"one whose node died says nothing", oneInRow, "-mpX", halfOpenCircuit(inRow, mins+10*sec, mins)},
	{"a probe that is accepted closes it", oneInRow, "-mpA", closedCircuit(inRow, mins)},
	{"a probe that is throttled closes it, for it is there", oneInRow, "-mpT", failingSince(closedCircuit(inRow, mins), 0)},
	{"a throttled probe that asks for no time fails", oneInRow, "-mpt", openCircuit(probeFailed, 0, 2*mins, mins)},
	{"a probe that fails opens it for as long again", oneInRow, "-mpF", openCircuit(probeFailed, 0, 2*mins, mins)},
	{"the cooldown runs from the start of the attempt", oneInRow, "v", openCircuit(inRow, 0, 50*sec, mins)},
	{"so it does from that of a probe", oneInRow, "-mpV", openCircuit(probeFailed, 0, 110*sec, mins)},
	{"for fourteen minutes it stays the same", oneInRow, "-" + strings.Repeat("mpF", 14), openCircuit(probeFailed, 0, 15*mins, mins)},
	{"from the fifteenth on it doubles", oneInRow, "-" + strings.Repeat("mpF", 15), openCircuit(probeFailed, 0, 17*mins, 2*mins)},
	{"each time", oneInRow, "-hpFhpF", openCircuit(probeFailed, 0, 2*hour+4*mins, 4*mins)},
	{"up to the greatest", oneInRow, "-hpFhpFhpFhpF", openCircuit(probeFailed, 0, 4*hour+8*mins, 8*mins)},
	{
		"of two probes the first to come back counts", oneInRow, "-mpssssssssssspFA",
		notFailing(openCircuit(probeFailed, 0, 2*mins+11*sec, mins)),
	},
	{"other attempts say nothing while it is half open", oneInRow, "-mp-", halfOpenCircuit(inRow, mins+10*sec, mins)},
	{"another node waits for the probe under way", oneInRow, "-mpnp", halfOpenCircuit(inRow, mins+10*sec, mins)},

	{
		"one failure opens it again while it recovers", fiveInRow, "-----mpA+-",
		failingSince(openCircuit(probeFailed, mins, 2*mins, mins), mins),
	},
	{"so it does after a throttled probe", fiveInRow, "-----mpT-", openCircuit(probeFailed, mins, 2*mins, mins)},
	{"so it does at another node", fiveInRow, "-----mpAn-", failingSince(openCircuit(probeFailed, mins, 2*mins, mins), mins)},
	{"three in a row are a recovery", fiveInRow, "-----mpA++", closedCircuit(inRow, 0)},
	{"after which it takes a row again", fiveInRow, "-----mpA++----", closedCircuit(inRow, 0)},
	{"and the cooldown begins anew", fiveInRow, "-----mpA++-----", failingSince(openCircuit(inRow, mins, 2*mins, mins), mins)},

	{"a person opens it for the longest time", fiveInRow, "o", notFailing(openCircuit(manual, 0, 8*mins, 8*mins))},
	{"also when it is open", oneInRow, "-so", openCircuit(manual, 0, 8*mins+sec, 8*mins)},
	{"also when it is half open, whatever the probe shows", oneInRow, "-mpoA", notFailing(openCircuit(manual, 0, 9*mins, 8*mins))},
	{"a person closes it, as if it had recovered", oneInRow, "-mpFc", closedCircuit(probeFailed, 0)},
	{"also when it is half open, whatever the probe shows", fiveInRow, "-----mpcF", closedCircuit(inRow, 0)},
	{"one that is closed stays so", fiveInRow, "c", postrider.Circuit{}},
	{"a person has it probed at once", oneInRow, "-mpFx", openCircuit(probeFailed, 0, mins, mins)},
	{"also when it is closed", fiveInRow, "x", notFailing(openCircuit(manual, 0, 0, mins))},
	{"not while a probe is under way", oneInRow, "-mpsx", halfOpenCircuit(inRow, mins+10*sec, mins)},
	{"one that a person opened closes, whatever the probe shows, where it never opens", neverOpened, "xpF", closedCircuit(manual, mins)},
	{"and stays so", neverOpened, "xpF------", closedCircuit(manual, mins)},
}

func TestCircuit(t *testing.T) {
	t.Parallel()
	for _, tt := range circuitRows {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := runBreaker(t, tt.policy, tt.script)
			if diff := cmp.Diff(tt.want, onlyCircuit(r.b.Circuit)); diff != "" {
				t.Errorf("after %s the circuit differs (-want +got):\n%s", tt.script, diff)
			}
		})
	}
}

func TestACircuitIsStoredWhenItChanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		policy postrider.CircuitPolicy
		script string
		want   bool
	}{
		{"not for a failure too few", fiveInRow, "----", false},
		{"when it opens", fiveInRow, "-----", true},
		{"not for an attempt that was on its way", fiveInRow, "------", false},
		{"not for one that was accepted", fiveInRow, "-----+", false},
		{"when a probe fails", oneInRow, "-mpF", true},
		{"when a probe closes it", oneInRow, "-mpA", true},
		{"when a throttled probe closes it", oneInRow, "-mpT", true},
		{"not for a probe whose node died", oneInRow, "-mpX", false},
		{"not while it recovers", oneInRow, "-mpA+", false},
		{"when it has been failing for a minute", neverOpened, "-m-", true},
		{"not in the next minute", neverOpened, "-m---s-", false},
		{"once more after it", neverOpened, "-m---m-", true},
		{"when it has recovered", oneInRow, "-mpA++", true},
		{"not afterwards", oneInRow, "-mpA+++", false},
		{"when that is over", neverOpened, "-h-+", true},
	} {
		if got := runBreaker(t, tt.policy, tt.script).changed; got != tt.want {
			t.Errorf("%s: Record = %t at the end of %s, want %t", tt.name, got, tt.script, tt.want)
		}
	}
}

func TestABreakerRemembersTrouble(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		script   string
		quiet    bool
		failures int
	}{
		{"nothing happened", "", true, 0},
		{"what was accepted is no trouble", "++", true, 0},
		{"a failure is", "--", false, 2},
		{"until something is accepted", "--+", true, 0},
		{"an open one is", "-----", false, 5},
		{"one that recovers is", "-----mpA+", false, 0},
		{"one that recovered is not", "-----mpA++", true, 0},
		{"a failure that is recorded is", "-h-n", false, 2},
	} {
		b := runBreaker(t, fiveInRow, tt.script).b
		if b.Quiet() != tt.quiet || b.Failures != tt.failures {
			t.Errorf("%s: after %q Quiet = %t, Failures = %d, want %t, %d",
				tt.name, tt.script, b.Quiet(), b.Failures, tt.quiet, tt.failures)
		}
	}
}

// The circuit of an endpoint that fails half of the time, at random, must not open and close all
// the time.
func TestACircuitDoesNotFlap(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"default", "strict", "windowed"} {
		policy, random := postrider.CircuitPresets[name], rand.New(rand.NewPCG(1, 2))
		var b postrider.Breaker
		var opened []time.Time
		for now := noon; now.Before(noon.Add(48 * hour)); now = now.Add(sec) {
			probe := b.Probe(now, 10*sec)
			if !probe && b.Status != postrider.CircuitClosed && b.Status != "" {
				continue
			}
			o := postrider.OutcomeAccepted
			if random.IntN(2) == 0 {
				o = postrider.OutcomeRejected
			}
			if b.Record(&postrider.Attempt{Outcome: o}, probe, now, policy); b.Status == postrider.CircuitOpen {
				opened = append(opened, now)
			}
		}
		if len(opened) < 10 {
			t.Errorf("%s: opened %d times in two days, want it to open", name, len(opened))
		}
		for i := 2; i < len(opened); i++ {
			if opened[i].Sub(opened[i-2]) < mins {
				t.Errorf("%s: opened at %v, the third time in a minute", name, opened[i])
			}
		}
	}
}

func TestCircuitPolicyCheck(t *testing.T) {
	t.Parallel()
	type policy = postrider.CircuitPolicy
	for _, tt := range []struct {
		name   string
		change func(*policy)
		want   []string
	}{
		{"no rule never opens", func(p *policy) { p.Failures = 0 }, nil},
		{"a number of attempts", func(p *policy) { p.Percent, p.Attempts = 1, 10 }, nil},
		{"a span of time", func(p *policy) { p.Percent, p.Window = 100, 10*sec }, nil},
		{"the longest", func(p *policy) { p.Percent, p.Window, p.MaxCooldown = 100, 24*hour, 24*hour }, nil},
		{"failures too few", func(p *policy) { p.Failures = -1 }, []string{"circuit.failures must be 0 to 1000"}},
		{"failures too many", func(p *policy) { p.Failures = 1001 }, []string{"circuit.failures must be 0 to 1000"}},
		{"less than none of a window", func(p *policy) { p.Percent, p.Attempts = -1, 10 }, []string{"circuit.percent must be 0 to 100"}},
		{"more than all of a window", func(p *policy) { p.Percent, p.Attempts = 101, 10 }, []string{"circuit.percent must be 0 to 100"}},
		{"a share of nothing", func(p *policy) { p.Percent = 50 }, []string{"circuit.percent needs either attempts or window_ms"}},
		{"a share of two windows", func(p *policy) { p.Percent, p.Attempts, p.Window = 50, 20, mins }, []string{
			"circuit.percent needs either attempts or window_ms",
		}},
		{"attempts without a share", func(p *policy) { p.Attempts = 20 }, []string{"circuit.attempts needs percent"}},
		{"a span without a share", func(p *policy) { p.Window = mins }, []string{"circuit.window_ms needs percent"}},
		{"attempts too few", func(p *policy) { p.Percent, p.Attempts = 50, 9 }, []string{"circuit.attempts must be 10 to 60"}},
		{"attempts too many", func(p *policy) { p.Percent, p.Attempts = 50, 61 }, []string{"circuit.attempts must be 10 to 60"}},
		{"a span too short", func(p *policy) { p.Percent, p.Window = 50, 10*sec-1 }, []string{"circuit.window_ms must be 10000 to 86400000"}},
		{"a span too long", func(p *policy) { p.Percent, p.Window = 50, 24*hour+1 }, []string{"circuit.window_ms must be 10000 to 86400000"}},
		{"a cooldown too short", func(p *policy) { p.Cooldown = sec - 1 }, []string{"circuit.cooldown_ms must be 1000 to 86400000"}},
		{"a cooldown too long", func(p *policy) { p.Cooldown, p.MaxCooldown = 24*hour+1, 24*hour+1 }, []string{
			"circuit.cooldown_ms must be 1000 to 86400000", "circuit.max_cooldown_ms must be cooldown_ms to 86400000",
		}},
		{"a greatest cooldown that is less", func(p *policy) { p.MaxCooldown = p.Cooldown - 1 }, []string{
			"circuit.max_cooldown_ms must be cooldown_ms to 86400000",
		}},
	} {
		p := fiveInRow
		tt.change(&p)
		if diff := cmp.Diff(tt.want, faults(p.Check())); diff != "" {
			t.Errorf("%s: Check differs (-want +got):\n%s", tt.name, diff)
		}
	}
	for name, p := range postrider.CircuitPresets {
		if err := p.Check(); err != nil {
			t.Errorf("preset %s: %v", name, err)
		}
	}
}
