package doctor_test

import (
	"errors"
	"testing"
	"time"

	"github.com/postrider/postrider/internal/doctor"
)

// healthy returns a database for which every check is ok.
func healthy() doctor.Postgres {
	file := func(value string, number int64) doctor.Setting {
		return doctor.Setting{Value: value, Number: number, Source: "configuration file"}
	}
	return doctor.Postgres{
		Version: "15.18", Major: 15, Oldest: 15, Newest: 18, Role: "postrider", Database: "hooks", Schema: "public", MayCreate: true,
		Settings: map[string]doctor.Setting{
			"fsync": file("on", 0), "full_page_writes": file("on", 0), "synchronous_commit": file("on", 0), "synchronous_standby_names": file("", 0),
			"min_wal_size": file("1GB", 1<<30), "max_wal_size": file("4GB", 4<<30), "shared_buffers": file("1GB", 1<<30),
			"max_connections": file("100", 100), "statement_timeout": {Value: "30s", Number: 30_000, Source: "client"},
		},
		Connections: doctor.Connections{Max: 100, Reserved: 3, RoleLimit: -1, DatabaseLimit: -1, Others: 10, Nodes: 2, PerNode: 18},
		Pooler:      doctor.Pooler{Listens: true},
		RoundTrip:   doctor.Latency{Median: 500 * time.Microsecond, Longest: 3 * time.Millisecond},
		Commit:      doctor.Latency{Median: 4 * time.Millisecond, Longest: 9 * time.Millisecond},
		Tables:      doctor.Migrations{Has: 3, Knows: 3},
	}
}

func TestAHealthyDatabaseHasNoFindings(t *testing.T) {
	t.Parallel()
	for _, c := range healthy().Checks() {
		if c.Status != doctor.OK {
			t.Errorf("%s is %s: %s", c.Name, c.Status, c.Found)
		}
	}
}

func set(p *doctor.Postgres, name, value string, number int64) {
	p.Settings[name] = doctor.Setting{Value: value, Number: number, Source: p.Settings[name].Source}
}

// lazy sets synchronous_commit to off, with the source.
func lazy(p *doctor.Postgres, source string) {
	p.Settings["synchronous_commit"] = doctor.Setting{Value: "off", Source: source}
}

func TestDatabases(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*doctor.Postgres)
		check  doctor.Name
		want   judged
	}{
		"an old version":        {func(p *doctor.Postgres) { p.Major, p.Version = 14, "14.1" }, doctor.Version, judged{doctor.Fail, "14.1", "upgrade"}},
		"another version":       {func(p *doctor.Postgres) { p.Major = 19 }, doctor.Version, judged{doctor.Warn, "tested with 15 to 18", ""}},
		"no schema":             {func(p *doctor.Postgres) { p.Schema = "" }, doctor.Permissions, judged{doctor.Fail, "search_path", "create schema"}},
		"no right to make":      {func(p *doctor.Postgres) { p.MayCreate = false }, doctor.Permissions, judged{doctor.Fail, "may not create", `grant usage, create on schema "public" to "postrider";`}},
		"another owner":         {func(p *doctor.Postgres) { p.NotOwned = []string{"events", "a", "b", "c"} }, doctor.Permissions, judged{doctor.Fail, "events, a, b and 1 more", `alter table events owner to "postrider"`}},
		"a denied right":        {func(p *doctor.Postgres) { p.Denied = []string{"insert on events"} }, doctor.Permissions, judged{doctor.Fail, "insert on events", "grant all"}},
		"no fsync":              {func(p *doctor.Postgres) { set(p, "fsync", "off", 0) }, doctor.Fsync, judged{doctor.Fail, "corrupts", "alter system set fsync = 'on'; select pg_reload_conf();"}},
		"torn pages":            {func(p *doctor.Postgres) { set(p, "full_page_writes", "off", 0) }, doctor.FullPageWrites, judged{doctor.Fail, "tear", "full_page_writes = 'on'"}},
		"lazy commits":          {func(p *doctor.Postgres) { set(p, "synchronous_commit", "off", 0) }, doctor.SynchronousCommit, judged{doctor.Fail, "loses events", "alter system"}},
		"lazy for the role":     {func(p *doctor.Postgres) { lazy(p, "user") }, doctor.SynchronousCommit, judged{doctor.Fail, "", `alter role "postrider" set synchronous_commit = 'on'`}},
		"lazy here":             {func(p *doctor.Postgres) { lazy(p, "database") }, doctor.SynchronousCommit, judged{doctor.Fail, "", `alter database "hooks" set`}},
		"lazy for both":         {func(p *doctor.Postgres) { lazy(p, "database user") }, doctor.SynchronousCommit, judged{doctor.Fail, "", `in database "hooks"`}},
		"lazy by the URL":       {func(p *doctor.Postgres) { lazy(p, "client") }, doctor.SynchronousCommit, judged{doctor.Fail, "", "database URL"}},
		"lazy by a flag":        {func(p *doctor.Postgres) { p.Settings["fsync"] = doctor.Setting{Value: "off", Source: "command line"} }, doctor.Fsync, judged{doctor.Fail, "", "command line of PostgreSQL"}},
		"an asynchronous one":   {func(p *doctor.Postgres) { p.Standbys = 1 }, doctor.SynchronousCommit, judged{doctor.Warn, "no standby is synchronous", "synchronous_standby_names"}},
		"a standby":             {func(p *doctor.Postgres) { set(p, "synchronous_standby_names", "two", 0) }, doctor.SynchronousCommit, judged{doctor.OK, "standbys: two", ""}},
		"a small log":           {func(p *doctor.Postgres) { set(p, "max_wal_size", "1GB", 1<<30) }, doctor.MaxWALSize, judged{doctor.Warn, "less than 4 GB", "max_wal_size = '4GB'"}},
		"a log that shrinks":    {func(p *doctor.Postgres) { set(p, "min_wal_size", "80MB", 80<<20) }, doctor.MinWALSize, judged{doctor.Warn, "80MB", "min_wal_size = '1GB'"}},
		"small buffers":         {func(p *doctor.Postgres) { set(p, "shared_buffers", "128MB", 128<<20) }, doctor.SharedBuffers, judged{doctor.Warn, "128MB", "restart PostgreSQL"}},
		"few connections":       {func(p *doctor.Postgres) { p.Connections.Max = 30 }, doctor.ConnectionLimit, judged{doctor.Fail, "17 are left; 2 servers need 36", "max_connections = '50'"}},
		"others are many":       {func(p *doctor.Postgres) { p.Connections.Others = 90 }, doctor.ConnectionLimit, judged{doctor.Fail, "7 are left", "max_connections = '150'"}},
		"a limit of the role":   {func(p *doctor.Postgres) { p.Connections.RoleLimit = 10 }, doctor.ConnectionLimit, judged{doctor.Fail, "limited to 10", `alter role "postrider" connection limit 72;`}},
		"a limit of the place":  {func(p *doctor.Postgres) { p.Connections.DatabaseLimit = 35 }, doctor.ConnectionLimit, judged{doctor.Fail, "limited to 35", `alter database "hooks" connection limit`}},
		"a refusing pooler":     {func(p *doctor.Postgres) { p.Pooler.Refused = "unsupported startup parameter: jit" }, doctor.PoolerMode, judged{doctor.Fail, "jit", "directly"}},
		"a pooler that shares":  {func(p *doctor.Postgres) { p.Pooler = doctor.Pooler{Pooled: true, Shared: true} }, doctor.PoolerMode, judged{doctor.Fail, "transaction mode", "pool_mode = session"}},
		"a pooler that ignores": {func(p *doctor.Postgres) { p.Pooler = doctor.Pooler{Pooled: true, Ignored: []string{"jit"}} }, doctor.PoolerMode, judged{doctor.Fail, "jit", "directly"}},
		"a pooler of sessions":  {func(p *doctor.Postgres) { p.Pooler = doctor.Pooler{Pooled: true, Listens: true} }, doctor.PoolerMode, judged{doctor.Warn, "5 to 10 s", "directly"}},
		"nothing is heard":      {func(p *doctor.Postgres) { p.Pooler.Listens = false }, doctor.Listen, judged{doctor.Warn, "a second later", "--poll-only"}},
		"nothing can be said":   {func(p *doctor.Postgres) { p.Pooler = doctor.Pooler{ListenErr: errors.New("no")} }, doctor.Listen, judged{doctor.Warn, "no", "--poll-only"}},
		"nobody listens":        {func(p *doctor.Postgres) { p.Pooler = doctor.Pooler{PollOnly: true} }, doctor.Listen, judged{doctor.OK, "--poll-only", ""}},
		"short statements":      {func(p *doctor.Postgres) { set(p, "statement_timeout", "1s", 1000) }, doctor.Timeouts, judged{doctor.Warn, "statement_timeout = 1s", "database URL"}},
		"short idle": {func(p *doctor.Postgres) {
			p.Settings["idle_in_transaction_session_timeout"] = doctor.Setting{Value: "5ms", Number: 5, Source: "user"}
			p.Settings["idle_session_timeout"] = doctor.Setting{Value: "5s", Number: 5000, Source: "configuration file"}
		}, doctor.Timeouts, judged{doctor.Warn, "idle_in_transaction_session_timeout = 5ms, idle_session_timeout = 5s", "idle_in_transaction_session_timeout = '2s'"}},
		"no time-out": {func(p *doctor.Postgres) { set(p, "statement_timeout", "0", 0) }, doctor.Timeouts, judged{doctor.OK, "", ""}},
		"far away":    {func(p *doctor.Postgres) { p.RoundTrip.Median = 20 * time.Millisecond }, doctor.RoundTrip, judged{doctor.Warn, "20ms", "same zone"}},
		"a slow disk": {func(p *doctor.Postgres) { p.Commit.Median = 60 * time.Millisecond }, doctor.CommitLatency, judged{doctor.Warn, "60ms", "faster disk"}},
		"far, not slow": {func(p *doctor.Postgres) {
			p.RoundTrip.Median, p.Commit.Median = 58*time.Millisecond, 60*time.Millisecond
		}, doctor.CommitLatency, judged{doctor.OK, "take 2ms", ""}},
		"not measured":       {func(p *doctor.Postgres) { p.CommitErr = errors.New("denied") }, doctor.CommitLatency, judged{doctor.Warn, "denied", "grant execute"}},
		"a clock ahead":      {func(p *doctor.Postgres) { p.Offset = 31 * time.Second }, doctor.DatabaseClock, judged{doctor.Warn, "31s ahead", "NTP"}},
		"a clock behind":     {func(p *doctor.Postgres) { p.Offset = -6 * time.Minute }, doctor.DatabaseClock, judged{doctor.Fail, "6m0s behind", "NTP"}},
		"a newer program":    {func(p *doctor.Postgres) { p.Tables.Has = 4 }, doctor.DatabaseTables, judged{doctor.Fail, "version 4", "install"}},
		"an older program":   {func(p *doctor.Postgres) { p.Tables.Has = 2 }, doctor.DatabaseTables, judged{doctor.Warn, "version 2", "backup"}},
		"no tables":          {func(p *doctor.Postgres) { p.Tables.Has = 0 }, doctor.DatabaseTables, judged{doctor.OK, "no tables yet", ""}},
		"a role with a dash": {func(p *doctor.Postgres) { p.MayCreate, p.Role = false, `we"ird-role` }, doctor.Permissions, judged{doctor.Fail, "", `to "we""ird-role";`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := healthy()
			tt.change(&p)
			expect(t, pick(t, p.Checks(), tt.check), tt.want)
		})
	}
}
