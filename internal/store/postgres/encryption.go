package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// encryptedValuesSQL merges three sorted walks: archive keys, credentials of endpoints, and
// secrets. It treats the credentials of an endpoint as a secret with the zero id, so that they
// come before the endpoint's secrets. It treats archive keys as values of the zero endpoint. It
// walks archive_keys_pkey, endpoints_credentials and endpoint_secrets_endpoint.
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

// EncryptedValues lists archive keys, credentials and secrets; see [store.Encryption].
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
