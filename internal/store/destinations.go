package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/postrider/postrider"
)

// ErrTooMany says that an account has as many objects of a kind as it may have.
var ErrTooMany = errors.New("too many")

// Destinations keeps where notices are sent, and what was sent. There are no rows of
// messages: a destination remembers until when it was told, and the sender makes one
// message of all newer notices. [Access.DeleteAccount] deletes the destinations of the
// account.
type Destinations interface {
	// PutDestination creates a destination. With a ConfirmedAt, it is confirmed from now
	// on, as ChangeDestination would confirm it; without one it waits.
	//
	// A second destination of its account with the same channel and address is
	// postrider.ErrConflict. If the account has most destinations already, it is ErrTooMany;
	// the operator's count as those of one account.
	PutDestination(ctx context.Context, d postrider.Destination, most int) error

	// Destinations lists destinations, newest first.
	Destinations(ctx context.Context, q DestinationQuery) (Page[postrider.Destination], error)

	// ChangeDestination changes what c sets, and returns the destination.
	//
	// A confirmation clears Unsubscribed. The first one also sets ToldUntil: older notices
	// are not told.
	// Confirming again, and unsubscribing again from a kind or from one of all kinds, changes
	// nothing.
	// An Ask clears RefusedAt, and the destination can be claimed at once, unless it is
	// leased.
	ChangeDestination(ctx context.Context, c ChangeDestination) (postrider.Destination, error)

	// DeleteDestination deletes a destination.
	DeleteDestination(ctx context.Context, d postrider.DestinationID) error

	// ClaimDestinations leases up to c.Max destinations of a channel that need a message
	// now. If more do, it takes the operator's first, then those that have been due for
	// longest.
	//
	// A destination needs a message if a person asked for one, or if it is confirmed and
	// its scope has a notice that is not told and older than c.Wait. One that was refused
	// needs none.
	// A claimed destination is due again when its lease has ended.
	// While the store is held, it leases none: a restored store knows nothing of the
	// messages that were sent after its backup.
	ClaimDestinations(ctx context.Context, c ClaimDestinations) ([]postrider.Destination, error)

	// SettleDestination records what became of a message, and ends the lease. It changes
	// nothing and returns postrider.ErrFenced if the destination has another token.
	//
	// The destination is due again after s.Wait, or at once if a person has asked for
	// another message meanwhile.
	// Without an Error, Failures is 0 and LastSentAt is now, unless nothing was sent; with
	// one, Failures is one more.
	SettleDestination(ctx context.Context, s SettleDestination) error
}

// DestinationQuery filters destinations; a zero field does not filter.
type DestinationQuery struct {
	ID       postrider.DestinationID
	Account  postrider.AccountID
	Operator bool // only the operator's
	Paging
}

// ChangeDestination changes a destination; a nil or zero field changes nothing.
type ChangeDestination struct {
	ID          postrider.DestinationID
	Language    string
	Kinds       *[]postrider.NoticeKind // a nil list: all kinds
	Ask         postrider.Ask
	Confirm     bool
	Unsubscribe postrider.NoticeKind // a kind, or postrider.AllKinds
}

// Apply changes d as [Destinations.ChangeDestination] says. wall is the store's time of day.
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

// ClaimDestinations asks for destinations to send messages to.
type ClaimDestinations struct {
	Channel postrider.Channel
	Max     int
	Wait    time.Duration // how old the oldest notice must be, so that others can join it
	Token   postrider.Token
	Lease   time.Duration
}

// SettleDestination says what became of a message.
type SettleDestination struct {
	ID      postrider.DestinationID
	Token   postrider.Token    // of the claim
	Ask     postrider.Ask      // of the claimed destination; it is cleared, unless the message is to be tried again
	Told    postrider.NoticeID // notices with lesser ids are told; zero: ToldUntil stays
	Sent    bool               // a message was sent
	Error   string             // why no message was sent; empty: none failed
	Refused bool               // the server refused the address for good
	Wait    time.Duration      // until the next message
}

// Apply changes d as [Destinations.SettleDestination] says, and returns the wait until its
// next message. wall is the store's time of day.
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

// FirstNotice returns the least id of a notice that is made at the time or later. Ids have
// milliseconds, so a time between two of them is rounded up.
func FirstNotice(at time.Time) postrider.NoticeID {
	return postrider.MakeID[postrider.NoticeID](at.Add(time.Millisecond-1).Truncate(time.Millisecond), [10]byte{})
}
