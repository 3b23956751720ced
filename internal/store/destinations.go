package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/postrider/postrider"
)

// ErrTooMany says that an account already has the greatest allowed number of objects of a kind.
var ErrTooMany = errors.New("too many")

// Destinations keeps the addresses to which notices are sent, and the state of sending. Messages
// have no rows: each destination stores the last notice that was told (ToldUntil), and the sender
// combines all newer notices into one message. [Access.DeleteAccount] deletes the destinations of
// the account.
type Destinations interface {
	// PutDestination creates a destination. If d.ConfirmedAt is set, the destination is confirmed
	// from now on, as by ChangeDestination; otherwise it waits for its confirmation.
	//
	// If the account has a destination with the same channel and address, the error is
	// postrider.ErrConflict. If the account has `most` destinations already, the error is
	// ErrTooMany. All destinations of the operator are counted together, as if the operator were one
	// account.
	PutDestination(ctx context.Context, d postrider.Destination, most int) error

	// Destinations lists destinations, newest first.
	Destinations(ctx context.Context, q DestinationQuery) (Page[postrider.Destination], error)

	// ChangeDestination changes the fields that c sets, and returns the destination.
	//
	// A confirmation clears Unsubscribed. The first confirmation also sets ToldUntil, so that
	// notices from before it are not told.
	// A second confirmation changes nothing. To unsubscribe again from the same kind, or from one
	// kind after all kinds, changes nothing.
	// An Ask clears RefusedAt and makes the destination due at once, unless the destination is
	// leased.
	ChangeDestination(ctx context.Context, c ChangeDestination) (postrider.Destination, error)

	// DeleteDestination deletes a destination.
	DeleteDestination(ctx context.Context, d postrider.DestinationID) error

	// ClaimDestinations leases up to c.Max destinations of a channel that need a message now. If
	// more need one, it takes the operator's destinations first, then those that have been due for
	// longest.
	//
	// A destination needs a message if a person asked for one. It also needs one if it is confirmed
	// and a notice of its scope is untold and older than c.Wait. A destination whose address was
	// refused needs none.
	// A claimed destination is due again when its lease has ended.
	// While the store is held, no destination is leased: a restored store does not know which
	// messages were sent after its backup.
	ClaimDestinations(ctx context.Context, c ClaimDestinations) ([]postrider.Destination, error)

	// SettleDestination records the result of sending a message, and ends the lease. If the
	// destination has another token, it changes nothing and returns postrider.ErrFenced.
	//
	// The destination is due again after s.Wait. If a person asked for another message in the
	// meantime, it is due at once.
	// Without an Error, Failures becomes 0 and, if a message was sent, LastSentAt becomes now. With
	// an Error, Failures grows by one.
	SettleDestination(ctx context.Context, s SettleDestination) error
}

// DestinationQuery filters destinations; a zero field does not filter.
type DestinationQuery struct {
	ID       postrider.DestinationID
	Account  postrider.AccountID
	Operator bool // only destinations of the operator
	Paging
}

// ChangeDestination changes a destination; a nil or zero field changes nothing.
type ChangeDestination struct {
	ID          postrider.DestinationID
	Language    string
	Kinds       *[]postrider.NoticeKind // a pointer to a nil list selects all kinds
	Ask         postrider.Ask
	Confirm     bool
	Unsubscribe postrider.NoticeKind // a kind, or postrider.AllKinds
}

// Apply changes d as [Destinations.ChangeDestination] promises. The parameter wall is the store's
// time of day.
func (c ChangeDestination) Apply(d *postrider.Destination, wall time.Time) {
	if c.Language != "" {
		d.Language = c.Language
	}
	if c.Kinds != nil {
		d.Kinds = slices.Clone(*c.Kinds)
	}
	ended := slices.Contains(d.Unsubscribed, c.Unsubscribe) || slices.Contains(d.Unsubscribed, postrider.AllKinds)
	if c.Unsubscribe != "" && !ended {
		d.Unsubscribed = append(slices.Clone(d.Unsubscribed), c.Unsubscribe)
	}
	if c.Confirm && (d.ConfirmedAt.IsZero() || len(d.Unsubscribed) > 0) {
		if d.ConfirmedAt.IsZero() {
			d.ToldUntil = FirstNotice(wall)
		}
		d.ConfirmedAt, d.Unsubscribed = wall, nil
	}
	if c.Ask != "" {
		d.Ask, d.RefusedAt = c.Ask, time.Time{}
	}
}

// ClaimDestinations asks for destinations that need a message.
type ClaimDestinations struct {
	Channel postrider.Channel
	Max     int
	Wait    time.Duration // the age at which a notice causes a message; newer notices join that message
	Token   postrider.Token
	Lease   time.Duration
}

// SettleDestination is the result of sending a message.
type SettleDestination struct {
	ID      postrider.DestinationID
	Token   postrider.Token    // the token of the claim
	Ask     postrider.Ask      // the Ask of the claimed destination, cleared unless the message is tried again
	Told    postrider.NoticeID // notices with lower ids are told; zero leaves ToldUntil as it is
	Sent    bool               // whether a message was sent
	Error   string             // why no message could be sent; empty if nothing failed
	Refused bool               // whether the server refused the address for good
	Wait    time.Duration      // the time until the next message
}

// Apply changes d as [Destinations.SettleDestination] promises, and returns the time until the
// destination's next message. The parameter wall is the store's time of day.
func (s SettleDestination) Apply(d *postrider.Destination, wall time.Time) time.Duration {
	if d.Failures++; s.Error == "" {
		d.Failures = 0
	}
	d.LastError = s.Error
	if s.Sent {
		d.LastSentAt = wall
	}
	if s.Refused {
		d.RefusedAt = wall
	}
	if !s.Told.IsZero() {
		d.ToldUntil = s.Told
	}
	if d.Ask != s.Ask {
		return 0
	}
	if s.Error == "" || s.Refused {
		d.Ask = ""
	}
	return s.Wait
}

// FirstNotice returns the least id of a notice that is made at the given time or later. Ids have
// a precision of one millisecond, so the time is rounded up.
func FirstNotice(at time.Time) postrider.NoticeID {
	return postrider.MakeID[postrider.NoticeID](at.Add(time.Millisecond-1).Truncate(time.Millisecond), [10]byte{})
}
