package apitypes

import (
	"encoding/json"

	"github.com/postrider/postrider"
)

// AccountCreate is an account to create.
type AccountCreate struct {
	UID      string   `json:"uid,omitempty" minLength:"1" doc:"Your own name for the account. It can be used wherever its id can. A name or a uid is required."`
	Name     string   `json:"name,omitempty"`
	Metadata Metadata `json:"metadata,omitempty" doc:"What you want to note of the account, such as its plan: at most 20 keys, and 2 KiB of keys and values. The customers of the account can read it."`
	Retention
}

// AccountUpdate is a change of an account. A field that is left out keeps its value.
type AccountUpdate struct {
	UID      Optional[string]   `json:"uid,omitzero" doc:"Your own name for the account. Null removes it."`
	Name     Optional[string]   `json:"name,omitzero" doc:"Null removes it."`
	Metadata Optional[Metadata] `json:"metadata,omitzero" doc:"It replaces all keys. Null removes it. The customers of the account can read it."`
	Retention
}

// AccountPut is an account to create, or to replace by this one. A field that is left out gets its
// default, as one that is null does.
type AccountPut struct {
	Name     Optional[string]   `json:"name,omitzero"`
	Metadata Optional[Metadata] `json:"metadata,omitzero" doc:"What you want to note of the account: at most 20 keys, and 2 KiB of keys and values. The customers of the account can read it."`
	Retention
}

// Metadata has what a platform notes of an object, by keys of its own.
type Metadata = map[string]string

// Retention says for how many days the data of one account is kept, if that is shorter than the
// retention of the server. It is embedded in [AccountCreate], [AccountUpdate] and [Account]. An
// [Account] always has all of its fields.
type Retention struct {
	KeepEventsDays          Optional[int] `json:"keep_events_days,omitzero" doc:"Days that events are kept with their data; an event that a pending delivery or an unresolved dead letter needs stays. At least 1, and not longer than the server keeps them. Null, the default: as long as the server."`
	KeepAttemptsDays        Optional[int] `json:"keep_attempts_days,omitzero" doc:"Days that deliveries that have ended are kept with their attempts, from the creation of the delivery. Null, the default: as long as the server."`
	KeepBodiesDays          Optional[int] `json:"keep_bodies_days,omitzero" doc:"Days that headers and bodies of requests and responses are kept, from the creation of the delivery. Null, the default: as long as the server."`
	KeepIdempotencyKeysDays Optional[int] `json:"keep_idempotency_keys_days,omitzero" doc:"Days that idempotency keys are remembered, not longer than events are kept. Null, the default: as long as the server."`
}

// Account is a customer of your platform. Endpoints and events belong to an
// account.
type Account struct {
	ID        postrider.AccountID `json:"id"`
	UID       *string             `json:"uid"`
	Name      string              `json:"name"`
	CreatedAt Time                `json:"created_at" format:"date-time"`
	Metadata  Metadata            `json:"metadata" nullable:"true" doc:"What the platform notes of the account. The customers of the account can read it. Null: nothing."`
	Revision  int64               `json:"revision" doc:"Number of changes, from 1. The ETag of a response is this number in quotes; see If-Match."`
	DeletedAt *Time               `json:"deleted_at" format:"date-time" doc:"Time of the deletion. Null: the account is not deleted."`
	Retention
}

// KeyCreate is an API key to create.
type KeyCreate struct {
	Name      string            `json:"name"`
	Scopes    []postrider.Scope `json:"scopes" nullable:"false" minItems:"1" enum:"events:write,webhooks:read,webhooks:operate,endpoints:write,secrets:read,webhooks:write,admin"`
	Account   string            `json:"account,omitempty" minLength:"1" doc:"Id or uid of the only account that the key reaches. Left out: it reaches every account."`
	ExpiresAt *Time             `json:"expires_at,omitempty" format:"date-time"`
}

// Key is an API key.
type Key struct {
	ID         postrider.KeyID      `json:"id"`
	Name       string               `json:"name"`
	Scopes     []postrider.Scope    `json:"scopes" nullable:"false"`
	Account    *postrider.AccountID `json:"account" nullable:"true" doc:"The only account that the key reaches. Null: it reaches every account."`
	CreatedAt  Time                 `json:"created_at" format:"date-time"`
	ExpiresAt  *Time                `json:"expires_at" format:"date-time"`
	RevokedAt  *Time                `json:"revoked_at" format:"date-time"`
	LastUsedAt *Time                `json:"last_used_at" format:"date-time" doc:"Time of the last use, to the minute. Null: never used."`
	Key        string               `json:"key,omitempty" doc:"Text of the key. Only in the response that creates it; the server stores only a hash."`
}

// EventTypeCreate is an event type to add to the catalogue.
type EventTypeCreate struct {
	Name        string          `json:"name" example:"order.created"`
	Description string          `json:"description,omitempty"`
	Example     json.RawMessage `json:"example,omitempty" doc:"Data of an event of the type, for people who subscribe to it and for test events: any JSON value but null, of at most 8 KiB."`
	Paths       []string        `json:"paths,omitempty" nullable:"false" maxItems:"5" doc:"Paths such as $.order.number. Events of the type are found by the values that their data has there: strings, numbers, true and false, of at most 256 bytes, at most 20 an event. Of a list each element counts. Only whole values are found, and only of events that are published afterwards."`
}

// EventTypeUpdate is a change of an event type.
type EventTypeUpdate struct {
	Description Optional[string]          `json:"description,omitzero" doc:"Null removes it."`
	Example     Optional[json.RawMessage] `json:"example,omitzero" doc:"Data of an event of the type. Null removes it."`
	Paths       Optional[[]string]        `json:"paths,omitzero" maxItems:"5" doc:"Paths by whose values events are found. They replace all paths; one that stays keeps its since. Null removes them."`
}

// EventTypePut is an event type to add to the catalogue, or to replace by this one. A field that is
// left out gets its default, as one that is null does.
type EventTypePut struct {
	Description Optional[string]          `json:"description,omitzero"`
	Example     Optional[json.RawMessage] `json:"example,omitzero" doc:"Data of an event of the type: any JSON value, of at most 8 KiB."`
	Paths       Optional[[]string]        `json:"paths,omitzero" maxItems:"5" doc:"Paths by whose values events are found; one that stays keeps its since."`
}

// EventType is an event type of the catalogue.
type EventType struct {
	Name        string          `json:"name" example:"order.created"`
	Description string          `json:"description"`
	Example     json.RawMessage `json:"example" doc:"Data of an event of the type. Null: none is known."`
	Revision    int64           `json:"revision" doc:"Number of changes, from 1. The ETag of a response is this number in quotes; see If-Match."`
	CreatedAt   Time            `json:"created_at" format:"date-time"`
	Paths       []IndexedPath   `json:"paths" nullable:"false" maxItems:"5" doc:"Paths by whose values events of the type are found."`
}

// IndexedPath is a path by whose values events are found.
type IndexedPath struct {
	Path  string `json:"path" example:"$.order.number"`
	Since Time   `json:"since" format:"date-time" doc:"Events that were published before are not found by the path."`
}
