package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/render"
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/store"
)

// MaxFaults is the largest number of faults in a response. A batch may have thousands of faults.
const MaxFaults = 100

// The errors that only the HTTP API has.
var (
	ErrForbidden    = errors.New("the key may not do this")
	ErrTooLarge     = errors.New("the request is too large")
	errMediaType    = errors.New("the body must be application/json in UTF-8")
	errEncoding     = errors.New("the body must not be compressed")
	errNoRoute      = errors.New("no such route")
	errNoMethod     = errors.New("no such method on this route")
	errSlowBody     = errors.New("the body took too long to arrive")
	errOverBudget   = errors.New("the budget for request bodies is used up")
	ErrStoreTimeout = errors.New("the store did not respond in time")
	errBroken       = errors.New("the body did not arrive")
	errBadChunks    = errors.New("the chunks of the body are malformed")
	errDraining     = errors.New("the server is stopping")
	errStarting     = errors.New("the server is starting")
	errUnaudited    = errors.New("the audit entry was not stored")
	errTooOften     = errors.New("the same was done too often")
)

// errorClass is the response to all errors of one class.
type errorClass struct {
	// err is the error that the members of the class match, by errors.Is.
	err error
	// status is the HTTP status of the response.
	status int
	// code is the problem's code. Clients depend on it, so it never changes.
	code string
	// detail is shown to the client in place of the error's own text, which may have internal
	// facts.
	detail string
}

// errorClasses is the only table that maps errors to HTTP statuses. The first
// class that matches decides. So an error that matches two classes, such as
// ErrTooLarge and ErrInvalid, gets the status of the earlier one.
var errorClasses = []errorClass{
	{errBadChunks, 400, "malformed", "the chunks of the body are malformed"},
	{apikeys.ErrUnauthorized, 401, "unauthorized", "a valid API key is required: Authorization: Bearer <key>"},
	{ErrForbidden, 403, "forbidden", "the key lacks the required scope"},
	{
		errUnaudited, 503, "unavailable",
		"what was done could not be recorded in the audit log, so it is not confirmed. The request may have taken effect",
	},
	{errNoMethod, 405, "method_not_allowed", "the route has no such method; see Allow"},
	{errPrecondition, 412, "precondition_failed", "the object has another revision than If-Match names; read it again"},
	{errSlowBody, 408, "timeout", "the body took too long to arrive"},
	{ErrTooLarge, 413, "too_large", "the request is too large"},
	{errMediaType, 415, "unsupported_media_type", "the body must be application/json in UTF-8"},
	{errEncoding, 415, "unsupported_media_type", "the body must not be compressed: send it without a Content-Encoding"},
	{errTooOften, 429, "too_often", "the same was done too often; the detail names the limit, and Retry-After the wait"},
	{postrider.ErrTooManyReads, 429, "too_many_reads", "too many reads of the account are under way; see Retry-After"},
	{errOverBudget, 429, "overloaded", "the server has no memory for the body of this request; see Retry-After"},
	{postrider.ErrLoop, 422, "loop_detected", "the event has passed 8 or more webhook senders, so they form a loop; see Webhook-Hops"},
	{postrider.ErrNotFound, 404, "not_found", "there is no resource with this id or name"},
	{errNoRoute, 404, "not_found", "there is no such route"},
	{postrider.ErrGone, 410, "gone", "the data of the event was deleted"},
	{postrider.ErrInvalid, 422, "invalid", "the request is invalid; see errors"},
	{postrider.ErrConflict, 409, "conflict", "the request contradicts the stored state"},
	{
		postrider.ErrExpungeList, 503, "expunge_list_unwritable",
		"the list of expunges (--expunge-list) cannot be written, so nothing was expunged; the log has the cause",
	},
	{postrider.ErrBusy, 503, "unavailable", "the server cannot do this now; the same request may succeed later"},
	{
		ErrStoreTimeout, 503, "unavailable",
		"the store did not respond in time. The request may still take effect; repeat it, a publish with the same idempotency key",
	},
	{errDraining, 503, "unavailable", "the server is stopping and did not read the whole request; repeat it"},
	{errStarting, 503, "unavailable", "the server is starting, and its store is not open yet"},
	{errBroken, 503, "unavailable", "the body did not arrive"},
	{
		context.DeadlineExceeded, 503, "unavailable",
		"the store did not respond in time. The request may still take effect; repeat it, a publish with the same idempotency key",
	},
	{context.Canceled, 503, "unavailable", "the client closed the connection"},
}

// internalClass is the response to every error without a class.
var internalClass = errorClass{nil, 500, "internal", "the server failed; its log has the cause under this request_id"}

// Error is an error with a text for the client.
type Error struct {
	// Class is the error that this error matches. The response has the status of its errorClass.
	Class error
	// Detail replaces the detail of the class. Empty: the detail of the class is used.
	Detail string
	// Code replaces the code of the class. Empty: the code of the class is used.
	Code string
	// after is the smallest Retry-After of the response. 0: the class decides.
	after time.Duration
}

// Error returns the detail, which is safe for the client.
func (r *Error) Error() string { return cmp.Or(r.Detail, r.Class.Error()) }

// Unwrap returns the class.
func (r *Error) Unwrap() error { return r.Class }

// Conflict returns a 409 with a code of exactClasses and a text for the client.
func Conflict(code, detail string) error {
	return &Error{Class: postrider.ErrConflict, Code: code, Detail: detail}
}

// ErrKeyTaken is the response to a reused idempotency key. The route that publishes one event
// returns it. For a batch, problemOf uses its code and detail.
var ErrKeyTaken = &Error{
	Class: postrider.ErrConflict, Code: "idempotency_conflict", Detail: "the idempotency key was used for other content",
}

// ErrNoPublicURL is the response to a request for a link while the server's public URL is not set.
// The Host header of the request cannot replace the public URL, because the client chooses that
// header.
var ErrNoPublicURL = &Error{
	Class: postrider.ErrInvalid, Code: "public_url_missing",
	Detail: "links need the server's public URL, which is not set: start the server with --public-url https://… (POSTRIDER_PUBLIC_URL)",
}

// Invalid returns a fault of one field of the request. A name in a body or a query that does not
// exist is also such a fault. A 404 is only about the path, so a client always knows which object
// was not found.
func Invalid(field string, code postrider.FaultCode, reason string) error {
	return &postrider.InvalidError{Field: field, Code: code, Reason: reason}
}

// TooLong returns the fault of a text that has more than most bytes.
func TooLong(field string, most int, reason string) error {
	return &postrider.InvalidError{Field: field, Code: postrider.FaultTooLong, Reason: reason, Max: int64(most)}
}

// WrongCount returns the fault of a list that must have least to most elements. The noun names the
// elements.
func WrongCount(field string, least, most int, noun string) error {
	return &postrider.InvalidError{
		Field: field, Code: postrider.FaultWrongCount, Reason: fmt.Sprintf("must have %d to %d %s", least, most, noun), Min: int64(least),
		Max: int64(most),
	}
}

// faultOf returns the fault in the form of the response.
func faultOf(f *postrider.InvalidError) apitypes.Fault {
	fault := apitypes.Fault{Field: f.Field, Code: cmp.Or(f.Code, postrider.FaultMalformed), Reason: f.Reason}
	if f.Min != 0 || f.Max != 0 {
		fault.Min, fault.Max = &f.Min, &f.Max
	}
	return fault
}

// problem is an error response: a body as in RFC 9457, and headers. It implements error and huma's
// StatusError, so handlers can return it.
type problem struct {
	apitypes.Problem

	// retryAfter is the value of the header Retry-After, rounded up to seconds. 0: no header.
	retryAfter time.Duration
	// accept has the headers that tell the client which bodies the server accepts. nil: the status
	// is not 415.
	accept http.Header
	// hangUp closes the connection, because part of the body was not read.
	hangUp bool
}

// Error returns the problem's code.
func (p *problem) Error() string { return p.Code }

// GetStatus returns the status of the response.
func (p *problem) GetStatus() int { return p.Status }

// GetHeaders returns the headers of the response besides the Content-Type.
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

// problemOf maps an error to the response. If the status is 5xx, it stores the error in the
// request's info, for the log.
func problemOf(ctx context.Context, err error) *problem {
	k := classOf(err)
	c := InfoOf(ctx)
	p := &problem{Problem: apitypes.Problem{
		Type: "about:blank", Title: http.StatusText(k.status), Status: k.status,
		Detail: k.detail, Code: k.code, RequestID: c.id,
	}}
	if !c.Trace.IsZero() {
		p.TraceID = c.Trace.Trace().String()
	}
	// These states soon end, so Retry-After asks the client to repeat the request in a second.
	if k.status == http.StatusServiceUnavailable || k.err == errOverBudget { //nolint:errorlint // the table's own
		p.retryAfter = time.Second
	}
	faults := postrider.Faults(err)
	for _, f := range faults[:min(len(faults), MaxFaults)] {
		p.Errors = append(p.Errors, faultOf(f))
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
	c.problem = p.Code
	// A 4xx is the client's fault and is not logged as an error.
	if p.Status >= 500 {
		c.err = err
	}
	return p
}

// classOf returns the first class that the error matches.
func classOf(err error) errorClass {
	for _, k := range errorClasses {
		if errors.Is(err, k.err) {
			return k
		}
	}
	return internalClass
}

// fillDetails adds the details that some errors have: the text of an Error, the index of a taken or
// locked key, the pending replay, the wait of an overload, or the quota that is used up.
func (p *problem) fillDetails(err error) {
	if r, ok := errors.AsType[*Error](err); ok {
		p.Code, p.Detail, p.retryAfter = cmp.Or(r.Code, p.Code), cmp.Or(r.Detail, p.Detail), max(r.after, p.retryAfter)
	}
	if taken, ok := errors.AsType[*postrider.KeyTakenError](err); ok {
		p.Code, p.Detail, p.Index = ErrKeyTaken.Code, ErrKeyTaken.Detail, &taken.Index
	}
	if locked, ok := errors.AsType[*postrider.LockedError](err); ok {
		p.Detail, p.Index = LockedDetail(locked), &locked.Index
	}
	if pending, ok := errors.AsType[*store.ReplayPendingError](err); ok {
		p.Code, p.Detail, p.Replay = "replay_pending", "a replay of this dead letter is under way", pending.Replay.String()
	}
	if quota, ok := errors.AsType[*postrider.QuotaError](err); ok {
		p.fillQuota(quota)
	}
	if full, ok := errors.AsType[*postrider.FullError](err); ok {
		p.Code, p.Detail, p.retryAfter = "disk_full", "the disk of the store is full, or nearly full, so nothing was stored; see Retry-After",
			full.RetryAfter
	}
	if overload, ok := errors.AsType[*postrider.OverloadError](err); ok {
		p.Status, p.Title = http.StatusTooManyRequests, http.StatusText(http.StatusTooManyRequests)
		p.Code, p.Detail, p.retryAfter = "overloaded", "more events are published than can be delivered", max(overload.RetryAfter, time.Second)
	}
}

// quotaCodes has, for each quota, the problem code of the response when the quota is used up.
var quotaCodes = map[postrider.QuotaName]string{
	postrider.QuotaEvents: "event_quota_used", postrider.QuotaBytes: "byte_quota_used", postrider.QuotaEndpoints: "endpoint_quota_used",
	postrider.QuotaFilters: "filter_quota_used",
}

// fillQuota makes p the problem of a used quota. The quotas of events, bytes and filters become
// free again by themselves: they give a 429 with the time when they do. The quota of endpoints gives a
// 409.
func (p *problem) fillQuota(e *postrider.QuotaError) {
	p.Status, p.Code, p.retryAfter = http.StatusTooManyRequests, quotaCodes[e.Quota], e.RetryAfter
	p.Quota = &apitypes.QuotaProblem{Name: string(e.Quota), Limit: e.Limit, EndsAt: render.TimeOrNull(e.EndsAt)}
	switch e.Quota {
	case postrider.QuotaEvents:
		p.Detail = fmt.Sprintf("the account may publish %d events a second, and has published more; see Retry-After", e.Limit)
	case postrider.QuotaBytes:
		p.Detail = fmt.Sprintf("the events of the account may have %d bytes of data a day, and this publish would be above; see Retry-After",
			e.Limit)
	case postrider.QuotaFilters:
		p.Detail = fmt.Sprintf("the filters of the account may take %d %% of the time of a core, and took more; see Retry-After", e.Limit)
	case postrider.QuotaEndpoints:
		p.Status = http.StatusConflict
		p.Detail = fmt.Sprintf("the account may have %d endpoints, and has as many", e.Limit)
	}
	p.Title = http.StatusText(p.Status)
}

// LockedDetail returns a text that names the locked key. The client may see the key, because the
// client sent it.
func LockedDetail(locked *postrider.LockedError) string {
	return fmt.Sprintf("the %s %q is locked by another transaction of the database, so nothing was stored; the same request may succeed later",
		locked.Field, locked.Key)
}

// writeProblem writes a problem as the response of a request that huma does not answer. It removes
// the Location header that the mux may have set for a redirect.
func writeProblem(a *responseWriter, p *problem) {
	header := a.Header()
	maps.Copy(header, p.GetHeaders())
	text, _ := json.Marshal(p) // cannot fail: a problem has only strings and numbers
	text = append(text, '\n')
	header.Set("Content-Length", strconv.Itoa(len(text)))
	header.Del("Location")
	header.Set("Content-Type", p.ContentType(""))
	a.status, a.unrouted = p.Status, false
	a.head(p.Status)
	if a.request.Method != http.MethodHead {
		a.sends(len(text))
		_, _ = a.ResponseWriter.Write(text) // an error means that the client is gone
	}
}

// unrouted returns the error of a request without a route. status is the status that the mux chose.
func unrouted(status int) error {
	if status == http.StatusMethodNotAllowed {
		return errNoMethod
	}
	return errNoRoute // a redirect of the mux to a cleaned path counts as a missing route
}

// reasonOf returns the text of a fault for a message of huma about a parameter.
func reasonOf(message string) string {
	if strings.HasPrefix(message, "invalid date/time") { // the rest is Go's layout notation
		return "must be a time like 2026-11-21T05:00:00Z"
	}
	return message
}

// translate turns huma's own errors into problems. These errors are only about query parameters.
// The errors of handlers are problems already.
func translate(ctx huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	var faults []error
	for _, e := range model.Errors {
		_, field, _ := strings.Cut(e.Location, ".") // query.limit
		faults = append(faults, Invalid(field, postrider.FaultMalformed, reasonOf(e.Message)))
	}
	return problemOf(ctx.Context(), errors.Join(faults...)), nil
}
