package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// Walks keyring_pkey.
const keyringSQL = `select text from keyring where single`

// Keyring returns the stored keyring.
func (s *Store) Keyring(ctx context.Context) ([]byte, error) {
	found, err := list(ctx, s, query{keyringSQL, pgx.NamedArgs{}}, pgx.RowTo[[]byte])
	if err != nil {
		return nil, fmt.Errorf("read the keyring: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	return found[0], nil
}

// The first keyring of a store, and one in place of another. Both walk
// keyring_pkey.
const (
	firstKeyringSQL = `insert into keyring (text) values (@next) on conflict (single) do nothing`
	nextKeyringSQL  = `update keyring set text = @next where text = @old and single`
)

// SwapKeyring replaces the stored keyring. The read is a statement of its own:
// its snapshot begins after the write has waited for a concurrent one, and so
// sees what that one stored.
func (s *Store) SwapKeyring(ctx context.Context, old, next []byte) (stored []byte, err error) {
	statement := nextKeyringSQL
	if len(old) == 0 {
		statement = firstKeyringSQL
	}
	err = s.repeat(ctx, func(bool) error {
		b := &pgx.Batch{}
		b.Queue(statement, pgx.NamedArgs{"old": old, "next": next})
		b.Queue(keyringSQL).Query(func(rows pgx.Rows) error {
			stored = nil
			_, err := pgx.ForEachRow(rows, []any{&stored}, func() error { return nil })
			return err
		})
		return s.pool.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return nil, fmt.Errorf("swap the keyring: %w", err)
	}
	return stored, nil
}

// Three sorted walks, merged: archive keys, the credentials of endpoints, and secrets.
// Credentials count as the secret with the zero id, so they come before the secrets of their
// endpoint; archive keys count as those of the zero endpoint. Walks archive_keys_pkey,
// endpoints_credentials and endpoint_secrets_endpoint.
const encryptedValuesSQL = `
	select s.endpoint, s.secret, s.archive, s.encrypted
	from (
		(
			select @zero::uuid as endpoint, @zero::uuid as secret, k.account as archive, k.encrypted
			from archive_keys k
			where k.account > @archive and @endpoint::uuid = @zero::uuid
			order by k.account
			limit @limit
		)
		union all
		(
			select e.id, @zero::uuid, @zero::uuid, e.credentials
			from endpoints e
			where e.credentials is not null and e.id > @endpoint
			order by e.id
			limit @limit
		)
		union all
		(
			select s.endpoint, s.id, @zero::uuid, s.encrypted
			from endpoint_secrets s
			where (s.endpoint, s.id) > (@endpoint, @secret)
			order by s.endpoint, s.id
			limit @limit
		)
	) s
	order by s.endpoint, s.secret, s.archive
	limit @limit`

// EncryptedValues lists archive keys, credentials and secrets.
func (s *Store) EncryptedValues(ctx context.Context, after store.EncryptedID, limit int) ([]store.EncryptedValue, error) {
	values, err := list(ctx, s, query{encryptedValuesSQL, pgx.NamedArgs{
		"endpoint": someUUID(after.Endpoint), "secret": someUUID(after.Secret), "archive": someUUID(after.Archive),
		"zero": someUUID(postrider.AccountID{}), "limit": limit,
	}}, func(row pgx.CollectableRow) (v store.EncryptedValue, err error) {
		err = row.Scan(toID(&v.ID.Endpoint), toID(&v.ID.Secret), toID(&v.ID.Archive), &v.Bytes)
		return v, err
	})
	if err != nil {
		return nil, fmt.Errorf("list encrypted values: %w", err)
	}
	return values, nil
}

// Replaces values that are still the old ones. A value that somebody has changed meanwhile
// does not match and stays; the caller lists it again. It is no change of the endpoint, so
// neither its revision nor the version is raised. Walks endpoint_secrets_endpoint,
// endpoints_credentials and archive_keys_pkey.
const reencryptSQL = `
	with changes as materialized (
		select r.endpoint, r.secret, r.archive, r.old_value, r.new_value
		from unnest(@endpoints::uuid[], @secrets::uuid[], @archives::uuid[], @old::bytea[], @new::bytea[])
			as r (endpoint, secret, archive, old_value, new_value)
	), secrets as (
		update endpoint_secrets s
		set encrypted = c.new_value
		from changes c
		where s.id = c.secret and s.endpoint = c.endpoint and s.encrypted = c.old_value
		returning s.id
	), credentials as (
		update endpoints e
		set credentials = c.new_value
		from changes c
		where c.secret is null and e.id = c.endpoint and e.credentials = c.old_value
		returning e.id
	), archives as (
		update archive_keys k
		set encrypted = c.new_value
		from changes c
		where k.account = c.archive and k.encrypted = c.old_value
		returning k.account
	)
	select (select count(*) from secrets) + (select count(*) from credentials) + (select count(*) from archives)`

// Reencrypt replaces encrypted values that are still the old ones.
func (s *Store) Reencrypt(ctx context.Context, list []store.Reencryption) (replaced int, err error) {
	var endpoints, secrets, archives uuids
	var olds, news [][]byte
	for _, r := range list {
		endpoints, secrets = append(endpoints, someUUID(r.ID.Endpoint)), append(secrets, uuid(r.ID.Secret))
		archives = append(archives, uuid(r.ID.Archive))
		olds, news = append(olds, r.Old), append(news, r.New)
	}
	err = s.once(ctx, func() error {
		return s.pool.QueryRow(ctx, reencryptSQL, pgx.NamedArgs{
			"endpoints": endpoints, "secrets": secrets, "archives": archives, "old": olds, "new": news,
		}).Scan(&replaced)
	})
	if err != nil {
		return 0, fmt.Errorf("reencrypt values: %w", err)
	}
	return replaced, nil
}
