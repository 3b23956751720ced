package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The columns of circuitInto, in its order.
const circuitColumns = `circuits.endpoint, circuits.status, reason, opened_at, probe_at, cooldown, failing_since,
	paced_until, rate_full_at, failures, last_attempt_at, last_outcome, generation`

// A left join, so that an endpoint whose circuit was never stored gives one row of nulls,
// and one that does not exist gives none. putCircuitSQL writes the whole row; PutCircuit
// has compared the generation. By the keys of endpoints and circuits.
const (
	circuitSQL = `
	select ` + circuitColumns + `
	from endpoints left join circuits on endpoint = id
	where id = @endpoint and endpoints.status <> 'deleted'`
	putCircuitSQL = `
	insert or replace into circuits (endpoint, status, reason, opened_at, probe_at, cooldown, failing_since,
		paced_until, rate_full_at, failures, last_attempt_at, last_outcome, generation)
	values (@endpoint, @status, @reason, @opened_at, @probe_at, @cooldown, @failing_since,
		@paced_until, @rate_full_at, @failures, @last_attempt_at, @last_outcome, @generation)`
)

// PutCircuit stores a change of a circuit; see [store.Queue]. It is a compare-and-set of
// the generation: if somebody has changed the circuit since it was read, the stored one is
// returned with ErrConflict.
func (s *Store) PutCircuit(ctx context.Context, p store.PutCircuit) (postrider.Circuit, error) {
	var was postrider.Circuit
	stored, err := write(ctx, s, "put circuit", func(ctx context.Context, tx *tx) (c postrider.Circuit, err error) {
		if was, err = circuitOf(ctx, tx, p.Circuit.Endpoint); err != nil {
			return c, err
		}
		c = p.Circuit
		if was.Generation != c.Generation {
			return c, fmt.Errorf("circuit has generation %d: %w", was.Generation, postrider.ErrConflict)
		}
		c.Generation++
		if err := putCircuit(ctx, tx, c); err != nil {
			return c, err
		}
		if p.Announce {
			if err := touchEndpoint(ctx, tx, c.Endpoint); err != nil {
				return c, err
			}
		}
		return circuitOf(ctx, tx, c.Endpoint)
	})
	if errors.Is(err, postrider.ErrConflict) {
		return was, err // write returns nothing with an error, but the caller needs the stored circuit
	}
	return stored, err
}

// circuitOf returns the circuit of an endpoint; the zero circuit: it was never stored. An
// endpoint that does not exist, or is deleted, is ErrNotFound.
func circuitOf(ctx context.Context, tx *tx, endpoint postrider.EndpointID) (c postrider.Circuit, err error) {
	err = tx.row(ctx, circuitSQL, sql.Named("endpoint", blob(endpoint))).Scan(circuitInto(&c)...)
	if errors.Is(err, sql.ErrNoRows) {
		return c, postrider.ErrNotFound
	}
	return c, err
}

// putCircuit stores the circuit as it is. Its callers have compared the generation.
func putCircuit(ctx context.Context, tx *tx, c postrider.Circuit) error {
	status := c.Status
	if status == "" {
		status = postrider.CircuitClosed
	}
	return tx.exec(ctx, putCircuitSQL, sql.Named("endpoint", blob(c.Endpoint)), sql.Named("status", string(status)),
		sql.Named("reason", c.Reason), sql.Named("opened_at", microsOrNull(c.OpenedAt)),
		sql.Named("probe_at", microsOrNull(c.ProbeAt)), sql.Named("cooldown", c.Cooldown.Microseconds()),
		sql.Named("failing_since", microsOrNull(c.FailingSince)), sql.Named("paced_until", microsOrNull(c.PacedUntil)),
		sql.Named("rate_full_at", microsOrNull(c.RateFullAt)), sql.Named("failures", c.Failures),
		sql.Named("last_attempt_at", microsOrNull(c.LastAttemptAt)), sql.Named("last_outcome", string(c.LastOutcome)),
		sql.Named("generation", c.Generation))
}

// closeCircuit closes the circuit of an endpoint as a person does, if that changes it. It
// raises no version: its caller changes the endpoint, and that does.
func closeCircuit(ctx context.Context, tx *tx, endpoint postrider.EndpointID) error {
	was, err := circuitOf(ctx, tx, endpoint)
	if err != nil {
		return err
	}
	closed, changed := was.ClosedByHand()
	if !changed {
		return nil
	}
	closed.Generation++
	return putCircuit(ctx, tx, closed)
}

func scanCircuit(rows *sql.Rows, c *postrider.Circuit) error { return rows.Scan(circuitInto(c)...) }

// circuitInto returns the destinations of a circuit's columns; all nulls give the zero
// circuit.
func circuitInto(c *postrider.Circuit) []any {
	return []any{
		toID(&c.Endpoint), toString(&c.Status), toString(&c.Reason), toTime(&c.OpenedAt), toTime(&c.ProbeAt),
		toWait(&c.Cooldown), toTime(&c.FailingSince), toTime(&c.PacedUntil), toTime(&c.RateFullAt),
		toNumber(&c.Failures), toTime(&c.LastAttemptAt), toString(&c.LastOutcome), toNumber(&c.Generation),
	}
}

// The end of each statement that lists circuits.
const circuitsFilter = ` and endpoint > @after
	order by endpoint limit @limit`

// Both walk the key.
const (
	circuitsSQL   = `select ` + circuitColumns + ` from circuits where true` + circuitsFilter
	circuitsOfSQL = `select ` + circuitColumns + ` from circuits where endpoint = @endpoint` + circuitsFilter
)

// By circuits_failing, and the key of endpoints for each row of it.
const failingCircuitsSQL = `
	select ` + circuitColumns + `
	from circuits indexed by circuits_failing
	join endpoints on id = endpoint
	where failing_since is not null and endpoints.status <> 'deleted'
		and (@endpoint is null or endpoint = @endpoint) and (@account is null or endpoints.account = @account)` + circuitsFilter

// Circuits lists circuits; see [store.Queue].
func (s *Store) Circuits(ctx context.Context, q store.CircuitQuery) ([]postrider.Circuit, error) {
	statement := circuitsSQL
	switch {
	case q.Failing:
		statement = failingCircuitsSQL
	case !q.Endpoint.IsZero():
		statement = circuitsOfSQL
	}
	circuits, err := list(ctx, s, query{statement, []any{
		sql.Named("endpoint", blobOrNull(q.Endpoint)), sql.Named("account", blobOrNull(q.Account)),
		sql.Named("after", blob(q.After)), sql.Named("limit", q.Limit),
	}}, scanCircuit)
	return circuits, s.explain("list circuits", err)
}
