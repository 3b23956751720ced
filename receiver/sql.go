package receiver

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Dialect is the SQL dialect of a database.
type Dialect string

// The dialects of a [SQL] store. Every driver of database/sql works.
const (
	// PostgreSQL is version 9.5 or later.
	PostgreSQL Dialect = "postgresql"
	// SQLite is version 3.24 or later. Set busy_timeout so that connections wait for each other.
	// Without it, concurrent requests can get a 503.
	SQLite Dialect = "sqlite"
)

// SQLOptions tunes a [SQL] store.
type SQLOptions struct {
	Table string // lower-case letters, digits and _, at most 48; default webhook_events
}

// SQL is a [Store] in a table of the receiver's own database. Any number of processes may share it.
// The database's clock measures the leases.
//
// The table grows until [SQL.Purge] is called, for instance once a day. Keep an event for as long
// as its sender may repeat it: Postrider repeats for 7 days unless the endpoint's policy says
// otherwise, and longer if people replay events.
type SQL struct {
	db     *sql.DB
	schema string
	text   statements
}

var _ Store = (*SQL)(nil)

// statements have the SQL of a store. Parameters are numbered in the order in which they first
// occur, because some drivers count them in that order.
type statements struct{ claim, look, record, recordTx, release, purge string }

var clocks = map[Dialect]string{ // unix milliseconds of the current time, not of the start of the transaction
	PostgreSQL: "cast(extract(epoch from clock_timestamp()) * 1000 as bigint)",
	SQLite:     "cast((julianday('now') - 2440587.5) * 86400000 as integer)",
}

var tableName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,47}$`)

// NewSQL returns a store in the table. [SQL.Migrate] creates the table.
func NewSQL(db *sql.DB, dialect Dialect, opts SQLOptions) (*SQL, error) {
	now, known := clocks[dialect]
	table := cmp.Or(opts.Table, "webhook_events")
	if !known || !tableName.MatchString(table) {
		return nil, fmt.Errorf("receiver: no dialect %q with a table %q", dialect, table)
	}
	fill := strings.NewReplacer("{table}", table, "{now}", now).Replace
	return &SQL{db: db, schema: fill(schemaText), text: statements{
		claim: fill(claimText), look: fill(lookText), record: fill(recordText),
		recordTx: fill(recordTxText), release: fill(releaseText), purge: fill(purgeText),
	}}, nil
}

const schemaText = `create table if not exists {table} (
	id    text   not null primary key,
	state text   not null check (state in ('processing', 'processed')),
	token text   not null, -- of the claim
	at    bigint not null  -- unix milliseconds: processing, the end of the lease; processed, since when
);
create index if not exists {table}_at on {table} (at);
`

// Schema returns the SQL that creates the table if it does not exist, for programs that manage
// their migrations themselves.
func (s *SQL) Schema() string { return s.schema }

// Migrate creates the table if it does not exist. Several processes may call it at the same time.
func (s *SQL) Migrate(ctx context.Context) error {
	_, err := s.db.ExecContext(ctx, s.schema)
	if err != nil {
		// In PostgreSQL, "if not exists" does not see a table that another transaction is
		// committing, and the statement fails. The second execution sees it.
		_, err = s.db.ExecContext(ctx, s.schema)
	}
	if err != nil {
		return fmt.Errorf("receiver: create table: %w", err)
	}
	return nil
}

// claimText inserts the event if it is not in the table, or takes over a claim whose lease has
// ended.
const claimText = `
insert into {table} (id, state, token, at) values ($1, 'processing', $2, {now} + $3)
on conflict (id) do update set token = excluded.token, at = excluded.at
where {table}.state = 'processing' and {table}.at <= {now}`

const lookText = `select state from {table} where id = $1`

// Claim claims the event, see [Store].
func (s *SQL) Claim(ctx context.Context, key string, lease time.Duration) (Claim, error) {
	c := Claim{Key: key, Token: rand.Text()}
	claimed, err := affected(s.db.ExecContext(ctx, s.text.claim, c.Key, c.Token, lease.Milliseconds()))
	if err != nil {
		return Claim{}, fmt.Errorf("receiver: claim event: %w", err)
	}
	if claimed == 1 {
		return c, nil
	}
	var state string
	err = s.db.QueryRowContext(ctx, s.text.look, key).Scan(&state)
	switch {
	// The claim was released just now; the sender's next attempt will claim the event.
	case errors.Is(err, sql.ErrNoRows):
		return Claim{}, ErrProcessing
	case err != nil:
		return Claim{}, fmt.Errorf("receiver: look at event: %w", err)
	case state == "processed":
		return Claim{}, ErrProcessed
	default:
		return Claim{}, ErrProcessing
	}
}

const recordText = `
insert into {table} (id, state, token, at) values ($1, 'processed', '', {now})
on conflict (id) do update set state = 'processed', token = '', at = excluded.at
where {table}.state = 'processing'`

// Record records that the event is processed, see [Store].
func (s *SQL) Record(ctx context.Context, c Claim) error {
	if _, err := s.db.ExecContext(ctx, s.text.record, c.Key); err != nil {
		return fmt.Errorf("receiver: record event: %w", err)
	}
	return nil
}

const recordTxText = `
update {table} set state = 'processed', token = '', at = {now}
where id = $1 and token = $2 and state = 'processing'`

// RecordTx records, in a transaction on the store's database, that the event that a handler was
// given is processed. The handler's other writes in the transaction are then committed exactly
// once, even after a crash. After an error the transaction must not be committed. ErrClaimLost
// means that the lease ended and the event was claimed or recorded again. Until the transaction
// ends, other requests for this event wait; with SQLite all requests wait.
func (s *SQL) RecordTx(ctx context.Context, tx *sql.Tx, e Event) error {
	recorded, err := affected(tx.ExecContext(ctx, s.text.recordTx, e.claim.Key, e.claim.Token))
	if err != nil {
		return fmt.Errorf("receiver: record event: %w", err)
	}
	if recorded == 0 {
		return ErrClaimLost
	}
	return nil
}

const releaseText = `delete from {table} where id = $1 and token = $2 and state = 'processing'`

// Release ends the claim, see [Store].
func (s *SQL) Release(ctx context.Context, c Claim) error {
	if _, err := s.db.ExecContext(ctx, s.text.release, c.Key, c.Token); err != nil {
		return fmt.Errorf("receiver: release event: %w", err)
	}
	return nil
}

// purgeText uses the index on the column at.
const purgeText = `delete from {table} where at < {now} - $1`

// Purge deletes the events that were processed, and the claims whose lease ended, longer than age
// ago. It returns their number.
func (s *SQL) Purge(ctx context.Context, age time.Duration) (int64, error) {
	purged, err := affected(s.db.ExecContext(ctx, s.text.purge, age.Milliseconds()))
	if err != nil {
		return 0, fmt.Errorf("receiver: purge events: %w", err)
	}
	return purged, nil
}

func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
