package sqlite

import (
	"context"
	"database/sql"

	"github.com/postrider/postrider/internal/store"
)

// encryptedValuesSQL lists credentials and secrets in the order of their ids. It treats
// credentials as the secret with the zero id. Each half walks its index in that order,
// endpoints_credentials and endpoint_secrets_endpoint, and SQLite merges them without sorting.
// The "indexed by" forces the first index.
const encryptedValuesSQL = `
	select id as endpoint, zeroblob(16) as secret, credentials as encrypted from endpoints indexed by endpoints_credentials
	where credentials is not null and id > @endpoint
	union all
	select endpoint, id, encrypted from endpoint_secrets
	where (endpoint, id) > (@endpoint, @secret)
	order by endpoint, secret limit @limit`

// The statement walks the primary key of archive_keys.
const archiveKeysSQL = `select account, encrypted from archive_keys where account > @archive order by account limit @limit`

// EncryptedValues lists archive keys, and then credentials and secrets; see
// [store.Encryption].
func (s *Store) EncryptedValues(ctx context.Context, after store.EncryptedID, limit int) (values []store.EncryptedValue, err error) {
	defer s.calls.Begin("EncryptedValues").End(&err, "list encrypted values")
	if after.Endpoint.IsZero() {
		values, err = list(ctx, s, query{archiveKeysSQL, []any{sql.Named("archive", blob(after.Archive)), sql.Named("limit", limit)}},
			func(rows *sql.Rows, v *store.EncryptedValue) error { return rows.Scan(toID(&v.ID.Archive), &v.Bytes) })
		if err != nil || len(values) == limit {
			return values, s.fault(err)
		}
	}
	more, err := list(ctx, s, query{encryptedValuesSQL, []any{
		sql.Named("endpoint", blob(after.Endpoint)), sql.Named("secret", blob(after.Secret)), sql.Named("limit", limit-len(values)),
	}}, func(rows *sql.Rows, v *store.EncryptedValue) error {
		return rows.Scan(toID(&v.ID.Endpoint), toID(&v.ID.Secret), &v.Bytes)
	})
	return append(values, more...), s.fault(err)
}
