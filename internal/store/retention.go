package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// Retention deletes what is old. The janitor calls it; see docs/operate/retention.md for
// what ends the rows of each table.
type Retention interface {
	// DeleteOld deletes up to f.Limit rows of f.Kind that are older than f.Before, and
	// returns how many. Fewer than f.Limit: nothing is left to delete.
	//
	// An event stays while something needs it: a pending delivery, an unresolved dead
	// letter or a fan-out job. While a replay job runs, events stay for up to ReplayGrace
	// longer.
	// A replay of an event that is gone is postrider.ErrGone; its deliveries, attempts and
	// dead letters stay listed until they are forgotten themselves.
	// The age of attempts and bodies is that of their delivery. A delivery that is pending
	// goes on, and what it records afterwards is stored.
	// A dead letter, a replay job and a change of health are old if they were resolved,
	// ended or made then. Unresolved dead letters, jobs that have not ended and the last
	// change of each endpoint stay.
	//
	// A store with partitions deletes events, attempts and bodies by whole days, and
	// counts a day as f.Limit rows. It waits 50 ms for the locks that this needs; then it
	// returns postrider.ErrBusy, and nothing has changed.
	DeleteOld(ctx context.Context, f DeleteOld) (int, error)

	// ForgetOrderingKeys examines up to limit ordering keys after the given one, and
	// deletes those of which no event is stored: the next event of such a key has the
	// sequence 1. It returns the last key that it examined; zero: there are no more.
	//
	// A key that a publish uses meanwhile stays.
	ForgetOrderingKeys(ctx context.Context, after OrderingKey, limit int) (OrderingKey, error)

	// Shrink gives up to limit free pages of the store's file back to the file system, and
	// returns how many. As long as less than a quarter of the file is free, it keeps the
	// pages for new rows.
	Shrink(ctx context.Context, limit int) (int, error)
}

// Kind is what [Retention.DeleteOld] deletes.
type Kind string

// The kinds, named as in the log.
const (
	OldEvents      Kind = "events"
	OldAttempts    Kind = "attempts"
	OldBodies      Kind = "bodies"       // heads and bodies of attempts
	OldDeadLetters Kind = "dead letters" // resolved ones
	OldReplayJobs  Kind = "replay jobs"
	OldHealth      Kind = "endpoint health"
	OldAudit       Kind = "audit entries"
)

// DeleteOld says what to delete.
type DeleteOld struct {
	Kind   Kind
	Before time.Time // by the store's time of day
	Limit  int       // rows
}

// ReplayGrace is for how long running replay jobs keep events that retention would delete.
// It has an end, so that a job that never ends does not keep the events of all accounts.
const ReplayGrace = 7 * 24 * time.Hour

// OrderingKey names an ordering key. The zero value is before all of them.
type OrderingKey struct {
	Key     string
	Account postrider.AccountID
}
