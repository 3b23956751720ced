package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// The statement adds one row at the end of the table.
const insertDeltaSQL = `insert into rollup_deltas (at, counted) values (@wall, @counted)`

// insertDelta stores the counts of the job's records as a delta, in the job's transaction.
func (t *tx) insertDelta(ctx context.Context) error {
	counted := t.recorded.Bytes()
	if counted == nil {
		return nil
	}
	return t.exec(ctx, insertDeltaSQL, sql.Named("wall", micros(t.wall)), sql.Named("counted", counted))
}

// takeDeltasSQL deletes the oldest deltas. It walks the primary key of rollup_deltas.
const takeDeltasSQL = `
	delete from rollup_deltas
	where id in (select id from rollup_deltas order by id limit @limit)
	returning at, counted`

// takenDelta is a row that takeDeltasSQL has deleted.
type takenDelta struct {
	at      time.Time
	counted []byte
}

// FoldRollups adds deltas to the rollups; see [store.Rollups]. It is one job, so two folds never
// get the same delta.
func (s *Store) FoldRollups(ctx context.Context, f store.Fold) (_ int, err error) {
	defer s.calls.Begin("FoldRollups").End(&err, "fold rollups")
	return write(ctx, s, func(ctx context.Context, tx *tx) (int, error) {
		rows, err := tx.query(ctx, takeDeltasSQL, sql.Named("limit", f.Deltas))
		if err != nil {
			return 0, err
		}
		deltas, err := collect(rows, func(rows *sql.Rows, d *takenDelta) error { return rows.Scan(toTime(&d.at), &d.counted) })
		if err != nil {
			return 0, err
		}
		var folding store.Folding
		for _, d := range deltas {
			if err := folding.Delta(d.at, d.counted); err != nil {
				return 0, err
			}
		}
		if err := folding.Seen(f.Seen); err != nil {
			return 0, err
		}
		p, err := positions(ctx, tx)
		if err != nil {
			return 0, err
		}
		return len(deltas), folding.Store(rollupRows{ctx, tx}, p)
	})
}

// The table has two rows, one for each step that is rolled up.
const (
	positionsSQL   = `select step, at, scope, type from rollup_positions`
	putPositionSQL = `update rollup_positions set at = ?, scope = ?, type = ? where step = ?`
)

// positions returns how far each step was rolled up.
func positions(ctx context.Context, tx *tx) (p store.Positions, err error) {
	rows, err := tx.query(ctx, positionsSQL)
	if err != nil {
		return p, err
	}
	keys, err := collect(rows, func(rows *sql.Rows, key *store.RollupKey) error {
		return rows.Scan(&key.Step, toSeconds{&key.At}, toID(&key.Scope), &key.Type)
	})
	for _, key := range keys {
		p[key.Step] = key
	}
	return p, err
}

// toSeconds scans microseconds into Unix seconds.
type toSeconds struct{ at *int64 }

// Scan sets the seconds.
func (d toSeconds) Scan(v any) error {
	var at time.Time
	err := toTime(&at).Scan(v)
	*d.at = at.Unix()
	return err
}

// rollupRows reads and writes rollups in a job.
type rollupRows struct {
	ctx context.Context //nolint:containedctx // lives as long as the call that has the job
	tx  *tx
}

// The statement walks the primary key of rollups.
const rollupSQL = `
	select counts, responses, latencies from rollups
	where scope = ? and type = ? and step = ? and at = ?`

// Read implements [store.RollupRows].
func (r rollupRows) Read(keys []store.RollupKey) (map[store.RollupKey]*store.RollupValue, error) {
	values := make(map[store.RollupKey]*store.RollupValue, len(keys))
	for _, key := range keys {
		rows, err := r.tx.query(r.ctx, rollupSQL, blob(key.Scope), key.Type, int64(key.Step), micros(key.Time()))
		if err != nil {
			return nil, err
		}
		found, err := collect(rows, func(rows *sql.Rows, v *store.RollupValue) error { return scanRollupValue(rows, v) })
		if err != nil {
			return nil, err
		}
		for i := range found {
			values[key] = &found[i]
		}
	}
	return values, nil
}

// scanRollupValue reads the columns for before, and then the columns of a value.
func scanRollupValue(rows *sql.Rows, v *store.RollupValue, before ...any) (err error) {
	var b store.RollupBytes
	if err := rows.Scan(append(before, &b.Counts, &b.Responses, &b.Latencies)...); err != nil {
		return err
	}
	*v, err = b.Value()
	return err
}

// rollupTypesSQL is a skip scan of the primary key of rollups. Each step finds the next type of
// the scope, however many rollups a type has.
const rollupTypesSQL = `
	with recursive types (type) as (
		select (select min(type) from rollups where scope = @scope and type > '')
		union all
		select (select min(type) from rollups where scope = @scope and type > types.type)
		from types where types.type is not null
	)
	select type from types where type is not null`

// Types implements [store.RollupRows].
func (r rollupRows) Types(scopes []store.Scope) (map[store.Scope][]string, error) {
	types := make(map[store.Scope][]string, len(scopes))
	for _, scope := range scopes {
		rows, err := r.tx.query(r.ctx, rollupTypesSQL, sql.Named("scope", blob(scope)))
		if err != nil {
			return nil, err
		}
		types[scope], err = collect(rows, func(rows *sql.Rows, name *string) error { return rows.Scan(name) })
		if err != nil {
			return nil, err
		}
	}
	return types, nil
}

const putRollupsSQL = `
	insert or replace into rollups (scope, type, step, at, counts, responses, latencies, delivered, dead) values `

// Write implements [store.RollupRows].
func (r rollupRows) Write(keys []store.RollupKey, values map[store.RollupKey]*store.RollupValue) error {
	var args []any
	for _, key := range keys {
		v := values[key]
		b := v.Bytes()
		args = append(args, blob(key.Scope), key.Type, int64(key.Step), micros(key.Time()), b.Counts, bytesOrNull(b.Responses),
			bytesOrNull(b.Latencies), v.Status(postrider.Delivered), v.Status(postrider.Dead))
	}
	return r.tx.execAll(r.ctx, bulk{putRollupsSQL, "", 9}, args)
}

// The statement walks rollups_at.
const rollUpSQL = `
	select scope, type, step, at, counts, responses, latencies from rollups
	where step = @step and (at, scope, type) > (@at, @scope, @type) and at < @before
	order by at, scope, type
	limit @limit`

// RollUp adds minutes to hours and hours to days; see [store.Rollups].
func (s *Store) RollUp(ctx context.Context, limit int) (_ int, err error) {
	defer s.calls.Begin("RollUp").End(&err, "roll up")
	rolled := 0
	for step := range store.Days {
		n, err := write(ctx, s, func(ctx context.Context, tx *tx) (int, error) { return rollUp(ctx, tx, step, limit) })
		if err != nil {
			return rolled, err
		}
		rolled += n
	}
	return rolled, nil
}

func rollUp(ctx context.Context, tx *tx, step store.Step, limit int) (int, error) {
	p, err := positions(ctx, tx)
	if err != nil {
		return 0, err
	}
	from := p[step]
	rows, err := tx.query(ctx, rollUpSQL, sql.Named("step", int64(step)), sql.Named("at", micros(from.Time())),
		sql.Named("scope", blob(from.Scope)),
		sql.Named("type", from.Type), sql.Named("before", micros(step.RollUpBefore(tx.wall))), sql.Named("limit", limit))
	if err != nil {
		return 0, err
	}
	passing, err := collect(rows, scanRollup)
	if err != nil || len(passing) == 0 {
		return 0, err
	}
	p, err = store.RollUpRows(rollupRows{ctx, tx}, p, passing)
	if err != nil {
		return 0, err
	}
	to := p[step]
	return len(passing), tx.exec(ctx, putPositionSQL, micros(to.Time()), blob(to.Scope), to.Type, int64(step))
}

// scanRollup reads the columns of rollUpSQL.
func scanRollup(rows *sql.Rows, r *store.RollupRow) error {
	return scanRollupValue(rows, &r.RollupValue, toID(&r.Scope), &r.Type, &r.Step, toSeconds{&r.At})
}

// The statement walks rollups_at from the oldest rollup on. A rollup that was not rolled up
// stays, because no longer step has its counts yet.
const forgetRollupsSQL = `
	with old (scope, type, step, at) as (
		select scope, type, step, at from rollups r
		where step = @step and at < @before
			and (step = 2 or (at, scope, type) <= (select p.at, p.scope, p.type from rollup_positions p where p.step = r.step))
		order by at limit @limit)
	delete from rollups where (scope, type, step, at) in (select scope, type, step, at from old)`

// ForgetRollups deletes old rollups; see [store.Rollups].
func (s *Store) ForgetRollups(ctx context.Context, limit int) (_ int, err error) {
	defer s.calls.Begin("ForgetRollups").End(&err, "forget rollups")
	return write(ctx, s, func(ctx context.Context, tx *tx) (forgotten int, err error) {
		for step := store.Minutes; step <= store.Days && forgotten < limit; step++ {
			n, err := tx.count(ctx, forgetRollupsSQL, sql.Named("step", int64(step)), sql.Named("before", micros(tx.wall.Add(-step.Kept()))),
				sql.Named("limit", limit-forgotten))
			if err != nil {
				return 0, err
			}
			forgotten += int(n)
		}
		return forgotten, nil
	})
}

// rollupsSQL returns the rollups of the step, and the rollups of shorter steps that are not in
// the step yet. For days, these are the hours after the position of hours; for hours and days,
// the minutes after the position of minutes. Each part walks the primary key of rollups.
const rollupsSQL = `
	select scope, type, step, at, counts, responses, latencies from rollups
	where scope = @scope and type = @type and step = @step and at >= @from and at < @to
	union all
	select scope, type, step, at, counts, responses, latencies from rollups
	where @step > 0 and scope = @scope and type = @type and step = 0 and at >= @from and at < @to
		and (at, scope, type) > (select p.at, p.scope, p.type from rollup_positions p where p.step = 0)
	union all
	select scope, type, step, at, counts, responses, latencies from rollups
	where @step > 1 and scope = @scope and type = @type and step = 1 and at >= @from and at < @to
		and (at, scope, type) > (select p.at, p.scope, p.type from rollup_positions p where p.step = 1)`

// Rollups returns the rollups of a range; see [store.Rollups].
func (s *Store) Rollups(ctx context.Context, q store.RollupQuery) (_ []store.Rollup, err error) {
	defer s.calls.Begin("Rollups").End(&err, "list rollups")
	key := q.Key()
	rows, err := list(ctx, s, query{rollupsSQL, []any{
		sql.Named("scope", blob(key.Scope)), sql.Named("type", key.Type), sql.Named("step", int64(key.Step)),
		sql.Named("from", micros(q.From)), sql.Named("to", micros(q.To)),
	}}, scanRollup)
	if err != nil {
		return nil, s.fault(err)
	}
	return store.JoinRollups(q, rows)
}

// These statements count a backlog. looked has the endpoints that are read: at most @looked, and
// one more, which says that there are more. Pending deliveries are counted by queue_due, up to
// @most. The minimum is over the first due delivery of each lane. For the backlog of the whole
// store all pending deliveries are counted, and looked is a skip scan of queue_due. Dead letters
// are counted by dead_letters_unresolved.
const (
	backlogOfEndpointSQL = `
	with looked (id) as (select @endpoint)` + backlogOfLookedSQL + `
		where l.account = @account and l.endpoint = @endpoint and` + backlogTail
	backlogOfAccountSQL = `
	with looked (id) as (
		select id from endpoints where account = @account and status <> 'deleted' limit @looked + 1
	)` + backlogOfLookedSQL + `
		where l.account = @account and` + backlogTail
	backlogOfAllSQL = `
	with recursive waiting (id) as (
		select (select min(endpoint) from queue)
		union all
		select (select min(endpoint) from queue where endpoint > waiting.id)
		from waiting where waiting.id is not null
		limit @looked + 1
	), looked (id) as (select id from waiting where id is not null),
	pending (n) as (select count(*) from (select 1 from queue limit @most))` + backlogSQL + `
		where` + backlogTail
	backlogOfLookedSQL = `,
	pending (n) as (
		select count(*) from (
			select 1 from looked cross join queue q on q.endpoint = looked.id
			limit @most))` + backlogSQL
	backlogSQL = `
	select (select count(*) from looked), (select n from pending),
		(select min(due_at) from (
			select (select min(q.due_at) from queue q where q.endpoint = looked.id and q.lane = lanes.lane) as due_at
			from looked cross join (select 0 as lane union all select 1 union all select 2 union all select 3) lanes)),
		(select count(*) from (
		select 1 from dead_letters l indexed by dead_letters_unresolved`
	backlogTail = ` l.resolved_at is null limit @most))`
)

// Backlog counts pending deliveries and dead letters; see [store.Rollups].
func (s *Store) Backlog(ctx context.Context, q store.BacklogQuery) (_ store.Backlog, err error) {
	defer s.calls.Begin("Backlog").End(&err, "count the backlog")
	text := backlogOfAllSQL
	switch {
	case !q.Endpoint.IsZero():
		text = backlogOfEndpointSQL
	case !q.Account.IsZero():
		text = backlogOfAccountSQL
	}
	now := s.now()
	found, err := list(ctx, s, query{text, []any{
		sql.Named("account", blob(q.Account)), sql.Named("endpoint", blob(q.Endpoint)),
		sql.Named("looked", store.MaxLooked), sql.Named("most", q.Stop()),
	}}, func(rows *sql.Rows, b *store.Backlog) error {
		var looked int
		var due time.Time
		if err := rows.Scan(&looked, &b.Pending, toTime(&due), &b.DeadLetters); err != nil {
			return err
		}
		b.Partial = looked > store.MaxLooked
		if !due.IsZero() && !due.After(now) {
			b.IsDue, b.DueFor = true, now.Sub(due)
		}
		return nil
	})
	if err != nil {
		return store.Backlog{}, s.fault(err)
	}
	return found[0], nil
}

// endpointStatesSQL returns the states of endpoints. Each 16 bytes of @ids are the id of an
// endpoint. Ended deliveries are counted as in endedSinceSQL, by the primary key of rollups, from
// the beginning of an hour on. The last change of health and the circuit are found by their
// primary keys, and pending deliveries by queue_due.
const endpointStatesSQL = `
	with recursive asked (place, id) as (
		select 0, substr(@ids, 1, 16) where length(@ids) > 0
		union all
		select place + 1, substr(@ids, 16 * place + 17, 16) from asked where length(@ids) > 16 * place + 16
	), ended (id, delivered, dead) as (
		select id, sum(delivered), sum(dead) from (
			select asked.id, delivered, dead
			from asked cross join rollups on scope = asked.id and type = '' and step = 1 and at >= @since
			union all
			select asked.id, delivered, dead
			from asked cross join rollups on scope = asked.id and type = '' and step = 0
				and at >= max(@since, (select p.at from rollup_positions p where p.step = 0))
			where (at, scope, type) > (select p.at, p.scope, p.type from rollup_positions p where p.step = 0))
		group by id
	)
	select asked.id, coalesce(ended.delivered, 0), coalesce(ended.dead, 0),
		(select count(*) from (select 1 from queue where queue.endpoint = asked.id limit @most)),
		(select min(due_at) from (
			select (select min(q.due_at) from queue q where q.endpoint = asked.id and q.lane = lanes.lane) as due_at
			from (select 0 as lane union all select 1 union all select 2 union all select 3) lanes)),
		h.account, h.number, h.status, h.reason, h.warnings, h.since,
		circuits.endpoint, circuits.status, circuits.reason, opened_at, probe_at, cooldown, failing_since,
		paced_until, rate_full_at, failures, last_attempt_at, last_outcome, generation
	from asked
	left join ended using (id)
	left join endpoint_health h on h.endpoint = asked.id and h.number = (
		select max(number) from endpoint_health last where last.endpoint = asked.id)
	left join circuits on circuits.endpoint = asked.id
	order by place`

// EndpointStates returns the states of endpoints; see [store.Rollups].
func (s *Store) EndpointStates(ctx context.Context, ids ...postrider.EndpointID) (_ []store.EndpointState, err error) {
	defer s.calls.Begin("EndpointStates").End(&err, "read states of endpoints")
	var all []byte
	for _, id := range ids {
		all = append(all, id[:]...)
	}
	now := s.now()
	states, err := list(ctx, s, query{endpointStatesSQL, []any{
		sql.Named("ids", someBytes(all)), sql.Named("since", micros(store.DayBefore(s.wall()))), sql.Named("most", store.MaxPending),
	}}, func(rows *sql.Rows, e *store.EndpointState) error { return scanEndpointState(rows, e, now) })
	return states, s.fault(err)
}

func scanEndpointState(rows *sql.Rows, e *store.EndpointState, now time.Time) error {
	h := &e.Health
	var due time.Time
	err := coldRows{rows}.Scan(append([]any{
		&e.Endpoint, &e.Delivered, &e.Dead, &e.Pending, &due, &h.Account, &h.Number, &h.Status, &h.Reason, &h.Warnings, &h.Since,
	}, sqlstore.CircuitInto(&e.Circuit)...)...)
	if h.Number > 0 {
		h.Endpoint = e.Endpoint
	}
	if !due.IsZero() {
		e.DueFor = max(now.Sub(due), 0)
	}
	return err
}
