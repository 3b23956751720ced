package apitypes

import (
	"encoding/json"

	"github.com/postrider/postrider"
)

// SourcePut is all that a request says of a source. A field that is left out gets its default.
type SourcePut struct {
	DatabaseURL string           `json:"database_url" minLength:"1" maxLength:"2048" example:"postgres://postrider_read@db.shop.example/shop" doc:"Connection string of the producer's PostgreSQL, in which postrider outbox install was run. Its role must be a member of postrider_reader. A password in it is taken out and stored encrypted. TLS is verified by the host name (sslmode=verify-full) unless the parameter sslmode says otherwise: verify-ca, require or disable."`
	Password    Optional[string] `json:"password,omitzero" maxLength:"1024" doc:"Password of the role, stored encrypted and never shown. Left out: that of database_url, or else the stored one, if the host, the port and the role stay as they are. Null: none."`
	CA          Optional[string] `json:"ca,omitzero" maxLength:"65536" doc:"PEM of the certificates that sign that of the database. Null or left out: those of the server's system."`
	KeepHours   Optional[int]    `json:"keep_hours,omitzero" minimum:"1" maximum:"720" doc:"Hours for which the producer's database keeps rows that were read, so that they can be read again after a restore of the store. Null or left out: 24. Not with table."`

	Table Optional[SourceTable] `json:"table,omitzero" doc:"An outbox table of the producer's own, instead of the tables of postrider outbox install. Its role needs only select and delete on it. Null or left out: none."`
}

// SourceTable says which columns of an outbox table of the producer's own have what.
type SourceTable struct {
	Name         string `json:"name" minLength:"3" maxLength:"127" example:"public.outbox" doc:"Schema and table."`
	ID           string `json:"id" minLength:"1" maxLength:"63" example:"id" doc:"Column with an id that is unique, not null and never used again. A UUID is the outbox_id of the event; of another type, a hash is."`
	Order        string `json:"order,omitempty" maxLength:"63" example:"created_at" doc:"Column by which rows are read. Left out: id. Required with ordering_key, unless id is a number."`
	Account      string `json:"account,omitempty" maxLength:"63" doc:"Column with the id or uid of the account. Left out: fixed_account is the account of all rows."`
	FixedAccount string `json:"fixed_account,omitempty" maxLength:"256" example:"acme" doc:"Id or uid of the account of all rows. Left out: account names a column."`
	Type         string `json:"type" minLength:"1" maxLength:"63" example:"type" doc:"Column with the event type."`
	Data         string `json:"data" minLength:"1" maxLength:"63" example:"payload" doc:"Column with the data, which must be JSON: json, jsonb, text or bytea."`
	OrderingKey  string `json:"ordering_key,omitempty" maxLength:"63" example:"aggregateid" doc:"Column with the ordering key. Left out: the events have none."`
}

// Source is the outbox of a producer, from which a server reads events.
type Source struct {
	ID          postrider.SourceID `json:"id"`
	Name        string             `json:"name"`
	DatabaseURL string             `json:"database_url" doc:"Without the password, which is never shown."`
	PasswordSet bool               `json:"password_set" doc:"True: a password is stored."`
	CA          *string            `json:"ca" doc:"Null: the certificates of the server's system."`
	KeepHours   int                `json:"keep_hours" doc:"0: none are kept, because the rows of a table of the producer's own are deleted once they are read."`
	Table       *SourceTable       `json:"table" doc:"Null: the tables of postrider outbox install."`
	Paused      bool               `json:"paused" doc:"True: a person has paused it, so nothing is read."`
	CreatedAt   Time               `json:"created_at" format:"date-time"`
	State       SourceState        `json:"state"`
}

// SourceState is what the server that reads a source knew of it, at the time At.
type SourceState struct {
	At         *Time   `json:"at" format:"date-time" doc:"Time of these figures, which come every 10 s. Null: nothing was read yet."`
	Node       string  `json:"node" doc:"Name of the machine of the server that reads it. Empty: none has."`
	Error      *string `json:"error" doc:"Why nothing is read. Null: it is read, or paused."`
	ErrorSince *Time   `json:"error_since" format:"date-time" doc:"Null: there is no error."`
	Waiting    int64   `json:"waiting" doc:"Number of rows that wait, about."`
	OldestAt   *Time   `json:"oldest_at" format:"date-time" doc:"When the oldest waiting row was published. Null: none waits."`
	OpenSince  *Time   `json:"open_since" format:"date-time" doc:"Start of the oldest open transaction of the producer's database. Null: none is open."`
	Rejected   int64   `json:"rejected" doc:"Number of rows that were rejected and wait for a person."`
	Missing    *int64  `json:"missing" doc:"Number of events that may be missing since the last restore of the store, because their rows were kept no longer. Null: a table of the producer's own keeps no rows, so it is not known."`
	Cycle      int64   `json:"cycle" doc:"Rises with each batch that was read, and each time that a node begins to read."`
	MovedUntil *Time   `json:"moved_until" format:"date-time" doc:"All rows that were published before this time have left the waiting rows. Null: it is not known yet."`
}

// SourceDatabase is what the producer's database says of an outbox at the time of the request.
type SourceDatabase struct {
	Version       int   `json:"version" doc:"Version of the schema that postrider outbox install has made. 0: the source has a table of the producer's own."`
	Waiting       int64 `json:"waiting" doc:"Number of rows that wait; above 10,000 about."`
	OldestAt      *Time `json:"oldest_at" format:"date-time" doc:"When the oldest waiting row was published. Null: none waits."`
	OpenSince     *Time `json:"open_since" format:"date-time" doc:"Start of the oldest open transaction. Null: none is open."`
	Rejected      int64 `json:"rejected" doc:"Number of rows that were rejected and wait for a person."`
	AsyncReplicas int   `json:"async_replicas" doc:"Number of its asynchronous replicas. After a failover to one of these, a webhook may have been sent for a transaction that the failover lost."`
}

// RejectedRow is a row of an outbox that cannot be published as it is.
type RejectedRow struct {
	ID             postrider.OutboxID `json:"id"`
	Account        string             `json:"account" doc:"As its producer wrote it: an id or a uid, or whatever it is."`
	Type           string             `json:"type"`
	OrderingKey    *string            `json:"ordering_key"`
	IdempotencyKey *string            `json:"idempotency_key"`
	Producer       string             `json:"producer" doc:"Role of the producer's database that published it. Empty: not known."`
	Code           string             `json:"code" doc:"Why it was rejected: the code of a problem or of a fault, as for a publish."`
	Field          string             `json:"field" doc:"Field at fault. Empty: no single field is."`
	Message        string             `json:"message" doc:"The reason, for people."`
	PublishedAt    *Time              `json:"published_at" format:"date-time" doc:"Null: not known."`
	RejectedAt     Time               `json:"rejected_at" format:"date-time"`
	ContentType    string             `json:"content_type,omitempty" doc:"Media type of data that is not JSON. Left out: data is JSON."`
	DataEncoding   string             `json:"data_encoding,omitempty" enum:"base64" doc:"Only with content_type: data is the base64 of the bytes. Left out: it is their text."`
	Data           json.RawMessage    `json:"data" doc:"Data of the event."`
}

// RejectedSelect selects rejected rows: the rows of ids, or all of an account, or all with a code, or all
// of an account with a code.
type RejectedSelect struct {
	IDs     []string `json:"ids,omitempty" nullable:"false" minItems:"1" maxItems:"1000" example:"[\"obx_01h455vb4pex5vsknk084sn02q\"]" doc:"Ids of the rows. Left out: all rows of the account and with the code."`
	Account string   `json:"account,omitempty" minLength:"1" maxLength:"256" doc:"Rows of this account, as their producer wrote it."`
	Code    string   `json:"code,omitempty" minLength:"1" maxLength:"64" doc:"Rows that were rejected with this code."`
}

// RejectedRetry says which rejected rows are to be published again. NewAccount and NewType, if they are
// set, replace the account and the type of these rows.
type RejectedRetry struct {
	RejectedSelect

	NewAccount string `json:"new_account,omitempty" minLength:"1" maxLength:"256" doc:"Id or uid of the account that the rows are published for. Left out: that of the row."`
	NewType    string `json:"new_type,omitempty" minLength:"1" maxLength:"256" doc:"Event type of the rows. Left out: that of the row."`
}

// RowCount is the number of rows that a request has changed.
type RowCount struct {
	Rows int64 `json:"rows"`
}

// Status returns what a source does, in a word: paused, stopped by an error, starting or reading.
func (s Source) Status() string {
	switch {
	case s.Paused:
		return "paused"
	case s.State.Error != nil:
		return "stopped"
	case s.State.At == nil:
		return "starting"
	}
	return "reading"
}
