package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// Both by the key of endpoints; endpoints_uid refuses.
const (
	createEndpointSQL = `
	insert into endpoints (id, account, kind, uid, url, description, event_types, status, status_reason, status_since, policy,
		credentials, verified_at, revision, version, created_at, updated_at)
	values (@id, @account, @kind, @uid, @url, @description, @event_types, @status, @status_reason, @now, @policy,
		@credentials, @verified_at, @revision, @version, @created_at, @now)`
	changeEndpointSQL = `
	update endpoints
	set uid = @uid, url = @url, description = @description, event_types = @event_types, status = @status,
		status_reason = @status_reason, status_since = case when status = @status then status_since else @now end, policy = coalesce(@policy, policy), credentials = @credentials, verified_at = @verified_at,
		revision = @revision, version = @version, updated_at = @now
	where id = @id`
)

// PutEndpoint creates or changes an endpoint; see [store.Directory]. Its checks, the new
// version, the secrets and the circuit are one job. A refused endpoint raises no version,
// because the job is undone.
func (s *Store) PutEndpoint(ctx context.Context, p store.PutEndpoint) (postrider.Endpoint, error) {
	policy, err := store.PolicyDocument(p.Endpoint)
	if err != nil {
		return postrider.Endpoint{}, s.explain("put endpoint", err)
	}
	types, err := json.Marshal(append([]postrider.Pattern{}, p.Endpoint.EventTypes...))
	if err != nil {
		return postrider.Endpoint{}, s.explain("put endpoint", err)
	}
	return write(ctx, s, "put endpoint", func(ctx context.Context, tx *tx) (postrider.Endpoint, error) {
		e := p.Endpoint
		e.Kind = cmp.Or(e.Kind, postrider.KindHTTP)
		statement, err := putStatement(ctx, tx, &e)
		if err != nil {
			return postrider.Endpoint{}, err
		}
		if err := checkMost(ctx, tx, p); err != nil {
			return postrider.Endpoint{}, err
		}
		version, err := raiseVersion(ctx, tx)
		if err != nil {
			return postrider.Endpoint{}, err
		}
		e.Revision++
		e.UpdatedAt, e.VerifiedAt = tx.wall, e.VerifiedAt.UTC().Truncate(time.Microsecond)
		err = tx.exec(ctx, statement, sql.Named("id", blob(e.ID)), sql.Named("account", blob(e.Account)), sql.Named("kind", string(e.Kind)),
			sql.Named("uid", textOrNull(e.UID)), sql.Named("url", e.URL), sql.Named("description", e.Description),
			sql.Named("event_types", string(types)), sql.Named("status", string(e.Status)),
			sql.Named("status_reason", e.StatusReason), sql.Named("policy", textOrNull(string(policy))),
			sql.Named("credentials", bytesOrNull(e.Credentials)), sql.Named("verified_at", microsOrNull(e.VerifiedAt)),
			sql.Named("revision", e.Revision), sql.Named("version", version),
			sql.Named("created_at", micros(e.CreatedAt)), sql.Named("now", micros(tx.wall)))
		if err != nil {
			return postrider.Endpoint{}, err
		}
		if err := sqlstore.PutTerms(ctx, coldTx{tx, &s.texts}, sqlstore.Terms{ID: e.ID, Account: e.Account, Terms: store.EndpointTerms(e)}); err != nil {
			return postrider.Endpoint{}, err
		}
		for _, secret := range p.Secrets {
			if err := addSecret(ctx, tx, secret); err != nil {
				return postrider.Endpoint{}, err
			}
		}
		if p.CloseCircuit {
			return e, closeCircuit(ctx, tx, e.ID)
		}
		return e, nil
	})
}

// By the key of endpoints.
const storedEndpointSQL = `select account, kind, status, status_since, full_since, revision, created_at from endpoints where id = @id`

// putStatement returns the statement that stores the endpoint, or the error that refuses
// it, and sets the times that the store keeps, and the kind. It compares the revision: of two
// people who edit an endpoint at once, the second gets ErrConflict.
func putStatement(ctx context.Context, tx *tx, e *postrider.Endpoint) (string, error) {
	var was postrider.Endpoint
	err := tx.row(ctx, storedEndpointSQL, sql.Named("id", blob(e.ID))).Scan(
		toID(&was.Account), toString(&was.Kind), toString(&was.Status), toTime(&was.StatusSince), toTime(&was.FullSince),
		&was.Revision, toTime(&was.CreatedAt))
	unknown := errors.Is(err, sql.ErrNoRows)
	switch {
	case err != nil && !unknown:
		return "", err
	case unknown && e.Revision == 0:
		e.CreatedAt, e.StatusSince, e.FullSince = e.ID.Time(), tx.wall, time.Time{}
		return createEndpointSQL, nil
	case unknown, was.Account != e.Account, was.Status == postrider.EndpointDeleted:
		return "", postrider.ErrNotFound
	case was.Revision != e.Revision:
		return "", postrider.ErrConflict
	}
	e.CreatedAt, e.Kind, e.StatusSince, e.FullSince = was.CreatedAt, was.Kind, was.StatusSince, was.FullSince
	if was.Status != e.Status {
		e.StatusSince = tx.wall
	}
	return changeEndpointSQL, nil
}

// The table has one row. Each change of an endpoint gets the next version in its own job,
// so versions commit in their order.
const raiseVersionSQL = `update subscriptions set version = version + 1 returning version`

func raiseVersion(ctx context.Context, tx *tx) (version int64, err error) {
	err = tx.row(ctx, raiseVersionSQL).Scan(&version)
	return version, err
}

// The columns of scanEndpoint, in its order.
const endpointColumns = `id, account, kind, uid, url, description, event_types, endpoints.status, status_reason, status_since, policy,
		credentials, full_since, verified_at, revision, created_at, updated_at`

// The end of each statement that lists endpoints.
const endpointsFilter = ` and id < @below
		and (@id is null or id = @id)
		and (@uid = '' or uid = @uid)
		and (@status = '' or status = @status)
		and (@circuit = '' or @circuit = coalesce((select c.status from circuits c where c.endpoint = id), 'closed'))
		and (@failing is null or @failing = exists (select 1 from circuits c where c.endpoint = id and c.failing_since is not null))
		and (@health = '' or @health = coalesce((
			select h.status from endpoint_health h indexed by endpoint_health_unhealthy where h.endpoint = id and h.last and h.status <> 'healthy'), 'healthy'))
		and (@id is not null or @ids <> '' or status <> 'deleted')
	order by id desc limit @limit`

// One by the key, those of an account by endpoints_account, one by its uid
// among them, and all from the end of the key. A filter by circuit or health probes the key
// of circuits or endpoint_health_unhealthy for each endpoint that it walks over.
const (
	endpointsSQL          = `select ` + endpointColumns + ` from endpoints where true` + endpointsFilter
	endpointByIDSQL       = `select ` + endpointColumns + ` from endpoints where id = @id and (@account is null or account = @account)` + endpointsFilter
	endpointsByIDsSQL     = `select ` + endpointColumns + ` from endpoints where id in (select unhex(value) from json_each(@ids)) and (@account is null or account = @account)` + endpointsFilter
	endpointByUIDSQL      = `select ` + endpointColumns + ` from endpoints where account = @account and uid = @uid and status <> 'deleted'` + endpointsFilter
	endpointsOfAccountSQL = `select ` + endpointColumns + ` from endpoints where account = @account and status <> 'deleted'` + endpointsFilter
)

// Endpoints lists endpoints; see [store.Directory].
func (s *Store) Endpoints(ctx context.Context, q store.EndpointQuery) (store.Page[postrider.Endpoint], error) {
	args, err := window[postrider.EndpointID](store.Span{}, q.Paging)
	if err != nil {
		return store.Page[postrider.Endpoint]{}, err
	}
	statement := endpointsSQL
	switch {
	case !q.ID.IsZero():
		statement = endpointByIDSQL
	case len(q.IDs) > 0:
		statement = endpointsByIDsSQL
	case !q.Account.IsZero() && q.UID != "":
		statement = endpointByUIDSQL
	case !q.Account.IsZero():
		statement = endpointsOfAccountSQL
	}
	ids := "" // as JSON: SQLite has no arrays
	if len(q.IDs) > 0 {
		var hexes []string
		for _, id := range q.IDs {
			hexes = append(hexes, `"`+hex.EncodeToString(id[:])+`"`)
		}
		ids = "[" + strings.Join(hexes, ",") + "]"
	}
	args = append(args, sql.Named("account", blobOrNull(q.Account)), sql.Named("id", blobOrNull(q.ID)), sql.Named("ids", ids),
		sql.Named("uid", q.UID), sql.Named("status", string(q.Status)), sql.Named("circuit", string(q.Circuit)),
		sql.Named("failing", q.Failing), sql.Named("health", string(q.Health)))
	endpoints, err := list(ctx, s, query{statement, args}, scanEndpoint)
	return store.Cut(endpoints, q.Paging, func(e postrider.Endpoint) string { return key(e.ID) }), s.explain("list endpoints", err)
}

func scanEndpoint(rows *sql.Rows, e *postrider.Endpoint) error { return scanEndpointAnd(rows, e) }

// scanEndpointAnd reads the columns of an endpoint and the columns after them. A policy
// that cannot be read sets the endpoint aside and is no error of the list (see
// store.SetPolicy).
func scanEndpointAnd(rows *sql.Rows, e *postrider.Endpoint, more ...any) error {
	var types, policy string
	err := rows.Scan(append([]any{
		toID(&e.ID), toID(&e.Account), toString(&e.Kind), toString(&e.UID), &e.URL, &e.Description, &types, toString(&e.Status),
		&e.StatusReason, toTime(&e.StatusSince), &policy, &e.Credentials, toTime(&e.FullSince), toTime(&e.VerifiedAt), &e.Revision, toTime(&e.CreatedAt), toTime(&e.UpdatedAt),
	}, more...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal([]byte(types), &e.EventTypes); err != nil {
		return fmt.Errorf("decode event types of endpoint %s: %w", e.ID, err)
	}
	store.SetPolicy(e, []byte(policy))
	return nil
}

// By the key of endpoints.
const touchEndpointSQL = `update endpoints set version = @version where id = @id and status <> 'deleted'`

// touchEndpoint gives an endpoint the next version without changing it, so that it is one
// of the [store.Changes]: its secrets or its circuit have changed.
func touchEndpoint(ctx context.Context, tx *tx, id postrider.EndpointID) error {
	version, err := raiseVersion(ctx, tx)
	if err != nil {
		return err
	}
	return found(tx.count(ctx, touchEndpointSQL, sql.Named("id", blob(id)), sql.Named("version", version)))
}

// Walks endpoints_version; circuits by their key.
const changesSQL = `
	select ` + endpointColumns + `, version, ` + circuitColumns + `
	from endpoints left join circuits on endpoint = id
	where version > @since and (@since > 0 or endpoints.status <> 'deleted')
	order by version limit @limit`

// changed is a row of changesSQL: an endpoint, the version of its last change, and its
// circuit.
type changed struct {
	endpoint postrider.Endpoint
	version  int64
	circuit  postrider.Circuit
}

// Changes returns the endpoints that changed; see [store.Directory]. Secrets
// are read in the same snapshot.
func (s *Store) Changes(ctx context.Context, since int64, limit int) (store.Changes, error) {
	changes, err := s.changes(ctx, since, limit)
	return changes, s.explain("list changes", err)
}

// changes reads one snapshot: the version, the endpoints that changed after since, and
// their secrets. If the page is full, it is complete only up to the version of its last
// endpoint, which it then returns.
func (s *Store) changes(ctx context.Context, since int64, limit int) (store.Changes, error) {
	now := s.wall()
	snapshot, err := s.snapshot(ctx, versionSQL, heldSQL, changesSQL, secretsSQL)
	if err != nil {
		return store.Changes{}, err
	}
	defer snapshot.end()
	var changes store.Changes
	if changes.Version, err = snapshot.number(ctx, query{text: versionSQL}); err != nil {
		return store.Changes{}, err
	}
	hold, err := listIn(ctx, snapshot, query{text: heldSQL}, scanHold)
	if err != nil {
		return store.Changes{}, err
	}
	changes.Hold = hold[0]
	all, err := listIn(ctx, snapshot, query{changesSQL, []any{
		sql.Named("since", since), sql.Named("limit", limit),
	}}, scanChanged)
	if err != nil {
		return store.Changes{}, err
	}
	if len(all) == limit && limit > 0 {
		changes.Version = all[limit-1].version // there may be more
	}
	for _, c := range all {
		secrets, err := listIn(ctx, snapshot, secretsOf(c.endpoint.ID, now), scanSecret)
		if err != nil {
			return store.Changes{}, err
		}
		changes.Endpoints = append(changes.Endpoints, store.EndpointSnapshot{
			Endpoint: c.endpoint, Secrets: secrets, Circuit: c.circuit,
		})
	}
	return changes, nil
}

func scanChanged(rows *sql.Rows, c *changed) error {
	return scanEndpointAnd(rows, &c.endpoint, append([]any{&c.version}, circuitInto(&c.circuit)...)...)
}
