package store

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/postrider/postrider"
)

// Retention deletes old rows. The janitor calls it; docs/operate/retention.md says what ends the
// rows of each table.
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
	// A dead letter, a replay job, a change of health and a session are old if they were
	// resolved, ended, made or expired then. Unresolved dead letters, jobs that have not ended
	// and the last change of each endpoint stay.
	//
	// With f.Archived it deletes only what is archived: rows of parts that have as many rows Left as
	// are stored now of their ids; see [ArchiveDay]. The attempts of a day go after its bodies, which are archived
	// with the account of their attempt.
	//
	// A store with partitions deletes events, attempts and bodies by whole days, and
	// counts a day as f.Limit rows. It waits 50 ms for the locks that this needs; then it
	// returns postrider.ErrBusy, and nothing has changed.
	DeleteOld(ctx context.Context, f DeleteOld) (int, error)

	// OldRows examines up to q.Limit events, or deliveries, of an account that are older than
	// q.Before, from the one after q.After on, and returns their rows that DeleteRows may delete,
	// and the last event or delivery that it examined; zero: there are no more.
	//
	// An event is not returned while something needs it, or until ReplayGrace is over, as of
	// DeleteOld. Attempts are returned after their heads and bodies were deleted. Of OldKeys it
	// returns the idempotency keys of the events.
	OldRows(ctx context.Context, q OldRows) (rows []OldRow, last RowID, err error)

	// DeleteRows deletes single rows that OldRows has returned, and returns how many. An error
	// may come after some of them. A row that is gone is not counted, and an event that is
	// needed since stays.
	// After the deletion of its idempotency key, a publish with the key is a new event.
	//
	// While an archive is set, the caller has archived the rows.
	DeleteRows(ctx context.Context, kind Kind, rows []OldRow) (int, error)

	// ForgetOrderingKeys examines up to limit ordering keys after the given one, and
	// deletes those of which no event is stored: the next event of such a key has the
	// sequence 1. It returns the last key that it examined; zero: there are no more.
	//
	// A key that a publish uses meanwhile stays.
	ForgetOrderingKeys(ctx context.Context, after OrderingKey, limit int) (OrderingKey, error)

	// ForgetRestored deletes up to limit records that were restored before the time, and returns
	// how many.
	ForgetRestored(ctx context.Context, before time.Time, limit int) (int, error)

	// Shrink gives up to limit free pages of the store's file back to the file system, and
	// returns how many. As long as less than a quarter of the file is free, it keeps the
	// pages for new rows.
	Shrink(ctx context.Context, limit int) (int, error)
}

// Kind is a kind of rows that [Retention.DeleteOld] deletes.
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
	OldNotices     Kind = "notices"
	OldSessions    Kind = "sessions"         // by the time at which they expire, whether they were revoked or not
	OldKeys        Kind = "idempotency keys" // only of OldRows and DeleteRows; of all accounts: ForgetKeys
)

// DeleteOld says what to delete.
type DeleteOld struct {
	Kind   Kind
	Before time.Time // by the store's time of day
	Limit  int       // rows

	// Archived says that an archive is set; only of OldEvents, OldAttempts and OldBodies. See
	// [Archive].
	Archived bool
}

// OldRows asks for the old rows of an account.
type OldRows struct {
	Kind    Kind // OldEvents, OldAttempts, OldBodies or OldKeys
	Account postrider.AccountID
	Before  time.Time
	After   RowID
	Limit   int // events or deliveries
}

// OldRow is the name of an old row.
type OldRow struct {
	ID     RowID // of the event, or of the attempt's delivery
	Number int   // of the attempt; 0: an event
	Key    Key   // the account, and of OldKeys the idempotency key; ID is its event
}

// ExaminedRow is a row that a store has examined for OldRows.
type ExaminedRow struct {
	OldRow

	Goes bool // whether DeleteRows may delete it; false: it stays, or its event or delivery has none
}

// Examined returns the results of OldRows from examined rows, which may be in any order. It stops
// after q.Limit events or deliveries.
func (q OldRows) Examined(examined []ExaminedRow) (rows []OldRow, last RowID) {
	slices.SortFunc(examined, func(a, b ExaminedRow) int { return CompareRows(a.OldRow, b.OldRow) })
	n := 0
	for _, r := range examined {
		if r.ID != last {
			last, n = r.ID, n+1
		}
		if r.Goes {
			rows = append(rows, r.OldRow)
		}
	}
	if n < q.Limit {
		last = RowID{}
	}
	return rows, last
}

// CompareRows orders rows by id and number.
func CompareRows(a, b OldRow) int {
	return cmp.Or(bytes.Compare(a.ID[:], b.ID[:]), cmp.Compare(a.Number, b.Number))
}

// ReplayGrace is how long running replay jobs keep events that retention would delete. It has an
// end, so that a job that never ends does not keep the events of all accounts for ever.
const ReplayGrace = 7 * 24 * time.Hour

// OrderingKey names an ordering key. The zero value is before all of them.
type OrderingKey struct {
	Key     string
	Account postrider.AccountID
}
