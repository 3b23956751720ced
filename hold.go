package postrider

import "time"

// Hold says that a store is held: nothing of it is sent, on any node, until a person
// resumes it. A store that was restored from a backup starts held, because deliveries that
// wait in it may have been sent after the backup was made. Publishes are accepted.
type Hold struct {
	Since  time.Time // when the store was held; zero: it is not held
	Reason string    // a reason of HoldRestored and HoldRecovered; empty: it is not held
}

// The reasons of a Hold.
const (
	// HoldRestored: a person restored the store from a backup.
	HoldRestored = "restored"
	// HoldRecovered: the store found at its start that the database was recovered to a
	// point in time.
	HoldRecovered = "recovered"
)

// Held reports whether the store is held.
func (h Hold) Held() bool { return !h.Since.IsZero() }
