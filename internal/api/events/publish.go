package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/observe"
)

// maxBatch is the largest number of events of a batch.
const maxBatch = 1000

// envelopeSize is the space for the fields besides data in the body of a publish, in bytes.
const envelopeSize = 16 << 10

// keyHeader is the request header with the idempotency key of a single event.
const keyHeader = "Idempotency-Key"

// hopsHeader is the header with the number of webhook senders that an event has passed; see
// [postrider.MaxHops].
const hopsHeader = "Webhook-Hops"

// traceStateHeader is the request header in which tracing tools add data to the trace.
const traceStateHeader = "Tracestate"

// publishCodes are the codes of the problems of a publish that other operations do not have.
var publishCodes = []string{
	"idempotency_conflict", "loop_detected", "overloaded", "event_quota_used", "byte_quota_used", "filter_quota_used", "disk_full",
}

// registerPublishing registers the two publish routes. They use [rest.HandleRaw], because they
// carry most of the load.
func (s *Routes) registerPublishing(rt *rest.Router) {
	shortest, longest := 1, postrider.MaxEventKey
	key := &huma.Param{
		Name: keyHeader, In: "header", Description: "Replaces idempotency_key in the body. If both are sent, they must be equal.",
		Schema: &huma.Schema{Type: huma.TypeString, MinLength: &shortest, MaxLength: &longest},
	}
	hops := &huma.Param{
		Name: hopsHeader, In: "header",
		Description: "The header Webhook-Hops of the webhook that caused this publish, unchanged. From 8 on, the publish is refused with loop_detected.",
		Schema:      &huma.Schema{Type: huma.TypeString, Pattern: "^[0-9]{1,9}$"},
	}
	trace := &huma.Param{
		Name: postrider.TraceParentHeader, In: "header",
		Description: "The trace of the producer (W3C Trace Context). The event and its deliveries then belong to it. Whether their spans are recorded is the server's setting. A header that is not valid is ignored.",
		Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}},
	}
	traceState := &huma.Param{
		Name: postrider.TraceStateHeader, In: "header",
		Description: "What tools for traces tell each other of the trace (W3C Trace Context). It is passed on to endpoints with send_traceparent. Of more than 512 bytes, members are left out. A header that is not valid, or that comes without traceparent, is ignored.",
		Schema:      &huma.Schema{Type: huma.TypeString, Examples: []any{"vendor=t61rcWkgMzE"}},
	}
	rest.HandleRaw[apitypes.Receipt](rt, rest.Route{
		Name: "publish-event", Path: "POST /events",
		Summary:     "Publish an event",
		Description: "A 2xx means that the event is stored durably.",
		Codes:       publishCodes,
		Scope:       postrider.ScopeEventsWrite, Status: http.StatusAccepted,
		Body: apitypes.EventCreate{}, Limit: int64(s.MaxData + envelopeSize), Repeatable: true,
		Headers: []*huma.Param{key, hops, trace, traceState},
	}, s.publish)
	rest.HandleRaw[apitypes.List[apitypes.BatchReceipt]](rt, rest.Route{
		Name: "publish-events", Path: "POST /events/batch",
		Summary:     "Publish up to 1,000 events, all or none",
		Description: "The idempotency keys are in the events; the header Idempotency-Key is refused.",
		Codes:       publishCodes,
		Scope:       postrider.ScopeEventsWrite, Status: http.StatusAccepted,
		Body: apitypes.EventBatch{}, Limit: s.MaxBatch, Headers: []*huma.Param{hops, trace, traceState},
	}, s.publishBatch)
}

// publish stores one event. The status is 202, or 200 for a repeated request with the same
// idempotency key and the same content. The same key with other content is a 409. All faults of the
// request are reported together.
//
// The response is sent after the commit, so a 2xx means that the event is stored. A 503 means
// nothing: the commit may have succeeded. The client then repeats the request with the same key,
// and gets a 200 if the event was stored.
func (s *Routes) publish(ctx context.Context, b rest.Raw) (int, error) {
	var body apitypes.EventCreate
	if err := b.Decode(&body); err != nil {
		return 0, err
	}
	header := rest.InfoOf(ctx).Header
	// The faults are joined below, so that the client sees all of them at once.
	keyErr := applyKeyHeader(&body, header)
	hops, hopsErr := readHops(header)
	e, err := s.event(ctx, &body, nil)
	if err := errors.Join(keyErr, hopsErr, err); err != nil {
		return 0, err
	}
	e.Hops = hops
	e.TraceParent, e.TraceState = traceOf(ctx)
	receipts, err := s.Publisher.Publish(observe.WithRoute(ctx, "/v1/webhooks/events"), []postrider.Event{e})
	// A KeyTakenError and a LockedError have the index of an event in a batch. This request is no
	// batch, so its response must have no index.
	if _, taken := errors.AsType[*postrider.KeyTakenError](err); taken {
		return 0, rest.ErrKeyTaken
	}
	if locked, ok := errors.AsType[*postrider.LockedError](err); ok {
		return 0, &rest.Error{Class: postrider.ErrBusy, Detail: rest.LockedDetail(locked)}
	}
	if err != nil {
		return 0, err
	}
	rest.InfoOf(ctx).Event = receipts[0].ID
	// The body is decoded, so its buffer is reused for the response.
	b.Reset()
	b.Write(appendReceipt(b.AvailableBuffer(), receipts[0]))
	if receipts[0].Duplicate {
		return http.StatusOK, nil
	}
	return http.StatusAccepted, nil
}

// appendReceipt appends the JSON of an apitypes.Receipt. It uses no reflection.
func appendReceipt(text []byte, r postrider.Receipt) []byte {
	text = append(append(text, `{"id":"`...), r.ID.String()...)
	text = append(text, '"')
	if r.Duplicate {
		text = append(text, `,"duplicate":true`...)
	}
	text = append(text, `,"deliveries":`...)
	switch {
	case r.FanOut:
		return append(text, "null,\"fanout\":true}\n"...)
	case r.Duplicate:
		return append(text, "null}\n"...)
	}
	return append(strconv.AppendInt(text, int64(r.Deliveries), 10), "}\n"...)
}

// applyKeyHeader sets the event's idempotency key from the header, if the request has the header.
// If the body has a key too, both must be equal.
func applyKeyHeader(e *apitypes.EventCreate, header http.Header) error {
	keys := header[keyHeader]
	switch {
	case len(keys) == 0:
		return nil
	case len(keys) > 1:
		return rest.Invalid(keyHeader, postrider.FaultRepeated, "must be there once")
	case !postrider.IsText(keys[0]):
		return rest.Invalid(keyHeader, postrider.FaultMalformed, "must be UTF-8 without control characters")
	case keys[0] == "": // most likely a variable of the client that is not set
		return rest.Invalid(keyHeader, postrider.FaultRequired, "must not be empty")
	case e.IdempotencyKey != "" && e.IdempotencyKey != keys[0]:
		return rest.Invalid(keyHeader, postrider.FaultContradictory, "must be the idempotency_key of the body, where both are there")
	case e.IdempotencyKey != "":
		return nil // the body is validated later
	}
	if err := rest.CheckText(keyHeader, keys[0], postrider.MaxEventKey); err != nil {
		return err
	}
	e.IdempotencyKey = keys[0]
	return nil
}

// readHops returns the hop count of the request, or 0 without the header. If the count is
// [postrider.MaxHops] or more, it returns [postrider.ErrLoop].
func readHops(header http.Header) (int, error) {
	values := header[hopsHeader]
	if len(values) == 0 {
		return 0, nil
	}
	strange := func(r rune) bool { return r < '0' || r > '9' }
	if len(values) > 1 || values[0] == "" || len(values[0]) > 9 || strings.ContainsFunc(values[0], strange) {
		return 0, rest.Invalid(hopsHeader, postrider.FaultMalformed, "must be one number of at most 9 digits")
	}
	hops, err := strconv.Atoi(values[0])
	if err == nil && hops >= postrider.MaxHops {
		err = postrider.ErrLoop
	}
	return hops, err
}

// traceOf returns the producer's trace from the headers of the request.
func traceOf(ctx context.Context) (parent postrider.TraceParent, state string) {
	info := rest.InfoOf(ctx)
	if info.Trace.IsZero() {
		return info.Trace, ""
	}
	return info.Trace, postrider.ParseTraceState(info.Header[traceStateHeader])
}

// publishBatch stores all events of a batch or none. It checks the headers before it decodes the
// body, because decoding is expensive.
func (s *Routes) publishBatch(ctx context.Context, b rest.Raw) (int, error) {
	if len(rest.InfoOf(ctx).Header[keyHeader]) > 0 {
		return 0, rest.Invalid(keyHeader, postrider.FaultNotAllowed, "must not be there: each event of a batch has its own idempotency_key")
	}
	hops, err := readHops(rest.InfoOf(ctx).Header)
	if err != nil {
		return 0, err
	}
	var body apitypes.EventBatch
	if err := b.Decode(&body); err != nil {
		return 0, err
	}
	events, err := s.batch(ctx, body.Events)
	if err != nil {
		return 0, err
	}
	parent, state := traceOf(ctx)
	for i := range events {
		events[i].Hops, events[i].TraceParent, events[i].TraceState = hops, parent, state
	}
	receipts, err := s.Publisher.Publish(observe.WithRoute(ctx, "/v1/webhooks/events/batch"), events)
	if err != nil {
		return 0, err
	}
	rest.InfoOf(ctx).Event = receipts[0].ID
	b.Reset()
	b.Write(appendBatch(b.AvailableBuffer(), receipts))
	return http.StatusAccepted, nil
}

// appendBatch appends the JSON of a list of BatchReceipts. The receipts have the order of the
// events in the request.
func appendBatch(text []byte, receipts []postrider.Receipt) []byte {
	text = append(text, `{"data":[`...)
	for i, r := range receipts {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(append(text, `{"id":"`...), r.ID.String()...)
		text = append(text, `","duplicate":`...)
		text = append(strconv.AppendBool(text, r.Duplicate), '}')
	}
	return append(text, "]}\n"...)
}

// batch converts and validates the events of a batch. It reports the faults of the first MaxFaults
// faulty events. If an error is not the client's fault, such as an error of the store, batch stops
// and returns it.
func (s *Routes) batch(ctx context.Context, bodies []apitypes.EventCreate) ([]postrider.Event, error) {
	// The number of events is checked first, so that a batch that is too large costs no validation.
	if n := len(bodies); n < 1 || n > maxBatch {
		return nil, rest.WrongCount("events", 1, maxBatch, "events")
	}
	events := make([]postrider.Event, 0, len(bodies))
	var faults []error
	known := named{}
	for i := range bodies {
		e, err := s.event(ctx, &bodies[i], known)
		if err != nil && !errors.Is(err, postrider.ErrInvalid) && !errors.Is(err, rest.ErrTooLarge) {
			return nil, err // not a fault of the request
		}
		if err != nil {
			faults = append(faults, within(fmt.Sprintf("events[%d].", i), err))
		}
		if len(faults) == rest.MaxFaults {
			break
		}
		events = append(events, e)
	}
	return events, errors.Join(faults...)
}

// within adds a prefix, such as "events[3].", to the field names of all faults in err.
func within(at string, err error) error {
	for _, fault := range postrider.Faults(err) {
		fault.Field = at + fault.Field
	}
	return err
}

// event converts a publish body to an event, or returns all its faults. Data that is too large is a
// fault of the field and gives a 413. A max_attempts of 0 or less is a fault.
func (s *Routes) event(ctx context.Context, b *apitypes.EventCreate, known named) (postrider.Event, error) {
	account, err := s.Names.RequireAccount(ctx, "account", b.Account)
	endpoints, unknown := s.directed(ctx, account, b.Endpoints, known)
	data, unread := postrider.ParseData(b.ContentType, b.Data, b.DataEncoding)
	e := postrider.Event{
		Account: account, Type: b.Type, Data: data, APIVersion: b.APIVersion, OrderingKey: b.OrderingKey, IdempotencyKey: b.IdempotencyKey,
		About: postrider.About(b.About), Endpoints: endpoints,
	}
	if b.MaxAttempts != nil {
		e.MaxAttempts = cmp.Or(*b.MaxAttempts, -1)
	}
	err = errors.Join(err, unknown, unread, s.check(ctx, &e))
	if b.OccurredAt != nil {
		e.OccurredAt = b.OccurredAt.UTC().Truncate(time.Microsecond)
		err = errors.Join(err, e.CheckOccurred(s.Clock.Wall()))
	}
	return e, err
}

// check returns all faults of an event of a request. It removes a Previous that is null.
func (s *Routes) check(ctx context.Context, e *postrider.Event) error {
	if string(e.About.Previous) == "null" {
		e.About.Previous = nil
	}
	err := e.Check(s.MaxData)
	if len(e.About.Internal) > 0 && !rest.InfoOf(ctx).Caller.Account.IsZero() {
		err = errors.Join(err, rest.Invalid("internal", postrider.FaultNotAllowed, "must be left out by callers that are bound to an account"))
	}
	if e.Size() > s.MaxData {
		err = errors.Join(rest.ErrTooLarge, err)
	}
	return err
}
