package client

import (
	"time"

	"github.com/postrider/postrider"
)

// Paging selects one page of a list.
type Paging struct {
	// Limit is the largest number of items, at most 250. 0: the server's
	// default, 50.
	Limit int
	// Cursor is the [Page.Next] of the previous page. Empty: the first page.
	Cursor string
}

// DeliveryFilter selects deliveries. A zero field selects all.
type DeliveryFilter struct {
	Account     string // id or uid
	Endpoint    postrider.EndpointID
	Event       postrider.EventID
	EventType   string
	Status      postrider.Status
	ReplayJob   postrider.ReplayID
	From, To    time.Time // made at From or later, and before To
	OldestFirst bool
	Paging
}

// ReplayFilter selects replays. A zero field selects all.
type ReplayFilter struct {
	Account string // id or uid
	Status  postrider.ReplayStatus
	Paging
}

// EndpointDeliveryFilter selects deliveries of one endpoint. A zero field
// selects all.
type EndpointDeliveryFilter struct {
	Event       postrider.EventID
	EventType   string
	Status      postrider.Status
	ReplayJob   postrider.ReplayID
	From, To    time.Time // made at From or later, and before To
	OldestFirst bool
	Paging
}

// EventFilter selects events. A zero field selects all.
type EventFilter struct {
	Account  string // id or uid
	Type     string
	From, To time.Time // made at From or later, and before To

	// IdempotencyKey selects the event that was published with the key, as long
	// as the server remembers the key. It needs the Account, unless the API key
	// is bound to one.
	IdempotencyKey string
	// OrderingKey selects the events with this ordering key. It needs the Account,
	// unless the API key is bound to one.
	OrderingKey string

	OldestFirst bool
	Paging
}

// EndpointFilter selects endpoints. A zero field selects all.
type EndpointFilter struct {
	Account string                 // id or uid
	UID     string                 // the endpoint's uid; needs the Account, unless the API key is bound to one
	IDs     []postrider.EndpointID // at most 100; empty: no filter
	Status  postrider.EndpointStatus
	Health  postrider.HealthStatus
	Circuit postrider.CircuitStatus
	Failing *bool // whether the last attempts failed; nil: no filter
	Paging
}

// StatsQuery selects a range of stats. The zero query is the last day, by hours.
type StatsQuery struct {
	From, To time.Time // zero: an hour before To, by hours a day, by days 30 days; and now
	Step     string    // minute, hour or day; empty: hour
	Type     string    // event type; empty: all types
	TZ       string    // with days: their time zone, such as Europe/Berlin; empty: UTC
}

// DeadLetterFilter selects dead letters. A zero field selects all; for Resolved
// see there.
type DeadLetterFilter struct {
	Account   string
	Endpoint  postrider.EndpointID
	EventType string
	Reason    string    // why the delivery died, such as [postrider.ReasonExhausted]
	Resolved  bool      // true: also the resolved; false: only the unresolved
	From, To  time.Time // the delivery was created at From or later, and before To

	OldestFirst bool
	Paging
}

// KeyFilter selects API keys. A zero field selects all.
type KeyFilter struct {
	Account string // id or uid of the account that they are bound to
	Paging
}

// DeadLetterGroupFilter selects groups of dead letters. A zero field selects all.
type DeadLetterGroupFilter struct {
	Account  string // id or uid
	Endpoint postrider.EndpointID
	Paging
}
