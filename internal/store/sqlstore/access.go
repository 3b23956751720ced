package sqlstore

import (
	"context"
	"errors"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The statements walk the primary key. The unique index accounts_uid refuses a uid that another
// account has.
var putAccount = revised{
	insert: `
	insert into accounts (id, uid, name, created_at, metadata, revision, keep_events, keep_attempts, keep_bodies, keep_keys)
	values (@id, @uid, @name, @created_at, @metadata, 1, @keep_events, @keep_attempts, @keep_bodies, @keep_keys)
	on conflict (id) do nothing`,
	update: `
	update accounts
	set uid = @uid, name = @name, metadata = @metadata, revision = revision + 1, keep_events = @keep_events,
		keep_attempts = @keep_attempts, keep_bodies = @keep_bodies, keep_keys = @keep_keys
	where id = @id and deleted_at is null and revision = @revision`,
	live: `
	select 1
	from accounts
	where id = @id and deleted_at is null`,
}

// PutAccount creates or changes an account, and its search terms; see [store.Access]. As PutEndpoint,
// it does not run again when the reply to its commit was lost.
func (v Verbs) PutAccount(ctx context.Context, a postrider.Account) (err error) {
	defer v.calls.Begin("PutAccount").End(&err, "put account %s", a.ID)
	return v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		err := putAccount.put(ctx, tx, a.Revision, Args{
			"id": a.ID, "uid": OrNull(a.UID), "name": a.Name, "created_at": a.ID.Time(), "metadata": metadataOrNull(a.Metadata),
			"revision": a.Revision, "keep_events": a.Retention.Events, "keep_attempts": a.Retention.Attempts,
			"keep_bodies": a.Retention.Bodies, "keep_keys": a.Retention.IdempotencyKeys,
		})
		if err != nil {
			return err
		}
		terms := append(store.AccountTerms(a), store.MetadataTerms(store.MetadataOfAccount, a.Metadata)...)
		return PutTerms(ctx, tx, Terms{a.ID, a.ID, terms})
	})
}

// revised has the statements that store a row with a revision.
type revised struct {
	insert string // inserts nothing if the row exists
	update string // changes the row if its revision is @revision
	live   string // returns a row if there is one to change
}

// put inserts the row if the revision is 0, and otherwise changes it. If the stored row has another
// revision, the error is postrider.ErrConflict; if there is none to change, postrider.ErrNotFound.
func (r revised) put(ctx context.Context, tx Tx, revision int64, args Args) error {
	statement := r.update
	if revision == 0 {
		statement = r.insert
	}
	err := found(tx.Exec(ctx, Query{statement, args}))
	if !errors.Is(err, postrider.ErrNotFound) {
		return err
	}
	_, err = one(ctx, tx, Query{r.live, args}, func(row Row, one *int) error { return row.Scan(one) })
	if err == nil {
		err = postrider.ErrConflict
	}
	return err
}

// Terms are the search terms of an account or an endpoint.
type Terms struct {
	ID      [16]byte
	Account postrider.AccountID
	Terms   []string
}

// Both statements walk the primary key of search_terms; dropTermsSQL also walks search_terms_id.
const (
	dropTermsSQL = `delete from search_terms where id = @id and not term = any(@terms::text[])`
	addTermsSQL  = `
	insert into search_terms (term, id, account)
	select n.value, @id, @account
	from unnest(@terms::text[]) n(value)
	where true
	on conflict (term, id) do nothing`
)

// PutTerms replaces the search terms of an account or an endpoint.
func PutTerms(ctx context.Context, tx Tx, t Terms) error {
	args := Args{"id": t.ID, "account": t.Account, "terms": append([]string{}, t.Terms...)}
	if _, err := tx.Exec(ctx, Query{dropTermsSQL, args}); err != nil {
		return err
	}
	_, err := tx.Exec(ctx, Query{addTermsSQL, args})
	return err
}

// These statements end an account's keys and sessions, and delete its destinations. They walk the
// primary key of accounts, api_keys_account, sessions_account and notice_destinations_account.
const (
	deleteAccountSQL             = `update accounts set deleted_at = now() where id = @id and deleted_at is null`
	revokeAccountKeysSQL         = `update api_keys set revoked_at = now() where account = @id and revoked_at is null`
	endAccountSessionsSQL        = `update sessions set revoked_at = now() where account = @id and revoked_at is null`
	deleteAccountDestinationsSQL = `delete from notice_destinations where account = @id`
)

// DeleteAccount deletes an account; see [store.Access]. In the same transaction it revokes the
// account's keys and sessions, so that none of them works for a deleted account. A run that
// repeats an earlier one and finds the account deleted is a success.
func (v Verbs) DeleteAccount(ctx context.Context, account postrider.AccountID) (err error) {
	defer v.calls.Begin("DeleteAccount").End(&err, "delete account %s", account)
	return v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		args := Args{"id": account}
		err := found(tx.Exec(ctx, Query{deleteAccountSQL, args}))
		if err != nil {
			if tx.Again() && errors.Is(err, postrider.ErrNotFound) {
				return nil
			}
			return err
		}
		for _, statement := range []string{revokeAccountKeysSQL, endAccountSessionsSQL, deleteAccountDestinationsSQL} {
			if _, err := tx.Exec(ctx, Query{statement, args}); err != nil {
				return err
			}
		}
		return nil
	})
}

const accountsSQL = `
	select id, uid, name, created_at, deleted_at, metadata, revision, keep_events, keep_attempts, keep_bodies, keep_keys
	from accounts`

// Accounts lists accounts, newest first; see [store.Access]. The partial index accounts_retention
// has the accounts with a retention.
func (v Verbs) Accounts(ctx context.Context, q store.AccountQuery) (page store.Page[postrider.Account], err error) {
	defer v.calls.Begin("Accounts").End(&err, "list accounts")
	l, err := metadataList[postrider.AccountID](ctx, v.db, accountsSQL, ofMetadata{store.MetadataOfAccount, q.Metadata, q.ID, q.Paging})
	if err != nil {
		return page, err
	}
	by(l, "id", q.ID)
	by(l, "uid", q.UID)
	if q.Retention {
		l.and("keep_events + keep_attempts + keep_bodies + keep_keys > 0", nil)
	} else if q.ID.IsZero() || len(q.Metadata) > 0 {
		l.and("deleted_at is null", nil)
	}
	return pageOf(ctx, l, func(row Row, a *postrider.Account) error {
		return row.Scan(&a.ID, &a.UID, &a.Name, &a.CreatedAt, &a.DeletedAt, (*map[string]string)(&a.Metadata), &a.Revision,
			&a.Retention.Events, &a.Retention.Attempts, &a.Retention.Bodies, &a.Retention.IdempotencyKeys)
	}, func(a *postrider.Account) postrider.AccountID { return a.ID })
}

// The primary key and the unique index of hash refuse a key that already exists.
const putKeySQL = `
	insert into api_keys (id, name, hash, scopes, account, created_at, expires_at, revoked_at, last_used_at)
	values (@id, @name, @hash, @scopes, @account, @created_at, @expires_at, @revoked_at, @last_used_at)`

// PutKey creates an API key; see [store.Access].
func (v Verbs) PutKey(ctx context.Context, k postrider.APIKey) (err error) {
	defer v.calls.Begin("PutKey").End(&err, "put key %s", k.ID)
	return v.exec(ctx, Once, Query{putKeySQL, Args{
		"id": k.ID, "name": k.Name, "hash": k.Hash, "scopes": append([]postrider.Scope{}, k.Scopes...), "account": OrNull(k.Account),
		"created_at": k.ID.Time(), "expires_at": k.ExpiresAt, "revoked_at": k.RevokedAt, "last_used_at": k.LastUsedAt,
	}})
}

const keysSQL = `
	select id, name, hash, scopes, account, created_at, expires_at, revoked_at, last_used_at
	from api_keys`

// Keys lists API keys, newest first; see [store.Access].
func (v Verbs) Keys(ctx context.Context, q store.KeyQuery) (page store.Page[postrider.APIKey], err error) {
	defer v.calls.Begin("Keys").End(&err, "list keys")
	l, err := listOf[postrider.KeyID](v.db, keysSQL, store.Span{}, q.Paging)
	if err != nil {
		return page, err
	}
	by(l, "id", q.ID)
	by(l, "hash", q.Hash)
	by(l, "account", q.Account)
	return pageOf(ctx, l, func(row Row, k *postrider.APIKey) error {
		return row.Scan(&k.ID, &k.Name, &k.Hash, &k.Scopes, &k.Account, &k.CreatedAt, &k.ExpiresAt, &k.RevokedAt, &k.LastUsedAt)
	}, func(k *postrider.APIKey) postrider.KeyID { return k.ID })
}

// The first two statements end a key: a key that was revoked before keeps the time of that
// revocation. Calls of TouchKey from several nodes can arrive in any order; touchKeySQL never
// moves the time of the last use back. The statements walk the primary key and sessions_key.
const (
	revokeKeySQL      = `update api_keys set revoked_at = coalesce(revoked_at, now()) where id = @id`
	endKeySessionsSQL = `update sessions set revoked_at = now() where key = @id and revoked_at is null`
	touchKeySQL       = `update api_keys set last_used_at = greatest(coalesce(last_used_at, @at::timestamptz), @at::timestamptz) where id = @id`
)

// RevokeKey ends a key and its sessions; see [store.Access].
func (v Verbs) RevokeKey(ctx context.Context, key postrider.KeyID) (err error) {
	defer v.calls.Begin("RevokeKey").End(&err, "revoke key %s", key)
	return v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		args := Args{"id": key}
		if err := found(tx.Exec(ctx, Query{revokeKeySQL, args})); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, Query{endKeySessionsSQL, args})
		return err
	})
}

// TouchKey records the time at which a key was last used; see [store.Access].
func (v Verbs) TouchKey(ctx context.Context, key postrider.KeyID, at time.Time) (err error) {
	defer v.calls.Begin("TouchKey").End(&err, "touch key %s", key)
	return found(v.db.Exec(ctx, Repeatable, Query{touchKeySQL, Args{"id": key, "at": at}}))
}
