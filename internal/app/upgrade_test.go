package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"github.com/postrider/postrider/apitypes"
	"github.com/postrider/postrider/client"
	"github.com/postrider/postrider/internal/store/postgres"
	"github.com/postrider/postrider/internal/testkit"
)

// program opens the store as a later program with a second migration does.
func program(t *testing.T, dsn, second string) {
	t.Helper()
	first, err := os.ReadFile("../store/postgres/migrations/0001_tables.sql")
	if err != nil {
		t.Fatal(err)
	}
	opened, err := postgres.Open(t.Context(), dsn, postgres.Options{Migrations: fstest.MapFS{
		"migrations/0001_tables.sql": {Data: first},
		"migrations/0002_more.sql":   {Data: []byte(second)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestNoServerLeavesReadinessInARollingUpgrade changes the tables under two servers that get
// publishes all the time, as the start of a newer server does.
func TestNoServerLeavesReadinessInARollingUpgrade(t *testing.T) {
	t.Parallel()
	dsn := testkit.Postgres(t, func(context.Context, string) error { return nil })
	receiver := testkit.NewReceiver(t, testkit.Status(http.StatusOK))
	dir, servers := t.TempDir(), []*running{nil, nil}
	for i := range servers {
		servers[i] = startWith(t, dir, map[string]string{"POSTRIDER_DATABASE_URL": dsn})
		eventually(t, "the server is ready", func() bool {
			status, _ := servers[i].ready(t)
			return status == http.StatusOK
		})
	}
	servers[0].subscribe(t, receiver.URL)

	var load sync.WaitGroup
	var accepted, looks atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	for _, s := range servers {
		load.Go(func() {
			for ctx.Err() == nil {
				_, err := s.api.Publish(t.Context(), apitypes.EventCreate{Account: "acme", Type: "order.created", Data: json.RawMessage(`{}`)})
				problem, busy := errors.AsType[*client.Error](err)
				switch {
				case err == nil:
					accepted.Add(1)
				case !busy || problem.RetryAfter == 0: // otherwise this machine is too slow
					t.Errorf("a publish during the upgrade: %v", err)
					return
				}
			}
		})
		load.Go(func() {
			for ctx.Err() == nil {
				if status, text := s.ready(t); strings.Contains(text, "tables") {
					t.Errorf("readyz during the upgrade = %d: %s", status, text)
					return
				}
				looks.Add(1)
			}
		})
	}
	under := func(publishes, answers int64) {
		eventually(t, "there is load", func() bool { return t.Failed() || accepted.Load() >= publishes && looks.Load() >= answers })
	}
	under(20, 4)
	program(t, dsn, "-- +goose Up\n-- oldest program beside: 1\nalter table accounts add column colour text not null default '';\n")
	under(accepted.Load()+20, looks.Load()+4)
	stop()
	load.Wait()

	// Tables beside which the servers must not run, and a table that heartbeats need.
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	for _, statement := range []string{`update tables_noted set oldest = 2`, `alter table nodes rename column host to machine`} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	servers[0].notReady(t, "must not run beside it: replace the server")
	servers[1].notReady(t, "this server serves no endpoint")
}
