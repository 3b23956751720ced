package postgres

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/sqlstore"
)

// connsPerNode is the number of connections that one server opens: the connections of the pool,
// the session of [Store.Hold], and one for the migrations of another server that starts.
const connsPerNode = defaultConns + 2

// Examine describes the database that dsn names, for postrider doctor. It creates no tables and
// writes no rows. It measures commits with a message of a few bytes in the database's log. Only a
// logical replication slot that asks for such messages can see them.
//
// The connection has the settings of a server's sessions. If a pooler refuses settings that are in
// the URL, Examine notes that, and continues with a connection without them.
func Examine(ctx context.Context, dsn string) (found doctor.Postgres, err error) {
	pool, err := parse(dsn)
	if err != nil {
		return found, fmt.Errorf("examine postgres: %w", err)
	}
	e := examination{config: pool.ConnConfig, params: map[string]string{}}
	// Neither named statements nor a pipeline, because a pooler may not support them.
	e.config.DefaultQueryExecMode = pgx.QueryExecModeExec
	setParams(e.params)
	delete(e.params, "synchronous_commit") // so that settings reads the database's value
	setAfterConnect(e.config, e.params)
	e.conn, err = pgx.ConnectConfig(ctx, e.config)
	if isCode(err, codeProtocol) && strings.Contains(err.Error(), "startup parameter") {
		e.found.Pooler.Refused = err.Error()
		e.config.RuntimeParams = map[string]string{}
		e.conn, err = pgx.ConnectConfig(ctx, e.config)
	}
	if err != nil {
		return found, fmt.Errorf("examine postgres: %w", fault(err))
	}
	defer func() { err = errors.Join(err, e.conn.Close(context.WithoutCancel(ctx))) }()
	for _, look := range []func(context.Context) error{
		e.server, e.settings, e.tables, e.connections, e.pooler, e.latencies, e.clock,
	} {
		if err := look(ctx); err != nil {
			return e.found, fmt.Errorf("examine postgres: %w", fault(err))
		}
	}
	return e.found, nil
}

// codeProtocol is the SQLSTATE of a pooler (PgBouncer) that refuses the settings of a session.
const codeProtocol = "08P01"

// examination is one call of Examine.
type examination struct {
	config *pgx.ConnConfig
	conn   *pgx.Conn
	params map[string]string // settings of the pool's sessions, by name
	found  doctor.Postgres
}

const serverSQL = `
	select current_setting('server_version'), current_setting('server_version_num')::int, current_user::text,
		current_database()::text, coalesce(current_schema()::text, ''),
		coalesce(has_schema_privilege(current_schema()::text, 'create'), false), pg_database_size(current_database())`

// server reads the version, the names and the size of the database.
func (e *examination) server(ctx context.Context) error {
	var number int
	f := &e.found
	err := e.conn.QueryRow(ctx, serverSQL).Scan(&f.Version, &number, &f.Role, &f.Database, &f.Schema, &f.MayCreate, &f.Size)
	if err != nil {
		return fmt.Errorf("read the version: %w", err)
	}
	f.Version, _, _ = strings.Cut(f.Version, " ")
	f.Major, f.Oldest, f.Newest = number/majorVersion, oldestMajor, newestMajor
	return nil
}

// settingsSQL converts sizes to bytes and times to milliseconds. It leaves out settings that the
// role may not read.
const settingsSQL = `
	select lower(s.name), current_setting(s.name), case when s.vartype = 'integer' then s.setting::bigint else 0 end
		* case s.unit when '8kB' then 8192 when 'kB' then 1024 when 'MB' then 1048576 when 's' then 1000 else 1 end, s.source
	from pg_settings s
	where lower(s.name) = any(@names::text[])`

// settings reads the settings in effect. It notes each setting of a server's session that a
// pooler did not pass on.
func (e *examination) settings(ctx context.Context) error {
	names := append(slices.Collect(maps.Keys(e.params)), "fsync", "full_page_writes", "synchronous_commit", "synchronous_standby_names",
		"min_wal_size", "max_wal_size", "shared_buffers", "max_connections", "data_directory", "statement_timeout",
		"transaction_timeout", "idle_session_timeout", "idle_in_transaction_session_timeout")
	rows, err := e.conn.Query(ctx, settingsSQL, pgx.NamedArgs{"names": names})
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	e.found.Settings = map[string]doctor.Setting{}
	var name string
	var s doctor.Setting
	_, err = pgx.ForEachRow(rows, []any{&name, &s.Value, &s.Number, &s.Source}, func() error {
		e.found.Settings[name] = s
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(e.params)) {
		if e.found.Settings[name].Value != e.params[name] {
			e.found.Pooler.Ignored = append(e.found.Pooler.Ignored, name)
		}
	}
	return nil
}

// tablesSQL returns the rights of the role on the existing tables.
const tablesSQL = `
	select c.relname::text, pg_has_role(c.relowner, 'usage'),
		array(select p from unnest(array['select', 'insert', 'update', 'delete']) p where not has_table_privilege(c.oid, p))
	from unnest(@tables::text[]) t
	join pg_class c on c.oid = to_regclass(t)::oid
	order by c.relname`

// tables reads which tables exist, the rights of the role on them, and their version.
func (e *examination) tables(ctx context.Context) error {
	own, err := ownMigrations()
	if err != nil {
		return err
	}
	e.found.Tables.Knows = own.Newest().Version
	rows, err := e.conn.Query(ctx, tablesSQL, pgx.NamedArgs{"tables": append([]string{migrationsTable}, own.Names...)})
	if err != nil {
		return fmt.Errorf("read the rights of the role: %w", err)
	}
	var name string
	var owned bool
	var denied []string
	exist := map[string]bool{}
	_, err = pgx.ForEachRow(rows, []any{&name, &owned, &denied}, func() error {
		exist[name] = !slices.Contains(denied, "select")
		if !owned {
			e.found.NotOwned = append(e.found.NotOwned, name)
		}
		if len(denied) > 0 {
			e.found.Denied = append(e.found.Denied, strings.Join(denied, ", ")+" on "+name)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read the rights of the role: %w", err)
	}
	e.found.Endpoints = -1
	if exist[migrationsTable] {
		err = e.conn.QueryRow(ctx, `select coalesce(max(version_id), 0) from postrider_migrations where is_applied`).Scan(&e.found.Tables.Has)
	}
	if err == nil && exist["endpoints"] {
		err = e.conn.QueryRow(ctx, `select count(*) from endpoints`).Scan(&e.found.Endpoints)
	}
	if err == nil && exist["nodes"] {
		err = e.conn.QueryRow(ctx, `
			select count(*) from nodes n, clock c
			where not n.leaving and n.seen_at > now() + c.ahead * interval '1 microsecond' - interval '1 minute'`).
			Scan(&e.found.Connections.Nodes)
	}
	if err != nil {
		return fmt.Errorf("read the tables: %w", err)
	}
	if has := e.found.Tables.Has; has > 0 && has <= e.found.Tables.Knows && len(e.found.Denied) == 0 {
		db := stdlib.OpenDB(*e.config)
		_, e.found.Tables.Unlike = own.Inspect(ctx, db, has, tableStatements(own.Names))
		return db.Close()
	}
	return nil
}

// connectionsSQL counts as others only sessions that belong to neither a server nor this command.
// It leaves out PostgreSQL's own workers, which have no database or no user.
const connectionsSQL = `
	select current_setting('max_connections')::int,
		current_setting('superuser_reserved_connections')::int + coalesce(current_setting('reserved_connections', true)::int, 0),
		(select r.rolconnlimit from pg_roles r where r.rolname = current_user),
		(select d.datconnlimit from pg_database d where d.datname = current_database()),
		(
			select count(*)
			from pg_stat_activity a
			where a.datid is not null and a.usesysid is not null and a.application_name not like 'postrider%'
		),
		(select count(*) from pg_stat_replication r where r.application_name not in ('pg_basebackup', 'pg_receivewal', 'pg_recvlogical'))`

// connections reads how many connections are allowed, and how many are in use.
func (e *examination) connections(ctx context.Context) error {
	c := &e.found.Connections
	c.Nodes, c.PerNode = max(1, c.Nodes), connsPerNode
	err := e.conn.QueryRow(ctx, connectionsSQL).Scan(&c.Max, &c.Reserved, &c.RoleLimit, &c.DatabaseLimit, &c.Others, &e.found.Standbys)
	if err != nil {
		return fmt.Errorf("read the connections: %w", err)
	}
	return nil
}

// patience is how long Examine waits for a notification, or for a backend of a pooler.
const patience = 2 * time.Second

// pooler finds out whether a pooler is between a server and the database, with a second session.
//
// It detects the mode of a pooler by the pid of the second session's backend. The second session
// asks for the pid, and asks again while the first session is in a transaction. In transaction
// mode the transaction of the first session takes the backend that was used last, so the second
// session gets another backend, or none.
func (e *examination) pooler(ctx context.Context) error {
	p := &e.found.Pooler
	second, err := pgx.ConnectConfig(ctx, e.config)
	if err != nil {
		return fmt.Errorf("open a second connection: %w", err)
	}
	defer second.Close(context.WithoutCancel(ctx))
	var before, after uint32
	if err := second.QueryRow(ctx, `select pg_backend_pid()`).Scan(&before); err != nil {
		return fmt.Errorf("read the process number: %w", err)
	}
	p.Pooled = before != second.PgConn().PID()
	tx, err := e.conn.Begin(ctx)
	if err != nil {
		return fmt.Errorf("begin a transaction: %w", err)
	}
	_, err = tx.Exec(ctx, `select 1`)
	if err == nil {
		waiting, cancel := context.WithTimeout(ctx, patience)
		asked := second.QueryRow(waiting, `select pg_backend_pid()`).Scan(&after)
		p.Shared = asked != nil || after != before
		cancel()
	}
	if err := errors.Join(err, tx.Rollback(ctx)); err != nil {
		return fmt.Errorf("end a transaction: %w", err)
	}
	p.Pooled = p.Pooled || p.Shared
	if !p.Shared { // in transaction mode a backend of the pooler would continue to listen
		p.Listens, p.ListenErr = e.listens(ctx, second)
	}
	if addr := e.conn.PgConn().Conn().RemoteAddr(); !p.Pooled && isLocal(addr) {
		e.found.DataDirectory = e.found.Settings["data_directory"].Value
	}
	return nil
}

// listens reports whether a notification from one session arrives at the other. It uses another
// channel than servers do.
func (e *examination) listens(ctx context.Context, second *pgx.Conn) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if _, err := second.Exec(ctx, `listen postrider_doctor`); err != nil {
		return false, err
	}
	if _, err := e.conn.Exec(ctx, `notify postrider_doctor`); err != nil {
		return false, err
	}
	n, err := second.WaitForNotification(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return false, nil
	}
	return err == nil && n.Channel == "postrider_doctor", err
}

// isLocal reports whether an address belongs to this machine.
func isLocal(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return !ok || tcp.IP.IsLoopback()
}

// messageSQL writes a message into the log and stores no row. Its commit waits for the disk, like
// a commit of a server.
const messageSQL = `select set_config('synchronous_commit', 'on', true), pg_logical_emit_message(true, 'postrider doctor', '')`

// latencies measures round trips and commits.
func (e *examination) latencies(ctx context.Context) (err error) {
	e.found.RoundTrip, err = e.measure(ctx, `select 1`)
	if err != nil {
		return fmt.Errorf("measure the round trip: %w", err)
	}
	e.found.Commit, err = e.measure(ctx, messageSQL)
	if _, refused := errors.AsType[*pgconn.PgError](err); refused {
		e.found.CommitErr, err = err, nil
	}
	if err != nil {
		return fmt.Errorf("measure commits: %w", err)
	}
	return nil
}

// measured is the number of times that a latency is measured.
const measured = 20

// measure runs a statement measured times, and returns its latency.
func (e *examination) measure(ctx context.Context, statement string) (doctor.Latency, error) {
	var times []time.Duration
	for range measured {
		begun := time.Now()
		if _, err := e.conn.Exec(ctx, statement); err != nil {
			return doctor.Latency{}, err
		}
		times = append(times, time.Since(begun))
	}
	return doctor.LatencyOf(times), nil
}

// clock compares the clock of the database with the clock of this machine. It uses the reading that
// took the least time.
func (e *examination) clock(ctx context.Context) error {
	e.found.OffsetBound = time.Hour
	for range measured {
		var wall time.Time
		asked := time.Now()
		if err := e.conn.QueryRow(ctx, `select clock_timestamp()`).Scan(&wall); err != nil {
			return fmt.Errorf("read the clock: %w", err)
		}
		half := time.Since(asked) / 2
		if half < e.found.OffsetBound {
			e.found.Offset, e.found.OffsetBound = wall.Sub(asked.Add(half)), half
		}
	}
	return nil
}

// Sealed reads the encryption keys and the encrypted values of a database. It writes nothing, and
// does not create or change tables.
type Sealed struct{ store *Store }

// OpenSealed connects to the database that dsn names. Its tables must exist.
func OpenSealed(ctx context.Context, dsn string) (*Sealed, error) {
	config, err := parse(dsn)
	if err != nil {
		return nil, fmt.Errorf("read encrypted values: %w", err)
	}
	config.MaxConns = 1
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("read encrypted values: %w", fault(err))
	}
	s := &Store{pool: pool, reads: pool}
	s.Verbs = sqlstore.New(cold{s}, nil)
	return &Sealed{s}, nil
}

// Keyring is part of [store.Encryption].
func (s *Sealed) Keyring(ctx context.Context) ([]byte, error) { return s.store.Keyring(ctx) }

// EncryptedValues is part of [store.Encryption].
func (s *Sealed) EncryptedValues(ctx context.Context, after store.EncryptedID, limit int) ([]store.EncryptedValue, error) {
	return s.store.EncryptedValues(ctx, after, limit)
}

// Sources is part of [store.Sources].
func (s *Sealed) Sources(ctx context.Context) ([]postrider.Source, error) {
	return s.store.Sources(ctx)
}

// Close closes the connection.
func (s *Sealed) Close() error { return s.store.Close() }
