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
)

// Reencrypt replaces encrypted values that are still the old ones; see [store.Encryption]. The
// content of an endpoint stays the same, so neither its revision nor the version is raised.
func (v Verbs) Reencrypt(ctx context.Context, values []store.Reencryption) (replaced int, err error) {
	defer v.calls.Begin("Reencrypt").End(&err, "reencrypt values")
	var secrets, credentials, archives []Args
	for _, r := range values {
		args := Args{"endpoint": r.ID.Endpoint, "secret": r.ID.Secret, "archive": r.ID.Archive, "old": r.Old, "new": r.New}
		switch {
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
		}{{reencryptSecretSQL, secrets}, {reencryptCredentialsSQL, credentials}, {reencryptArchiveSQL, archives}} {
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
