package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

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
func (s *Store) EncryptedValues(ctx context.Context, after store.EncryptedID, limit int) (_ []store.EncryptedValue, err error) {
	defer s.calls.Begin("EncryptedValues").End(&err, "list encrypted values")
	return list(ctx, s, query{encryptedValuesSQL, pgx.NamedArgs{
		"endpoint": someUUID(after.Endpoint), "secret": someUUID(after.Secret), "archive": someUUID(after.Archive),
		"zero": someUUID(postrider.AccountID{}), "limit": limit,
	}}, func(row pgx.CollectableRow) (v store.EncryptedValue, err error) {
		err = row.Scan(toID(&v.ID.Endpoint), toID(&v.ID.Secret), toID(&v.ID.Archive), &v.Bytes)
		return v, err
	})
}
