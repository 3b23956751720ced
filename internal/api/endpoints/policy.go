package endpoints

import (
	"encoding/json"
	"errors"
	"iter"
	"reflect"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/filter"
	"github.com/postrider/postrider/internal/filter/condition"
	"github.com/postrider/postrider/internal/shape"
)

// applyPolicy sets the fields of p that the request has. An omitted field keeps its value, and null
// sets the default. On input, c has the stored secrets. On return, c has the secrets that the new
// policy needs. The error has only faults that [postrider.Policy.Check] cannot find.
func applyPolicy(caller *postrider.Caller, p *postrider.Policy, c *postrider.Credentials, to apitypes.Policy) error {
	standard := postrider.DefaultPolicy()
	fields, defaults := reflect.ValueOf(p).Elem(), reflect.ValueOf(standard)
	for option := range shape.Options(&to, fields.Type()) {
		switch {
		case option.Like == "" || option.IsZero():
		case option.IsNull():
			fields.FieldByName(option.Like).Set(defaults.FieldByName(option.Like))
		default:
			// The error is ignored: a request has whole milliseconds.
			_ = shape.Set(fields.FieldByName(option.Like), option.Value())
		}
	}
	return errors.Join(
		setBy(&p.Filter, to.Filter, standard.Filter, func(f json.RawMessage) (string, error) { return filterOf(caller, f) }),
		checkCondition(caller, to.Condition),
		setBy(&p.Retry, to.Retry, standard.Retry, retryPolicy),
		setBy(&p.Signatures, to.Signature, standard.Signatures, signatures),
		setBy(&p.Circuit, to.Circuit, standard.Circuit, circuitPolicy),
		setBy(&p.Rate, to.Rate, standard.Rate, rateLimit),
		applyHeaders(p, c, to.Headers), applyAuth(p, c, to.Auth), applyTLS(p, c, to.TLS))
}

// setBy is [rest.Set] for a field that has another type in the domain. If the conversion fails, the
// field is unchanged and the error is a fault of the request. The caller still applies the other
// fields, so that the response can name all faults.
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
	view := apitypes.Policy{
		Filter: apitypes.NullUnless(p.Filter != "", json.RawMessage(p.Filter)),
		Retry:  apitypes.Of(viewRetry(p.Retry)), Signature: apitypes.Of(viewSignatures(p.Signatures)),
		Circuit: apitypes.Of(viewCircuitPolicy(p.Circuit)), Headers: apitypes.Of(viewHeaders(p.Headers)), Rate: viewRate(p.Rate),
		Auth: viewAuth(p.Auth), TLS: viewTLS(p.TLS),
	}
	fields := reflect.ValueOf(p)
	for option := range shape.Options(&view, fields.Type()) {
		if option.Like != "" {
			// The error is ignored: stored durations are whole milliseconds.
			_ = shape.Set(option.Value(), fields.FieldByName(option.Like))
			if list := fields.FieldByName(option.Like); list.Kind() == reflect.Slice && list.IsNil() {
				option.SetNull()
			}
		}
	}
	if p.Condition == "" {
		view.Condition.SetNull()
	}
	return view
}

// StandardPolicy returns the default policy of a new endpoint, in the form of a response.
func StandardPolicy() apitypes.Policy { return viewPolicy(postrider.DefaultPolicy()) }

// filterOf returns the text of a filter, or all its faults.
func filterOf(caller *postrider.Caller, f json.RawMessage) (string, error) {
	_, err := filter.Parse(f, rest.HiddenFrom(caller)...)
	return string(f), err
}

// checkCondition returns all faults of a condition, if the request has one.
func checkCondition(caller *postrider.Caller, to apitypes.Optional[string]) (err error) {
	if text, ok := to.Get(); ok {
		_, err = condition.Compile(text, rest.HiddenFrom(caller)...)
	}
	return err
}

// retryPolicy converts the retry field of a request. [postrider.Policy.Check] validates the result.
func retryPolicy(r apitypes.Retry) (postrider.RetryPolicy, error) {
	var p postrider.RetryPolicy
	return p, shape.Copy(&p, r)
}

// viewRetry is the inverse of retryPolicy.
func viewRetry(p postrider.RetryPolicy) apitypes.Retry {
	var r apitypes.Retry
	_ = shape.Copy(&r, p) // stored durations are whole milliseconds
	return r
}

// signatures converts the signature schemes of a request. [postrider.Policy.Check] validates the
// result.
func signatures(s apitypes.Signature) (list []postrider.Signature, _ error) {
	for _, scheme := range s.Schemes {
		list = append(list, postrider.Signature(scheme))
	}
	return list, nil
}

// viewSignatures is the inverse of signatures. Without schemes the list is empty, not null.
func viewSignatures(list []postrider.Signature) apitypes.Signature {
	s := apitypes.Signature{Schemes: []apitypes.Scheme{}}
	for _, scheme := range list {
		s.Schemes = append(s.Schemes, apitypes.Scheme(scheme))
	}
	return s
}

// circuitPolicy converts the circuit field of a request. With a preset, it returns the policy of
// the preset. Numbers beside a preset must equal the numbers of the preset, so that a client can
// send back the policy of a response. Without a preset, it starts from the default cooldowns and no
// trigger, and applies the numbers of the request.
func circuitPolicy(c apitypes.CircuitPolicy) (postrider.CircuitPolicy, error) {
	standard := postrider.CircuitPresets["default"]
	base := postrider.CircuitPolicy{Cooldown: standard.Cooldown, MaxCooldown: standard.MaxCooldown}
	if c.Preset != "" {
		preset, ok := postrider.CircuitPresets[c.Preset]
		if !ok {
			return standard, rest.Invalid("circuit.preset", postrider.FaultNotAChoice, "must be default, strict, windowed or never")
		}
		base = preset
	}
	p := base
	_ = shape.Copy(&p, c) // values are whole milliseconds
	if c.Preset != "" && p != base {
		return standard, rest.Invalid("circuit.preset", postrider.FaultContradictory, "has other numbers; leave out the one or the others")
	}
	return p, nil
}

// viewCircuitPolicy returns the numbers of the policy. It adds the preset that has the same
// numbers, if there is one.
func viewCircuitPolicy(p postrider.CircuitPolicy) apitypes.CircuitPolicy {
	var c apitypes.CircuitPolicy
	_ = shape.Copy(&c, p) // stored durations are whole milliseconds
	for name, preset := range postrider.CircuitPresets {
		if p == preset {
			c.Preset = name
		}
	}
	return c
}

// rateLimit converts the rate field of a request. It refuses an empty object, because the zeros
// would silently remove the limit. A client removes the limit with null.
func rateLimit(r apitypes.Rate) (postrider.Rate, error) {
	if r == (apitypes.Rate{}) {
		return postrider.Rate{}, rest.Invalid("rate", postrider.FaultContradictory, "must be null where there is no limit")
	}
	return postrider.Rate{Attempts: r.Attempts, Per: rest.Millis(r.PerMS), Burst: r.Burst}, nil
}

// viewRate is the inverse of rateLimit; null: there is no limit.
func viewRate(r postrider.Rate) apitypes.Optional[apitypes.Rate] {
	return apitypes.NullUnless(r != postrider.Rate{}, apitypes.Rate{Attempts: r.Attempts, PerMS: r.Per.Milliseconds(), Burst: r.Burst})
}

// policyFields returns the number of policy fields that the request has, as a value or null, and an
// error that names the missing fields. If the stored policy is unreadable, the request must have
// all fields, because no field can keep its value.
func policyFields(to apitypes.Policy) (named int, missing error) {
	var faults []error
	for name, given := range policyOptions(to) {
		if given {
			named++
		} else {
			faults = append(faults, rest.Invalid(name, postrider.FaultRequired,
				"is required, because the stored policy cannot be read; null is the default"))
		}
	}
	return named, errors.Join(faults...)
}

// policyOptions returns the names of all options of a policy. The boolean says whether the request
// has the option, as a value or null.
func policyOptions(to apitypes.Policy) iter.Seq2[string, bool] {
	return func(yield func(string, bool) bool) {
		for option := range shape.Options(&to, reflect.TypeFor[postrider.Policy]()) {
			if !yield(option.Name, !option.IsZero()) {
				return
			}
		}
	}
}

// checkMaySet returns a 403 that names the options that the request has and the caller may not set.
// Null is refused too, because it sets the default.
func checkMaySet(caller *postrider.Caller, to apitypes.Policy) error {
	var faults []error
	for name, given := range policyOptions(to) {
		if given && !caller.MaySet(name) {
			faults = append(faults, rest.Invalid(name, postrider.FaultNotAllowed, "is set by the operator alone"))
		}
	}
	if len(faults) == 0 {
		return nil
	}
	refused := &rest.Error{Class: rest.ErrForbidden, Detail: "the session may not set these options; see errors"}
	return errors.Join(append(faults, refused)...)
}
