package client

import (
	"iter"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/apitypes"
)

// Paging selects one page of a list.
type Paging struct {
	// Limit is the largest number of items, at most 250. 0: the server's
	// default, 50.
	Limit int
	// Cursor is the result of Next of the previous page. Empty: the first page.
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
	From, To    time.Time // created at From or later, and before To
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
	From, To    time.Time // created at From or later, and before To
	OldestFirst bool
	Paging
}

// SearchFilter says what to search for.
type SearchFilter struct {
	Text string
	// Account is the id or uid of the account to search. Values in the data of events are found only in
	// one account. Empty: all accounts, or the account of the API key.
	Account string
}

// EventFilter selects events. A zero field selects all.
type EventFilter struct {
	Account  string // id or uid
	Type     string
	From, To time.Time // created at From or later, and before To

	// IdempotencyKey selects the event that was published with this key, for as long as the server
	// remembers the key. It needs Account, unless the API key is bound to an account.
	IdempotencyKey string
	// Where selects the events that have a value at a path of their data, such as $.order.number=42. It
	// needs an event type that names the path, and Account, unless the API key is bound to an account.
	Where string
	// OrderingKey selects the events with this ordering key. It needs Account, unless the API key
	// is bound to an account.
	OrderingKey string

	OldestFirst bool
	Paging
}

// EndpointFilter selects endpoints. A zero field selects all.
type EndpointFilter struct {
	Account  string                 // id or uid
	UID      string                 // uid of the endpoint; needs Account, unless the API key is bound to an account
	IDs      []postrider.EndpointID // at most 100; empty: no filter
	Status   postrider.EndpointStatus
	Health   postrider.HealthStatus
	Circuit  postrider.CircuitStatus
	Failing  *bool             // whether the last attempts failed; nil: no filter
	Metadata apitypes.Metadata // all of these keys, with these values
	Paging
}

// AccountFilter selects accounts. A zero field selects all.
type AccountFilter struct {
	Metadata apitypes.Metadata // all of these keys, with these values
	Paging
}

// StatsQuery selects a range of statistics. The zero query selects the last day in steps of an
// hour.
type StatsQuery struct {
	// Zero To: now; zero From: an hour, a day or 30 days before To, for steps of a minute, an hour
	// or a day.
	From, To time.Time
	Step     string // minute, hour or day; empty: hour
	Type     string // event type; empty: all types
	TZ       string // time zone of steps of a day, such as Europe/Berlin; empty: UTC
	LeftOut  bool   // also count the events that an endpoint left out; only of EndpointStats
}

// DeadLetterFilter selects dead letters. A zero field selects all, except Resolved.
type DeadLetterFilter struct {
	Account   string
	Endpoint  postrider.EndpointID
	EventType string
	Reason    string    // why the delivery died, such as [postrider.ReasonExhausted]
	Resolved  bool      // true: also resolved dead letters; false: only unresolved ones
	From, To  time.Time // the delivery was created at From or later, and before To

	OldestFirst bool
	Paging
}

// KeyFilter selects API keys. A zero field selects all.
type KeyFilter struct {
	Account string // id or uid of the account that the keys are bound to
	Paging
}

// DeadLetterGroupFilter selects groups of dead letters. A zero field selects all.
type DeadLetterGroupFilter struct {
	Account  string // id or uid
	Endpoint postrider.EndpointID
	Paging
}

// All walks every page of a list. It stops at the first error.
//
//	for endpoint, err := range client.All(func(p client.Paging) (apitypes.Page[apitypes.Endpoint], error) {
//		return c.Endpoints(ctx, client.EndpointFilter{Account: "acme", Paging: p})
//	}) { … }
func All[T any](page func(Paging) (apitypes.Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for p := (Paging{Limit: maxLimit}); ; {
			got, err := page(p)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range got.Data {
				if !yield(item, nil) {
					return
				}
			}
			if p.Cursor = got.Next(); p.Cursor == "" {
				return
			}
		}
	}
}

const maxLimit = 250 // largest Paging.Limit that the server accepts

// withMetadata adds to pairs the query parameters that filter by metadata.
func withMetadata(m apitypes.Metadata, pairs ...string) []string {
	for key, value := range m {
		pairs = append(pairs, "metadata."+key, value)
	}
	return pairs
}
