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
	// DeleteOld deletes up to f.Limit rows of f.Kind that are older than f.Before, and returns their
	// number. If the number is less than f.Limit, nothing is left to delete.
	//
	// An event is as old as its id. It stays while a pending delivery, an unresolved dead letter or
	// a fan-out job needs it. While a replay job runs, events stay for up to ReplayGrace longer.
	// After an event was deleted, a replay of it is postrider.ErrGone. Its deliveries, attempts and
	// dead letters are listed until they are deleted too.
	// An attempt and its bodies are as old as their delivery. A pending delivery goes on after
	// its attempts were deleted, and its later attempts are stored.
	// A dead letter is old if it was resolved before f.Before, a replay job if it ended before then,
	// a change of health if it was made before then, a subscription if it ended before then, a session if it
	// expired before then, and a what-if if its last step ended before then.
	// Unresolved dead letters, replay jobs that have not ended, and the last change of health of
	// each endpoint stay.
	//
	// With f.Archived it deletes only archived rows: the rows of parts whose Left is the number of
	// rows that are stored now with ids of the part; see [ArchiveDay]. It deletes the bodies of a day
	// before the attempts, because an archived body has the account of its attempt. Without f.Archived
	// it also deletes rows that no part has. If a part counts a deleted row, DeleteOld reduces its count,
	// because the archive may be set again.
	//
	// A store with partitions deletes events, attempts and bodies by whole days, and counts a day
	// as f.Limit rows. While others use the table of the day, it waits for up to a second, and then
	// for 50 ms for the locks. After that it returns postrider.ErrBusy, and nothing has changed.
	DeleteOld(ctx context.Context, f DeleteOld) (int, error)

	// OldRows looks for rows of one account that DeleteRows may delete. It examines up to q.Limit
	// events (for OldEvents and OldKeys) or deliveries (for OldAttempts and OldBodies), in the order
	// of their ids, the first one after q.After. It examines only those that are older than q.Before.
	// last is the last one that it examined; zero: there are no more.
	//
	// An event that DeleteOld would keep, because something needs it or a replay job runs, is not
	// returned. An attempt is returned only after its heads and bodies were deleted. For OldKeys the
	// rows are the idempotency keys of the events.
	OldRows(ctx context.Context, q OldRows) (rows []OldRow, last RowID, err error)

	// DeleteRows deletes single rows that OldRows has returned, and returns the number of deleted
	// rows. If it returns an error, some of the rows may be deleted. A row that no longer exists is
	// not counted. An event that something needs by now stays.
	// After an idempotency key was deleted, a publish with the key is a new event.
	//
	// While an archive is set, the caller must archive the rows before the call. If a part of their
	// day counts them too, DeleteRows reduces its count; see [ArchiveDay].
	DeleteRows(ctx context.Context, kind Kind, rows []OldRow) (int, error)

	// ForgetOrderingKeys examines up to limit ordering keys after the given key, and deletes each key
	// without a stored event. The next event of a deleted key has the sequence 1. It returns the last
	// key that it examined; zero: there are no more.
	//
	// A key that a publish uses at the same time stays.
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

	OldSubscriptions Kind = "subscriptions" // earlier ones, by when they ended
	OldWhatIfs       Kind = "what ifs"      // by the end of their last step, whether they have ended or not
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
