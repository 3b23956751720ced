package postrider

import (
	"log/slog"
	"slices"
	"time"
)

// Account is a customer of the platform that runs Postrider. Endpoints and events
// belong to an account. UID is the platform's own name for it; it is unique and
// may be empty.
type Account struct {
	ID        AccountID
	UID       string
	Name      string
	CreatedAt time.Time
	DeletedAt time.Time // zero: not deleted
}

// EventType is an entry of the platform's catalogue of event types. It is
// documentation only: an event may have a type that is not in the catalogue.
type EventType struct {
	Name        string
	Description string
	CreatedAt   time.Time
}

// Scope is a permission of an API key.
type Scope string

// The scopes.
const (
	ScopeEventsWrite   Scope = "events:write"   // publish events
	ScopeWebhooksRead  Scope = "webhooks:read"  // read endpoints, events, deliveries, attempts and dead letters
	ScopeWebhooksWrite Scope = "webhooks:write" // change endpoints, replay and cancel; includes webhooks:read
	ScopeAdmin         Scope = "admin"          // everything, accounts, event types and API keys included
)

// Scopes lists every scope.
var Scopes = []Scope{ScopeEventsWrite, ScopeWebhooksRead, ScopeWebhooksWrite, ScopeAdmin}

// APIKey authorizes calls of the API. Only the SHA-256 of the key is stored.
type APIKey struct {
	ID         KeyID
	Name       string
	Hash       [32]byte
	Scopes     []Scope
	Account    AccountID // zero: every account
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: never
	RevokedAt  time.Time // zero: not revoked
	LastUsedAt time.Time // to the minute; zero: never
}

// ActiveAt reports whether the key is valid at now: it is not revoked and has not
// expired.
func (k APIKey) ActiveAt(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Allows reports whether the key has the scope, or one that includes it.
func (k APIKey) Allows(scope Scope) bool {
	return slices.Contains(k.Scopes, ScopeAdmin) ||
		slices.Contains(k.Scopes, scope) ||
		(scope == ScopeWebhooksRead && slices.Contains(k.Scopes, ScopeWebhooksWrite))
}

// LogValue logs the key's id and name, and no secret.
func (k APIKey) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", k.ID.String()), slog.String("name", k.Name))
}
