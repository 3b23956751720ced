package postrider

import "time"

// Account is a customer of the platform that runs Postrider. Endpoints and events belong to an
// account. UID is the platform's own name for the account; it is unique and may be empty.
type Account struct {
	ID        AccountID
	UID       string
	Name      string
	CreatedAt time.Time
	DeletedAt time.Time // zero: not deleted
	Metadata  Metadata  // the customers of the account may read it
	Revision  int64     // number of changes, from 1; the API's ETag
	Retention AccountRetention
}

// AccountRetention says for how many days the rows of one account are kept, if that is shorter than
// the retention of the server. 0: as long as the server keeps them.
type AccountRetention struct {
	Events          int // an event with its data
	Attempts        int // an attempt, counted from the creation of its delivery
	Bodies          int // heads and bodies of an attempt, counted from the creation of its delivery
	IdempotencyKeys int // not longer than Events
}

// EventType is an entry of the platform's catalogue of event types. It documents the type, and names the
// paths by whose values its events are found. An event may have a type that is not in the catalogue.
type EventType struct {
	Name        string
	Description string
	Example     []byte // data of an example event, as JSON; empty: the catalogue has no example
	Revision    int64  // number of changes, from 1; the API's ETag
	CreatedAt   time.Time
	Paths       []IndexedPath // at most MaxIndexedPaths
}
