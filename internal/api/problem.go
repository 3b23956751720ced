package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/store"
)

// maxFaults bounds an answer; a batch may have thousands.
const maxFaults = 100

// The errors that only HTTP has.
var (
	errUnauthorized = errors.New("no key, or one that is not in force")
	errForbidden    = errors.New("the key may not do this")
	errTooLarge     = errors.New("the request is too large")
	errMediaType    = errors.New("the body must be application/json")
	errEncoding     = errors.New("the body must not be compressed")
	errNoRoute      = errors.New("no such route")
	errNoMethod     = errors.New("no such method on this route")
	errSlowBody     = errors.New("the body took too long to arrive")
	errNoRoom       = errors.New("the bodies in memory leave no room for another")
	errNoAnswer     = errors.New("the store has not answered in time")
	errBroken       = errors.New("the body did not arrive")
	errDraining     = errors.New("the server is stopping")
	errStarting     = errors.New("the server is starting")
	errLoop         = errors.New("the event goes round in circles")
	errTooOften     = errors.New("the endpoint was tested or verified too often")
)

// errorClass is the response to the errors of one class.
type errorClass struct {
	err    error
	status int
	code   string
	detail string // safe for anyone; what the error says itself is not
}

// errorClasses is the only place where an error becomes an HTTP status. The first
// that matches counts.
var errorClasses = []errorClass{
	{errUnauthorized, 401, "unauthorized", "a valid API key is required: Authorization: Bearer <key>"},
	{errForbidden, 403, "forbidden", "the key lacks the required scope"},
	{errNoMethod, 405, "method_not_allowed", "the route has no such method; see Allow"},
	{errSlowBody, 408, "timeout", "the body took too long to arrive"},
	{errTooLarge, 413, "too_large", "the request is too large"},
	{errMediaType, 415, "unsupported_media_type", "the body must be application/json"},
	{errEncoding, 415, "unsupported_media_type", "the body must be sent as it is, without a Content-Encoding"},
	{errTooOften, 429, "too_often", "an endpoint is tested or verified at most five times at once, then once every 12 seconds; see Retry-After"},
	{errNoRoom, 429, "overloaded", "more is sent than the server can take; see Retry-After"},
	{errLoop, 422, "loop_detected", "the event has passed so many webhook senders that they must form a loop; see Webhook-Hops"},
	{postrider.ErrNotFound, 404, "not_found", "there is no resource with this id or name"},
	{errNoRoute, 404, "not_found", "there is no such route"},
	{postrider.ErrGone, 410, "gone", "the data of the event was deleted"},
	{postrider.ErrInvalid, 422, "invalid", "the request is invalid; see errors"},
	{postrider.ErrConflict, 409, "conflict", "the request contradicts what is stored"},
	{postrider.ErrBusy, 503, "unavailable", "not now; the same request may succeed later"},
	{errNoAnswer, 503, "unavailable", "there was no answer from the store in time, and what was asked for may still be done; repeat it, a publish with the same idempotency key"},
	{errDraining, 503, "unavailable", "the server is stopping, and the request was not read to its end; repeat it"},
	{errStarting, 503, "unavailable", "the server is starting, and its store is not open yet"},
	{errBroken, 503, "unavailable", "the body did not arrive"},
	{context.DeadlineExceeded, 503, "unavailable", "there was no answer from the store in time, and what was asked for may still be done; repeat it, a publish with the same idempotency key"},
	{context.Canceled, 503, "unavailable", "the request was given up"},
}

var internalClass = errorClass{nil, 500, "internal", "the server failed; its log has the cause under this request_id"}

// apiError is an error of a class, with a text for the client.
type apiError struct {
	class  error
	detail string // empty: that of the class
	code   string // empty: that of the class
	after  time.Duration
}

func (r *apiError) Error() string { return cmp.Or(r.detail, r.class.Error()) }
func (r *apiError) Unwrap() error { return r.class }

func conflict(detail string) error { return &apiError{class: postrider.ErrConflict, detail: detail} }

var errKeyTaken = &apiError{
	class: postrider.ErrConflict, code: "idempotency_conflict", detail: "the idempotency key was used for other content",
}

// missing says that what a field of the request names is not there. Its fault
// names the field; the status is that of ErrNotFound, which comes first.
func missing(field, reason string) error {
	return errors.Join(postrider.ErrNotFound, &postrider.InvalidError{Field: field, Reason: reason})
}

func invalid(field, reason string) error {
	return &postrider.InvalidError{Field: field, Reason: reason}
}

// problem is the response to an error: a body of RFC 9457, and headers. It is
// an error and huma's StatusError, so that handlers can return it.
type problem struct {
	apitypes.Problem

	retryAfter time.Duration
	accept     http.Header // of a 415: what the server accepts
	hangUp     bool        // the connection cannot be used again
}

// Error returns the problem's code.
func (p *problem) Error() string { return p.Code }

// GetStatus returns the status to answer with.
func (p *problem) GetStatus() int { return p.Status }

// GetHeaders returns the headers that belong to the status.
func (p *problem) GetHeaders() http.Header {
	headers := http.Header{}
	if p.retryAfter > 0 {
		headers.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		headers.Set("WWW-Authenticate", "Bearer")
	}
	maps.Copy(headers, p.accept)
	if p.hangUp {
		headers.Set("Connection", "close")
	}
	return headers
}

// ContentType returns the media type of problems.
func (p *problem) ContentType(string) string { return "application/problem+json" }

// problemOf turns an error into what the client may know of it, and leaves the
// rest with the call for the log.
func problemOf(ctx context.Context, err error) *problem {
	k := classOf(err)
	c := infoOf(ctx)
	p := &problem{Problem: apitypes.Problem{
		Type: "about:blank", Title: http.StatusText(k.status), Status: k.status,
		Detail: k.detail, Code: k.code, RequestID: c.id,
	}}
	if k.status == http.StatusServiceUnavailable || k.err == errNoRoom { //nolint:errorlint // the table's own
		p.retryAfter = time.Second
	}
	faults := postrider.Faults(err)
	for _, f := range faults[:min(len(faults), maxFaults)] {
		p.Errors = append(p.Errors, apitypes.Fault{Field: f.Field, Reason: f.Reason})
	}
	p.fillDetails(err)
	switch { // the headers of RFC 9110, 15.5.16 and 15.5.9
	case errors.Is(err, errMediaType):
		p.accept = http.Header{"Accept": {"application/json"}}
	case errors.Is(err, errEncoding):
		p.accept = http.Header{"Accept-Encoding": {"identity"}}
	case errors.Is(err, errSlowBody), errors.Is(err, errDraining), errors.Is(err, errBroken):
		p.hangUp = true
	}
	if p.Status >= 500 {
		c.err = err
	}
	return p
}

func classOf(err error) errorClass {
	for _, k := range errorClasses {
		if errors.Is(err, k.err) {
			return k
		}
	}
	return internalClass
}

// fillDetails adds what errors of special types know.
func (p *problem) fillDetails(err error) {
	if r, ok := errors.AsType[*apiError](err); ok {
		p.Code, p.Detail, p.retryAfter = cmp.Or(r.code, p.Code), cmp.Or(r.detail, p.Detail), max(r.after, p.retryAfter)
	}
	if taken, ok := errors.AsType[*postrider.KeyTakenError](err); ok {
		p.Code, p.Detail, p.Index = errKeyTaken.code, errKeyTaken.detail, &taken.Index
	}
	if pending, ok := errors.AsType[*store.ReplayPendingError](err); ok {
		p.Code, p.Detail, p.Replay = "replay_pending", "a replay of this dead letter is under way", pending.Replay.String()
	}
	if overload, ok := errors.AsType[*postrider.OverloadError](err); ok {
		p.Status, p.Title = http.StatusTooManyRequests, http.StatusText(http.StatusTooManyRequests)
		p.Code, p.Detail, p.retryAfter = "overloaded", "more events are published than can be delivered", max(overload.RetryAfter, time.Second)
	}
}

// writeProblem answers with a problem where huma does not. What the mux said by
// itself was held back.
func writeProblem(a *responseWriter, p *problem) {
	header := a.Header()
	maps.Copy(header, p.GetHeaders())
	text, _ := json.Marshal(p) // of texts and numbers alone
	text = append(text, '\n')
	header.Set("Content-Length", strconv.Itoa(len(text)))
	header.Del("Location")
	header.Set("Content-Type", p.ContentType(""))
	a.status, a.unrouted = p.Status, false
	a.head(p.Status)
	if a.request.Method != http.MethodHead {
		a.sends(len(text))
		_, _ = a.ResponseWriter.Write(text) // a client that left is nobody to tell
	}
}

// unrouted is the error of a request that no route matched, by the status that
// the mux would have answered.
func unrouted(status int) error {
	if status == http.StatusMethodNotAllowed {
		return errNoMethod
	}
	return errNoRoute // a cleaned path, which the mux would redirect to, is no route either
}

// reasonOf words huma's message about a parameter as we do.
func reasonOf(message string) string {
	if strings.HasPrefix(message, "invalid date/time") { // it goes on with Go's way to write a format
		return "must be a time like 2026-11-21T05:00:00Z"
	}
	return message
}

// translate turns the errors that huma makes by itself, which are those of
// query parameters, into problems. Those of the handlers are problems already.
func translate(ctx huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	var faults []error
	for _, e := range model.Errors {
		_, field, _ := strings.Cut(e.Location, ".") // query.limit
		faults = append(faults, invalid(field, reasonOf(e.Message)))
	}
	return problemOf(ctx.Context(), errors.Join(faults...)), nil
}
