package postrider

import (
	"log/slog"
	"slices"
	"time"
)

// SessionKind says which pages a session opens.
type SessionKind string

// The kinds of session.
const (
	SessionOperator SessionKind = "operator" // the dashboard; a login makes the session
	SessionPortal   SessionKind = "portal"   // the customer portal; opening a one-time link starts the session
)

// Session is the right of one browser to call the API through the pages. The browser has the
// session's token in a cookie; only the SHA-256 of the token is stored. A session ends when it
// expires, when it is revoked, when the API key that issued it ends, and when its account is
// deleted.
type Session struct {
	ID       SessionID
	Kind     SessionKind
	Name     string    // name of the person or the key, for people
	Subject  string    // the person's identifier at the identity provider; empty: a key issued the session
	Key      KeyID     // API key that issued the session; zero: an identity provider did
	Account  AccountID // the only account that the session reaches; zero: all accounts
	Scopes   []Scope
	Options  []string // policy options that the session may set; see [Caller]
	Locale   string   // language of the pages; empty: the language that the browser asks for
	Embedded bool     // whether its pages are in a frame of another site

	Code          [32]byte  // SHA-256 of the code in its one-time link; zero: it has no link
	CodeExpiresAt time.Time // zero: it has no link
	Hash          [32]byte  // SHA-256 of its token; zero: its link was not opened yet

	CreatedAt  time.Time
	ExpiresAt  time.Time
	LastSeenAt time.Time // exact to the minute; zero: never
	RevokedAt  time.Time // zero: not revoked
}

// ActiveAt reports whether the session is valid at now: its link was opened, and it neither is
// revoked nor has expired.
func (s Session) ActiveAt(now time.Time) bool {
	return s.Hash != [32]byte{} && s.RevokedAt.IsZero() && now.Before(s.ExpiresAt)
}

// Caller returns the caller of the session's requests.
func (s Session) Caller() Caller {
	return Caller{Key: s.Key, Session: s.ID, Name: s.Name, Account: s.Account, Scopes: s.Scopes, Options: s.Options}
}

// LogValue logs the session's id and kind, and no secret.
func (s Session) LogValue() slog.Value {
	return slog.GroupValue(slog.String("id", s.ID.String()), slog.String("kind", string(s.Kind)))
}

// AuditEntry records one action of a caller, whether it succeeded or not: a change, a replay, a
// test, a look at secrets, a login. It has no secret and never changes.
type AuditEntry struct {
	ID       AuditID // contains the time
	At       time.Time
	Action   string            // operation of the API, such as update-endpoint; or login, logout, open-portal, expunged
	Outcome  string            // ok, or the code of the problem with which the action was refused
	Key      KeyID             // key of the caller; zero: none
	Session  SessionID         // session of the caller; zero: none
	Name     string            // name of the caller; empty for a failed login
	Account  AccountID         // account of the object; zero: no account, or several
	Object   string            // kind of the object, such as endpoint; empty: none
	ObjectID string            // id or name of the object; empty: none
	Request  string            // id of the request in the log
	Details  map[string]string // by name; may be nil
}

// Portal says how the customer portal looks, where it may be embedded, and what it offers. All
// accounts share one Portal.
type Portal struct {
	Name         string   // name of the platform, shown in the title; empty: none
	Colour       string   // accent colour, "#rrggbb" in lower case; empty: the standard colour
	FrameOrigins []string // https origins whose pages may show the portal in a frame
	Options      []string // policy options that portal sessions may set; nil: PortalOptions
	Logo         [32]byte // SHA-256 of the logo; zero: none; written only by PutLogo
	UpdatedAt    time.Time
}

// PortalOptions are the policy options that portal sessions may set unless the operator names
// others. Options that use the operator's own capacity are not among them: concurrency, circuit,
// expiry, retries and timeouts.
var PortalOptions = []string{
	"filter", "changed", "channels", "condition", "client_errors", "signature", "payload", "include_previous", "order", "on_dead", "headers",
	"compression", "rate", "auth",
}

// SessionOptions returns the options that portal sessions may set: a list, which may be
// empty, and never nil.
func (p Portal) SessionOptions() []string {
	if p.Options == nil {
		return slices.Clone(PortalOptions)
	}
	return append([]string{}, p.Options...)
}
