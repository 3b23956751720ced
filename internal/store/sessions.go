package store

import (
	"context"
	"time"

	"github.com/postrider/postrider"
)

// SessionsKept is how long the janitor keeps a session after its expiry, so that people can see
// who had access.
const SessionsKept = 30 * 24 * time.Hour

// Sessions keeps the sessions of the pages. [Access.RevokeKey] and
// [Access.DeleteAccount] end sessions too.
type Sessions interface {
	// PutSession creates a session.
	PutSession(ctx context.Context, s postrider.Session) error

	// RedeemCode sets the token of the session with the one-time code, and returns the session.
	//
	// Of parallel calls with different tokens one succeeds; for the other calls the code is used. If
	// the code is unknown, used or expired, or its session has ended, the error is
	// postrider.ErrNotFound.
	// Repeated with the same token, it returns the session again.
	RedeemCode(ctx context.Context, r RedeemCode) (postrider.Session, error)

	// Sessions lists sessions, newest first.
	Sessions(ctx context.Context, q SessionQuery) (Page[postrider.Session], error)

	// RevokeSession ends a session. If the session was revoked before, its time of revocation stays.
	RevokeSession(ctx context.Context, session postrider.SessionID) error

	// TouchSession records the time at which a session was last used. The time never moves back.
	TouchSession(ctx context.Context, session postrider.SessionID, at time.Time) error
}

// RedeemCode is the use of a one-time link.
type RedeemCode struct {
	Code  [32]byte // SHA-256 of the code
	Token [32]byte // SHA-256 of the session's new token
}

// SessionQuery filters sessions; a zero field does not filter. Without ID, Hash, Code or
// Span, a list may read all sessions of SessionsKept.
type SessionQuery struct {
	ID      postrider.SessionID
	Hash    [32]byte // SHA-256 of the token
	Code    [32]byte // SHA-256 of the one-time code
	Kind    postrider.SessionKind
	Account postrider.AccountID
	LiveAt  time.Time // only sessions that are not revoked and expire after this time
	Span              // filters by the time of creation
	Paging
}

// Audit keeps the audit log. Nothing changes an entry.
type Audit interface {
	// AppendAudit stores an entry. Repeated with the same id, it stores nothing more.
	AppendAudit(ctx context.Context, e postrider.AuditEntry) error

	// AuditEntries lists entries, newest first.
	AuditEntries(ctx context.Context, q AuditQuery) (Page[postrider.AuditEntry], error)
}

// AuditQuery filters audit entries; a zero field does not filter.
type AuditQuery struct {
	Account  postrider.AccountID
	Key      postrider.KeyID
	Session  postrider.SessionID
	Action   string
	ObjectID string
	Span
	Paging
}

// PortalSettings keeps the settings of the customer portal: one [postrider.Portal], and
// its logo.
type PortalSettings interface {
	// PutPortal replaces the settings, but not the logo.
	PutPortal(ctx context.Context, p postrider.Portal) error

	// Portal returns the settings. Before the first PutPortal they are empty.
	Portal(ctx context.Context) (postrider.Portal, error)

	// PutLogo replaces the logo, a PNG, and its hash in the settings. An empty png removes the logo.
	PutLogo(ctx context.Context, png []byte) error

	// Logo returns the logo. If there is no logo, the error is postrider.ErrNotFound.
	Logo(ctx context.Context) ([]byte, error)
}
