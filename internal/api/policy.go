package api

import (
	"encoding/json"
	"errors"
	"fmt"
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
	// Each is the name of a scheme, or a schemeJSON.
	Schemes []json.RawMessage `json:"schemes" nullable:"false"`
}

// schemeJSON is a scheme that writes into a header of the endpoint's choice.
type schemeJSON struct {
	Scheme string `json:"scheme"`
	Header string `json:"header,omitempty" example:"X-Acme-Signature" doc:"Instead of the scheme's own; only with github, github-sha1, shopify and plain."`
	Prefix string `json:"prefix,omitempty" example:"sha256=" doc:"In front of the signature, instead of the scheme's own; only with a header."`
}

// TransformSchema describes the schemes, which Go's types do not.
func (signatureJSON) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	name := &huma.Schema{Type: huma.TypeString}
	for _, scheme := range postrider.Schemes {
		name.Enum = append(name.Enum, string(scheme))
	}
	bent := huma.SchemaFromType(r, reflect.TypeFor[schemeJSON]())
	bent.Properties["scheme"].Enum = name.Enum
	s.Properties["schemes"].Items = &huma.Schema{OneOf: []*huma.Schema{name, bent}}
	s.Properties["schemes"].Description = "All of them are on every request. An object gives a scheme another header."
	return s
}

// apply sets the policy's signatures, if the schemes can be read.
func (j signatureJSON) apply(p *postrider.Policy) error {
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
	err := errors.Join(faults...)
	if err == nil {
		p.Signatures = list
	}
	return err
}

func viewSignatures(list []postrider.Signature) *signatureJSON {
	j := signatureJSON{Schemes: []json.RawMessage{}}
	for _, s := range list {
		if s.Header == "" {
			j.Schemes = append(j.Schemes, textOf(s.Scheme))
		} else {
			j.Schemes = append(j.Schemes, textOf(schemeJSON{Scheme: string(s.Scheme), Header: s.Header, Prefix: s.Prefix}))
		}
	}
	return &j
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
	if err := decodePart("rate", text, &j); err != nil {
		return postrider.Rate{}, err
	}
	r := postrider.Rate{Attempts: j.Attempts, Per: millis(j.Per)}
	if r == (postrider.Rate{}) {
		return r, invalid("rate", "must be null where there is no limit")
	}
	return r, nil
}

func viewRate(r postrider.Rate) json.RawMessage {
	if r == (postrider.Rate{}) {
		return null
	}
	return textOf(rateJSON{Attempts: r.Attempts, Per: r.Per.Milliseconds()})
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

	Headers      *[]headerJSON `json:"headers,omitempty" nullable:"false" maxItems:"32" doc:"Sent with every request besides our own. A change replaces all of them."`
	MaxRedirects *int          `json:"max_redirects,omitempty" minimum:"0" maximum:"3" doc:"How many redirects an attempt follows: 307 and 308, which repeat the request; 301, 302 and 303 are failures. Default 0: every redirect is a failure."`
	HTTP2        *bool         `json:"http2,omitempty" doc:"Speak HTTP/2 with a receiver that offers it; default false."`
	Compression  *string       `json:"compression,omitempty" enum:"none,gzip" doc:"Of the body; signatures are over what it was before. Default none."`

	// These are raw because their null is not the same as leaving them out.
	Rate json.RawMessage `json:"rate,omitempty" doc:"How many attempts may start in a span of time; null is unlimited, the default."`
	Auth json.RawMessage `json:"auth,omitempty" doc:"How requests authenticate; null: by their signatures alone, the default. A change without the secret keeps the one of the same type, for the same host."`
	TLS  json.RawMessage `json:"tls,omitempty" doc:"What connections have of their own; null: nothing, the default. A change without the key keeps it."`
}

// TransformSchema describes what is raw, which Go's types do not.
func (PolicyJSON) TransformSchema(r huma.Registry, s *huma.Schema) *huma.Schema {
	for name, is := range map[string]reflect.Type{
		"rate": reflect.TypeFor[rateJSON](), "auth": reflect.TypeFor[authJSON](), "tls": reflect.TypeFor[tlsJSON](),
	} {
		part := huma.SchemaFromType(r, is)
		part.Nullable = true
		part.Description = s.Properties[name].Description
		s.Properties[name] = part
	}
	return s
}

// apply sets the policy's fields that are there, and returns the faults that
// [postrider.Policy.Check] cannot know of. c has what may be kept of the
// policy's secrets, and then what the policy needs of them.
func (j PolicyJSON) apply(p *postrider.Policy, c *postrider.Credentials) error {
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
	set(&p.MaxRedirects, j.MaxRedirects)
	set(&p.HTTP2, j.HTTP2)
	setText(&p.Compression, j.Compression)
	var signatureErr, circuitErr, rateErr error
	if j.Signature != nil {
		signatureErr = j.Signature.apply(p)
	}
	if j.Circuit != nil {
		p.Circuit, circuitErr = j.Circuit.policy()
	}
	if j.Rate != nil {
		p.Rate, rateErr = readRate(j.Rate)
	}
	return errors.Join(signatureErr, circuitErr, rateErr, j.applyHeaders(p, c), j.applyAuth(p, c), j.applyTLS(p, c))
}

func viewPolicy(p postrider.Policy) PolicyJSON {
	retry, timeout, expiry := viewRetry(p.Retry), p.Timeout.Milliseconds(), p.Expiry.Milliseconds()
	clientErrors, payload := string(p.ClientErrors), string(p.Payload)
	circuit := viewCircuitPolicy(p.Circuit)
	order, onDead := string(p.Order), string(p.OnDead)
	compression := string(p.Compression)
	return PolicyJSON{
		Retry: &retry, Timeout: &timeout, ClientErrors: &clientErrors, Concurrency: &p.Concurrency,
		Expiry: &expiry, Signature: viewSignatures(p.Signatures), Payload: &payload, AdaptiveTimeout: &p.AdaptiveTimeout,
		Circuit: &circuit, Rate: viewRate(p.Rate), Order: &order, OnDead: &onDead,
		Headers: viewHeaders(p.Headers), Auth: viewAuth(p.Auth), TLS: viewTLS(p.TLS),
		MaxRedirects: &p.MaxRedirects, HTTP2: &p.HTTP2, Compression: &compression,
	}
}

// null is JSON's.
var null = json.RawMessage("null")

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
