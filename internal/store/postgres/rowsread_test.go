package postgres

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/postrider/postrider/internal/store"
	"github.com/postrider/postrider/internal/store/storetest"
	"github.com/postrider/postrider/internal/testkit"
)

var dialect = storetest.Dialect{
	ID:      `(lpad(to_hex(@base + ($2)), 12, '0') || to_hex(28672 + $1) || '8' || lpad(to_hex($2), 15, '0'))::uuid`,
	Literal: `'$1'::uuid`,
	Hash:    `decode(lpad(to_hex($1), 64, '0'), 'hex')`,
	Rows:    `generate_series(1, $1) i`,
	Bytes:   `'\x$1'::bytea`,
	Texts:   `'{$1}'`,
}

// node is a node of a plan.
type node struct {
	Type    string  `json:"Node Type"`
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Filter  float64 `json:"Rows Removed by Filter"`
	Join    float64 `json:"Rows Removed by Join Filter"`
	Recheck float64 `json:"Rows Removed by Index Recheck"`
	Plans   []node
}

// read returns the number of rows that the scans of a plan read from tables and indexes. Rows
// that are looked up for others, one at a time, are not counted.
func (n node) read() (rows float64) {
	switch n.Type {
	case "Index Scan", "Index Only Scan", "Seq Scan", "Bitmap Heap Scan":
		if n.Loops <= 1 || n.Rows > 1 {
			rows = n.Rows * n.Loops
		}
		rows += (n.Filter + n.Recheck) * n.Loops
	}
	for _, child := range n.Plans {
		rows += child.read()
	}
	return rows
}

// planned is the plan of a statement that was run.
type planned struct {
	Text string `json:"Query Text"`
	Plan node
}

// explaining opens a store whose sessions report the plan of each statement that they run, to
// heard.
func explaining(t *testing.T, dsn string, heard func(planned)) *Store {
	t.Helper()
	s, err := Open(t.Context(), dsn, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.pool.Close()
	s.reads.Close()
	config, err := parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	params := map[string]string{}
	setParams(params)
	setAfterConnect(config.ConnConfig, params)
	maps.Copy(config.ConnConfig.RuntimeParams, map[string]string{
		"session_preload_libraries": "auto_explain", "auto_explain.log_min_duration": "0", "auto_explain.log_analyze": "on",
		"auto_explain.log_timing": "off", "auto_explain.log_format": "json", "auto_explain.log_level": "notice",
	})
	config.ConnConfig.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		var p planned
		if _, text, ok := strings.Cut(n.Message, "plan:\n"); !ok {
			return
		} else if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Error(err)
		}
		heard(p)
	}
	if err := s.connect(t.Context(), config, defaultConns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// mayThrowAway has the readings that may throw away more rows, besides those of all stores.
var mayThrowAway = []storetest.Excess{
	{Verbs: "RestoredRecords", Of: "and endpoint =", Most: 2_000, Why: "few records are restored, so an endpoint has no index"},
}

func TestRowsRead(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t, Migrate)
	var worst planned
	thrown := func(p planned) int { return int(p.Plan.read() - p.Plan.Rows) }
	s := explaining(t, dsn, func(p planned) { // called while a reading waits for its rows
		if thrown(p) > thrown(worst) {
			worst = p
		}
	})
	base := time.Now()
	// Readings also calls verbs that write, so it comes before the rows.
	readings := storetest.Readings(t, s, cold{s}, storetest.Pages{Base: base, Size: store.DefaultLimit})
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	fill := "set synchronous_commit = off; " + storetest.Crowd(dialect, base)
	if _, err := conn.PgConn().Exec(t.Context(), fill).ReadAll(); err != nil {
		t.Fatal(err)
	}
	measure := func(t *testing.T, r storetest.Reading) (int, string) {
		t.Helper()
		worst = planned{}
		if _, err := r.Read(t.Context()); err != nil {
			t.Errorf("%s, %s: %v", r.Verb, r.Of, err)
		}
		return thrown(worst), worst.Text
	}
	for _, r := range readings { // what-if reads these pages while the tables have no statistics yet
		if r.Verb != "Events" || strings.Contains(r.Of, "rare type") {
			continue
		}
		if rows, plan := measure(t, r); rows > store.DefaultLimit {
			t.Errorf("%s, %s, without statistics: %d rows are thrown away\n%s", r.Verb, r.Of, rows, plan)
		}
	}
	if _, err := conn.Exec(t.Context(), "analyze"); err != nil {
		t.Fatal(err)
	}
	storetest.RowsRead(t, readings, mayThrowAway, measure)
}
