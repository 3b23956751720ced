package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// circuitColumns are the columns of a circuit c, in the order of [circuitInto].
const circuitColumns = `c.endpoint, c.status, c.reason, c.opened_at, c.probe_at, c.cooldown, c.failing_since, c.paced_until, c.rate_full_at,
		c.failures, c.last_attempt_at, c.last_outcome, c.generation`

// circuitInto returns the pointers to scan the columns of a circuit into. The columns must be in
// this order: endpoint, status, reason, opened_at, probe_at, cooldown, failing_since,
// paced_until, rate_full_at, failures, last_attempt_at, last_outcome and generation. If all
// columns are null, the result is the zero circuit.
func circuitInto(c *postrider.Circuit) []any {
	return []any{
		&c.Endpoint, &c.Status, &c.Reason, &c.OpenedAt, &c.ProbeAt, &c.Cooldown, &c.FailingSince, &c.PacedUntil, &c.RateFullAt,
		&c.Failures, &c.LastAttemptAt, &c.LastOutcome, &c.Generation,
	}
}

func scanCircuit(row Row, c *postrider.Circuit) error { return row.Scan(circuitInto(c)...) }

const (
	// insertCircuitSQL stores the first change of an endpoint's circuit. If another node was first,
	// it inserts nothing, and the caller reports a conflict, as for updateCircuitSQL. It walks the
	// primary key of endpoints.
	insertCircuitSQL = `
	insert into circuits (endpoint, status, reason, opened_at, probe_at, cooldown, failing_since,
		paced_until, rate_full_at, failures, last_attempt_at, last_outcome, generation, changed_at)
	select e.id, @status, @reason, @opened_at, @probe_at, @cooldown, @failing_since,
		@paced_until, @rate_full_at, @failures, @last_attempt_at, @last_outcome, 1, now()
	from endpoints e
	where e.id = @endpoint and e.status <> 'deleted'
	on conflict (endpoint) do nothing`

	// updateCircuitSQL compares the generation and changes the circuit only if the generation is
	// equal. For a moment two nodes can both believe that they own an endpoint, because one of them
	// does not know yet that it lost the shard. If both change the circuit, the first change
	// succeeds; the other node gets the stored circuit and adopts it. The statement walks the
	// primary keys.
	updateCircuitSQL = `
	update circuits
	set status = @status, reason = @reason, opened_at = @opened_at, probe_at = @probe_at, cooldown = @cooldown,
		failing_since = @failing_since, paced_until = @paced_until, rate_full_at = @rate_full_at, failures = @failures,
		last_attempt_at = @last_attempt_at, last_outcome = @last_outcome, generation = generation + 1, changed_at = now()
	where endpoint = @endpoint and generation = @generation
		and (select e.status <> 'deleted' from endpoints e where e.id = @endpoint)`

	// circuitSQL returns one row of nulls for an endpoint whose circuit was never stored, and no row
	// for an endpoint that does not exist. It walks the primary keys.
	circuitSQL = `
	select ` + circuitColumns + `
	from endpoints e
	left join circuits c on c.endpoint = e.id
	where e.id = @endpoint and e.status <> 'deleted'`
)

// PutCircuit stores a change of an endpoint's circuit; see [store.Queue]. It does not run again
// when the reply to its commit was lost, because the second run would find the generation that
// the first one stored. The next conflict tells the caller which circuit is stored.
func (v Verbs) PutCircuit(ctx context.Context, p store.PutCircuit) (stored postrider.Circuit, err error) {
	defer v.calls.Begin("PutCircuit").End(&err, "put circuit of endpoint %s", p.Circuit.Endpoint)
	err = v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		// The version comes first, because every transaction locks its row before any other row.
		if p.Announce {
			if err := touchEndpoint(ctx, tx, p.Circuit.Endpoint); err != nil {
				return err
			}
		}
		changed, err := putCircuit(ctx, tx, p.Circuit)
		if err != nil {
			return err
		}
		stored, err = one(ctx, tx, Query{circuitSQL, Args{"endpoint": p.Circuit.Endpoint}}, scanCircuit)
		if err == nil && changed == 0 {
			err = fmt.Errorf("circuit has generation %d: %w", stored.Generation, postrider.ErrConflict)
		}
		return err
	})
	return stored, err
}

// putCircuit stores the circuit if the stored one has the same generation. It returns the number
// of changed rows.
func putCircuit(ctx context.Context, tx Tx, c postrider.Circuit) (int64, error) {
	statement := updateCircuitSQL
	if c.Generation == 0 {
		statement = insertCircuitSQL
	}
	return tx.Exec(ctx, Query{statement, Args{
		"endpoint": c.Endpoint, "status": cmp.Or(c.Status, postrider.CircuitClosed), "reason": c.Reason, "opened_at": c.OpenedAt,
		"probe_at": c.ProbeAt, "cooldown": c.Cooldown, "failing_since": c.FailingSince, "paced_until": c.PacedUntil,
		"rate_full_at": c.RateFullAt, "failures": c.Failures, "last_attempt_at": c.LastAttemptAt, "last_outcome": c.LastOutcome,
		"generation": c.Generation,
	}})
}

// lockCircuitSQL locks the circuit, so that no node can change it between the read and the write.
// It walks the primary key.
const lockCircuitSQL = `
	select ` + circuitColumns + `
	from circuits c
	where c.endpoint = @endpoint
	for update`

// closeCircuit closes the circuit of an endpoint as a person would, unless the circuit is closed.
// It does not raise the version of the subscriptions, because its caller changes the endpoint and
// raises it.
func closeCircuit(ctx context.Context, tx Tx, endpoint postrider.EndpointID) error {
	was, err := one(ctx, tx, Query{lockCircuitSQL, Args{"endpoint": endpoint}}, scanCircuit)
	if errors.Is(err, postrider.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	closed, changed := was.ClosedByHand()
	if !changed {
		return nil
	}
	_, err = putCircuit(ctx, tx, closed)
	return err
}

const (
	circuitsSQL = `
	select ` + circuitColumns + `
	from circuits c`

	// failingCircuitsSQL walks circuits_failing, and for each of its rows the primary key of
	// endpoints.
	failingCircuitsSQL = circuitsSQL + ` /* indexed by circuits_failing */`
)

// Circuits lists circuits, ordered by endpoint; see [store.Queue].
func (v Verbs) Circuits(ctx context.Context, q store.CircuitQuery) (_ []postrider.Circuit, err error) {
	defer v.calls.Begin("Circuits").End(&err, "list circuits")
	rows := circuitsSQL
	if q.Failing {
		rows = failingCircuitsSQL
	}
	l := newList(v.db, rows, "c.endpoint", q.Limit)
	l.and("c.endpoint > @after", Args{"after": q.After})
	if !q.Endpoint.IsZero() {
		l.and("c.endpoint = @endpoint", Args{"endpoint": q.Endpoint})
	}
	if q.Failing {
		live := "e.status <> 'deleted'"
		if !q.Account.IsZero() {
			live += " and e.account = @account"
		}
		l.and("c.failing_since is not null and (select "+live+" from endpoints e where e.id = c.endpoint)", Args{"account": q.Account})
	}
	return all(ctx, v.db, l.query(), scanCircuit)
}
