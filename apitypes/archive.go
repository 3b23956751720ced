package apitypes

import (
	"encoding/json"

	"github.com/postrider/postrider"
)

// ArchivePart describes an object of the archive. The object has the rows of one kind whose ids
// were made on one day and lie in one range.
type ArchivePart struct {
	ID           string               `json:"id" example:"events-2026-11-23-1" doc:"Its kind, day and number."`
	Kind         string               `json:"kind" enum:"events,attempts,bodies"`
	Day          string               `json:"day" format:"date" doc:"The day (UTC) in which the ids were made: of events, or of the deliveries of attempts and bodies."`
	Number       int                  `json:"number" doc:"From 1, in the order in which the parts of the day were made."`
	Object       string               `json:"object" doc:"Its name in the archive."`
	Rows         int64                `json:"rows"`
	RowsDeleted  int64                `json:"rows_deleted" doc:"How many of them the database has deleted since."`
	Bytes        int64                `json:"bytes" doc:"Size of the object."`
	SHA256       string               `json:"sha256" minLength:"64" maxLength:"64"`
	MadeAt       Time                 `json:"made_at" format:"date-time"`
	Verification *ArchiveVerification `json:"verification,omitempty" doc:"What the object has now. Lists leave it out: they read nothing."`
}

// ArchiveVerification is the result of reading a part, comparing it with its checksum and
// decrypting it.
type ArchiveVerification struct {
	Whole        bool    `json:"whole" doc:"It is what was written."`
	Fault        *string `json:"fault" nullable:"true" doc:"What is damaged. Null: nothing."`
	RowsRead     int64   `json:"rows_read"`
	RowsExpunged int64   `json:"rows_expunged" doc:"Rows that nobody can read: the key of their account was destroyed."`
	AccountsRead int     `json:"accounts_read"`
}

// ArchiveRecord is a record of the archive.
type ArchiveRecord struct {
	Kind       string                `json:"kind" enum:"events,attempts,bodies"`
	ID         string                `json:"id" doc:"Of the event, or of the delivery of the attempt."`
	Number     *int                  `json:"number" doc:"Of the attempt. Null: it is an event."`
	Account    *postrider.AccountID  `json:"account" nullable:"true" doc:"Null: the attempt of the body was not stored any more."`
	Event      *postrider.EventID    `json:"event" nullable:"true" doc:"Null: likewise."`
	Endpoint   *postrider.EndpointID `json:"endpoint" nullable:"true" doc:"Null: it is an event, or likewise."`
	EventType  string                `json:"event_type"`
	RestoredAt *Time                 `json:"restored_at" format:"date-time" doc:"When it was copied back into the database. Null: it was read from the archive."`
	Record     json.RawMessage       `json:"record" doc:"As it was archived: docs/operate/archive.md has the fields of each kind. Bytes are base64."`
}

// ArchiveFound is the result of one step of a search in the archive.
type ArchiveFound struct {
	Data         []ArchiveRecord `json:"data" nullable:"false" doc:"May be empty while there is a next_cursor: a step ends after 5 seconds."`
	NextCursor   *string         `json:"next_cursor" doc:"Cursor of the next step. Null: this was the last."`
	PartsRead    int             `json:"parts_read"`
	RowsExpunged int64           `json:"rows_expunged" doc:"Rows of these parts that nobody can read: the key of their account was destroyed."`
}

// ArchiveRestore selects records to copy back into the database. A field that is left out selects
// all.
type ArchiveRestore struct {
	Event     string `json:"event,omitempty" doc:"Id of the event. Its deliveries are looked for on the day of the event and the next, unless to says more."`
	Account   string `json:"account,omitempty" doc:"Id or uid of the account."`
	Endpoint  string `json:"endpoint,omitempty" doc:"Id of the endpoint: only attempts and bodies."`
	EventType string `json:"event_type,omitempty"`
	From      string `json:"from,omitempty" format:"date" doc:"First day (UTC) of the events, or of the deliveries of attempts and bodies."`
	To        string `json:"to,omitempty" format:"date" doc:"Day before which to stop."`
	Cursor    string `json:"cursor,omitempty" maxLength:"512" doc:"The next_cursor of the previous step."`
}

// ArchiveRestored is the result of one step of a restore.
type ArchiveRestored struct {
	Records      int     `json:"records" doc:"That were copied. A repetition copies them again, and leaves one of each."`
	NextCursor   *string `json:"next_cursor" doc:"Cursor of the next step. Null: this was the last."`
	PartsRead    int     `json:"parts_read"`
	RowsExpunged int64   `json:"rows_expunged" doc:"Rows of these parts that nobody can read: the key of their account was destroyed."`
}
