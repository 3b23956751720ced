package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// Takes the next version of the subscriptions. Everything that changes an endpoint runs
// this first. The lock on the one row is held until the commit, so changes commit one
// after the other, in the order of their versions. A reader that sees version 7 therefore
// sees everything up to 7; without the lock, 8 could become visible before 7, and a
// reader that asks for the changes after 8 would never get 7.
const raiseVersionSQL = `update subscriptions set version = version + 1 returning version`

// An id that exists already inserts nothing, which is a conflict.
const insertEndpointSQL = `
	insert into endpoints (id, account, kind, uid, url, description, event_types, status, status_reason, status_since, policy,
		credentials, verified_at, revision, version, created_at, updated_at)
	values (@id, @account, @kind, @uid, @url, @description, @event_types, @status, @status_reason, now(), @policy,
		@credentials, @verified_at, 1, @version, @created_at, now())
	on conflict (id) do nothing
	returning revision, updated_at, kind, status_since, full_since`

// The compare-and-set of the revision: two people who edit one endpoint cannot overwrite
// each other's change unseen. Walks endpoints_pkey.
const updateEndpointSQL = `
	update endpoints
	set uid = @uid, url = @url, description = @description, event_types = @event_types, status = @status,
		status_reason = @status_reason, status_since = case when status = @status then status_since else now() end, policy = coalesce(@policy::text, policy), credentials = @credentials, verified_at = @verified_at,
		revision = revision + 1, version = @version, updated_at = now()
	where id = @id and account = @account and status <> 'deleted' and revision = @revision
	returning revision, updated_at, kind, status_since, full_since`

// Tells a conflict of revisions from an endpoint that does not exist. Walks
// endpoints_pkey.
const liveEndpointSQL = `
	select exists (select from endpoints where id = @id and account = @account and status <> 'deleted')`

// PutEndpoint creates or changes an endpoint, with its new secrets and, if asked for, the
// closing of its circuit, in one transaction. It is not repeated when its reply is lost: a
// second try would meet its own revision and look like a conflict.
func (s *Store) PutEndpoint(ctx context.Context, p store.PutEndpoint) (postrider.Endpoint, error) {
	policy, err := store.PolicyDocument(p.Endpoint)
	if err != nil {
		return postrider.Endpoint{}, err
	}
	e := p.Endpoint
	e.Kind = cmp.Or(e.Kind, postrider.KindHTTP)
	e.VerifiedAt = e.VerifiedAt.UTC().Truncate(time.Microsecond)
	args := pgx.NamedArgs{
		"id": someUUID(e.ID), "account": someUUID(e.Account), "kind": string(e.Kind), "uid": text(e.UID), "url": e.URL, "description": e.Description,
		"event_types": append([]postrider.Pattern{}, e.EventTypes...), "status": string(e.Status), "status_reason": e.StatusReason,
		"policy": text(string(policy)), "credentials": bytesOrNull(e.Credentials), "verified_at": instant(e.VerifiedAt),
		"revision": e.Revision, "created_at": e.ID.Time(),
	}
	err = s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			if err := putEndpoint(ctx, tx, &e, args); err != nil {
				return err
			}
			if err := checkMost(ctx, tx, p); err != nil {
				return err
			}
			if p.CloseCircuit {
				if err := closeCircuit(ctx, tx, e.ID); err != nil {
					return err
				}
			}
			return insertSecrets(ctx, tx, e.ID, p.Secrets)
		})
	})
	if err != nil {
		return postrider.Endpoint{}, fmt.Errorf("put endpoint %s: %w", e.ID, err)
	}
	e.CreatedAt = e.ID.Time()
	return e, nil
}

// putEndpoint stores the endpoint, and sets its revision and its times.
func putEndpoint(ctx context.Context, tx pgx.Tx, e *postrider.Endpoint, args pgx.NamedArgs) error {
	if err := raiseVersion(ctx, tx, args); err != nil {
		return err
	}
	statement := updateEndpointSQL
	if e.Revision == 0 {
		statement = insertEndpointSQL
	}
	err := tx.QueryRow(ctx, statement, args).Scan(&e.Revision, toTime(&e.UpdatedAt), &e.Kind, toTime(&e.StatusSince), toTime(&e.FullSince))
	if err == nil {
		return sqlstore.PutTerms(ctx, coldTx{tx: tx}, sqlstore.Terms{ID: e.ID, Account: e.Account, Terms: store.EndpointTerms(*e)})
	}
	if errors.Is(err, pgx.ErrNoRows) {
		var live bool
		switch err := tx.QueryRow(ctx, liveEndpointSQL, args).Scan(&live); {
		case err != nil:
			return err
		case live:
			return postrider.ErrConflict
		}
		return postrider.ErrNotFound
	}
	return err
}

// raiseVersion takes the next version into the arguments, for the statements after it.
func raiseVersion(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) error {
	var version int64
	if err := tx.QueryRow(ctx, raiseVersionSQL).Scan(&version); err != nil {
		return fmt.Errorf("raise the version: %w", err)
	}
	args["version"] = version
	return nil
}

// Walks endpoints_pkey.
const touchEndpointSQL = `
	update endpoints
	set version = @version
	where id = @id and status <> 'deleted'`

// touchEndpoint gives an endpoint the next version without changing it, so that all nodes
// read it anew: its secrets have changed.
func touchEndpoint(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) error {
	if err := raiseVersion(ctx, tx, args); err != nil {
		return err
	}
	switch tag, err := tx.Exec(ctx, touchEndpointSQL, args); {
	case err != nil:
		return err
	case tag.RowsAffected() == 0:
		return postrider.ErrNotFound
	}
	return nil
}

// The columns of scanEndpointAnd, in its order.
const endpointColumns = `e.id, e.account, e.kind, coalesce(e.uid, ''), e.url, e.description, e.event_types, e.status, e.status_reason, e.status_since,
		e.policy, e.credentials, e.full_since, e.verified_at, e.revision, e.created_at, e.updated_at`

// Walks endpoints_pkey by id, endpoints_uid by uid, endpoints_account by
// account, and endpoints_pkey backwards for all. A filter by circuit or health probes
// circuits_pkey or endpoint_health_unhealthy for each endpoint that it walks over.
const endpointsSQL = `
	select ` + endpointColumns + `
	from endpoints e
	where e.id < @before
		and (@id::uuid is null or e.id = @id)
		and (@ids::uuid[] is null or e.id = any(@ids))
		and (@account::uuid is null or e.account = @account)
		and (@uid::text is null or e.uid = @uid)
		and (@status::text is null or e.status = @status)
		and (@circuit::text is null or @circuit = coalesce((select c.status from circuits c where c.endpoint = e.id), 'closed'))
		and (@failing::bool is null or @failing = exists (select from circuits c where c.endpoint = e.id and c.failing_since is not null))
		and (@health::text is null or @health = coalesce((
			select h.status from endpoint_health h where h.endpoint = e.id and h.last and h.status <> 'healthy'), 'healthy'))
		and (@id::uuid is not null or @ids::uuid[] is not null or e.status <> 'deleted')
	order by e.id desc
	limit @limit`

// Endpoints lists endpoints, newest first.
func (s *Store) Endpoints(ctx context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error) {
	_, before, err := within[postrider.EndpointID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.Endpoint]{}, err
	}
	var ids uuids
	for _, id := range q.IDs {
		ids = append(ids, someUUID(id))
	}
	endpoints, err := list(ctx, s, query{endpointsSQL, pgx.NamedArgs{
		"before": before, "id": uuid(q.ID), "ids": ids, "account": uuid(q.Account), "uid": text(q.UID),
		"status": text(string(q.Status)), "circuit": text(string(q.Circuit)), "failing": q.Failing, "health": text(string(q.Health)),
		"limit": q.Size() + 1,
	}}, scanEndpoint)
	if err != nil {
		return store.Page[postrider.Endpoint]{}, fmt.Errorf("list endpoints: %w", err)
	}
	return store.Cut(endpoints, q.Paging, func(e postrider.Endpoint) string { return string(e.ID[:]) }), nil
}

func scanEndpoint(row pgx.CollectableRow) (e postrider.Endpoint, err error) {
	err = scanEndpointAnd(row, &e)
	return e, err
}

// scanEndpointAnd reads the columns of an endpoint and the columns after them. A policy
// that cannot be read sets the endpoint aside and is no error of the list (see
// store.SetPolicy).
func scanEndpointAnd(row pgx.CollectableRow, e *postrider.Endpoint, more ...any) error {
	var policy []byte
	err := row.Scan(append([]any{
		toID(&e.ID), toID(&e.Account), &e.Kind, &e.UID, &e.URL, &e.Description, &e.EventTypes, &e.Status, &e.StatusReason, toTime(&e.StatusSince),
		&policy, &e.Credentials, toTime(&e.FullSince), toTime(&e.VerifiedAt), &e.Revision, toTime(&e.CreatedAt), toTime(&e.UpdatedAt),
	}, more...)...)
	if err == nil {
		store.SetPolicy(e, policy)
	}
	return err
}

// Lists the endpoints that changed after a version, with their circuits. Versions commit
// in their order (raiseVersionSQL), so no lower version can appear later. Walks
// endpoints_version and circuits_pkey.
const changesSQL = `
	select ` + endpointColumns + `,
		c.endpoint, coalesce(c.status, ''), coalesce(c.reason, ''), c.opened_at, c.probe_at, coalesce(c.cooldown, 0),
		c.failing_since, c.paced_until, c.rate_full_at, coalesce(c.failures, 0), c.last_attempt_at,
		coalesce(c.last_outcome, ''), coalesce(c.generation, 0), e.version
	from endpoints e
	left join circuits c on c.endpoint = e.id
	where e.version > @since
		and (@since > 0 or e.status <> 'deleted')
	order by e.version
	limit @limit`

// One row.
const versionSQL = `select version from subscriptions`

// Changes returns the endpoints that changed after a version, with their secrets. The
// secrets are read afterwards: they can be newer than the version, never older, and then
// the next call returns the endpoint again.
func (s *Store) Changes(ctx context.Context, since int64, limit int) (store.Changes, error) {
	if limit <= 0 {
		limit = math.MaxInt32
	}
	c, err := s.changes(ctx, since, limit)
	if err != nil {
		return store.Changes{}, fmt.Errorf("list changes after version %d: %w", since, err)
	}
	ids, place := uuids{}, map[postrider.EndpointID]*store.EndpointSnapshot{}
	for i := range c.Endpoints {
		id := c.Endpoints[i].Endpoint.ID
		ids, place[id] = append(ids, someUUID(id)), &c.Endpoints[i]
	}
	// Read afterwards: a secret that is newer than Version only comes early.
	secrets, err := s.secrets(ctx, ids)
	if err != nil {
		return store.Changes{}, fmt.Errorf("list secrets of changes after version %d: %w", since, err)
	}
	for _, secret := range secrets {
		place[secret.Endpoint].Secrets = append(place[secret.Endpoint].Secrets, secret)
	}
	return c, nil
}

// changes reads the endpoints and the version up to which they are complete. Normally that
// is the stored version. If the page is full, it is the version of its last endpoint, and
// the caller asks for the next page from there.
func (s *Store) changes(ctx context.Context, since int64, limit int) (store.Changes, error) {
	var c store.Changes
	err := s.repeat(ctx, func(bool) error {
		c = store.Changes{}
		var last int64
		b := &pgx.Batch{}
		// The version is read first: the second statement sees at least as much.
		b.Queue(versionSQL).QueryRow(func(row pgx.Row) error { return row.Scan(&c.Version) })
		b.Queue(heldSQL).QueryRow(func(row pgx.Row) error { return row.Scan(toTime(&c.Hold.Since), &c.Hold.Reason) })
		b.Queue(changesSQL, pgx.NamedArgs{"since": since, "limit": limit}).Query(func(rows pgx.Rows) (err error) {
			c.Endpoints, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (store.EndpointSnapshot, error) {
				return scanChange(row, &last)
			})
			return err
		})
		if err := s.pool.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		c.Version = max(c.Version, last)
		if len(c.Endpoints) == limit {
			c.Version = last
		}
		return nil
	})
	return c, err
}

// scanChange reads one row of changesSQL; version is a column that the snapshot does not
// have.
func scanChange(row pgx.CollectableRow, version *int64) (s store.EndpointSnapshot, err error) {
	c := &s.Circuit
	err = scanEndpointAnd(row, &s.Endpoint, toID(&c.Endpoint), &c.Status, &c.Reason, toTime(&c.OpenedAt), toTime(&c.ProbeAt),
		toWait(&c.Cooldown), toTime(&c.FailingSince), toTime(&c.PacedUntil), toTime(&c.RateFullAt), &c.Failures,
		toTime(&c.LastAttemptAt), &c.LastOutcome, &c.Generation, version)
	return s, err
}
