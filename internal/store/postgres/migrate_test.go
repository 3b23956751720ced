package postgres_test

import (
	"flag"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/testkit"
)

var _ = flag.Bool("update", false, "rewrite the plans") // the tests inside the package read it

func connect(t testing.TB, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(t.Context()) })
	return conn
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
	for range 2 { // the second call finds nothing to do
		if err := s.MakePartitions(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var partitions int
	err := conn.QueryRow(t.Context(), `select count(*) from pg_inherits i join pg_class c on c.oid = i.inhrelid
		where c.relkind = 'r'`).Scan(&partitions)
	if err != nil || partitions != 4*9 {
		t.Errorf("there are %d partitions (%v), want 9 of each of 4 tables", partitions, err)
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
