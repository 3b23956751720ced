package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// printDetails prints one item as JSON, or as a table with a row for each field. Commands that show
// one item use it, because the tables of lists leave fields out.
func printDetails[T any](t terminal, asJSON bool, item T) error {
	if asJSON {
		return printJSON(t.out, item)
	}
	return printTable(t.out, []string{"FIELD", "VALUE"}, detailsOf(item))
}

// detailsOf returns a row for each field of a type of the API: its name, and its value in the form
// of its flag, so that people can copy the value into a command. For example, timeout_ms: 30000 is
// printed as timeout: 30s.
//
// It reads the struct with its json tags. So a new field appears without a change here, unless its
// type is new. The units _ms and _at are cut from the names, because the values show them. A field
// that the server left out has no row: a policy that cannot be read must not look like one without
// options.
func detailsOf(shape any) (rows [][]string) {
	for _, field := range reflect.VisibleFields(reflect.TypeOf(shape)) {
		name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		value := reflect.ValueOf(shape).FieldByIndex(field.Index)
		if name == "" || name == "-" || strings.Contains(options, "omit") && value.IsZero() {
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

// textOf returns the text of a field's value. A null field has the text of its zero value. That
// text is empty, except for the rate ("unlimited") and the authentication ("none"). The cases are
// the types that package fmt prints in another way.
func textOf(value any) string {
	switch v := value.(type) {
	case apitypes.Time:
		return moment(&v)
	case *apitypes.Time:
		return moment(v)
	case []string:
		return strings.Join(v, ",")
	case []postrider.EndpointID:
		return strings.Join(strings.Fields(strings.Trim(fmt.Sprint(v), "[]")), ",")
	case apitypes.Metadata:
		return metadataText(v)
	case json.RawMessage:
		return string(v)
	case *apitypes.SourceTable:
		return tableText(v)
	case apitypes.Optional[[]string]:
		return textOf(v.Value())
	case apitypes.Optional[json.RawMessage]:
		return string(v.Value())
	case apitypes.Optional[int]:
		if v.IsNull() {
			return ""
		}
	case apitypes.Optional[apitypes.Retry]:
		return retryText(v.Value())
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
	case apitypes.Pace:
		return paceText(v)
	}
	// A pointer is an optional field of the API: nil is null.
	if p := reflect.ValueOf(value); p.Kind() == reflect.Pointer {
		if p.IsNil() {
			return ""
		}
		return textOf(p.Elem().Interface())
	}
	return fmt.Sprint(value)
}

// pairs returns name=value for each entry, sorted.
func pairs(m map[string]string) []string {
	texts := make([]string, 0, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		texts = append(texts, name+"="+m[name])
	}
	return texts
}

// paceText says how many attempts are in flight, the most that may be, and the reason for that
// limit.
func paceText(p apitypes.Pace) string {
	text := fmt.Sprintf("%d in flight, at most %d", p.InFlight, p.Slots)
	if p.Slots < p.Limit {
		text += fmt.Sprintf(" of %d", p.Limit)
	}
	if p.Reason != nil {
		text += " (" + *p.Reason + ")"
	}
	if p.ResumesAt != nil {
		text += ", none before " + moment(p.ResumesAt)
	}
	return text
}

// spanText returns a field in milliseconds in the form of a duration flag. It is empty for nil and
// for other types.
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

// span returns milliseconds in the form of a duration flag, for example 1m30s.
func span(ms int64) string { return (time.Duration(ms) * time.Millisecond).String() }

// presetText returns a policy in the form of --retry and --circuit: the preset if the policy has
// the numbers of one, otherwise JSON.
func presetText(preset string, policy any) string {
	if preset != "" {
		return preset
	}
	return compact(policy)
}

// retryText returns a retry policy in the form of --retry. A preset is followed by its delays
// without the jitter: "seven-step (0s, 1m, 5m, 30m, 2h, 8h, 24h)".
func retryText(r apitypes.Retry) string {
	if r.Preset == "" {
		return compact(r)
	}
	var delays []string
	for _, d := range (postrider.RetryPolicy{Preset: r.Preset}).Schedule() {
		text := d.Round(time.Second).String()
		if strings.HasSuffix(text, "m0s") {
			text = strings.TrimSuffix(text, "0s")
		}
		if strings.HasSuffix(text, "h0m") {
			text = strings.TrimSuffix(text, "0m")
		}
		delays = append(delays, text)
	}
	return r.Preset + " (" + strings.Join(delays, ", ") + ")"
}

// compact returns the value as JSON in one line.
func compact(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// withoutZeros returns the policy without its zero numbers. The API returns every number of a
// circuit; a zero means that its condition never opens the circuit. People can read the result, and
// pass it to --circuit again.
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

// rateText returns a rate in the form of --rate.
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

// signatureText returns the schemes in the form of --signature.
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

// metadataText returns metadata in the form of --metadata, by key.
func metadataText(m apitypes.Metadata) string { return strings.Join(pairs(m), ", ") }

// headersText returns the headers in the form of --header. Secret values are masked;
// the API does not return them.
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

// authText returns the type of the authentication and its parts that are not secret. It need not
// mask anything, because the API returns no secret.
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

// tlsText returns the names of the TLS parts that the endpoint has. The parts are PEM, which does
// not fit into a table; --json shows the certificates.
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
