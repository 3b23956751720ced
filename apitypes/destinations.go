package apitypes

import "github.com/postrider/postrider"

// DestinationCreate is a request to create a destination of notices.
type DestinationCreate struct {
	Account  string                           `json:"account,omitempty" minLength:"1" doc:"Id or uid of the account whose notices it gets. Left out: the operator's, which gets those of all accounts and of the installation, and needs the scope admin."`
	Channel  postrider.Channel                `json:"channel" enum:"email,slack"`
	Address  string                           `json:"address" maxLength:"1024" example:"ann@acme.example" doc:"An email address, or the URL of a Slack-compatible webhook. It never changes."`
	Language string                           `json:"language,omitempty" enum:"de,en" doc:"Language of the messages. Left out: en."`
	Kinds    Optional[[]postrider.NoticeKind] `json:"kinds,omitzero" maxItems:"32" doc:"Kinds of notices that it gets, such as endpoint.disabled. Null or left out: all, those of later versions included."`
}

// DestinationUpdate is a change of a destination of notices.
type DestinationUpdate struct {
	Language *string                          `json:"language,omitempty" enum:"de,en" doc:"Language of the messages."`
	Kinds    Optional[[]postrider.NoticeKind] `json:"kinds,omitzero" maxItems:"32" doc:"Kinds of notices that it gets. Null: all."`
}

// Destination is an address to which notices are sent.
type Destination struct {
	ID           postrider.DestinationID    `json:"id"`
	Account      *postrider.AccountID       `json:"account" nullable:"true" doc:"The account whose notices it gets. Null: the operator's, which gets those of all accounts and of the installation."`
	Channel      postrider.Channel          `json:"channel" enum:"email,slack"`
	Address      string                     `json:"address" doc:"The email address; of a webhook the beginning and the end of its URL, which is a secret."`
	Language     string                     `json:"language"`
	Kinds        *[]postrider.NoticeKind    `json:"kinds" nullable:"true" doc:"Kinds of notices that it gets. Null: all."`
	Unsubscribed []postrider.NoticeKind     `json:"unsubscribed" nullable:"false" doc:"Kinds that its reader no longer wants, by a link of a message; *: all. Only the reader's next confirmation clears it."`
	State        postrider.DestinationState `json:"state" enum:"waiting,active,unsubscribed,refused" doc:"waiting: its reader must confirm the address by the link of a message, and it gets nothing else. active: it gets notices. unsubscribed: its reader wants none. refused: the server refused the address for good; it gets nothing until a message is asked for."`
	Asked        *postrider.Ask             `json:"asked" enum:"confirmation,test" nullable:"true" doc:"The message that was asked for and is not sent yet. Null: none."`
	CreatedAt    Time                       `json:"created_at" format:"date-time"`
	ConfirmedAt  *Time                      `json:"confirmed_at" format:"date-time"`
	LastSentAt   *Time                      `json:"last_sent_at" format:"date-time" doc:"Time of the last message. Null: there was none."`
	Failures     int                        `json:"failures" doc:"Messages in a row that could not be sent."`
	LastError    *string                    `json:"last_error" doc:"Why the last message was not sent: the class of the failure, and perhaps a detail after a colon. docs/operate/mail.md lists them. Null: it was sent."`
}
