package postrider

import (
	"log/slog"
	"slices"
	"time"
)

// MessageLanguages lists the languages of messages.
var MessageLanguages = []string{"de", "en"}

// Channel is how messages travel to a destination.
type Channel string

// The channels.
const (
	ChannelEmail Channel = "email"
	ChannelSlack Channel = "slack" // a POST to a URL that takes Slack's incoming webhooks
)

// Channels lists every channel.
var Channels = []Channel{ChannelEmail, ChannelSlack}

// Destination is where notices are sent, as messages to people: an email address, or the
// URL of a Slack-compatible webhook.
type Destination struct {
	ID       DestinationID
	Account  AccountID // whose notices it gets; zero: the operator's, which gets those of all accounts and of the installation
	Channel  Channel   // it never changes, and neither does the address
	Address  string    // the email address, or the URL, which is a secret
	Language string    // of its messages, such as de

	// Kinds are the kinds of notices that it gets. Nil: all, those of later versions
	// included.
	Kinds []NoticeKind
	// Unsubscribed are the kinds that the reader of an email address no longer wants, by a
	// link of a message; [AllKinds] stands for all. Only the reader's next confirmation
	// clears it.
	Unsubscribed []NoticeKind

	CreatedAt   time.Time
	ConfirmedAt time.Time // when its reader agreed; zero: never, and it gets no notice
	RefusedAt   time.Time // when the server refused the address for good; zero: it did not. Set by the sender, cleared by the next Ask
	Ask         Ask       // the message that a person asked for and that is not sent yet; empty: none
	ToldUntil   NoticeID  // notices with lesser ids were told, or are older than the confirmation; zero: it was never confirmed
	LastSentAt  time.Time // of the last message; zero: there was none
	Failures    int       // messages in a row that could not be sent
	LastError   string    // why the last message was not sent: a [Failure], then perhaps a colon and a detail; empty: it was sent
}

// The failures of messages, beside those of attempts: [Destination].LastError begins with one
// of either. docs/operate/mail.md says what each means.
const (
	FailureMailServer   Failure = "mail_server"     // it cannot be used; the detail may have an address of the platform's network, so it is the operator's
	FailureMailRejected Failure = "mail_rejected"   // it answered with a code, for now or because of the set-up
	FailureAddress      Failure = "address_refused" // for good; [Destination].RefusedAt is set
)

// MessageFailures lists every failure that only messages have.
var MessageFailures = []Failure{FailureMailServer, FailureMailRejected, FailureAddress}

// Ask is a message that a person asks for.
type Ask string

// The messages to ask for.
const (
	AskConfirmation Ask = "confirmation" // asks the reader of an email address to agree
	AskTest         Ask = "test"
)

// AllKinds stands for every kind of notice in [Destination.Unsubscribed].
const AllKinds NoticeKind = "*"

// DestinationState says whether a destination gets notices.
type DestinationState string

// The states. A destination begins as waiting, if it is an email address, and otherwise
// as active.
const (
	DestinationWaiting      DestinationState = "waiting"      // for its reader to confirm it
	DestinationActive       DestinationState = "active"       // it gets notices
	DestinationUnsubscribed DestinationState = "unsubscribed" // its reader wants no notices, until the next confirmation
	DestinationRefused      DestinationState = "refused"      // the server refused the address for good; it gets nothing until a person asks for a message
)

// DestinationStates lists every state.
var DestinationStates = []DestinationState{DestinationWaiting, DestinationActive, DestinationUnsubscribed, DestinationRefused}

// State returns the state of the destination.
func (d Destination) State() DestinationState {
	switch {
	case !d.RefusedAt.IsZero():
		return DestinationRefused
	case d.ConfirmedAt.IsZero():
		return DestinationWaiting
	case slices.Contains(d.Unsubscribed, AllKinds):
		return DestinationUnsubscribed
	}
	return DestinationActive
}

// Wants reports whether the destination gets notices of the kind, once it is confirmed.
func (d Destination) Wants(kind NoticeKind) bool {
	return (d.Kinds == nil || slices.Contains(d.Kinds, kind)) &&
		!slices.Contains(d.Unsubscribed, kind) && !slices.Contains(d.Unsubscribed, AllKinds)
}

// LogValue logs the id and the channel, and no address.
func (d Destination) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", d.ID.String()), slog.String("channel", string(d.Channel)))
}
