package postgres

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
