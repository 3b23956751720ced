package postgres_test

import (
	"os"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/postrider/postrider/internal/doctor"
	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/testkit"
)

// statuses returns the checks of a database that are not ok, by name.
func statuses(t *testing.T, dsn string) (map[string]doctor.Status, doctor.Postgres) {
	t.Helper()
	found, err := postgres.Examine(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	list := map[string]doctor.Status{}
	for _, c := range found.Checks() {
		if c.Status != doctor.OK {
			list[string(c.Name)] = c.Status
		}
	}
	// These depend on the speed of the test's disk, and on the shared cluster.
	for _, name := range []doctor.Name{doctor.RoundTrip, doctor.CommitLatency} {
		delete(list, string(name))
	}
	return list, found
}

// throwaway starts a cluster with its own settings.
func throwaway(t *testing.T, settings ...string) *testkit.Cluster {
	t.Helper()
	cluster, err := testkit.StartPostgres("", settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}
	})
	return cluster
}

// A database that is set up as in docs/operate/README.md has no findings. A database in which
// everything is wrong has every finding.
func TestExamineADatabaseOfItsOwn(t *testing.T) {
	t.Parallel()
	good := throwaway(t, "max_wal_size=4GB", "min_wal_size=1GB", "shared_buffers=1GB")
	dsn, err := good.Database(t.Context(), "good", postgres.Migrate)
	if err != nil {
		t.Fatal(err)
	}
	list, found := statuses(t, dsn)
	if len(list) > 0 {
		t.Errorf("a good database has %v", list)
	}
	if found.Version == "" || found.Role != "postgres" || found.Tables.Has != found.Tables.Knows || found.Tables.Knows == 0 ||
		found.Endpoints != 0 ||
		found.Size == 0 || found.Connections.PerNode != 18 || found.Commit.Median <= 0 || found.RoundTrip.Median <= 0 {
		t.Errorf("Examine = %+v", found)
	}
	if stat, err := os.Stat(found.DataDirectory); err != nil || !stat.IsDir() {
		t.Errorf("the data directory is %q: %v", found.DataDirectory, err)
	}

	bad := throwaway(t, "max_wal_size=64MB", "min_wal_size=32MB", "max_connections=16", "fsync=off", "full_page_writes=off",
		"synchronous_commit=off", "lock_timeout=5ms", "idle_session_timeout=3s")
	list, _ = statuses(t, bad.DSN("postgres"))
	want := map[string]doctor.Status{
		"database.fsync": doctor.Fail, "database.full_page_writes": doctor.Fail, "database.synchronous_commit": doctor.Fail,
		"database.connections": doctor.Fail, "database.max_wal_size": doctor.Warn, "database.min_wal_size": doctor.Warn,
		"database.shared_buffers": doctor.Warn, "database.timeouts": doctor.Warn,
	}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("a bad database (-want +got):\n%s", diff)
	}
}

// Examine leaves no row, no table and no setting behind, and names the source of a setting.
func TestExamineLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dsn, err := testkit.SharedCluster(t).Database(t.Context(), "empty", nil)
	if err != nil {
		t.Fatal(err)
	}
	own := connect(t, dsn)
	const everything = `select (select count(*) from pg_class), (select count(*) from pg_largeobject_metadata), (select count(*) from pg_listening_channels())`
	var before, after [3]int
	if err := own.QueryRow(t.Context(), everything).Scan(&before[0], &before[1], &before[2]); err != nil {
		t.Fatal(err)
	}
	if _, err := own.Exec(t.Context(), `alter database `+path.Base(strings.Split(dsn, "?")[0])+` set synchronous_commit = off`); err != nil {
		t.Fatal(err)
	}
	list, found := statuses(t, dsn)
	if list["database.synchronous_commit"] != doctor.Fail || found.Settings["synchronous_commit"].Source != "database" {
		t.Errorf("synchronous_commit = %+v", found.Settings["synchronous_commit"])
	}
	if found.Tables.Has != 0 || found.Endpoints != -1 || list["database.migrations"] != "" {
		t.Errorf("an empty database: %+v", found.Tables)
	}
	if err := own.QueryRow(t.Context(), everything).Scan(&after[0], &after[1], &after[2]); err != nil {
		t.Fatal(err)
	}
	if before != after {
		t.Errorf("before %v, after %v", before, after)
	}
}

// A separate role gets one finding after the other, in the order in which its missing rights can
// be granted.
func TestExamineTheRightsOfARole(t *testing.T) {
	t.Parallel()
	cluster := throwaway(t)
	dsn, err := cluster.Database(t.Context(), "rights", postgres.Migrate)
	if err != nil {
		t.Fatal(err)
	}
	admin := connect(t, dsn)
	role := strings.Replace(dsn, "postgres@", "weak@", 1)
	for _, step := range []struct {
		grant string
		want  string // a part of the finding; empty: the check is ok
	}{
		{"create role weak login", "may not create tables"},
		{"grant create on schema public to weak", "does not own"},
		{"grant select on all tables in schema public to weak", "does not own"},
		{"alter role weak connection limit 3", "does not own"},
		{"grant postgres to weak", ""},
	} {
		if _, err := admin.Exec(t.Context(), step.grant); err != nil {
			t.Fatal(err)
		}
		_, found := statuses(t, role)
		for _, c := range found.Checks() {
			if c.Name == doctor.Permissions && (c.Status == doctor.OK) != (step.want == "") || c.Name == doctor.Permissions &&
				!strings.Contains(c.Found, step.want) {
				t.Errorf("after %q: %+v, want %q", step.grant, c, step.want)
			}
		}
		if found.DataDirectory != "" && step.want != "" {
			t.Errorf("after %q the role may read %s", step.grant, found.DataDirectory)
		}
		if limited := strings.Contains(step.grant, "limit"); limited && found.Connections.RoleLimit != 3 {
			t.Errorf("the limit of the role is %d", found.Connections.RoleLimit)
		}
	}
	for _, step := range []string{"revoke postgres from weak", "grant create on schema public to weak"} {
		if _, err := admin.Exec(t.Context(), step); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.Exec(t.Context(), "revoke all on all tables in schema public from weak"); err != nil {
		t.Fatal(err)
	}
	if list, found := statuses(t, role); list["database.permissions"] != doctor.Fail || found.Tables.Has != 0 || len(found.Denied) == 0 {
		t.Errorf("without rights: %v, %+v", list, found.Denied)
	}
}

// This test runs a PgBouncer in each of its modes, as users set it up.
func TestExaminePoolers(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	for _, tt := range []struct {
		mode, ignore, url string
		want              doctor.Pooler
	}{
		{"transaction", "", "", doctor.Pooler{Pooled: true, Shared: true}},
		{"session", "", "", doctor.Pooler{Pooled: true, Listens: true}},
		{"session", "", "&geqo=off", doctor.Pooler{Pooled: true, Refused: "unsupported startup parameter", Listens: true}},
		{"session", "plan_cache_mode,synchronous_commit", "", doctor.Pooler{Pooled: true, Listens: true}},
	} {
		pooled := testkit.PgBouncer(t, dsn, "pool_mode = "+tt.mode+"\nignore_startup_parameters = "+tt.ignore)
		found, err := postgres.Examine(t.Context(), pooled+tt.url)
		if err != nil {
			t.Errorf("%s mode, ignoring %q: %v", tt.mode, tt.ignore, err)
			continue
		}
		got := found.Pooler
		if got.Refused != "" && strings.Contains(got.Refused, tt.want.Refused) {
			got.Refused = tt.want.Refused
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s mode, ignoring %q (-want +got):\n%s", tt.mode, tt.ignore, diff)
		}
		if found.DataDirectory != "" {
			t.Errorf("%s mode: the disk of the pooler's machine is not that of the database", tt.mode)
		}
	}
}

// Behind a PgBouncer in session mode with its default settings, a server works. It has the plans
// that it needs, and the setting that protects commits.
func TestASessionPoolerKeepsThePlansAndTheGuard(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s := newShop(t, testkit.PgBouncer(t, dsn, "pool_mode = session"))
	if _, err := s.Publish(t.Context(), store.Publish{Version: 1, Batches: []store.Batch{s.batch(10, 1)}}); err != nil {
		t.Errorf("a publish through the pooler: %v", err)
	}
	for name, want := range map[string]string{
		"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "synchronous_commit": "on", "statement_timeout": "30s",
		"TimeZone": "UTC",
	} {
		if got, err := s.Setting(t.Context(), name); err != nil || got != want {
			t.Errorf("%s = %q, %v, want %q", name, got, err, want)
		}
	}
}

// The session of this test uses a function in place of the server's clock, which returns a wrong
// time.
func TestExamineTheClock(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	if _, err := connect(t, dsn).PgConn().Exec(t.Context(), skewSQL+`; update skew.ahead set ahead = '-6 minutes'`).ReadAll(); err != nil {
		t.Fatal(err)
	}
	list, found := statuses(t, dsn+"&search_path=public,skew,pg_catalog")
	if list["database.clock"] != doctor.Fail || (found.Offset+6*time.Minute).Abs() > 10*time.Second {
		t.Errorf("the offset is %s ± %s: %v", found.Offset, found.OffsetBound, list)
	}
}

func TestSealedReadsTheKeyring(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	if _, err := openAt(t, dsn).SwapKeyring(t.Context(), nil, []byte("a key")); err != nil {
		t.Fatal(err)
	}
	sealed, err := postgres.OpenSealed(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	key, err := sealed.Keyring(t.Context())
	if err != nil || string(key) != "a key" {
		t.Errorf("Keyring = %q, %v", key, err)
	}
	if values, err := sealed.EncryptedValues(t.Context(), store.EncryptedID{}, 1); err != nil || len(values) != 0 {
		t.Errorf("EncryptedValues = %v, %v", values, err)
	}
	if err := sealed.Close(); err != nil {
		t.Error(err)
	}
}
