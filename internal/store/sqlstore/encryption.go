package sqlstore

import (
	"context"

	"github.com/postrider/postrider/internal/store"
)

// The table has at most one row.
const (
	keyringSQL = `select text from keyring`

	// firstKeyringSQL stores the first keyring of a store, and nextKeyringSQL replaces it.
	firstKeyringSQL = `insert into keyring (text, single) values (@next, true) on conflict (single) do nothing`
	nextKeyringSQL  = `update keyring set text = @next where text = @old`
)

// Keyring returns the stored keyring; see [store.Encryption].
func (v Verbs) Keyring(ctx context.Context) (_ []byte, err error) {
	defer v.calls.Begin("Keyring").End(&err, "read the keyring")
	text, err := keyring(ctx, v.db)
	return text, err
}

func keyring(ctx context.Context, db Querier) ([]byte, error) {
	texts, err := all(ctx, db, Query{SQL: keyringSQL}, func(row Row, text *[]byte) error { return row.Scan(text) })
	if err != nil || len(texts) == 0 {
		return nil, err
	}
	return texts[0], nil
}

// SwapKeyring replaces the stored keyring; see [store.Encryption]. The write waits for a
// concurrent one, and the read comes after the write. So SwapKeyring returns the keyring that the
// concurrent call stored.
func (v Verbs) SwapKeyring(ctx context.Context, old, next []byte) (stored []byte, err error) {
	defer v.calls.Begin("SwapKeyring").End(&err, "swap the keyring")
	statement := nextKeyringSQL
	if len(old) == 0 {
		statement = firstKeyringSQL
	}
	err = v.db.Change(ctx, Repeatable, func(ctx context.Context, tx Tx) error {
		if _, err := tx.Exec(ctx, Query{statement, Args{"old": old, "next": next}}); err != nil {
			return err
		}
		stored, err = keyring(ctx, tx)
		return err
	})
	return stored, err
}

// These statements change a value only if it still equals @old; a value that was changed in the
// meantime stays. Each walks a primary key.
const (
	reencryptSecretSQL      = `update endpoint_secrets set encrypted = @new where id = @secret and endpoint = @endpoint and encrypted = @old`
	reencryptCredentialsSQL = `update endpoints set credentials = @new where id = @endpoint and credentials = @old`
	reencryptArchiveSQL     = `update archive_keys set encrypted = @new where account = @archive and encrypted = @old`
	reencryptSourceSQL      = `update sources set password = @new where id = @source and password = @old`
)

// Reencrypt replaces encrypted values that are still the old ones; see [store.Encryption]. The
// content of an endpoint stays the same, so neither its revision nor the version is raised.
func (v Verbs) Reencrypt(ctx context.Context, values []store.Reencryption) (replaced int, err error) {
	defer v.calls.Begin("Reencrypt").End(&err, "reencrypt values")
	var secrets, credentials, archives, sources []Args
	for _, r := range values {
		args := Args{
			"endpoint": r.ID.Endpoint, "secret": r.ID.Secret, "archive": r.ID.Archive, "source": r.ID.Source, "old": r.Old, "new": r.New,
		}
		switch {
		case !r.ID.Source.IsZero():
			sources = append(sources, args)
		case !r.ID.Archive.IsZero():
			archives = append(archives, args)
		case r.ID.Secret.IsZero():
			credentials = append(credentials, args)
		default:
			secrets = append(secrets, args)
		}
	}
	err = v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		replaced = 0
		for _, change := range []struct {
			statement string
			values    []Args
		}{{reencryptSecretSQL, secrets}, {reencryptCredentialsSQL, credentials}, {reencryptArchiveSQL, archives}, {reencryptSourceSQL, sources}} {
			n, err := tx.ExecAll(ctx, change.statement, change.values)
			if err != nil {
				return err
			}
			replaced += int(n)
		}
		return nil
	})
	return replaced, err
}

// encryptedValuesSQL merges four sorted walks: passwords of sources, archive keys, credentials of endpoints,
// and secrets. It treats the credentials of an endpoint as a secret with the zero id, so that they
// come before the endpoint's secrets. It treats archive keys and passwords as values of the zero
// endpoint. It walks the primary keys of sources and archive_keys, endpoints_credentials, and the index of endpoint_secrets by
// endpoint.
const encryptedValuesSQL = `
	select endpoint, secret, archive, source, encrypted
	from (
		select @zero::uuid as endpoint, @zero::uuid as secret, @zero::uuid as archive, id as source, password as encrypted
		from sources
		where password is not null and id > @source and @archive::uuid = @zero::uuid and @endpoint::uuid = @zero::uuid
		order by id
		limit @limit
	) passwords
	union all
	select endpoint, secret, archive, source, encrypted
	from (
		select @zero::uuid as endpoint, @zero::uuid as secret, account as archive, @zero::uuid as source, encrypted
		from archive_keys
		where account > @archive and @endpoint::uuid = @zero::uuid
		order by account
		limit @limit
	) keys
	union all
	select endpoint, secret, archive, source, encrypted
	from (
		select id as endpoint, @zero::uuid as secret, @zero::uuid as archive, @zero::uuid as source, credentials as encrypted
		from endpoints /* indexed by endpoints_credentials */
		where credentials is not null and id > @endpoint
		order by id
		limit @limit
	) credentials
	union all
	select endpoint, secret, archive, source, encrypted
	from (
		select endpoint, id as secret, @zero::uuid as archive, @zero::uuid as source, encrypted
		from endpoint_secrets
		where (endpoint, id) > (@endpoint, @secret)
		order by endpoint, id
		limit @limit
	) secrets
	order by 1, 2, 3, 4
	limit @limit`

// EncryptedValues lists all encrypted values of the store; see [store.Encryption].
func (v Verbs) EncryptedValues(ctx context.Context, after store.EncryptedID, limit int) (_ []store.EncryptedValue, err error) {
	defer v.calls.Begin("EncryptedValues").End(&err, "list encrypted values")
	return all(ctx, v.db, Query{encryptedValuesSQL, Args{
		"endpoint": after.Endpoint, "secret": after.Secret, "archive": after.Archive, "source": after.Source,
		"zero": store.RowID{}, "limit": limit,
	}}, func(row Row, e *store.EncryptedValue) error {
		return row.Scan(&e.ID.Endpoint, &e.ID.Secret, &e.ID.Archive, &e.ID.Source, &e.Bytes)
	})
}
