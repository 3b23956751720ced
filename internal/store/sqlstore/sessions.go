package sqlstore

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// sessionColumns are the columns of a session, in the order of scanSession.
const sessionColumns = `id, kind, name, subject, key, account, scopes, options, locale, embedded, code, code_expires_at, hash, created_at, expires_at,
		last_seen_at, revoked_at`

func scanSession(row Row, s *postrider.Session) error {
	return row.Scan(&s.ID, &s.Kind, &s.Name, &s.Subject, &s.Key, &s.Account, &s.Scopes, &s.Options, &s.Locale, &s.Embedded, &s.Code,
		&s.CodeExpiresAt, &s.Hash, &s.CreatedAt, &s.ExpiresAt, &s.LastSeenAt, &s.RevokedAt)
}

// The primary key and the unique indexes of code and hash refuse a session that already exists.
const putSessionSQL = `
	insert into sessions (id, kind, name, subject, key, account, scopes, options, locale, embedded, code, code_expires_at, hash, created_at, expires_at)
	values (@id, @kind, @name, @subject, @key, @account, @scopes, @options, @locale, @embedded, @code, @code_expires_at, @hash, @created_at, @expires_at)`

// PutSession creates a session; see [store.Sessions].
func (v Verbs) PutSession(ctx context.Context, s postrider.Session) (err error) {
	defer v.calls.Begin("PutSession").End(&err, "put session %s", s.ID)
	return v.exec(ctx, Once, Query{putSessionSQL, Args{
		"id": s.ID, "kind": s.Kind, "name": s.Name, "subject": s.Subject, "key": OrNull(s.Key), "account": OrNull(s.Account),
		"scopes": append([]postrider.Scope{}, s.Scopes...), "options": s.Options, "locale": s.Locale, "embedded": s.Embedded,
		"code": OrNull(s.Code), "code_expires_at": s.CodeExpiresAt, "hash": OrNull(s.Hash), "created_at": s.ID.Time(), "expires_at": s.ExpiresAt,
	}})
}

// The statement walks the unique index of code, and locks the row. Of two parallel calls, the
// second one finds the hash that the first one stored.
const redeemCodeSQL = `
	update sessions set hash = @token
	where code = @code and revoked_at is null and expires_at > now() and (hash = @token or hash is null and code_expires_at > now())
	returning ` + sessionColumns

// RedeemCode sets the token of the session with a one-time code; see [store.Sessions]. A repeat
// finds its own token and succeeds.
func (v Verbs) RedeemCode(ctx context.Context, r store.RedeemCode) (session postrider.Session, err error) {
	defer v.calls.Begin("RedeemCode").End(&err, "redeem code")
	err = v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		session, err = one(ctx, tx, Query{redeemCodeSQL, Args{"code": r.Code, "token": r.Token}}, scanSession)
		return err
	})
	return session, err
}

const sessionsSQL = `
	select ` + sessionColumns + `
	from sessions`

// Sessions lists sessions, newest first; see [store.Sessions]. There is no index for Kind and
// LiveAt.
func (v Verbs) Sessions(ctx context.Context, q store.SessionQuery) (page store.Page[postrider.Session], err error) {
	defer v.calls.Begin("Sessions").End(&err, "list sessions")
	l, err := listOf[postrider.SessionID](v.db, sessionsSQL, q.Span, q.Paging)
	if err != nil {
		return page, err
	}
	by(l, "id", q.ID)
	by(l, "code", q.Code)
	by(l, "hash", q.Hash)
	by(l, "account", q.Account)
	if q.Kind != "" {
		l.and("kind = @kind", Args{"kind": q.Kind})
	}
	if !q.LiveAt.IsZero() {
		l.and("revoked_at is null and expires_at > @live", Args{"live": q.LiveAt})
	}
	return pageOf(ctx, l, scanSession, func(s *postrider.Session) postrider.SessionID { return s.ID })
}

// Both statements walk the primary key. A session that was revoked before keeps the time of that
// revocation. Calls of TouchSession from several nodes can arrive in any order; touchSessionSQL
// never moves the time of the last use back.
const (
	revokeSessionSQL = `update sessions set revoked_at = coalesce(revoked_at, now()) where id = @id`
	touchSessionSQL  = `update sessions set last_seen_at = greatest(coalesce(last_seen_at, @at::timestamptz), @at::timestamptz) where id = @id`
)

// RevokeSession ends a session; see [store.Sessions].
func (v Verbs) RevokeSession(ctx context.Context, session postrider.SessionID) (err error) {
	defer v.calls.Begin("RevokeSession").End(&err, "revoke session %s", session)
	return found(v.db.Exec(ctx, Repeatable, Query{revokeSessionSQL, Args{"id": session}}))
}

// TouchSession records the time at which a session was last used; see [store.Sessions].
func (v Verbs) TouchSession(ctx context.Context, session postrider.SessionID, at time.Time) (err error) {
	defer v.calls.Begin("TouchSession").End(&err, "touch session %s", session)
	return found(v.db.Exec(ctx, Repeatable, Query{touchSessionSQL, Args{"id": session, "at": at}}))
}
