package api

import (
	"errors"
	"iter"
	"reflect"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// applyPolicy sets the fields of p that the request has. An omitted field keeps
// its value, and null sets the default. On input c has the stored secrets; on
// return it has the secrets that the new policy needs. The error has only the
// faults that [postrider.Policy.Check] cannot find.
func applyPolicy(p *postrider.Policy, c *postrider.Credentials, to apitypes.Policy) error {
	standard := postrider.DefaultPolicy()
	setMillis(&p.Timeout, to.TimeoutMS, standard.Timeout)
	set(&p.ClientErrors, to.ClientErrors, standard.ClientErrors)
	set(&p.Concurrency, to.Concurrency, standard.Concurrency)
	setMillis(&p.Expiry, to.ExpiryMS, standard.Expiry)
	set(&p.Payload, to.Payload, standard.Payload)
	set(&p.AdaptiveTimeout, to.AdaptiveTimeout, standard.AdaptiveTimeout)
	set(&p.Order, to.Order, standard.Order)
	set(&p.OnDead, to.OnDead, standard.OnDead)
	set(&p.MaxRedirects, to.MaxRedirects, standard.MaxRedirects)
	set(&p.Compression, to.Compression, standard.Compression)
	set(&p.SendTraceParent, to.SendTraceParent, standard.SendTraceParent)
	return errors.Join(
		setBy(&p.Retry, to.Retry, standard.Retry, retryPolicy),
		setBy(&p.Signatures, to.Signature, standard.Signatures, signatures),
		setBy(&p.Circuit, to.Circuit, standard.Circuit, circuitPolicy),
		setBy(&p.Rate, to.Rate, standard.Rate, rateLimit),
		applyHeaders(p, c, to.Headers), applyAuth(p, c, to.Auth), applyTLS(p, c, to.TLS))
}

// set sets a field to the value of the request, or to the default if the
// request has null. An omitted field is unchanged.
func set[T any](field *T, to apitypes.Optional[T], standard T) {
	if value, ok := to.Get(); ok {
		*field = value
	} else if to.IsNull() {
		*field = standard
	}
}

// setMillis is set for a duration that the request has in milliseconds.
func setMillis(field *time.Duration, to apitypes.Optional[int64], standard time.Duration) {
	if ms, ok := to.Get(); ok {
		*field = millis(ms)
	} else if to.IsNull() {
		*field = standard
	}
}

// setBy is set for a field that has another type in the domain. If the
// conversion fails, the field is unchanged and the error is a fault of the
// request. The other fields are still applied, so that the response can name the
// faults of all of them.
func setBy[T, J any](field *T, to apitypes.Optional[J], standard T, convert func(J) (T, error)) error {
	shape, ok := to.Get()
	if !ok {
		if to.IsNull() {
			*field = standard
		}
		return nil
	}
	value, err := convert(shape)
	if err == nil {
		*field = value
	}
	return err
}

// viewPolicy returns a policy in the form of a response, with all fields.
func viewPolicy(p postrider.Policy) apitypes.Policy {
	return apitypes.Policy{
		Retry:           apitypes.Of(viewRetry(p.Retry)),
		TimeoutMS:       apitypes.Of(p.Timeout.Milliseconds()),
		ClientErrors:    apitypes.Of(p.ClientErrors),
		Concurrency:     apitypes.Of(p.Concurrency),
		ExpiryMS:        apitypes.Of(p.Expiry.Milliseconds()),
		Signature:       apitypes.Of(viewSignatures(p.Signatures)),
		Payload:         apitypes.Of(p.Payload),
		AdaptiveTimeout: apitypes.Of(p.AdaptiveTimeout),
		Circuit:         apitypes.Of(viewCircuitPolicy(p.Circuit)),
		Order:           apitypes.Of(p.Order),
		OnDead:          apitypes.Of(p.OnDead),
		Headers:         apitypes.Of(viewHeaders(p.Headers)),
		MaxRedirects:    apitypes.Of(p.MaxRedirects),
		Compression:     apitypes.Of(p.Compression),
		SendTraceParent: apitypes.Of(p.SendTraceParent),
		Rate:            viewRate(p.Rate),
		Auth:            viewAuth(p.Auth),
		TLS:             viewTLS(p.TLS),
	}
}

// StandardPolicy returns the policy of an endpoint that was created without any, in the
// form of a response.
func StandardPolicy() apitypes.Policy { return viewPolicy(postrider.DefaultPolicy()) }

// retryPolicy converts the retry field of a request. It does not validate it;
// [postrider.Policy.Check] does.
func retryPolicy(r apitypes.Retry) (postrider.RetryPolicy, error) {
	p := postrider.RetryPolicy{
		Preset: r.Preset, Base: millis(r.BaseMS), Factor: r.Factor, Cap: millis(r.CapMS), MaxAttempts: r.MaxAttempts, Jitter: r.Jitter,
	}
	if r.DelaysMS != nil { // keeps an empty list, which Check refuses, apart from no list
		p.Delays = make([]time.Duration, 0, len(r.DelaysMS))
	}
	for _, ms := range r.DelaysMS {
		p.Delays = append(p.Delays, millis(ms))
	}
	return p, nil
}

// viewRetry is the inverse of retryPolicy.
func viewRetry(p postrider.RetryPolicy) apitypes.Retry {
	r := apitypes.Retry{
		Preset: p.Preset, BaseMS: p.Base.Milliseconds(), Factor: p.Factor, CapMS: p.Cap.Milliseconds(), MaxAttempts: p.MaxAttempts, Jitter: p.Jitter,
	}
	for _, d := range p.Delays {
		r.DelaysMS = append(r.DelaysMS, d.Milliseconds())
	}
	return r
}

// signatures converts the signature schemes of a request.
// [postrider.Policy.Check] validates them.
func signatures(s apitypes.Signature) (list []postrider.Signature, _ error) {
	for _, scheme := range s.Schemes {
		list = append(list, postrider.Signature(scheme))
	}
	return list, nil
}

// viewSignatures is the inverse of signatures. Without schemes the list is
// empty, not null.
func viewSignatures(list []postrider.Signature) apitypes.Signature {
	s := apitypes.Signature{Schemes: []apitypes.Scheme{}}
	for _, scheme := range list {
		s.Schemes = append(s.Schemes, apitypes.Scheme(scheme))
	}
	return s
}

// circuitPolicy returns the policy of a preset, or the numbers of the request
// on top of the default cooldowns and no trigger. Numbers beside a preset must
// equal those of the preset. So a client can send back the policy of a
// response.
func circuitPolicy(c apitypes.CircuitPolicy) (postrider.CircuitPolicy, error) {
	standard := postrider.CircuitPresets["default"]
	base := postrider.CircuitPolicy{Cooldown: standard.Cooldown, MaxCooldown: standard.MaxCooldown}
	if c.Preset != "" {
		preset, ok := postrider.CircuitPresets[c.Preset]
		if !ok {
			return standard, invalid("circuit.preset", postrider.FaultNotAChoice, "must be default, strict, windowed or never")
		}
		base = preset
	}
	p := base
	override(&p.Failures, c.Failures)
	override(&p.Percent, c.Percent)
	override(&p.Attempts, c.Attempts)
	overrideMillis(&p.Window, c.WindowMS)
	overrideMillis(&p.Cooldown, c.CooldownMS)
	overrideMillis(&p.MaxCooldown, c.MaxCooldownMS)
	if c.Preset != "" && p != base {
		return standard, invalid("circuit.preset", postrider.FaultContradictory, "has other numbers; leave out the one or the others")
	}
	return p, nil
}

// override sets a field to the number of the request; nil leaves it unchanged.
func override[T any](field, to *T) {
	if to != nil {
		*field = *to
	}
}

// overrideMillis is override for a duration in milliseconds.
func overrideMillis(field *time.Duration, to *int64) {
	if to != nil {
		*field = millis(*to)
	}
}

// viewCircuitPolicy returns the numbers of the policy, and the preset that has
// the same numbers, if there is one.
func viewCircuitPolicy(p postrider.CircuitPolicy) apitypes.CircuitPolicy {
	c := apitypes.CircuitPolicy{
		Failures: &p.Failures, Percent: &p.Percent, Attempts: &p.Attempts, WindowMS: new(p.Window.Milliseconds()),
		CooldownMS: new(p.Cooldown.Milliseconds()), MaxCooldownMS: new(p.MaxCooldown.Milliseconds()),
	}
	for name, preset := range postrider.CircuitPresets {
		if p == preset {
			c.Preset = name
		}
	}
	return c
}

// rateLimit converts the rate field of a request. An empty object is refused,
// because its zeros would silently remove the limit; null removes it.
func rateLimit(r apitypes.Rate) (postrider.Rate, error) {
	if r == (apitypes.Rate{}) {
		return postrider.Rate{}, invalid("rate", postrider.FaultContradictory, "must be null where there is no limit")
	}
	return postrider.Rate{Attempts: r.Attempts, Per: millis(r.PerMS), Burst: r.Burst}, nil
}

// viewRate is the inverse of rateLimit. Null: there is no limit.
func viewRate(r postrider.Rate) apitypes.Optional[apitypes.Rate] {
	return apitypes.NullUnless(r != postrider.Rate{}, apitypes.Rate{Attempts: r.Attempts, PerMS: r.Per.Milliseconds(), Burst: r.Burst})
}

// policyFields returns how many fields of the policy the request names, as a
// value or null, and an error that names the missing ones. An unreadable policy
// is replaced as a whole: none of its fields can keep its value.
func policyFields(to apitypes.Policy) (named int, missing error) {
	var faults []error
	for name, given := range policyOptions(to) {
		if given {
			named++
		} else {
			faults = append(faults, invalid(name, postrider.FaultRequired, "is required, because the stored policy cannot be read; null is the default"))
		}
	}
	return named, errors.Join(faults...)
}

// policyOptions returns the names of all options of a policy, and whether the request
// names each one, as a value or null.
func policyOptions(to apitypes.Policy) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		value := reflect.ValueOf(to)
		for i := range value.NumField() {
			name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
			if !yield(name, !value.Field(i).IsZero()) {
				return
			}
		}
	}
}

// checkMaySet returns a 403 that names the options of the request that the caller may
// not set. Null is refused too, because it sets the default.
func checkMaySet(caller *postrider.Caller, to apitypes.Policy) error {
	var faults []error
	for name, given := range policyOptions(to) {
		if given && !caller.MaySet(name) {
			faults = append(faults, invalid(name, postrider.FaultNotAllowed, "is set by the operator alone"))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	refused := &apiError{class: errForbidden, detail: "the session may not set these options; see errors"}
	return errors.Join(append(faults, refused)...)
}
