package postrider

import (
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
	Credentials  []byte    // [Credentials], encrypted; nil: none
	VerifiedAt   time.Time // when its owner proved to want events at this URL; zero: never
	Revision     int64     // counts changes, from 1
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
