package postrider

import "time"

// Source is the outbox of a producer: tables in its PostgreSQL, from which a node reads events.
//
// The API writes all but the fields of [SourceState], which the node writes that reads the source.
type Source struct {
	ID   SourceID
	Name string // unique; as the uid of an account
	// URL is the connection string of the producer's PostgreSQL, without the password.
	URL      string
	Password []byte // sealed by secrets.Vault; nil: none
	CA       string // PEM of the certificates that sign the server's; empty: those of the system
	Keep     time.Duration
	Paused   bool // the reader does not read
	// Table is the mapping of a table of the producer's own; nil: the tables of postrider outbox install.
	Table     *SourceTable
	CreatedAt time.Time
	State     SourceState
}

// SourceTable says which columns of a producer's own outbox table have what. An empty column is not there.
type SourceTable struct {
	Name         string // schema and table, such as public.outbox
	ID           string // column with a unique id: uuid, or a number
	Order        string // column by which rows are read; empty: ID
	Account      string // column with the account
	FixedAccount string // account of all rows, if there is no column Account
	Type         string
	Data         string
	OrderingKey  string
}

// SourceState is what the reader of a source knows, as of At.
type SourceState struct {
	// Cycle rises with each batch that was read and with each session of a reader. [store.Sources] AdvanceSource moves it.
	Cycle int64
	// MovedUntil is a time of the store: all rows that were published before it are known to be gone
	// from the waiting rows of the producer.
	MovedUntil time.Time
	At         time.Time // when the fields below were written; zero: never
	Node       string    // host of the node that reads
	Error      string    // why it does not read; empty: it reads
	ErrorSince time.Time // since when Error is not empty
	Waiting    int64     // rows that wait, about
	Oldest     time.Time // when the oldest waiting row was published; zero: none waits
	OpenSince  time.Time // start of the oldest open transaction of the producer's database; zero: none
	Rejected   int64     // rows that were rejected and wait for a person
	Missing    int64     // events that may be missing after the last restore of the store, because their rows were kept no longer
}
