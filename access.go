package postrider

import (
	"log/slog"
	"slices"
	"time"
)

// Scope is a permission of a [Caller].
type Scope string

// The scopes. ScopeWebhooksWrite includes the four scopes between ScopeEventsWrite and itself.
// ScopeAdmin includes every scope.
const (
	ScopeEventsWrite  Scope = "events:write"  // publish events
	ScopeWebhooksRead Scope = "webhooks:read" // read endpoints, events, deliveries, attempts and dead letters
	// Pause, resume, enable, test and verify endpoints, set circuits; replay, cancel and discard
	// deliveries.
	ScopeWebhooksOperate Scope = "webhooks:operate"
	ScopeEndpointsWrite  Scope = "endpoints:write" // create, change, disable and delete endpoints, rotate and revoke their secrets
	ScopeSecretsRead     Scope = "secrets:read"    // show the secrets of endpoints
	ScopeWebhooksWrite   Scope = "webhooks:write"  // webhooks:read, webhooks:operate, endpoints:write and secrets:read together
	// Everything, including accounts, event types, API keys, sessions and the audit log.
	ScopeAdmin Scope = "admin"
)

// Scopes lists every scope.
var Scopes = []Scope{
	ScopeEventsWrite, ScopeWebhooksRead, ScopeWebhooksOperate, ScopeEndpointsWrite, ScopeSecretsRead, ScopeWebhooksWrite, ScopeAdmin,
}

// Includes reports whether scope s permits everything that scope other permits.
func (s Scope) Includes(other Scope) bool {
	if s == ScopeWebhooksWrite && slices.Contains([]Scope{ScopeWebhooksRead, ScopeWebhooksOperate, ScopeEndpointsWrite, ScopeSecretsRead},
		other) {
		return true
	}
	return s == other || s == ScopeAdmin
}

// Caller identifies who makes a request of the API: an API key, or a person with a session.
type Caller struct {
	// Key that the request carries, or the key that issued its session; zero: a session that no key
	// issued.
	Key     KeyID
	Session SessionID // session of the request; zero: the request carries an API key
	Name    string    // name of the key or the person, for people; not unique
	Account AccountID // the only account that the caller sees; zero: all accounts
	Scopes  []Scope
	Options []string // names of the policy options that the caller may set, as in the API; nil: all, empty: none
	Request string   // id of the page request for which a page calls the API; empty: no page makes this call
}

// Allows reports whether the caller has the scope, or one that includes it. A caller with an
// Account never has ScopeAdmin, because accounts, API keys and the audit log belong to no account.
func (c Caller) Allows(scope Scope) bool {
	if scope == ScopeAdmin && !c.Account.IsZero() {
		return false
	}
	return slices.ContainsFunc(c.Scopes, func(s Scope) bool { return s.Includes(scope) })
}

// MaySet reports whether the caller may set the policy option with this name.
func (c Caller) MaySet(option string) bool {
	return c.Options == nil || slices.Contains(c.Options, option)
}

// APIKey authorizes calls of the API. Only the SHA-256 of the key is stored.
type APIKey struct {
	ID         KeyID
	Name       string
	Hash       [32]byte
	Scopes     []Scope
	Account    AccountID // the only account that the key sees; zero: all accounts
	CreatedAt  time.Time
	ExpiresAt  time.Time // zero: never
	RevokedAt  time.Time // zero: not revoked
	LastUsedAt time.Time // exact to the minute; zero: never used
}

// ActiveAt reports whether the key is valid at now: it is not revoked and has not
// expired.
func (k APIKey) ActiveAt(now time.Time) bool {
	return k.RevokedAt.IsZero() && (k.ExpiresAt.IsZero() || now.Before(k.ExpiresAt))
}

// Caller returns the caller of the requests that carry the key.
func (k APIKey) Caller() Caller {
	return Caller{Key: k.ID, Name: k.Name, Account: k.Account, Scopes: k.Scopes}
}

// LogValue logs the key's id and name, and no secret.
func (k APIKey) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", k.ID.String()), slog.String("name", k.Name))
}
