package postrider

import "time"

// Hold says that a store is held: no node sends any of its deliveries until a person resumes it. A
// store that was restored from a backup starts held, because its waiting deliveries may have been
// sent after the backup was made. A held store accepts publishes.
type Hold struct {
	Since  time.Time // when the store was held; zero: it is not held
	Reason string    // HoldRestored or HoldRecovered; empty: it is not held
}

// The reasons for which a store is held.
const (
	// HoldRestored: a person restored the store from a backup.
	HoldRestored = "restored"
	// HoldRecovered: at its start, the store noticed that the database had been recovered to a
	// point in time.
	HoldRecovered = "recovered"
)

// Held reports whether the store is held.
func (h Hold) Held() bool { return !h.Since.IsZero() }
