package postrider

import (
	"log/slog"
	"slices"
	"time"
)

// MessageLanguages lists the languages of messages.
var MessageLanguages = []string{"de", "en"}

// Channel is the way in which messages reach a destination.
type Channel string

// The channels.
const (
	ChannelEmail Channel = "email"
	ChannelSlack Channel = "slack" // a POST to a URL that accepts Slack's incoming webhooks
)

// Channels lists every channel.
var Channels = []Channel{ChannelEmail, ChannelSlack}

// Destination is an address to which notices are sent as messages to people: an email address, or
// the URL of a Slack-compatible webhook.
type Destination struct {
	ID DestinationID
	// Account whose notices it gets; zero: it belongs to the operator and gets the notices of all
	// accounts and of the installation.
	Account  AccountID
	Channel  Channel // never changes
	Address  string  // the email address, or the URL, which is a secret; never changes
	Language string  // language of its messages, such as de

	// Kinds are the kinds of notices that the destination gets. Nil: all kinds, including kinds
	// that later versions add.
	Kinds []NoticeKind
	// Unsubscribed are the kinds that the reader of an email address has unsubscribed from, by a
	// link in a message. [AllKinds] stands for all kinds. Only the reader's next confirmation
	// clears it.
	Unsubscribed []NoticeKind

	CreatedAt   time.Time
	ConfirmedAt time.Time // when the reader confirmed; zero: never, so the destination gets no notice
	RefusedAt   time.Time // when the server refused the address for good; zero: it did not; set by the sender, cleared by the next Ask
	Ask         Ask       // message that a person asked for and that is not sent yet; empty: none
	ToldUntil   NoticeID  // notices with lower ids were sent, or are older than the confirmation; zero: never confirmed
	LastSentAt  time.Time // when the last message was sent; zero: never
	Failures    int       // failed messages in a row
	LastError   string    // why the last message failed: a [Failure], then perhaps a colon and a detail; empty: it was sent
}

// The failures that only messages have. [Destination].LastError begins with one of these or with a
// failure of attempts. docs/operate/mail.md says what each means.
const (
	// The mail server cannot be used; only operators see the detail, since it may have an address
	// of the platform's network.
	FailureMailServer Failure = "mail_server"
	// The mail server responded with an error code, because of a temporary fault or its
	// configuration.
	FailureMailRejected Failure = "mail_rejected"
	// The server refused the address for good; [Destination].RefusedAt is set.
	FailureAddress Failure = "address_refused"
)

// MessageFailures lists every failure that only messages have.
var MessageFailures = []Failure{FailureMailServer, FailureMailRejected, FailureAddress}

// Ask is a message that a person asks a destination to be sent.
type Ask string

// The messages that a person can ask for.
const (
	AskConfirmation Ask = "confirmation" // asks the reader of an email address to agree
	AskTest         Ask = "test"
)

// AllKinds stands for every kind of notice in [Destination.Unsubscribed].
const AllKinds NoticeKind = "*"

// DestinationState says whether a destination gets notices.
type DestinationState string

// The states. A new destination is waiting if it is an email address, and active otherwise.
const (
	DestinationWaiting      DestinationState = "waiting"      // its reader has not confirmed it yet
	DestinationActive       DestinationState = "active"       // it gets notices
	DestinationUnsubscribed DestinationState = "unsubscribed" // its reader wants no notices, until the next confirmation
	// The server refused the address for good; nothing is sent to it until a person asks for a
	// message.
	DestinationRefused DestinationState = "refused"
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

// Wants reports whether the destination gets notices of the kind once it is confirmed.
func (d Destination) Wants(kind NoticeKind) bool {
	return (d.Kinds == nil || slices.Contains(d.Kinds, kind)) &&
		!slices.Contains(d.Unsubscribed, kind) && !slices.Contains(d.Unsubscribed, AllKinds)
}

// LogValue logs the id and the channel, and no address.
func (d Destination) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", d.ID.String()), slog.String("channel", string(d.Channel)))
}
