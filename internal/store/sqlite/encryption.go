package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"github.com/postrider/postrider/internal/store"
)

// At most one row.
const (
	keyringSQL     = `select text from keyring`
	swapKeyringSQL = `insert into keyring (text, only) values (@text, 1) on conflict (only) do update set text = excluded.text`
)

// Keyring returns the stored keyring; see [store.Encryption].
func (s *Store) Keyring(ctx context.Context) ([]byte, error) {
	found, err := list(ctx, s, query{text: keyringSQL}, func(rows *sql.Rows, text *[]byte) error { return rows.Scan(text) })
	if err != nil || len(found) == 0 {
		return nil, s.explain("read the keyring", err)
	}
	return found[0], nil
}

// SwapKeyring replaces the stored keyring; see [store.Encryption]. The read and the write
// are one job, so nobody can swap it in between.
func (s *Store) SwapKeyring(ctx context.Context, old, next []byte) ([]byte, error) {
	return write(ctx, s, "swap the keyring", func(ctx context.Context, tx *tx) (stored []byte, err error) {
		err = tx.row(ctx, keyringSQL).Scan(&stored)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if !bytes.Equal(stored, old) {
			return stored, nil
		}
		return bytes.Clone(next), tx.exec(ctx, swapKeyringSQL, sql.Named("text", next))
	})
}

// Lists credentials and secrets in the order of their ids. Credentials count as the secret
// with the zero id. Each half walks its index in that order, endpoints_credentials and
// endpoint_secrets_endpoint, and SQLite merges them without sorting; indexed by makes sure
// of the first.
const encryptedValuesSQL = `
	select id as endpoint, zeroblob(16) as secret, credentials as encrypted from endpoints indexed by endpoints_credentials
	where credentials is not null and id > @endpoint
	union all
	select endpoint, id, encrypted from endpoint_secrets
	where (endpoint, id) > (@endpoint, @secret)
	order by endpoint, secret limit @limit`

// By the key of archive_keys.
const archiveKeysSQL = `select account, encrypted from archive_keys where account > @archive order by account limit @limit`

// EncryptedValues lists archive keys, and then credentials and secrets; see
// [store.Encryption].
func (s *Store) EncryptedValues(ctx context.Context, after store.EncryptedID, limit int) (values []store.EncryptedValue, err error) {
	const doing = "list encrypted values"
	if after.Endpoint.IsZero() {
		values, err = list(ctx, s, query{archiveKeysSQL, []any{sql.Named("archive", blob(after.Archive)), sql.Named("limit", limit)}},
			func(rows *sql.Rows, v *store.EncryptedValue) error { return rows.Scan(toID(&v.ID.Archive), &v.Bytes) })
		if err != nil || len(values) == limit {
			return values, s.explain(doing, err)
		}
	}
	more, err := list(ctx, s, query{encryptedValuesSQL, []any{
		sql.Named("endpoint", blob(after.Endpoint)), sql.Named("secret", blob(after.Secret)), sql.Named("limit", limit-len(values)),
	}}, func(rows *sql.Rows, v *store.EncryptedValue) error {
		return rows.Scan(toID(&v.ID.Endpoint), toID(&v.ID.Secret), &v.Bytes)
	})
	return append(values, more...), s.explain(doing, err)
}

// A value that somebody has changed meanwhile does not match @old and stays. Each finds
// its row by its primary key.
const (
	reencryptSecretSQL = `
	update endpoint_secrets set encrypted = @new where id = @secret and endpoint = @endpoint and encrypted = @old`
	reencryptCredentialsSQL = `
	update endpoints set credentials = @new where id = @endpoint and credentials = @old`
	reencryptArchiveSQL = `
	update archive_keys set encrypted = @new where account = @archive and encrypted = @old`
)

// Reencrypt replaces encrypted values that are still the old ones; see [store.Encryption].
func (s *Store) Reencrypt(ctx context.Context, list []store.Reencryption) (int, error) {
	return write(ctx, s, "reencrypt values", func(ctx context.Context, tx *tx) (replaced int, err error) {
		for _, r := range list {
			statement := reencryptSecretSQL
			switch {
			case !r.ID.Archive.IsZero():
				statement = reencryptArchiveSQL
			case r.ID.Secret.IsZero():
				statement = reencryptCredentialsSQL
			}
			n, err := tx.count(ctx, statement, sql.Named("endpoint", blob(r.ID.Endpoint)), sql.Named("archive", blob(r.ID.Archive)),
				sql.Named("secret", blob(r.ID.Secret)), sql.Named("old", r.Old), sql.Named("new", r.New))
			if err != nil {
				return 0, err
			}
			replaced += int(n)
		}
		return replaced, nil
	})
}
