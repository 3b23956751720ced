package postrider

import (
	"log/slog"
	"slices"
	"time"
)

// Account is whose endpoints they are: a customer of the platform that runs
// Postrider. UID is the platform's own name for it, unique, and may be empty.
type Account struct {
	ID        AccountID
	UID       string
	Name      string
	CreatedAt time.Time
	DeletedAt time.Time // zero: it was not deleted
}

// EventType is an entry of the platform's catalogue. It documents a type; an
// event whose type is not in the catalogue is published all the same.
type EventType struct {
	Name        string
	Description string
	CreatedAt   time.Time
}

// Scope is what an API key may do.
type Scope string

// The scopes. Admin includes the others and reaches accounts, event types and
// keys.
const (
	ScopeEventsWrite   Scope = "events:write"
	ScopeWebhooksRead  Scope = "webhooks:read"
	ScopeWebhooksWrite Scope = "webhooks:write"
	ScopeAdmin         Scope = "admin"
)

// Scopes lists every scope there is.
var Scopes = []Scope{ScopeEventsWrite, ScopeWebhooksRead, ScopeWebhooksWrite, ScopeAdmin}

// APIKey lets its bearer call the API. Only the SHA-256 of the key is kept.
type APIKey struct {
	ID         KeyID
	Name       string
	Hash       [32]byte
	Scopes     []Scope
	Account    AccountID // zero: every account
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: never
	RevokedAt  time.Time // zero: in force
	LastUsedAt time.Time // to the minute; zero: not yet
}

// ActiveAt reports whether the key is in force at now. A key that was revoked is
// not, at any time.
func (k APIKey) ActiveAt(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Allows reports whether the key carries the scope. webhooks:write includes
// webhooks:read.
func (k APIKey) Allows(scope Scope) bool {
	return slices.Contains(k.Scopes, ScopeAdmin) ||
		slices.Contains(k.Scopes, scope) ||
		(scope == ScopeWebhooksRead && slices.Contains(k.Scopes, ScopeWebhooksWrite))
}

// LogValue makes a log line name the key and nothing of what it holds.
func (k APIKey) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", k.ID.String()), slog.String("name", k.Name))
}
