// Package sessions is the part of the API that logs people in and out, makes one-time links to the
// portal, and lists and revokes sessions. No session outlives its key or its account.
package sessions

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/api/rest"
	"github.com/postrider/postrider/internal/apikeys"
	"github.com/postrider/postrider/internal/cache"
	"github.com/postrider/postrider/internal/store"
)

const (
	// operatorTime is the life time of an operator's session. If its key ends earlier, the session
	// ends with the key. No session lasts longer.
	operatorTime = 12 * time.Hour
	// clockDrift is the largest difference that is assumed between the time in an id and the
	// store's time.
	clockDrift = time.Hour
	// portalTime is the default and the longest life time of a portal session.
	portalTime = time.Hour
	// codeTime is the time within which a one-time link must be opened.
	codeTime = 60 * time.Second
)

// The audit actions of sessions. All other actions are names of routes.
const actionLogin, actionLogout, actionOpenPortal = "login", "logout", "open-portal"

// Actions are the audit actions of sessions. They are not names of routes.
var Actions = []string{actionLogin, actionLogout, actionOpenPortal}

// The prefixes of tokens and codes. A code is part of a URL and has no prefix.
const (
	sessionPrefix = "prs_"
	codePrefix    = ""
)

// Store is the part of the store that this package reads and changes.
type Store interface {
	// Sessions is the method of store.Sessions.
	Sessions(ctx context.Context, q store.SessionQuery) (store.Page[postrider.Session], error)
	// PutSession is the method of store.Sessions.
	PutSession(ctx context.Context, s postrider.Session) error
	// RevokeSession is the method of store.Sessions.
	RevokeSession(ctx context.Context, session postrider.SessionID) error
	// RedeemCode is the method of store.Sessions.
	RedeemCode(ctx context.Context, r store.RedeemCode) (postrider.Session, error)
	// TouchSession is the method of store.Sessions.
	TouchSession(ctx context.Context, session postrider.SessionID, at time.Time) error
	// Keys is the method of store.Access.
	Keys(ctx context.Context, q store.KeyQuery) (store.Page[postrider.APIKey], error)
	// Accounts is the method of store.Access.
	Accounts(ctx context.Context, q store.AccountQuery) (store.Page[postrider.Account], error)
	// Portal is the method of store.PortalSettings.
	Portal(ctx context.Context) (postrider.Portal, error)
	// Now returns the store's time, read from the store itself.
	Now(ctx context.Context) (time.Time, error)
}

// Deps has the parts that sessions depend on.
type Deps struct {
	*rest.Shared

	Store Store
	Keys  *apikeys.Checker
	// PublicURL is the URL at which people reach this server. Empty: no links can be made.
	PublicURL string
}

// Sessions logs people in and out. Tokens and codes are secrets of apikeys.MakeSecret; the store
// has only their hashes. A session that ends on another node works here for at most five seconds.
//
// An error matches postrider.ErrNotFound if a key, a code or a token is unknown, used or expired,
// and postrider.ErrTooManyTries if there were too many tries.
type Sessions struct {
	Deps

	// links limits the one-time links of each caller.
	links *rest.Limiter[rest.Payer]
	// found caches the sessions in use.
	found apikeys.Found[postrider.Session]
	// seen has the sessions whose LastSeenAt this node wrote within apikeys.Touched.
	seen *cache.TTL[postrider.SessionID, struct{}]
	// logins limits the tries to log in. begins limits the tries to begin a login at the identity
	// provider. opens limits the tries to open a one-time link.
	logins, begins, opens door
	// refused counts the refused logins since their last audit entry.
	refused burst
}

// burstTime is the shortest time between two audit entries of refused logins.
const burstTime = 10 * time.Minute

// burst merges many failures into one audit entry, so that a client without a key cannot fill the
// audit log.
type burst struct {
	mu       sync.Mutex
	next     time.Time // earliest time of the next entry
	failures int       // since the last entry
}

// count counts a failure. If due is true, the failure gets an audit entry, and failures is the
// number of failures since the last entry.
func (b *burst) count(now time.Time) (failures int, due bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures++
	if now.Before(b.next) {
		return 0, false
	}
	failures, b.failures, b.next = b.failures, 0, now.Add(burstTime)
	return failures, true
}

// door limits the tries to log in or to open links. each is the limit of one client, and all is the
// limit of all clients together.
type door struct {
	each *rest.Limiter[netip.Prefix]
	all  *rest.Limiter[struct{}]
}

// try counts a try of the client. All addresses in one IPv6 network of 64 bits count as one client.
// A private address is most likely that of a proxy that --trusted-proxies does not name, with many
// clients behind it. So a private address counts only for the limit of all clients.
//
// A client that has reached its own limit does not use up the limit of all clients, because then it
// could lock everybody out. The limit of all clients is checked before a new network is stored in
// memory, so it also limits that memory.
func (d door) try(from netip.Addr) error {
	bits := 32
	if from.Is6() {
		bits = 64
	}
	network, _ := from.Prefix(bits) // zero for the zero address
	shared := from.IsPrivate() || from.IsLoopback()
	if !shared && d.each.Spent(network) || d.all.Allow(struct{}{}) != nil || !shared && d.each.Allow(network) != nil {
		return postrider.ErrTooManyTries
	}
	return nil
}

// New returns sessions with empty caches.
func New(d Deps) *Sessions {
	return &Sessions{
		Deps: d,
		links: rest.NewLimiter[rest.Payer](100*time.Millisecond, 100,
			"a caller makes at most 100 links to the portal at once, then ten a second; see Retry-After"),
		found: apikeys.NewFound(d.Keys.Lookups, func(ctx context.Context, hash [32]byte) (postrider.Session, error) {
			return store.First(d.Store.Sessions(ctx, store.SessionQuery{Hash: hash}))
		}),
		seen:   cache.NewTTL[postrider.SessionID, struct{}](apikeys.Touched),
		logins: door{rest.NewLimiter[netip.Prefix](6*time.Second, 10, ""), rest.NewLimiter[struct{}](50*time.Millisecond, 200, "")},
		begins: door{rest.NewLimiter[netip.Prefix](6*time.Second, 10, ""), rest.NewLimiter[struct{}](50*time.Millisecond, 200, "")},
		opens:  door{rest.NewLimiter[netip.Prefix](time.Second, 60, ""), rest.NewLimiter[struct{}](10*time.Millisecond, 1000, "")},
	}
}

// Login makes an operator's session from the text of an API key. The session has the scopes and the
// account of the key. A key without the scope webhooks:read could open no page, so it is refused
// like an unknown key. A valid key counts for no limit of tries. A key has 256 random bits, so
// limits are not needed against guessing, and nobody can lock out the owner of a key.
func (s *Sessions) Login(ctx context.Context, key string, from netip.Addr) (token string, made postrider.Session, err error) {
	entry := postrider.AuditEntry{Action: actionLogin, Details: rest.ClientOf(from)}
	known, err := s.keyOf(ctx, key)
	if err == nil && !known.Caller.Allows(postrider.ScopeWebhooksRead) {
		entry.Key, entry.Name, err = known.ID, known.Name, postrider.ErrNotFound
	}
	if errors.Is(err, postrider.ErrNotFound) {
		return "", made, errors.Join(cmp.Or(s.logins.try(from), err), s.refuse(ctx, entry))
	}
	if err != nil {
		return "", made, err
	}
	return s.open(ctx, postrider.Session{
		Kind: postrider.SessionOperator, Name: known.Name, Key: known.ID, Account: known.Account, Scopes: known.Scopes,
	}, entry)
}

// refuse counts a refused login. If an audit entry is due, it writes the entry.
func (s *Sessions) refuse(ctx context.Context, entry postrider.AuditEntry) error {
	failures, due := s.refused.count(time.Now())
	if !due {
		return nil
	}
	entry.Outcome = "unauthorized"
	if failures > 1 {
		entry.Details["failures"] = strconv.Itoa(failures)
	}
	return s.Audit.Record(ctx, entry)
}

// keyOf returns the active key with the text.
func (s *Sessions) keyOf(ctx context.Context, text string) (*apikeys.Key, error) {
	if len(text) > apikeys.MaxToken {
		return nil, postrider.ErrNotFound
	}
	known, err := s.Keys.Find(ctx, text, time.Now())
	if errors.Is(err, apikeys.ErrUnauthorized) || err == nil && !known.ActiveAt(s.Clock.Wall()) {
		return nil, postrider.ErrNotFound
	}
	return known, err
}

// BeginLogin counts the beginning of a login at the identity provider, because it may make a
// request to the provider. It has the same limits as Login, but counts separately from
// Login and LoginAs.
func (s *Sessions) BeginLogin(from netip.Addr) error { return s.begins.try(from) }

// LoginAs makes an operator's session for a person that an identity provider authenticates.
// authenticate returns the name, the subject and the scopes of the session. It returns an error
// that matches postrider.ErrNotFound if the person may not log in. After too many tries,
// authenticate is not called.
func (s *Sessions) LoginAs(ctx context.Context, from netip.Addr,
	authenticate func(context.Context) (postrider.Session, error),
) (token string, made postrider.Session, err error) {
	if err := s.logins.try(from); err != nil {
		return "", made, err
	}
	entry := postrider.AuditEntry{Action: actionLogin, Details: rest.ClientOf(from)}
	person, err := authenticate(ctx)
	if errors.Is(err, postrider.ErrNotFound) {
		s.Log.InfoContext(ctx, "the identity provider's login was refused", "client", from.String(), "error", err)
		return "", made, errors.Join(err, s.refuse(ctx, entry))
	}
	if err != nil {
		return "", made, err
	}
	person.Kind = postrider.SessionOperator
	return s.open(ctx, person, entry)
}

// open makes a token, stores the session with it, and writes the audit entry.
func (s *Sessions) open(ctx context.Context, session postrider.Session, entry postrider.AuditEntry) (string, postrider.Session, error) {
	token, hash := apikeys.MakeSecret(sessionPrefix)
	session.Hash = hash
	session, err := s.issue(ctx, session, operatorTime)
	if err != nil {
		return "", session, err
	}
	entry.Outcome, entry.Key, entry.Session, entry.Name, entry.Account = rest.OutcomeOK, session.Key, session.ID, session.Name, session.Account
	return token, session, s.Audit.Record(ctx, entry)
}

// issue stores a session that ends after the time lasts, or earlier if its key ends earlier.
//
// The key and the account are read again after the write. If the key or the account ended before
// the write, issue revokes the session. If one of them ends after the write, the code that ends it
// also finds and ends the session. So no session outlives its key or its account.
func (s *Sessions) issue(ctx context.Context, session postrider.Session, lasts time.Duration) (postrider.Session, error) {
	now, err := s.Store.Now(ctx)
	if err != nil {
		return session, err
	}
	session.ID = store.NewID[postrider.SessionID](s.IDs)
	session.CreatedAt, session.ExpiresAt = session.ID.Time(), now.Add(lasts).Truncate(time.Microsecond)
	if session.Code != [32]byte{} {
		session.CodeExpiresAt = now.Add(codeTime).Truncate(time.Microsecond)
	}
	if !session.Key.IsZero() {
		key, err := store.First(s.Store.Keys(ctx, store.KeyQuery{ID: session.Key}))
		if err != nil {
			return session, err
		}
		if end := key.ExpiresAt; !end.IsZero() && end.Before(session.ExpiresAt) {
			session.ExpiresAt = end
		}
	}
	if err := s.Store.PutSession(ctx, session); err != nil {
		return session, err
	}
	if err := s.checkIssuer(ctx, session, now); err != nil {
		return session, errors.Join(err, s.Store.RevokeSession(ctx, session.ID))
	}
	return session, nil
}

// checkIssuer returns apikeys.ErrUnauthorized if the session's key is no longer active. It returns
// a fault of the field account if the account is deleted, because this node may have resolved the
// account from its cache.
func (s *Sessions) checkIssuer(ctx context.Context, session postrider.Session, now time.Time) error {
	if !session.Key.IsZero() {
		key, err := store.First(s.Store.Keys(ctx, store.KeyQuery{ID: session.Key}))
		if err != nil || !key.ActiveAt(now) {
			return errors.Join(err, apikeys.ErrUnauthorized)
		}
	}
	if !session.Account.IsZero() {
		account, err := store.First(s.Store.Accounts(ctx, store.AccountQuery{ID: session.Account}))
		if err != nil {
			return err
		}
		if !account.DeletedAt.IsZero() {
			return rest.Invalid("account", postrider.FaultNotFound, "names no account")
		}
	}
	return nil
}

// Entry returns the session of a one-time link by its code. It does not use up the code.
func (s *Sessions) Entry(ctx context.Context, code string) (postrider.Session, error) {
	if !apikeys.Issuable(codePrefix, code) {
		return postrider.Session{}, postrider.ErrNotFound
	}
	var session postrider.Session
	hash := sha256.Sum256([]byte(code))
	err := s.Keys.Look(ctx, hash, func(ctx context.Context) (err error) {
		session, err = store.First(s.Store.Sessions(ctx, store.SessionQuery{Code: hash}))
		return err
	})
	now := s.Clock.Wall()
	if err == nil && (session.Hash != [32]byte{} || !now.Before(session.CodeExpiresAt) || !session.RevokedAt.IsZero()) {
		return postrider.Session{}, postrider.ErrNotFound
	}
	return session, err
}

// Redeem opens a one-time link. A code works once. As in Login, a valid code counts for no limit of
// tries. A text that cannot be a code does not count as a try.
func (s *Sessions) Redeem(ctx context.Context, code string, from netip.Addr) (token string, session postrider.Session, err error) {
	if !apikeys.Issuable(codePrefix, code) {
		return "", session, postrider.ErrNotFound
	}
	token, hash := apikeys.MakeSecret(sessionPrefix)
	codeHash := sha256.Sum256([]byte(code))
	err = s.Keys.Look(ctx, codeHash, func(ctx context.Context) (err error) {
		session, err = s.Store.RedeemCode(ctx, store.RedeemCode{Code: codeHash, Token: hash})
		return err
	})
	if errors.Is(err, postrider.ErrNotFound) {
		return "", session, cmp.Or(s.opens.try(from), err)
	}
	if err != nil {
		return "", session, err
	}
	return token, session, s.Audit.Record(ctx, entryOf(session, actionOpenPortal, rest.ClientOf(from)))
}

// Find returns the session of a token if the session is active.
func (s *Sessions) Find(ctx context.Context, token string) (postrider.Session, error) {
	if !apikeys.Issuable(sessionPrefix, token) {
		return postrider.Session{}, postrider.ErrNotFound
	}
	session, err := s.found.Find(ctx, sha256.Sum256([]byte(token)), time.Now())
	if err != nil {
		return postrider.Session{}, err
	}
	now := s.Clock.Wall()
	if !session.ActiveAt(now) {
		return postrider.Session{}, postrider.ErrNotFound
	}
	s.touch(ctx, session, now)
	return *session, nil
}

// touch records the use of a session, at most once in apikeys.Touched, as [apikeys.Checker] does
// for keys.
func (s *Sessions) touch(ctx context.Context, session *postrider.Session, now time.Time) {
	if now.Sub(session.LastSeenAt) < apikeys.Touched || !s.seen.PutIfAbsent(session.ID, struct{}{}, time.Now()) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, apikeys.TouchTime)
	defer cancel()
	if err := s.Store.TouchSession(ctx, session.ID, now); err != nil {
		s.Log.WarnContext(ctx, "last use of a session was not recorded", "session", *session, "error", err)
	}
}

// Logout ends the session of a token.
func (s *Sessions) Logout(ctx context.Context, token string) error {
	session, err := s.Find(ctx, token)
	if err != nil {
		return err
	}
	if err := s.Store.RevokeSession(ctx, session.ID); err != nil {
		return err
	}
	s.Forget()
	return s.Audit.Record(ctx, entryOf(session, actionLogout, nil))
}

// Forget empties this node's cache of sessions, so that the node no longer accepts sessions that
// ended.
func (s *Sessions) Forget() { s.found.Forget() }

// entryOf returns an audit entry for an action of a session that is not a request of the API.
func entryOf(session postrider.Session, action string, details map[string]string) postrider.AuditEntry {
	return postrider.AuditEntry{
		Action: action, Outcome: rest.OutcomeOK, Key: session.Key, Session: session.ID, Name: session.Name, Account: session.Account,
		Details: details,
	}
}
