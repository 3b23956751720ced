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

// By the key of accounts. accounts_uid refuses a uid that another account has.
const putAccountSQL = `
	insert into accounts (id, uid, name, created_at, keep_events, keep_attempts, keep_bodies, keep_keys)
	values (@id, @uid, @name, @created_at, @keep_events, @keep_attempts, @keep_bodies, @keep_keys)
	on conflict (id) do update set uid = excluded.uid, name = excluded.name, keep_events = excluded.keep_events,
		keep_attempts = excluded.keep_attempts, keep_bodies = excluded.keep_bodies, keep_keys = excluded.keep_keys
	where deleted_at is null`

// PutAccount creates or changes an account; see [store.Access].
func (s *Store) PutAccount(ctx context.Context, a postrider.Account) error {
	return change(ctx, s, "put account", func(ctx context.Context, tx *tx) error {
		err := found(tx.count(ctx, putAccountSQL, sql.Named("id", blob(a.ID)), sql.Named("uid", textOrNull(a.UID)),
			sql.Named("name", a.Name), sql.Named("created_at", micros(a.ID.Time())),
			sql.Named("keep_events", a.Retention.Events), sql.Named("keep_attempts", a.Retention.Attempts),
			sql.Named("keep_bodies", a.Retention.Bodies), sql.Named("keep_keys", a.Retention.IdempotencyKeys)))
		if err != nil {
			return err
		}
		return putTerms(ctx, tx, termsOf[postrider.AccountID]{a.ID, a.ID, store.AccountTerms(a)})
	})
}

// The account's keys and sessions are revoked in the same job, so that none of them works
// for a deleted account. By the key of accounts, and by api_keys_account.
const (
	deleteAccountSQL = `update accounts set deleted_at = @now where id = @id and deleted_at is null`
	revokeKeysSQL    = `update api_keys set revoked_at = @now where account = @id and revoked_at is null`
)

// What ends with an account, or with a key: by sessions_account, sessions_key and
// notice_destinations_address.
const (
	endAccountSessionsSQL        = `update sessions set revoked_at = @now where account = @id and revoked_at is null`
	endKeySessionsSQL            = `update sessions set revoked_at = @now where key = @id and revoked_at is null`
	deleteAccountDestinationsSQL = `delete from notice_destinations where account = @id`
)

// DeleteAccount deletes an account and revokes its keys; see [store.Access].
func (s *Store) DeleteAccount(ctx context.Context, account postrider.AccountID) error {
	return change(ctx, s, "delete account", func(ctx context.Context, tx *tx) error {
		id, now := sql.Named("id", blob(account)), sql.Named("now", micros(tx.wall))
		if err := found(tx.count(ctx, deleteAccountSQL, id, now)); err != nil {
			return err
		}
		if err := tx.exec(ctx, revokeKeysSQL, id, now); err != nil {
			return err
		}
		if err := tx.exec(ctx, endAccountSessionsSQL, id, now); err != nil {
			return err
		}
		return tx.exec(ctx, deleteAccountDestinationsSQL, id)
	})
}

// From the end of the key of accounts, by accounts_uid, or from the end of accounts_retention.
const (
	accountColumns = `id, uid, name, created_at, deleted_at, keep_events, keep_attempts, keep_bodies, keep_keys`
	accountsSQL    = `
	select ` + accountColumns + ` from accounts
	where id < @below and (@id is null or id = @id) and (@id is not null or deleted_at is null)
	order by id desc limit @limit`
	accountsByUIDSQL = `
	select ` + accountColumns + ` from accounts
	where uid = @uid and deleted_at is null and id < @below and (@id is null or id = @id)
	order by id desc limit @limit`
	accountsOfRetentionSQL = `
	select ` + accountColumns + ` from accounts
	where keep_events + keep_attempts + keep_bodies + keep_keys > 0 and id < @below
	order by id desc limit @limit`
)

// Accounts lists accounts; see [store.Access].
func (s *Store) Accounts(ctx context.Context, q store.AccountQuery) (store.Page[postrider.Account], error) {
	args, err := window[postrider.AccountID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.Account]{}, err
	}
	statement := accountsSQL
	switch {
	case q.Retention:
		statement = accountsOfRetentionSQL
	case q.UID != "":
		statement = accountsByUIDSQL
	}
	args = append(args, sql.Named("id", blobOrNull(q.ID)), sql.Named("uid", q.UID))
	accounts, err := list(ctx, s, query{statement, args}, func(rows *sql.Rows, a *postrider.Account) error {
		return rows.Scan(toID(&a.ID), toString(&a.UID), &a.Name, toTime(&a.CreatedAt), toTime(&a.DeletedAt),
			&a.Retention.Events, &a.Retention.Attempts, &a.Retention.Bodies, &a.Retention.IdempotencyKeys)
	})
	return store.Cut(accounts, q.Paging, func(a postrider.Account) string { return key(a.ID) }), s.explain("list accounts", err)
}

// The key of api_keys and the unique index on hash refuse a key that exists.
const putKeySQL = `
	insert into api_keys (id, name, hash, scopes, account, created_at, expires_at, revoked_at, last_used_at)
	values (@id, @name, @hash, @scopes, @account, @created_at, @expires_at, @revoked_at, @last_used_at)`

// PutKey creates an API key; see [store.Access].
func (s *Store) PutKey(ctx context.Context, k postrider.APIKey) error {
	scopes, err := json.Marshal(append([]postrider.Scope{}, k.Scopes...))
	if err != nil {
		return s.explain("put key", err)
	}
	return change(ctx, s, "put key", func(ctx context.Context, tx *tx) error {
		return tx.exec(ctx, putKeySQL, sql.Named("id", blob(k.ID)), sql.Named("name", k.Name),
			sql.Named("hash", k.Hash[:]), sql.Named("scopes", string(scopes)), sql.Named("account", blobOrNull(k.Account)),
			sql.Named("created_at", micros(k.ID.Time())), sql.Named("expires_at", microsOrNull(k.ExpiresAt)),
			sql.Named("revoked_at", microsOrNull(k.RevokedAt)), sql.Named("last_used_at", microsOrNull(k.LastUsedAt)))
	})
}

// From the end of the key of api_keys, by the unique index on hash, or by api_keys_account,
// which ends with the key.
const (
	keysSQL = `
	select id, name, hash, scopes, account, created_at, expires_at, revoked_at, last_used_at from api_keys
	where id < @below and (@id is null or id = @id)
	order by id desc limit @limit`
	keysByHashSQL = `
	select id, name, hash, scopes, account, created_at, expires_at, revoked_at, last_used_at from api_keys
	where hash = @hash and id < @below and (@id is null or id = @id) and (@account is null or account = @account)
	order by id desc limit @limit`
	keysOfAccountSQL = `
	select id, name, hash, scopes, account, created_at, expires_at, revoked_at, last_used_at from api_keys
	where account = @account and id < @below and (@id is null or id = @id)
	order by id desc limit @limit`
)

// Keys lists API keys; see [store.Access].
func (s *Store) Keys(ctx context.Context, q store.KeyQuery) (store.Page[postrider.APIKey], error) {
	args, err := window[postrider.KeyID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.APIKey]{}, err
	}
	statement := keysSQL
	switch {
	case q.Hash != [32]byte{}:
		statement = keysByHashSQL
	case !q.Account.IsZero():
		statement = keysOfAccountSQL
	}
	args = append(args, sql.Named("id", blobOrNull(q.ID)), sql.Named("hash", q.Hash[:]), sql.Named("account", blobOrNull(q.Account)))
	keys, err := list(ctx, s, query{statement, args}, scanKey)
	return store.Cut(keys, q.Paging, func(k postrider.APIKey) string { return key(k.ID) }), s.explain("list keys", err)
}

// scanKey reads an API key. Its scopes are stored as a JSON array.
func scanKey(rows *sql.Rows, k *postrider.APIKey) error {
	var hash []byte
	var scopes string
	err := rows.Scan(toID(&k.ID), &k.Name, &hash, &scopes, toID(&k.Account), toTime(&k.CreatedAt), toTime(&k.ExpiresAt),
		toTime(&k.RevokedAt), toTime(&k.LastUsedAt))
	if err != nil {
		return err
	}
	k.Hash = [32]byte(hash)
	if err := json.Unmarshal([]byte(scopes), &k.Scopes); err != nil {
		return fmt.Errorf("decode scopes of key %s: %w", k.ID, err)
	}
	return nil
}

// A key keeps the time of its first revocation, and its last use never moves back. Both
// by the key of api_keys.
const (
	revokeKeySQL = `update api_keys set revoked_at = coalesce(revoked_at, @now) where id = @id`
	touchKeySQL  = `update api_keys set last_used_at = max(coalesce(last_used_at, @at), @at) where id = @id`
)

// RevokeKey ends a key; see [store.Access].
func (s *Store) RevokeKey(ctx context.Context, key postrider.KeyID) error {
	return change(ctx, s, "revoke key", func(ctx context.Context, tx *tx) error {
		id, now := sql.Named("id", blob(key)), sql.Named("now", micros(tx.wall))
		if err := found(tx.count(ctx, revokeKeySQL, id, now)); err != nil {
			return err
		}
		return tx.exec(ctx, endKeySessionsSQL, id, now)
	})
}

// TouchKey notes when a key was last used; see [store.Access].
func (s *Store) TouchKey(ctx context.Context, key postrider.KeyID, at time.Time) error {
	return change(ctx, s, "touch key", func(ctx context.Context, tx *tx) error {
		return found(tx.count(ctx, touchKeySQL, sql.Named("id", blob(key)), sql.Named("at", micros(at))))
	})
}

// found turns the result of a statement that must change a row into an error: no row is
// ErrNotFound.
func found(changed int64, err error) error {
	if err == nil && changed == 0 {
		return postrider.ErrNotFound
	}
	return err
}

// By the key of event_types.
const putEventTypeSQL = `
	insert into event_types (name, description, example, created_at) values (@name, @description, @example, @created_at)
	on conflict (name) do update set description = excluded.description, example = excluded.example`

// PutEventType creates or changes an event type; see [store.Catalogue].
func (s *Store) PutEventType(ctx context.Context, t postrider.EventType) error {
	return change(ctx, s, "put event type", func(ctx context.Context, tx *tx) error {
		return tx.exec(ctx, putEventTypeSQL, sql.Named("name", t.Name), sql.Named("description", t.Description),
			sql.Named("example", string(t.Example)), sql.Named("created_at", micros(tx.wall)))
	})
}

// Walks the key of event_types. SQLite compares text by bytes, as PostgreSQL does with
// collation "C".
const eventTypesSQL = `
	select name, description, example, created_at from event_types
	where name > @after and (@name = '' or name = @name)
	order by name limit @limit`

// EventTypes lists event types; see [store.Catalogue].
func (s *Store) EventTypes(ctx context.Context, q store.EventTypeQuery) (store.Page[postrider.EventType], error) {
	after, err := q.Key()
	if err != nil {
		return store.Page[postrider.EventType]{}, err
	}
	types, err := list(ctx, s, query{eventTypesSQL, []any{
		sql.Named("after", after), sql.Named("name", q.Name), sql.Named("limit", q.Size()+1),
	}}, func(rows *sql.Rows, t *postrider.EventType) error {
		return rows.Scan(&t.Name, &t.Description, &t.Example, toTime(&t.CreatedAt))
	})
	return store.Cut(types, q.Paging, func(t postrider.EventType) string { return t.Name }), s.explain("list event types", err)
}

// By the key of event_types.
const deleteEventTypeSQL = `delete from event_types where name = @name`

// DeleteEventType takes an event type out of the catalogue; see
// [store.Catalogue].
func (s *Store) DeleteEventType(ctx context.Context, name string) error {
	return change(ctx, s, "delete event type", func(ctx context.Context, tx *tx) error {
		return found(tx.count(ctx, deleteEventTypeSQL, sql.Named("name", name)))
	})
}
