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
	SessionOperator SessionKind = "operator" // the dashboard; Login makes it
	SessionPortal   SessionKind = "portal"   // the customer portal; a one-time link opens it
)

// Session is the right of one browser to call the API through the pages. The browser
// has its token in a cookie; only the SHA-256 of the token is stored. A session ends
// when it expires, when it is revoked, with the API key that issued it, and with its
// account.
type Session struct {
	ID       SessionID
	Kind     SessionKind
	Name     string    // of the person or the key, for people
	Subject  string    // of a person, by the provider that authenticated them; empty: a key issued the session
	Key      KeyID     // API key that issued it; zero: an identity provider did
	Account  AccountID // the only account that it reaches; zero: every account
	Scopes   []Scope
	Options  []string // policy options that it may set; see [Caller]
	Locale   string   // of the pages; empty: as the browser asks
	Embedded bool     // its pages are in a frame of another site

	Code          [32]byte  // SHA-256 of the code of its one-time link; zero: it has none
	CodeExpiresAt time.Time // zero: it has no code
	Hash          [32]byte  // SHA-256 of its token; zero: its link was not opened yet

	CreatedAt  time.Time
	ExpiresAt  time.Time
	LastSeenAt time.Time // to the minute; zero: never
	RevokedAt  time.Time // zero: not revoked
}

// ActiveAt reports whether the session is valid at now: its link was opened, it is not
// revoked and has not expired.
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

// AuditEntry records what a caller did or tried: a change, a replay, a test, a look at
// secrets, a login. It has no secret and never changes.
type AuditEntry struct {
	ID       AuditID // carries the time
	At       time.Time
	Action   string            // the operation of the API, such as update-endpoint; or login, logout, open-portal, expunged
	Outcome  string            // ok, or the code of the problem that refused it
	Key      KeyID             // of the caller; zero: none
	Session  SessionID         // of the caller; zero: none
	Name     string            // of the caller; of a failed login empty
	Account  AccountID         // account of the object; zero: none, or several
	Object   string            // kind of the object, such as endpoint; empty: none
	ObjectID string            // id or name of the object; empty: none
	Request  string            // id of the request in the log
	Details  map[string]string // by name; may be nil
}

// Portal is how the customer portal looks, where it may be embedded, and what it
// offers. There is one for all accounts.
type Portal struct {
	Name         string   // of the platform, shown in the title; empty: none
	Colour       string   // accent, "#rrggbb" in lower case; empty: the standard one
	FrameOrigins []string // https origins whose pages may have the portal in a frame
	Options      []string // policy options that portal sessions may set; nil: PortalOptions
	Logo         [32]byte // SHA-256 of the logo; zero: none. Written only by PutLogo
	UpdatedAt    time.Time
}

// PortalOptions are the policy options that portal sessions may set unless the operator
// names others. The options that spend the operator's own capacity are missing:
// concurrency, circuit, expiry, retries and timeouts.
var PortalOptions = []string{"client_errors", "signature", "payload", "order", "on_dead", "headers", "compression", "rate", "auth"}

// SessionOptions returns the options that portal sessions may set: a list, which may be
// empty, and never nil.
func (p Portal) SessionOptions() []string {
	if p.Options == nil {
		return slices.Clone(PortalOptions)
	}
	return append([]string{}, p.Options...)
}
