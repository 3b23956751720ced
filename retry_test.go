package postrider_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/postrider/postrider"
)

const (
	ms   = time.Millisecond
	sec  = time.Second
	mins = time.Minute
	hour = time.Hour
)

// preset is the expected schedule of a preset.
type preset struct {
	nominal   []time.Duration
	low, high float64 // bounds of the jitter, as factors
}

var wantPresets = map[string]preset{
	"default": {[]time.Duration{
		0, 5 * sec, 5 * mins, 30 * mins, 2 * hour, 5 * hour, 10 * hour, 14 * hour, 20 * hour, 24 * hour,
	}, 0.8, 1.2},
	"seven-step": {[]time.Duration{
		0, mins, 5 * mins, 30 * mins, 2 * hour, 8 * hour, 24 * hour,
	}, 0.9, 1.1},
	"full-jitter": {[]time.Duration{
		0, 30 * sec, 5 * mins, 30 * mins, 2 * hour, 8 * hour, 24 * hour,
	}, 0, 1},
	"eight-step": {[]time.Duration{
		0, 30 * sec, 2 * mins, 10 * mins, 30 * mins, hour, 4 * hour, 8 * hour,
	}, 1, 1},
	"exponential": {[]time.Duration{
		0, 5 * sec, 10 * sec, 20 * sec, 40 * sec, 80 * sec, 160 * sec, 320 * sec, 640 * sec, 1280 * sec, 2560 * sec,
		hour, hour, hour, hour, hour, hour,
	}, 1, 1.2},
	"hourly-cap": {[]time.Duration{
		0, 30 * sec, mins, 2 * mins, 4 * mins, 8 * mins, 16 * mins, 32 * mins,
	}, 0, 1},
	"48h": {geometric(5*sec, 1.76, 19), 0.8, 1.2},
	"72h": {geometric(30*sec, 1.8034, 16), 0.8, 1.2},
}

func geometric(base time.Duration, factor float64, attempts int) []time.Duration {
	delays := make([]time.Duration, attempts)
	for i := 1; i < attempts; i++ {
		delays[i] = time.Duration(float64(base) * math.Pow(factor, float64(i-1)))
	}
	return delays
}

func TestPresetsAreExact(t *testing.T) {
	t.Parallel()
	for _, name := range postrider.Presets() {
		want, policy := wantPresets[name], postrider.RetryPolicy{Preset: name}
		if got := policy.Attempts(); got != len(want.nominal) {
			t.Errorf("%s allows %d attempts, want %d", name, got, len(want.nominal))
		}
		for step, nominal := range want.nominal {
			checkJitter(t, policy, step, bounds(nominal, want.low, want.high))
		}
	}
	if got := len(postrider.Presets()); got != len(wantPresets) {
		t.Errorf("there are %d presets, want %d", got, len(wantPresets))
	}
}

// TestRetriesAreDocumented compares the presets with the table that operators read.
func TestRetriesAreDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("docs/operate/circuits-and-order.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| sum | jitter |\n|---|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(.+?)` \\|.*$").FindAllStringSubmatch(table, -1) {
		rows[row[1]] = row[0]
	}
	jitters := map[[2]float64]string{{1, 1}: "none", {0, 1}: "full", {0.8, 1.2}: "20%", {0.9, 1.1}: "10%", {1, 1.2}: "+20%"}
	want := map[string]string{}
	for _, name := range postrider.Presets() {
		schedule := postrider.RetryPolicy{Preset: name}.Schedule()
		if diff := cmp.Diff(wantPresets[name].nominal, schedule); diff != "" {
			t.Errorf("the schedule of %s (-want +got):\n%s", name, diff)
		}
		var delays []string
		var sum time.Duration
		for _, d := range schedule {
			delays, sum = append(delays, shortly(d)), sum+d
		}
		want[name] = fmt.Sprintf("| `%s` | %d | %s | %s | `%s` |", name, len(schedule), strings.Join(delays[1:], ", "),
			shortly(sum), jitters[[2]float64{wantPresets[name].low, wantPresets[name].high}])
	}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("the rows of the page (-want +documented):\n%s", diff)
	}
}

// shortly returns a duration rounded to seconds, without zero units at its end, such as 2h30m.
func shortly(d time.Duration) string {
	return regexp.MustCompile("([hm])0[ms](0s)?$").ReplaceAllString(d.Round(time.Second).String(), "$1")
}

// interval is the range in which a delay must lie.
type interval struct{ low, high time.Duration }

func bounds(nominal time.Duration, low, high float64) interval {
	return interval{time.Duration(float64(nominal) * low), time.Duration(float64(nominal) * high)}
}

// checkJitter computes the delays of many ids. All must lie inside the interval, and some must come
// within a fiftieth of each of its ends.
func checkJitter(t *testing.T, p postrider.RetryPolicy, step int, want interval) {
	t.Helper()
	least, greatest := time.Duration(math.MaxInt64), time.Duration(0)
	for i := range 500 {
		d := p.Delay(deliveryID(uint64(i)), step)
		least, greatest = min(least, d), max(greatest, d)
	}
	slack := (want.high - want.low) / 50
	if least < want.low || least > want.low+slack || greatest > want.high || greatest < want.high-slack {
		t.Errorf("%+v: delays of step %d are %v to %v, want %v to %v",
			p, step, least, greatest, want.low, want.high)
	}
}

// deliveryID returns ids as a busy node makes them: of the same millisecond, with different random
// parts.
func deliveryID(n uint64) postrider.DeliveryID {
	var random [10]byte
	binary.BigEndian.PutUint64(random[2:], n*0x9e3779b97f4a7c15)
	return postrider.MakeID[postrider.DeliveryID](time.UnixMilli(1772366400000), random)
}

func TestPresetsLastAsLongAsTheirNames(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]time.Duration{"48h": 48 * hour, "72h": 72 * hour} {
		var total time.Duration
		for _, d := range wantPresets[name].nominal {
			total += d
		}
		if off := (total - want).Abs(); off > want/1000 {
			t.Errorf("the delays of %s add up to %v, off by %v", name, total, off)
		}
	}
}

func TestDelayOfEachForm(t *testing.T) {
	t.Parallel()
	list := func(j postrider.Jitter) postrider.RetryPolicy {
		return postrider.RetryPolicy{Delays: []time.Duration{0, mins, hour}, Jitter: j}
	}
	formula := postrider.RetryPolicy{Base: sec, Factor: 3, Cap: 20 * sec, MaxAttempts: 6}
	for _, tt := range []struct {
		name   string
		policy postrider.RetryPolicy
		step   int
		want   interval
	}{
		{"a list answers in order", list(""), 1, interval{mins, mins}},
		{"none is no jitter", list("none"), 2, interval{hour, hour}},
		{"full is anything up to the delay", list("full"), 2, interval{0, hour}},
		{"equal is the upper half", list("equal"), 2, interval{hour / 2, hour}},
		{"a percentage goes both ways", list("50%"), 2, interval{hour / 2, hour + hour/2}},
		{"a signed percentage goes up", list("+50%"), 2, interval{hour, hour + hour/2}},
		{"a list may delay the first attempt", postrider.RetryPolicy{Delays: []time.Duration{hour}}, 0, interval{hour, hour}},
		{"a step past the list waits like the last", list(""), 9, interval{hour, hour}},
		{"a step before the list waits like the first", list(""), -1, interval{0, 0}},
		{"a formula goes at once", formula, 0, interval{0, 0}},
		{"a formula starts with its base", formula, 1, interval{sec, sec}},
		{"a formula multiplies", formula, 3, interval{9 * sec, 9 * sec}},
		{"a formula stops at its cap", formula, 4, interval{20 * sec, 20 * sec}},
		{"a step past the formula waits like the last", formula, 60, interval{20 * sec, 20 * sec}},
		{"a formula that never grows", postrider.RetryPolicy{Base: sec, Factor: 1, Cap: sec, MaxAttempts: 3}, 2, interval{sec, sec}},
		{"no policy at all goes at once", postrider.RetryPolicy{}, 1, interval{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			checkJitter(t, tt.policy, tt.step, tt.want)
		})
	}
}

func TestAttempts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		policy postrider.RetryPolicy
		want   int
	}{
		{"a list has one delay per attempt", postrider.RetryPolicy{Delays: []time.Duration{0, sec}}, 2},
		{"a formula says how many", postrider.RetryPolicy{Base: sec, Factor: 2, Cap: hour, MaxAttempts: 5}, 5},
		{"there is always one", postrider.RetryPolicy{}, 1},
	} {
		if got := tt.policy.Attempts(); got != tt.want {
			t.Errorf("%s: Attempts = %d, want %d", tt.name, got, tt.want)
		}
	}
}

var jitters = rapid.SampledFrom([]postrider.Jitter{"", "none", "full", "equal", "10%", "+10%", "100%", "+100%"})

func TestDelayIsAFunctionOfItsArguments(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := postrider.RetryPolicy{
			Base:        time.Duration(rapid.Int64Range(int64(time.Millisecond), int64(hour)).Draw(t, "base")),
			Factor:      rapid.Float64Range(1, 100).Draw(t, "factor"),
			Cap:         postrider.MaxRetryDelay,
			MaxAttempts: rapid.IntRange(1, postrider.MaxRetryAttempts).Draw(t, "attempts"),
			Jitter:      jitters.Draw(t, "jitter"),
		}
		if err := p.Check(); err != nil {
			t.Fatal(err)
		}
		id, step := deliveryID(rapid.Uint64().Draw(t, "id")), rapid.IntRange(0, 200).Draw(t, "step")
		d := p.Delay(id, step)
		if again := p.Delay(id, step); d != again {
			t.Errorf("Delay = %v, then %v", d, again)
		}
		if d < 0 || d > 2*postrider.MaxRetryDelay {
			t.Errorf("Delay = %v, want 0 to twice the cap", d)
		}
	})
}

// Deliveries that failed in one millisecond must not be retried in one: no tenth of the jitter's
// range gets more than a few hundredths above its share.
func TestJitterSpreadsEvenly(t *testing.T) {
	t.Parallel()
	const ids, buckets = 100_000, 100
	p := postrider.RetryPolicy{Delays: []time.Duration{hour}, Jitter: "full"}
	for step := range 3 {
		var counts [buckets]int
		for i := range ids {
			counts[int(p.Delay(sequentialID(uint64(i)), step)*buckets/hour)]++
		}
		most := 0
		for _, n := range counts {
			most = max(most, n)
		}
		if ratio := float64(most) * buckets / ids; ratio > 1.15 {
			t.Errorf("step %d: the fullest of %d buckets has %.2f times its share", step, buckets, ratio)
		}
	}
}

// sequentialID returns ids that differ only in their last bits, which is the worst case for a hash.
func sequentialID(n uint64) postrider.DeliveryID {
	var random [10]byte
	binary.BigEndian.PutUint64(random[2:], n)
	return postrider.MakeID[postrider.DeliveryID](time.UnixMilli(1772366400000), random)
}

// faults returns the text "field reason" of every fault, in order.
func faults(err error) []string {
	var texts []string
	for _, f := range postrider.Faults(err) {
		texts = append(texts, f.Error())
	}
	return texts
}

func TestRetryPolicyCheck(t *testing.T) {
	t.Parallel()
	const names = "48h, 72h, default, eight-step, exponential, full-jitter, hourly-cap, seven-step"
	const jitter = `retry.jitter must be none, full, equal, or a percentage like "10%" or "+10%"`
	list := []time.Duration{0, sec}
	for _, tt := range []struct {
		name   string
		policy postrider.RetryPolicy
		want   []string
	}{
		{"a preset", postrider.RetryPolicy{Preset: "default"}, nil},
		{"a list", postrider.RetryPolicy{Delays: list, Jitter: "full"}, nil},
		{"a formula", postrider.RetryPolicy{Base: sec, Factor: 2, Cap: hour, MaxAttempts: 100, Jitter: "+10%"}, nil},
		{"nothing", postrider.RetryPolicy{}, []string{
			"retry must have a preset, delays_ms, or base_ms, factor, cap_ms and max_attempts",
		}},
		{"jitter alone", postrider.RetryPolicy{Jitter: "full"}, []string{
			"retry must have a preset, delays_ms, or base_ms, factor, cap_ms and max_attempts",
		}},
		{"an unknown preset", postrider.RetryPolicy{Preset: "never"}, []string{"retry.preset must be one of " + names}},
		{"a preset with more", postrider.RetryPolicy{Preset: "default", Jitter: "none"}, []string{
			"retry must be a preset alone, or delays_ms, or base_ms, factor, cap_ms and max_attempts",
		}},
		{"a list and a formula", postrider.RetryPolicy{Delays: list, Base: sec}, []string{
			"retry must have delays_ms, or base_ms, factor, cap_ms and max_attempts, not both",
		}},
		{"an empty list", postrider.RetryPolicy{Delays: []time.Duration{}}, []string{"retry.delays_ms must have 1 to 100 delays"}},
		{"a list too long", postrider.RetryPolicy{Delays: make([]time.Duration, 101)}, []string{
			"retry.delays_ms must have 1 to 100 delays",
		}},
		{"delays out of bounds", postrider.RetryPolicy{Delays: []time.Duration{-1, sec, 8 * 24 * hour}, Jitter: "some"}, []string{
			"retry.delays_ms[0] must be 0 to 7 days", "retry.delays_ms[2] must be 0 to 7 days", jitter,
		}},
		{"every number of a formula wrong", postrider.RetryPolicy{Factor: math.NaN(), Cap: -1, MaxAttempts: 101, Jitter: "%"}, []string{
			"retry.base_ms must be 1 to 604800000", "retry.factor must be 1 to 100",
			"retry.cap_ms must be base_ms to 7 days", "retry.max_attempts must be 1 to 100", jitter,
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tt.want, faults(tt.policy.Check())); diff != "" {
				t.Errorf("Check(%+v) differs (-want +got):\n%s", tt.policy, diff)
			}
		})
	}
}

func TestJitterForms(t *testing.T) {
	t.Parallel()
	for jitter, valid := range map[postrider.Jitter]bool{
		"": true, "none": true, "full": true, "equal": true, "0%": true, "100%": true, "+0%": true, "+100%": true,
		"101%": false, "-1%": false, "+-1%": false, "++1%": false, "-0%": false, "1": false, "%": false, "1.5%": false,
		" 1%": false, "Full": false, "99999999999999999999%": false, "1_0%": false,
	} {
		err := postrider.RetryPolicy{Delays: []time.Duration{0}, Jitter: jitter}.Check()
		if (err == nil) != valid {
			t.Errorf("Check(jitter %q) = %v, want valid %t", jitter, err, valid)
		}
	}
}
