// Package sqlstore has the verbs of a store that run less often, written once for all SQL
// databases.
//
// The hot verbs run for each event or each delivery. Packages postgres and sqlite implement them
// by hand for their database. All other verbs may be a little slower, and are in this package. A
// store embeds [Verbs] and passes a [Database] to [New].
//
// The statements are written in a part of PostgreSQL's language that can be translated for
// SQLite; dialect.go has the rules and the translation. Both databases have the same names of
// columns. The stored types differ: see [Args] and [Row].
package sqlstore

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Verbs has all verbs of store.Access, store.Audit, store.Catalogue, store.Destinations,
// store.Directory, store.Encryption, store.Finder, store.Inspections, store.Notices,
// store.PortalSettings, store.Rollups, store.Sessions, store.Sources and store.WhatIfs. It has most verbs of store.Archive,
// store.Expunges, store.Quotas, store.Replays and store.Restored. It also has Attempts, Circuits,
// DeleteEndpoints, ForgetKeys, ForgetRestored, HealthHistory, HealthInputs, Held, OldRows,
// PutCircuit and PutHealth.
type Verbs struct {
	db    Database
	calls store.Calls
}

// New returns the verbs of a database.
func New(db Database, calls store.Calls) Verbs { return Verbs{db, calls} }

// Database is the access to a database that the verbs need. Its methods return the errors that
// package store promises.
type Database interface {
	// Query runs a statement and calls read with its rows. Its time is limited like that of a list
	// for people. It may call read more than once.
	Query(ctx context.Context, q Query, read func(Rows) error) error

	// Count is like Query, for a statement whose plan must not depend on the statistics of
	// PostgreSQL, because it reads pending deliveries or many days.
	Count(ctx context.Context, q Query, read func(Rows) error) error

	// Exec runs one statement in a transaction of its own, and returns the number of changed rows.
	Exec(ctx context.Context, fate Fate, q Query) (int64, error)

	// Change runs do in a transaction, and ends the transaction. It may run do more than once, so do
	// must not use values that an earlier run left in memory.
	Change(ctx context.Context, fate Fate, do func(ctx context.Context, tx Tx) error) error

	// Pieces calls do with the numbers of rows that one transaction may change, until limit rows are
	// done or do has done fewer than it might. It returns the number of rows that are done.
	Pieces(ctx context.Context, limit int, do func(size int) (int, error)) (int, error)

	// Unindexed returns an expression for the column that keeps the planner from walking an index of
	// the column.
	Unindexed(column string) string

	// EventTables returns the names of the tables that have events. The first is the table of all
	// events. The others have copies of some events, which stay after the day of the event was deleted.
	EventTables() []string

	// Clock returns the time of the store.
	Clock() *store.Clock
}

// Tx is a transaction.
type Tx interface {
	// Query runs a statement and calls read with its rows.
	Query(ctx context.Context, q Query, read func(Rows) error) error

	// QueryAll runs a statement once for each element of args, and calls read with the rows of each
	// run.
	QueryAll(ctx context.Context, statement string, args []Args, read func(Rows) error) error

	// Exec runs a statement and returns the number of changed rows.
	Exec(ctx context.Context, q Query) (int64, error)

	// ExecAll runs a statement once for each element of args. It returns the total number of changed
	// rows.
	ExecAll(ctx context.Context, statement string, args []Args) (int64, error)

	// Lock makes other transactions that lock the same name and id wait until this transaction ends.
	Lock(ctx context.Context, name string, id [16]byte) error

	// Now returns the transaction's time that decides which work is due.
	Now() time.Time

	// Wall returns the transaction's time of day, as this process knows it. For times that people
	// see, statements store now() instead.
	Wall() time.Time

	// Again reports whether an earlier run of this transaction may have been stored, because the
	// reply to its commit was lost.
	Again() bool
}

// Fate says what happens to a transaction after the reply to its commit was lost, when nobody
// knows whether it was stored.
type Fate int

// There are three fates.
const (
	Once       Fate = iota // the transaction must not run again: the caller gets postrider.ErrBusy
	Repeatable             // the transaction may run again, with the same effect and result as one run
	Bulk                   // as Once; it has many rows, and lets publishes and settlements go first
)

// Query is a statement and its arguments.
type Query struct {
	SQL  string // each argument appears as @name
	Args Args
}

// Args are arguments by their names. A statement need not use all of them. A zero time is null,
// and so is a zero value passed through [OrNull]. Values have these types in the databases:
//
//   - An id is a uuid in PostgreSQL and a blob in SQLite.
//   - A time is a timestamptz in PostgreSQL, and microseconds since 1970 in SQLite.
//   - A duration is a number of microseconds.
//   - A list of texts is a text[] in PostgreSQL and a JSON array in SQLite; nil is null.
//   - A list of ids is a uuid[] in PostgreSQL, and a JSON array of hexadecimal digits in SQLite.
//   - A map is jsonb in PostgreSQL, and JSON as text in SQLite.
//   - A hash, [32]byte, is bytes.
type Args map[string]any

// Rows are the rows of a result. The store closes them, and returns the error that ended them.
type Rows interface {
	// Next moves to the next row. It returns false if there is none.
	Next() bool
	Row
}

// Row is a row of a result.
type Row interface {
	// Scan copies the columns into the variables to which the pointers point. A variable may be an
	// id, a time, a list of texts, a map, a hash, bytes, a duration, or any type of string, number
	// or bool. Null becomes the zero value.
	Scan(into ...any) error
}

// OrNull returns the value as an argument. The zero value becomes null.
func OrNull[T comparable](value T) any {
	var zero T
	if value == zero {
		return nil
	}
	return value
}

// exec runs one statement in a transaction of its own and ignores the number of changed rows.
func (v Verbs) exec(ctx context.Context, fate Fate, q Query) error {
	_, err := v.db.Exec(ctx, fate, q)
	return err
}

// found returns postrider.ErrNotFound if no row was changed.
func found(changed int64, err error) error {
	if err == nil && changed == 0 {
		return postrider.ErrNotFound
	}
	return err
}
