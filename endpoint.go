package postrider

import (
	"log/slog"
	"slices"
	"time"
)

// Endpoint is a URL, or an inspector in the server, that gets the events of an account. It gets an
// event if one of its patterns matches the event's type and the filter of its policy, if there is one,
// holds for the event. Its policy also says how the events are sent.
// The API creates and changes an endpoint; the janitor and the dispatcher change its status.
//
// An endpoint with a PolicyError is set aside: new events create deliveries for it, but none is
// sent until its policy can be read again. Of its Policy only Filter, Changed, Channels, Order, OnDead, Expiry
// and Retry are set, as far as they can be read, because creating deliveries needs them. An empty Order means
// that the order cannot be read.
type Endpoint struct {
	ID           EndpointID
	Account      AccountID
	Kind         EndpointKind // set when the endpoint is created
	UID          string       // the platform's own name for the endpoint, unique in the account; may be empty
	URL          string       // empty for an inspector
	Description  string
	Metadata     Metadata
	EventTypes   []Pattern // at least one; an event is sent if one of them matches its type
	Status       EndpointStatus
	StatusReason string    // why it is paused or disabled; empty: nobody gave a reason
	StatusSince  time.Time // when the status changed last; set by the store
	Policy       Policy
	// Why the stored policy cannot be read, with the names of the unreadable fields; set by the
	// store; empty: Policy is the stored policy.
	PolicyError string
	// Whether the endpoint is set aside because its condition failed for many events in a row. Then
	// PolicyError says so, and Policy is the stored policy all the same.
	ConditionFailed bool
	Credentials     []byte // [Credentials], encrypted; nil: none
	// When its backlog became full, see [EndpointBacklog]; set by the store; zero: it is not full.
	FullSince  time.Time
	VerifiedAt time.Time // when its owner verified this URL by a handshake; zero: never, or the URL has changed since
	Revision   int64     // number of changes, from 1; the API's ETag
	CreatedAt  time.Time
	UpdatedAt  time.Time
}

// EndpointStatus says whether an endpoint gets requests.
type EndpointStatus string

// The statuses of an endpoint.
const (
	// EndpointEnabled: requests are sent. A new endpoint is enabled. A person sets the status again
	// by enabling or resuming the endpoint.
	EndpointEnabled EndpointStatus = "enabled"
	// EndpointPaused: a person paused the endpoint. No request is sent. New events still create
	// deliveries, which wait until the endpoint is resumed.
	EndpointPaused EndpointStatus = "paused"
	// EndpointDisabled: a person disabled the endpoint, it responded 410 (even while it was
	// paused), or it failed for too long. No request is sent. Pending deliveries wait until it is
	// enabled; new events are skipped for it.
	EndpointDisabled EndpointStatus = "disabled"
	// EndpointDeleted: a person deleted the endpoint or its account. Pending deliveries are
	// cancelled. Final.
	EndpointDeleted EndpointStatus = "deleted"
)

// Subscribes reports whether one of the endpoint's patterns selects the type.
func (e Endpoint) Subscribes(eventType string) bool {
	return slices.ContainsFunc(e.EventTypes, func(p Pattern) bool { return p.Matches(eventType) })
}

// WantsOperational reports whether the endpoint subscribes to an operational event. A notice about
// such an endpoint publishes no operational event: otherwise a failing operational event could
// cause the next one.
func (e Endpoint) WantsOperational() bool {
	return slices.ContainsFunc(e.EventTypes, func(p Pattern) bool { return IsOperational(string(p)) })
}

// TargetURL returns the URL of the endpoint's requests. An inspector has no URL, so its requests
// show a URL that nobody can reach.
func (e Endpoint) TargetURL() string {
	if e.Kind == KindInspector {
		return "https://inspector.invalid/" + e.ID.String()
	}
	return e.URL
}

// LogValue logs the id and the status. The URL may hold a secret.
func (e Endpoint) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", e.ID.String()), slog.String("status", string(e.Status)))
}
