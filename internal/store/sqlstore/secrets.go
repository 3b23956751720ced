package sqlstore

import (
	"context"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A secret that is stored already stays as it is, because the call is a repeat.
const insertSecretSQL = `
	insert into endpoint_secrets (id, endpoint, encrypted, public, created_at, expires_at)
	values (@id, @endpoint, @encrypted, @public, @created_at, @expires_at)
	on conflict (id) do nothing`

// insertSecrets adds secrets to an endpoint.
func insertSecrets(ctx context.Context, tx Tx, endpoint postrider.EndpointID, secrets ...postrider.Secret) error {
	rows := make([]Args, len(secrets))
	for i, s := range secrets {
		rows[i] = Args{
			"id": s.ID, "endpoint": endpoint, "encrypted": append([]byte{}, s.Encrypted...), "public": OrNull(s.Public),
			"created_at": s.ID.Time(), "expires_at": s.ExpiresAt,
		}
	}
	_, err := tx.ExecAll(ctx, insertSecretSQL, rows)
	return err
}

// The statement walks endpoint_secrets_endpoint.
const secretsSQL = `
	select id, endpoint, encrypted, public, created_at, expires_at
	from endpoint_secrets
	where endpoint = any(@endpoints::uuid[]) and (expires_at is null or expires_at > now())
	order by endpoint, id desc`

// Secrets returns the secrets of endpoints that have not expired; see [store.Directory].
func (v Verbs) Secrets(ctx context.Context, endpoints ...postrider.EndpointID) (_ []postrider.Secret, err error) {
	defer v.calls.Begin("Secrets").End(&err, "list secrets")
	secrets, err := v.secrets(ctx, endpoints)
	return secrets, err
}

func (v Verbs) secrets(ctx context.Context, endpoints []postrider.EndpointID) ([]postrider.Secret, error) {
	return all(ctx, v.db, Query{secretsSQL, Args{"endpoints": endpoints}}, func(row Row, s *postrider.Secret) error {
		return row.Scan(&s.ID, &s.Endpoint, &s.Encrypted, &s.Public, &s.CreatedAt, &s.ExpiresAt)
	})
}

// expireSecretsSQL makes all other secrets expire after the overlap. A secret that would expire
// earlier keeps its expiry. During the overlap both secrets sign. The statement walks
// endpoint_secrets_endpoint.
const expireSecretsSQL = `
	update endpoint_secrets
	set expires_at = now() + @overlap * interval '1 microsecond'
	where endpoint = @endpoint and id <> @secret
		and (expires_at is null or expires_at > now() + @overlap * interval '1 microsecond')`

// RotateSecret adds a secret, and makes the others expire; see [store.Directory].
func (v Verbs) RotateSecret(ctx context.Context, r store.RotateSecret) (err error) {
	defer v.calls.Begin("RotateSecret").End(&err, "rotate the secret of endpoint %s", r.Secret.Endpoint)
	return v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		if err := touchEndpoint(ctx, tx, r.Secret.Endpoint); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, Query{expireSecretsSQL, Args{"endpoint": r.Secret.Endpoint, "secret": r.Secret.ID, "overlap": r.Overlap}})
		if err != nil {
			return err
		}
		return insertSecrets(ctx, tx, r.Secret.Endpoint, r.Secret)
	})
}

const (
	// activeSecretsSQL counts the secret to be revoked, and the other secrets that do not expire. It
	// uses the time @at: the transaction may have waited for the version, and now() is the time
	// before that wait. It walks endpoint_secrets_endpoint.
	activeSecretsSQL = `
	select count(*) filter (where id = @secret), count(*) filter (where id <> @secret and expires_at is null)
	from endpoint_secrets
	where endpoint = @endpoint and (expires_at is null or expires_at > @at)`

	// revokeSecretSQL walks the primary key.
	revokeSecretSQL = `update endpoint_secrets set expires_at = now() where id = @secret`
)

// RevokeSecret makes a secret expire now, unless the endpoint would be left without a secret that
// does not expire; see [store.Directory]. Each call raises the version first, so two calls run
// one after the other and cannot each revoke the secret that the other one counted.
func (v Verbs) RevokeSecret(ctx context.Context, r store.RevokeSecret) (err error) {
	defer v.calls.Begin("RevokeSecret").End(&err, "revoke secret %s of endpoint %s", r.Secret, r.Endpoint)
	return v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		if err := touchEndpoint(ctx, tx, r.Endpoint); err != nil {
			return err
		}
		args := Args{"endpoint": r.Endpoint, "secret": r.Secret, "at": tx.Wall()}
		type counts struct{ active, lasting int }
		n, err := one(ctx, tx, Query{activeSecretsSQL, args}, func(row Row, n *counts) error { return row.Scan(&n.active, &n.lasting) })
		switch {
		case err != nil:
			return err
		case n.active == 0:
			return postrider.ErrNotFound
		case n.lasting == 0:
			return fmt.Errorf("every other secret expires: %w", postrider.ErrConflict)
		}
		_, err = tx.Exec(ctx, Query{revokeSecretSQL, args})
		return err
	})
}

// The list walks endpoint_secrets_public or endpoint_secrets_endpoint backwards, and for each key
// the primary key of endpoints.
const publicKeysSQL = `
	select id, endpoint, public, created_at, expires_at
	from endpoint_secrets`

// PublicKeys lists the public keys of endpoints, newest first; see [store.Directory].
func (v Verbs) PublicKeys(ctx context.Context, q store.PublicKeyQuery) (page store.Page[postrider.Secret], err error) {
	defer v.calls.Begin("PublicKeys").End(&err, "list public keys")
	l, err := listOf[postrider.SecretID](v.db, publicKeysSQL, store.Span{}, q.Paging)
	if err != nil {
		return page, err
	}
	by(l, "endpoint", q.Endpoint)
	l.and(`public is not null and (expires_at is null or expires_at > now())
		and exists (select 1 from endpoints e where e.id = endpoint and e.status <> 'deleted')`, nil)
	return pageOf(ctx, l, func(row Row, s *postrider.Secret) error {
		return row.Scan(&s.ID, &s.Endpoint, &s.Public, &s.CreatedAt, &s.ExpiresAt)
	}, func(s *postrider.Secret) postrider.SecretID { return s.ID })
}
