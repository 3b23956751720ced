// Package outbox is the producer's side of a source: tables and functions in a producer's own PostgreSQL.
//
// A producer calls the function postrider.publish in its transaction, which adds a row to the table
// postrider.outbox. A reader takes the rows by [DB], publishes them, and moves them away.
//
// The package promises:
//
//   - [Install] makes or upgrades everything in one transaction. [Text] is the same as a script.
//   - [DB.Poll] returns each committed row exactly once to one [Window], also if its transaction commits
//     after rows with greater numbers were returned. It returns the rows of one ordering key in the order
//     of their commits. It looks at no row twice, so an old open transaction does not slow it down.
//   - A row that was written by hand never stops the others: it has a Fault.
//   - No error has a password.
//
// The files in sql are the schema. The function publish refuses what the API would refuse, with the same
// texts. What only the server knows, such as which accounts exist, is checked by the reader.
package outbox

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/postrider/postrider"
	"github.com/postrider/postrider/internal/egress"
)

// Config says how to reach the PostgreSQL of a producer.
type Config struct {
	// URL is postgres://user@host:port/database. Without the parameter sslmode it is verify-full.
	URL      string
	Password string // used if the URL has none
	CA       string // PEM of the certificates that sign the server's; empty: those of the system
	// Dial connects; nil: egress.DialOperator.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Table is a table of the producer's own, as of Source; nil: the tables of [Install].
	Table  *postrider.SourceTable
	Source postrider.SourceID
	// Local is for the commands of people: the environment, the files and the TLS of psql are used, too.
	Local bool
	// Warn is told what Install and Upgrade leave to be done; nil: nobody is.
	Warn func(text string)
}

// DB is the outbox of a producer. Its methods can be called by several goroutines.
type DB struct {
	pool *pgxpool.Pool
	own  *ownTable // nil: the tables of Install
}

const (
	connections    = 4
	connectTimeout = 5 * time.Second
)

// Open connects to an outbox and checks its version. The error is a [VersionError] if this program
// cannot work with it.
func Open(ctx context.Context, c Config) (*DB, error) {
	config, err := c.parse()
	if err != nil {
		return nil, fmt.Errorf("open the outbox: %w", err)
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open the outbox: %w", err)
	}
	db := &DB{pool: pool}
	if c.Table != nil {
		db.own, err = openTable(ctx, pool, c.Source, *c.Table)
	} else {
		err = checkVersion(ctx, pool)
	}
	if err != nil {
		pool.Close()
		return nil, fmt.Errorf("open the outbox: %w%s", err, advice(err, config.ConnConfig.Password != ""))
	}
	return db, nil
}

// advice returns what to do about an error of a connection, to be added to its text. It is empty if that is not known.
func advice(err error, password bool) string {
	refused, _ := errors.AsType[*pgconn.PgError](err)
	_, untrusted := errors.AsType[x509.UnknownAuthorityError](err)
	switch {
	case refused != nil && refused.Code == codePassword && !password:
		return "; no password was given"
	case untrusted:
		return "; give the certificates that sign that of the server, or let the URL have sslmode=require, which checks none"
	case strings.Contains(err.Error(), "server refused TLS connection"): // pgx has no type for it
		return "; the server has no TLS: set it up there, or let the URL have sslmode=disable if nobody can listen between"
	}
	return ""
}

// checkVersion returns a [VersionError] unless the outbox has the version of this program.
func checkVersion(ctx context.Context, pool *pgxpool.Pool) error {
	have, err := version(ctx, pool)
	if err == nil && have != Version {
		err = &VersionError{Have: have}
	}
	return err
}

// Close closes all connections.
func (db *DB) Close() { db.pool.Close() }

// VersionError says that a database has no outbox, or one of another version than [Version].
type VersionError struct{ Have int } // 0: none

// Error says what to run.
func (e *VersionError) Error() string {
	switch {
	case e.Have == 0:
		return "the database has no outbox: run postrider outbox install"
	case e.Have < Version:
		return fmt.Sprintf("the outbox has version %d, and this program needs %d: run postrider outbox upgrade", e.Have, Version)
	}
	return fmt.Sprintf("the outbox has version %d, and this program knows no later one than %d: use a newer Postrider", e.Have, Version)
}

// querier is a connection or a pool.
type querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// version returns the version of the outbox; 0: there is none.
func version(ctx context.Context, q querier) (have int, err error) {
	err = q.QueryRow(ctx, "select coalesce(max(version), 0) from postrider.outbox_version").Scan(&have)
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused) && (refused.Code == codeNoTable || refused.Code == codeNoSchema):
		return 0, nil
	case Denied(err):
		return 0, fmt.Errorf("the role has no right to read it; run in the database: grant postrider_reader to the role of the URL: %w", err)
	case err != nil:
		return 0, fmt.Errorf("read its version: %w", err)
	}
	return have, nil
}

// SQLSTATEs.
const (
	codeNoTable  = "42P01"
	codeNoSchema = "3F000"
	codeDenied   = "42501"
	codePassword = "28P01"
)

// Denied reports whether the database refused something because the role has no right to do it.
func Denied(err error) bool {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	return ok && refused.Code == codeDenied
}

// parameters are those that a URL may have. Others would read files of this machine.
var parameters = []string{
	"host", "port", "user", "dbname", "sslmode", "connect_timeout", "target_session_attrs", "application_name", "channel_binding",
	"require_auth",
}

// apart are values of parameters without which pgx would look into the environment and at files.
var apart = map[string]string{
	"port": "5432", "password": "", "passfile": "", "sslmode": "verify-full", "sslkey": "", "sslcert": "", "sslcertmode": "disable",
	"sslrootcert": "", "sslpassword": "", "sslsni": "1", "sslnegotiation": "", "target_session_attrs": "read-write",
	"connect_timeout": "5", "channel_binding": "prefer", "require_auth": "", "min_protocol_version": "", "max_protocol_version": "",
	"options": "", "timezone": "", "application_name": "postrider",
}

// parse returns the configuration of the pool. The password never gets into a text that an error could have.
func (c Config) parse() (*pgxpool.Config, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, errors.New("the URL must be like postgres://user@host:5432/database")
	}
	password, given := u.User.Password()
	if !given {
		password = c.Password
	}
	query := u.Query()
	if !c.Local {
		if err := checkURL(u, query); err != nil {
			return nil, err
		}
		for name, value := range apart {
			if !query.Has(name) && (name != "port" || u.Port() == "") {
				query.Set(name, value)
			}
		}
	}
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	u.RawQuery = query.Encode()
	config, err := pgxpool.ParseConfig(u.String())
	if err != nil {
		return nil, fmt.Errorf("read the URL: %w", err)
	}
	conn := config.ConnConfig
	if password != "" || !c.Local {
		conn.Password = password
	}
	conn.DialFunc = egress.DialOperator
	if c.Dial != nil {
		conn.DialFunc = c.Dial
	}
	conn.LookupFunc = func(_ context.Context, host string) ([]string, error) { return []string{host}, nil } // the dialer does it
	conn.ConnectTimeout = cmp.Or(conn.ConnectTimeout, connectTimeout)
	name := cmp.Or(conn.RuntimeParams["application_name"], "postrider")
	conn.RuntimeParams = map[string]string{"application_name": name, "client_encoding": "UTF8"}
	// A pooler gives each transaction another session, so no statement can be prepared.
	conn.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	config.MaxConns = connections
	// A ping before each poll would double what an idle reader asks. A dead connection ends a session all the same.
	config.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return false }
	return config, c.trust(conn, query.Get("sslmode"))
}

// checkURL refuses a URL that leaves out what pgx would look up in the environment, or that has a
// parameter that is not allowed.
func checkURL(u *url.URL, query url.Values) error {
	for name := range query {
		if !slices.Contains(parameters, name) {
			return fmt.Errorf("the URL must not have the parameter %q, only %s", name, strings.Join(parameters, ", "))
		}
	}
	if u.User.Username() == "" && query.Get("user") == "" || u.Hostname() == "" && query.Get("host") == "" ||
		strings.Trim(u.Path, "/") == "" && query.Get("dbname") == "" {
		return errors.New("the URL must have a user, a host and a database, like postgres://user@host:5432/database")
	}
	return nil
}

// trust sets the certificates that sign the server's.
func (c Config) trust(conn *pgx.ConnConfig, mode string) error {
	if c.CA == "" {
		return nil
	}
	if mode != "verify-full" && mode != "verify-ca" {
		return fmt.Errorf("with a CA, the parameter sslmode must be verify-full or verify-ca, not %q", mode)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(c.CA)) {
		return errors.New("the CA must be certificates in PEM")
	}
	if conn.TLSConfig != nil {
		conn.TLSConfig.RootCAs = pool
	}
	for _, other := range conn.Fallbacks {
		if other.TLSConfig != nil {
			other.TLSConfig.RootCAs = pool
		}
	}
	return nil
}

// Listen calls wake for each notification of the trigger that install --notify makes, until ctx ends. If
// there is no trigger, it returns nil at once.
func (db *DB) Listen(ctx context.Context, wake func()) error {
	if db.own != nil {
		return nil
	}
	held, err := db.pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("listen to the outbox: %w", err)
	}
	conn := held.Hijack() // a pool would give the session to others
	defer conn.Close(context.WithoutCancel(ctx))
	if on, err := notifies(ctx, conn); err != nil || !on {
		return err
	}
	if _, err := conn.Exec(ctx, "listen postrider_outbox"); err != nil {
		return fmt.Errorf("listen to the outbox: %w", err)
	}
	for {
		if _, err := conn.WaitForNotification(ctx); err != nil {
			if ctx.Err() != nil {
				return nil // the caller ended it
			}
			return fmt.Errorf("listen to the outbox: %w", err)
		}
		wake()
	}
}

// Notifies reports whether the outbox has the trigger that notifies.
func (db *DB) Notifies(ctx context.Context) (bool, error) { return notifies(ctx, db.pool) }

func notifies(ctx context.Context, q querier) (on bool, err error) {
	err = q.QueryRow(ctx, "select exists (select from pg_trigger where tgrelid = 'postrider.outbox'::regclass and tgname = 'outbox_tell')").Scan(&on)
	if err != nil {
		return false, fmt.Errorf("look for the trigger of the outbox: %w", err)
	}
	return on, nil
}
