package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// RaiseVersionsSQL takes the next @n versions of the subscriptions, and returns the version
// before them. Every transaction that changes an endpoint runs this statement first.
//
// In PostgreSQL the lock on the one row lasts until the commit. So changes commit one after the
// other, in the order of their versions, and a reader that sees version 7 sees all changes up to
// 7. Without the lock, version 8 could become visible before 7. A reader that then asks for the
// changes after 8 would never get 7.
const RaiseVersionsSQL = `update subscriptions set version = version + @n returning version - @n`

// RaiseVersion takes the next version.
func RaiseVersion(ctx context.Context, tx Tx) (int64, error) {
	before, err := raiseVersions(ctx, tx, 1)
	return before + 1, err
}

// raiseVersions takes the next n versions, and returns the version before them.
func raiseVersions(ctx context.Context, tx Tx, n int) (int64, error) {
	return one(ctx, tx, Query{RaiseVersionsSQL, Args{"n": n}}, func(row Row, version *int64) error { return row.Scan(version) })
}

// The statement walks the primary key.
const touchEndpointSQL = `
	update endpoints
	set version = @version
	where id = @id and status <> 'deleted'`

// touchEndpoint gives an endpoint the next version without another change, so that all nodes read
// it again. It is for changes of the endpoint's secrets or circuit.
func touchEndpoint(ctx context.Context, tx Tx, id postrider.EndpointID) error {
	version, err := RaiseVersion(ctx, tx)
	if err != nil {
		return err
	}
	return found(tx.Exec(ctx, Query{touchEndpointSQL, Args{"id": id, "version": version}}))
}

const (
	// insertEndpointSQL inserts nothing if the id exists already; the caller then reports a
	// conflict.
	insertEndpointSQL = `
	insert into endpoints (id, account, kind, uid, url, description, metadata, event_types, status, status_reason, status_since,
		policy, credentials, verified_at, revision, version, created_at, updated_at)
	values (@id, @account, @kind, @uid, @url, @description, @metadata, @event_types, @status, @status_reason, now(),
		@policy, @credentials, @verified_at, 1, @version, @created_at, now())
	on conflict (id) do nothing
	returning revision, updated_at, kind, status_since, full_since`

	// updateEndpointSQL changes the endpoint only if its revision is the expected one. So two people
	// who edit one endpoint cannot overwrite each other's changes without noticing. It walks the
	// primary key.
	updateEndpointSQL = `
	update endpoints
	set uid = @uid, url = @url, description = @description, metadata = @metadata, event_types = @event_types,
		status = @status, status_reason = @status_reason, status_since = case when status = @status then status_since else now() end,
		subscribed_at = case when @resubscribed then now() else subscribed_at end,
		policy = coalesce(@policy::text, policy), credentials = @credentials, verified_at = @verified_at,
		revision = revision + 1, version = @version, updated_at = now()
	where id = @id and account = @account and status <> 'deleted' and revision = @revision
	returning revision, updated_at, kind, status_since, full_since`

	// liveEndpointSQL tells apart a conflict of revisions and an endpoint that does not exist. It
	// walks the primary key.
	liveEndpointSQL = `
	select 1
	from endpoints
	where id = @id and account = @account and status <> 'deleted'`
)

// PutEndpoint creates or changes an endpoint, adds its new secrets and, if p asks for it, closes
// its circuit; see [store.Directory]. It does not run again when the reply to its commit was
// lost, because the second run would find the revision that the first one stored, and report a
// conflict.
func (v Verbs) PutEndpoint(ctx context.Context, p store.PutEndpoint) (e postrider.Endpoint, err error) {
	defer v.calls.Begin("PutEndpoint").End(&err, "put endpoint %s", p.Endpoint.ID)
	policy, err := store.PolicyDocument(p.Endpoint)
	if err != nil {
		return postrider.Endpoint{}, err
	}
	err = v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		e, err = putEndpoint(ctx, tx, p.Endpoint, policy)
		if err != nil {
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
		return insertSecrets(ctx, tx, e.ID, p.Secrets...)
	})
	if err != nil {
		return postrider.Endpoint{}, err
	}
	return e, nil
}

// putEndpoint stores the endpoint. It returns the endpoint with its new revision and the times
// that the store sets.
func putEndpoint(ctx context.Context, tx Tx, e postrider.Endpoint, policy []byte) (postrider.Endpoint, error) {
	version, err := RaiseVersion(ctx, tx)
	if err != nil {
		return e, err
	}
	statement, resubscribed := insertEndpointSQL, false
	if e.Revision > 0 {
		statement = updateEndpointSQL
		if resubscribed, err = endSubscription(ctx, tx, e); err != nil {
			return e, err
		}
	}
	e.Kind, e.CreatedAt = cmp.Or(e.Kind, postrider.KindHTTP), e.ID.Time()
	e.VerifiedAt = e.VerifiedAt.UTC().Truncate(time.Microsecond)
	args := Args{
		"id": e.ID, "account": e.Account, "kind": e.Kind, "uid": OrNull(e.UID), "url": e.URL, "description": e.Description,
		"metadata": metadataOrNull(e.Metadata), "event_types": append([]postrider.Pattern{}, e.EventTypes...),
		"status": e.Status, "status_reason": e.StatusReason,
		"policy": OrNull(string(policy)), "credentials": bytesOrNull(e.Credentials), "verified_at": e.VerifiedAt,
		"revision": e.Revision, "version": version, "created_at": e.CreatedAt, "resubscribed": resubscribed,
	}
	stored, err := one(ctx, tx, Query{statement, args}, func(row Row, e *postrider.Endpoint) error {
		return row.Scan(&e.Revision, &e.UpdatedAt, &e.Kind, &e.StatusSince, &e.FullSince)
	})
	if errors.Is(err, postrider.ErrNotFound) {
		_, err = one(ctx, tx, Query{liveEndpointSQL, args}, func(row Row, one *int) error { return row.Scan(one) })
		if err == nil {
			err = postrider.ErrConflict
		}
	}
	if err != nil {
		return e, err
	}
	e.Revision, e.UpdatedAt, e.Kind, e.StatusSince, e.FullSince = stored.Revision, stored.UpdatedAt, stored.Kind, stored.StatusSince,
		stored.FullSince
	terms := store.EndpointTerms(e)
	if e.Status != postrider.EndpointDeleted {
		terms = append(terms, store.MetadataTerms(store.MetadataOfEndpoint, e.Metadata)...)
	}
	return e, PutTerms(ctx, tx, Terms{ID: e.ID, Account: e.Account, Terms: terms})
}

// endpointColumns are the columns of an endpoint e, in the order of scanEndpoint.
const endpointColumns = `e.id, e.account, e.kind, e.uid, e.url, e.description, e.metadata, e.event_types, e.status, e.status_reason,
		e.status_since, e.policy, e.credentials, e.full_since, e.verified_at, e.revision, e.created_at, e.updated_at`

// scanEndpoint reads the columns of an endpoint, and then the columns for more. If the policy
// cannot be read, the endpoint is set aside and scanEndpoint returns no error (see
// store.SetPolicy).
func scanEndpoint(row Row, e *postrider.Endpoint, more ...any) error {
	var policy []byte
	err := row.Scan(append([]any{
		&e.ID, &e.Account, &e.Kind, &e.UID, &e.URL, &e.Description, (*map[string]string)(&e.Metadata), &e.EventTypes, &e.Status,
		&e.StatusReason, &e.StatusSince, &policy, &e.Credentials, &e.FullSince, &e.VerifiedAt, &e.Revision, &e.CreatedAt, &e.UpdatedAt,
	}, more...)...)
	if err == nil {
		store.SetPolicy(e, policy)
	}
	return err
}

const endpointsSQL = `
	select ` + endpointColumns + `
	from endpoints e`

// These conditions run for each endpoint that the list walks over. They look up the circuit in
// the primary key of circuits, or the health in endpoint_health_unhealthy.
const (
	withCircuit = `@circuit = coalesce((
			select case when c.status = 'open' and c.probe_at <= @now then 'half_open' else c.status end
			from circuits c
			where c.endpoint = e.id), 'closed')`
	withFailing = `@failing = exists (select 1 from circuits c where c.endpoint = e.id and c.failing_since is not null)`
	withHealth  = `@health = coalesce((
			select h.status from endpoint_health h /* indexed by endpoint_health_unhealthy */
			where h.endpoint = e.id and h.last and h.status <> 'healthy'), 'healthy')`
)

// Endpoints lists endpoints, newest first; see [store.Directory].
func (v Verbs) Endpoints(ctx context.Context, q store.EndpointQuery) (page store.Page[postrider.Endpoint], err error) {
	defer v.calls.Begin("Endpoints").End(&err, "list endpoints")
	of := ofMetadata{store.MetadataOfEndpoint, q.Metadata, q.Account, q.Paging}
	l, err := metadataList[postrider.EndpointID](ctx, v.db, endpointsSQL, of)
	if err != nil {
		return page, err
	}
	by(l, "id", q.ID)
	if len(q.IDs) > 0 {
		l.and("id = any(@ids::uuid[])", Args{"ids": q.IDs})
		l.indexed = true
	}
	if len(q.IDs) == 0 && q.ID.IsZero() || len(q.Metadata) > 0 {
		l.and("status <> 'deleted'", nil)
	}
	if q.UID != "" { // the index endpoints_uid has both columns
		l.and("account = @account and uid = @uid", Args{"account": q.Account, "uid": q.UID})
	} else {
		by(l, "account", q.Account)
	}
	if q.Status != "" {
		l.and("status = @status", Args{"status": q.Status})
	}
	if q.Circuit != "" {
		l.and(withCircuit, Args{"circuit": q.Circuit, "now": v.db.Clock().Now()})
	}
	if q.Failing != nil {
		l.and(withFailing, Args{"failing": *q.Failing})
	}
	if q.Health != "" {
		l.and(withHealth, Args{"health": q.Health})
	}
	return pageOf(ctx, l, func(row Row, e *postrider.Endpoint) error { return scanEndpoint(row, e) },
		func(e *postrider.Endpoint) postrider.EndpointID { return e.ID })
}

const (
	// The table has one row.
	versionSQL = `select version from subscriptions`

	// changesSQL returns the endpoints that changed after a version, with their circuits. Versions
	// commit in their order (see RaiseVersionsSQL), so no lower version can appear later. It walks
	// endpoints_version and the primary key of circuits.
	changesSQL = `
	select ` + endpointColumns + `, e.version, e.subscribed_at, ` + circuitColumns + `
	from endpoints e
	left join circuits c on c.endpoint = e.id
	where e.version > @since and (@since > 0 or e.status <> 'deleted')
	order by e.version
	limit @limit`
)

// Changes returns the endpoints that changed after a version, with their secrets; see
// [store.Directory]. It reads the version first, so the lists that follow are at least as new. It
// reads the secrets last: a secret that is newer than the version is returned early, and the next
// call returns its endpoint again.
func (v Verbs) Changes(ctx context.Context, since int64, limit int) (c store.Changes, err error) {
	defer v.calls.Begin("Changes").End(&err, "list changes after version %d", since)
	if limit <= 0 {
		limit = math.MaxInt32
	}
	c.Version, err = one(ctx, v.db, Query{SQL: versionSQL}, func(row Row, version *int64) error { return row.Scan(version) })
	if err != nil {
		return c, err
	}
	if c.Hold, err = v.held(ctx); err != nil {
		return c, err
	}
	last := c.Version
	c.Endpoints, err = all(ctx, v.db, Query{changesSQL, Args{"since": since, "limit": limit}}, func(row Row, s *store.EndpointSnapshot) error {
		return scanEndpoint(row, &s.Endpoint, append([]any{&last, &s.SubscribedAt}, circuitInto(&s.Circuit)...)...)
	})
	if err != nil {
		return c, err
	}
	c.Version = max(c.Version, last)
	if len(c.Endpoints) == limit { // there may be more
		c.Version = last
	}
	if c.Version > since { // now, so that the paths are as new as the last endpoint
		if c.Paths, err = v.paths(ctx); err != nil {
			return c, err
		}
	}
	ids, place := []postrider.EndpointID{}, map[postrider.EndpointID]*store.EndpointSnapshot{}
	for i := range c.Endpoints {
		id := c.Endpoints[i].Endpoint.ID
		ids, place[id] = append(ids, id), &c.Endpoints[i]
	}
	secrets, err := v.secrets(ctx, ids)
	for _, secret := range secrets {
		place[secret.Endpoint].Secrets = append(place[secret.Endpoint].Secrets, secret)
	}
	return c, err
}

// paths returns the paths of each event type that has some.
func (v Verbs) paths(ctx context.Context) (map[string][]string, error) {
	types, err := all(ctx, v.db, Query{indexedTypesSQL, Args{"after": "", "limit": math.MaxInt32}}, scanEventType)
	paths := map[string][]string{}
	for _, t := range types {
		for _, p := range t.Paths {
			paths[t.Name] = append(paths[t.Name], p.Path)
		}
	}
	return paths, err
}

// orphanedSQL finds endpoints of deleted accounts. It walks accounts_deleted, and
// endpoints_account for each account. The inner limit bounds the work for an account with many
// endpoints, and the outer one for many accounts.
const orphanedSQL = `
	select d.id
	from accounts a
	cross join lateral (
		select e.id
		from endpoints e
		where e.account = a.id and e.status <> 'deleted'
		limit @limit
	) d
	where a.deleted_at is not null
	limit @limit`

// orphanedOfSQLite is the same for SQLite, which has no lateral joins.
const orphanedOfSQLite = `
	select e.id
	from accounts a cross join endpoints e on e.account = a.id
	where a.deleted_at is not null and e.status <> 'deleted'
	limit @limit`

// Each endpoint gets a version of its own, because versions are unique, and a page of changes may
// end between two endpoints. The statement walks the primary key.
const deleteEndpointSQL = `
	update endpoints
	set status = 'deleted', status_reason = '', status_since = now(), revision = revision + 1, version = @version, updated_at = now()
	where id = @id and status <> 'deleted'`

// DeleteEndpoints deletes endpoints of deleted accounts; see [store.Upkeep]. It finds them outside
// of the transaction, so that the row of subscriptions, which every change of an endpoint needs, is
// locked only for the update. The result stays right, because deleted accounts stay deleted.
func (v Verbs) DeleteEndpoints(ctx context.Context, limit int) (deleted int, err error) {
	defer v.calls.Begin("DeleteEndpoints").End(&err, "delete endpoints of deleted accounts")
	ids, err := all(ctx, counting{v.db}, Query{orphanedSQL, Args{"limit": limit}}, func(row Row, id *postrider.EndpointID) error {
		return row.Scan(id)
	})
	if err != nil {
		return 0, err
	}
	_, err = v.db.Pieces(ctx, len(ids), func(size int) (int, error) {
		var n int64
		err := v.db.Change(ctx, Bulk, func(ctx context.Context, tx Tx) error {
			version, err := raiseVersions(ctx, tx, size)
			if err != nil {
				return err
			}
			rows := make([]Args, size)
			for i, id := range ids[:size] {
				rows[i] = Args{"id": id, "version": version + 1 + int64(i)}
			}
			n, err = tx.ExecAll(ctx, deleteEndpointSQL, rows)
			return err
		})
		if err == nil {
			deleted, ids = deleted+int(n), ids[size:]
		}
		return size, err
	})
	return deleted, err
}
