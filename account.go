package postrider

import "time"

// Account is a customer of the platform that runs Postrider. Endpoints and events
// belong to an account. UID is the platform's own name for it; it is unique and
// may be empty.
type Account struct {
	ID        AccountID
	UID       string
	Name      string
	CreatedAt time.Time
	DeletedAt time.Time // zero: not deleted
	Retention AccountRetention
}

// AccountRetention says for how many days what belongs to an account is kept, where that is
// shorter than the retention of the server. 0: as long as the server keeps it.
type AccountRetention struct {
	Events          int // with their data
	Attempts        int // from the creation of their delivery
	Bodies          int // heads and bodies of attempts, likewise
	IdempotencyKeys int // not longer than events
}

// EventType is an entry of the platform's catalogue of event types. It is
// documentation only: an event may have a type that is not in the catalogue.
type EventType struct {
	Name        string
	Description string
	Example     []byte // data of an event of the type, as JSON; empty: none is known
	CreatedAt   time.Time
}
