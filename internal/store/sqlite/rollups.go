package sqlite

import (
	"context"
	"database/sql"
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
