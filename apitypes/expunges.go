package apitypes

import "github.com/postrider/postrider"

// ExpungeCreate names the one object to remove. Exactly one field is set.
type ExpungeCreate struct {
	Event    string `json:"event,omitempty" doc:"Id of the event. Its deliveries, attempts and dead letters go with it."`
	Endpoint string `json:"endpoint,omitempty" doc:"Id of the endpoint. It is deleted; its deliveries, attempts, dead letters, secrets and numbers go. The events stay: they are the account's."`
	Account  string `json:"account,omitempty" doc:"Id or uid of the account; of a deleted one its id. It is deleted, and all of its events, endpoints, sessions and numbers go."`
}

// Expunge is the removal of an event, an endpoint or an account. It contains none of the removed
// data.
type Expunge struct {
	ID           postrider.ExpungeID   `json:"id"`
	Event        *postrider.EventID    `json:"event" nullable:"true" doc:"The event that is removed. Null: the endpoint is, or the account."`
	Endpoint     *postrider.EndpointID `json:"endpoint" nullable:"true" doc:"The endpoint that is removed. Null: the event is, or the account."`
	Account      postrider.AccountID   `json:"account" doc:"The account that is removed, or that the event or endpoint belongs to."`
	CreatedBy    string                `json:"created_by" doc:"Name of the caller."`
	CreatedAt    Time                  `json:"created_at" format:"date-time"`
	EndedAt      *Time                 `json:"ended_at" format:"date-time" doc:"Null: it goes on. It ends 15 minutes after the last row was found, and that of an event or endpoint after its records in the archive are removed too."`
	Removed      ExpungeCounts         `json:"removed"`
	SHA256       string                `json:"sha256" minLength:"64" maxLength:"64" doc:"Digest of the events that were removed: of each in its turn, the SHA-256 of the digest so far (at first 32 zero bytes), the 16 bytes of the id and the SHA-256 of the payload; in hexadecimal."`
	ArchiveError *string               `json:"archive_error" nullable:"true" doc:"Why records in the archive could not be removed the last time; it is tried again each minute. Null: nothing is wrong."`
	OutboxRows   int                   `json:"outbox_rows" doc:"Rows of the account that were removed from the outboxes of producers; see sources."`
	OutboxError  *string               `json:"outbox_error" nullable:"true" doc:"Which outboxes could not be reached the last time, and why; they are tried again each minute, and it does not end before. Null: all were."`
	StillHeld    []string              `json:"still_held" nullable:"false" enum:"backups,backups_without_list,audit_log,logs,files,archive" doc:"What may still hold parts of it. backups: those made before; a store that is restored from one removes it again before it sends. backups_without_list: the same, but no list is kept (--expunge-list), so a restore brings it back. audit_log: names and details of changes, for as long as the audit log is kept. logs: those of the servers and of the receivers. files: those of the database; of SQLite until the expunge ends, of PostgreSQL until its tables are vacuumed and its log, archived log and standbys no longer have the rows. archive: objects that the server knows and did not find in its archive, or all of them because no archive is set; expunge it again when they are back. The archives of an expunged account cannot be read any more."`
}

// ExpungeCounts are the numbers of rows that an expunge has removed.
type ExpungeCounts struct {
	Events        int `json:"events" doc:"With payload and idempotency key."`
	Attempts      int `json:"attempts" doc:"With their heads and bodies, and decisions without a request."`
	DeadLetters   int `json:"dead_letters"`
	Terms         int `json:"terms" doc:"By which its events were found; see the paths of event types."`
	Subscriptions int `json:"subscriptions" doc:"Earlier subscriptions of endpoints: event types, filters and changed paths."`
	Other         int `json:"other" doc:"Requests of inspectors, secrets, sessions, numbers and all the rest."`
	Archived      int `json:"archived" doc:"Records of the archive: events, attempts and bodies that retention had copied there."`
}
