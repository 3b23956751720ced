package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/jsonx"
)

// retryJSON is a retry policy as the API writes it, in one of its three forms.
type retryJSON struct {
	Preset      *string  `json:"preset,omitempty" example:"seven-step"`
	Delays      []int64  `json:"delays_ms,omitempty" nullable:"false" doc:"One delay for each attempt, with the first: [0, 30000] is two attempts."`
	Base        *int64   `json:"base_ms,omitempty"`
	Factor      *float64 `json:"factor,omitempty"`
	Cap         *int64   `json:"cap_ms,omitempty"`
	MaxAttempts *int     `json:"max_attempts,omitempty"`
	Jitter      *string  `json:"jitter,omitempty" doc:"Random part of the delays: none, full, equal, or a percentage like 10%."`
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
	// Each is the name of a scheme, or a schemeJSON.
	Schemes []json.RawMessage `json:"schemes" nullable:"false"`
}

// schemeJSON is a scheme that writes into a header of the endpoint's choice.
type schemeJSON struct {
	Scheme string `json:"scheme"`
	Header string `json:"header" example:"X-Acme-Signature" doc:"Name of the header, instead of the scheme's own."`
	Prefix string `json:"prefix,omitempty" example:"sha256=" doc:"Text before the signature, instead of the scheme's own."`
}

// TransformSchema describes the schemes, which Go's types do not.
func (signatureJSON) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	name := &huma.Schema{Type: huma.TypeString}
	for _, scheme := range postrider.Schemes {
		name.Enum = append(name.Enum, string(scheme))
	}
	bent := huma.SchemaFromType(r, reflect.TypeFor[schemeJSON]())
	for _, scheme := range postrider.Schemes {
		if scheme.Bendable() {
			bent.Properties["scheme"].Enum = append(bent.Properties["scheme"].Enum, string(scheme))
		}
	}
	s.Properties["schemes"].Items = &huma.Schema{OneOf: []*huma.Schema{name, bent}}
	s.Properties["schemes"].Description = "Signature schemes; each request has the signatures of all. An object gives a scheme another header."
	return s
}

// signatures returns the schemes and the faults of schemes that cannot be read.
func (j signatureJSON) signatures() ([]postrider.Signature, error) {
	var list []postrider.Signature
	var faults []error
	for i, text := range j.Schemes {
		var scheme schemeJSON
		at := fmt.Sprintf("signature.schemes[%d]", i)
		if text[0] == '"' {
			faults = append(faults, json.Unmarshal(text, &scheme.Scheme))
		} else {
			faults = append(faults, decodePart(at, text, &scheme))
		}
		list = append(list, postrider.Signature{Scheme: postrider.Scheme(scheme.Scheme), Header: scheme.Header, Prefix: scheme.Prefix})
	}
	return list, errors.Join(faults...)
}

func viewSignatures(list []postrider.Signature) signatureJSON {
	j := signatureJSON{Schemes: []json.RawMessage{}}
	for _, s := range list {
		if s.Header == "" {
			j.Schemes = append(j.Schemes, textOf(s.Scheme))
		} else {
			j.Schemes = append(j.Schemes, textOf(schemeJSON{Scheme: string(s.Scheme), Header: s.Header, Prefix: s.Prefix}))
		}
	}
	return j
}

// circuitPolicyJSON is a circuit's policy: the name of a preset, or numbers. An answer
// has the numbers, and the name where there is one for them.
type circuitPolicyJSON struct {
	Preset      *string `json:"preset,omitempty" enum:"default,strict,windowed,never" doc:"Name of a set of numbers. Where numbers are sent too, they must be those of the preset."`
	Failures    *int    `json:"failures,omitempty" minimum:"0" maximum:"1000" doc:"Number of consecutive failures that opens the circuit. Default 0: consecutive failures do not open it."`
	Percent     *int    `json:"percent,omitempty" minimum:"0" maximum:"100" doc:"Percentage of failures in the window that opens the circuit. It needs attempts or window_ms. Default 0: the percentage does not open it."`
	Attempts    *int    `json:"attempts,omitempty" doc:"Size of the window in attempts, 10 to 60. Default 0: no such window."`
	Window      *int64  `json:"window_ms,omitempty" doc:"Length of the window, 10000 to 86400000. It needs at least 20 attempts. Default 0: no such window."`
	Cooldown    *int64  `json:"cooldown_ms,omitempty" doc:"Time from opening to the first probe, 1000 to 86400000; default 60000."`
	MaxCooldown *int64  `json:"max_cooldown_ms,omitempty" doc:"Longest cooldown, at most 86400000; default 1800000. Each failed probe doubles the cooldown."`
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
	override(&p.Failures, j.Failures)
	override(&p.Percent, j.Percent)
	override(&p.Attempts, j.Attempts)
	overrideMillis(&p.Window, j.Window)
	overrideMillis(&p.Cooldown, j.Cooldown)
	overrideMillis(&p.MaxCooldown, j.MaxCooldown)
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
	Attempts int   `json:"attempts" doc:"Number of attempts in the period, 1 to 100000."`
	Per      int64 `json:"per_ms" doc:"Length of the period, 1000 to 3600000."`
	Burst    int   `json:"burst,omitempty" doc:"Number of attempts that may start at once after a pause, 1 to attempts; default: a tenth of attempts, at least 1."`
}

// rate returns the rate that j asks for.
func (j rateJSON) rate() (postrider.Rate, error) {
	r := postrider.Rate{Attempts: j.Attempts, Per: millis(j.Per), Burst: j.Burst}
	if r == (postrider.Rate{}) {
		return r, invalid("rate", "must be null where there is no limit")
	}
	return r, nil
}

func viewRate(r postrider.Rate) optional[rateJSON] {
	return nullUnless(r != postrider.Rate{}, rateJSON{Attempts: r.Attempts, Per: r.Per.Milliseconds(), Burst: r.Burst})
}

// PolicyJSON are the fields of an endpoint that make up its policy. In a new
// endpoint, a field that is left out or null has its default. In a change, a
// field that is left out keeps its value, and null sets it back to its default.
// An answer has all of them.
type PolicyJSON struct {
	Retry        optional[retryJSON]     `json:"retry,omitzero" doc:"When failed deliveries are attempted again; default: the preset seven-step."`
	Timeout      optional[int64]         `json:"timeout_ms,omitzero" doc:"Timeout of a whole attempt, 1000 to 30000; default 10000."`
	ClientErrors optional[string]        `json:"client_errors,omitzero" enum:"retry,dead_letter" doc:"What an answer of 4xx causes: another attempt, or a dead letter at once; default retry."`
	Concurrency  optional[int]           `json:"concurrency,omitzero" doc:"Most attempts in flight at once, 1 to 1000; default 10. A node limits one endpoint to a quarter of its own attempts."`
	Expiry       optional[int64]         `json:"expiry_ms,omitzero" doc:"How long a delivery may be pending before it becomes a dead letter; default 7 days."`
	Signature    optional[signatureJSON] `json:"signature,omitzero" doc:"How requests are signed; default: the scheme standard."`
	Payload      optional[string]        `json:"payload,omitzero" enum:"envelope,raw" doc:"What the body of a request is: data in an envelope with id, type and timestamp, or data alone; default envelope."`

	AdaptiveTimeout optional[bool]              `json:"adaptive_timeout,omitzero" doc:"Shorten the timeout, down to 1000 ms, while the endpoint keeps timing out; default false."`
	Circuit         optional[circuitPolicyJSON] `json:"circuit,omitzero" doc:"When failures stop requests to the endpoint; default: the preset default."`
	Order           optional[string]            `json:"order,omitzero" enum:"none,by_key" doc:"by_key: events with the same ordering key are delivered one at a time, in sequence; default none. A change applies to events that are published after it."`
	OnDead          optional[string]            `json:"on_dead,omitzero" enum:"skip,pause" doc:"With order by_key, what follows a dead letter. skip: the next event of its key is delivered. pause: the key waits until the dead letter is replayed or discarded. Default skip."`

	Headers      optional[[]headerJSON] `json:"headers,omitzero" maxItems:"32" doc:"Extra headers of every request; default: none. A change replaces all of them."`
	MaxRedirects optional[int]          `json:"max_redirects,omitzero" minimum:"0" maximum:"3" doc:"How many redirects an attempt follows: 307 and 308, which repeat the request; 301, 302 and 303 are failures. Default 0: every redirect is a failure."`
	Compression  optional[string]       `json:"compression,omitzero" enum:"none,gzip" doc:"Compression of the body. Signatures are made before it. Default none."`

	Rate optional[rateJSON] `json:"rate,omitzero" doc:"How many attempts may start in a period, evenly spread but for a burst. Null, the default: unlimited."`
	Auth optional[authJSON] `json:"auth,omitzero" doc:"Credentials of every request. Null, the default: none, only signatures. A change without the secret keeps the secret of the same type for the same host."`
	TLS  optional[tlsJSON]  `json:"tls,omitzero" doc:"Client certificate and certificate authorities of the endpoint's own. Null, the default: none. A change of the certificate without the key keeps the key."`
}

// describeAnswer makes the schema of a change that of an answer: every field of
// the policy is there, and only three of them can be null.
func (PolicyJSON) describeAnswer(s *huma.Schema) {
	for field := range reflect.TypeFor[PolicyJSON]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		s.Required = append(s.Required, name)
		if name == "rate" || name == "auth" || name == "tls" {
			continue
		}
		property := s.Properties[name]
		property.Nullable = false
		if len(property.AnyOf) > 0 {
			s.Properties[name] = &huma.Schema{Ref: property.AnyOf[0].Ref, Description: property.Description}
		}
	}
}

// apply sets the policy's fields that are there, and returns the faults that
// [postrider.Policy.Check] does not know of. Credentials c hold the secrets that
// the policy may keep, and afterwards the secrets that it needs.
func (j PolicyJSON) apply(p *postrider.Policy, c *postrider.Credentials) error {
	standard := postrider.DefaultPolicy()
	setMillis(&p.Timeout, j.Timeout, standard.Timeout)
	setText(&p.ClientErrors, j.ClientErrors, standard.ClientErrors)
	set(&p.Concurrency, j.Concurrency, standard.Concurrency)
	setMillis(&p.Expiry, j.Expiry, standard.Expiry)
	setText(&p.Payload, j.Payload, standard.Payload)
	set(&p.AdaptiveTimeout, j.AdaptiveTimeout, standard.AdaptiveTimeout)
	setText(&p.Order, j.Order, standard.Order)
	setText(&p.OnDead, j.OnDead, standard.OnDead)
	set(&p.MaxRedirects, j.MaxRedirects, standard.MaxRedirects)
	setText(&p.Compression, j.Compression, standard.Compression)
	return errors.Join(j.applyParts(p, standard), j.applyHeaders(p, c), j.applyAuth(p, c), j.applyTLS(p, c))
}

// applyParts sets the fields that are objects of their own.
func (j PolicyJSON) applyParts(p *postrider.Policy, standard postrider.Policy) error {
	var signatures []postrider.Signature
	var circuit postrider.CircuitPolicy
	var rate postrider.Rate
	var signatureErr, circuitErr, rateErr error
	if j.Signature.given && !j.Signature.null {
		signatures, signatureErr = j.Signature.value.signatures()
	}
	if j.Circuit.given && !j.Circuit.null {
		circuit, circuitErr = j.Circuit.value.policy()
	}
	if j.Rate.given && !j.Rate.null {
		rate, rateErr = j.Rate.value.rate()
	}
	set(&p.Retry, as(j.Retry, j.Retry.value.policy()), standard.Retry)
	if signatureErr == nil {
		set(&p.Signatures, as(j.Signature, signatures), standard.Signatures)
	}
	set(&p.Circuit, as(j.Circuit, circuit), standard.Circuit)
	set(&p.Rate, as(j.Rate, rate), standard.Rate)
	return errors.Join(signatureErr, circuitErr, rateErr)
}

// as returns what the request says of a field, with the value as the domain has
// it.
func as[J, T any](o optional[J], v T) optional[T] {
	return optional[T]{given: o.given, null: o.null, value: v}
}

func viewPolicy(p postrider.Policy) PolicyJSON {
	return PolicyJSON{
		Retry: given(viewRetry(p.Retry)), Timeout: given(p.Timeout.Milliseconds()), ClientErrors: given(string(p.ClientErrors)),
		Concurrency: given(p.Concurrency), Expiry: given(p.Expiry.Milliseconds()), Signature: given(viewSignatures(p.Signatures)),
		Payload: given(string(p.Payload)), AdaptiveTimeout: given(p.AdaptiveTimeout), Circuit: given(viewCircuitPolicy(p.Circuit)),
		Rate: viewRate(p.Rate), Order: given(string(p.Order)), OnDead: given(string(p.OnDead)),
		Headers: given(viewHeaders(p.Headers)), Auth: viewAuth(p.Auth), TLS: viewTLS(p.TLS),
		MaxRedirects: given(p.MaxRedirects), Compression: given(string(p.Compression)),
	}
}

// textOf returns the JSON of a part of an answer.
func textOf(part any) json.RawMessage {
	text, err := json.Marshal(part)
	if err != nil {
		panic("encode a part of an endpoint: " + err.Error()) // it is made of strings and numbers
	}
	return text
}

// decodePart fills v from a part of a body, and puts its faults where the part
// stands.
func decodePart(at string, text json.RawMessage, v any) error {
	err := jsonx.Decode(text, v)
	for _, f := range postrider.Faults(err) {
		if f.Field == "body" {
			f.Field = at
		} else {
			f.Field = at + "." + f.Field
		}
	}
	return err
}

// override sets a field to the number that the request has for it, if any.
func override[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}

func overrideMillis(field *time.Duration, to *int64) {
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
