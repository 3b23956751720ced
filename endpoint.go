package postrider

import (
	"log/slog"
	"slices"
	"time"
)

// Endpoint is a URL, or an inspector in the server, that gets the events of an account
// whose type one of its patterns matches. Its policy says how they are sent. The API
// creates and changes it; the janitor and the dispatcher change its status.
//
// An endpoint with a PolicyError is set aside: new events create deliveries for
// it, and none is sent until its policy can be read again. Of its Policy only
// Order, OnDead, Expiry and Retry are set, as far as they can be read, since new
// deliveries need them. An empty Order is one that cannot be read.
type Endpoint struct {
	ID           EndpointID
	Account      AccountID
	Kind         EndpointKind // set when it is created
	UID          string       // the platform's own name, unique in the account; may be empty
	URL          string       // empty: an inspector has none
	Description  string
	EventTypes   []Pattern // at least one; an event needs to match only one of them
	Status       EndpointStatus
	StatusReason string    // why it is paused or disabled; empty: the person gave no reason
	StatusSince  time.Time // when the status changed last; set by the store
	Policy       Policy
	PolicyError  string    // why the stored policy cannot be read, with the names of its fields; set by the store; empty: Policy is the stored one
	Credentials  []byte    // [Credentials], encrypted; nil: none
	FullSince    time.Time // since when its backlog is full, see [EndpointBacklog]; set by the store; zero: it is not
	VerifiedAt   time.Time // when its owner confirmed this URL by a handshake; zero: never, or the URL has changed since
	Revision     int64     // number of changes, from 1; the API's ETag
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// EndpointStatus says whether an endpoint gets requests.
type EndpointStatus string

// The statuses of an endpoint.
const (
	// EndpointEnabled: requests are sent. An endpoint is created so; enabling or
	// resuming it restores the status.
	EndpointEnabled EndpointStatus = "enabled"
	// EndpointPaused: a person paused it. No request is sent. New events still
	// create deliveries, which wait until it is resumed.
	EndpointPaused EndpointStatus = "paused"
	// EndpointDisabled: a person disabled it, it responded 410, even while it was paused,
	// or it failed for too long. No request is sent. Pending deliveries wait until it is enabled; new
	// events are skipped for it.
	EndpointDisabled EndpointStatus = "disabled"
	// EndpointDeleted: a person deleted it, or its account. Pending deliveries are
	// cancelled. Final.
	EndpointDeleted EndpointStatus = "deleted"
)

// Subscribes reports whether one of the endpoint's patterns selects the type.
func (e Endpoint) Subscribes(eventType string) bool {
	return slices.ContainsFunc(e.EventTypes, func(p Pattern) bool { return p.Matches(eventType) })
}

// WantsOperational reports whether the endpoint subscribes to an operational event.
// Notices about such an endpoint get none: what fails because of an operational event must
// not cause another one.
func (e Endpoint) WantsOperational() bool {
	return slices.ContainsFunc(e.EventTypes, func(p Pattern) bool { return IsOperational(string(p)) })
}

// TargetURL returns the URL of the endpoint's requests. An inspector has no URL; its
// requests show one that nobody can reach.
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
