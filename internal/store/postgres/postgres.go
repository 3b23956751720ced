// Package postgres stores events and deliveries in PostgreSQL, for a cluster of several nodes.
//
// [Open] refuses a server that could forget what it acknowledged, applies the migrations and
// returns a [Store]. The files are named after the roles of package store, as those of package
// sqlite are. Each statement stands above the one method that runs it. The comment of a statement
// says why it has its shape, and which index it walks.
//
// The package promises:
//
//   - A method is one transaction and nearly always one round trip. A pipeline that ends in one
//     Sync is a transaction by itself, so no begin and no commit is sent, and an error in it
//     leaves nothing behind.
//   - The time of [store.Clock] decides which work is due, leased or expired. Statements get it
//     as @now. It runs on steadily when the database's clock is stepped. Times that people see
//     follow the database's clock: now().
//   - A transaction runs again after a deadlock or a serialization failure. If the reply to a
//     commit is lost, a transaction that is safe to repeat runs again with the same ids; every
//     other one returns postrider.ErrBusy.
//   - The plans of the hot statements do not depend on statistics, because statistics always lag
//     behind a queue that swings between nothing and millions of rows. Golden plans in testdata
//     show this.
//
// A pending delivery is one row of queue. Its token and due_at say in which state it is:
//
//   - Waiting: no token; due_at is when the delivery is due. Publish, a retry and Release set
//     this state.
//   - Leased: a token; due_at is the end of the lease. Claim sets this state, or Publish by
//     admission. Settle ends the lease. After due_at, Claim takes the lease over. If the node is
//     known to be dead, Reclaim ends the lease at once.
//   - Blocked: no token; due_at is infinity. The delivery has an ordering key and is not the
//     head, or the key is paused. The end of the head, or of the pause, makes it due (order.go).
//   - Parked: no token; due_at is infinity, and parked is true. Reclaim sets this state after
//     several nodes died with the delivery. MakeDue makes it due.
//
// Settle deletes a leased row whose delivery has ended. Cancel can delete a row in every state.
// Expire and CancelDeleted can too, except a row under a valid lease. The upper 32 bits of a
// token are the incarnation of its node.
//
// History ends by the day: DeleteOld drops or empties the partition of a day (retention.go).
package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// Store is a [store.Store] in a PostgreSQL database.
type Store struct {
	sqlstore.Verbs

	pool  *pgxpool.Pool
	reads *pgxpool.Pool    // for requests that only read; see readPool
	now   func() time.Time // the machine's clock, which clock follows too
	clock *store.Clock
	calls store.Calls // Options.Calls
	log   *slog.Logger
	self  atomic.Uint32 // incarnation of this process's node, set by its heartbeats; 0 if there were none

	migrations store.Migrations // of this program

	sessions sessions    // sessions of Hold
	heads    store.Heads // heads of accepted responses
	stuck    stuck       // transactions that stand still; see locks.go
	telling  sync.Mutex  // held while tellBlockers logs
	tells    sync.WaitGroup
}

var (
	_ store.Store = (*Store)(nil)
	_ store.Nodes = (*Store)(nil)
)

// Options tunes a [Store]. The zero value is the production default.
type Options struct {
	Now      func() time.Time // returns the machine's time; default time.Now
	MaxConns int              // connections of both pools; default 16 (defaultConns)
	Calls    store.Calls      // called at the end of each verb; default: not called
	Log      *slog.Logger     // default: discard

	Migrations fs.FS // has the folder migrations; default: the migrations of this program
}

// defaultConns is the default of Options.MaxConns.
const defaultConns = 16

func (o Options) withDefaults() Options {
	o.MaxConns = cmp.Or(o.MaxConns, defaultConns)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// tables returns the files of the migrations, and the tables that they make.
func (o Options) tables() (fs.FS, store.Migrations, error) {
	if o.Migrations != nil {
		made, err := store.ReadMigrations(o.Migrations)
		return o.Migrations, made, err
	}
	made, err := ownMigrations()
	return migrations, made, err
}

// Open connects to the database that dsn names, brings its schema up to date, and creates the
// partitions of the coming days. It returns an error if the server is not durable or too old, or
// if the schema is newer than this program or from another build.
func Open(ctx context.Context, dsn string, opts Options) (*Store, error) {
	opts = opts.withDefaults()
	config, err := parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	if err := inspect(ctx, config.ConnConfig, opts.Log); err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	files, own, err := opts.tables()
	if err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	if err := migrate(ctx, config.ConnConfig, files, own); err != nil {
		return nil, fmt.Errorf("open postgres: %w", err)
	}
	params := map[string]string{}
	setParams(params)
	setAfterConnect(config.ConnConfig, params)
	s := &Store{now: opts.Now, clock: store.NewClock(opts.Now), calls: opts.Calls, log: opts.Log, migrations: own}
	s.Verbs = sqlstore.New(cold{s}, s.calls)
	if err := s.connect(ctx, config, opts.MaxConns); err != nil {
		return nil, fmt.Errorf("open postgres: %w", fault(err))
	}
	if err := errors.Join(s.MakePartitions(ctx), s.followClock(ctx), s.noticeRecovery(ctx)); err != nil {
		return nil, errors.Join(fmt.Errorf("open postgres: %w", err), s.Close())
	}
	return s, nil
}

// connect makes the pools. Three eighths of the connections are for requests that only read.
func (s *Store) connect(ctx context.Context, config *pgxpool.Config, conns int) (err error) {
	reads := config.Copy()
	reads.MaxConns = int32(max(1, conns*3/8))
	config.MaxConns = int32(max(1, conns-int(reads.MaxConns)))
	if s.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return err
	}
	if s.reads, err = pgxpool.NewWithConfig(ctx, reads); err != nil {
		s.pool.Close()
	}
	return err
}

// readPool returns the pool for a call that only reads. Reading requests may be many and slow.
// They share a separate pool, so that publishes and the dispatcher never wait for them.
func (s *Store) readPool(ctx context.Context) *pgxpool.Pool {
	if store.IsForReader(ctx) {
		return s.reads
	}
	return s.pool
}

// Close closes the store, after the calls under way have finished.
func (s *Store) Close() error {
	s.tells.Wait()
	s.reads.Close()
	s.pool.Close()
	return nil
}

// connectTimeout is the time limit for making a connection, unless the URL has one.
const connectTimeout = 5 * time.Second

// parse reads the DSN and sets defaults: a connection must be to a server that accepts writes,
// and the time of a statement and of an idle transaction is limited.
func parse(dsn string) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	// The DSN must not change this: the simple protocol would put arguments into the text.
	config.ConnConfig.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	if !strings.Contains(dsn, "target_session_attrs") {
		config.ConnConfig.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	if !strings.Contains(dsn, "connect_timeout") {
		config.ConnConfig.ConnectTimeout = connectTimeout
	}
	params := config.ConnConfig.RuntimeParams
	params["application_name"] = cmp.Or(params["application_name"], "postrider")
	late := map[string]string{"statement_timeout": "30s", "idle_in_transaction_session_timeout": idleInTransaction.String()}
	for name := range late {
		if params[name] != "" {
			delete(late, name)
		}
	}
	setAfterConnect(config.ConnConfig, late)
	return config, nil
}

// setAfterConnect makes a session set parameters after it is connected. A pooler such as
// PgBouncer refuses most of them in the message that starts a session.
func setAfterConnect(config *pgx.ConnConfig, params map[string]string) {
	calls := make([]string, 0, len(params))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		calls = append(calls, fmt.Sprintf("set_config('%s', '%s', false)", name, params[name]))
	}
	if len(calls) == 0 {
		return
	}
	before := config.AfterConnect
	config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if before != nil {
			if err := before(ctx, conn); err != nil {
				return err
			}
		}
		_, err := conn.Exec(ctx, "select "+strings.Join(calls, ", ")).ReadAll()
		return err
	}
}

// setParams adds the parameters of every session of the pool. With them a statement is planned
// once, without its arguments, and from index scans and nested loops only.
//
// The reason is that a queue swings between nothing and millions of rows, and statistics always
// lag behind. A plan that was made while the queue was empty would read all of it when it is
// long. So the plan must not depend on statistics at all.
//
// For the same reason statements name every column of the indexes that could look equally cheap
// while the partition of the day is empty: account and endpoint besides the id. Lists override
// these settings for themselves; see list.
func setParams(params map[string]string) {
	params["synchronous_commit"] = "on"
	params["lock_timeout"] = strconv.FormatInt(lockWait.Milliseconds(), 10) + "ms"
	params["timezone"] = "UTC"
	params["plan_cache_mode"] = "force_generic_plan"
	params["enable_seqscan"] = "off"
	params["enable_bitmapscan"] = "off"
	params["enable_hashjoin"] = "off"
	params["enable_mergejoin"] = "off"
	params["enable_memoize"] = "off"
	params["jit"] = "off" // the cost penalties of the settings above would trigger it
}

const (
	oldestMajor  = 15
	newestMajor  = 18    // `make test-postgres` tests this version and all from oldestMajor on
	majorVersion = 10000 // divides server_version_num
)

// refusedSettings are the settings with which the server could forget what it acknowledged, with
// the reasons.
var refusedSettings = []struct{ setting, refused, why string }{
	{"fsync", "off", "a crash of the machine would corrupt the database"},
	{"full_page_writes", "off", "a crash of the machine could tear pages that were acknowledged"},
	{"synchronous_commit", "off", "a crash of the server would lose events that were acknowledged"},
}

// inspect returns an error if the server is too old or not durable. It uses a separate connection
// without the settings of setParams, because with them synchronous_commit, for example, would
// always look right.
func inspect(ctx context.Context, config *pgx.ConnConfig, log *slog.Logger) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fault(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))

	var version int
	err = conn.QueryRow(ctx, "select current_setting('server_version_num')::int").Scan(&version)
	if err != nil {
		return fmt.Errorf("read the server's version: %w", fault(err))
	}
	switch major := version / majorVersion; {
	case major < oldestMajor:
		return fmt.Errorf("the server is PostgreSQL %d; %d is the oldest supported version", major, oldestMajor)
	case major > newestMajor:
		log.WarnContext(ctx, "this major version of postgres is not tested", "version", major, "tested", newestMajor)
	}
	return checkSettings(ctx, conn)
}

// checkSettings returns an error that names every refused setting of the server.
func checkSettings(ctx context.Context, conn *pgx.Conn) error {
	var faults []error
	for _, p := range refusedSettings {
		var value string
		err := conn.QueryRow(ctx, "select current_setting($1)", p.setting).Scan(&value)
		if err != nil {
			return fmt.Errorf("read the server's %s: %w", p.setting, fault(err))
		}
		if value == p.refused {
			faults = append(faults, fmt.Errorf("the server runs with %s = %s: %s", p.setting, value, p.why))
		}
	}
	return errors.Join(faults...)
}
