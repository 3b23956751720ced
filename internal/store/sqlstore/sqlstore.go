// Package sqlstore has the verbs of a store that are not hot, written once for all SQL
// databases.
//
// The hot verbs, which each event and each delivery pass through, are written by hand for
// each database, in packages postgres and sqlite. All others may be a little slower, and are
// here: a store embeds [Verbs], and gives it a [Database].
//
// A statement is written for PostgreSQL, in the part of its language that SQLite has too;
// dialect.go turns it into SQLite's and says what that part is. Columns have the same names in
// both databases. What they hold differs: see [Args] and [Row].
package sqlstore

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Verbs are the verbs of a store that are not hot: those of store.Access, store.Audit,
// store.Catalogue, store.Destinations, store.Directory, store.Inspections, store.Notices,
// store.PortalSettings and store.Sessions, and most of those of store.Archive, store.Encryption,
// store.Expunges, store.Quotas, store.Replays and store.Restored. Of others it has Circuits,
// HealthHistory, Held, PutCircuit and PutHealth.
type Verbs struct {
	db    Database
	calls store.Calls
}

// New returns the verbs of a database.
func New(db Database, calls store.Calls) Verbs { return Verbs{db, calls} }

// Database is what the verbs need of a database. Its errors are those that package store
// promises.
type Database interface {
	// Query has read read the rows of a statement. It is bounded in time as a list for
	// people is. read may run more than once.
	Query(ctx context.Context, q Query, read func(Rows) error) error

	// Exec runs one statement in a transaction of its own, and returns how many rows it
	// changed.
	Exec(ctx context.Context, fate Fate, q Query) (int64, error)

	// Change runs do in a transaction, which ends with it. do may run more than once, so
	// what an earlier run has left in memory must not count.
	Change(ctx context.Context, fate Fate, do func(ctx context.Context, tx Tx) error) error

	// Unindexed returns the column in such words that the planner walks no index of it.
	Unindexed(column string) string

	// Clock is the time of the store.
	Clock() *store.Clock
}

// Tx is a transaction.
type Tx interface {
	// Query has read read the rows of a statement.
	Query(ctx context.Context, q Query, read func(Rows) error) error

	// Exec runs a statement and returns how many rows it changed.
	Exec(ctx context.Context, q Query) (int64, error)

	// ExecAll runs a statement once for each of the arguments, and returns how many rows all
	// of them changed.
	ExecAll(ctx context.Context, statement string, args []Args) (int64, error)

	// Lock keeps other transactions that lock the same name and id waiting until this one
	// ends.
	Lock(ctx context.Context, name string, id [16]byte) error

	// Now is the time of the transaction that decides what is due.
	Now() time.Time

	// Wall is the time of day of the transaction as this process knows it. What a statement
	// stores for people to see is now().
	Wall() time.Time

	// Again says that an earlier run of this transaction may be stored: the reply to its
	// commit was lost.
	Again() bool
}

// Fate says what may be done with a transaction of which nobody knows whether it was stored,
// because the reply to its commit was lost.
type Fate int

// The two fates.
const (
	Once       Fate = iota // it must not run again: the caller gets postrider.ErrBusy
	Repeatable             // it may run again, and then has the same effect and result as once
)

// Query is a statement with its arguments.
type Query struct {
	SQL  string // with @name for each argument
	Args Args
}

// Args are arguments by their names; a statement need not have all of them. A zero time, and
// what OrNull says, is null.
//
//   - An id is a uuid in PostgreSQL and a blob in SQLite.
//   - A time is a timestamptz, or microseconds since 1970.
//   - A duration is microseconds.
//   - A list of texts is a text[], or a JSON array; nil is null.
//   - A list of ids is a uuid[], or a JSON array of hexadecimal digits.
//   - A map is jsonb, or JSON as text.
//   - A hash, [32]byte, is bytes.
type Args map[string]any

// Rows are the rows of a result. The store closes them, and returns the error that ended them.
type Rows interface {
	// Next goes to the next row, and returns false if there is none.
	Next() bool
	Row
}

// Row is a row of a result.
type Row interface {
	// Scan copies the columns into what the pointers point to: an id, a time, a list of
	// texts, a map, a hash, bytes, a duration, or any type of string, number or bool. Null
	// becomes the zero value.
	Scan(into ...any) error
}

// OrNull returns the value as an argument that is null if it is the zero value.
func OrNull[T comparable](value T) any {
	var zero T
	if value == zero {
		return nil
	}
	return value
}

// exec runs one statement in a transaction of its own, however many rows it changes.
func (v Verbs) exec(ctx context.Context, fate Fate, q Query) error {
	_, err := v.db.Exec(ctx, fate, q)
	return err
}

// found turns no changed row into postrider.ErrNotFound.
func found(changed int64, err error) error {
	if err == nil && changed == 0 {
		return postrider.ErrNotFound
	}
	return err
}
