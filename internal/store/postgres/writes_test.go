package postgres_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/testkit"
)

// The four row writes are the event, the insert into the queue, the delete from the queue, and
// the attempt.
func TestADeliveryThatSucceedsAtOnceCostsFourRowWrites(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	s, conn := newShop(t, dsn), connect(t, dsn)
	const n, token = 50, 1<<32 | 1
	batch := s.batch(n, token)
	if _, err := s.Publish(t.Context(), store.Publish{Version: 1, Batches: []store.Batch{batch}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(t.Context(), s.settlements(batch, token)); err != nil {
		t.Fatal(err)
	}

	if err := s.Close(); err != nil { // sessions report their counts when they end
		t.Fatal(err)
	}

	want := map[string]int64{
		"events": n, "queue": 2 * n, "attempts": n, "rollup_deltas": 1,
		"accounts": 1, "endpoints": 1, "subscriptions": 1, "hold": 1, "search_terms": 4, // the rows of the shop itself
	}
	var got map[string]int64
	all := func(writes map[string]int64) (sum int64) {
		for _, n := range writes {
			sum += n
		}
		return sum
	}
	testkit.Eventually(t, "the server has counted", func() bool {
		got = rowWrites(t, conn)
		return all(got) >= all(want)
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row writes of %d deliveries (-want +got):\n%s", n, diff)
	}
}

// rowWrites returns the number of rows that were inserted, updated and deleted, by table.
// Partitions are counted with their parents.
func rowWrites(t *testing.T, conn *pgx.Conn) map[string]int64 {
	t.Helper()
	rows, _ := conn.Query(t.Context(), `
		select regexp_replace(relname, '_2\d+$', ''), sum(n_tup_ins + n_tup_upd + n_tup_del)::bigint
		from pg_stat_user_tables
		group by 1
		having sum(n_tup_ins + n_tup_upd + n_tup_del) > 0`)
	writes := map[string]int64{}
	var table string
	var n int64
	_, err := pgx.ForEachRow(rows, []any{&table, &n}, func() error {
		writes[table] = n
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return writes
}

// On a full disk the row of the probe still fits into its page, so the probe asks for space. In
// this test a limit of temporary files stands in for the disk.
func TestAProbeNeedsTheRoomThatItIsAskedFor(t *testing.T) {
	t.Parallel()
	dsn := freshDSN(t)
	conn := connect(t, dsn)
	limit := `alter role current_user in database ` + conn.Config().Database + ` set temp_file_limit = '512kB'`
	if _, err := conn.Exec(t.Context(), limit); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, dsn)
	if err := s.ProbeWrite(t.Context(), 0); err != nil {
		t.Errorf("a probe that needs none: %v", err)
	}
	if err := s.ProbeWrite(t.Context(), 256<<10); err != nil {
		t.Errorf("a probe that finds its room: %v", err)
	}
	if err := s.ProbeWrite(t.Context(), 1<<20); err == nil {
		t.Error("a probe that does not find its room succeeds")
	}
}
