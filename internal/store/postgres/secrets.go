package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A secret that is stored already stays as it is: the call is a repeat.
const insertSecretSQL = `
	insert into endpoint_secrets (id, endpoint, encrypted, public, created_at, expires_at)
	values (@id, @endpoint, @encrypted, @public, @created_at, @expires_at)
	on conflict (id) do nothing`

func insertSecrets(ctx context.Context, tx pgx.Tx, endpoint postrider.EndpointID, secrets []postrider.Secret) error {
	if len(secrets) == 0 {
		return nil
	}
	b := &pgx.Batch{}
	for _, secret := range secrets {
		b.Queue(insertSecretSQL, pgx.NamedArgs{
			"id": someUUID(secret.ID), "endpoint": someUUID(endpoint), "encrypted": secret.Encrypted,
			"public": text(secret.Public), "created_at": secret.ID.Time(), "expires_at": instant(secret.ExpiresAt),
		})
	}
	return tx.SendBatch(ctx, b).Close()
}

// Walks endpoint_secrets_endpoint.
const secretsSQL = `
	select s.id, s.endpoint, s.encrypted, coalesce(s.public, ''), s.created_at, s.expires_at
	from unnest(@endpoints::uuid[]) as e (id)
	join endpoint_secrets s on s.endpoint = e.id
	where s.expires_at is null or s.expires_at > now()
	order by s.endpoint, s.id desc`

// Secrets returns the secrets of endpoints that have not expired, newest first.
func (s *Store) Secrets(ctx context.Context, endpoints ...postrider.EndpointID) ([]postrider.Secret, error) {
	ids := uuids{}
	for _, endpoint := range endpoints {
		ids = append(ids, someUUID(endpoint))
	}
	secrets, err := s.secrets(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("list secrets: %w", err)
	}
	return secrets, nil
}

// secrets returns the active secrets of the endpoints, of each the newest first.
func (s *Store) secrets(ctx context.Context, endpoints uuids) ([]postrider.Secret, error) {
	var secrets []postrider.Secret
	err := s.repeat(ctx, func(bool) (err error) {
		rows, _ := s.readPool(ctx).Query(ctx, secretsSQL, pgx.NamedArgs{"endpoints": endpoints})
		secrets, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (k postrider.Secret, err error) {
			err = row.Scan(toID(&k.ID), toID(&k.Endpoint), &k.Encrypted, &k.Public, toTime(&k.CreatedAt), toTime(&k.ExpiresAt))
			return k, err
		})
		return err
	})
	return secrets, err
}

// Lets all other secrets expire after the overlap, during which both sign. least keeps a
// secret that was to expire sooner from living longer; it ignores null, which is a secret
// without an end. Walks endpoint_secrets_endpoint.
const expireSecretsSQL = `
	update endpoint_secrets
	set expires_at = least(expires_at, now() + @overlap * interval '1 microsecond')
	where endpoint = @id and id <> @secret`

// RotateSecret adds a secret and lets the others expire.
func (s *Store) RotateSecret(ctx context.Context, r store.RotateSecret) error {
	args := pgx.NamedArgs{
		"id": someUUID(r.Secret.Endpoint), "secret": someUUID(r.Secret.ID), "overlap": r.Overlap.Microseconds(),
	}
	err := s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error { return rotate(ctx, tx, r.Secret, args) })
	})
	if err != nil {
		return fmt.Errorf("rotate the secret of %s: %w", r.Secret.Endpoint, err)
	}
	return nil
}

// rotate lets the other secrets expire and adds the new one.
func rotate(ctx context.Context, tx pgx.Tx, secret postrider.Secret, args pgx.NamedArgs) error {
	if err := touchEndpoint(ctx, tx, args); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, expireSecretsSQL, args); err != nil {
		return err
	}
	return insertSecrets(ctx, tx, secret.Endpoint, []postrider.Secret{secret})
}

// Counts the secret to be revoked, and the others that do not expire. It uses
// clock_timestamp(), because now() is the time at which the transaction began: if it then
// waited for the lock on the version, it must see what expired meanwhile. Walks
// endpoint_secrets_endpoint.
const activeSecretsSQL = `
	select count(*) filter (where s.id = @secret), count(*) filter (where s.id <> @secret and s.expires_at is null)
	from endpoint_secrets s
	where s.endpoint = @id and (s.expires_at is null or s.expires_at > clock_timestamp())`

// Walks endpoint_secrets_pkey.
const revokeSecretSQL = `update endpoint_secrets set expires_at = clock_timestamp() where id = @secret`

// RevokeSecret lets a secret expire.
func (s *Store) RevokeSecret(ctx context.Context, r store.RevokeSecret) error {
	args := pgx.NamedArgs{"id": someUUID(r.Endpoint), "secret": someUUID(r.Secret)}
	err := s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error { return revoke(ctx, tx, args) })
	})
	if err != nil {
		return fmt.Errorf("revoke secret %s of endpoint %s: %w", r.Secret, r.Endpoint, err)
	}
	return nil
}

// revoke lets the secret expire, unless no other one would last: an endpoint always has a
// secret that signs. touchEndpoint locks the row of subscriptions, so two calls cannot
// each revoke the secret that the other one relied on.
func revoke(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) error {
	if err := touchEndpoint(ctx, tx, args); err != nil {
		return err
	}
	var active, lasting int
	switch err := tx.QueryRow(ctx, activeSecretsSQL, args).Scan(&active, &lasting); {
	case err != nil:
		return err
	case active == 0:
		return postrider.ErrNotFound
	case lasting == 0:
		return fmt.Errorf("every other secret expires: %w", postrider.ErrConflict)
	}
	_, err := tx.Exec(ctx, revokeSecretSQL, args)
	return err
}

// Walks endpoint_secrets_public, or endpoint_secrets_endpoint by endpoint,
// backwards, and endpoints_pkey.
const publicKeysSQL = `
	select s.id, s.endpoint, s.public, s.created_at, s.expires_at
	from endpoint_secrets s
	join endpoints e on e.id = s.endpoint
	where s.public is not null
		and s.id < @before
		and (@endpoint::uuid is null or s.endpoint = @endpoint)
		and (s.expires_at is null or s.expires_at > now())
		and e.status <> 'deleted'
	order by s.id desc
	limit @limit`

// PublicKeys lists the public keys of endpoints, newest first.
func (s *Store) PublicKeys(ctx context.Context, q store.PublicKeyQuery) (store.Page[postrider.Secret], error) {
	_, before, err := within[postrider.SecretID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.Secret]{}, err
	}
	keys, err := list(ctx, s, query{publicKeysSQL, pgx.NamedArgs{
		"before": before, "endpoint": uuid(q.Endpoint), "limit": q.Size() + 1,
	}}, func(row pgx.CollectableRow) (k postrider.Secret, err error) {
		err = row.Scan(toID(&k.ID), toID(&k.Endpoint), &k.Public, toTime(&k.CreatedAt), toTime(&k.ExpiresAt))
		return k, err
	})
	if err != nil {
		return store.Page[postrider.Secret]{}, fmt.Errorf("list public keys: %w", err)
	}
	return store.Cut(keys, q.Paging, func(k postrider.Secret) string { return string(k.ID[:]) }), nil
}
