package postrider

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// RetryPolicy is the number of attempts of a delivery and the wait before each. It has one of three
// forms:
//
//   - Preset: the name of a preset.
//   - Delays: one delay for each attempt, including the first.
//   - Base, Factor, Cap and MaxAttempts: the first attempt starts at once, and the
//     n-th retry waits Base·Factorⁿ⁻¹, at most Cap.
type RetryPolicy struct {
	Preset string

	Delays []time.Duration

	Base        time.Duration
	Factor      float64
	Cap         time.Duration
	MaxAttempts int

	Jitter Jitter // used with Delays or Base; empty: none
}

// Jitter spreads delays at random, so that deliveries that failed together are not retried
// together. For a delay d, "none" is d; "full" is 0 to d; "equal" is d/2 to d; "20%" is 0.8·d to
// 1.2·d; "+20%" is d to 1.2·d.
type Jitter string

// The limits of a retry policy.
const (
	MaxRetryAttempts = 100
	MaxRetryDelay    = 7 * 24 * time.Hour
)

// presets are the named retry policies. "default" is the schedule that Standard Webhooks 1.0.0
// recommends. The delays of "48h" and "72h" grow by a constant factor, from 5 s and 30 s. The
// factor is chosen so that the sum of the delays is the time in the name.
var presets = map[string]RetryPolicy{
	"default": {Jitter: "20%", Delays: []time.Duration{
		0, 5 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 5 * time.Hour,
		10 * time.Hour, 14 * time.Hour, 20 * time.Hour, 24 * time.Hour,
	}},
	"seven-step": {Jitter: "10%", Delays: []time.Duration{
		0, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 8 * time.Hour, 24 * time.Hour,
	}},
	"full-jitter": {Jitter: "full", Delays: []time.Duration{
		0, 30 * time.Second, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 8 * time.Hour, 24 * time.Hour,
	}},
	"eight-step": {Jitter: "none", Delays: []time.Duration{
		0, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute, time.Hour, 4 * time.Hour, 8 * time.Hour,
	}},
	"exponential": {Jitter: "+20%", Base: 5 * time.Second, Factor: 2, Cap: time.Hour, MaxAttempts: 17},
	"hourly-cap":  {Jitter: "full", Base: 30 * time.Second, Factor: 2, Cap: time.Hour, MaxAttempts: 8},
	"48h":         {Jitter: "20%", Base: 5 * time.Second, Factor: 1.7600, Cap: MaxRetryDelay, MaxAttempts: 19},
	"72h":         {Jitter: "20%", Base: 30 * time.Second, Factor: 1.8034, Cap: MaxRetryDelay, MaxAttempts: 16},
}

// Attempts returns how many attempts the policy allows, at least one.
func (p RetryPolicy) Attempts() int {
	p = p.resolve()
	return max(1, len(p.Delays), p.MaxAttempts)
}

// Delay returns the wait of a delivery before the attempt at a step of its schedule. Step 0 is the
// first attempt. The jitter is a hash of the id and the step, so the same arguments always give the
// same delay. A step after the end of the schedule waits as long as the last step.
func (p RetryPolicy) Delay(id DeliveryID, step int) time.Duration {
	p = p.resolve()
	return p.Jitter.spread(p.nominal(step), fraction(id, step))
}

// Schedule returns the delays without jitter, one for each attempt. The first delay is the wait
// before the first attempt. It is 0, except in Delays with another first element.
func (p RetryPolicy) Schedule() []time.Duration {
	p = p.resolve()
	delays := make([]time.Duration, p.Attempts())
	for step := range delays {
		delays[step] = p.nominal(step)
	}
	return delays
}

// Check returns an [InvalidError] for each field that is not valid, joined. Field names are those
// of the API, below "retry".
func (p RetryPolicy) Check() error {
	listed, computed := p.Delays != nil, p.Base != 0 || p.Factor != 0 || p.Cap != 0 || p.MaxAttempts != 0
	switch {
	case p.Preset != "":
		if listed || computed || p.Jitter != "" {
			return &InvalidError{
				Field: "retry", Code: FaultContradictory,
				Reason: "must be a preset alone, or delays_ms, or base_ms, factor, cap_ms and max_attempts",
			}
		}
		if _, ok := presets[p.Preset]; !ok {
			return &InvalidError{Field: "retry.preset", Code: FaultNotAChoice, Reason: "must be one of " + strings.Join(Presets(), ", ")}
		}
		return nil
	case listed && computed:
		return &InvalidError{
			Field: "retry", Code: FaultContradictory,
			Reason: "must have delays_ms, or base_ms, factor, cap_ms and max_attempts, not both",
		}
	case listed:
		return errors.Join(p.checkDelays(), p.Jitter.check())
	case computed:
		return errors.Join(p.checkFormula(), p.Jitter.check())
	}
	return &InvalidError{
		Field: "retry", Code: FaultRequired,
		Reason: "must have a preset, delays_ms, or base_ms, factor, cap_ms and max_attempts",
	}
}

// Presets returns the names of the presets, sorted.
func Presets() []string {
	names := make([]string, 0, len(presets))
	for name := range presets {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (p RetryPolicy) checkDelays() error {
	if n := len(p.Delays); n < 1 || n > MaxRetryAttempts {
		return &InvalidError{
			Field: "retry.delays_ms", Code: FaultWrongCount, Reason: fmt.Sprintf("must have 1 to %d delays", MaxRetryAttempts), Min: 1,
			Max: MaxRetryAttempts,
		}
	}
	var faults faults
	for i, d := range p.Delays {
		if d < 0 || d > MaxRetryDelay {
			faults.join(&InvalidError{
				Field: fmt.Sprintf("retry.delays_ms[%d]", i), Code: FaultOutOfRange, Reason: "must be 0 to 7 days", Max: MaxRetryDelay.Milliseconds(),
			})
		}
	}
	return faults.joined()
}

func (p RetryPolicy) checkFormula() error {
	var faults faults
	faults.lasts("retry.base_ms", p.Base, time.Millisecond, MaxRetryDelay)
	if !(p.Factor >= 1 && p.Factor <= 100) { // written so that NaN is out of range too
		faults.join(OutOfRange("retry.factor", 1, 100))
	}
	faults.add(p.Cap < p.Base || p.Cap > MaxRetryDelay, "retry.cap_ms", FaultContradictory, "must be base_ms to 7 days")
	faults.within("retry.max_attempts", int64(p.MaxAttempts), 1, MaxRetryAttempts)
	return faults.joined()
}

func (p RetryPolicy) resolve() RetryPolicy {
	if preset, ok := presets[p.Preset]; ok {
		return preset
	}
	return p
}

// nominal returns the delay of a step without jitter.
func (p RetryPolicy) nominal(step int) time.Duration {
	if len(p.Delays) > 0 {
		return p.Delays[min(max(step, 0), len(p.Delays)-1)]
	}
	if step <= 0 || p.Base <= 0 {
		return 0
	}
	wait := float64(p.Base) * math.Pow(p.Factor, float64(min(step, p.MaxAttempts-1)-1))
	return time.Duration(min(wait, float64(p.Cap)))
}

func (j Jitter) check() error {
	if _, _, ok := j.bounds(); !ok {
		return &InvalidError{Field: "retry.jitter", Reason: `must be none, full, equal, or a percentage like "10%" or "+10%"`}
	}
	return nil
}

// spread returns a delay from the jitter's range. fraction, from 0 to 1, is the place in the range.
func (j Jitter) spread(d time.Duration, fraction float64) time.Duration {
	low, high, _ := j.bounds()
	return time.Duration(float64(d) * (low + (high-low)*fraction))
}

// bounds returns the lowest and the highest factor by which the jitter may multiply a delay.
func (j Jitter) bounds() (low, high float64, ok bool) {
	switch j {
	case "", "none":
		return 1, 1, true
	case "full":
		return 0, 1, true
	case "equal":
		return 0.5, 1, true
	}
	text, upward := strings.CutPrefix(string(j), "+")
	digits, percent := strings.CutSuffix(text, "%")
	p, err := strconv.ParseUint(digits, 10, 8) // ParseUint refuses a second sign
	if err != nil || !percent || p > 100 {
		return 1, 1, false
	}
	if upward {
		return 1, 1 + float64(p)/100, true
	}
	return 1 - float64(p)/100, 1 + float64(p)/100, true
}

// fraction hashes the id and the step to [0, 1). It uses the finalizer of SplitMix64, which gives
// different results even for ids of the same millisecond.
func fraction(id DeliveryID, step int) float64 {
	x := binary.BigEndian.Uint64(id[:8]) ^ mix(binary.BigEndian.Uint64(id[8:])+uint64(step)*0x9e3779b97f4a7c15)
	return float64(mix(x)>>11) / (1 << 53)
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
