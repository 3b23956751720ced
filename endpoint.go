package postrider

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"
)

// Endpoint is where to send: a URL, who subscribed to what, and how to treat
// it.
type Endpoint struct {
	ID           EndpointID
	Account      AccountID
	UID          string // the platform's own name, unique in the account; may be empty
	URL          string
	Description  string
	EventTypes   []Pattern // any that matches subscribes
	Status       EndpointStatus
	StatusReason string // why it is paused or disabled; empty when a person did not say
	Policy       Policy
	Revision     int64 // counts changes, from 1
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// EndpointStatus is whether an endpoint is sent to.
type EndpointStatus string

// The statuses of an endpoint.
const (
	EndpointEnabled  EndpointStatus = "enabled"
	EndpointPaused   EndpointStatus = "paused"   // new deliveries queue and wait
	EndpointDisabled EndpointStatus = "disabled" // what is queued waits; new events are skipped
	EndpointDeleted  EndpointStatus = "deleted"  // what is queued is cancelled
)

// Subscribes reports whether one of the endpoint's patterns selects the type.
func (e Endpoint) Subscribes(eventType string) bool {
	return slices.ContainsFunc(e.EventTypes, func(p Pattern) bool { return p.Matches(eventType) })
}

// LogValue makes a log line name the endpoint; its URL may hold a secret.
func (e Endpoint) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", e.ID.String()), slog.String("status", string(e.Status)))
}

// Secret is a key that an endpoint's requests are signed with. Several are
// active during a rotation.
type Secret struct {
	ID        SecretID
	Endpoint  EndpointID
	Key       []byte // 24 to 64 random bytes
	CreatedAt time.Time
	ExpiresAt time.Time // zero: until it is rotated
}

// ActiveAt reports whether the secret signs at now.
func (s Secret) ActiveAt(now time.Time) bool { return s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt) }

// LogValue keeps the key out of every log.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.ID.String()) }

// Policy is how an endpoint wants to be treated. [DefaultPolicy] has the
// defaults; a stored policy has every field set.
type Policy struct {
	Retry        RetryPolicy
	Timeout      time.Duration // of a whole attempt, DNS to last body byte; 1 to 30 s
	ClientErrors ClientErrors
	Concurrency  int           // attempts in flight at once; 1 to 1,000
	Expiry       time.Duration // a delivery pending for longer is a dead letter; 1 minute to 90 days
	Signatures   []Scheme      // every one of them is on every request
	Payload      Payload

	AdaptiveTimeout bool // Timeout is shortened while the endpoint keeps timing out
	Circuit         CircuitPolicy
	Rate            Rate
	Order           Order
	OnDead          OnDead // what a dead letter does to its ordering key
}

// Rate is how many attempts may start in a span of time. The zero Rate is
// unlimited.
type Rate struct {
	Attempts int           // 1 to 100,000
	Per      time.Duration // 1 s to an hour
}

// Order says in which order events reach an endpoint.
type Order string

// The orders.
const (
	OrderNone  Order = "none"   // as they are ready
	OrderByKey Order = "by_key" // those of one ordering key by their sequence, one at a time
)

// OnDead says what becomes of an ordering key when one of its deliveries ends
// as a dead letter.
type OnDead string

// The two ways to go on.
const (
	SkipDead    OnDead = "skip"  // the next goes
	PauseOnDead OnDead = "pause" // the key waits until the dead letter is replayed or discarded
)

// ClientErrors says what a 4xx answer does to a delivery.
type ClientErrors string

// The two ways to take a client error. 408, 409, 425 and 429 are always
// retried, and 410 never is.
const (
	RetryClientErrors      ClientErrors = "retry"
	DeadLetterClientErrors ClientErrors = "dead_letter"
)

// Scheme names a signature format of SIGNATURES.md.
type Scheme string

// The signature schemes.
const (
	SchemeStandard    Scheme = "standard" // Standard Webhooks v1
	SchemeTimestamped Scheme = "timestamped"
	SchemePlain       Scheme = "plain"
)

// Schemes lists every signature scheme there is.
var Schemes = []Scheme{SchemeStandard, SchemeTimestamped, SchemePlain}

// Payload says what the body of a request is.
type Payload string

// The payloads.
const (
	PayloadEnvelope Payload = "envelope" // {"id","type","api_version","timestamp","data"}
	PayloadRaw      Payload = "raw"      // the event's data alone
)

// DefaultPolicy returns the policy of an endpoint that asked for nothing.
func DefaultPolicy() Policy {
	return Policy{
		Retry:        RetryPolicy{Preset: "default"},
		Timeout:      10 * time.Second,
		ClientErrors: RetryClientErrors,
		Concurrency:  10,
		Expiry:       7 * 24 * time.Hour,
		Signatures:   []Scheme{SchemeStandard},
		Payload:      PayloadEnvelope,
		Circuit:      CircuitPresets["default"],
		Order:        OrderNone,
		OnDead:       SkipDead,
	}
}

// Check returns every fault of the policy, joined, each an [InvalidError] that
// names its field as the API does.
func (p Policy) Check() error {
	faults := []error{p.Retry.Check()}
	refuse := func(wrong bool, field, reason string) {
		if wrong {
			faults = append(faults, &InvalidError{Field: field, Reason: reason})
		}
	}
	refuse(p.Timeout < time.Second || p.Timeout > 30*time.Second, "timeout_ms", "must be 1000 to 30000")
	refuse(p.ClientErrors != RetryClientErrors && p.ClientErrors != DeadLetterClientErrors,
		"client_errors", "must be retry or dead_letter")
	refuse(p.Concurrency < 1 || p.Concurrency > 1000, "concurrency", "must be 1 to 1000")
	refuse(p.Expiry < time.Minute || p.Expiry > 90*24*time.Hour, "expiry_ms", "must be one minute to 90 days")
	refuse(len(p.Signatures) == 0, "signature.schemes", "must name at least one scheme")
	for i, s := range p.Signatures {
		field := fmt.Sprintf("signature.schemes[%d]", i)
		refuse(!slices.Contains(Schemes, s), field, "must be standard, timestamped or plain")
		refuse(slices.Contains(p.Signatures[:i], s), field, "must not repeat a scheme")
	}
	refuse(p.Payload != PayloadEnvelope && p.Payload != PayloadRaw, "payload", "must be envelope or raw")
	refuse(p.Rate != Rate{} && (p.Rate.Attempts < 1 || p.Rate.Attempts > 100_000), "rate.attempts", "must be 1 to 100000")
	refuse(p.Rate != Rate{} && (p.Rate.Per < time.Second || p.Rate.Per > time.Hour), "rate.per_ms", "must be 1000 to 3600000")
	refuse(p.Order != OrderNone && p.Order != OrderByKey, "order", "must be none or by_key")
	refuse(p.OnDead != SkipDead && p.OnDead != PauseOnDead, "on_dead", "must be skip or pause")
	refuse(p.OnDead == PauseOnDead && p.Order != OrderByKey, "on_dead", "must be skip unless order is by_key")
	return errors.Join(append(faults, p.Circuit.Check())...)
}
