package postrider

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Policy has the settings of an endpoint. The API sets them, and takes the values of
// [DefaultPolicy] for fields that its caller leaves out. A stored policy has every field set.
type Policy struct {
	// JSON of a pattern that says which events of the endpoint's types create deliveries; package
	// filter has its language. Empty: all.
	Filter string

	// Paths in data, at most 10: only events that say that one of them changed create deliveries; see
	// [About]. Empty: all.
	Changed []string

	// At most 10: only events that have one of these channels create deliveries; see [About]. Empty: all.
	Channels []string

	// Expression in CEL of at most 4 KiB that says which of these events create deliveries; package
	// filter/condition has its language. Empty: all.
	Condition string

	Retry RetryPolicy
	// Limit for a whole attempt, from the DNS lookup to the last byte of the response; 1 to 30 s.
	Timeout      time.Duration
	ClientErrors ClientErrors
	Concurrency  int           // attempts in flight at once; 1 to 1,000
	Expiry       time.Duration // time after which a pending delivery becomes a dead letter; 1 minute to 90 days
	Signatures   []Signature   // each request carries all of them; 1 to 16
	Payload      Payload

	// Whether an envelope has the object before a change, if the event has it; only with PayloadEnvelope.
	IncludePrevious bool

	// Whether Timeout is shortened while attempts to the endpoint keep timing out; see
	// [AdaptiveTimeout].
	AdaptiveTimeout bool
	Circuit         CircuitPolicy
	Rate            Rate
	Order           Order
	OnDead          OnDead

	Headers      []Header // sent in addition to Postrider's own headers; at most 32
	Auth         Auth
	TLS          TLS
	MaxRedirects int // redirects that an attempt follows; 0 to 3
	Compression  Compression

	// Whether requests carry the header traceparent, with the event's trace and a span of their
	// own, and the event's tracestate.
	SendTraceParent bool
}

// Order is the order in which an endpoint gets its events.
type Order string

// The orders.
const (
	OrderNone  Order = "none"   // in no order, several at a time
	OrderByKey Order = "by_key" // the events of one ordering key in their sequence, one at a time
)

// OnDead says what happens to an ordering key when one of its deliveries dies. It has an effect
// only with [OrderByKey].
type OnDead string

// The values of OnDead.
const (
	SkipDead    OnDead = "skip"  // the next event of the key is sent
	PauseOnDead OnDead = "pause" // the key waits until a person replays or discards the dead letter
)

// ClientErrors says what a response with a 4xx status does to a delivery.
type ClientErrors string

// The values of ClientErrors. 408, 409, 425 and 429 are always retried, and 410 never is.
const (
	RetryClientErrors      ClientErrors = "retry"       // the delivery is retried
	DeadLetterClientErrors ClientErrors = "dead_letter" // the delivery is dead at once
)

// Compression is the content encoding of a request's body.
type Compression string

// The compressions. A signature signs the body before compression.
const (
	CompressionNone Compression = "none"
	CompressionGzip Compression = "gzip"
)

// Payload is the form of a request's body.
type Payload string

// The payloads.
const (
	PayloadEnvelope Payload = "envelope" // {"id","type","api_version","timestamp","content_type","data","previous"}
	PayloadRaw      Payload = "raw"      // only the event's data
)

// MaxExpiry is the longest expiry of a policy.
const MaxExpiry = 90 * 24 * time.Hour

// DefaultPolicy returns the policy of an endpoint that was created without settings.
func DefaultPolicy() Policy {
	return Policy{
		Retry:        RetryPolicy{Preset: "default"},
		Timeout:      10 * time.Second,
		ClientErrors: RetryClientErrors,
		Concurrency:  10,
		Expiry:       7 * 24 * time.Hour,
		Signatures:   []Signature{{Scheme: SchemeStandard}},
		Payload:      PayloadEnvelope,
		Circuit:      CircuitPresets["default"],
		Order:        OrderNone,
		OnDead:       SkipDead,
		Auth:         Auth{Kind: AuthNone},
		Compression:  CompressionNone,
	}
}

// maxPaths is the largest number of paths in Policy.Changed.
const maxPaths = 10

// Check returns an [InvalidError] for each field that is not valid, joined. Field names are those
// of the API.
func (p Policy) Check() error {
	var faults faults
	faults.paths("changed", p.Changed, maxPaths)
	faults.add(p.Changed != nil && len(p.Changed) == 0, "changed", FaultRequired, "must have a path, or be null")
	faults.channels(p.Channels)
	faults.add(p.Channels != nil && len(p.Channels) == 0, "channels", FaultRequired, "must have a channel, or be null")
	faults.join(p.Retry.Check())
	faults.lasts("timeout_ms", p.Timeout, time.Second, 30*time.Second)
	faults.add(p.ClientErrors != RetryClientErrors && p.ClientErrors != DeadLetterClientErrors,
		"client_errors", FaultNotAChoice, "must be retry or dead_letter")
	faults.within("concurrency", int64(p.Concurrency), 1, 1000)
	faults.lasts("expiry_ms", p.Expiry, time.Minute, MaxExpiry)
	faults.add(p.Payload != PayloadEnvelope && p.Payload != PayloadRaw, "payload", FaultNotAChoice, "must be envelope or raw")
	faults.add(p.IncludePrevious && p.Payload == PayloadRaw, "include_previous", FaultContradictory,
		"must be false unless payload is envelope")
	if p.Rate != (Rate{}) {
		faults.within("rate.attempts", int64(p.Rate.Attempts), 1, 100_000)
		faults.lasts("rate.per_ms", p.Rate.Per, time.Second, time.Hour)
	}
	faults.add(p.Rate.Burst < 0 || p.Rate.Burst > max(1, p.Rate.Attempts), "rate.burst", FaultContradictory, "must be 1 to attempts")
	faults.add(p.Order != OrderNone && p.Order != OrderByKey, "order", FaultNotAChoice, "must be none or by_key")
	faults.add(p.OnDead != SkipDead && p.OnDead != PauseOnDead, "on_dead", FaultNotAChoice, "must be skip or pause")
	faults.add(p.OnDead == PauseOnDead && p.Order != OrderByKey, "on_dead", FaultContradictory, "must be skip unless order is by_key")
	faults.within("max_redirects", int64(p.MaxRedirects), 0, 3)
	faults.add(p.Compression != CompressionNone && p.Compression != CompressionGzip, "compression", FaultNotAChoice, "must be none or gzip")
	faults.join(p.Circuit.Check())
	faults.join(checkSignatures(p.Signatures))
	faults.join(checkHeaders(p.Headers))
	faults.join(p.Auth.check())
	if len(p.Signatures) <= maxSignatures && len(p.Headers) <= maxHeaders {
		faults.join(p.checkNames())
	}
	return faults.joined()
}

// checkNames returns an error for each header that two settings would set.
func (p Policy) checkNames() error {
	var faults faults
	taken := func(name string) bool {
		return slices.ContainsFunc(p.Headers, func(h Header) bool { return strings.EqualFold(h.Name, name) })
	}
	for i, s := range p.Signatures {
		faults.add(s.Header != "" && (taken(s.Header) || strings.EqualFold(s.Header, p.Auth.Header)),
			fmt.Sprintf("signature.schemes[%d].header", i), FaultRepeated, "must not be a header that something else sets")
	}
	for _, name := range []string{TraceParentHeader, TraceStateHeader} {
		traced := func(s Signature) bool { return strings.EqualFold(s.Header, name) }
		twice := taken(name) || strings.EqualFold(p.Auth.Header, name) || slices.ContainsFunc(p.Signatures, traced)
		faults.add(p.SendTraceParent && twice, "send_traceparent", FaultContradictory, "must be false where another option sets the header "+name)
	}
	faults.add(p.Auth.Header != "" && taken(p.Auth.Header), "auth.header", FaultRepeated, "must not be one of headers")
	return faults.joined()
}
