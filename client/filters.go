package client

import (
	"time"

	"github.com/postrider/postrider"
)

// Paging asks for one page of a list.
type Paging struct {
	Limit  int    // at most 250; 0: the server's default, 50
	Cursor string // a [Page.Next]; empty: from the start
}

// DeliveryFilter selects deliveries; a zero field does not.
type DeliveryFilter struct {
	Account     string // an id or your own uid
	Endpoint    postrider.EndpointID
	Event       postrider.EventID
	EventType   string
	Status      postrider.Status
	From, To    time.Time // made at From or later, and before To
	OldestFirst bool
	Paging
}

// EndpointDeliveryFilter selects deliveries of one endpoint; a zero field does
// not.
type EndpointDeliveryFilter struct {
	Event       postrider.EventID
	EventType   string
	Status      postrider.Status
	From, To    time.Time // made at From or later, and before To
	OldestFirst bool
	Paging
}

// EventFilter selects events; a zero field does not.
type EventFilter struct {
	Account  string // an id or your own uid
	Type     string
	From, To time.Time // made at From or later, and before To

	// IdempotencyKey selects the event that the key stands for, while the server
	// remembers the key. It needs the Account, unless the API key is bound to one.
	IdempotencyKey string

	OldestFirst bool
	Paging
}

// EndpointFilter selects endpoints; a zero field does not.
type EndpointFilter struct {
	Account string // an id or your own uid
	UID     string // the endpoint's own; needs the account
	Status  postrider.EndpointStatus
	Paging
}

// DeadLetterFilter selects dead letters; a zero field does not.
type DeadLetterFilter struct {
	Account   string
	Endpoint  postrider.EndpointID
	EventType string
	Reason    string    // why it died, as in [postrider.ReasonExhausted]
	Resolved  bool      // the resolved ones too
	From, To  time.Time // the delivery was made at From or later, and before To

	OldestFirst bool
	Paging
}
