package sqlstore

import (
	"context"
	"time"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/store"
)

// The table has two rows, one for each step that is rolled up.
const (
	positionsSQL   = `select step, at, scope, type from rollup_positions`
	putPositionSQL = `update rollup_positions set at = @at, scope = @scope, type = @type where step = @step`
)

// takeDeltasSQL deletes deltas, in the order of the table, and returns them. The table has no
// index, because it has only the deltas of about ten seconds.
const takeDeltasSQL = `
	delete from rollup_deltas
	where ctid = any (array(select ctid from rollup_deltas limit @limit))
	returning at, counted, endpoints, accounts, types, outcomes, numbers, statuses`

// takeDeltasOfSQLite is the same for SQLite, where a delta is always in the column counted.
const takeDeltasOfSQLite = `
	delete from rollup_deltas
	where id in (select id from rollup_deltas order by id limit @limit)
	returning at, counted, null, null, null, null, null, null`

// writeRollups runs do with the positions, in a transaction that has locked the rollups. A
// transaction reads rollups, adds to them, and writes them back, so a write of another
// transaction in between would be lost. The positions are read after the lock.
func (v Verbs) writeRollups(ctx context.Context, do func(rollupRows, store.Positions) error) error {
	return v.db.Change(ctx, Once, func(ctx context.Context, tx Tx) error {
		if err := tx.Lock(ctx, "rollups", [16]byte{}); err != nil {
			return err
		}
		keys, err := all(ctx, tx, Query{positionsSQL, nil}, func(row Row, key *store.RollupKey) error {
			var at time.Time
			err := row.Scan(&key.Step, &at, &key.Scope, &key.Type)
			key.At = at.Unix()
			return err
		})
		if err != nil {
			return err
		}
		var p store.Positions
		for _, key := range keys {
			p[key.Step] = key
		}
		return do(rollupRows{ctx, tx}, p)
	})
}

// FoldRollups adds deltas to the rollups; see [store.Rollups]. It does not run again when its
// reply is lost, because the durations of f.Seen would be added twice. Each delta is added once
// in any case, and the next fold adds the remaining ones.
func (v Verbs) FoldRollups(ctx context.Context, f store.Fold) (folded int, err error) {
	defer v.calls.Begin("FoldRollups").End(&err, "fold rollups")
	err = v.writeRollups(ctx, func(r rollupRows, p store.Positions) error {
		deltas, err := all(ctx, r.tx, Query{takeDeltasSQL, Args{"limit": f.Deltas}}, scanDelta)
		if err != nil {
			return err
		}
		var folding store.Folding
		for _, d := range deltas {
			if err := folding.Delta(d.at, d.counted); err != nil {
				return err
			}
		}
		folded = len(deltas)
		if err := folding.Seen(f.Seen); err != nil {
			return err
		}
		return folding.Store(r, p)
	})
	return folded, err
}

// delta is a row of rollup_deltas.
type delta struct {
	at      time.Time
	counted []byte
}

// scanDelta reads a row of takeDeltasSQL. A delta is in the column counted. In PostgreSQL it can be
// in the arrays instead, which have one element for each record.
func scanDelta(row Row, d *delta) error {
	var endpoints, accounts [][16]byte
	var types, outcomes, statuses []string
	var numbers []int
	err := row.Scan(&d.at, &d.counted, &endpoints, &accounts, &types, &outcomes, &numbers, &statuses)
	if err == nil && d.counted == nil {
		var counted store.Deltas
		for i := range endpoints {
			key := store.DeltaKey{Account: accounts[i], Endpoint: endpoints[i], Type: types[i]}
			counted.Record(key, postrider.Outcome(outcomes[i]), numbers[i], postrider.Status(statuses[i]))
		}
		d.counted = counted.Bytes()
	}
	return err
}

// rollupRows reads and writes rollups in a transaction that has locked the rollups.
type rollupRows struct {
	ctx context.Context //nolint:containedctx // lives as long as the call that has the transaction
	tx  Tx
}

// allOf returns the rows of a statement that runs once for each element of args.
func allOf[T any](r rollupRows, statement string, args []Args, scan func(Row, *T) error) (items []T, err error) {
	err = r.tx.QueryAll(r.ctx, statement, args, func(rows Rows) error { return collect(rows, &items, scan) })
	return items, err
}

// positionArgs returns a key as arguments.
func positionArgs(key store.RollupKey) Args {
	return Args{"scope": key.Scope, "type": key.Type, "step": key.Step, "at": key.Time()}
}

// The statements walk the primary key. An update changes no column of an index, so the row of
// PostgreSQL stays on its page.
const (
	rollupSQL = `
	select scope, type, step, at, counts, responses, latencies
	from rollups
	where scope = @scope and type = @type and step = @step and at = @at`
	putRollupSQL = `
	insert into rollups (scope, type, step, at, counts, responses, latencies, delivered, dead)
	values (@scope, @type, @step, @at, @counts, @responses, @latencies, @delivered, @dead)
	on conflict (scope, type, step, at) do update set
		counts = excluded.counts, responses = excluded.responses, latencies = excluded.latencies, delivered = excluded.delivered,
		dead = excluded.dead`
)

// Read implements [store.RollupRows].
func (r rollupRows) Read(keys []store.RollupKey) (map[store.RollupKey]*store.RollupValue, error) {
	args := make([]Args, len(keys))
	for i, key := range keys {
		args[i] = positionArgs(key)
	}
	found, err := allOf(r, rollupSQL, args, scanRollup)
	values := make(map[store.RollupKey]*store.RollupValue, len(found))
	for i := range found {
		values[found[i].RollupKey] = &found[i].RollupValue
	}
	return values, err
}

func scanRollup(row Row, r *store.RollupRow) error {
	var b store.RollupBytes
	var at time.Time
	if err := row.Scan(&r.Scope, &r.Type, &r.Step, &at, &b.Counts, &b.Responses, &b.Latencies); err != nil {
		return err
	}
	r.At = at.Unix()
	value, err := b.Value()
	r.RollupValue = value
	return err
}

// rollupTypesSQL is a skip scan of the primary key. Each step finds the next type of the scope,
// however many rollups a type has.
const rollupTypesSQL = `
	with recursive types (type) as (
		select (select min(r.type) from rollups r where r.scope = @scope and r.type > '')
		union all
		select (select min(r.type) from rollups r where r.scope = @scope and r.type > types.type)
		from types
		where types.type is not null
	)
	select @scope::uuid, type
	from types
	where type is not null`

// Types implements [store.RollupRows].
func (r rollupRows) Types(scopes []store.Scope) (map[store.Scope][]string, error) {
	args := make([]Args, len(scopes))
	for i, scope := range scopes {
		args[i] = Args{"scope": scope}
	}
	found, err := allOf(r, rollupTypesSQL, args, func(row Row, key *store.RollupKey) error {
		return row.Scan(&key.Scope, &key.Type)
	})
	types := make(map[store.Scope][]string, len(scopes))
	for _, key := range found {
		types[key.Scope] = append(types[key.Scope], key.Type)
	}
	return types, err
}

// Write implements [store.RollupRows].
func (r rollupRows) Write(keys []store.RollupKey, values map[store.RollupKey]*store.RollupValue) error {
	rows := make([]Args, len(keys))
	for i, key := range keys {
		value := values[key]
		b := value.Bytes()
		row := positionArgs(key)
		row["counts"], row["responses"], row["latencies"] = b.Counts, bytesOrNull(b.Responses), bytesOrNull(b.Latencies)
		row["delivered"], row["dead"] = value.Status(postrider.Delivered), value.Status(postrider.Dead)
		rows[i] = row
	}
	_, err := r.tx.ExecAll(r.ctx, putRollupSQL, rows)
	return err
}

// The statement walks rollups_at.
const rollUpSQL = `
	select scope, type, step, at, counts, responses, latencies
	from rollups
	where step = @step and (at, scope, type) > (@at, @scope, @type) and at < @before
	order by step, at, scope, type
	limit @limit`

// RollUp adds minutes to hours and hours to days; see [store.Rollups].
func (v Verbs) RollUp(ctx context.Context, limit int) (rolled int, err error) {
	defer v.calls.Begin("RollUp").End(&err, "roll up")
	for step := range store.Days {
		passed := 0
		err = v.writeRollups(ctx, func(r rollupRows, p store.Positions) error {
			args := positionArgs(p[step])
			args["step"], args["before"], args["limit"] = step, step.RollUpBefore(r.tx.Wall()), limit
			passing, err := all(ctx, r.tx, Query{rollUpSQL, args}, scanRollup)
			passed = len(passing)
			if err != nil || passed == 0 {
				return err
			}
			if p, err = store.RollUpRows(r, p, passing); err != nil {
				return err
			}
			_, err = r.tx.Exec(ctx, Query{putPositionSQL, positionArgs(p[step])})
			return err
		})
		if err != nil {
			return rolled, err
		}
		rolled += passed
	}
	return rolled, nil
}

// forgetRollupsSQL deletes the oldest rollups of a step. A rollup that was not rolled up stays,
// because no longer step has its counts yet. The statement walks rollups_at and the primary key.
const forgetRollupsSQL = `
	with old as materialized (
		select scope, type, step, at
		from rollups
		where step = @step and at < @before and (@step = 2 or (at, scope, type) <= (@at, @scope, @type))
		order by step, at
		limit @limit
	)
	delete from rollups
	where (scope, type, step, at) in (select scope, type, step, at from old)`

// ForgetRollups deletes old rollups; see [store.Rollups].
func (v Verbs) ForgetRollups(ctx context.Context, limit int) (forgotten int, err error) {
	defer v.calls.Begin("ForgetRollups").End(&err, "forget rollups")
	err = v.writeRollups(ctx, func(r rollupRows, p store.Positions) error {
		forgotten = 0 // the deletes of an earlier run were rolled back
		for step := store.Minutes; step <= store.Days && forgotten < limit; step++ {
			args := positionArgs(store.RollupKey{})
			if step < store.Days {
				args = positionArgs(p[step])
			}
			args["step"], args["before"], args["limit"] = step, r.tx.Wall().Add(-step.Kept()), limit-forgotten
			n, err := r.tx.Exec(ctx, Query{forgetRollupsSQL, args})
			if err != nil {
				return err
			}
			forgotten += int(n)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return forgotten, nil
}

// rollupsSQL returns the rollups of the step, and the rollups of shorter steps that are not in
// the step yet. For days, these are the hours after the position of hours; for hours and days,
// the minutes after the position of minutes. One snapshot has all of them, so a concurrent RollUp
// makes nothing missing or double. Each part walks the primary key. The conditions compare rows,
// so that PostgreSQL does not choose rollups_at, which has all scopes of the range.
const rollupsSQL = `
	select scope, type, step, at, counts, responses, latencies
	from rollups
	where (scope, type, step, at) >= (@scope, @type, @step, @from) and (scope, type, step, at) < (@scope, @type, @step, @to)
	union all
	select scope, type, step, at, counts, responses, latencies
	from rollups
	where @step > 0
		and (scope, type, step, at) >= (@scope, @type, 0::smallint, @from) and (scope, type, step, at) < (@scope, @type, 0::smallint, @to)
		and (at, scope, type) > (select p.at, p.scope, p.type from rollup_positions p where p.step = 0)
	union all
	select scope, type, step, at, counts, responses, latencies
	from rollups
	where @step > 1
		and (scope, type, step, at) >= (@scope, @type, 1::smallint, @from) and (scope, type, step, at) < (@scope, @type, 1::smallint, @to)
		and (at, scope, type) > (select p.at, p.scope, p.type from rollup_positions p where p.step = 1)`

// Rollups returns the rollups of a range; see [store.Rollups].
func (v Verbs) Rollups(ctx context.Context, q store.RollupQuery) (_ []store.Rollup, err error) {
	defer v.calls.Begin("Rollups").End(&err, "list rollups")
	key := q.Key()
	rows, err := all(ctx, v.db, Query{rollupsSQL, Args{
		"scope": key.Scope, "type": key.Type, "step": key.Step, "from": q.From, "to": q.To,
	}}, scanRollup)
	if err != nil {
		return nil, err
	}
	return store.JoinRollups(q, rows)
}
