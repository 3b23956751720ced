package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// insertCountedSQL inserts the delta of a transaction that has counted its records in memory. The
// table has no index to update.
const insertCountedSQL = `insert into rollup_deltas (at, counted) values (now(), @counted)`

// insertDeltaSQL and insertDeltaEnd enclose a query of endpoint, account, type, outcome, number
// and status. Together they insert the delta of a statement that selects its records itself,
// unless it has none. Such deltas are rare, so they need not be small.
const (
	insertDeltaSQL = `insert into rollup_deltas (at, endpoints, accounts, types, outcomes, numbers, statuses)
		select now(), array_agg(r.endpoint), array_agg(r.account), array_agg(r.type), array_agg(r.outcome), array_agg(r.number),
			array_agg(r.status)
		from (`
	insertDeltaEnd = `) r
		having count(*) > 0`
)

// rollupClass is the first of the two numbers of the lock of the rollups; see lockClass.
const rollupClass = lockClass + 1

// lockRollupsSQL lets one transaction at a time write rollups. A transaction reads rows, adds to
// them, and writes them back, so a write of another transaction in between would be lost. A
// transaction waits for the lock; a fold takes milliseconds.
const lockRollupsSQL = `select pg_advisory_xact_lock(@class, 0)`

// The table has two rows, one for each step that is rolled up. The statement runs after the lock,
// in a snapshot of its own.
const positionsSQL = `select p.step, p.at, p.scope, p.type from rollup_positions p`

// takeDeltasSQL deletes deltas, in the order of the table. The table has no index, because it has
// only the deltas of about ten seconds.
const takeDeltasSQL = `
	delete from rollup_deltas d
	where d.ctid = any (array(select o.ctid from rollup_deltas o limit @limit))
	returning d.at, d.counted, d.endpoints, d.accounts, d.types, d.outcomes, d.numbers, d.statuses`

// writeRollups runs do with the positions, in a transaction that has the lock of the rollups.
func (s *Store) writeRollups(ctx context.Context, do func(pgx.Tx, store.Positions) error) error {
	return s.once(ctx, func() error {
		return s.tx(ctx, func(tx pgx.Tx) error {
			var p store.Positions
			b := &pgx.Batch{}
			b.Queue(lockRollupsSQL, pgx.NamedArgs{"class": int32(rollupClass)})
			b.Queue(positionsSQL).Query(func(rows pgx.Rows) error {
				keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (key store.RollupKey, err error) {
					err = row.Scan(&key.Step, toSeconds(&key.At), toID(&key.Scope), &key.Type)
					return key, err
				})
				for _, key := range keys {
					p[key.Step] = key
				}
				return err
			})
			if err := tx.SendBatch(ctx, b).Close(); err != nil {
				return err
			}
			return do(tx, p)
		})
	})
}

// FoldRollups adds deltas to the rollups; see [store.Rollups]. It does not run again when its
// reply is lost, because the durations of f.Seen would be added twice. Each delta is added once
// in any case, and the next fold adds the remaining ones.
func (s *Store) FoldRollups(ctx context.Context, f store.Fold) (folded int, err error) {
	defer s.calls.Begin("FoldRollups").End(&err, "fold rollups")
	err = s.writeRollups(ctx, func(tx pgx.Tx, p store.Positions) error {
		var folding store.Folding
		rows, _ := tx.Query(ctx, takeDeltasSQL, pgx.NamedArgs{"limit": f.Deltas})
		folded, err = foldDeltas(rows, &folding)
		if err == nil {
			err = folding.Seen(f.Seen)
		}
		if err == nil {
			err = folding.Store(rollupRows{ctx, tx}, p)
		}
		return err
	})
	return folded, err
}

// foldDeltas adds up the rows of takeDeltasSQL, and returns their number. A row has its delta in
// the column counted, or as arrays.
func foldDeltas(rows pgx.Rows, folding *store.Folding) (n int, err error) {
	var at time.Time
	var counted []byte
	var endpoints, accounts []pgtype.UUID
	var types, outcomes, statuses []string
	var numbers []int
	_, err = pgx.ForEachRow(rows, []any{toTime(&at), &counted, &endpoints, &accounts, &types, &outcomes, &numbers, &statuses}, func() error {
		n++
		if counted == nil {
			var d store.Deltas
			for i := range endpoints {
				key := store.DeltaKey{Account: accounts[i].Bytes, Endpoint: endpoints[i].Bytes, Type: types[i]}
				d.Record(key, postrider.Outcome(outcomes[i]), numbers[i], postrider.Status(statuses[i]))
			}
			counted = d.Bytes()
		}
		return folding.Delta(at, counted)
	})
	return n, err
}

// rollupRows reads and writes rollups in a transaction that has the lock of the rollups.
type rollupRows struct {
	ctx context.Context //nolint:containedctx // lives as long as the call that has the transaction
	tx  pgx.Tx
}

// rollupColumns returns the keys as columns.
func rollupColumns(keys []store.RollupKey) pgx.NamedArgs {
	var scopes uuids
	var types texts
	var steps numbers
	var ats times
	for _, key := range keys {
		scopes, types = append(scopes, someUUID(key.Scope)), append(types, someText(key.Type))
		steps, ats = append(steps, number(key.Step)), append(ats, instant(key.Time()))
	}
	return pgx.NamedArgs{"scopes": scopes, "types": types, "steps": steps, "ats": ats}
}

// The statement probes one of the indexes of rollups for each key; both have the whole key.
const readRollupsSQL = `
	select r.scope, r.type, r.step, r.at, r.counts, r.responses, r.latencies
	from unnest(@scopes::uuid[], @types::text[], @steps::smallint[], @ats::timestamptz[]) as k (scope, type, step, at)
	cross join lateral (
		select r.*
		from rollups r
		where r.scope = k.scope and r.type = k.type and r.step = k.step and r.at = k.at
		limit 1
	) r`

// Read implements [store.RollupRows].
func (r rollupRows) Read(keys []store.RollupKey) (map[store.RollupKey]*store.RollupValue, error) {
	rows, _ := r.tx.Query(r.ctx, readRollupsSQL, rollupColumns(keys))
	found, err := pgx.CollectRows(rows, scanRollup)
	values := make(map[store.RollupKey]*store.RollupValue, len(found))
	for i := range found {
		values[found[i].RollupKey] = &found[i].RollupValue
	}
	return values, err
}

// scanRollup reads a rollup with its key.
func scanRollup(row pgx.CollectableRow) (r store.RollupRow, err error) {
	var b store.RollupBytes
	if err := row.Scan(toID(&r.Scope), &r.Type, &r.Step, toSeconds(&r.At), &b.Counts, &b.Responses, &b.Latencies); err != nil {
		return r, err
	}
	r.RollupValue, err = b.Value()
	return r, err
}

// rollupTypesSQL is a skip scan of rollups_pkey for each scope. Each step finds the next type,
// however many rollups a type has.
const rollupTypesSQL = `
	with recursive known (scope, type) as (
		select s.scope, '' collate "C"
		from unnest(@scopes::uuid[]) as s (scope)
		union all
		select k.scope, n.type
		from known k
		cross join lateral (
			select r.type
			from rollups r
			where r.scope = k.scope and r.type > k.type
			order by r.scope, r.type
			limit 1
		) n
	)
	select k.scope, k.type
	from known k
	where k.type <> ''`

// Types implements [store.RollupRows].
func (r rollupRows) Types(scopes []store.Scope) (map[store.Scope][]string, error) {
	var ids uuids
	for _, scope := range scopes {
		ids = append(ids, someUUID(scope))
	}
	rows, _ := r.tx.Query(r.ctx, rollupTypesSQL, pgx.NamedArgs{"scopes": ids})
	types := make(map[store.Scope][]string, len(scopes))
	var scope store.Scope
	var name string
	_, err := pgx.ForEachRow(rows, []any{toID(&scope), &name}, func() error {
		types[scope] = append(types[scope], name)
		return nil
	})
	return types, err
}

// The statement walks rollups_pkey. An update changes no column of an index, so the row stays on
// its page and no index changes.
const writeRollupsSQL = `
	insert into rollups as r (scope, type, step, at, counts, responses, latencies, delivered, dead)
	select *
	from unnest(@scopes::uuid[], @types::text[], @steps::smallint[], @ats::timestamptz[], @counts::bytea[], @responses::bytea[],
		@latencies::bytea[], @delivered::bigint[], @dead::bigint[])
	on conflict (scope, type, step, at) do update
	set counts = excluded.counts, responses = excluded.responses, latencies = excluded.latencies, delivered = excluded.delivered,
		dead = excluded.dead`

// Write implements [store.RollupRows].
func (r rollupRows) Write(keys []store.RollupKey, values map[store.RollupKey]*store.RollupValue) error {
	_, err := r.tx.Exec(r.ctx, writeRollupsSQL, rollupValues(keys, values))
	return err
}

// rollupValues returns the rollups as columns.
func rollupValues(keys []store.RollupKey, values map[store.RollupKey]*store.RollupValue) pgx.NamedArgs {
	args := rollupColumns(keys)
	var counts, responses, latencies [][]byte
	var delivered, dead numbers
	for _, key := range keys {
		v := values[key]
		b := v.Bytes()
		counts, responses = append(counts, b.Counts), append(responses, b.Responses)
		latencies = append(latencies, b.Latencies)
		delivered, dead = append(delivered, number(v.Status(postrider.Delivered))), append(dead, number(v.Status(postrider.Dead)))
	}
	args["counts"], args["responses"], args["latencies"], args["delivered"], args["dead"] = counts, responses, latencies, delivered, dead
	return args
}

// The statement walks rollups_at.
const rollUpSQL = `
	select r.scope, r.type, r.step, r.at, r.counts, r.responses, r.latencies
	from rollups r
	where r.step = @step and (r.at, r.scope, r.type) > (@at, @scope, @type) and r.at < @before
	order by r.step, r.at, r.scope, r.type
	limit @limit`

// The statement walks rollup_positions_pkey.
const putPositionSQL = `update rollup_positions set at = @at, scope = @scope, type = @type where step = @step`

// RollUp adds minutes to hours and hours to days; see [store.Rollups].
func (s *Store) RollUp(ctx context.Context, limit int) (rolled int, err error) {
	defer s.calls.Begin("RollUp").End(&err, "roll up")
	for step := range store.Days {
		err = s.writeRollups(ctx, func(tx pgx.Tx, p store.Positions) error {
			args := positionArgs(p[step])
			args["step"], args["before"], args["limit"] = step, step.RollUpBefore(s.clock.Wall()), limit
			rows, _ := tx.Query(ctx, rollUpSQL, args)
			passing, err := pgx.CollectRows(rows, scanRollup)
			if err != nil || len(passing) == 0 {
				return err
			}
			if p, err = store.RollUpRows(rollupRows{ctx, tx}, p, passing); err != nil {
				return err
			}
			rolled += len(passing)
			_, err = tx.Exec(ctx, putPositionSQL, positionArgs(p[step]))
			return err
		})
		if err != nil {
			return rolled, err
		}
	}
	return rolled, nil
}

func positionArgs(p store.RollupKey) pgx.NamedArgs {
	return pgx.NamedArgs{"step": p.Step, "at": p.Time(), "scope": someUUID(p.Scope), "type": p.Type}
}

// forgetRollupsSQL deletes the oldest rollups of a step. A rollup that was not rolled up stays,
// because no longer step has its counts yet. It walks rollups_at, and deletes by ctid; the lock
// of the rollups keeps the rows in their place.
const forgetRollupsSQL = `
	delete from rollups r
	where r.ctid = any (array(
		select o.ctid
		from rollups o
		where o.step = @step and o.at < @before and (o.step = 2 or (o.at, o.scope, o.type) <= (@at, @scope, @type))
		order by o.step, o.at
		limit @limit))`

// ForgetRollups deletes old rollups; see [store.Rollups].
func (s *Store) ForgetRollups(ctx context.Context, limit int) (forgotten int, err error) {
	defer s.calls.Begin("ForgetRollups").End(&err, "forget rollups")
	err = s.writeRollups(ctx, func(tx pgx.Tx, p store.Positions) error {
		forgotten = 0 // the deletes of an earlier run were rolled back
		for step := store.Minutes; step <= store.Days && forgotten < limit; step++ {
			args := positionArgs(store.RollupKey{})
			if step < store.Days {
				args = positionArgs(p[step])
			}
			args["step"], args["before"], args["limit"] = step, s.clock.Wall().Add(-step.Kept()), limit-forgotten
			tag, err := tx.Exec(ctx, forgetRollupsSQL, args)
			if err != nil {
				return err
			}
			forgotten += int(tag.RowsAffected())
		}
		return nil
	})
	return undone(forgotten, err)
}

// rollupsSQL returns the rollups of the step, and the rollups of shorter steps that are not in
// the step yet. For days, these are the hours after the position of hours; for hours and days,
// the minutes after the position of minutes. One snapshot has all of them, so a concurrent RollUp
// makes nothing missing or double. Each part walks rollups_pkey. The conditions compare rows, so
// that the planner does not choose rollups_at, which has all scopes of the range.
const rollupsSQL = `
	select r.scope, r.type, r.step, r.at, r.counts, r.responses, r.latencies
	from rollups r
	where (r.scope, r.type, r.step, r.at) >= (@scope, @type, @step, @from)
		and (r.scope, r.type, r.step, r.at) < (@scope, @type, @step, @to)
	union all
	select r.scope, r.type, r.step, r.at, r.counts, r.responses, r.latencies
	from rollups r
	where @step > 0
		and (r.scope, r.type, r.step, r.at) >= (@scope, @type, 0::smallint, @from)
		and (r.scope, r.type, r.step, r.at) < (@scope, @type, 0::smallint, @to)
		and (r.at, r.scope, r.type) > (select p.at, p.scope, p.type from rollup_positions p where p.step = 0)
	union all
	select r.scope, r.type, r.step, r.at, r.counts, r.responses, r.latencies
	from rollups r
	where @step > 1
		and (r.scope, r.type, r.step, r.at) >= (@scope, @type, 1::smallint, @from)
		and (r.scope, r.type, r.step, r.at) < (@scope, @type, 1::smallint, @to)
		and (r.at, r.scope, r.type) > (select p.at, p.scope, p.type from rollup_positions p where p.step = 1)`

// Rollups returns the rollups of a range; see [store.Rollups].
func (s *Store) Rollups(ctx context.Context, q store.RollupQuery) (_ []store.Rollup, err error) {
	defer s.calls.Begin("Rollups").End(&err, "list rollups")
	key := q.Key()
	rows, err := list(ctx, s, query{rollupsSQL, pgx.NamedArgs{
		"scope": someUUID(key.Scope), "type": key.Type, "step": key.Step, "from": q.From, "to": q.To,
	}}, scanRollup)
	if err != nil {
		return nil, err
	}
	return store.JoinRollups(q, rows)
}

// These statements count the backlog of an endpoint or an account.
//
// looked has the endpoints that are read: at most @looked, and one more, which says that there
// are more. pending has their pending deliveries, up to @most: first by queue_due, then the
// ordered ones that are not due by queue_order_key, then the parked ones by queue_parked. The
// second walk skips the heads of keys, which the first one has counted, so all three end after
// @most rows each.
//
// Each walk has a limit of its own. Otherwise the planner joins, and while one endpoint has
// nearly all pending deliveries, it reads the whole of queue_due for another one. The second walk
// is ordered. Otherwise the planner may walk queue_ordered_expires_at, which has the deliveries
// of all endpoints. The minimum is over the first due delivery of each lane, by queue_due.
// Dead letters are counted by dead_letters_unresolved.
const (
	backlogOfEndpointSQL = `
	with looked as materialized (
		select @endpoint::uuid as id
	)` + backlogOfLookedSQL + `
			where l.account = @account and l.endpoint = @endpoint and` + backlogEnd
	backlogOfAccountSQL = `
	with looked as materialized (
		select e.id
		from endpoints e
		where e.account = @account and e.status <> 'deleted'
		limit @looked + 1
	)` + backlogOfLookedSQL + `
			where l.account = @account and` + backlogEnd
	backlogOfLookedSQL = `, pending as (
		select
		from looked
		cross join lateral (
			(select from queue q where q.endpoint = looked.id and q.due_at < 'infinity' limit @most)
			union all
			(
				select
				from queue q
				where q.endpoint = looked.id and q.ordering_key is not null and q.due_at = 'infinity'
				order by q.endpoint, q.ordering_key, q.sequence
				limit @most
			)
			union all
			(select from queue q where q.endpoint = looked.id and q.parked and q.ordering_key is null limit @most)
		) q
		limit @most
	)` + backlogSQL
)

// backlogOfAllSQL counts the backlog of the whole store. looked is a skip scan of queue_due: each
// step enters the index at the next endpoint, however many deliveries an endpoint has. All
// pending deliveries are counted by queue_pkey.
const backlogOfAllSQL = `
	with recursive waiting (id, n) as (
		(
			select q.endpoint, 1
			from queue q
			where q.due_at < 'infinity'
			order by q.endpoint, q.lane, q.due_at
			limit 1
		)
		union all
		select n.endpoint, w.n + 1
		from waiting w
		cross join lateral (
			select q.endpoint
			from queue q
			where q.endpoint > w.id and q.due_at < 'infinity'
			order by q.endpoint, q.lane, q.due_at
			limit 1
		) n
		where w.n <= @looked
	), looked as materialized (
		select id from waiting
	), pending as (
		select from (select q.id from queue q order by q.id limit @most) q
	)` + backlogSQL + `
			where` + backlogEnd

const (
	backlogSQL = `
	select (select count(*) from looked), (select count(*) from pending),
		(
			select min(q.due_at)
			from looked
			cross join generate_series(0, 3) as n (lane)
			cross join lateral (
				select q.due_at
				from queue q
				where q.endpoint = looked.id and q.lane = n.lane and q.due_at < 'infinity'
				order by q.due_at
				limit 1
			) q
		),
		(select count(*) from (
			select
			from dead_letters l`
	backlogEnd = ` l.resolved_at is null
			order by l.account, l.endpoint
			limit @most) dead)`
)

// Backlog counts pending deliveries and dead letters; see [store.Rollups].
func (s *Store) Backlog(ctx context.Context, q store.BacklogQuery) (_ store.Backlog, err error) {
	defer s.calls.Begin("Backlog").End(&err, "count the backlog")
	statement := backlogOfAllSQL
	switch {
	case !q.Endpoint.IsZero():
		statement = backlogOfEndpointSQL
	case !q.Account.IsZero():
		statement = backlogOfAccountSQL
	}
	now := s.clock.Now()
	found, err := count(ctx, s, query{statement, pgx.NamedArgs{
		"account": uuid(q.Account), "endpoint": uuid(q.Endpoint), "looked": store.MaxLooked, "most": q.Stop(),
	}}, func(row pgx.CollectableRow) (b store.Backlog, err error) {
		var looked int
		var due time.Time
		err = row.Scan(&looked, &b.Pending, toTime(&due), &b.DeadLetters)
		b.Partial = looked > store.MaxLooked
		if !due.IsZero() && !due.After(now) {
			b.IsDue, b.DueFor = true, now.Sub(due)
		}
		return b, err
	})
	if err != nil {
		return store.Backlog{}, err
	}
	return found[0], nil
}

// endpointStatesSQL returns the states of endpoints, in the order of the ids. It reads the last
// change of health by endpoint_health_pkey, circuits by circuits_pkey, pending deliveries as
// backlogOfLookedSQL does, and ended deliveries by endedSQL.
const endpointStatesSQL = `
	select e.id, h.account, coalesce(h.number, 0), coalesce(h.status, ''), coalesce(h.reason, ''), coalesce(h.warnings, 0), h.since,
		c.endpoint, coalesce(c.status, ''), coalesce(c.reason, ''), c.opened_at, c.probe_at, coalesce(c.cooldown, 0),
		c.failing_since, c.paced_until, c.rate_full_at, coalesce(c.failures, 0), c.last_attempt_at,
		coalesce(c.last_outcome, ''), coalesce(c.generation, 0), pending.n, due.at, ended.delivered, ended.dead
	from unnest(@ids::uuid[]) with ordinality as e (id, place)
	cross join (select @since::timestamptz as minute, @since::timestamptz as hour) began
	left join lateral (
		select s.*
		from endpoint_health s
		where s.endpoint = e.id
		order by s.number desc
		limit 1
	) h on true
	left join lateral (
		select c.*
		from circuits c
		where c.endpoint = e.id
		limit 1
	) c on true
	cross join lateral (
		select count(*) as n
		from (
			(select from queue q where q.endpoint = e.id and q.due_at < 'infinity')
			union all
			(
				select
				from queue q
				where q.endpoint = e.id and q.ordering_key is not null and q.due_at = 'infinity'
				order by q.endpoint, q.ordering_key, q.sequence
				limit @most
			)
			union all
			(select from queue q where q.endpoint = e.id and q.parked and q.ordering_key is null)
			limit @most
		) q
	) pending
	cross join lateral (
		select min(q.due_at) as at
		from generate_series(0, 3) as n (lane)
		cross join lateral (
			select q.due_at
			from queue q
			where q.endpoint = e.id and q.lane = n.lane and q.due_at < 'infinity'
			order by q.due_at
			limit 1
		) q
	) due
	cross join lateral (` + endedSQL + `
	) ended
	order by e.place`

// EndpointStates returns the states of endpoints; see [store.Rollups].
func (s *Store) EndpointStates(ctx context.Context, ids ...postrider.EndpointID) (_ []store.EndpointState, err error) {
	defer s.calls.Begin("EndpointStates").End(&err, "read states of endpoints")
	column := uuids{}
	for _, id := range ids {
		column = append(column, someUUID(id))
	}
	now := s.clock.Now()
	return count(ctx, s, query{endpointStatesSQL, pgx.NamedArgs{
		"ids": column, "since": store.DayBefore(s.clock.Wall()), "most": store.MaxPending,
	}}, func(row pgx.CollectableRow) (store.EndpointState, error) { return scanEndpointState(row, now) })
}

func scanEndpointState(row pgx.CollectableRow, now time.Time) (e store.EndpointState, err error) {
	h, c := &e.Health, &e.Circuit
	var due time.Time
	err = row.Scan(toID(&e.Endpoint), toID(&h.Account), &h.Number, &h.Status, &h.Reason, &h.Warnings, toTime(&h.Since),
		toID(&c.Endpoint), &c.Status, &c.Reason, toTime(&c.OpenedAt), toTime(&c.ProbeAt), toWait(&c.Cooldown),
		toTime(&c.FailingSince), toTime(&c.PacedUntil), toTime(&c.RateFullAt), &c.Failures, toTime(&c.LastAttemptAt),
		&c.LastOutcome, &c.Generation, &e.Pending, toTime(&due), &e.Delivered, &e.Dead)
	if !due.IsZero() {
		e.DueFor = max(now.Sub(due), 0)
	}
	if h.Number > 0 {
		h.Endpoint = e.Endpoint
	}
	return e, err
}
