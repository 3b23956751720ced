// Package render turns domain values into response values that several features use. A value that
// only one feature uses is converted in that feature's folder.
package render

import (
	"context"
	"mime"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// Instant returns a time in the form of a response.
func Instant(t time.Time) apitypes.Time { return apitypes.Time{Time: t} }

// TimeOrNull is [Instant] for an optional time: the zero time becomes null.
func TimeOrNull(t time.Time) *apitypes.Time {
	if t.IsZero() {
		return nil
	}
	return &apitypes.Time{Time: t}
}

// OrNull returns a pointer to the value, or nil for the zero value. nil is null in JSON. A response
// has null instead of leaving a field out, so that a client can tell "no value" from "this server
// does not know the field".
func OrNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}

// Header returns header fields in the form of a response.
func Header(fields []postrider.HeaderField) []apitypes.RequestHeader {
	view := make([]apitypes.RequestHeader, 0, len(fields))
	for _, f := range fields {
		view = append(view, apitypes.RequestHeader{Name: f.Name, Value: f.Value, Masked: f.Value == postrider.Masked})
	}
	return view
}

// failureBody is the number of bytes of the response body that a last failure shows.
const failureBody = 200

// Failure returns a failed attempt in the form of a response; null: the attempt is zero.
func Failure(a postrider.Attempt) *apitypes.LastFailure {
	if a.Delivery.IsZero() {
		return nil
	}
	view := &apitypes.LastFailure{
		Delivery: a.Delivery, Attempt: a.Number, StartedAt: Instant(a.StartedAt), Outcome: a.Outcome,
		StatusCode: OrNull(a.StatusCode), Error: OrNull(a.Error),
	}
	a.ResponseBody = whole(a.ResponseBody[:min(len(a.ResponseBody), failureBody)])
	if text, ok := BodyText(a); ok {
		view.Body = OrNull(text)
	}
	return view
}

// whole returns the text without an incomplete character at its end.
func whole(text []byte) []byte {
	for cut := range min(len(text), utf8.UTFMax) {
		if utf8.Valid(text[:len(text)-cut]) {
			return text[:len(text)-cut]
		}
	}
	return text
}

// FailureStore is the part of the store that has the last failures of endpoints.
type FailureStore interface {
	// LastFailures is the method of store.Rollups.
	LastFailures(ctx context.Context, ids ...postrider.EndpointID) ([]postrider.Attempt, error)
}

// LastFailures returns the last failures of endpoints, by endpoint id.
func LastFailures(
	ctx context.Context, s FailureStore, ids ...postrider.EndpointID,
) (map[postrider.EndpointID]*apitypes.LastFailure, error) {
	of := map[postrider.EndpointID]*apitypes.LastFailure{}
	if len(ids) == 0 {
		return of, nil
	}
	failures, err := s.LastFailures(ctx, ids...)
	for _, a := range failures {
		of[a.Endpoint] = Failure(a)
	}
	return of, err
}

// BodyText returns the response body of an attempt as text. The boolean is false if the body is not
// text: it is neither UTF-8 nor in a charset that the response head declares.
func BodyText(a postrider.Attempt) (string, bool) {
	if utf8.Valid(a.ResponseBody) {
		return string(a.ResponseBody), true
	}
	for line := range strings.Lines(string(a.ResponseHead)) {
		name, value, _ := strings.Cut(line, ":")
		if !strings.EqualFold(name, "Content-Type") {
			continue
		}
		// If the value cannot be parsed, params is nil.
		_, params, _ := mime.ParseMediaType(strings.TrimSpace(value))
		switch strings.ToLower(params["charset"]) {
		case "iso-8859-1", "latin1", "windows-1252":
			return latin(a.ResponseBody), true
		}
	}
	return "", false
}

// windows has the characters that windows-1252 assigns to the bytes 0x80 to 0x9f. It also applies
// to a server that declares iso-8859-1: the Encoding Standard treats both names as windows-1252.
var windows = []rune("\u20ac\u0081\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u008d\u017d\u008f" +
	"\u0090\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u009d\u017e\u0178")

// latin decodes text in windows-1252.
func latin(text []byte) string {
	var out strings.Builder
	for _, b := range text {
		if b >= 0x80 && b < 0xa0 {
			out.WriteRune(windows[b-0x80])
		} else {
			out.WriteRune(rune(b))
		}
	}
	return out.String()
}
