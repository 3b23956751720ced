package doctor

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Postgres describes a PostgreSQL database, as a session of a server sees it.
type Postgres struct {
	Version string // of the database server, such as 15.18
	// Major is the major version of this server. Oldest and Newest are the oldest and the newest
	// that are tested.
	Major, Oldest, Newest  int
	Role, Database, Schema string // of the session; tables are created in Schema, empty: in none
	MayCreate              bool   // the role may create tables in Schema
	NotOwned               []string
	// Denied has the rights on existing tables that the role lacks, such as "insert on events".
	Denied              []string
	Settings            map[string]Setting
	Connections         Connections
	Pooler              Pooler
	RoundTrip, Commit   Latency
	CommitErr           error // why no commit was made; nil: Commit was measured
	Offset, OffsetBound time.Duration
	Tables              Migrations
	Endpoints           int // -1: unknown
	Size                int64
	Standbys            int    // connected standbys
	DataDirectory       string // on this machine; empty: elsewhere, or unreadable
}

// Setting is one setting of PostgreSQL, in effect for a session of a server.
type Setting struct {
	Value  string // as PostgreSQL shows it
	Number int64  // bytes or milliseconds; 0 for texts
	Source string // as in pg_settings
}

// Migrations compares the version of the tables with the version of this program.
type Migrations struct {
	Has   int64 // version in the database; 0: no tables yet
	Knows int64 // version of this program

	// Unlike says why the tables differ from those that this program makes for their version. Nil:
	// they are equal.
	Unlike error
}

// Connections has the numbers of connections that a database allows and has.
type Connections struct {
	Max           int // max_connections
	Reserved      int // for superusers and other roles with that right
	RoleLimit     int // -1: none
	DatabaseLimit int // -1: none
	Others        int // of other programs, now
	Nodes         int // servers that send heartbeats or will do so; at least 1
	PerNode       int // connections of one server
}

// Pooler describes the pooler between a server and the database, if there is one.
type Pooler struct {
	Pooled    bool     // the session's process number is not the backend's
	Shared    bool     // one session gets several backends: transaction mode
	Refused   string   // why the settings of a server's session were refused; empty: accepted
	Ignored   []string // settings of a server's session that have no effect
	Listens   bool     // a notification arrived
	ListenErr error    // why no notification could be sent; nil: one was sent
	PollOnly  bool     // --poll-only is set: notifications are not needed
}

// Checks judges the database. The checks are in the order of the report.
func (p Postgres) Checks() []Check {
	return slices.Concat(
		[]Check{p.version(), p.permissions(), p.Tables.check(DatabaseTables)},
		p.durability(),
		[]Check{
			p.atLeast(MinWALSize, "min_wal_size", 1<<30, "new log files delay commits by 20 to 70 ms each"),
			p.atLeast(MaxWALSize, "max_wal_size", 4<<30, "a busy server makes several checkpoints a minute, and the log grows"),
			p.atLeast(SharedBuffers, "shared_buffers", 1<<30, "more pages are read again from the disk"),
			p.connections(), p.Pooler.check(), p.Pooler.checkListen(), p.timeouts(), p.roundTrip(), p.commitLatency(),
			CheckClock(p.Offset, p.OffsetBound),
		},
	)
}

func (p Postgres) version() Check {
	switch {
	case p.Major < p.Oldest:
		return Failure(Version, "PostgreSQL %s; the oldest supported version is %d", p.Version, p.Oldest).
			Change("upgrade the database to PostgreSQL %d", p.Newest)
	case p.Major > p.Newest:
		return Warning(Version, "PostgreSQL %s; Postrider is tested with %d to %d", p.Version, p.Oldest, p.Newest).
			Change("use one of these, or try the upgrade with a copy of your data first")
	}
	return Okay(Version, "PostgreSQL %s", p.Version)
}

// permissions judges the role. A server inserts, updates and deletes rows. It also makes partitions
// every day, and only the owner of a table may do that.
func (p Postgres) permissions() Check {
	role := quoted(p.Role)
	switch {
	case p.Schema == "":
		return Failure(Permissions, "the role %s has no schema in its search_path that it may use", p.Role).
			Change("create schema postrider authorization %s; alter role %s set search_path = postrider;", role, role)
	case !p.MayCreate:
		return Failure(Permissions, "the role %s may not create tables in the schema %s, and makes partitions every day", p.Role, p.Schema).
			Change("grant usage, create on schema %s to %s;", quoted(p.Schema), role)
	case len(p.NotOwned) > 0:
		return Failure(Permissions, "the role %s does not own %s, so it cannot make partitions and migrate", p.Role, some(p.NotOwned)).
			Change("alter table %s owner to %s; and the same for each of the %d tables", p.NotOwned[0], role, len(p.NotOwned))
	case len(p.Denied) > 0:
		return Failure(Permissions, "the role %s may not %s", p.Role, some(p.Denied)).
			Change("grant all on all tables in schema %s to %s;", quoted(p.Schema), role)
	}
	return Okay(Permissions, "the role %s may create tables in the schema %s, and owns those of Postrider", p.Role, p.Schema)
}

// some returns the first three of the names, and the number of the others.
func some(names []string) string {
	const few = 3
	if len(names) <= few {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:few], ", "), len(names)-few)
}

// quoted returns a name as an SQL identifier.
func quoted(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// check judges the version of the tables.
func (m Migrations) check(name Name) Check {
	switch {
	case m.Has == 0:
		return Okay(name, "there are no tables yet; postrider serve or postrider migrate makes them, at version %d", m.Knows)
	case m.Has > m.Knows:
		return Failure(name, "the tables have version %d, and this program knows %d: a newer Postrider has changed them", m.Has, m.Knows).
			Change("install the Postrider that the other servers run; this one refuses the database")
	case m.Unlike != nil:
		return Failure(name, "%s", m.Unlike).
			Change("run the program that made the tables, or give this one an empty database or data folder; postrider serve refuses these tables and changes nothing")
	case m.Has < m.Knows:
		return Warning(name, "the tables have version %d, and this program has %d", m.Has, m.Knows).
			Change("make a backup; postrider migrate, or the next postrider serve, changes the tables")
	}
	return Okay(name, "the tables have version %d, which this program has, too", m.Has)
}

// durability judges the settings with which the database could lose acknowledged data. If one of
// them fails here, a server refuses to start.
func (p Postgres) durability() []Check {
	var checks []Check
	for _, s := range []struct {
		name        Name
		setting     string
		consequence string
	}{
		{Fsync, "fsync", "a crash of the machine corrupts the database"},
		{FullPageWrites, "full_page_writes", "a crash of the machine can tear pages that were acknowledged"},
		{SynchronousCommit, "synchronous_commit", "a crash of the database loses events that were acknowledged"},
	} {
		setting := p.Settings[s.setting]
		if setting.Value == "off" {
			checks = append(checks, Failure(s.name, "off: %s, so postrider serve refuses it", s.consequence).Change("%s", p.remedy(s.setting, "on")))
		} else {
			checks = append(checks, Okay(s.name, "%s", setting.Value))
		}
	}
	standbys := p.Settings["synchronous_standby_names"].Value
	switch last := &checks[len(checks)-1]; {
	case last.Status == OK && standbys != "":
		last.Found += "; synchronous standbys: " + standbys
	case last.Status == OK && p.Standbys > 0:
		*last = Warning(SynchronousCommit,
			"%s, but no standby is synchronous, and %d follow: a failover to one loses what was acknowledged last, "+
				"and events of an ordering key get sequences that receivers have seen", last.Found, p.Standbys).
			Change("%s", p.remedy("synchronous_standby_names", "NAMES OF THE STANDBYS"))
	}
	return checks
}

// atLeast judges a size for which docs/operate/README.md recommends a minimum.
func (p Postgres) atLeast(name Name, setting string, least int64, consequence string) Check {
	s := p.Settings[setting]
	if s.Number >= least {
		return Okay(name, "%s", s.Value)
	}
	return Warning(name, "%s, less than %s: %s", s.Value, size(least), consequence).
		Change("%s", p.remedy(setting, strings.ReplaceAll(size(least), " ", "")))
}

// restarted are the settings that need a restart of PostgreSQL.
var restarted = []string{"max_connections", "shared_buffers"}

// remedy returns the command that changes a setting at the place that its present value comes from.
// A value of the role or the database hides the value of the server.
func (p Postgres) remedy(setting, value string) string {
	role, database := quoted(p.Role), quoted(p.Database)
	switch p.Settings[setting].Source {
	case "client":
		return "remove " + setting + " from the database URL, where it is set"
	case "user":
		return fmt.Sprintf("alter role %s set %s = '%s'; its value is set for the role", role, setting, value)
	case "database":
		return fmt.Sprintf("alter database %s set %s = '%s'; its value is set for the database", database, setting, value)
	case "database user":
		return fmt.Sprintf("alter role %s in database %s set %s = '%s'; its value is set for both", role, database, setting, value)
	case "command line":
		return fmt.Sprintf("set %s = %s on the command line of PostgreSQL, where it is set, and restart PostgreSQL", setting, value)
	}
	if slices.Contains(restarted, setting) {
		return fmt.Sprintf("alter system set %s = '%s'; then restart PostgreSQL", setting, value)
	}
	return fmt.Sprintf("alter system set %s = '%s'; select pg_reload_conf();", setting, value)
}

// connections compares the connections that servers open with those that the database allows. A
// limit of the role or the database counts only for servers.
func (p Postgres) connections() Check {
	c := p.Connections
	need := c.Nodes * c.PerNode
	for _, limit := range []struct {
		n       int
		of, sql string
	}{
		{c.RoleLimit, "role " + p.Role, "alter role " + quoted(p.Role)},
		{c.DatabaseLimit, "database " + p.Database, "alter database " + quoted(p.Database)},
	} {
		if limit.n >= 0 && limit.n < need {
			return Failure(ConnectionLimit, "the %s is limited to %d connections; %s, and twice that during an upgrade", limit.of, limit.n,
				c.wanted()).
				Change("%s connection limit %d;", limit.sql, 2*need)
		}
	}
	free := c.Max - c.Reserved - c.Others
	found := fmt.Sprintf("max_connections is %d: %d are reserved, other programs have %d, %d are left; %s", c.Max, c.Reserved, c.Others,
		max(0, free), c.wanted())
	if free < need {
		return Failure(ConnectionLimit, "%s", found).Change("%s", p.remedy("max_connections", fmt.Sprint(roundUp(c.Max-free+need, 50))))
	}
	return Okay(ConnectionLimit, "%s", found)
}

// wanted says how many connections the servers open.
func (c Connections) wanted() string {
	return fmt.Sprintf("%s %d (%d each)", count(c.Nodes, "server needs", "servers need"), c.Nodes*c.PerNode, c.PerNode)
}

// roundUp returns the next multiple of step that is at least n.
func roundUp(n, step int) int { return (n + step - 1) / step * step }

// check judges the pooler.
func (p Pooler) check() Check {
	direct := "connect servers to PostgreSQL directly, or set pool_mode = session for this database in the pooler"
	switch {
	case p.Refused != "":
		return Failure(PoolerMode, "a pooler refuses the settings of Postrider's sessions: %s", p.Refused).
			Change("connect servers to PostgreSQL directly: a pooler that ignores these settings (ignore_startup_parameters) makes slow plans")
	case p.Shared:
		return Failure(PoolerMode,
			"a pooler in transaction mode: one session got several backends, so settings, prepared statements, locks and LISTEN are lost").
			Change("%s", direct)
	case len(p.Ignored) > 0:
		return Failure(PoolerMode, "a pooler ignores settings of Postrider's sessions: %s; without them plans read whole tables",
			some(p.Ignored)).
			Change("connect servers to PostgreSQL directly")
	case p.Pooled:
		return Warning(PoolerMode,
			"a pooler that keeps one backend for a session: servers see the death of another only after 5 to 10 s, by its heartbeats").
			Change("connect servers to PostgreSQL directly")
	}
	return Okay(PoolerMode, "none: the connection is direct, and its settings, locks and statements are kept")
}

// checkListen judges the wake-ups between servers, which use notifications.
func (p Pooler) checkListen() Check {
	switch {
	case p.Listens:
		return Okay(Listen, "a notification arrived")
	case p.PollOnly:
		return Okay(Listen, "no notification arrived; --poll-only needs none")
	case p.ListenErr != nil:
		return Warning(Listen, "no notification could be sent or heard: %s", p.ListenErr).
			Change("connect servers to PostgreSQL directly, or start them with --poll-only")
	}
	return Warning(Listen, "no notification arrived: events that another server accepted start up to a second later").
		Change("connect servers to PostgreSQL directly, or start them with --poll-only")
}

// The lowest allowed time-outs of PostgreSQL, in milliseconds. Statements of servers take
// milliseconds, and seconds after a failure.
const (
	leastStatement     = 10_000
	leastIdle          = 60_000
	leastInTransaction = 2_000
)

// timeouts judges the time-outs that could end sessions of servers at work. 0 means no time-out.
// Servers set the time-out of locks themselves.
func (p Postgres) timeouts() Check {
	var short, remedies []string
	for _, t := range []struct {
		setting string
		least   int64
	}{
		{"statement_timeout", leastStatement},
		{"transaction_timeout", leastStatement},
		{"idle_in_transaction_session_timeout", leastInTransaction},
		{"idle_session_timeout", leastIdle},
	} {
		if s := p.Settings[t.setting]; s.Number > 0 && s.Number < t.least {
			short = append(short, t.setting+" = "+s.Value)
			remedies = append(remedies, p.remedy(t.setting, fmt.Sprintf("%ds", t.least/1000)))
		}
	}
	if len(short) > 0 {
		return Warning(Timeouts, "%s: too short for sessions of servers, which are ended at work", strings.Join(short, ", ")).
			Change("%s", strings.Join(remedies, " "))
	}
	return Okay(Timeouts, "no time-out ends a session at work; statement_timeout = %s", p.Settings["statement_timeout"].Value)
}

func (p Postgres) roundTrip() Check {
	if p.RoundTrip.Median > slowRoundTrip {
		return Warning(RoundTrip, "%s from this machine to the database; every claim and every publish waits for several", p.RoundTrip).
			Change("run servers in the same zone as the database, less than %s away", slowRoundTrip)
	}
	return Okay(RoundTrip, "%s from this machine to the database", p.RoundTrip)
}

func (p Postgres) commitLatency() Check {
	if p.CommitErr != nil {
		return Warning(CommitLatency, "not measured: %s", p.CommitErr).
			Change("grant execute on function pg_logical_emit_message(boolean, text, text) to %s;", quoted(p.Role))
	}
	flush := max(0, p.Commit.Median-p.RoundTrip.Median)
	found := fmt.Sprintf("a commit takes %s, of which the disk and standbys take %s", p.Commit, shown(flush))
	if flush > slowSync {
		return Warning(CommitLatency, "%s: each publish waits for one commit, each attempt for another", found).
			Change("put PostgreSQL's log (pg_wal) on a faster disk; more than %s is slow", slowSync)
	}
	return Okay(CommitLatency, "%s", found)
}

// CheckClock judges the clock of this machine against the clock of the database. bound is the
// largest error of the measured offset.
func CheckClock(offset, bound time.Duration) Check {
	found := fmt.Sprintf("the clock of the database is %s ahead of this machine's (± %s)", shown(offset), shown(bound))
	if offset < 0 {
		found = fmt.Sprintf("the clock of the database is %s behind this machine's (± %s)", shown(-offset), shown(bound))
	}
	const remedy = "set both clocks by NTP, for example with chrony or systemd-timesyncd"
	switch {
	case offset.Abs() > ClockLimit:
		return Failure(DatabaseClock, "%s: a server is not ready above %s", found, ClockLimit).Change(remedy)
	case offset.Abs() > ClockWarned:
		return Warning(DatabaseClock, "%s", found).Change(remedy)
	}
	return Okay(DatabaseClock, "%s", found)
}

// Unseen is the check for a database whose disk cannot be seen from this machine. bytes is the size
// of the database.
func Unseen(bytes int64) Check {
	return Okay(DatabaseDisk, "the database has %s; its disk cannot be seen from here, so watch it there: 80 %% in use is the time to act",
		size(bytes))
}
