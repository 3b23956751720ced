package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The key of sessions and the unique index on code refuse a session that exists.
const putSessionSQL = `
	insert into sessions (id, kind, name, subject, key, account, scopes, options, locale, embedded, code, code_expires_at, hash, created_at, expires_at)
	values (@id, @kind, @name, @subject, @key, @account, @scopes, @options, @locale, @embedded, @code, @code_expires_at, @hash, @created_at, @expires_at)`

// PutSession creates a session; see [store.Sessions].
func (s *Store) PutSession(ctx context.Context, session postrider.Session) error {
	scopes, err := json.Marshal(append([]postrider.Scope{}, session.Scopes...))
	if err != nil {
		return s.explain("put session", err)
	}
	options, err := arrayOrNull(session.Options)
	if err != nil {
		return s.explain("put session", err)
	}
	return change(ctx, s, "put session", func(ctx context.Context, tx *tx) error {
		return tx.exec(ctx, putSessionSQL, sql.Named("id", blob(session.ID)), sql.Named("kind", string(session.Kind)),
			sql.Named("name", session.Name), sql.Named("subject", session.Subject), sql.Named("key", blobOrNull(session.Key)),
			sql.Named("account", blobOrNull(session.Account)), sql.Named("scopes", string(scopes)), sql.Named("options", options),
			sql.Named("locale", session.Locale), sql.Named("embedded", session.Embedded), sql.Named("code", hashOrNull(session.Code)),
			sql.Named("code_expires_at", microsOrNull(session.CodeExpiresAt)), sql.Named("hash", hashOrNull(session.Hash)),
			sql.Named("created_at", micros(session.ID.Time())), sql.Named("expires_at", micros(session.ExpiresAt)))
	})
}

// hashOrNull returns the hash as an argument; the zero hash is null.
func hashOrNull(hash [32]byte) any {
	if hash == [32]byte{} {
		return nil
	}
	return hash[:]
}

// arrayOrNull returns the texts as an argument, a JSON array; nil is null.
func arrayOrNull(texts []string) (any, error) {
	if texts == nil {
		return nil, nil //nolint:nilnil // null is an argument
	}
	array, err := json.Marshal(texts)
	return string(array), err
}

// The columns of scanSession, in its order.
const sessionColumns = `id, kind, name, subject, key, account, scopes, options, locale, embedded, code, code_expires_at, hash, created_at, expires_at,
		last_seen_at, revoked_at`

// By the unique index on code.
const (
	redeemCodeSQL = `
	update sessions set hash = @token
	where code = @code and revoked_at is null and expires_at > @now and (hash = @token or hash is null and code_expires_at > @now)`
	redeemedSQL = `
	select ` + sessionColumns + `
	from sessions where code = @code`
)

// RedeemCode opens a one-time link; see [store.Sessions].
func (s *Store) RedeemCode(ctx context.Context, r store.RedeemCode) (postrider.Session, error) {
	return write(ctx, s, "redeem code", func(ctx context.Context, tx *tx) (session postrider.Session, err error) {
		code := sql.Named("code", hashOrNull(r.Code))
		if err := found(tx.count(ctx, redeemCodeSQL, code, sql.Named("token", r.Token[:]), sql.Named("now", micros(tx.wall)))); err != nil {
			return session, err
		}
		rows, err := tx.query(ctx, redeemedSQL, code)
		if err != nil {
			return session, err
		}
		all, err := collect(rows, scanSession)
		if err != nil {
			return session, err
		}
		return all[0], nil // the code is unique, and the update found it
	})
}

// From the end of the key of sessions, or of sessions_account, or by the unique index on
// hash or code. The other filters have no index: @from bounds what is read for them.
const (
	sessionsSQL = `
	select ` + sessionColumns + `
	from sessions
	where id >= @from and id < @below and (@id is null or id = @id) and (@kind = '' or kind = @kind) and (@account is null or account = @account)
		and (@live is null or revoked_at is null and expires_at > @live)
	order by id desc limit @limit`
	sessionsByAccountSQL = `
	select id, kind, name, subject, key, account, scopes, options, locale, embedded, code, code_expires_at, hash, created_at, expires_at,
		last_seen_at, revoked_at
	from sessions
	where account = @account and id >= @from and id < @below and (@id is null or id = @id) and (@kind = '' or kind = @kind)
		and (@live is null or revoked_at is null and expires_at > @live)
	order by id desc limit @limit`
	sessionsByHashSQL = `
	select ` + sessionColumns + `
	from sessions
	where hash = @hash and id >= @from and id < @below and (@id is null or id = @id) and (@kind = '' or kind = @kind)
		and (@account is null or account = @account) and (@live is null or revoked_at is null and expires_at > @live)
	order by id desc limit @limit`
	sessionsByCodeSQL = `
	select ` + sessionColumns + `
	from sessions
	where code = @code and (@hash is null or hash = @hash) and id >= @from and id < @below and (@id is null or id = @id) and (@kind = '' or kind = @kind)
		and (@account is null or account = @account) and (@live is null or revoked_at is null and expires_at > @live)
	order by id desc limit @limit`
)

// Sessions lists sessions; see [store.Sessions].
func (s *Store) Sessions(ctx context.Context, q store.SessionQuery) (store.Page[postrider.Session], error) {
	args, err := window[postrider.SessionID](q.Span, q.Paging)
	if err != nil {
		return store.Page[postrider.Session]{}, err
	}
	statement := sessionsSQL
	switch {
	case q.Code != [32]byte{}:
		statement = sessionsByCodeSQL
	case q.Hash != [32]byte{}:
		statement = sessionsByHashSQL
	case !q.Account.IsZero():
		statement = sessionsByAccountSQL
	}
	args = append(args, sql.Named("id", blobOrNull(q.ID)), sql.Named("hash", hashOrNull(q.Hash)), sql.Named("code", hashOrNull(q.Code)), sql.Named("kind", string(q.Kind)),
		sql.Named("account", blobOrNull(q.Account)), sql.Named("live", microsOrNull(q.LiveAt)))
	sessions, err := list(ctx, s, query{statement, args}, scanSession)
	return store.Cut(sessions, q.Paging, func(session postrider.Session) string { return key(session.ID) }), s.explain("list sessions", err)
}

// scanSession reads a session. Its scopes and options are stored as JSON arrays.
func scanSession(rows *sql.Rows, session *postrider.Session) error {
	var scopes, options string
	var code, hash []byte
	err := rows.Scan(toID(&session.ID), toString(&session.Kind), &session.Name, &session.Subject, toID(&session.Key), toID(&session.Account),
		&scopes, toString(&options), &session.Locale, toFlag(&session.Embedded), &code, toTime(&session.CodeExpiresAt), &hash,
		toTime(&session.CreatedAt), toTime(&session.ExpiresAt), toTime(&session.LastSeenAt), toTime(&session.RevokedAt))
	if err != nil {
		return err
	}
	copy(session.Code[:], code)
	copy(session.Hash[:], hash)
	if err := json.Unmarshal([]byte(scopes), &session.Scopes); err != nil {
		return fmt.Errorf("decode scopes of session %s: %w", session.ID, err)
	}
	return decodeArray(options, &session.Options)
}

// decodeArray reads a JSON array of texts; the empty string, which null becomes, is nil.
func decodeArray(array string, into *[]string) error {
	if array == "" {
		*into = nil
		return nil
	}
	if err := json.Unmarshal([]byte(array), into); err != nil {
		return fmt.Errorf("decode array: %w", err)
	}
	return nil
}

// A session keeps the time of its first revocation, and its last use never moves back.
// The first two by the key of sessions, the others by sessions_key and sessions_account.
const (
	revokeSessionSQL      = `update sessions set revoked_at = coalesce(revoked_at, @now) where id = @id`
	touchSessionSQL       = `update sessions set last_seen_at = max(coalesce(last_seen_at, @at), @at) where id = @id`
	endKeySessionsSQL     = `update sessions set revoked_at = @now where key = @id and revoked_at is null`
	endAccountSessionsSQL = `update sessions set revoked_at = @now where account = @id and revoked_at is null`
)

// RevokeSession ends a session; see [store.Sessions].
func (s *Store) RevokeSession(ctx context.Context, session postrider.SessionID) error {
	return change(ctx, s, "revoke session", func(ctx context.Context, tx *tx) error {
		return found(tx.count(ctx, revokeSessionSQL, sql.Named("id", blob(session)), sql.Named("now", micros(tx.wall))))
	})
}

// TouchSession notes when a session was last used; see [store.Sessions].
func (s *Store) TouchSession(ctx context.Context, session postrider.SessionID, at time.Time) error {
	return change(ctx, s, "touch session", func(ctx context.Context, tx *tx) error {
		return found(tx.count(ctx, touchSessionSQL, sql.Named("id", blob(session)), sql.Named("at", micros(at))))
	})
}
