package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The columns of scanCircuit, in its order.
const circuitColumns = `endpoint, status, reason, opened_at, probe_at, cooldown, failing_since,
	paced_until, rate_full_at, failures, last_attempt_at, last_outcome, generation`

// The first change of an endpoint's circuit. If another node was first, it inserts
// nothing, which is a conflict like one of updateCircuitSQL. Walks endpoints_pkey.
const insertCircuitSQL = `
	insert into circuits (endpoint, status, reason, opened_at, probe_at, cooldown, failing_since,
		paced_until, rate_full_at, failures, last_attempt_at, last_outcome, generation, changed_at)
	select e.id, @status, @reason, @opened_at, @probe_at, @cooldown, @failing_since,
		@paced_until, @rate_full_at, @failures, @last_attempt_at, @last_outcome, 1, now()
	from endpoints e
	where e.id = @endpoint and e.status <> 'deleted'
	on conflict (endpoint) do nothing
	returning ` + circuitColumns

// The compare-and-swap of the generation. An endpoint can have two owners for a moment,
// from the point of view of each: a node that lost its shard may not know it yet. Of two
// nodes that change the circuit, one meets the generation that it has read; the other gets
// the stored circuit back and adopts it. Walks circuits_pkey and endpoints_pkey.
const updateCircuitSQL = `
	update circuits
	set status = @status, reason = @reason, opened_at = @opened_at, probe_at = @probe_at, cooldown = @cooldown,
		failing_since = @failing_since, paced_until = @paced_until, rate_full_at = @rate_full_at, failures = @failures,
		last_attempt_at = @last_attempt_at, last_outcome = @last_outcome, generation = generation + 1, changed_at = now()
	where endpoint = @endpoint and generation = @generation
		and (select e.status <> 'deleted' from endpoints e where e.id = @endpoint)
	returning ` + circuitColumns

// Makes the endpoint one of the changes that every node reads. Walks endpoints_pkey.
const announceSQL = `update endpoints set version = @version where id = @endpoint`

// PutCircuit stores a change of an endpoint's circuit. It is not repeated when its reply
// is lost: the second try would meet the generation of the first one. The caller learns of
// the stored circuit by its next conflict.
func (s *Store) PutCircuit(ctx context.Context, p store.PutCircuit) (postrider.Circuit, error) {
	c := p.Circuit
	args := circuitArgs(c)
	err := s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) (err error) {
			c, err = putCircuit(ctx, tx, p, args)
			return err
		})
	})
	if errors.Is(err, pgx.ErrNoRows) {
		c, err = s.currentCircuit(ctx, p.Circuit.Endpoint)
	}
	if err != nil {
		return c, fmt.Errorf("put circuit of endpoint %s: %w", p.Circuit.Endpoint, err)
	}
	return c, nil
}

// circuitArgs returns the arguments of both statements that store a circuit. A zero status
// means closed.
func circuitArgs(c postrider.Circuit) pgx.NamedArgs {
	return pgx.NamedArgs{
		"endpoint": someUUID(c.Endpoint), "status": string(cmp.Or(c.Status, postrider.CircuitClosed)), "reason": c.Reason,
		"opened_at": instant(c.OpenedAt), "probe_at": instant(c.ProbeAt), "cooldown": c.Cooldown.Microseconds(),
		"failing_since": instant(c.FailingSince), "paced_until": instant(c.PacedUntil), "rate_full_at": instant(c.RateFullAt),
		"failures": c.Failures, "last_attempt_at": instant(c.LastAttemptAt), "last_outcome": string(c.LastOutcome),
		"generation": c.Generation,
	}
}

// Locks the circuit, so that a node cannot change it between the read and the write. Walks
// circuits_pkey.
const lockCircuitSQL = `select ` + circuitColumns + ` from circuits where endpoint = @endpoint for update`

// closeCircuit closes the circuit of an endpoint as a person does, if that changes it. It
// is not announced: its caller changes the endpoint too, and that raises the version.
func closeCircuit(ctx context.Context, tx pgx.Tx, endpoint postrider.EndpointID) error {
	rows, _ := tx.Query(ctx, lockCircuitSQL, pgx.NamedArgs{"endpoint": someUUID(endpoint)})
	was, err := pgx.CollectExactlyOneRow(rows, scanCircuit)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	closed, changed := was.ClosedByHand()
	if !changed {
		return nil
	}
	_, err = putCircuit(ctx, tx, store.PutCircuit{Circuit: closed}, circuitArgs(closed))
	return err
}

// putCircuit stores the circuit. An announced change takes its version first, because the
// row of subscriptions is locked before anything else, by everybody.
func putCircuit(ctx context.Context, tx pgx.Tx, p store.PutCircuit, args pgx.NamedArgs) (postrider.Circuit, error) {
	if p.Announce {
		if err := raiseVersion(ctx, tx, args); err != nil {
			return postrider.Circuit{}, err
		}
	}
	statement := updateCircuitSQL
	if p.Circuit.Generation == 0 {
		statement = insertCircuitSQL
	}
	rows, _ := tx.Query(ctx, statement, args)
	c, err := pgx.CollectExactlyOneRow(rows, scanCircuit)
	if err == nil && p.Announce {
		_, err = tx.Exec(ctx, announceSQL, args)
	}
	return c, err
}

// currentCircuit tells why nothing was put: the endpoint does not exist, or another node
// has changed the circuit, which is returned then.
func (s *Store) currentCircuit(ctx context.Context, endpoint postrider.EndpointID) (postrider.Circuit, error) {
	page, err := s.Endpoints(ctx, store.EndpointQuery{ID: endpoint})
	switch {
	case err != nil:
		return postrider.Circuit{}, err
	case len(page.Items) == 0, page.Items[0].Status == postrider.EndpointDeleted:
		return postrider.Circuit{}, postrider.ErrNotFound
	}
	circuits, err := s.Circuits(ctx, store.CircuitQuery{Endpoint: endpoint, Limit: 1})
	switch {
	case err != nil:
		return postrider.Circuit{}, err
	case len(circuits) == 0:
		return postrider.Circuit{}, postrider.ErrConflict
	}
	return circuits[0], postrider.ErrConflict
}

// Walks circuits_pkey.
const circuitsSQL = `
	select ` + circuitColumns + `
	from circuits c
	where c.endpoint > @after
		and (@endpoint::uuid is null or c.endpoint = @endpoint)
	order by c.endpoint
	limit @limit`

// Walks circuits_failing, or all circuits where most fail, and endpoints_pkey for each.
const failingCircuitsSQL = `
	select ` + circuitColumns + `
	from circuits c
	where c.failing_since is not null and c.endpoint > @after
		and (@endpoint::uuid is null or c.endpoint = @endpoint)
		and exists (
			select from endpoints e
			where e.id = c.endpoint and e.status <> 'deleted' and (@account::uuid is null or e.account = @account))
	order by c.endpoint
	limit @limit`

// Circuits lists circuits, ordered by endpoint.
func (s *Store) Circuits(ctx context.Context, q store.CircuitQuery) ([]postrider.Circuit, error) {
	statement := circuitsSQL
	if q.Failing {
		statement = failingCircuitsSQL
	}
	circuits, err := list(ctx, s, query{statement, pgx.NamedArgs{
		"after": someUUID(q.After), "endpoint": uuid(q.Endpoint), "account": uuid(q.Account), "limit": q.Limit,
	}}, scanCircuit)
	if err != nil {
		return nil, fmt.Errorf("list circuits: %w", err)
	}
	return circuits, nil
}

func scanCircuit(row pgx.CollectableRow) (c postrider.Circuit, err error) {
	err = row.Scan(toID(&c.Endpoint), &c.Status, &c.Reason, toTime(&c.OpenedAt), toTime(&c.ProbeAt), toWait(&c.Cooldown),
		toTime(&c.FailingSince), toTime(&c.PacedUntil), toTime(&c.RateFullAt), &c.Failures, toTime(&c.LastAttemptAt),
		&c.LastOutcome, &c.Generation)
	return c, err
}
