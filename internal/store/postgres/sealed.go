package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/store"
)

// The first ring of a store, and one in place of another. Both walk ring_pkey.
const (
	firstRingSQL = `insert into ring (kept) values (@ring) on conflict (single) do nothing`
	nextRingSQL  = `update ring set kept = @ring where kept = @was and single`
)

// A statement of its own: its snapshot sees what the others waited for.
const ringSQL = `select kept from ring where single`

// KeepRing stores what the sealing keys are kept as.
func (s *Store) KeepRing(ctx context.Context, was, ring []byte) (kept []byte, err error) {
	statement := nextRingSQL
	if len(was) == 0 {
		statement = firstRingSQL
	}
	args := pgx.NamedArgs{"was": was, "ring": ring}
	err = s.repeat(ctx, func(bool) error {
		b := &pgx.Batch{}
		b.Queue(statement, args)
		b.Queue(ringSQL, args).Query(func(rows pgx.Rows) error {
			kept = nil
			_, err := pgx.ForEachRow(rows, []any{&kept}, func() error { return nil })
			return err
		})
		return s.pool.SendBatch(ctx, b).Close()
	})
	if err != nil {
		return nil, fmt.Errorf("keep ring: %w", err)
	}
	return kept, nil
}

// Walks endpoints_credentials and endpoint_secrets_endpoint.
const sealedSQL = `
	select s.endpoint, s.secret, s.sealed
	from (
		(
			select e.id as endpoint, '00000000-0000-0000-0000-000000000000'::uuid as secret, e.credentials as sealed
			from endpoints e
			where e.credentials is not null and e.id > @endpoint
			order by e.id
			limit @limit
		)
		union all
		(
			select s.endpoint, s.id, s.sealed
			from endpoint_secrets s
			where (s.endpoint, s.id) > (@endpoint, @secret)
			order by s.endpoint, s.id
			limit @limit
		)
	) s
	order by s.endpoint, s.secret
	limit @limit`

// Sealed lists what is sealed.
func (s *Store) Sealed(ctx context.Context, after store.SealedID, limit int) ([]store.Sealed, error) {
	sealed, err := list(ctx, s, query{sealedSQL, pgx.NamedArgs{
		"endpoint": someUUID(after.Endpoint), "secret": someUUID(after.Secret), "limit": limit,
	}}, func(row pgx.CollectableRow) (one store.Sealed, err error) {
		err = row.Scan(toID(&one.ID.Endpoint), toID(&one.ID.Secret), &one.Bytes)
		return one, err
	})
	if err != nil {
		return nil, fmt.Errorf("list what is sealed: %w", err)
	}
	return sealed, nil
}

// Walks endpoint_secrets_endpoint and endpoints_credentials.
const resealSQL = `
	with reseal as materialized (
		select r.endpoint, r.secret, r.was, r.now
		from unnest(@endpoints::uuid[], @secrets::uuid[], @was::bytea[], @now::bytea[]) as r (endpoint, secret, was, now)
	), secrets as (
		update endpoint_secrets s
		set sealed = r.now
		from reseal r
		where s.id = r.secret and s.endpoint = r.endpoint and s.sealed = r.was
		returning s.id
	), credentials as (
		update endpoints e
		set credentials = r.now
		from reseal r
		where r.secret is null and e.id = r.endpoint and e.credentials = r.was
		returning e.id
	)
	select (select count(*) from secrets) + (select count(*) from credentials)`

// Reseal replaces what is sealed.
func (s *Store) Reseal(ctx context.Context, list []store.Reseal) (resealed int, err error) {
	var endpoints, secrets uuids
	var was, now [][]byte
	for _, r := range list {
		endpoints, secrets = append(endpoints, someUUID(r.ID.Endpoint)), append(secrets, uuid(r.ID.Secret))
		was, now = append(was, r.Was), append(now, r.Now)
	}
	err = s.once(ctx, func() error {
		return s.pool.QueryRow(ctx, resealSQL, pgx.NamedArgs{
			"endpoints": endpoints, "secrets": secrets, "was": was, "now": now,
		}).Scan(&resealed)
	})
	if err != nil {
		return 0, fmt.Errorf("reseal: %w", err)
	}
	return resealed, nil
}
