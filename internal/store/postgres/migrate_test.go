package postgres_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/testkit"
)

var update = flag.Bool("update", false, "rewrite schema.sql and the plans")

// golden compares got with a file, or rewrites the file.
func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s is out of date (-update rewrites it) (-want +got):\n%s", path, diff)
	}
}

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	return conn
}

func TestSchemaIsWhatMigrationsMake(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	dump := exec.CommandContext(t.Context(), testkit.SharedCluster(t).Bin("pg_dump"), "--schema-only", "--no-owner",
		"--exclude-table=events_2*", "--exclude-table=attempts_2*", "--exclude-table=attempt_bodies_2*", "--dbname="+dsn)
	var complaint bytes.Buffer
	dump.Stderr = &complaint
	schema, err := dump.Output()
	if err != nil {
		t.Fatalf("pg_dump: %v: %s", err, &complaint)
	}
	golden(t, "schema.sql", stripDump(string(schema)))
}

var (
	volatile   = regexp.MustCompile(`(?m)^(-- Dumped (from|by).*|-- (PostgreSQL database dump.*|Name: .*|)|--|SET .*|SELECT pg_catalog\.set_config.*|\\(un)?restrict .*)\n`)
	blankLines = regexp.MustCompile(`\n{3,}`)
)

// stripDump leaves out of a dump what says nothing of the schema.
func stripDump(dump string) string {
	dump = volatile.ReplaceAllString(dump, "")
	return strings.TrimSpace(blankLines.ReplaceAllString(dump, "\n\n")) + "\n"
}

func TestEveryTableAndIndexHasAComment(t *testing.T) {
	t.Parallel()
	rows, _ := connect(t, freshDSN(t)).Query(t.Context(), `
		select c.relname
		from pg_class c
		join pg_namespace n on n.oid = c.relnamespace
		where n.nspname = 'public' and c.relkind in ('r', 'p', 'i', 'I') and not c.relispartition
			and c.relname not like 'postrider_migrations%' and obj_description(c.oid, 'pg_class') is null
		order by 1`)
	bare, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(bare) > 0 {
		t.Errorf("without a comment: %v (%v)", bare, err)
	}
}

func TestMigrateInParallel(t *testing.T) {
	t.Parallel()
	dsn, err := testkit.SharedCluster(t).Database(t.Context(), "bare", nil)
	if err != nil {
		t.Fatal(err)
	}
	var nodes sync.WaitGroup
	for range 4 {
		nodes.Go(func() {
			if err := postgres.Migrate(t.Context(), dsn); err != nil {
				t.Error(err)
			}
		})
	}
	nodes.Wait()
	openAt(t, dsn)
}

func TestOpenRefusesANewerSchema(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	_, err := connect(t, dsn).Exec(t.Context(),
		`insert into postrider_migrations (version_id, is_applied) values (9999, true)`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := postgres.Open(t.Context(), dsn, postgres.Options{}); err == nil || !strings.Contains(err.Error(), "version 9999") {
		t.Errorf("Open = %v, want a refusal that names version 9999", err)
	}
}

func TestPartitionsReachFromYesterdayOverAWeek(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s, conn := openAt(t, dsn), connect(t, dsn)
	if _, err := conn.Exec(t.Context(), `drop table events_`+firstDay(t, conn)); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds nothing to do
		if err := s.MakePartitions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var partitions int
	err := conn.QueryRow(t.Context(), `select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where c.relkind = 'r'`).Scan(&partitions)
	if err != nil || partitions != 3*9 {
		t.Errorf("there are %d partitions (%v), want 9 of each of 3 tables", partitions, err)
	}
}

func firstDay(t *testing.T, conn *pgx.Conn) string {
	t.Helper()
	var day string
	err := conn.QueryRow(t.Context(), `select to_char((now() at time zone 'UTC')::date - 1, 'YYYYMMDD')`).Scan(&day)
	if err != nil {
		t.Fatal(err)
	}
	return day
}
