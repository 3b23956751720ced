package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"errors"

	"github.com/postrider/postrider/internal/store"
)

// One row, or none.
const (
	ringSQL     = `select kept from ring`
	keepRingSQL = `insert into ring (kept, only) values (@kept, 1) on conflict (only) do update set kept = excluded.kept`
)

// KeepRing stores the sealing keys; see [store.Seals].
func (s *Store) KeepRing(ctx context.Context, was, ring []byte) ([]byte, error) {
	return write(ctx, s, "keep ring", func(ctx context.Context, tx *tx) (kept []byte, err error) {
		err = tx.row(ctx, ringSQL).Scan(&kept)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
		if !bytes.Equal(kept, was) {
			return kept, nil
		}
		return bytes.Clone(ring), tx.exec(ctx, keepRingSQL, sql.Named("kept", ring))
	})
}

// Both in the order of their index, endpoints_credentials and
// endpoint_secrets_endpoint, and merged.
const sealedSQL = `
	select id as endpoint, zeroblob(16) as secret, credentials as sealed from endpoints indexed by endpoints_credentials
	where credentials is not null and id > @endpoint
	union all
	select endpoint, id, sealed from endpoint_secrets
	where (endpoint, id) > (@endpoint, @secret)
	order by endpoint, secret limit @limit`

// Sealed lists what is sealed; see [store.Seals].
func (s *Store) Sealed(ctx context.Context, after store.SealedID, limit int) ([]store.Sealed, error) {
	sealed, err := list(ctx, s, query{sealedSQL, []any{
		sql.Named("endpoint", blob(after.Endpoint)), sql.Named("secret", blob(after.Secret)), sql.Named("limit", limit),
	}}, func(rows *sql.Rows, s *store.Sealed) error {
		return rows.Scan(toID(&s.ID.Endpoint), toID(&s.ID.Secret), &s.Bytes)
	})
	return sealed, s.explain("list what is sealed", err)
}

// By the keys of endpoint_secrets and endpoints.
const (
	resealSecretSQL = `
	update endpoint_secrets set sealed = @now where id = @secret and endpoint = @endpoint and sealed = @was`
	resealCredentialsSQL = `
	update endpoints set credentials = @now where id = @endpoint and credentials = @was`
)

// Reseal replaces what is sealed; see [store.Seals].
func (s *Store) Reseal(ctx context.Context, list []store.Reseal) (int, error) {
	return write(ctx, s, "reseal", func(ctx context.Context, tx *tx) (resealed int, err error) {
		for _, r := range list {
			statement := resealSecretSQL
			if r.ID.Secret.IsZero() {
				statement = resealCredentialsSQL
			}
			n, err := tx.count(ctx, statement, sql.Named("endpoint", blob(r.ID.Endpoint)),
				sql.Named("secret", blob(r.ID.Secret)), sql.Named("was", r.Was), sql.Named("now", r.Now))
			if err != nil {
				return 0, err
			}
			resealed += int(n)
		}
		return resealed, nil
	})
}
