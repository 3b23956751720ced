package options

import (
	"reflect"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/web/page"
)

// This file describes the options of an endpoint in words: for the review of changes, and for the
// differences between an endpoint and the default. It never shows a secret.

// wordsOf describes the values of an option's inputs in words. Empty: the values cannot be read.
func wordsOf(v *page.Visit, o option, values []string) string {
	var u apitypes.EndpointUpdate
	if o.set(&u, values) != nil {
		return ""
	}
	uid := u.UID.Value()
	e := apitypes.Endpoint{
		URL: u.URL, EventTypes: u.EventTypes, Description: u.Description.Value(), UID: &uid,
		Metadata: u.Metadata.Value(), Policy: u.Policy,
	}
	options, standard := reflect.ValueOf(&e.Policy).Elem(), reflect.ValueOf(v.Site.Standard)
	for i := range options.NumField() {
		if field, ok := reflect.TypeAssert[interface{ IsNull() bool }](options.Field(i)); ok && field.IsNull() {
			options.Field(i).Set(standard.Field(i)) // null is the default
		}
	}
	return words(v, o, e)
}

// words describes the value of an endpoint's option.
func words(v *page.Visit, o option, e apitypes.Endpoint) string {
	switch o.name {
	case "retry":
		return retryWords(v, e.Retry.Value())
	case "circuit":
		return circuitWords(v, e.Policy.Circuit.Value())
	case "rate":
		if r, limited := e.Rate.Get(); limited {
			return v.Text.RateWords(r)
		}
		return v.T("words.unlimited")
	case "signature":
		return signatureWords(v, e.Signature.Value())
	case "headers":
		return headerWords(v, e.Headers.Value())
	case "auth":
		return authWords(v, e.Auth.Value())
	case "tls":
		return tlsWords(v, e.TLS.Value())
	case "timeout_ms":
		return v.Text.Duration(time.Duration(e.TimeoutMS.Value()) * time.Millisecond)
	case "expiry_ms":
		return v.Text.Duration(time.Duration(e.ExpiryMS.Value()) * time.Millisecond)
	case "event_types":
		return listWords(v, e.EventTypes)
	}
	text := o.show(e)[0]
	switch {
	case o.inputs[0].Kind == "select":
		return v.T("choice." + o.name + "." + text)
	case text == "":
		return v.T("words.none")
	case o.name == "changed", o.name == "channels":
		return strings.ReplaceAll(text, "\n", ", ")
	}
	return text
}

// listWords returns a list, or the word for none.
func listWords(v *page.Visit, items []string) string {
	if len(items) == 0 {
		return v.T("words.none")
	}
	return strings.Join(items, ", ")
}

// retryWords describes a retry schedule.
func retryWords(v *page.Visit, r apitypes.Retry) string {
	ms := func(n int64) time.Duration { return time.Duration(n) * time.Millisecond }
	jitter := ""
	if r.Jitter != "" && r.Jitter != "none" {
		jitter = "; " + v.T("retry.words.jitter", "jitter", r.Jitter)
	}
	switch key := "choice.retry." + r.Preset; {
	case r.Preset != "" && v.Text.Has(key):
		return v.T(key)
	case r.Preset != "":
		return r.Preset
	case r.DelaysMS != nil:
		delays := make([]string, 0, len(r.DelaysMS))
		for _, n := range r.DelaysMS {
			if n == 0 {
				delays = append(delays, v.T("retry.words.at_once"))
				continue
			}
			delays = append(delays, v.T("retry.words.after", "delay", ms(n)))
		}
		return v.T("retry.words.list", "n", len(delays), "delays", strings.Join(delays, ", ")) + jitter
	}
	return v.T("retry.words.formula", "n", r.MaxAttempts, "base", ms(r.BaseMS), "factor", r.Factor, "cap", ms(r.CapMS)) + jitter
}

// circuitWords says when a circuit opens and for how long. For a number that is left out, it uses
// the default.
func circuitWords(v *page.Visit, c apitypes.CircuitPolicy) string {
	if key := "choice.circuit." + c.Preset; c.Preset != "" && v.Text.Has(key) {
		return v.T(key)
	}
	span := func(ms *int64, standard time.Duration) time.Duration {
		if ms == nil {
			return standard
		}
		return time.Duration(*ms) * time.Millisecond
	}
	standard := postrider.CircuitPresets["default"]
	var when []string
	if c.Failures != nil && *c.Failures > 0 {
		when = append(when, v.T("circuit.words.failures", "n", *c.Failures))
	}
	if c.Percent != nil && *c.Percent > 0 {
		if window := span(c.WindowMS, 0); window > 0 {
			when = append(when, v.T("circuit.words.window", "percent", *c.Percent, "window", window))
		} else if c.Attempts != nil {
			when = append(when, v.T("circuit.words.attempts", "percent", *c.Percent, "n", *c.Attempts))
		}
	}
	if len(when) == 0 {
		return v.T("choice.circuit.never")
	}
	return v.T("circuit.words", "when", strings.Join(when, " "+v.T("words.or")+" "),
		"cooldown", span(c.CooldownMS, standard.Cooldown), "longest", span(c.MaxCooldownMS, standard.MaxCooldown))
}

// signatureWords lists the schemes. If a scheme does not use its own header, the header follows.
func signatureWords(v *page.Visit, s apitypes.Signature) string {
	var schemes []string
	for _, scheme := range s.Schemes {
		text := string(scheme.Scheme)
		if v.Text.Has("scheme." + text) {
			text = v.T("scheme." + text)
		}
		if scheme.Header != "" {
			text = v.T("words.in_header", "what", text, "header", scheme.Header)
		}
		if scheme.Prefix != "" {
			text += " (" + scheme.Prefix + ")"
		}
		schemes = append(schemes, text)
	}
	return listWords(v, schemes)
}

// headerWords lists the headers, without the values of sensitive ones.
func headerWords(v *page.Visit, headers []apitypes.Header) string {
	var texts []string
	for _, h := range headers {
		if h.Sensitive {
			texts = append(texts, v.T("words.sensitive", "name", h.Name))
			continue
		}
		texts = append(texts, h.Name+": "+h.Value.Value())
	}
	return listWords(v, texts)
}

// authWords says how requests authenticate, without the secret.
func authWords(v *page.Visit, a apitypes.Auth) string {
	if a.Type == "" || a.Type == postrider.AuthNone {
		return v.T("choice.auth.none")
	}
	texts := []string{string(a.Type)}
	if key := "choice.auth." + texts[0]; v.Text.Has(key) {
		texts[0] = v.T(key)
	}
	for _, part := range []struct{ name, value string }{
		{"username", a.Username},
		{"header", a.Header},
		{"token_url", a.TokenURL},
		{"client_id", a.ClientID},
		{"scopes", strings.Join(a.Scopes, " ")},
		{"audience", a.Audience},
	} {
		if part.value != "" {
			texts = append(texts, v.T("option.auth."+part.name)+" "+part.value)
		}
	}
	return strings.Join(texts, ", ")
}

// tlsWords says which parts are set. It does not show their PEM.
func tlsWords(v *page.Visit, t apitypes.TLS) string {
	var parts []string
	if t.Certificate != "" {
		parts = append(parts, v.T("option.tls.certificate"))
	}
	if t.Authorities != "" {
		parts = append(parts, v.T("option.tls.authorities"))
	}
	return listWords(v, parts)
}
