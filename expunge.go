package postrider

import (
	"crypto/sha256"
	"time"
)

// Expunge is the removal of an event, an endpoint or an account from the store, with all that
// is stored about it. The janitor does it at a pace. The row stays, as the proof: it has ids,
// counts and a digest, and nothing of what was removed.
type Expunge struct {
	ID       ExpungeID
	Event    EventID    // that is removed; zero: the endpoint is, or the account
	Endpoint EndpointID // that is removed; zero: the event is, or the account
	Account  AccountID  // that is removed, or that the event or endpoint belongs to
	By       string     // who asked for it

	// Written by the store, with each chunk that is removed.
	Removed    ExpungeCounts
	Digest     ExpungeDigest
	EmptySince time.Time // since when nothing was found any more; zero: something was found the last time
	Archive    ExpungeArchive
	EndedAt    time.Time // zero: it goes on
	CreatedAt  time.Time
}

// ExpungeArchive is how far the expunge of an event or endpoint has got in the archive. It begins
// there when nothing more can be added to the store. That of an account is zero: its archives
// go with their key.
type ExpungeArchive struct {
	Day   time.Time // the next day of ids to look at; zero: it has not begun
	Done  bool      // all days were looked at
	Held  bool      // parts that may have its records were not there, or no archive is set
	Fault string    // why it did not go on the last time; empty: it did
}

// InArchive reports whether the next rows to remove are those of the archive.
func (e Expunge) InArchive() bool {
	return e.EndedAt.IsZero() && !e.Archive.Day.IsZero() && !e.Archive.Done
}

// begins returns the day of the first id that rows of an event or endpoint can have.
func (e Expunge) begins() time.Time {
	made := e.Endpoint.Time()
	if !e.Event.IsZero() {
		made = e.Event.Time()
	}
	return made.UTC().Truncate(24 * time.Hour)
}

// ExpungeCounts is how many rows an expunge has removed.
type ExpungeCounts struct {
	Events      int // with their payload and idempotency key
	Attempts    int // with their heads and bodies, and decisions without a request
	DeadLetters int
	Other       int // requests of inspectors, secrets, sessions, statistics and all the rest
	Archived    int // records of the archive
}

// Total is the number of all rows of the store.
func (c ExpungeCounts) Total() int { return c.Events + c.Attempts + c.DeadLetters + c.Other }

// Add adds other counts.
func (c *ExpungeCounts) Add(other ExpungeCounts) {
	c.Events += other.Events
	c.Attempts += other.Attempts
	c.DeadLetters += other.DeadLetters
	c.Other += other.Other
	c.Archived += other.Archived
}

// ExpungeDigest identifies the events that were removed, for somebody who has them: of each
// event in its turn, the SHA-256 of the digest so far, the 16 bytes of the id and the
// SHA-256 of the payload. It is zero before the first.
type ExpungeDigest [sha256.Size]byte

// Add adds an event that was removed.
func (d *ExpungeDigest) Add(id EventID, payload []byte) {
	sum := sha256.Sum256(payload)
	*d = sha256.Sum256(append(append(append(make([]byte, 0, 80), d[:]...), id[:]...), sum[:]...))
}

// Found adds what a look for rows has removed at the time now. waits says that something is
// left that others must end before. When nothing was found for as long as settled, the archive
// follows, and then the end.
func (e *Expunge) Found(removed ExpungeCounts, waits bool, now time.Time, settled time.Duration) {
	e.Removed.Add(removed)
	switch {
	case removed.Total() > 0 || waits:
		e.EmptySince, e.Archive = time.Time{}, ExpungeArchive{}
	case e.EmptySince.IsZero():
		e.EmptySince = now
	case now.Before(e.EmptySince.Add(settled)):
	case e.Event.IsZero() && e.Endpoint.IsZero() || e.Archive.Done:
		e.EndedAt = now
	case e.Archive.Day.IsZero():
		e.Archive.Day = e.begins()
	}
}

// ExpungeSettled is how long after the last find an expunge looks once more before it ends:
// an attempt that was under way may have been recorded meanwhile.
const ExpungeSettled = 15 * time.Minute

// ActionExpunged is the action of the audit entry that is written at the end of an expunge.
const ActionExpunged = "expunged"

// ExpungedURL is the URL of an endpoint that was expunged. Nothing is ever sent to it.
const ExpungedURL = "https://expunged.invalid/"
