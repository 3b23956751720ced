package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Walks accounts_pkey. accounts_uid refuses a uid that another account has.
const putAccountSQL = `
	insert into accounts (id, uid, name, created_at, keep_events, keep_attempts, keep_bodies, keep_keys)
	values (@id, @uid, @name, @created_at, @keep_events, @keep_attempts, @keep_bodies, @keep_keys)
	on conflict (id) do update set uid = excluded.uid, name = excluded.name, keep_events = excluded.keep_events,
		keep_attempts = excluded.keep_attempts, keep_bodies = excluded.keep_bodies, keep_keys = excluded.keep_keys
	where accounts.deleted_at is null`

// PutAccount creates or changes an account, and its search terms. It may be repeated.
func (s *Store) PutAccount(ctx context.Context, a postrider.Account) error {
	err := s.repeat(ctx, func(bool) error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, putAccountSQL, pgx.NamedArgs{
				"id": someUUID(a.ID), "uid": text(a.UID), "name": a.Name, "created_at": a.ID.Time(),
				"keep_events": a.Retention.Events, "keep_attempts": a.Retention.Attempts,
				"keep_bodies": a.Retention.Bodies, "keep_keys": a.Retention.IdempotencyKeys,
			})
			if err == nil && tag.RowsAffected() == 0 {
				err = postrider.ErrNotFound
			}
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, putTermsSQL, termArgs(a.ID, a.ID, store.AccountTerms(a)))
			return err
		})
	})
	if err != nil {
		return fmt.Errorf("put account %s: %w", a.ID, err)
	}
	return nil
}

// Walks accounts_pkey, api_keys_account, sessions_account and notice_destinations_account.
const deleteAccountSQL = `
	with deleted as (
		update accounts
		set deleted_at = now()
		where id = @id and deleted_at is null
		returning id
	), revoked as (
		update api_keys k
		set revoked_at = now()
		from deleted d
		where k.account = d.id and k.revoked_at is null
	), ended as (
		update sessions s
		set revoked_at = now()
		from deleted d
		where s.account = d.id and s.revoked_at is null
	), untold as (
		delete from notice_destinations n
		using deleted d
		where n.account = d.id
	)
	select count(*) from deleted`

// DeleteAccount deletes an account and revokes its keys and sessions. A repeat after a lost reply finds
// it deleted, which is then a success.
func (s *Store) DeleteAccount(ctx context.Context, account postrider.AccountID) error {
	err := s.repeat(ctx, func(again bool) error {
		var deleted int
		err := s.pool.QueryRow(ctx, deleteAccountSQL, pgx.NamedArgs{"id": someUUID(account)}).Scan(&deleted)
		if err == nil && deleted == 0 && !again { // else the first try did it
			err = postrider.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("delete account %s: %w", account, err)
	}
	return nil
}

// write runs a statement that may be repeated and must meet a row. No row is ErrNotFound;
// a unique index that refuses is ErrConflict.
func (s *Store) write(ctx context.Context, statement string, args pgx.NamedArgs) error {
	return s.repeat(ctx, func(bool) error {
		switch tag, err := s.pool.Exec(ctx, statement, args); {
		case err != nil:
			return err
		case tag.RowsAffected() == 0:
			return postrider.ErrNotFound
		}
		return nil
	})
}

// Walks accounts_pkey, accounts_uid by uid, or accounts_retention.
const accountsSQL = `
	select a.id, coalesce(a.uid, ''), a.name, a.created_at, a.deleted_at,
		a.keep_events, a.keep_attempts, a.keep_bodies, a.keep_keys
	from accounts a
	where a.id < @before
		and (@id::uuid is null or a.id = @id)
		and (@id::uuid is not null or @retention or a.deleted_at is null)
		and (not @retention or a.keep_events + a.keep_attempts + a.keep_bodies + a.keep_keys > 0)
		and (@uid::text is null or a.uid = @uid)
	order by a.id desc
	limit @limit`

// Accounts lists accounts, newest first.
func (s *Store) Accounts(ctx context.Context, q store.AccountQuery) (store.Page[postrider.Account], error) {
	_, before, err := within[postrider.AccountID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.Account]{}, err
	}
	accounts, err := list(ctx, s, query{accountsSQL, pgx.NamedArgs{
		"before": before, "id": uuid(q.ID), "uid": text(q.UID), "retention": q.Retention, "limit": q.Size() + 1,
	}}, func(row pgx.CollectableRow) (a postrider.Account, err error) {
		err = row.Scan(toID(&a.ID), &a.UID, &a.Name, toTime(&a.CreatedAt), toTime(&a.DeletedAt),
			&a.Retention.Events, &a.Retention.Attempts, &a.Retention.Bodies, &a.Retention.IdempotencyKeys)
		return a, err
	})
	if err != nil {
		return store.Page[postrider.Account]{}, fmt.Errorf("list accounts: %w", err)
	}
	return store.Cut(accounts, q.Paging, func(a postrider.Account) string { return string(a.ID[:]) }), nil
}

// api_keys_pkey and api_keys_hash_key refuse a key that exists.
const putKeySQL = `
	insert into api_keys (id, name, hash, scopes, account, created_at, expires_at, revoked_at, last_used_at)
	values (@id, @name, @hash, @scopes, @account, @created_at, @expires_at, @revoked_at, @last_used_at)`

// PutKey creates an API key.
func (s *Store) PutKey(ctx context.Context, k postrider.APIKey) error {
	err := s.once(ctx, func() error {
		_, err := s.pool.Exec(ctx, putKeySQL, pgx.NamedArgs{
			"id": someUUID(k.ID), "name": k.Name, "hash": k.Hash[:], "scopes": append([]postrider.Scope{}, k.Scopes...), "account": uuid(k.Account),
			"created_at": k.ID.Time(), "expires_at": instant(k.ExpiresAt), "revoked_at": instant(k.RevokedAt),
			"last_used_at": instant(k.LastUsedAt),
		})
		return err
	})
	if err != nil {
		return fmt.Errorf("put key %s: %w", k.ID, err)
	}
	return nil
}

// Walks api_keys_pkey, or api_keys_hash_key by hash, or api_keys_account by account.
const keysSQL = `
	select k.id, k.name, k.hash, k.scopes, k.account, k.created_at, k.expires_at, k.revoked_at, k.last_used_at
	from api_keys k
	where k.id < @before
		and (@id::uuid is null or k.id = @id)
		and (@hash::bytea is null or k.hash = @hash)
		and (@account::uuid is null or k.account = @account)
	order by k.id desc
	limit @limit`

// Keys lists API keys, newest first.
func (s *Store) Keys(ctx context.Context, q store.KeyQuery) (store.Page[postrider.APIKey], error) {
	_, before, err := within[postrider.KeyID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.APIKey]{}, err
	}
	var hash []byte
	if q.Hash != [32]byte{} {
		hash = q.Hash[:]
	}
	keys, err := list(ctx, s, query{keysSQL, pgx.NamedArgs{
		"before": before, "id": uuid(q.ID), "hash": hash, "account": uuid(q.Account), "limit": q.Size() + 1,
	}}, scanKey)
	if err != nil {
		return store.Page[postrider.APIKey]{}, fmt.Errorf("list keys: %w", err)
	}
	return store.Cut(keys, q.Paging, func(k postrider.APIKey) string { return string(k.ID[:]) }), nil
}

func scanKey(row pgx.CollectableRow) (k postrider.APIKey, err error) {
	var hash []byte
	err = row.Scan(toID(&k.ID), &k.Name, &hash, &k.Scopes, toID(&k.Account), toTime(&k.CreatedAt), toTime(&k.ExpiresAt),
		toTime(&k.RevokedAt), toTime(&k.LastUsedAt))
	if err != nil {
		return k, err
	}
	k.Hash = [32]byte(hash)
	return k, nil
}

// Walks api_keys_pkey and sessions_key.
const revokeKeySQL = `
	with ended as (
		update sessions
		set revoked_at = now()
		where key = @id and revoked_at is null
	)
	update api_keys set revoked_at = coalesce(revoked_at, now()) where id = @id`

// RevokeKey ends a key and its sessions.
func (s *Store) RevokeKey(ctx context.Context, key postrider.KeyID) error {
	if err := s.write(ctx, revokeKeySQL, pgx.NamedArgs{"id": someUUID(key)}); err != nil {
		return fmt.Errorf("revoke key %s: %w", key, err)
	}
	return nil
}

// greatest keeps the time from moving back: touches of several nodes can arrive late.
// Walks api_keys_pkey.
const touchKeySQL = `update api_keys set last_used_at = greatest(last_used_at, @at) where id = @id`

// TouchKey notes when a key was last used.
func (s *Store) TouchKey(ctx context.Context, key postrider.KeyID, at time.Time) error {
	if err := s.write(ctx, touchKeySQL, pgx.NamedArgs{"id": someUUID(key), "at": at}); err != nil {
		return fmt.Errorf("touch key %s: %w", key, err)
	}
	return nil
}

// Walks event_types_pkey.
const putEventTypeSQL = `
	insert into event_types (name, description, example, created_at)
	values (@name, @description, @example, now())
	on conflict (name) do update set description = excluded.description, example = excluded.example`

// PutEventType creates or changes an event type.
func (s *Store) PutEventType(ctx context.Context, t postrider.EventType) error {
	err := s.write(ctx, putEventTypeSQL, pgx.NamedArgs{"name": t.Name, "description": t.Description, "example": string(t.Example)})
	if err != nil {
		return fmt.Errorf("put event type: %w", err)
	}
	return nil
}

// Walks event_types_pkey.
const eventTypesSQL = `
	select t.name, t.description, t.example, t.created_at
	from event_types t
	where t.name > @after
		and (@name::text is null or t.name = @name)
	order by t.name
	limit @limit`

// EventTypes lists event types by name.
func (s *Store) EventTypes(ctx context.Context, q store.EventTypeQuery) (store.Page[postrider.EventType], error) {
	after, err := q.Key()
	if err != nil {
		return store.Page[postrider.EventType]{}, err
	}
	types, err := list(ctx, s, query{eventTypesSQL, pgx.NamedArgs{
		"after": after, "name": text(q.Name), "limit": q.Size() + 1,
	}}, func(row pgx.CollectableRow) (t postrider.EventType, err error) {
		err = row.Scan(&t.Name, &t.Description, &t.Example, toTime(&t.CreatedAt))
		return t, err
	})
	if err != nil {
		return store.Page[postrider.EventType]{}, fmt.Errorf("list event types: %w", err)
	}
	return store.Cut(types, q.Paging, func(t postrider.EventType) string { return t.Name }), nil
}

// Walks event_types_pkey.
const deleteEventTypeSQL = `delete from event_types where name = @name`

// DeleteEventType takes an event type out of the catalogue.
func (s *Store) DeleteEventType(ctx context.Context, name string) error {
	if err := s.write(ctx, deleteEventTypeSQL, pgx.NamedArgs{"name": name}); err != nil {
		return fmt.Errorf("delete event type: %w", err)
	}
	return nil
}
