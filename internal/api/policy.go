package api

import (
	"encoding/json"
	"errors"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/jsonx"
)

// retryJSON is a retry policy as the API writes it, in one of its three forms.
type retryJSON struct {
	Preset      *string  `json:"preset,omitempty" example:"seven-step"`
	Delays      []int64  `json:"delays_ms,omitempty" nullable:"false" doc:"One delay per attempt, the first one included: [0, 30000] is two attempts."`
	Base        *int64   `json:"base_ms,omitempty"`
	Factor      *float64 `json:"factor,omitempty"`
	Cap         *int64   `json:"cap_ms,omitempty"`
	MaxAttempts *int     `json:"max_attempts,omitempty"`
	Jitter      *string  `json:"jitter,omitempty" doc:"none, full, equal, or a percentage like 10%."`
}

func (r retryJSON) policy() postrider.RetryPolicy {
	p := postrider.RetryPolicy{
		Preset:      value(r.Preset),
		Base:        millis(value(r.Base)),
		Factor:      value(r.Factor),
		Cap:         millis(value(r.Cap)),
		MaxAttempts: value(r.MaxAttempts),
		Jitter:      postrider.Jitter(value(r.Jitter)),
	}
	if r.Delays != nil {
		p.Delays = make([]time.Duration, 0, len(r.Delays))
	}
	for _, n := range r.Delays {
		p.Delays = append(p.Delays, millis(n))
	}
	return p
}

func viewRetry(p postrider.RetryPolicy) retryJSON {
	r := retryJSON{
		Preset:      orNull(p.Preset),
		Base:        orNull(p.Base.Milliseconds()),
		Factor:      orNull(p.Factor),
		Cap:         orNull(p.Cap.Milliseconds()),
		MaxAttempts: orNull(p.MaxAttempts),
		Jitter:      orNull(string(p.Jitter)),
	}
	for _, d := range p.Delays {
		r.Delays = append(r.Delays, d.Milliseconds())
	}
	return r
}

// signatureJSON says how an endpoint's requests are signed.
type signatureJSON struct {
	Schemes []string `json:"schemes" nullable:"false" enum:"standard,timestamped,plain"`
}

// circuitPolicyJSON is a circuit's policy: the name of a preset, or numbers. An answer
// has the numbers, and the name where there is one for them.
type circuitPolicyJSON struct {
	Preset      *string `json:"preset,omitempty" enum:"default,strict,windowed,never" doc:"Instead of numbers. Numbers beside it must be the preset's own, as in an answer."`
	Failures    *int    `json:"failures,omitempty" minimum:"0" maximum:"1000" doc:"Failures in a row that open it; 0: they do not. Default 0."`
	Percent     *int    `json:"percent,omitempty" minimum:"0" maximum:"100" doc:"Share of the window that opens it when it failed; 0: it does not. Needs attempts or window_ms. Default 0."`
	Attempts    *int    `json:"attempts,omitempty" doc:"The window: the last so many attempts, 10 to 60. Default 0: none."`
	Window      *int64  `json:"window_ms,omitempty" doc:"The window: the attempts of so long, at least 20 of them; 10000 to 86400000. Default 0: none."`
	Cooldown    *int64  `json:"cooldown_ms,omitempty" doc:"From opening to the first probe, 1000 to 86400000; default 60000."`
	MaxCooldown *int64  `json:"max_cooldown_ms,omitempty" doc:"A probe that fails doubles the cooldown, up to this, at most 86400000; default 1800000."`
}

// policy returns the policy that j asks for: its preset, or its numbers over
// the cooldowns of the default preset and no trigger.
func (j circuitPolicyJSON) policy() (postrider.CircuitPolicy, error) {
	standard := postrider.CircuitPresets["default"]
	base := postrider.CircuitPolicy{Cooldown: standard.Cooldown, MaxCooldown: standard.MaxCooldown}
	if j.Preset != nil {
		preset, ok := postrider.CircuitPresets[*j.Preset]
		if !ok {
			return standard, invalid("circuit.preset", "must be default, strict, windowed or never")
		}
		base = preset
	}
	p := base
	set(&p.Failures, j.Failures)
	set(&p.Percent, j.Percent)
	set(&p.Attempts, j.Attempts)
	setMillis(&p.Window, j.Window)
	setMillis(&p.Cooldown, j.Cooldown)
	setMillis(&p.MaxCooldown, j.MaxCooldown)
	if j.Preset != nil && p != base {
		return standard, invalid("circuit.preset", "has other numbers; leave out the one or the others")
	}
	return p, nil
}

func viewCircuitPolicy(p postrider.CircuitPolicy) circuitPolicyJSON {
	window, cooldown, longest := p.Window.Milliseconds(), p.Cooldown.Milliseconds(), p.MaxCooldown.Milliseconds()
	j := circuitPolicyJSON{
		Failures: &p.Failures, Percent: &p.Percent, Attempts: &p.Attempts,
		Window: &window, Cooldown: &cooldown, MaxCooldown: &longest,
	}
	for name, preset := range postrider.CircuitPresets {
		if p == preset {
			j.Preset = &name
		}
	}
	return j
}

// rateJSON is how many attempts may start in a span of time.
type rateJSON struct {
	Attempts int   `json:"attempts" doc:"1 to 100000."`
	Per      int64 `json:"per_ms" doc:"1000 to 3600000."`
}

// readRate returns the rate that text asks for; null is unlimited.
func readRate(text json.RawMessage) (postrider.Rate, error) {
	if string(text) == "null" {
		return postrider.Rate{}, nil
	}
	var j rateJSON
	if err := jsonx.Decode(text, &j); err != nil {
		var faults []error
		for _, f := range postrider.Faults(err) {
			field := "rate"
			if f.Field != "body" {
				field += "." + f.Field
			}
			faults = append(faults, invalid(field, f.Reason))
		}
		return postrider.Rate{}, errors.Join(faults...)
	}
	r := postrider.Rate{Attempts: j.Attempts, Per: millis(j.Per)}
	if r == (postrider.Rate{}) {
		return r, invalid("rate", "must be null where there is no limit")
	}
	return r, nil
}

func viewRate(r postrider.Rate) json.RawMessage {
	if r == (postrider.Rate{}) {
		return json.RawMessage("null")
	}
	text, err := json.Marshal(rateJSON{Attempts: r.Attempts, Per: r.Per.Milliseconds()})
	if err != nil {
		panic("encode two numbers: " + err.Error())
	}
	return text
}

// PolicyJSON are the fields of an endpoint that make up its policy. One that is
// left out keeps its value, or its default in a new endpoint.
type PolicyJSON struct {
	Retry        *retryJSON     `json:"retry,omitempty"`
	Timeout      *int64         `json:"timeout_ms,omitempty" doc:"Of a whole attempt, 1000 to 30000; default 10000."`
	ClientErrors *string        `json:"client_errors,omitempty" enum:"retry,dead_letter" doc:"What a 4xx does; default retry."`
	Concurrency  *int           `json:"concurrency,omitempty" doc:"Attempts in flight at once, 1 to 1000; default 10."`
	Expiry       *int64         `json:"expiry_ms,omitempty" doc:"How long a delivery may be pending; default 7 days."`
	Signature    *signatureJSON `json:"signature,omitempty"`
	Payload      *string        `json:"payload,omitempty" enum:"envelope,raw" doc:"Default envelope."`

	AdaptiveTimeout *bool              `json:"adaptive_timeout,omitempty" doc:"Shorten timeout_ms while the endpoint keeps timing out, down to 1000; default false."`
	Circuit         *circuitPolicyJSON `json:"circuit,omitempty"`
	Order           *string            `json:"order,omitempty" enum:"none,by_key" doc:"by_key: the events of one ordering key one at a time, in sequence; default none. A change counts for what is published after it."`
	OnDead          *string            `json:"on_dead,omitempty" enum:"skip,pause" doc:"With order by_key: after a dead letter its key goes on, or waits until the dead letter is replayed or discarded; default skip."`

	// Rate is raw because its null is not the same as leaving it out.
	Rate json.RawMessage `json:"rate,omitempty" doc:"How many attempts may start in a span of time; null is unlimited, the default."`
}

// TransformSchema describes the rate, which Go's types do not.
func (PolicyJSON) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	rate := huma.SchemaFromType(r, reflect.TypeFor[rateJSON]())
	rate.Nullable = true
	rate.Description = s.Properties["rate"].Description
	s.Properties["rate"] = rate
	return s
}

// apply sets the policy's fields that are there, and returns the faults that
// [postrider.Policy.Check] cannot know of.
func (j PolicyJSON) apply(p *postrider.Policy) error {
	if j.Retry != nil {
		p.Retry = j.Retry.policy()
	}
	setMillis(&p.Timeout, j.Timeout)
	setText(&p.ClientErrors, j.ClientErrors)
	set(&p.Concurrency, j.Concurrency)
	setMillis(&p.Expiry, j.Expiry)
	setText(&p.Payload, j.Payload)
	set(&p.AdaptiveTimeout, j.AdaptiveTimeout)
	setText(&p.Order, j.Order)
	setText(&p.OnDead, j.OnDead)
	if j.Signature != nil {
		p.Signatures = nil
		for _, scheme := range j.Signature.Schemes {
			p.Signatures = append(p.Signatures, postrider.Scheme(scheme))
		}
	}
	var circuitErr, rateErr error
	if j.Circuit != nil {
		p.Circuit, circuitErr = j.Circuit.policy()
	}
	if j.Rate != nil {
		p.Rate, rateErr = readRate(j.Rate)
	}
	return errors.Join(circuitErr, rateErr)
}

func viewPolicy(p postrider.Policy) PolicyJSON {
	retry, timeout, expiry := viewRetry(p.Retry), p.Timeout.Milliseconds(), p.Expiry.Milliseconds()
	clientErrors, payload := string(p.ClientErrors), string(p.Payload)
	circuit := viewCircuitPolicy(p.Circuit)
	order, onDead := string(p.Order), string(p.OnDead)
	signature := signatureJSON{Schemes: []string{}}
	for _, scheme := range p.Signatures {
		signature.Schemes = append(signature.Schemes, string(scheme))
	}
	return PolicyJSON{
		Retry: &retry, Timeout: &timeout, ClientErrors: &clientErrors, Concurrency: &p.Concurrency,
		Expiry: &expiry, Signature: &signature, Payload: &payload, AdaptiveTimeout: &p.AdaptiveTimeout,
		Circuit: &circuit, Rate: viewRate(p.Rate), Order: &order, OnDead: &onDead,
	}
}

// set sets a field of a policy to what the request has for it, if anything.
func set[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}

func setText[T ~string](field *T, to *string) {
	if to != nil {
		*field = T(*to)
	}
}

func setMillis(field *time.Duration, to *int64) {
	if to != nil {
		*field = millis(*to)
	}
}

// value returns what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
