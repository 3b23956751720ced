// Package apitypes has the JSON shapes of the REST API: the bodies of requests and responses,
// problems and pages. The server decodes and encodes them, and package client sends and returns
// them, so each field is declared only once.
//
// The struct tags are the reference of each field. The tag json is its name, doc says what it
// means, and enum, minLength, minimum and so on are its limits. The OpenAPI document
// (docs/api/openapi.json) is generated from the tags.
//
// These rules say whether a field is present, null or left out:
//
//   - In a request, a field without omitempty and omitzero is required.
//   - An [Optional] field of a request can be left out, null, or have a value.
//     In a change, a field that is left out keeps its value, and null sets the
//     field back to its default. In a request that creates something, both mean
//     the default.
//   - Any other field that can be left out is a plain value with omitempty. Its
//     zero value means that it was left out. Null is refused.
//   - In a response, a nil pointer is null.
//
// A field whose name ends in MS is a duration in whole milliseconds. One whose name ends in US is
// in whole microseconds. The package has no rules about values: the server checks each request.
package apitypes

import (
	"errors"
	"time"

	"github.com/postrider/postrider"
)

// Page is one page of a list. A page may have few items, or none, and still have a next page.
type Page[T any] struct {
	Data       []T     `json:"data" nullable:"false"`
	NextCursor *string `json:"next_cursor" doc:"Send it as cursor to get the next page. Null: this is the last page."`
}

// Next returns the cursor of the next page; empty: this is the last page.
func (p Page[T]) Next() string {
	if p.NextCursor == nil {
		return ""
	}
	return *p.NextCursor
}

// List is a whole list in one response.
type List[T any] struct {
	Data []T `json:"data" nullable:"false"`
}

// Problem is the body of every response that is not a success (RFC 9457).
type Problem struct {
	Type      string        `json:"type" example:"about:blank"`
	Title     string        `json:"title" example:"Unprocessable Entity"`
	Status    int           `json:"status" example:"422"`
	Detail    string        `json:"detail" doc:"Explanation of the error, for people."`
	Code      string        `json:"code" example:"invalid" doc:"Stable name of the error, for programs."`
	Errors    []Fault       `json:"errors,omitempty" nullable:"false" doc:"Faults of the request, at most 100."`
	Index     *int          `json:"index,omitempty" doc:"With idempotency_conflict in a batch: position of the event in the batch, from 0."`
	Replay    string        `json:"replay,omitempty" doc:"With replay_pending: id of the replay that is under way."`
	Quota     *QuotaProblem `json:"quota,omitempty" doc:"With event_quota_used, byte_quota_used, filter_quota_used and endpoint_quota_used: the limit."`
	RequestID string        `json:"request_id" doc:"Id of the request in the server's log."`
	TraceID   string        `json:"trace_id,omitempty" doc:"Trace of the header traceparent of the request, if it has one."`
}

// Fault is one fault of a request.
type Fault struct {
	Field  string              `json:"field" example:"retry.delays_ms[2]"`
	Code   postrider.FaultCode `json:"code" example:"out_of_range" doc:"Stable name of the kind of fault, for programs and translations: malformed, required, out_of_range, wrong_count, too_long, not_a_choice, repeated, not_found, not_allowed, contradictory, unknown_field, not_https, not_http, not_public or has_credentials."`
	Reason string              `json:"reason" example:"must be 0 to 7 days" doc:"What the field must be, for people."`
	Min    *int64              `json:"min,omitempty" doc:"With out_of_range and wrong_count: the least that is accepted, in the unit of the field."`
	Max    *int64              `json:"max,omitempty" doc:"With out_of_range, wrong_count and too_long (in bytes): the most that is accepted."`
}

// Time is an instant. Its JSON is RFC 3339 in UTC, with microseconds.
type Time struct{ time.Time }

// MarshalJSON writes the time in the format of the API.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, `"2006-01-02T15:04:05.000000Z"`), nil
}

// MarshalText writes the time in the format of the API, without quotes.
func (t Time) MarshalText() ([]byte, error) {
	return t.UTC().AppendFormat(nil, "2006-01-02T15:04:05.000000Z"), nil
}

// UnmarshalText reads a time in RFC 3339, in any time zone.
func (t *Time) UnmarshalText(text []byte) error {
	at, err := time.Parse(time.RFC3339, string(text))
	if err != nil {
		return errors.New("must be a time, by RFC 3339")
	}
	t.Time = at
	return nil
}
