package postrider

import (
	"crypto/sha256"
	"time"
)

// Expunge is the removal of an event, an endpoint or an account from the store, with all that is
// stored about it. Package expunge removes the rows in chunks. The row of the Expunge itself stays, as
// a proof: it has ids, counts and a digest, and no removed data.
type Expunge struct {
	ID       ExpungeID
	Event    EventID    // event to remove; zero: an endpoint or an account is removed
	Endpoint EndpointID // endpoint to remove; zero: an event or an account is removed
	Account  AccountID  // account to remove, or the account of the event or endpoint
	By       string     // who asked for the expunge

	// The store writes the fields from Removed to EndedAt at each step of the expunge.
	Removed    ExpungeCounts
	Digest     ExpungeDigest
	EmptySince time.Time // time of the first search that found no rows; zero: the last search found some
	Archive    ExpungeArchive
	Outbox     ExpungeOutbox
	EndedAt    time.Time // zero: the expunge has not ended
	CreatedAt  time.Time
}

// ExpungeArchive is the progress of the expunge of an event or endpoint in the archive. The expunge
// reaches the archive when no more rows can be added to the store. For an account this stays zero,
// because its archives become unreadable with the account's key.
type ExpungeArchive struct {
	Day   time.Time // next day of ids to look at; zero: not begun
	Done  bool      // all days were looked at
	Held  bool      // parts of the archive that may have its records were missing, or no archive is set
	Fault string    // why the last step failed; empty: it succeeded
}

// ExpungeOutbox is the progress of the expunge of an account in the outboxes of producers. For an event or
// endpoint it stays zero: the rows that were read are dropped soon.
type ExpungeOutbox struct {
	UID     string // of the account when the expunge began, because rows may have it; empty after the end
	Removed int    // rows
	Fault   string // which outboxes could not be reached the last time, and why; empty: all were
}

// InArchive reports whether the next rows to remove are in the archive.
func (e Expunge) InArchive() bool {
	return e.EndedAt.IsZero() && !e.Archive.Day.IsZero() && !e.Archive.Done
}

// begins returns the day on which the event or endpoint was created. None of its rows has an id of
// an earlier day.
func (e Expunge) begins() time.Time {
	made := e.Endpoint.Time()
	if !e.Event.IsZero() {
		made = e.Event.Time()
	}
	return made.UTC().Truncate(24 * time.Hour)
}

// ExpungeCounts are the numbers of rows that an expunge has removed.
type ExpungeCounts struct {
	Events        int // each with its payload and idempotency key
	Attempts      int // each with its heads and bodies; also decisions without a request
	DeadLetters   int
	Terms         int // terms by which events are found
	Subscriptions int // earlier subscriptions of endpoints
	Other         int // requests of inspectors, secrets, sessions, statistics and other rows
	Archived      int // records of the archive
}

// Total returns the number of rows that were removed from the store, without the archive.
func (c ExpungeCounts) Total() int {
	return c.Events + c.Attempts + c.DeadLetters + c.Terms + c.Subscriptions + c.Other
}

// Add adds the counts of other.
func (c *ExpungeCounts) Add(other ExpungeCounts) {
	c.Events += other.Events
	c.Attempts += other.Attempts
	c.DeadLetters += other.DeadLetters
	c.Terms += other.Terms
	c.Subscriptions += other.Subscriptions
	c.Other += other.Other
	c.Archived += other.Archived
}

// ExpungeDigest identifies the events that were removed, for a person who still has copies of them.
// Each removed event in turn sets it to the SHA-256 of three values: the digest so far, the 16
// bytes of the event's id, and the SHA-256 of its payload. It is zero before the first event.
type ExpungeDigest [sha256.Size]byte

// Add adds a removed event to the digest.
func (d *ExpungeDigest) Add(id EventID, payload []byte) {
	sum := sha256.Sum256(payload)
	*d = sha256.Sum256(append(append(append(make([]byte, 0, 80), d[:]...), id[:]...), sum[:]...))
}

// Found records the result of a search for rows at the time now. removed counts the rows that the
// search found and removed. waits says that rows are left that cannot be removed yet, because other
// work must end first. When no rows were found for the time settled, the expunge goes on with the
// archive, and ends after that. While an outbox cannot be reached, it does not end.
func (e *Expunge) Found(removed ExpungeCounts, waits bool, now time.Time, settled time.Duration) {
	e.Removed.Add(removed)
	switch {
	case removed.Total() > 0 || waits:
		e.EmptySince, e.Archive = time.Time{}, ExpungeArchive{}
	case e.EmptySince.IsZero():
		e.EmptySince = now
	case now.Before(e.EmptySince.Add(settled)), e.Outbox.Fault != "":
	case e.Event.IsZero() && e.Endpoint.IsZero() || e.Archive.Done:
		e.EndedAt, e.Outbox.UID = now, ""
	case e.Archive.Day.IsZero():
		e.Archive.Day = e.begins()
	}
}

// ExpungeSettled is for how long an expunge must find no rows before it ends. An attempt that was
// under way may be recorded during that time.
const ExpungeSettled = 15 * time.Minute

// ActionExpunged is the action of the audit entry that is written at the end of an expunge.
const ActionExpunged = "expunged"

// ExpungedURL is the URL of an endpoint that was expunged. Nothing is ever sent to it.
const ExpungedURL = "https://expunged.invalid/"
