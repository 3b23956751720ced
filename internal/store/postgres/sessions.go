package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// sessions_pkey and the unique indexes on code and hash refuse a session that exists.
const putSessionSQL = `
	insert into sessions (id, kind, name, subject, key, account, scopes, options, locale, embedded, code, code_expires_at, hash, created_at, expires_at)
	values (@id, @kind, @name, @subject, @key, @account, @scopes, @options, @locale, @embedded, @code, @code_expires_at, @hash, @created_at, @expires_at)`

// PutSession creates a session.
func (s *Store) PutSession(ctx context.Context, session postrider.Session) error {
	err := s.once(ctx, func() error {
		_, err := s.pool.Exec(ctx, putSessionSQL, pgx.NamedArgs{
			"id": someUUID(session.ID), "kind": string(session.Kind), "name": session.Name, "subject": session.Subject,
			"key": uuid(session.Key), "account": uuid(session.Account), "scopes": append([]postrider.Scope{}, session.Scopes...),
			"options": session.Options, "locale": session.Locale, "embedded": session.Embedded, "code": hashOrNull(session.Code),
			"code_expires_at": instant(session.CodeExpiresAt), "hash": hashOrNull(session.Hash), "created_at": session.ID.Time(),
			"expires_at": session.ExpiresAt,
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("put session %s: %w", session.ID, err)
	}
	return nil
}

// hashOrNull returns the hash as a parameter; the zero hash is null.
func hashOrNull(hash [32]byte) []byte {
	if hash == [32]byte{} {
		return nil
	}
	return hash[:]
}

// Walks sessions_code_key, and locks the row: of two parallel calls the second one finds the
// first one's hash.
const redeemCodeSQL = `
	update sessions set hash = @token
	where code = @code and revoked_at is null and expires_at > now() and (hash = @token or hash is null and code_expires_at > now())
	returning id, kind, name, subject, key, account, scopes, options, locale, embedded, code, code_expires_at, hash, created_at, expires_at,
		last_seen_at, revoked_at`

// RedeemCode opens a one-time link. A repeat after a lost reply finds its own token.
func (s *Store) RedeemCode(ctx context.Context, r store.RedeemCode) (postrider.Session, error) {
	var session postrider.Session
	err := s.repeat(ctx, func(bool) error {
		rows, err := s.pool.Query(ctx, redeemCodeSQL, pgx.NamedArgs{"code": hashOrNull(r.Code), "token": r.Token[:]})
		if err != nil {
			return err
		}
		session, err = pgx.CollectExactlyOneRow(rows, scanSession)
		if errors.Is(err, pgx.ErrNoRows) {
			return postrider.ErrNotFound
		}
		return err
	})
	if err != nil {
		return postrider.Session{}, fmt.Errorf("redeem code: %w", err)
	}
	return session, nil
}

// Walks sessions_pkey, or sessions_hash_key by hash, or sessions_code_key by code, or
// sessions_account by account. The other filters have no index: @from bounds what is read
// for them.
const sessionsSQL = `
	select s.id, s.kind, s.name, s.subject, s.key, s.account, s.scopes, s.options, s.locale, s.embedded, s.code, s.code_expires_at, s.hash,
		s.created_at, s.expires_at, s.last_seen_at, s.revoked_at
	from sessions s
	where s.id >= @from and s.id < @before
		and (@id::uuid is null or s.id = @id)
		and (@hash::bytea is null or s.hash = @hash)
		and (@code::bytea is null or s.code = @code)
		and (@kind::text is null or s.kind = @kind)
		and (@account::uuid is null or s.account = @account)
		and (@live::timestamptz is null or s.revoked_at is null and s.expires_at > @live)
	order by s.id desc
	limit @limit`

// Sessions lists sessions, newest first.
func (s *Store) Sessions(ctx context.Context, q store.SessionQuery) (store.Page[postrider.Session], error) {
	from, before, err := within[postrider.SessionID](q.Span, q.Paging)
	if err != nil {
		return store.Page[postrider.Session]{}, err
	}
	sessions, err := list(ctx, s, query{sessionsSQL, pgx.NamedArgs{
		"from": from, "before": before, "id": uuid(q.ID), "hash": hashOrNull(q.Hash), "code": hashOrNull(q.Code), "kind": text(string(q.Kind)), "account": uuid(q.Account),
		"live": instant(q.LiveAt), "limit": q.Size() + 1,
	}}, scanSession)
	if err != nil {
		return store.Page[postrider.Session]{}, fmt.Errorf("list sessions: %w", err)
	}
	return store.Cut(sessions, q.Paging, func(session postrider.Session) string { return string(session.ID[:]) }), nil
}

func scanSession(row pgx.CollectableRow) (session postrider.Session, err error) {
	var code, hash []byte
	err = row.Scan(toID(&session.ID), &session.Kind, &session.Name, &session.Subject, toID(&session.Key), toID(&session.Account),
		&session.Scopes, &session.Options, &session.Locale, &session.Embedded, &code, toTime(&session.CodeExpiresAt), &hash,
		toTime(&session.CreatedAt), toTime(&session.ExpiresAt), toTime(&session.LastSeenAt), toTime(&session.RevokedAt))
	copy(session.Code[:], code)
	copy(session.Hash[:], hash)
	return session, err
}

// Walks sessions_pkey.
const revokeSessionSQL = `update sessions set revoked_at = coalesce(revoked_at, now()) where id = @id`

// RevokeSession ends a session.
func (s *Store) RevokeSession(ctx context.Context, session postrider.SessionID) error {
	if err := s.write(ctx, revokeSessionSQL, pgx.NamedArgs{"id": someUUID(session)}); err != nil {
		return fmt.Errorf("revoke session %s: %w", session, err)
	}
	return nil
}

// greatest keeps the time from moving back: touches of several nodes can arrive late.
// Walks sessions_pkey.
const touchSessionSQL = `update sessions set last_seen_at = greatest(last_seen_at, @at) where id = @id`

// TouchSession notes when a session was last used.
func (s *Store) TouchSession(ctx context.Context, session postrider.SessionID, at time.Time) error {
	if err := s.write(ctx, touchSessionSQL, pgx.NamedArgs{"id": someUUID(session), "at": at}); err != nil {
		return fmt.Errorf("touch session %s: %w", session, err)
	}
	return nil
}
