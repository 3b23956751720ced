package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// A secret that is stored already stays as it is: the call is a repeat.
const addSecretSQL = `
	insert into endpoint_secrets (id, endpoint, encrypted, public, created_at, expires_at)
	values (@id, @endpoint, @encrypted, @public, @created_at, @expires_at)
	on conflict (id) do nothing`

// addSecret stores a secret of an endpoint.
func addSecret(ctx context.Context, tx *tx, s postrider.Secret) error {
	return tx.exec(ctx, addSecretSQL, sql.Named("id", blob(s.ID)), sql.Named("endpoint", blob(s.Endpoint)),
		sql.Named("encrypted", someBytes(s.Encrypted)), sql.Named("public", textOrNull(s.Public)),
		sql.Named("created_at", micros(s.ID.Time())), sql.Named("expires_at", microsOrNull(s.ExpiresAt)))
}

// By endpoint_secrets_endpoint, from its end.
const secretsSQL = `
	select id, endpoint, encrypted, public, created_at, expires_at from endpoint_secrets
	where endpoint = @endpoint and (expires_at is null or expires_at > @now)
	order by id desc`

// Secrets returns an endpoint's secrets; see [store.Directory].
func (s *Store) Secrets(ctx context.Context, endpoints ...postrider.EndpointID) (all []postrider.Secret, err error) {
	now := s.wall()
	for _, endpoint := range endpoints {
		secrets, err := list(ctx, s, secretsOf(endpoint, now), scanSecret)
		if err != nil {
			return nil, s.explain("list secrets", err)
		}
		all = append(all, secrets...)
	}
	return all, nil
}

// secretsOf returns the query for the active secrets of an endpoint.
func secretsOf(endpoint postrider.EndpointID, now time.Time) query {
	return query{secretsSQL, []any{sql.Named("endpoint", blob(endpoint)), sql.Named("now", micros(now))}}
}

func scanSecret(rows *sql.Rows, s *postrider.Secret) error {
	return rows.Scan(toID(&s.ID), toID(&s.Endpoint), &s.Encrypted, toString(&s.Public), toTime(&s.CreatedAt), toTime(&s.ExpiresAt))
}

// Lets all other secrets expire at @until, unless they expire sooner. By
// endpoint_secrets_endpoint.
const expireSecretsSQL = `
	update endpoint_secrets set expires_at = @until
	where endpoint = @endpoint and id <> @secret and (expires_at is null or expires_at > @until)`

// RotateSecret adds a secret and lets the others expire; see [store.Directory]. The
// endpoint gets the next version, so that all nodes read the new secret.
func (s *Store) RotateSecret(ctx context.Context, r store.RotateSecret) error {
	return change(ctx, s, "rotate secret", func(ctx context.Context, tx *tx) error {
		if err := touchEndpoint(ctx, tx, r.Secret.Endpoint); err != nil {
			return err
		}
		err := tx.exec(ctx, expireSecretsSQL, sql.Named("endpoint", blob(r.Secret.Endpoint)),
			sql.Named("secret", blob(r.Secret.ID)), sql.Named("until", micros(tx.wall.Add(r.Overlap))))
		if err != nil {
			return err
		}
		return addSecret(ctx, tx, r.Secret)
	})
}

// Counts the secret to be revoked and the others that do not expire: an endpoint must keep
// one that lasts. By endpoint_secrets_endpoint, then by the key of endpoint_secrets.
const (
	activeSecretsSQL = `
	select count(*) filter (where id = @secret), count(*) filter (where id <> @secret and expires_at is null) from endpoint_secrets
	where endpoint = @endpoint and (expires_at is null or expires_at > @now)`
	revokeSecretSQL = `update endpoint_secrets set expires_at = @now where id = @secret`
)

// RevokeSecret lets a secret expire now, unless no other one would last; see
// [store.Directory]. The count and the update are one job, so two calls cannot each revoke
// the secret that the other one relied on.
func (s *Store) RevokeSecret(ctx context.Context, r store.RevokeSecret) error {
	return change(ctx, s, "revoke secret", func(ctx context.Context, tx *tx) error {
		if err := touchEndpoint(ctx, tx, r.Endpoint); err != nil {
			return err
		}
		var active, lasting int
		err := tx.row(ctx, activeSecretsSQL, sql.Named("endpoint", blob(r.Endpoint)), sql.Named("secret", blob(r.Secret)),
			sql.Named("now", micros(tx.wall))).Scan(&active, &lasting)
		switch {
		case err != nil:
			return err
		case active == 0:
			return postrider.ErrNotFound
		case lasting == 0:
			return fmt.Errorf("every other secret expires: %w", postrider.ErrConflict)
		}
		return tx.exec(ctx, revokeSecretSQL, sql.Named("secret", blob(r.Secret)), sql.Named("now", micros(tx.wall)))
	})
}

// The beginning of each statement that lists public keys.
const publicKeysSelect = `
	select endpoint_secrets.id, endpoint, public, endpoint_secrets.created_at, expires_at
	from endpoint_secrets join endpoints on endpoints.id = endpoint
	where public is not null and endpoint_secrets.id < @below`

// The end of each statement that lists public keys.
const publicKeysFilter = `
		and (expires_at is null or expires_at > @now) and status <> 'deleted'
	order by endpoint_secrets.id desc limit @limit`

// All public keys from the end of endpoint_secrets_public; the keys of an endpoint from
// the end of endpoint_secrets_endpoint.
const (
	publicKeysSQL           = publicKeysSelect + publicKeysFilter
	publicKeysOfEndpointSQL = publicKeysSelect + ` and endpoint = @endpoint` + publicKeysFilter
)

// PublicKeys lists the public keys of endpoints; see [store.Directory].
func (s *Store) PublicKeys(ctx context.Context, q store.PublicKeyQuery) (store.Page[postrider.Secret], error) {
	args, err := window[postrider.SecretID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.Secret]{}, err
	}
	statement := publicKeysSQL
	if !q.Endpoint.IsZero() {
		statement = publicKeysOfEndpointSQL
	}
	args = append(args, sql.Named("endpoint", blob(q.Endpoint)), sql.Named("now", micros(s.wall())))
	keys, err := list(ctx, s, query{statement, args}, func(rows *sql.Rows, k *postrider.Secret) error {
		return rows.Scan(toID(&k.ID), toID(&k.Endpoint), &k.Public, toTime(&k.CreatedAt), toTime(&k.ExpiresAt))
	})
	return store.Cut(keys, q.Paging, func(k postrider.Secret) string { return key(k.ID) }), s.explain("list public keys", err)
}
