package api

import (
	"time"

	"github.com/postrider/postrider"
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
}

// apply sets the policy's fields that are there.
func (j PolicyJSON) apply(p *postrider.Policy) {
	if j.Retry != nil {
		p.Retry = j.Retry.policy()
	}
	if j.Timeout != nil {
		p.Timeout = millis(*j.Timeout)
	}
	if j.ClientErrors != nil {
		p.ClientErrors = postrider.ClientErrors(*j.ClientErrors)
	}
	if j.Concurrency != nil {
		p.Concurrency = *j.Concurrency
	}
	if j.Expiry != nil {
		p.Expiry = millis(*j.Expiry)
	}
	if j.Signature != nil {
		p.Signatures = nil
		for _, scheme := range j.Signature.Schemes {
			p.Signatures = append(p.Signatures, postrider.Scheme(scheme))
		}
	}
	if j.Payload != nil {
		p.Payload = postrider.Payload(*j.Payload)
	}
}

func viewPolicy(p postrider.Policy) PolicyJSON {
	retry, timeout, expiry := viewRetry(p.Retry), p.Timeout.Milliseconds(), p.Expiry.Milliseconds()
	clientErrors, payload := string(p.ClientErrors), string(p.Payload)
	signature := signatureJSON{Schemes: []string{}}
	for _, scheme := range p.Signatures {
		signature.Schemes = append(signature.Schemes, string(scheme))
	}
	return PolicyJSON{
		Retry: &retry, Timeout: &timeout, ClientErrors: &clientErrors, Concurrency: &p.Concurrency,
		Expiry: &expiry, Signature: &signature, Payload: &payload,
	}
}

// value returns what p points to, or the zero value.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
