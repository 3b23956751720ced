package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// printDetails writes one item with a row for each field, or as JSON.
func printDetails(t terminal, asJSON bool, item any) error {
	if asJSON {
		return printJSON(t.out, item)
	}
	return printTable(t.out, []string{"FIELD", "VALUE"}, detailsOf(item))
}

// detailsOf returns a row for each field of a shape of the API: its name and
// its value, in the form that flags take. A field that is added to the shape is
// printed without a change here, unless its type is new.
func detailsOf(shape any) (rows [][]string) {
	for _, field := range reflect.VisibleFields(reflect.TypeOf(shape)) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		value := reflect.ValueOf(shape).FieldByIndex(field.Index)
		if name == "" || name == "-" || strings.Contains(options, "omitempty") && value.IsZero() {
			continue
		}
		label, isTime := strings.CutSuffix(name, "_ms")
		label = strings.ReplaceAll(strings.TrimSuffix(label, "_at"), "_", " ")
		text := textOf(value.Interface())
		if isTime {
			text = spanText(value.Interface())
		}
		rows = append(rows, []string{label, text})
	}
	return rows
}

// textOf returns the value of a field. A field that is null has the text of
// its zero value, which is empty but for rate and auth.
func textOf(value any) string {
	switch v := value.(type) {
	case apitypes.Time:
		return moment(&v)
	case *apitypes.Time:
		return moment(v)
	case []string:
		return strings.Join(v, ",")
	case json.RawMessage:
		return string(v)
	case *apitypes.Waiting:
		return string(optional(v).Reason)
	case apitypes.Optional[apitypes.Retry]:
		return presetText(v.Value().Preset, v.Value())
	case apitypes.Optional[apitypes.CircuitPolicy]:
		return presetText(v.Value().Preset, withoutZeros(v.Value()))
	case apitypes.Optional[apitypes.Rate]:
		return rateText(v.Value())
	case apitypes.Optional[apitypes.Signature]:
		return signatureText(v.Value())
	case apitypes.Optional[[]apitypes.Header]:
		return headersText(v.Value())
	case apitypes.Optional[apitypes.Auth]:
		return authText(v.Value())
	case apitypes.Optional[apitypes.TLS]:
		return tlsText(v.Value())
	}
	if p := reflect.ValueOf(value); p.Kind() == reflect.Pointer {
		if p.IsNil() {
			return ""
		}
		return fmt.Sprint(p.Elem().Interface())
	}
	return fmt.Sprint(value)
}

// spanText returns a field of milliseconds as flags take durations.
func spanText(value any) string {
	switch v := value.(type) {
	case int64:
		return span(v)
	case apitypes.Optional[int64]:
		return span(v.Value())
	case *int64:
		if v != nil {
			return span(*v)
		}
	}
	return ""
}

// span returns milliseconds as flags take them.
func span(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// presetText returns a policy as --retry and --circuit take it.
func presetText(preset string, policy any) string {
	if preset != "" {
		return preset
	}
	return compact(policy)
}

func compact(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// withoutZeros leaves out the numbers that switch nothing on.
func withoutZeros(c apitypes.CircuitPolicy) apitypes.CircuitPolicy {
	for _, n := range []**int{&c.Failures, &c.Percent, &c.Attempts} {
		if optional(*n) == 0 {
			*n = nil
		}
	}
	if optional(c.WindowMS) == 0 {
		c.WindowMS = nil
	}
	return c
}

// rateText returns a rate as --rate takes it.
func rateText(r apitypes.Rate) string {
	if r == (apitypes.Rate{}) {
		return unlimited
	}
	text := fmt.Sprintf("%d/%s", r.Attempts, span(r.PerMS))
	if r.Burst > 0 {
		text += fmt.Sprintf("+%d", r.Burst)
	}
	return text
}

// signatureText returns schemes as --signature takes them.
func signatureText(s apitypes.Signature) string {
	var texts []string
	for _, scheme := range s.Schemes {
		text := string(scheme.Scheme)
		if scheme.Header != "" {
			text += ":" + scheme.Header
		}
		if scheme.Prefix != "" {
			text += ":" + scheme.Prefix
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

// headersText returns headers as --header takes them, without secret values.
func headersText(headers []apitypes.Header) string {
	var texts []string
	for _, h := range headers {
		value := h.Value.Value()
		if h.Sensitive {
			value = "(secret)"
		}
		texts = append(texts, h.Name+"="+value)
	}
	return strings.Join(texts, ", ")
}

// authText returns the type of the authentication, and its parts that are not
// secret.
func authText(a apitypes.Auth) string {
	if a.Type == "" {
		return string(postrider.AuthNone)
	}
	parts := []string{string(a.Type)}
	for _, part := range []string{a.Username, a.Header, a.TokenURL, a.ClientID, strings.Join(a.Scopes, ","), a.Audience} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, " ")
}

// tlsText names the parts that connections have of their own.
func tlsText(t apitypes.TLS) string {
	var parts []string
	if t.Certificate != "" {
		parts = append(parts, "certificate")
	}
	if t.Authorities != "" {
		parts = append(parts, "authorities")
	}
	return strings.Join(parts, ", ")
}
